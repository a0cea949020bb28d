//! The frontier as a report: one picture for each workload, and all figures.

use twin_report::draw::{self, Chart, GREY, Line, nth};
use twin_report::table::{Cell, figure};
use twin_report::units;
use twin_report::{Report, Table, cells};

use super::FrontierPoint;

const MIB: f64 = (1 << 20) as f64;

/// The report on points of one or more workloads.
pub fn report(points: &[FrontierPoint]) -> Report {
    let mut workloads: Vec<&str> = Vec::new();
    for point in points {
        if !workloads.contains(&&*point.workload) {
            workloads.push(&point.workload);
        }
    }
    let title = "What flush policies lose, and what they write";
    let mut report = Report::answer("frontier", title);
    report.set_verdict(verdict(&workloads, points), MEASURE);
    report.on_page(
        "Each dot is a run under one flush policy with one age limit: bytes that clients had \
         written and recovery did not give back, on average over power failures at instants of the \
         run, against the bytes that the run wrote to the device. Less of both is better; the dashed \
         line joins the points that no other point beats in both, among policies that need no memory \
         that survives a power failure.",
    );
    report.on_page(workloads.iter().map(|name| picture(name, points)).collect::<Vec<_>>());
    report.add(table(points));
    report.add_rows(points);
    report
}

const MEASURE: &str = "Measures: bytes that a power failure loses, on average, and bytes written to the device; \
    smaller is better.";

/// The most workloads that have a sentence of their own.
const SENTENCES: usize = 2;

/// For each workload the ends of its frontier, and how many choices are on it.
fn verdict(workloads: &[&str], points: &[FrontierPoint]) -> String {
    let mut lines: Vec<String> =
        workloads.iter().take(SENTENCES).map(|of| ends(of, points)).collect();
    match workloads.len().saturating_sub(SENTENCES) {
        0 => {}
        1 => lines.push("The table has one workload more.".into()),
        more => lines.push(format!("The table has {more} workloads more.")),
    }
    if lines.is_empty() {
        lines.push("No run came to its end.".into());
    }
    lines.join("\n")
}

/// A choice in words: `delayed at 30 s`.
fn choice(point: &FrontierPoint) -> String {
    point.age_s.map_or(point.flush.to_owned(), |age| format!("{} at {age} s", point.flush))
}

/// The choices of a workload that write and lose the least.
fn ends(workload: &str, points: &[FrontierPoint]) -> String {
    let all: Vec<&FrontierPoint> = points.iter().filter(|p| p.workload == workload).collect();
    let own: Vec<&&FrontierPoint> =
        all.iter().filter(|p| p.on_frontier && !p.memory_survives).collect();
    let costs = |p: &FrontierPoint| {
        let [lost, written] =
            [p.lost_mean_bytes, p.written_bytes as f64].map(|b| units::figure(b / MIB));
        (lost, written)
    };
    let writes = own.iter().min_by(|a, b| a.written_bytes.cmp(&b.written_bytes));
    let loses = own.iter().min_by(|a, b| a.lost_mean_bytes.total_cmp(&b.lost_mean_bytes));
    let (Some(writes), Some(loses)) = (writes, loses) else {
        return format!("{workload}: no choice does without memory that survives a power failure.");
    };
    let (lost, written) = costs(writes);
    let first = choice(writes);
    let same = |point: &&FrontierPoint| costs(point) == (lost.clone(), written.clone());
    if all.len() > 1 && all.iter().all(same) {
        return format!(
            "{workload}: all {} choices are alike: each loses {lost} MiB and writes {written} MiB. A longer run, or \
             ages further apart, may tell them apart.",
            all.len()
        );
    }
    if writes == loses {
        return format!(
            "{workload}: {first} loses the least, {lost} MiB, and writes the least, {written} MiB: of {} \
             choices no other beats it in either.",
            all.len()
        );
    }
    let (least_lost, its_written) = costs(loses);
    format!(
        "{workload}: {} loses the least, {least_lost} MiB, and writes {its_written} MiB; {first} writes the \
         least, {written} MiB, and loses {lost} MiB. Of {} choices {} are beaten by no other in both.",
        choice(loses),
        all.len(),
        own.len()
    )
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
    let chart = Chart { title: workload, y_label: "MiB lost, mean", log_y: false, marks: &[] };
    draw::fitted(&chart, &lines, "MiB written")
}

/// A row for each point: bytes lost on average and at worst, bytes written, the device's time, latencies.
fn table(points: &[FrontierPoint]) -> Table {
    let columns = [
        "workload",
        "flush",
        "age, s",
        "lost mean, MiB",
        "lost worst, MiB",
        "written, MiB",
        "device, s",
        "p50, us",
        "p99, us",
        "on frontier",
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
