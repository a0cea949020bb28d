//! Figures as tables: a summary with a row for each run, and all figures with a column for each run.

use twin_lab::{
    BillFigures, BusFigures, Figures, JournalFigures, Latency, NetworkFigures, WAITING, WearFigures,
};
use twin_report::table::Cell;
use twin_report::units::{dollars, duration, mib};
use twin_report::{Table, cells};

use crate::verdict::{MEASURES, MeasureEntry, by_place, text_of};

/// Seconds of a month, as prices have it.
const MONTH_S: f64 = 730.0 * 3600.0;

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
pub(super) fn wait_us(figures: &Figures) -> f64 {
    let disk = &figures.disk_use;
    let requests = disk.reads + disk.writes + disk.flushes;
    disk.waiting_s * 1e6 / requests.max(1) as f64
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

/// The value of a measure, with its range if there are several seeds.
fn with_spread(figures: &Figures, measure: &str) -> String {
    MEASURES.get(measure).ok().and_then(|entry| text_of(entry, figures)).unwrap_or_default()
}

/// A column of the summary: its title, and the cell of a run.
type Column = (&'static str, fn(&Figures) -> String);

fn write_cost(figures: &Figures) -> String {
    figures.log.write_cost.map_or("no data".into(), |cost| format!("{cost:.2}"))
}

/// The first columns of the summary, before that of the measure.
const FIRST: &[Column] = &[
    ("rank", |f| f.rank.map_or("none".into(), |place| place.to_string())),
    ("configuration", |f| f.config.clone()),
];

/// The columns between, of runs with deadlines.
const DEADLINES: &[Column] = &[("deadlines missed", missed), ("streams refused", refused)];

fn missed(figures: &Figures) -> String {
    figures.deadlines.map_or("-".into(), |d| format!("{} of {}", d.missed, d.due))
}

fn refused(figures: &Figures) -> String {
    let asked = figures.deadlines.filter(|d| d.admitted + d.refused > 0);
    asked.map_or("-".into(), |d| format!("{} of {}", d.refused, d.admitted + d.refused))
}

/// The rows of deadlines.
fn deadlines(row: &mut impl FnMut(&str, &dyn Fn(&Figures) -> String)) {
    row("deadlines missed", &missed);
    row("  latest by", &|f| f.deadlines.map_or("-".into(), |d| duration(d.latest_us)));
    row("streams refused", &refused);
    row("  data not there in time", &|f| f.deadlines.map_or("-".into(), |d| d.stalls.to_string()));
}

/// The columns behind that of the measure, in the order in which they give way on a narrow
/// terminal: the last one first.
const FURTHER: &[Column] = &[
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

/// One row for each run, the best first, and a row for each configuration that could not run. The last
/// columns give way where a line is too narrow for all; the configuration and what it is judged by stay.
pub(super) fn summary(
    all: &[&Figures],
    not_run: &[(String, String)],
    measure: &MeasureEntry,
) -> Table {
    let of_measure = |f: &Figures| text_of(measure, f).unwrap_or("none".into());
    let has_deadlines = all.iter().any(|figures| figures.deadlines.is_some());
    let between = DEADLINES.iter().filter(|_| has_deadlines);
    let further = FURTHER.iter().filter(|(title, _)| *title != measure.title);
    let first: Vec<&Column> = FIRST.iter().chain(between).collect();
    let further: Vec<&Column> = further.collect();
    let title = |column: &&Column| column.0;
    let titles = first.iter().map(title).chain([measure.title]).chain(further.iter().map(title));
    let titles: Vec<&str> = titles.collect();
    let row = |figures: &&Figures| {
        let cell = |column: &&Column| Cell::from((column.1)(figures));
        let mut row: Vec<Cell> = first.iter().map(cell).collect();
        if figures.failed > 0 {
            row[0] = "FAILED".into();
        }
        row.push(of_measure(figures).into());
        row.extend(further.iter().map(cell));
        row
    };
    let absent = |(config, _): &(String, String)| {
        let mut row = vec![Cell::from("-"); titles.len()];
        row.splice(..2, cells!["cannot run", config]);
        row
    };
    let runs = by_place(all, measure);
    let rows = runs.iter().map(row).chain(not_run.iter().map(absent)).collect::<Vec<_>>();
    Table::new(titles, 2).with(rows).giving_way(3)
}

/// A time of the disk, and its share of the run. More than the whole if several requests are served
/// at once.
fn disk_share(figures: &Figures, seconds: f64) -> String {
    let share = seconds * 100.0 / figures.finish_s.max(1e-9);
    format!("{}, {share:.0}%", duration(seconds * 1e6))
}

/// The rows of the use of busses.
fn bus(row: &mut impl FnMut(&str, &dyn Fn(&Figures) -> String)) {
    let cell = |f: &Figures, of: &dyn Fn(&BusFigures) -> String| {
        f.bus_use.as_ref().map_or("no bus".into(), of)
    };
    row("bus taken", &|f| cell(f, &|bus| disk_share(f, bus.busy_s)));
    row("  moved", &|f| cell(f, &|bus| mib(bus.bytes)));
    row("  mean wait", &|f| cell(f, &|bus| duration(bus.mean_wait_us)));
    row("  longest wait", &|f| cell(f, &|bus| duration(bus.longest_wait_us)));
}

/// The rows of the use of a network.
fn network(row: &mut impl FnMut(&str, &dyn Fn(&Figures) -> String)) {
    let cell = |f: &Figures, of: &dyn Fn(&NetworkFigures) -> String| {
        f.network_use.as_ref().map_or("no network".into(), of)
    };
    row("calls, sent again", &|f| cell(f, &|net| format!("{}, {}", net.calls, net.resent)));
    row("network moved", &|f| cell(f, &|net| mib(net.bytes)));
    row("frames lost, breaks", &|f| cell(f, &|net| format!("{}, {}", net.lost_frames, net.broken)));
}

/// The rows of the wear of disks.
fn wear(row: &mut impl FnMut(&str, &dyn Fn(&Figures) -> String)) {
    let cell = |f: &Figures, of: fn(&WearFigures) -> String| {
        f.disk_use.wear.as_ref().map_or("not counted".into(), of)
    };
    row("SSD programs", &|f| cell(f, |wear| mib(wear.programmed_bytes)));
    row("  bytes a written byte", &|f| {
        cell(f, |wear| wear.amplification.map_or("-".into(), |times| format!("{times:.2}")))
    });
    row("  moved by itself", &|f| cell(f, |wear| mib(wear.moved_bytes)));
    row("  blocks erased", &|f| cell(f, |wear| wear.erased_blocks.to_string()));
}

/// The rows that only some kinds of disks have.
fn of_some_disks(all: &[&Figures], row: &mut impl FnMut(&str, &dyn Fn(&Figures) -> String)) {
    if all.iter().any(|f| f.disk_use.wear.is_some()) {
        wear(row);
    }
    if all.iter().any(|f| f.disk_use.bill.is_some()) {
        bill(row);
    }
    if all.iter().any(|f| f.disk_use.journal.is_some()) {
        journal(row);
    }
}

/// The rows of journals before disks.
fn journal(row: &mut impl FnMut(&str, &dyn Fn(&Figures) -> String)) {
    let cell = |f: &Figures, of: fn(&JournalFigures) -> u64| {
        f.disk_use.journal.as_ref().map_or("no journal".into(), |journal| mib(of(journal)))
    };
    row("to the journal", &|f| cell(f, |journal| journal.written_bytes));
    row("  from there to the disk", &|f| cell(f, |journal| journal.moved_bytes));
    row("  still there", &|f| cell(f, |journal| journal.waiting_bytes));
}

/// The rows of the bills of buckets.
fn bill(row: &mut impl FnMut(&str, &dyn Fn(&Figures) -> String)) {
    let cell = |f: &Figures, of: &dyn Fn(&BillFigures) -> String| {
        f.disk_use.bill.as_ref().map_or("no bucket".into(), of)
    };
    row("PUT, GET, DELETE", &|f| {
        cell(f, &|bill| format!("{}, {}, {}", bill.puts, bill.gets, bill.deletes))
    });
    row("  bytes in, out", &|f| {
        cell(f, &|bill| format!("{}, {}", mib(bill.in_bytes), mib(bill.out_bytes)))
    });
    row("  price of the work", &|f| cell(f, &|bill| dollars(bill.work_usd())));
    row("  stored at the end", &|f| cell(f, &|bill| mib(bill.stored_bytes)));
    row("    price of a month", &|f| cell(f, &|bill| dollars(bill.storage_usd_month)));
    row("  this work all month", &|f| {
        cell(f, &|bill| dollars(bill.work_usd() * MONTH_S / f.finish_s.max(1e-9)))
    });
}

fn disk(row: &mut impl FnMut(&str, &dyn Fn(&Figures) -> String)) {
    row("disk has requests", &|f| disk_share(f, f.disk_use.busy_s));
    row("  in service", &|f| disk_share(f, f.disk_use.service_s));
    row("  medium at work", &|f| disk_share(f, f.disk_use.medium_s));
    row("disk reads, writes", &|f| format!("{}, {}", f.disk_use.reads, f.disk_use.writes));
    row("disk's work", &disk_time);
}

/// The rows of what clients did with the time.
fn clients(row: &mut impl FnMut(&str, &dyn Fn(&Figures) -> String)) {
    row("  no operation under way", &|f| duration(f.pauses_s * 1e6));
    row("clients waited", &|f| with_spread(f, "waiting"));
}

/// The rows of what was cleaned, and why.
fn cleaned(all: &[&Figures], row: &mut impl FnMut(&str, &dyn Fn(&Figures) -> String)) {
    row("segments cleaned", &|f| f.log.cleaned_segments.to_string());
    let in_background = |f: &Figures| f.log.cleaner.map_or(0, |all| all.0.background.segments);
    if all.iter().any(|f| in_background(f) > 0) {
        row("  in the background", &|f| in_background(f).to_string());
    }
    row("  waits for them", &|f| f.log.space_waits.to_string());
}

/// All figures: a row for each, a column for each run. Runs with failed operations come after those that
/// can be compared.
pub(super) fn table(all: &[&Figures]) -> Table {
    let (sound, failed): (Vec<&Figures>, Vec<&Figures>) =
        all.iter().partition(|figures| figures.failed == 0);
    let all = &[sound, failed].concat()[..];
    let names = all.iter().map(|figures| figures.config.clone());
    let mut table = Table::new(std::iter::once(String::new()).chain(names), 1);
    let mut row = |title: &str, cell: &dyn Fn(&Figures) -> String| {
        let cells = all.iter().map(|figures| cell(figures).into());
        table.push(std::iter::once(title.into()).chain(cells).collect());
    };
    let latency = |pick: fn(&Latency) -> f64| move |f: &Figures| duration(pick(&f.latency));
    row("disk", &|f| f.disk.clone());
    row("operations", &|f| f.ops.to_string());
    if all.iter().any(|f| f.failed > 0) {
        row("FAILED operations", &failures);
    }
    if all.len() > 1 {
        let none = |f: &Figures| if f.failed > 0 { "none: failures" } else { "none: no figure" };
        row("rank", &|f| f.rank.map_or_else(|| none(f).into(), |place| place.to_string()));
    }
    row("all done and on disk", &|f| with_spread(f, "finish"));
    if all.len() > 1 {
        let factor = |f: &Figures| f.trusted.map(|trusted| format!("{:.2}", trusted.factor));
        row("  equal up to a factor of", &|f| factor(f).unwrap_or("-".into()));
    }
    row("all operations done", &|f| duration(f.span_s * 1e6));
    clients(&mut row);
    if all.iter().any(|f| f.deadlines.is_some()) {
        deadlines(&mut row);
    }
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
    cleaned(all, &mut row);
    row("cache hits", &|f| format!("{:.1}%", f.cache_hit_share * 100.0));
    disk(&mut row);
    if all.iter().any(|f| f.bus_use.is_some()) {
        bus(&mut row);
    }
    if all.iter().any(|f| f.network_use.is_some()) {
        network(&mut row);
    }
    if all.iter().any(|f| !f.requests.is_empty()) {
        let asked = |f: &Figures| f.requests.iter().map(|(_, count)| count).sum::<u64>();
        row("the mount was asked", &|f| match asked(f) {
            0 => "all".into(),
            count => count.to_string(),
        });
    }
    row("wait of a disk request", &|f| duration(wait_us(f)));
    of_some_disks(all, &mut row);
    row("processor", &|f| format!("{:.2} s", f.cpu_s));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_lab::Lateness;
    use twin_report::{Form, Report};

    fn run(config: &str, rank: Option<usize>) -> Figures {
        Figures { config: config.into(), rank, finish_s: 0.25, ..Figures::default() }
    }

    fn shown(table: Table, width: Option<u16>) -> String {
        let mut report = Report::new("");
        report.add(table);
        report.write(Form::Terminal(width))
    }

    fn all_of(runs: &[Figures], width: Option<u16>) -> String {
        shown(table(&runs.iter().collect::<Vec<_>>()), width)
    }

    fn summary_of(
        runs: &[Figures],
        not_run: &[(String, String)],
        measure: &MeasureEntry,
        width: Option<u16>,
    ) -> String {
        shown(summary(&runs.iter().collect::<Vec<_>>(), not_run, measure), width)
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn tables_keep_to_the_width_of_the_terminal() {
        let runs: Vec<Figures> = (1..6).map(|n| run("lfs:cache=8M", Some(n))).collect();
        for width in 50..200 {
            let summary = summary_of(&runs, &[], MEASURES.default_entry(), Some(width));
            let all = all_of(&runs, Some(width));
            assert!(widest(&summary) <= width.into(), "{width}:\n{summary}");
            assert!(widest(&all) <= width.into(), "{width}:\n{all}");
            assert_eq!(all.matches("lfs:cache=8M").count(), 5, "each run is shown once");
        }
        assert_eq!(
            summary_of(&runs, &[], MEASURES.default_entry(), None).matches("cache hits").count(),
            1
        );
    }

    #[test]
    fn the_measure_that_was_asked_for_leads() {
        let runs = [run("a", None), run("b", None)];
        for measure in &MEASURES {
            let titles = |width| {
                let text = summary_of(&runs, &[], measure, width);
                let header = text.lines().nth(1).unwrap().trim_matches('│');
                header.split('┆').map(|title| title.trim().to_string()).collect::<Vec<_>>()
            };
            assert_eq!(titles(Some(50))[..3], ["rank", "configuration", measure.title]);
            let all = titles(None);
            assert_eq!(all.iter().filter(|title| *title == measure.title).count(), 1, "{all:?}");
        }
    }

    #[test]
    fn how_late_clients_ended_is_told_where_it_is_known() {
        let late = Lateness { clients: 3, median_s: -0.25, max_s: 1.5 };
        let with = Figures { lateness: Some(late), ..run("a", None) };
        let text = all_of(&[with, run("b", None)], None);
        assert!(text.contains("250.0 ms earlier"), "{text}");
        assert!(text.contains("at most 1.50 s later"), "{text}");
        assert!(!all_of(&[run("b", None)], None).contains("clients ended"));
    }

    #[test]
    fn the_best_stands_first_and_what_failed_or_could_not_run_last() {
        let mut failed = run("failed", None);
        failed.failed = 3;
        let not_run = [("ext4".to_string(), "no such configuration".to_string())];
        let text = summary_of(
            &[failed, run("b", Some(2)), run("a", Some(1))],
            &not_run,
            MEASURES.default_entry(),
            None,
        );
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word}: {text}"));
        assert!(at(" a ") < at(" b ") && at(" b ") < at("FAILED"), "{text}");
        assert!(at("FAILED") < at("cannot run"), "{text}");
    }
}
