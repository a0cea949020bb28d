//! Figures as tables for the terminal: a summary with a row for each run, and all figures with a
//! column for each run.

use comfy_table::{CellAlignment, Table, presets};

use crate::figures::{Figures, Latency, WAITING};
use crate::units::{duration, mib};
use crate::verdict::{MEASURES, text_of};

/// Number of failed operations, and of all operations.
fn failures(figures: &Figures) -> String {
    let share = figures.failed as f64 * 100.0 / (figures.ops + figures.failed).max(1) as f64;
    format!("{} ({share:.1}%)", figures.failed)
}

/// The parts of the disk's work, in percent of what it did for requests, largest first. Time in
/// which requests waited for each other is not the disk's work.
fn disk_time(figures: &Figures) -> String {
    let mut parts: Vec<_> =
        figures.disk_use.time_s.iter().filter(|(name, _)| *name != WAITING).copied().collect();
    let total: f64 = parts.iter().map(|(_, s)| s).sum();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shown = parts.iter().filter(|(_, s)| *s > 0.005 * total).take(5);
    let lines: Vec<_> =
        shown.map(|(name, s)| format!("{name} {:.0}%", s * 100.0 / total)).collect();
    lines.join("\n")
}

/// How long a disk request waited for others, on average, in microseconds.
pub(crate) fn wait_us(figures: &Figures) -> f64 {
    let disk = &figures.disk_use;
    let waited = disk.time_s.iter().find(|(name, _)| *name == WAITING).map_or(0.0, |(_, s)| *s);
    let requests = disk.reads + disk.writes + disk.flushes;
    waited * 1e6 / requests.max(1) as f64
}

/// How much later than in the recording the clients ended.
fn clients_ended(figures: &Figures) -> String {
    let Some(late) = figures.lateness else { return "-".into() };
    let told = |s: f64| match s {
        s if s < 0.0 => format!("{} earlier", duration(-s * 1e6)),
        s => format!("{} later", duration(s * 1e6)),
    };
    format!("{}\nat most {}", told(late.median_s), told(late.max_s))
}

/// All figures of all runs: a column for each run. Columns that do not fit into `width` characters
/// go to further tables below.
pub fn table(all: &[Figures], width: Option<u16>) -> String {
    // Runs with failed operations are listed after those that can be compared.
    let (sound, failed): (Vec<_>, Vec<_>) = all.iter().partition(|figures| figures.failed == 0);
    let rows = rows(&[sound, failed].concat());
    let most = |column: usize| {
        let lines = rows.iter().flat_map(|row| row[column].lines());
        lines.map(|line| line.chars().count()).max().unwrap_or(0) + FRAME
    };
    let (columns, room) = (rows[0].len(), width.map_or(usize::MAX, usize::from));
    let mut tables: Vec<Vec<usize>> = Vec::new();
    let mut used = 0;
    for column in 1..columns {
        if tables.is_empty() || used + most(column) > room {
            tables.push(Vec::new());
            used = most(0) + 1;
        }
        used += most(column);
        if let Some(table) = tables.last_mut() {
            table.push(column);
        }
    }
    let one = |columns: &Vec<usize>| {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        let pick = |row: &Vec<String>| -> Vec<String> {
            [0].iter().chain(columns).map(|&column| row[column].clone()).collect()
        };
        table.add_rows(rows.iter().map(pick));
        right_aligned(table, 1)
    };
    tables.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Characters of a column beside its content.
const FRAME: usize = 3;

fn right_aligned(mut table: Table, from: usize) -> String {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// The value of a measure, with its range if there are several seeds.
fn with_spread(figures: &Figures, measure: &str) -> String {
    MEASURES.get(measure).ok().and_then(|entry| text_of(entry, figures)).unwrap_or_default()
}

/// A column of the summary: its title, and the cell of a run.
type Column = (&'static str, fn(&Figures) -> String);

fn write_cost(figures: &Figures) -> String {
    figures.log.write_cost.map_or("no data".into(), |cost| format!("{cost:.2}"))
}

/// The columns of the summary, in the order in which they give way on a narrow terminal: the last
/// one first.
const SUMMARY: &[Column] = &[
    ("rank", |f| f.rank.map_or("none".into(), |place| place.to_string())),
    ("configuration", |f| f.config.clone()),
    ("all on disk", |f| with_spread(f, "finish")),
    ("p99", |f| with_spread(f, "p99")),
    ("written", |f| with_spread(f, "written")),
    ("disk busy", |f| duration(f.disk_use.busy_s * 1e6)),
    ("reads, writes", |f| format!("{}, {}", f.disk_use.reads, f.disk_use.writes)),
    ("p99.9", |f| duration(f.latency.p999_us)),
    ("processor", |f| duration(f.cpu_s * 1e6)),
    ("write cost", write_cost),
    ("cache hits", |f| format!("{:.1}%", f.cache_hit_share * 100.0)),
];

/// One row for each run, the best first, with as many columns as fit into `width` characters, and a
/// row for each configuration that could not run.
pub fn summary(all: &[Figures], not_run: &[(String, String)], width: Option<u16>) -> String {
    let mut runs: Vec<&Figures> = all.iter().collect();
    runs.sort_by_key(|figures| figures.rank.unwrap_or(usize::MAX));
    let room = width.map_or(usize::MAX, usize::from);
    let names = not_run.iter().map(|(config, _)| config.chars().count());
    let name = names.max().unwrap_or(0);
    let mut used = 1;
    let fits = |(title, cell): &&Column| {
        let cells = runs.iter().map(|figures| cell(figures).chars().count());
        let mut widest = cells.chain([title.len()]).max().unwrap_or(0);
        if *title == SUMMARY[1].0 {
            widest = widest.max(name);
        }
        used += widest + FRAME;
        used <= room
    };
    let columns: Vec<&Column> = SUMMARY.iter().take_while(fits).collect();
    // The configuration and what it is judged by are told however narrow the terminal is.
    let columns = if columns.len() < 3 { SUMMARY.iter().take(3).collect() } else { columns };
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(columns.iter().map(|(title, _)| *title));
    for figures in &runs {
        let failed = figures.failed > 0;
        let cells = columns.iter().map(|(title, cell)| match *title == SUMMARY[0].0 && failed {
            true => "FAILED".into(),
            false => cell(figures),
        });
        table.add_row(cells.collect::<Vec<String>>());
    }
    for (config, _) in not_run {
        let mut cells = vec!["cannot run".to_string(), config.clone()];
        cells.resize(columns.len(), "-".into());
        table.add_row(cells);
    }
    right_aligned(table, 2)
}

/// One row for each figure: its title and a cell for each run.
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
        row("rank", &rank);
    }
    row("all done and on disk", &|f| with_spread(f, "finish"));
    row("all operations done", &|f| duration(f.span_s * 1e6));
    if all.iter().any(|f| f.lateness.is_some()) {
        row("clients ended", &clients_ended);
    }
    row("throughput", &|f| format!("{:.0} ops/s", f.ops_per_s));
    row("read, written", &|f| format!("{}, {}", mib(f.read_bytes), mib(f.written_bytes)));
    row("latency: mean", &latency(|l| l.mean_us));
    row("  median", &latency(|l| l.p50_us));
    row("  p90", &latency(|l| l.p90_us));
    row("  p99", &|f| with_spread(f, "p99"));
    row("  p99.9", &latency(|l| l.p999_us));
    row("  longest", &latency(|l| l.max_us));
    row("disk bytes a user byte", &|f| {
        f.write_amplification.map_or("nothing written".into(), |times| format!("{times:.2}"))
    });
    row("write cost", &write_cost);
    row("layout wrote", &|f| mib(f.log.log_bytes));
    row("segments cleaned", &|f| f.log.cleaned_segments.to_string());
    row("cache hits", &|f| format!("{:.1}%", f.cache_hit_share * 100.0));
    row("disk busy", &|f| format!("{:.2} s", f.disk_use.busy_s));
    row("disk reads, writes", &|f| format!("{}, {}", f.disk_use.reads, f.disk_use.writes));
    row("disk's work", &disk_time);
    row("wait of a disk request", &|f| duration(wait_us(f)));
    row("processor", &|f| format!("{:.2} s", f.cpu_s));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Lateness;

    fn run(config: &str, rank: Option<usize>) -> Figures {
        Figures { config: config.into(), rank, finish_s: 0.25, ..Figures::default() }
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn tables_keep_to_the_width_of_the_terminal() {
        let runs: Vec<Figures> = (1..6).map(|n| run("lfs:cache=8M", Some(n))).collect();
        for width in 50..200 {
            let (summary, all) = (summary(&runs, &[], Some(width)), table(&runs, Some(width)));
            assert!(widest(&summary) <= width.into(), "{width}:\n{summary}");
            assert!(widest(&all) <= width.into(), "{width}:\n{all}");
            assert_eq!(all.matches("lfs:cache=8M").count(), 5, "each run is shown once");
        }
        assert_eq!(summary(&runs, &[], None).matches("cache hits").count(), 1);
    }

    #[test]
    fn how_late_clients_ended_is_told_where_it_is_known() {
        let late = Lateness { clients: 3, median_s: -0.25, max_s: 1.5 };
        let with = Figures { lateness: Some(late), ..run("a", None) };
        let text = table(&[with, run("b", None)], None);
        assert!(text.contains("250.0 ms earlier"), "{text}");
        assert!(text.contains("at most 1500.0 ms later"), "{text}");
        assert!(!table(&[run("b", None)], None).contains("clients ended"));
    }

    #[test]
    fn the_best_stands_first_and_what_failed_or_could_not_run_last() {
        let mut failed = run("failed", None);
        failed.failed = 3;
        let not_run = [("ext4".to_string(), "no such configuration".to_string())];
        let text = summary(&[failed, run("b", Some(2)), run("a", Some(1))], &not_run, None);
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word}: {text}"));
        assert!(at(" a ") < at(" b ") && at(" b ") < at("FAILED"), "{text}");
        assert!(at("FAILED") < at("cannot run"), "{text}");
    }
}
