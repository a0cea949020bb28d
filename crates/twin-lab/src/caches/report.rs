//! The report on a study of caches: a verdict, miss-ratio curves, the disk's time, and all figures.

use super::{Row, Study};
use twin_report::draw::{self, Chart, Line, nth};
use twin_report::table::{Cell, fixed};
use twin_report::{Report, Table, cells, value};

/// The rows of each policy, in their order.
fn by_policy(rows: &[Row]) -> Vec<&[Row]> {
    rows.chunk_by(|a, b| a.policy == b.policy).collect()
}

/// True if a policy knows the future, which makes it the optimum unless the sizes of objects differ.
fn is_offline(study: &Study<'_>, name: &str) -> bool {
    study.policies.iter().any(|policy| policy.name == name && policy.needs_future())
}

/// The report on the rows of a study; `title` names the trace.
pub fn report(title: &str, study: &Study<'_>, rows: &[Row]) -> Report {
    let mut report = Report::answer("cache", format!("Caches for {title}"));
    report.set_verdict(verdict(study, rows), MEASURE);
    report.add(format!(
        "{} accesses to {} different {}, {} bytes",
        study.accesses.len(),
        study.accesses.blocks(),
        if study.accesses.sizes.is_some() { "objects" } else { "blocks of a file or device" },
        study.accesses.footprint_bytes()
    ));
    let misses = |row: &Row| Some(100.0 * row.miss_ratio());
    let seconds = |row: &Row| row.device.as_ref().map(|device| device.device_ms / 1e3);
    let has_disk = rows.iter().any(|row| row.device.is_some());
    let mut drawings = vec![curves(study, rows, "misses, % of accesses", &misses)];
    drawings.extend(has_disk.then(|| curves(study, rows, "time of the disk, s", &seconds)));
    report.on_page(drawings);
    report.on_terminal(grid(rows, "misses, %", &misses));
    if has_disk {
        report.on_terminal(grid(rows, "disk, s", &seconds));
    }
    report.section("All figures", [figures(rows, has_disk).into()]);
    report.add_rows(rows.iter().map(|row| {
        let mut object = value(row);
        object["miss_share"] = row.miss_ratio().into();
        object
    }));
    report
}

/// A line for each policy over the size of the cache.
fn curves(
    study: &Study<'_>,
    rows: &[Row],
    label: &str,
    value: &dyn Fn(&Row) -> Option<f64>,
) -> String {
    let line = |(number, rows): (usize, &[Row])| Line {
        name: rows[0].policy.to_owned(),
        colour: nth(number),
        paper: is_offline(study, rows[0].policy),
        points: rows
            .iter()
            .filter_map(|row| Some((row.size as f64 / 1024.0, value(row)?)))
            .collect(),
    };
    let lines: Vec<Line> = by_policy(rows).into_iter().enumerate().map(line).collect();
    let chart = Chart { title: label, y_label: label, log_y: false, marks: &[] };
    draw::lines(&chart, &lines, "size of the cache")
}

const MEASURE: &str = "Measure: accesses that do not find their block or object, with the size in the middle; \
    smaller is better.";

/// Which policy misses the least with the size in the middle.
fn verdict(study: &Study<'_>, rows: &[Row]) -> String {
    compared(study, rows).unwrap_or_else(|| "No policy was simulated that knows no future.".into())
}

fn compared(study: &Study<'_>, rows: &[Row]) -> Option<String> {
    let mut sizes: Vec<u64> = rows.iter().map(|row| row.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let size = *sizes.get(sizes.len() / 2)?;
    let (optimum, mut online): (Vec<&Row>, Vec<&Row>) =
        rows.iter().filter(|row| row.size == size).partition(|row| is_offline(study, row.policy));
    online.sort_by_key(|row| row.misses);
    let best = online.first()?;
    let percent = |row: &Row| 100.0 * row.miss_ratio();
    let mut text = format!(
        "With {} {} misses the least: {:.2}% of {} accesses.",
        bytes(size),
        best.policy,
        percent(best),
        best.requests
    );
    if let Some(next) = online.get(1) {
        text += &format!(" Next is {} with {:.2}%.", next.policy, percent(next));
    }
    if let Some(optimum) = optimum.first() {
        let percent = percent(optimum);
        text += &match study.accesses.sizes_differ() {
            false => format!(" The optimum would be {percent:.2}%."),
            true => format!(
                " {}, which knows the future and not what a size is worth, has {percent:.2}%; it is no \
                 optimum, because the objects differ in size.",
                optimum.policy
            ),
        };
    }
    Some(text)
}

/// A row for each policy, a column for each size.
fn grid(rows: &[Row], title: &str, value: &dyn Fn(&Row) -> Option<f64>) -> Table {
    let mut sizes: Vec<u64> = Vec::new();
    for row in rows {
        if !sizes.contains(&row.size) {
            sizes.push(row.size);
        }
    }
    let columns = [title.to_owned()].into_iter().chain(sizes.into_iter().map(bytes));
    let line = |rows: &[Row]| {
        let cells = rows.iter().map(|row| value(row).map_or(Cell::default(), |v| fixed(v, 2)));
        std::iter::once(rows[0].policy.into()).chain(cells).collect()
    };
    Table::new(columns, 1).with(by_policy(rows).into_iter().map(line))
}

/// All figures, a row for each policy and size.
fn figures(rows: &[Row], has_disk: bool) -> Table {
    let of_disk = ["device reads", "device writes", "read, ms", "write, ms"];
    let columns = ["policy", "size", "requests", "misses", "miss share"].into_iter();
    let row = |row: &Row| {
        let share = format!("{:.2}%", 100.0 * row.miss_ratio());
        let share = Cell::new(row.miss_ratio(), "share", share);
        let mut cells = cells![row.policy, bytes(row.size), row.requests, row.misses, share];
        if let Some(device) = &row.device {
            cells.extend(cells![device.device_reads, device.device_writes]);
            cells.extend([fixed(device.read_ms, 1), fixed(device.write_ms, 1)]);
        }
        cells
    };
    Table::new(columns.chain(of_disk.into_iter().filter(|_| has_disk)), 1)
        .with(rows.iter().map(row))
}

/// Bytes as a person reads them.
fn bytes(bytes: u64) -> String {
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let fit = units.into_iter().find(|(unit, _)| bytes >= *unit);
    match fit {
        Some((unit, name)) if bytes.is_multiple_of(unit) => format!("{}{name}", bytes / unit),
        Some((unit, name)) => format!("{:.1}{name}", bytes as f64 / unit as f64),
        None => bytes.to_string(),
    }
}
