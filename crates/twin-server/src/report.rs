//! The report on a run of a server: the whole in words, the latencies by kind of operation, what
//! observers have seen, and the parts in tables.

use serde_json::{Value, json};
use twin_lab::WAITING;
use twin_observe::{charts, named_rows, parts};
use twin_report::draw::{Distribution, distribution, nth};
use twin_report::table::{Cell, bytes, fixed, micros, percent, seconds};
use twin_report::units::{duration, mib};
use twin_report::{Part, Report, Table, cells, value};
use twin_verdict::{fits, fits_in_words};

use crate::figures::{OfBus, OfDisk, OfFileSystem, OfHost, ServerFigures};
use crate::file::ServerFile;

/// The report. `title` names the server; with `details` the terminal shows what was assumed, what
/// generated clients were held against and what observers have seen in each interval.
pub fn report(title: &str, server: &ServerFile, figures: &ServerFigures, details: bool) -> Report {
    let mut report = Report::answer("compare", title);
    report.set_verdict(whole(figures), server.about.clone());
    let about = server.about.trim_end_matches('.');
    if !about.is_empty() {
        report.on_terminal(format!("{about}."));
    }
    if let Some(first) = figures.fits.first() {
        report.add(format!(
            "Generated clients stand in for {}, which are not used here: {}.",
            first.stands_for,
            fits_in_words(&figures.fits)
        ));
    }
    report.on_page(latencies(figures).into_iter().collect::<Vec<_>>());
    let seen = charts(&figures.observed);
    report.section("Observed", (!seen.is_empty()).then(|| seen.into()));
    let tables = [
        ("File systems", file_systems(&figures.file_systems)),
        ("Disks", disks(&figures.disks)),
        ("Busses", buses(&figures.buses)),
        ("Hosts", hosts(&figures.hosts)),
    ];
    for (title, table) in tables.into_iter().filter(|(_, table)| !table.is_empty()) {
        report.on_page(Part::heading(title));
        report.add(table);
    }
    let fits = fits(&figures.fits);
    if details {
        report.on_terminal(fits.clone());
    }
    if !fits.is_empty() {
        report.section("What was drawn beside what was expected", [fits.into()]);
    }
    for part in parts(&figures.observed, "the server", details) {
        report.on_terminal(part);
    }
    if !server.assumed.is_empty() {
        let assumed = format!("Assumed: {}.", server.assumed.join("; "));
        report.on_page(assumed.clone());
        if details {
            report.on_terminal(assumed);
        }
    }
    add_rows(&mut report, title, server, figures);
    report
}

/// The server as one object; as rows one for each part, because the parts differ.
fn add_rows(report: &mut Report, title: &str, server: &ServerFile, figures: &ServerFigures) {
    let mut whole = value(figures);
    whole["server"] = title.into();
    whole["about"] = server.about.as_str().into();
    whole["assumed"] = json!(server.assumed);
    report.set_json(whole);
    let part = |part: &str, mut row: Value| {
        row["part"] = part.into();
        row
    };
    report.add_rows([part("server", value(&figures.whole))]);
    report.add_rows(figures.file_systems.iter().map(|fs| part("file system", value(fs))));
    report.add_rows(figures.disks.iter().map(|disk| part("disk", value(disk))));
    report.add_rows(figures.buses.iter().map(|bus| part("bus", value(bus))));
    report.add_rows(figures.hosts.iter().map(|host| part("host", value(host))));
    report.add_rows(named_rows(&figures.observed, "part", "observed"));
}

/// What the whole server did.
fn whole(server: &ServerFigures) -> String {
    let whole = &server.whole;
    let failed = match whole.failed {
        0 => String::new(),
        failed => format!(" {failed} OPERATIONS FAILED that succeed in the workload."),
    };
    let latency = &whole.latency;
    format!(
        "{} operations in {}, {} read and {} written; latency {} on average, {} at the median, {} at the \
         99th percentile.{failed}",
        whole.ops,
        duration(whole.span_s * 1e6),
        mib(whole.read_bytes),
        mib(whole.written_bytes),
        duration(latency.mean_us),
        duration(latency.p50_us),
        duration(latency.p99_us),
    )
}

fn file_systems(all: &[OfFileSystem]) -> Table {
    let columns = [
        "file system",
        "disk",
        "operations",
        "failed",
        "mean",
        "p50",
        "p99",
        "read",
        "written",
        "cache hits",
        "cache",
        "write cost",
    ];
    let row = |fs: &OfFileSystem| {
        cells![
            &fs.name,
            &fs.disk,
            fs.ops,
            fs.failed,
            micros(fs.latency.mean_us),
            micros(fs.latency.p50_us),
            micros(fs.latency.p99_us),
            bytes(fs.read_bytes),
            bytes(fs.written_bytes),
            percent(fs.cache_hit_share),
            bytes(fs.cache_bytes),
            Cell::or_dash(fs.log.write_cost, |cost| fixed(cost, 2)),
        ]
    };
    Table::new(columns, 1).with(all.iter().map(row))
}

fn disks(all: &[OfDisk]) -> Table {
    let columns = ["disk", "model", "bus", "reads", "writes", "used", "mean wait", "mean service"];
    let row = |disk: &OfDisk| {
        let used = &disk.disk_use;
        let requests = (used.reads + used.writes + used.flushes).max(1) as f64;
        let waiting = used.time_s.iter().find(|(name, _)| *name == WAITING);
        cells![
            &disk.name,
            &disk.model,
            disk.bus.as_deref().unwrap_or("none"),
            used.reads,
            used.writes,
            percent(disk.utilization),
            seconds(waiting.map_or(0.0, |(_, s)| *s) / requests),
            seconds(used.service_s / requests),
        ]
    };
    Table::new(columns, 1).with(all.iter().map(row))
}

fn buses(all: &[OfBus]) -> Table {
    let columns =
        ["bus", "kind", "moved", "used", "waited", "mean wait", "longest wait", "taken by"];
    let row = |bus: &OfBus| {
        let used = &bus.bus_use;
        let phases = used.phases_s.iter();
        let phases = phases
            .map(|(name, s)| format!("{name} {:.1}%", s * 100.0 / used.busy_s.max(1e-9)))
            .collect::<Vec<_>>();
        cells![
            &bus.name,
            bus.kind,
            bytes(used.bytes),
            percent(bus.utilization),
            percent(used.waited as f64 / used.tenancies.max(1) as f64),
            micros(used.mean_wait_us),
            micros(used.longest_wait_us),
            phases.join(", "),
        ]
    };
    Table::new(columns, 1).with(all.iter().map(row))
}

fn hosts(all: &[OfHost]) -> Table {
    let columns = ["host", "processors", "worked", "used", "cache", "cache that changed hands"];
    let row = |host: &OfHost| {
        cells![
            &host.name,
            &host.cpu,
            seconds(host.cpu_s),
            percent(host.utilization),
            bytes(host.cache_bytes),
            bytes(host.moved_cache_bytes),
        ]
    };
    Table::new(columns, 1).with(all.iter().map(row))
}

/// The most kinds of operations in a chart.
const KINDS: usize = 7;

/// The distribution of latencies of the kinds of operations that take most of the time.
fn latencies(figures: &ServerFigures) -> Option<String> {
    let mut verbs: Vec<_> = figures.whole.verbs.iter().collect();
    let total = |latency: &twin_lab::Latency| latency.count as f64 * latency.mean_us;
    verbs.sort_by(|a, b| total(&b.latency).total_cmp(&total(&a.latency)));
    verbs.truncate(KINDS);
    let count = verbs.iter().map(|verb| verb.latency.count).max()?;
    let of = |(number, verb): (usize, &&twin_lab::VerbFigures)| {
        Distribution::of(verb.verb, nth(number), &verb.distribution)
    };
    let all: Vec<Distribution> = verbs.iter().enumerate().map(of).collect();
    Some(distribution("Latency by kind of operation", &all, count))
}
