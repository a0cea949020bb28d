//! Figures as a table for the terminal: configurations across, figures down.

use comfy_table::{CellAlignment, Table, presets};

use crate::figures::{Figures, Latency};

/// A duration as people read it.
fn duration(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.1} us"),
        us if us < 10_000.0 => format!("{us:.0} us"),
        us if us < 10_000_000.0 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

/// How many operations failed, and of how many.
fn failures(figures: &Figures) -> String {
    let share = figures.failed as f64 * 100.0 / (figures.ops + figures.failed).max(1) as f64;
    format!("{} ({share:.1}%)", figures.failed)
}

/// The parts of the disk's time, in percent of its requests' time, largest first.
fn disk_time(figures: &Figures) -> String {
    let total: f64 = figures.disk_use.time_s.iter().map(|(_, s)| s).sum();
    let mut parts = figures.disk_use.time_s.clone();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shown = parts.iter().filter(|(_, s)| *s > 0.005 * total).take(5);
    let lines: Vec<_> =
        shown.map(|(name, s)| format!("{name} {:.0}%", s * 100.0 / total)).collect();
    lines.join("\n")
}

/// The figures side by side, for the terminal.
pub fn table(all: &[Figures]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    // Whose operations failed are shown behind those that can be compared.
    let (sound, failed): (Vec<_>, Vec<_>) = all.iter().partition(|figures| figures.failed == 0);
    table.add_rows(rows(&[sound, failed].concat()));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// A row a figure: its title and a cell for each run.
pub(crate) fn rows(all: &[&Figures]) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |title: &str, cell: &dyn Fn(&Figures) -> String| {
        let cells = all.iter().map(|figures| cell(figures));
        rows.push(std::iter::once(title.to_string()).chain(cells).collect());
    };
    let latency = |pick: fn(&Latency) -> f64| move |f: &Figures| duration(pick(&f.latency));
    row("", &|f| f.config.clone());
    row("disk", &|f| f.disk.clone());
    row("operations", &|f| f.ops.to_string());
    if all.iter().any(|f| f.failed > 0) {
        row("FAILED operations", &failures);
    }
    if all.len() > 1 {
        let rank = |f: &Figures| f.rank.map_or("none: failures".into(), |place| place.to_string());
        row("rank by throughput", &rank);
    }
    row("simulated time", &|f| format!("{:.2} s", f.span_s));
    row("throughput", &|f| format!("{:.0} ops/s", f.ops_per_s));
    row("read, written", &|f| format!("{}, {}", mib(f.read_bytes), mib(f.written_bytes)));
    row("latency: mean", &latency(|l| l.mean_us));
    row("  median", &latency(|l| l.p50_us));
    row("  90 of 100", &latency(|l| l.p90_us));
    row("  99 of 100", &latency(|l| l.p99_us));
    row("  longest", &latency(|l| l.max_us));
    row("write cost", &|f| format!("{:.2}", f.log.write_cost));
    row("layout wrote", &|f| mib(f.log.log_bytes));
    row("segments cleaned", &|f| f.log.cleaned_segments.to_string());
    row("cache hits", &|f| format!("{:.1}%", f.cache_hit_share * 100.0));
    row("disk busy", &|f| format!("{:.2} s", f.disk_use.busy_s));
    row("disk reads, writes", &|f| format!("{}, {}", f.disk_use.reads, f.disk_use.writes));
    row("disk time", &disk_time);
    row("processor", &|f| format!("{:.2} s", f.cpu_s));
    row("simulated ops a real s", &|f| format!("{:.0}", f.ops as f64 / f.real_s.max(1e-9)));
    rows
}
