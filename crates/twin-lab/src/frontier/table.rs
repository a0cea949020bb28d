//! The frontier as a table for people.

use super::FrontierPoint;
use twin_report::columns::in_width;
use twin_report::units::figure;

const MIB: f64 = (1 << 20) as f64;

/// A line for each point; columns that do not fit into `width` characters are in tables below.
pub fn table(points: &[FrontierPoint], width: Option<u16>) -> String {
    let header = [
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
    let header: Vec<String> = header.iter().map(|name| String::from(*name)).collect();
    let line = |p: &FrontierPoint| {
        let mut cells = vec![
            p.workload.clone(),
            p.flush.into(),
            p.age_s.map_or(String::new(), |age| format!("{age}")),
        ];
        cells.extend(figures(p));
        cells.push(if p.on_frontier { "*" } else { "" }.into());
        cells
    };
    let lines: Vec<Vec<String>> = points.iter().map(line).collect();
    in_width(&header, &lines, 3, width)
}

/// MiB lost on average and at worst, MiB written, seconds of the device, and latencies in microseconds.
pub(super) fn figures(p: &FrontierPoint) -> [String; 6] {
    let (lost, worst) = (p.lost_mean_bytes / MIB, p.lost_worst_bytes as f64 / MIB);
    [lost, worst, p.written_bytes as f64 / MIB, p.device_s, p.p50_us, p.p99_us].map(figure)
}
