//! The page of a study of caches: a verdict, miss-ratio curves, the disk's time, and all figures.

use super::{Row, bytes};
use twin_report::draw::{self, Chart, Line, nth};
use twin_report::markup::{charts, escape, page_of, table_of};

/// The policies in the order of the rows, each with its rows.
fn by_policy(rows: &[Row]) -> Vec<(&'static str, Vec<&Row>)> {
    let mut all: Vec<(&'static str, Vec<&Row>)> = Vec::new();
    for row in rows {
        match all.last_mut() {
            Some((name, rows)) if *name == row.policy => rows.push(row),
            _ => all.push((row.policy, vec![row])),
        }
    }
    all
}

/// The page. `title` names the trace; `offline` says of a policy that it knows the future, which makes it
/// the optimum unless the sizes of objects differ.
pub fn page(
    title: &str,
    rows: &[Row],
    offline: &dyn Fn(&str) -> bool,
    sizes_differ: bool,
) -> String {
    let policies = by_policy(rows);
    let curve = |label: &str, value: &dyn Fn(&Row) -> Option<f64>| {
        let lines: Vec<Line> = policies
            .iter()
            .enumerate()
            .map(|(number, (name, rows))| Line {
                name: (*name).to_owned(),
                colour: nth(number),
                paper: offline(name),
                points: rows
                    .iter()
                    .filter_map(|row| Some((row.size as f64 / 1024.0, value(row)?)))
                    .collect(),
            })
            .collect();
        let chart = Chart { title: label, y_label: label, log_y: false, marks: &[] };
        draw::lines(&chart, &lines, "size of the cache")
    };
    let mut drawings = vec![curve("misses, % of accesses", &|row| Some(100.0 * row.miss_ratio()))];
    if rows.iter().any(|row| row.device.is_some()) {
        drawings.push(curve("time of the disk, s", &|row| {
            row.device.as_ref().map(|device| device.device_ms / 1e3)
        }));
    }
    let mut body = verdict(rows, offline, sizes_differ);
    body += &charts(&drawings);
    body += "<h2>All figures</h2>";
    body += &figures(rows);
    page_of(&format!("Caches for {title}"), &body)
}

/// Which policy misses the least with the size in the middle.
fn verdict(rows: &[Row], offline: &dyn Fn(&str) -> bool, sizes_differ: bool) -> String {
    let mut sizes: Vec<u64> = rows.iter().map(|row| row.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let Some(&size) = sizes.get(sizes.len() / 2) else { return String::new() };
    let mut online: Vec<&Row> =
        rows.iter().filter(|row| row.size == size && !offline(row.policy)).collect();
    online.sort_by_key(|row| row.misses);
    let Some(best) = online.first() else { return String::new() };
    let mut text = format!(
        "With {} {} misses the least: {:.2}% of {} accesses.",
        bytes(size),
        best.policy,
        100.0 * best.miss_ratio(),
        best.requests
    );
    if let Some(next) = online.get(1) {
        text += &format!(" Next is {} with {:.2}%.", next.policy, 100.0 * next.miss_ratio());
    }
    let optimum = rows.iter().find(|row| row.size == size && offline(row.policy));
    if let Some(optimum) = optimum {
        let percent = 100.0 * optimum.miss_ratio();
        text += &match sizes_differ {
            false => format!(" The optimum would be {percent:.2}%."),
            true => format!(
                " {}, which knows the future and not what a size is worth, has {percent:.2}%; it is no \
                 optimum, because the objects differ in size.",
                optimum.policy
            ),
        };
    }
    format!("<div class=\"verdict\"><p>{}</p></div>", escape(&text))
}

fn figures(rows: &[Row]) -> String {
    let with_disk = rows.iter().any(|row| row.device.is_some());
    let mut head = vec!["policy", "size", "requests", "misses", "misses, %"];
    if with_disk {
        head.extend(["disk reads", "disk writes", "reads, ms", "writes, ms"]);
    }
    let mut table = vec![head.into_iter().map(String::from).collect::<Vec<_>>()];
    for row in rows {
        let mut cells = vec![
            row.policy.to_owned(),
            bytes(row.size),
            row.requests.to_string(),
            row.misses.to_string(),
            format!("{:.2}", 100.0 * row.miss_ratio()),
        ];
        if let Some(device) = &row.device {
            cells.push(device.device_reads.to_string());
            cells.push(device.device_writes.to_string());
            cells.push(format!("{:.1}", device.read_ms));
            cells.push(format!("{:.1}", device.write_ms));
        }
        table.push(cells);
    }
    table_of(&table)
}
