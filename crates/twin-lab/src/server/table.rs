//! The figures of a server as tables for the terminal.

use super::figures::{Fit, ServerFigures};
use crate::figures::WAITING;
use crate::table::in_width;
use crate::units::{duration, mib};

/// What the whole server did, in sentences, and a table a kind of part.
pub fn table(server: &ServerFigures, width: Option<u16>) -> String {
    let parts = [
        whole(server),
        file_systems(server, width),
        disks(server, width),
        buses(server, width),
        hosts(server, width),
        fits(&server.fits, width),
    ];
    parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("\n")
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

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

fn rows(header: &[&str], rows: &[Vec<String>], fixed: usize, width: Option<u16>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let header: Vec<String> = header.iter().map(ToString::to_string).collect();
    in_width(&header, rows, fixed, width)
}

fn file_systems(server: &ServerFigures, width: Option<u16>) -> String {
    let header = [
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
    let row = |fs: &super::figures::OfFileSystem| {
        vec![
            fs.name.clone(),
            fs.disk.clone(),
            fs.ops.to_string(),
            fs.failed.to_string(),
            duration(fs.latency.mean_us),
            duration(fs.latency.p50_us),
            duration(fs.latency.p99_us),
            mib(fs.read_bytes),
            mib(fs.written_bytes),
            percent(fs.cache_hit_share),
            mib(fs.cache_bytes),
            fs.log.write_cost.map_or("-".into(), |cost| format!("{cost:.2}")),
        ]
    };
    let all: Vec<Vec<String>> = server.file_systems.iter().map(row).collect();
    rows(&header, &all, 1, width)
}

fn disks(server: &ServerFigures, width: Option<u16>) -> String {
    let header = ["disk", "model", "bus", "reads", "writes", "used", "mean wait", "mean service"];
    let row = |disk: &super::figures::OfDisk| {
        let requests = disk.disk_use.reads + disk.disk_use.writes + disk.disk_use.flushes;
        let mean = |s: f64| duration(s * 1e6 / requests.max(1) as f64);
        let waiting = disk.disk_use.time_s.iter().find(|(name, _)| *name == WAITING);
        vec![
            disk.name.clone(),
            disk.model.clone(),
            disk.bus.clone().unwrap_or_else(|| "none".into()),
            disk.disk_use.reads.to_string(),
            disk.disk_use.writes.to_string(),
            percent(disk.utilization),
            mean(waiting.map_or(0.0, |(_, s)| *s)),
            mean(disk.disk_use.service_s),
        ]
    };
    let all: Vec<Vec<String>> = server.disks.iter().map(row).collect();
    rows(&header, &all, 1, width)
}

fn buses(server: &ServerFigures, width: Option<u16>) -> String {
    let header =
        ["bus", "kind", "moved", "used", "waited", "mean wait", "longest wait", "taken by"];
    let row = |bus: &super::figures::OfBus| {
        let used = &bus.bus_use;
        let phases = used.phases_s.iter();
        let phases =
            phases.map(|(name, s)| format!("{name} {}", percent(s / used.busy_s.max(1e-9))));
        vec![
            bus.name.clone(),
            bus.kind.into(),
            mib(used.bytes),
            percent(bus.utilization),
            percent(used.waited as f64 / used.tenancies.max(1) as f64),
            duration(used.mean_wait_us),
            duration(used.longest_wait_us),
            phases.collect::<Vec<_>>().join(", "),
        ]
    };
    let all: Vec<Vec<String>> = server.buses.iter().map(row).collect();
    rows(&header, &all, 2, width)
}

fn hosts(server: &ServerFigures, width: Option<u16>) -> String {
    let header = ["host", "processors", "worked", "used", "cache", "cache that changed hands"];
    let row = |host: &super::figures::OfHost| {
        vec![
            host.name.clone(),
            host.cpu.clone(),
            duration(host.cpu_s * 1e6),
            percent(host.utilization),
            mib(host.cache_bytes),
            mib(host.moved_cache_bytes),
        ]
    };
    let all: Vec<Vec<String>> = server.hosts.iter().map(row).collect();
    rows(&header, &all, 2, width)
}

/// What was drawn beside what was published.
pub fn fits(all: &[Fit], width: Option<u16>) -> String {
    let header = ["workload", "figure", "drawn", "published range", "published in", "within"];
    let row = |fit: &Fit| {
        vec![
            fit.workload.clone(),
            fit.what.into(),
            format!("{:.1} {}", fit.drawn, fit.unit),
            format!("{} to {} {}", fit.published.0, fit.published.1, fit.unit),
            fit.place.into(),
            if fit.holds() { "yes" } else { "NO" }.into(),
        ]
    };
    let rows_of: Vec<Vec<String>> = all.iter().map(row).collect();
    rows(&header, &rows_of, 2, width)
}
