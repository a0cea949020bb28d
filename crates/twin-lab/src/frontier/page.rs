//! The frontier as a self-contained page: one picture for each workload, and all figures.

use super::FrontierPoint;
use super::table::figures;
use twin_report::draw::{self, Chart, GREY, Line, nth};
use twin_report::markup::{charts, escape, page_of, table_of};

const MIB: f64 = (1 << 20) as f64;

/// The page of points of one or more workloads.
pub fn page(points: &[FrontierPoint]) -> String {
    let mut workloads: Vec<&str> = Vec::new();
    for point in points {
        if !workloads.contains(&&*point.workload) {
            workloads.push(&point.workload);
        }
    }
    let pictures: Vec<String> = workloads.iter().map(|name| picture(name, points)).collect();
    let mut body = String::from(
        "<p>Each dot is a run under one flush policy with one age limit: bytes that clients had \
         written and recovery did not give back, on average over power failures at instants of the \
         run, against the bytes that the run wrote to the device. Less of both is better; the dashed \
         line joins the points that no other point beats in both, among policies that need no memory \
         that survives a power failure.</p>",
    );
    body += &charts(&pictures);
    body += "<h2>All figures</h2>";
    body += &table_of(&rows(points));
    page_of("What flush policies lose, and what they write", &body)
}

/// Losses over bytes written, a line for each policy, and the frontier.
fn picture(workload: &str, points: &[FrontierPoint]) -> String {
    let of_it = || points.iter().filter(|point| point.workload == workload);
    let place = |p: &FrontierPoint| (p.written_bytes as f64 / MIB, p.lost_mean_bytes / MIB);
    let mut policies: Vec<&str> = Vec::new();
    for point in of_it() {
        if !policies.contains(&point.flush) {
            policies.push(point.flush);
        }
    }
    let sorted = |mut points: Vec<(f64, f64)>| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        points
    };
    let line = |(number, policy): (usize, &&str)| Line {
        name: (*policy).into(),
        colour: nth(number),
        paper: false,
        points: sorted(of_it().filter(|p| p.flush == *policy).map(place).collect()),
    };
    let mut lines: Vec<Line> = policies.iter().enumerate().map(line).collect();
    lines.push(Line {
        name: "frontier".into(),
        colour: GREY,
        paper: true,
        points: sorted(
            of_it().filter(|p| p.on_frontier && !p.memory_survives).map(place).collect(),
        ),
    });
    let chart = Chart { title: workload, y_label: "MiB lost", log_y: false, marks: &[] };
    draw::over_time(&chart, &lines, "MiB written")
}

fn rows(points: &[FrontierPoint]) -> Vec<Vec<String>> {
    let head = [
        "workload, policy, age",
        "MiB lost, mean",
        "worst",
        "MiB written",
        "device s",
        "p50 us",
        "p99 us",
        "frontier",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for p in points {
        let age = p.age_s.map_or(String::new(), |age| format!(", {age} s"));
        let mut cells = vec![escape(&format!("{}, {}{age}", p.workload, p.flush))];
        cells.extend(figures(p));
        cells.push(if p.on_frontier { "yes" } else { "" }.into());
        rows.push(cells);
    }
    rows
}
