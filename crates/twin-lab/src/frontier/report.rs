//! The frontier as a report: one picture for each workload, and all figures.

use super::FrontierPoint;
use twin_report::draw::{self, Chart, GREY, Line, nth};
use twin_report::table::{Cell, figure};
use twin_report::{Part, Report, Table, cells};

const MIB: f64 = (1 << 20) as f64;

/// The report on points of one or more workloads.
pub fn report(points: &[FrontierPoint]) -> Report {
    let mut workloads: Vec<&str> = Vec::new();
    for point in points {
        if !workloads.contains(&&*point.workload) {
            workloads.push(&point.workload);
        }
    }
    let mut report = Report::new("What flush policies lose, and what they write");
    report.on_page(
        "Each dot is a run under one flush policy with one age limit: bytes that clients had \
         written and recovery did not give back, on average over power failures at instants of the \
         run, against the bytes that the run wrote to the device. Less of both is better; the dashed \
         line joins the points that no other point beats in both, among policies that need no memory \
         that survives a power failure.",
    );
    report.on_page(workloads.iter().map(|name| picture(name, points)).collect::<Vec<_>>());
    report.on_page(Part::heading("All figures"));
    report.add(table(points));
    report.add_rows(points);
    report
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

/// A row for each point: bytes lost on average and at worst, bytes written, the device's time, latencies.
fn table(points: &[FrontierPoint]) -> Table {
    let columns = [
        "workload",
        "policy",
        "age s",
        "MiB lost",
        "worst",
        "MiB written",
        "device s",
        "p50 us",
        "p99 us",
        "frontier",
    ];
    let row = |p: &FrontierPoint| {
        cells![
            &p.workload,
            p.flush,
            p.age_s.map_or(Cell::default(), |age| age.to_string().into()),
            figure(p.lost_mean_bytes / MIB),
            figure(p.lost_worst_bytes as f64 / MIB),
            figure(p.written_bytes as f64 / MIB),
            figure(p.device_s),
            figure(p.p50_us),
            figure(p.p99_us),
            if p.on_frontier { "*" } else { "" },
        ]
    };
    Table::new(columns, 3).with(points.iter().map(row))
}
