//! The report on a study of caches: a verdict, miss-ratio curves, the disk's time, and all figures.

use twin_report::draw::{self, Chart, Line, nth};
use twin_report::table::{Cell, fixed};
use twin_report::units::list;
use twin_report::{Part, Report, Table, cells, value};

use super::{Row, Study};

/// The rows of each policy, in their order.
fn by_policy(rows: &[Row]) -> Vec<&[Row]> {
    rows.chunk_by(|a, b| a.policy == b.policy).collect()
}

/// True if a policy knows the future, which makes it the optimum unless the sizes of objects differ.
fn is_offline(study: &Study, name: &str) -> bool {
    study.policies.iter().any(|policy| policy.name == name && policy.needs_future())
}

/// The report on the rows of a study; `title` names the trace.
pub fn report(title: &str, study: &Study, rows: &[Row]) -> Report {
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
    let order = order(study, rows);
    let mut measures: Vec<Measure<'_>> =
        vec![("Misses by size of the cache", "misses, % of accesses", "misses, %", &misses)];
    if has_disk {
        measures.push(("Time of the disk", "time of the disk, s", "disk, s", &seconds));
    }
    // What is drawn last is seen where curves coincide: the optimum.
    let mut chosen = order[..order.len().min(CURVES)].to_vec();
    chosen.sort_by_key(|policy| is_offline(study, policy));
    let order: Vec<&str> = chosen.iter().chain(order.iter().skip(CURVES)).copied().collect();
    for (title, label, heading, value) in &measures {
        report.on_page(vec![curves(study, rows, &chosen, (title, label), value)]);
        report.add(grid(rows, heading, value));
    }
    if order.len() > CURVES {
        let all = measures.iter();
        let all =
            all.map(|(title, label, _, value)| curves(study, rows, &order, (title, label), value));
        let title = format!("Curves of all {} policies", order.len());
        report.on_page(Part::Folded(title, vec![all.collect::<Vec<_>>().into()]));
    }
    report.on_page(Part::Folded("All figures".into(), vec![figures(rows, has_disk).into()]));
    report.add_rows(rows.iter().map(|row| {
        let mut object = value(row);
        object["miss_share"] = row.miss_ratio().into();
        object
    }));
    report
}

/// A figure of rows: the title of its chart, the label of its axis, the heading of its table, and its value.
type Measure<'a> = (&'a str, &'a str, &'a str, &'a dyn Fn(&Row) -> Option<f64>);

/// The most curves of a chart that can be told apart.
const CURVES: usize = 7;

/// The policies in the order in which they are worth a look: the optimum, the first one as what others are held
/// against, then the others with the fewest misses at the size in the middle first.
fn order(study: &Study, rows: &[Row]) -> Vec<&'static str> {
    let size = middle(rows);
    let mut all: Vec<(u8, u64, &'static str)> = Vec::new();
    for (nth, of_policy) in by_policy(rows).into_iter().enumerate() {
        let policy = of_policy[0].policy;
        let misses =
            of_policy.iter().find(|row| Some(row.size) == size).map_or(0, |row| row.misses);
        let class = if is_offline(study, policy) || nth == 0 { 0 } else { 1 };
        all.push((class, misses, policy));
    }
    all.sort_by_key(|(class, misses, _)| (*class, *misses));
    all.into_iter().map(|(.., policy)| policy).collect()
}

/// The size in the middle.
fn middle(rows: &[Row]) -> Option<u64> {
    let mut sizes: Vec<u64> = rows.iter().map(|row| row.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.get(sizes.len() / 2).copied()
}

/// A line for each of these policies over the size of the cache. A policy has one colour on the page.
fn curves(
    study: &Study,
    rows: &[Row],
    policies: &[&str],
    (title, label): (&str, &str),
    value: &dyn Fn(&Row) -> Option<f64>,
) -> String {
    let line = |(number, policy): (usize, &&str)| Line {
        name: (*policy).to_owned(),
        colour: nth(number),
        paper: is_offline(study, policy),
        points: rows
            .iter()
            .filter(|row| row.policy == *policy)
            .filter_map(|row| Some((row.size as f64 / 1024.0, value(row)?)))
            .collect(),
    };
    let lines: Vec<Line> = policies.iter().enumerate().map(line).collect();
    let chart = Chart { title, y_label: label, log_y: false, marks: &[] };
    draw::whole_lines(&chart, &lines, "size of the cache, bytes (K, M)")
}

const MEASURE: &str = "Measure: accesses that do not find their block or object, with the size in the middle; \
    smaller is better.";

/// Which policy misses the least with the size in the middle.
fn verdict(study: &Study, rows: &[Row]) -> String {
    compared(study, rows).unwrap_or_else(|| "No policy was simulated that knows no future.".into())
}

fn compared(study: &Study, rows: &[Row]) -> Option<String> {
    let size = middle(rows)?;
    let (optimum, mut online): (Vec<&Row>, Vec<&Row>) =
        rows.iter().filter(|row| row.size == size).partition(|row| is_offline(study, row.policy));
    online.sort_by_key(|row| row.misses);
    let best = online.first()?;
    let percent = |row: &Row| 100.0 * row.miss_ratio();
    let (size, requests) = (bytes(size), best.requests);
    let worse = online.iter().find(|row| row.misses > best.misses);
    let alike: Vec<String> = online
        .iter()
        .take_while(|row| row.misses == best.misses)
        .map(|row| row.policy.to_owned())
        .collect();
    let mut text = match (alike.len(), worse) {
        (1, _) => format!(
            "With {size} {} misses the least: {:.2}% of {requests} accesses.",
            best.policy,
            percent(best)
        ),
        (all, None) => format!(
            "With {size} all {all} policies miss alike: {:.2}% of {requests} accesses.",
            percent(best)
        ),
        _ => format!(
            "With {size} {} miss the least and alike: {:.2}% of {requests} accesses.",
            list(&alike),
            percent(best)
        ),
    };
    if let Some(next) = worse {
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
