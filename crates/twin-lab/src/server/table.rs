//! The figures of a server as tables for the terminal.

use super::figures::{Fit, ServerFigures};
use crate::figures::WAITING;
use twin_report::columns::in_width;
use twin_report::units::{duration, mib};

/// A table of parts of a kind.
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Section {
    fn new(title: &'static str, header: &[&str], rows: Vec<Vec<String>>) -> Section {
        Section { title, header: header.iter().map(ToString::to_string).collect(), rows }
    }

    /// The table; nothing without rows.
    fn text(&self, width: Option<u16>) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        in_width(&self.header, &self.rows, 1, width)
    }
}

/// The tables of all kinds of parts.
pub(super) fn sections(server: &ServerFigures) -> [Section; 5] {
    [file_systems(server), disks(server), buses(server), hosts(server), fit_section(&server.fits)]
}

/// What the whole server did, in sentences, and a table a kind of part.
pub fn table(server: &ServerFigures, width: Option<u16>) -> String {
    let mut parts = vec![whole(server)];
    parts.extend(sections(server).iter().map(|section| section.text(width)));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// What the whole server did.
pub(super) fn whole(server: &ServerFigures) -> String {
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

fn file_systems(server: &ServerFigures) -> Section {
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
    let rows = server.file_systems.iter().map(row).collect();
    Section::new("File systems", &header, rows)
}

fn disks(server: &ServerFigures) -> Section {
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
    let rows = server.disks.iter().map(row).collect();
    Section::new("Disks", &header, rows)
}

fn buses(server: &ServerFigures) -> Section {
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
    let rows = server.buses.iter().map(row).collect();
    Section::new("Busses", &header, rows)
}

fn hosts(server: &ServerFigures) -> Section {
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
    let rows = server.hosts.iter().map(row).collect();
    Section::new("Hosts", &header, rows)
}

/// How many of the figures are met: of those that were published, and of ours.
pub fn fits_in_words(all: &[Fit]) -> String {
    let count = |published: bool| {
        let of = || all.iter().filter(move |fit| fit.published == published);
        (of().filter(|fit| fit.holds()).count(), of().count())
    };
    let ((held, known), (ours_held, ours)) = (count(true), count(false));
    format!("{held} of {known} published figures and {ours_held} of {ours} assumed by us are met")
}

/// What was drawn beside what was published or assumed.
pub fn fits(all: &[Fit], width: Option<u16>) -> String {
    fit_section(all).text(width)
}

fn fit_section(all: &[Fit]) -> Section {
    let header = ["workload", "figure", "drawn", "expected range", "source", "within"];
    let row = |fit: &Fit| {
        vec![
            fit.workload.clone(),
            fit.what.into(),
            format!("{:.1} {}", fit.drawn, fit.unit),
            format!("{} to {} {}", fit.expected.0, fit.expected.1, fit.unit),
            match fit.published {
                true => fit.place.into(),
                false => format!("ours (from memory: {})", fit.place),
            },
            if fit.holds() { "yes" } else { "NO" }.into(),
        ]
    };
    Section::new("What was drawn beside what was expected", &header, all.iter().map(row).collect())
}
