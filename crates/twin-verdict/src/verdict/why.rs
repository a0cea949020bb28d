//! Why a run has more than another, in sentences.
//!
//! Contract: all figures are those of the two runs. The parts of a difference add up to it: what is not worth
//! a word of its own is named as the rest. Parts of the time that passed count what several operations share
//! once. The disk's requests are given by their number and their mean time, never as a sum of times that
//! overlap.

use std::cmp::Ordering;

use twin_lab::{Config, DiskFigures, Figures, VerbFigures, WAITING as QUEUE};
use twin_report::units::{count, dollars, duration, list, mib};
use twin_trace::Verb;

/// One of two runs.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    /// Its short name.
    pub(super) label: &'a str,
    pub(super) config: &'a Config,
    pub(super) figures: &'a Figures,
}

/// Two runs, the better one first.
pub(crate) type Pair<'a> = [Side<'a>; 2];

/// The least share of the difference that is worth a word.
const WORTH_SAYING: f64 = 0.05;
/// The least share of the difference of a rest that is named.
const WORTH_ADDING: f64 = 0.02;
/// The most parts of a difference that are named one by one.
const MOST_PARTS: usize = 3;
/// Numbers whose ratio is below this factor are about the same.
const ALIKE: f64 = 1.1;

/// A part of a difference: how much more the second run has, and where.
struct More {
    of: String,
    amount: f64,
}

/// The parts of a difference, the largest first, and the rest.
fn parts(mut all: Vec<More>, gap: f64, text: fn(f64) -> String) -> Vec<String> {
    all.sort_by(|a, b| b.amount.abs().total_cmp(&a.amount.abs()));
    let in_words = |amount: f64, of: &str| match amount < 0.0 {
        true => format!("{} less {of}", text(-amount)),
        false => format!("{} {of}", text(amount)),
    };
    let reported = all.iter().filter(|more| more.amount.abs() >= WORTH_SAYING * gap);
    let reported: Vec<&More> = reported.take(MOST_PARTS).collect();
    let rest = gap - reported.iter().map(|more| more.amount).sum::<f64>();
    let mut words: Vec<String> =
        reported.iter().map(|more| in_words(more.amount, &more.of)).collect();
    if rest.abs() >= WORTH_ADDING * gap && !words.is_empty() {
        words.push(in_words(rest, "in all else"));
    }
    words
}

fn seconds(s: f64) -> String {
    duration(s * 1e6)
}

/// The figures of a kind of operation in both runs.
fn of_both<'a>([first, next]: [&'a Figures; 2], verb: &str) -> [Option<&'a VerbFigures>; 2] {
    let find = |figures: &'a Figures| figures.verbs.iter().find(|of| of.verb == verb);
    [find(first), find(next)]
}

/// The kinds of operations that occur in either run and that clients wait for.
fn kinds([first, next]: [&Figures; 2]) -> Vec<&'static str> {
    let all = next.verbs.iter().chain(&first.verbs).filter(|of| of.is_waited_for());
    let mut names: Vec<&'static str> = Vec::new();
    for of in all {
        if !names.contains(&of.verb) {
            names.push(of.verb);
        }
    }
    names
}

/// Why clients waited longer: by the kinds of their operations.
pub(super) fn longer_waits(pair: Pair<'_>) -> Vec<String> {
    let [first, next] = pair;
    let both = [first.figures, next.figures];
    let gap = next.figures.waiting_s - first.figures.waiting_s;
    if gap <= 0.0 {
        return Vec::new();
    }
    let of_kind = |verb: &'static str| {
        let [a, b] = of_both(both, verb);
        let total = |of: Option<&VerbFigures>| of.map_or(0.0, VerbFigures::total_s);
        let each = |of: Option<&VerbFigures>| match of {
            Some(of) => (of.latency.count, duration(of.latency.mean_us)),
            None => (0, "no".into()),
        };
        let ((times_a, mean_a), (times_b, mean_b)) = (each(a), each(b));
        let before = match times_a == times_b {
            true => mean_a,
            false => format!("{} {mean_a}", times(times_a)),
        };
        let of = format!(
            "in {verb} ({} {mean_b} on average, {}: {before})",
            times(times_b),
            first.label,
        );
        More { of, amount: total(b) - total(a) }
    };
    let reported = parts(kinds(both).into_iter().map(of_kind).collect(), gap, seconds);
    let mut lines = Vec::new();
    if !reported.is_empty() {
        lines.push(format!(
            "Why: with {} clients waited {} more: {}.",
            next.label,
            seconds(gap),
            list(&reported)
        ));
    }
    lines.extend(disk(pair, gap));
    lines
}

/// The kinds of operations that one run waited for most.
pub(super) fn most_waited_for(figures: &Figures) -> Option<String> {
    let mut kinds: Vec<&VerbFigures> = figures.verbs.iter().collect();
    kinds.retain(|of| of.is_waited_for() && of.total_s() >= WORTH_SAYING * figures.waiting_s);
    kinds.sort_by(|a, b| b.total_s().total_cmp(&a.total_s()));
    let reported = kinds.iter().take(MOST_PARTS).map(|of| {
        let (number, mean) = (times(of.latency.count), duration(of.latency.mean_us));
        format!("{} in {} ({number} {mean} on average)", seconds(of.total_s()), of.verb)
    });
    let reported: Vec<String> = reported.collect();
    (!reported.is_empty()).then(|| {
        format!("Clients waited {} in all: {}.", seconds(figures.waiting_s), list(&reported))
    })
}

/// Why all was done and on the disk later: by what the time passed with.
pub(super) fn later(pair: Pair<'_>) -> Vec<String> {
    let [first, next] = pair;
    let both = [first.figures, next.figures];
    let gap = next.figures.finish_s - first.figures.finish_s;
    let passed = |of: Option<&VerbFigures>| of.and_then(|of| of.elapsed_s).unwrap_or(0.0);
    let is_known = |figures: &&Figures| figures.verbs.iter().any(|of| of.elapsed_s.is_some());
    if gap <= 0.0 {
        return Vec::new();
    }
    let mut lines = Vec::new();
    if both.iter().all(is_known) {
        let of_kind = |verb: &'static str| {
            let [a, b] = of_both(both, verb);
            let number = b.or(a).map_or(0, |of| of.latency.count);
            let of = format!("in {verb} ({})", times(number));
            More { of, amount: passed(b) - passed(a) }
        };
        let mut all: Vec<More> = kinds(both).into_iter().map(of_kind).collect();
        let pauses = next.figures.pauses_s - first.figures.pauses_s;
        all.push(More { of: "while no operation was under way".into(), amount: pauses });
        let left = |figures: &Figures| figures.finish_s - figures.span_s;
        let left = left(next.figures) - left(first.figures);
        all.push(More { of: "in writing what was left at the end".into(), amount: left });
        let reported = parts(all, gap, seconds);
        if !reported.is_empty() {
            let shared = both.iter().any(|figures| figures.waiting_s > 1.01 * figures.finish_s);
            let shared = match shared {
                true => " (time that several operations share is divided among them)",
                false => "",
            };
            lines.push(format!(
                "Why: with {} all was on the disk {} later: {}{shared}.",
                next.label,
                seconds(gap),
                list(&reported)
            ));
        }
    }
    lines.extend(disk(pair, gap));
    lines
}

/// The least share of all waiting that stands for a difference of latencies.
const WORTH_TELLING: f64 = 0.1;

/// What of the disk's work made operations slower.
pub(super) fn busier_disk(pair: Pair<'_>) -> Vec<String> {
    let [before, now] = pair.map(|side| side.figures.waiting_s);
    let reported = disk(pair, (now - before).max(WORTH_TELLING * now));
    reported.into_iter().enumerate().map(|(nth, reported)| why(nth == 0, reported)).collect()
}

fn why(is_first: bool, reported: String) -> String {
    if is_first { format!("Why: {reported}") } else { reported }
}

/// A kind of request to the disk.
struct Kind {
    nouns: [&'static str; 2],
    number: fn(&DiskFigures) -> u64,
    service_s: fn(&DiskFigures) -> f64,
    /// Why there are more of them.
    because: fn(Pair<'_>) -> Option<String>,
}

impl Kind {
    fn mean_us(&self, disk: &DiskFigures) -> f64 {
        (self.service_s)(disk) * 1e6 / (self.number)(disk).max(1) as f64
    }

    /// `9,425 flushes of 717 us each`, or without the noun.
    fn reported(&self, disk: &DiskFigures, with_noun: bool) -> String {
        let number = (self.number)(disk);
        let noun = match (with_noun, number) {
            (false, _) => String::new(),
            (true, 1) => format!(" {}", self.nouns[0]),
            (true, _) => format!(" {}", self.nouns[1]),
        };
        let each = if with_noun { " each" } else { "" };
        match number {
            0 => format!("no{noun}"),
            _ => format!("{}{noun} of {}{each}", count(number), duration(self.mean_us(disk))),
        }
    }

    /// True if their number, and not the time of each alone, makes the difference.
    fn is_by_number(&self, a: &DiskFigures, b: &DiskFigures) -> bool {
        let [less, more] = [a, b].map(|disk| (self.number)(disk) as f64);
        let longer = (self.service_s)(b) - (self.service_s)(a);
        more >= ALIKE * less && (more - less) * self.mean_us(a) / 1e6 >= BY_NUMBER * longer
    }
}

/// The least share of a difference for which a number of requests is a reason.
const BY_NUMBER: f64 = 0.25;

const WRITES: Kind = Kind {
    nouns: ["write", "writes"],
    number: |disk| disk.writes,
    service_s: |disk| disk.writes_s,
    because: because_of_writes,
};

const FLUSHES: Kind = Kind {
    nouns: ["flush", "flushes"],
    number: |disk| disk.flushes,
    service_s: |disk| disk.flushes_s,
    because: |_| None,
};

const READS: Kind = Kind {
    nouns: ["read", "reads"],
    number: |disk| disk.reads,
    service_s: |disk| disk.reads_s,
    because: because_of_reads,
};

/// Mean bytes of a request, in words.
fn size(bytes: u64, requests: u64) -> String {
    format!("{:.1} KiB", bytes as f64 / 1024.0 / requests.max(1) as f64)
}

fn because_of_writes([first, next]: Pair<'_>) -> Option<String> {
    let (a, b) = (&first.figures.disk_use, &next.figures.disk_use);
    let sizes = [size(a.written_bytes, a.writes), size(b.written_bytes, b.writes)];
    let ways = [first, next].map(|side| side.config.of_layout.writes());
    if ways[0] != ways[1] {
        return Some(format!(
            "it {} ({} a write), where {} {} ({})",
            ways[1], sizes[1], first.label, ways[0], sizes[0],
        ));
    }
    let (log_a, log_b) = (&first.figures.log, &next.figures.log);
    match b.written_bytes as f64 >= ALIKE * a.written_bytes as f64 {
        true => {
            let moved = match log_b.moved_bytes > log_a.moved_bytes {
                true => format!(
                    ", {} of it moved by its cleaner (with {} {})",
                    mib(log_b.moved_bytes),
                    first.label,
                    mib(log_a.moved_bytes)
                ),
                false => String::new(),
            };
            let amounts = [b, a].map(|disk| mib(disk.written_bytes));
            Some(format!("it wrote {}, not {}{moved}", amounts[0], amounts[1]))
        }
        false => Some(format!("its writes have {}, not {}", sizes[1], sizes[0])),
    }
}

fn because_of_reads([first, next]: Pair<'_>) -> Option<String> {
    let (a, b) = (&first.figures.disk_use, &next.figures.disk_use);
    let cleaner = [first, next].map(|side| side.figures.log.cleaner_read_bytes);
    let more = b.read_bytes.saturating_sub(a.read_bytes);
    if more > 0 && cleaner[1].saturating_sub(cleaner[0]) > more / 2 {
        return Some(format!("its cleaner read {}, not {}", mib(cleaner[1]), mib(cleaner[0])));
    }
    let hits = [first, next].map(|side| side.figures.cache_hit_share * 100.0);
    if hits[0] >= hits[1] + 1.0 {
        return Some(format!("its cache served {:.1}% of look-ups, not {:.1}%", hits[1], hits[0]));
    }
    let sizes = [size(a.read_bytes, a.reads), size(b.read_bytes, b.reads)];
    (sizes[0] != sizes[1]).then(|| format!("its reads have {}, not {}", sizes[1], sizes[0]))
}

/// What the disk had to do more often, and what takes it longer each time, if that matters for a
/// difference of `gap` seconds.
fn disk(pair: Pair<'_>, gap: f64) -> Vec<String> {
    let [first, next] = pair;
    let (a, b) = (&first.figures.disk_use, &next.figures.disk_use);
    let mattering = |kind: &&Kind| {
        let more = (kind.service_s)(b) - (kind.service_s)(a);
        more > 0.0 && more >= WORTH_SAYING * gap
    };
    let matter: Vec<&Kind> = [&FLUSHES, &WRITES, &READS].into_iter().filter(mattering).collect();
    let by_number = |kind: &Kind| kind.is_by_number(a, b);
    let mut lines = Vec::new();
    // What is written more often is flushed more often too.
    let is_written_more = b.writes as f64 >= ALIKE * a.writes as f64;
    let asks = |kind: &&Kind| kind.nouns != READS.nouns && by_number(kind);
    if is_written_more && matter.iter().any(asks) {
        let because =
            (WRITES.because)(pair).map_or(String::new(), |why| format!(", because {why}"));
        lines.push(format!(
            "{} wrote to the disk {} where {} wrote {}{because}.",
            next.label,
            times(b.writes),
            first.label,
            times(a.writes)
        ));
    }
    let reported = matter.iter().map(|kind| {
        format!("{} ({}: {})", kind.reported(b, true), first.label, kind.reported(a, false))
    });
    let reported: Vec<String> = reported.collect();
    if !reported.is_empty() {
        let mut line = format!("With {} the disk did {}.", next.label, list(&reported));
        let reads_more = |kind: &&Kind| kind.nouns == READS.nouns && by_number(kind);
        if let Some(why) =
            matter.iter().copied().find(reads_more).and_then(|_| (READS.because)(pair))
        {
            line += &format!(" {} reads more often because {why}.", next.label);
        }
        if matter.iter().any(|kind| kind.nouns == FLUSHES.nouns) {
            line += &flushes_for_fsyncs(pair).unwrap_or_default();
        }
        if first.figures.disk != next.figures.disk {
            let disks = [next, first].map(|side| side.figures.disk.as_str());
            line += &format!(" The disks differ: {}{}.", disks.join(" and "), mechanics(next));
        }
        lines.push(line);
    }
    let cpu = next.figures.cpu_s - first.figures.cpu_s;
    if cpu > 0.0 && cpu >= WORTH_SAYING * gap {
        lines.push(format!(
            "The processor took {} with {}, and {} with {}.",
            seconds(next.figures.cpu_s),
            next.label,
            seconds(first.figures.cpu_s),
            first.label
        ));
    }
    lines
}

/// How many flushes of the disk there are for each fsync, if they have become more.
fn flushes_for_fsyncs([first, next]: Pair<'_>) -> Option<String> {
    let [a, b] = [first, next].map(|side| {
        let fsync = side.figures.verbs.iter().find(|of| of.verb == Verb::Fsync.name())?;
        let fsyncs = fsync.latency.count;
        (fsyncs > 0).then(|| side.figures.disk_use.flushes as f64 / fsyncs as f64)
    });
    let (a, b) = (a?, b?);
    (b >= ALIKE * a).then(|| format!(" That is {b:.2} flushes for each fsync, not {a:.2}."))
}

fn times(number: u64) -> String {
    match number {
        1 => "once".into(),
        _ => format!("{} times", count(number)),
    }
}

/// The least share of the disk's work of a part that is named.
const LARGE_PART: f64 = 0.25;

/// What most of a disk's work is.
fn mechanics(side: Side<'_>) -> String {
    let parts = || side.figures.disk_use.time_s.iter().filter(|(name, _)| *name != QUEUE);
    let all: f64 = parts().map(|(_, s)| s).sum();
    let mut large: Vec<_> = parts().filter(|(_, s)| *s >= LARGE_PART * all && *s > 0.0).collect();
    large.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named = large.iter().map(|(name, s)| format!("{:.0}% {name}", s * 100.0 / all));
    let named: Vec<String> = named.collect();
    match named.is_empty() {
        true => String::new(),
        false => format!(", and the work of {} is {}", side.figures.disk, list(&named)),
    }
}

/// What the bytes are that were written more.
pub(super) fn more_written(pair: Pair<'_>) -> Vec<String> {
    let [first, next] = pair;
    let written = |figures: &Figures| figures.disk_use.written_bytes as f64;
    let gap = written(next.figures) - written(first.figures);
    if gap <= 0.0 {
        return Vec::new();
    }
    let contents = |figures: &Figures| figures.log.new_data_bytes as f64;
    let moved = |figures: &Figures| figures.log.moved_bytes as f64;
    let rest = |figures: &Figures| written(figures) - contents(figures) - moved(figures);
    let more = |of: &str, part: &dyn Fn(&Figures) -> f64| More {
        of: of.into(),
        amount: part(next.figures) - part(first.figures),
    };
    let all = vec![
        more("of file contents", &contents),
        more("moved by the cleaner", &moved),
        more("of metadata: directories, inodes, maps, journal and the log's own blocks", &rest),
    ];
    let reported = parts(all, gap, |bytes| mib(bytes as u64));
    let ways = [first, next].map(|side| side.config.of_layout.writes());
    let because = match ways[0] == ways[1] {
        true => String::new(),
        false => format!(" It {}; {} {}.", ways[1], first.label, ways[0]),
    };
    vec![format!(
        "Why: with {} {} more were written: {}.{because}",
        next.label,
        mib(gap as u64),
        list(&reported)
    )]
}

/// Whether the SSD got more to write, or moves more by itself.
pub(super) fn more_worn([first, next]: Pair<'_>) -> Vec<String> {
    let wear = |side: Side<'_>| side.figures.disk_use.wear.unwrap_or_default();
    let (a, b) = (wear(first), wear(next));
    let gap = b.programmed_bytes as f64 - a.programmed_bytes as f64;
    if gap <= 0.0 {
        return Vec::new();
    }
    let host = |of: &twin_lab::WearFigures| (of.programmed_bytes - of.moved_bytes) as f64;
    let all = vec![
        More { of: "for what was written to it".into(), amount: host(&b) - host(&a) },
        More {
            of: "to move pages by itself".into(),
            amount: b.moved_bytes as f64 - a.moved_bytes as f64,
        },
    ];
    let reported = parts(all, gap, |bytes| mib(bytes as u64));
    vec![format!(
        "Why: with {} the SSD programs {} more: {}.",
        next.label,
        mib(gap as u64),
        list(&reported)
    )]
}

/// Which requests of a bucket cost more.
pub(super) fn dearer([first, next]: Pair<'_>) -> Vec<String> {
    let bill = |side: Side<'_>| side.figures.disk_use.bill.unwrap_or_default();
    let (a, b) = (bill(first), bill(next));
    let gap = b.work_usd() - a.work_usd();
    if gap <= 0.0 {
        return Vec::new();
    }
    let more = |now: u64, before: u64, what: &str| match now.cmp(&before) {
        Ordering::Greater => Some(format!("{} more {what}", now - before)),
        Ordering::Less => Some(format!("{} fewer {what}", before - now)),
        Ordering::Equal => None,
    };
    let differ = [more(b.puts, a.puts, "objects stored"), more(b.gets, a.gets, "ranges read")];
    let differ: Vec<String> = differ.into_iter().flatten().collect();
    let because = if differ.is_empty() { "the same requests".into() } else { list(&differ) };
    vec![format!("Why: with {} the work costs {} more: {because}.", next.label, dollars(gap))]
}
