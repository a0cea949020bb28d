//! The verdict of a comparison: which configuration is the best by a measure, by how much, and why.
//!
//! Contract: a run in which operations failed is not judged, because the missing work took no time.
//! Figures that differ by less than [`NOISE`] are equal, and simulated times whose ratio is below the
//! error of simulation ([`Trust`]) are too close to call: both share a place. With several seeds the medians are compared,
//! and runs are equal too if chance explains their difference: the ranges of the values overlap, and
//! the test of Mann and Whitney does not tell them apart at 5%. A measure is a line in [`MEASURES`].

use twin_settings::{Registry, RegistryEntry};
use twin_sim::model;

use crate::config::Config;
use crate::figures::{Figures, Spread, Trusted, WAITING};
use crate::statistics::differ;
use crate::trust::Trust;
use twin_report::units::{duration, list, mib};

/// Figures whose ratio differs from 1 by less than this are equal.
pub const NOISE: f64 = 0.02;

/// What runs are judged by: smaller is better.
pub struct Measure {
    of: fn(&Figures) -> Option<f64>,
    text: fn(f64) -> String,
    /// The title of a column with such figures.
    pub title: &'static str,
    what: What,
    /// What a workload or a configuration needs to have such a figure.
    needs: &'static str,
    /// Why the second run has more, as far as the runs tell.
    why: fn(&Figures, &Figures) -> Option<String>,
}

/// What a measure counts, which decides about the error of simulation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    TotalTime,
    Latency,
    Bytes,
}

/// What runs with several seeds measured; `None` if there was one.
pub(crate) fn spread_of<'a>(measure: &str, figures: &'a Figures) -> Option<&'a Spread> {
    figures.spreads.iter().find(|spread| spread.measure == measure)
}

/// The value of a run by a measure, or with several seeds the median; `None` if it has none.
pub(crate) fn value_of(measure: &MeasureEntry, figures: &Figures) -> Option<f64> {
    spread_of(measure.name, figures)
        .map(|spread| spread.median)
        .or_else(|| measure.value_of(figures))
}

/// The value in words, with the smallest and the largest if there are several.
pub(crate) fn text_of(measure: &MeasureEntry, figures: &Figures) -> Option<String> {
    let text = |value: f64| (measure.text)(value);
    let value = text(value_of(measure, figures)?);
    Some(match spread_of(measure.name, figures) {
        Some(spread) => format!("{value} ({} to {})", text(spread.min), text(spread.max)),
        None => value,
    })
}

impl Measure {
    /// The value of one run; `None` if it has none.
    pub fn value_of(&self, figures: &Figures) -> Option<f64> {
        (self.of)(figures)
    }

    /// A value in words, with its unit.
    pub fn text(&self, value: f64) -> String {
        (self.text)(value)
    }

    /// The unit of its values.
    pub fn unit(&self) -> &'static str {
        match self.what {
            What::TotalTime => "s",
            What::Latency => "us",
            What::Bytes => "bytes",
        }
    }

    /// True if it is a time, which simulations have with an error.
    fn is_time(&self) -> bool {
        self.what != What::Bytes
    }

    /// The factor below which its figures are too close to call: counts are not times and have no
    /// such error.
    pub fn error(&self, trust: &Trust) -> f64 {
        if self.is_time() { trust.factor } else { 1.0 }
    }

    /// True if it is a latency of single operations.
    fn is_latency(&self) -> bool {
        self.what == What::Latency
    }
}

/// Checks that configurations can have figures by a measure.
///
/// # Errors
/// If none of them can: what they need, in words.
pub fn measurable(measure: &MeasureEntry, configs: &[Config]) -> Result<(), String> {
    match measure.name == WEAR && !configs.is_empty() && !configs.iter().any(Config::wears) {
        true => Err(format!("--by {WEAR}: no configuration has a figure: it {}", measure.needs)),
        false => Ok(()),
    }
}

/// The measure that only some disks have.
const WEAR: &str = "wear";

/// All measures; the first is the default.
pub static MEASURES: Registry<Measure> = Registry::new(
    "measure",
    &[
        RegistryEntry::new(
            "finish",
            "simulated time until all work is done and on the disk",
            Measure {
                of: |figures| Some(figures.finish_s),
                text: |seconds| duration(seconds * 1e6),
                title: "all on disk",
                what: What::TotalTime,
                needs: "needs nothing",
                why: why_later,
            },
        ),
        RegistryEntry::new(
            "p99",
            "latency that 99 of 100 operations do not exceed",
            Measure {
                of: |figures| Some(figures.latency.p99_us),
                text: duration,
                title: "p99",
                what: What::Latency,
                needs: "needs operations",
                why: |_, _| None,
            },
        ),
        RegistryEntry::new(
            "fsync",
            "latency that 99 of 100 fsyncs do not exceed",
            Measure {
                of: |figures| {
                    let fsync = figures
                        .verbs
                        .iter()
                        .find(|verb| verb.verb == twin_trace::Verb::Fsync.name());
                    fsync.map(|verb| verb.latency.p99_us)
                },
                text: duration,
                title: "p99 of fsyncs",
                what: What::Latency,
                needs: "needs a workload with fsyncs",
                why: |_, _| None,
            },
        ),
        RegistryEntry::new(
            "written",
            "bytes written to the disk",
            Measure {
                of: |figures| Some(figures.disk_use.written_bytes as f64),
                text: |bytes| mib(bytes as u64),
                title: "written",
                what: What::Bytes,
                needs: "needs nothing",
                why: why_more_written,
            },
        ),
        RegistryEntry::new(
            WEAR,
            "bytes that the SSD programs into its cells, those that it moves by itself included",
            Measure {
                of: |figures| figures.disk_use.wear.map(|wear| wear.programmed_bytes as f64),
                text: |bytes| mib(bytes as u64),
                title: "SSD programs",
                what: What::Bytes,
                needs: "needs a disk with a translation layer, whose wear is counted: \
                        disk=ssd-tlc or disk=ssd-mqsim",
                why: why_more_worn,
            },
        ),
    ],
);

/// A measure in the registry.
pub type MeasureEntry = RegistryEntry<Measure>;

/// The runs in the order of their places, within a place by their values; those without a place last.
pub(crate) fn by_place<'a>(runs: &[&'a Figures], measure: &MeasureEntry) -> Vec<&'a Figures> {
    let mut sorted: Vec<&Figures> = runs.to_vec();
    let value = |figures: &Figures| value_of(measure, figures).unwrap_or(f64::INFINITY);
    let place = |figures: &Figures| figures.rank.unwrap_or(usize::MAX);
    sorted.sort_by(|a, b| place(a).cmp(&place(b)).then(value(a).total_cmp(&value(b))));
    sorted
}

/// A run and its value.
type Judged<'a> = (f64, &'a Figures);

/// How two runs compare, the second of which is no better.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    /// Within the noise, or by chance.
    Equal,
    /// Within the error of simulation.
    Close,
    /// Neither.
    Apart,
}

fn gap(measure: &MeasureEntry, trust: &Trust, best: Judged<'_>, next: Judged<'_>) -> Gap {
    let values = |figures| spread_of(measure.name, figures).map(|spread| &spread.values[..]);
    let by_chance = match (values(best.1), values(next.1)) {
        (Some(first), Some(next)) => !differ(first, next),
        _ => false,
    };
    let (best, next) = (best.0, next.0);
    match next - best <= NOISE * best.abs() || by_chance {
        true => Gap::Equal,
        false if next < best * measure.error(trust) => Gap::Close,
        false => Gap::Apart,
    }
}

/// How two runs compare, in either order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    First,
    Second,
    /// Within the noise.
    Equal,
    /// Within the error of simulation.
    Close,
    /// One of them has no figure, or operations failed in it.
    None,
}

/// Compares two runs by a measure.
pub(crate) fn order(pair: [&Figures; 2], measure: &MeasureEntry, trust: &Trust) -> Order {
    let sorted = in_order(pair.into_iter().enumerate(), measure);
    let [(first, best), (_, next)] = sorted[..] else { return Order::None };
    match gap(measure, trust, best, next) {
        Gap::Equal => Order::Equal,
        Gap::Close => Order::Close,
        Gap::Apart if first == 0 => Order::First,
        Gap::Apart => Order::Second,
    }
}

/// The runs that a verdict sets against each other, by their numbers: the best, and the best of the next place; or
/// the last, if all share the first place. None if there are not two.
pub fn rivals(runs: &[Figures], measure: &MeasureEntry) -> Option<[usize; 2]> {
    let sorted = in_order(runs.iter().enumerate(), measure);
    let next = sorted.iter().find(|(_, (_, figures))| figures.rank != Some(1)).or(sorted.last())?;
    (next.0 != sorted[0].0).then_some([sorted[0].0, next.0])
}

/// Gives each run its place by a measure. Runs that are equal to the best of their place, or too
/// close to it to call, share it.
pub fn rank(runs: &mut [&mut Figures], measure: &MeasureEntry, trust: &Trust) {
    let sorted = in_order(runs.iter().map(|figures| &**figures).enumerate(), measure);
    let mut places = vec![None; runs.len()];
    let mut best = 0;
    for (nth, (at, judged)) in sorted.iter().enumerate() {
        if gap(measure, trust, sorted[best].1, *judged) == Gap::Apart {
            best = nth;
        }
        places[*at] = Some(best + 1);
    }
    for (figures, place) in runs.iter_mut().zip(places) {
        figures.rank = place;
        figures.trusted = Some(Trusted { factor: trust.factor, source: trust.source() });
    }
}

/// The runs that can be judged, by their values, each with its number.
fn in_order<'a>(
    runs: impl Iterator<Item = (usize, &'a Figures)>,
    measure: &MeasureEntry,
) -> Vec<(usize, Judged<'a>)> {
    let sound = runs.filter(|(_, figures)| figures.failed == 0);
    let judged = |(at, figures)| Some((at, (value_of(measure, figures)?, figures)));
    let mut sorted: Vec<_> = sound.filter_map(judged).collect();
    sorted.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    sorted
}

/// The verdict on ranked runs, in words; nothing if fewer than two can be compared.
pub fn verdict(runs: &[Figures], measure: &MeasureEntry, trust: &Trust) -> Option<String> {
    let judged: Vec<Judged<'_>> =
        in_order(runs.iter().enumerate(), measure).into_iter().map(|(_, judged)| judged).collect();
    if judged.is_empty() && runs.iter().any(|figures| figures.failed == 0) {
        return Some(format!("No verdict by {}: it {}.", measure.name, measure.needs));
    }
    let (first, others) = judged.split_first().filter(|(_, others)| !others.is_empty())?;
    let wins = |judged: &&Judged<'_>| judged.1.rank == Some(1);
    let winners: Vec<Judged<'_>> = judged.iter().filter(wins).copied().collect();
    let are_equal = |other: &Judged<'_>| gap(measure, trust, *first, *other) == Gap::Equal;
    let all_equal = winners[1..].iter().all(are_equal);
    let mut lines = match others.iter().find(|judged| !wins(judged)) {
        None if all_equal => no_winner(&winners, measure),
        None => too_close(&winners, measure, trust),
        Some(next) => winner(&winners, *next, measure, all_equal),
    };
    if measure.is_time() {
        lines.push(trust.words(measure.is_latency()));
    }
    Some(lines.join("\n"))
}

fn names(runs: &[Judged<'_>], between: &str) -> String {
    runs.iter().map(|(_, figures)| figures.config.as_str()).collect::<Vec<_>>().join(between)
}

fn value_text(measure: &MeasureEntry, (_, figures): Judged<'_>) -> String {
    text_of(measure, figures).unwrap_or_default()
}

/// What is measured, and of how many seeds.
fn about(measure: &MeasureEntry, (_, figures): Judged<'_>) -> String {
    match spread_of(measure.name, figures) {
        Some(spread) => format!("{}, medians of {} seeds", measure.about, spread.values.len()),
        None => measure.about.into(),
    }
}

fn no_winner(runs: &[Judged<'_>], measure: &MeasureEntry) -> Vec<String> {
    let has_seeds = spread_of(measure.name, runs[0].1).is_some();
    let noise = format!("within {:.0}%", NOISE * 100.0);
    let (how, values) = match has_seeds {
        false => (noise, value_text(measure, runs[0])),
        true => {
            let each = runs.iter().map(|run| value_text(measure, *run)).collect::<Vec<_>>();
            (format!("{noise} or what chance explains"), each.join(", "))
        }
    };
    let verdict = format!(
        "No winner: {} are equal {how} by {} ({}): {values}.",
        names(runs, ", "),
        measure.name,
        about(measure, runs[0]),
    );
    vec![verdict, hint(runs, has_seeds)]
}

/// All are within the error of simulation, but not equal.
fn too_close(runs: &[Judged<'_>], measure: &MeasureEntry, trust: &Trust) -> Vec<String> {
    let each = runs.iter().map(|run| value_text(measure, *run)).collect::<Vec<_>>();
    let last = runs[runs.len() - 1];
    let mut lines = vec![format!(
        "Too close to call by {} ({}): {} are within a factor of {:.2}: {}. Simulated, {} has {:.2} \
         times as much as {}.",
        measure.name,
        about(measure, runs[0]),
        names(runs, ", "),
        measure.error(trust),
        each.join(", "),
        last.1.config,
        last.0 / runs[0].0,
        runs[0].1.config,
    )];
    lines.extend((measure.why)(runs[0].1, last.1));
    lines.push(hint(runs, false));
    lines
}

fn winner(
    winners: &[Judged<'_>],
    next: Judged<'_>,
    measure: &MeasureEntry,
    all_equal: bool,
) -> Vec<String> {
    let first = winners[0];
    let (wins, between, shown) = match winners.len() {
        1 => ("wins", "", 1),
        _ if all_equal => ("win", "", 1),
        all => ("win", ", too close to call between them,", all),
    };
    let names: Vec<String> = winners.iter().map(|run| run.1.config.clone()).collect();
    let values = winners.iter().take(shown).map(|run| value_text(measure, *run));
    let mut lines = vec![format!(
        "{} {wins}{between} by {} ({}): {}. Next is {} with {}, {:.2} times as much.",
        list(&names),
        measure.name,
        about(measure, first),
        list(&values.collect::<Vec<_>>()),
        next.1.config,
        value_text(measure, next),
        next.0 / first.0,
    )];
    lines.extend((measure.why)(first.1, next.1));
    lines
}

/// The least share of the difference that is worth a word.
const WORTH_SAYING: f64 = 0.05;

/// What the disk and the processor spend more time on.
fn why_later(first: &Figures, next: &Figures) -> Option<String> {
    let part = |figures: &Figures, name: &str| {
        let found = figures.disk_use.time_s.iter().find(|(part, _)| *part == name);
        found.map_or(0.0, |(_, seconds)| *seconds)
    };
    let parts = next.disk_use.time_s.iter().filter(|(name, _)| *name != WAITING);
    let mut more: Vec<(&str, f64)> =
        parts.map(|&(name, seconds)| (name, seconds - part(first, name))).collect();
    more.push(("the processor", next.cpu_s - first.cpu_s));
    more.sort_by(|a, b| b.1.total_cmp(&a.1));
    let least = WORTH_SAYING * (next.finish_s - first.finish_s).max(0.0);
    let told = more.iter().filter(|(_, s)| *s > least && *s > 0.0).take(3);
    let mut told: Vec<String> =
        told.map(|(name, s)| format!("{} more of {name}", duration(s * 1e6))).collect();
    let all = [first, next].iter().any(|figures| figures.disk_use.overlaps());
    if let Some(last) = told.last_mut().filter(|_| all) {
        last.push_str(" (added up over requests, also those at the same time)");
    }
    because(next, &told)
}

/// Which kinds of bytes the layout writes more of.
fn why_more_written(first: &Figures, next: &Figures) -> Option<String> {
    type Kind = (&'static str, fn(&Figures) -> u64);
    let kinds: [Kind; 3] = [
        ("data and directories", |figures| figures.log.data_bytes),
        ("indirect blocks, inodes and maps", |figures| figures.log.meta_bytes),
        ("blocks moved by the cleaner", |figures| figures.log.moved_bytes),
    ];
    let more = kinds.map(|(name, of)| (name, of(next).saturating_sub(of(first))));
    let gap = next.disk_use.written_bytes.saturating_sub(first.disk_use.written_bytes);
    let told = more.into_iter().filter(|(_, bytes)| *bytes as f64 > WORTH_SAYING * gap as f64);
    let told: Vec<String> =
        told.map(|(name, bytes)| format!("{} more of {name}", mib(bytes))).collect();
    because(next, &told)
}

/// Whether the SSD got more to write, or moves more by itself.
fn why_more_worn(first: &Figures, next: &Figures) -> Option<String> {
    let moved = |figures: &Figures| figures.disk_use.wear.map_or(0, |wear| wear.moved_bytes);
    let more_moved = moved(next).saturating_sub(moved(first));
    let written = next.disk_use.written_bytes.saturating_sub(first.disk_use.written_bytes);
    let kinds = [(more_moved, "moved by the SSD itself"), (written, "written to the SSD")];
    let told = kinds.iter().filter(|(bytes, _)| *bytes > 0);
    let told: Vec<String> =
        told.map(|(bytes, name)| format!("{} more {name}", mib(*bytes))).collect();
    because(next, &told)
}

fn because(next: &Figures, told: &[String]) -> Option<String> {
    (!told.is_empty()).then(|| format!("Why: {} has {}.", next.config, told.join(", ")))
}

/// What would tell configurations apart that are equal.
fn hint(runs: &[Judged<'_>], has_seeds: bool) -> String {
    if has_seeds {
        return "More seeds, or a larger workload, may tell them apart.".into();
    }
    let most = |of: fn(&Figures) -> f64| runs.iter().map(|run| of(run.1)).fold(0.0, f64::max);
    let reads = most(|figures| figures.disk_use.reads as f64 / figures.ops.max(1) as f64);
    let busy = most(|figures| figures.disk_use.busy_s / figures.finish_s.max(1e-9));
    // What is advised has not been tried: it may help.
    if busy < 0.1 {
        let is_slow = |disk: &str| {
            let model = model::REGISTRY.get(disk);
            model.is_ok_and(|model| model.kind == model::Kind::Mechanical)
        };
        let slower = match runs.iter().all(|run| is_slow(&run.1.disk)) {
            true => "",
            false => "a slower disk (disk=disk-7200), or ",
        };
        return format!(
            "The disk is idle nine tenths of the time: {slower}a workload with fsyncs, may tell \
             them apart."
        );
    }
    if reads < 0.01 {
        return "Nearly all reads are served from memory: a smaller cache (cache=) may tell them apart."
            .into();
    }
    "A larger workload, or a fuller volume (size=), may tell them apart.".into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{DiskFigures, WearFigures};
    use crate::trust::FIDELITY;

    fn run(config: &str, finish_s: f64) -> Figures {
        Figures { config: config.into(), finish_s, ops: 100, ..Figures::default() }
    }

    fn judge(mut runs: Vec<Figures>, measure: &str) -> (Vec<Option<usize>>, Option<String>) {
        let measure = MEASURES.get(measure).unwrap();
        let trust = Trust::of([&Config::parse("lfs").unwrap()]);
        rank(&mut runs.iter_mut().collect::<Vec<_>>(), measure, &trust);
        (runs.iter().map(|figures| figures.rank).collect(), verdict(&runs, measure, &trust))
    }

    #[test]
    fn the_quickest_wins_and_the_verdict_says_by_how_much() {
        let (ranks, text) = judge(vec![run("slow", 3.0), run("quick", 1.5)], "finish");
        assert_eq!(ranks, [Some(2), Some(1)]);
        let text = text.unwrap();
        assert!(text.starts_with("quick wins by finish") && text.contains("2.00 times"), "{text}");
    }

    #[test]
    fn a_run_that_failed_has_no_place_however_quick_it_was() {
        let failed = Figures { failed: 1, ..run("failed", 0.1) };
        let (ranks, text) = judge(vec![failed, run("a", 1.0), run("b", 2.0)], "finish");
        assert_eq!(ranks, [None, Some(1), Some(2)]);
        assert!(!text.unwrap().contains("failed"));
    }

    #[test]
    fn what_is_within_the_noise_shares_a_place_and_nobody_wins() {
        let (ranks, text) = judge(vec![run("a", 1.0), run("b", 1.01)], "finish");
        assert_eq!(ranks, [Some(1), Some(1)]);
        assert!(text.unwrap().starts_with("No winner"));
    }

    #[test]
    fn a_slower_disk_is_advised_only_where_there_is_one() {
        let on = |config: &str, disk: &str| Figures { disk: disk.into(), ..run(config, 1.0) };
        let (_, text) = judge(vec![on("a", "ssd-sata"), on("b", "ssd-sata")], "finish");
        assert!(text.unwrap().contains("a slower disk"));
        let (_, text) = judge(vec![on("a", "hp97560"), on("b", "hp97560")], "finish");
        assert!(!text.unwrap().contains("a slower disk"));
    }

    #[test]
    fn what_chance_explains_is_equal_however_far_the_medians_are_apart() {
        let of = |config: &str, values: [f64; 5]| {
            let mut sorted = values;
            sorted.sort_by(f64::total_cmp);
            let [min, _, median, _, max] = sorted;
            let spread = Spread { measure: "finish", median, min, max, values: values.into() };
            Figures { spreads: vec![spread], ..run(config, median) }
        };
        let a = of("a", [1.0, 1.2, 1.4, 1.6, 1.8]);
        let (ranks, text) = judge(vec![a.clone(), of("b", [1.1, 1.3, 1.5, 1.7, 1.9])], "finish");
        assert_eq!(ranks, [Some(1), Some(1)]);
        let text = text.unwrap();
        assert!(text.contains("what chance explains") && text.contains("More seeds"), "{text}");
        assert!(text.contains("1.40 s (") && text.contains("1.50 s ("), "{text}");
        let (ranks, text) = judge(vec![of("b", [2.1, 2.3, 2.5, 2.7, 1.7]), a], "finish");
        assert_eq!(ranks, [Some(2), Some(1)]);
        let text = text.unwrap();
        assert!(text.contains("medians of 5 seeds"), "{text}");
        assert!(text.contains("1.40 s (1.00 s to 1.80 s)"), "{text}");
    }

    #[test]
    fn a_measure_that_no_run_has_ranks_nothing() {
        let (ranks, text) = judge(vec![run("a", 1.0), run("b", 2.0)], "fsync");
        assert_eq!(ranks, [None, None]);
        let text = text.unwrap();
        assert!(text.contains("No verdict by fsync: it needs a workload with fsyncs"), "{text}");
    }

    #[test]
    fn times_within_the_error_of_simulation_are_too_close_to_call() {
        let just = 1.0 + (FIDELITY - 1.0) * 0.9;
        let (ranks, text) = judge(vec![run("b", just), run("a", 1.0)], "finish");
        assert_eq!(ranks, [Some(1), Some(1)]);
        let text = text.unwrap();
        assert!(text.starts_with("Too close to call by finish"), "{text}");
        assert!(
            text.contains("b has 1.27 times as much as a"),
            "the model's order is told: {text}"
        );
        let beyond = 1.0 + (FIDELITY - 1.0) * 1.1;
        let (ranks, text) = judge(vec![run("b", beyond), run("a", 1.0)], "finish");
        assert_eq!(ranks, [Some(2), Some(1)]);
        assert!(text.unwrap().contains("Nothing is ranked within a factor of 1.30"));
        let three = vec![run("a", 1.0), run("b", just), run("c", 2.0)];
        let (ranks, text) = judge(three, "finish");
        assert_eq!(ranks, [Some(1), Some(1), Some(3)]);
        let text = text.unwrap();
        assert!(text.starts_with("a and b win, too close to call between them,"), "{text}");
    }

    #[test]
    fn bytes_are_counted_and_have_no_error_of_times() {
        let of = |config: &str, written_bytes| {
            let disk_use = DiskFigures { written_bytes, ..DiskFigures::default() };
            Figures { disk_use, ..run(config, 1.0) }
        };
        let (ranks, text) = judge(vec![of("a", 100 << 20), of("b", 105 << 20)], "written");
        assert_eq!(ranks, [Some(1), Some(2)]);
        assert!(!text.unwrap().contains("factor"));
    }

    #[test]
    fn wear_is_judged_where_disks_wear_and_refused_where_none_does() {
        let of = |config: &str, moved_bytes| {
            let programmed_bytes = (100 << 20) + moved_bytes;
            let wear =
                Some(WearFigures { programmed_bytes, moved_bytes, ..WearFigures::default() });
            let disk_use = DiskFigures { wear, ..DiskFigures::default() };
            Figures { disk_use, ..run(config, 1.0) }
        };
        let (ranks, text) = judge(vec![of("a", 50 << 20), run("none", 0.1), of("b", 0)], WEAR);
        assert_eq!(ranks, [Some(2), None, Some(1)]);
        assert!(text.unwrap().contains("a has 50.0 MiB more moved by the SSD itself"));
        let configs = |disk: &str| [Config::parse(disk).unwrap(), Config::parse("ffs").unwrap()];
        let measure = MEASURES.get(WEAR).unwrap();
        assert_eq!(measurable(measure, &configs("lfs:disk=ssd-mqsim")), Ok(()));
        let refused = measurable(measure, &configs("lfs:disk=ssd-sata")).unwrap_err();
        assert!(refused.contains("disk=ssd-tlc"), "{refused}");
        assert_eq!(measurable(MEASURES.first(), &configs("lfs")), Ok(()));
    }

    #[test]
    fn the_reason_names_what_takes_longer() {
        let mut slow = run("slow", 3.0);
        slow.disk_use.time_s = vec![("queue", 9.0), ("seek", 1.4)];
        let (_, text) = judge(vec![slow, run("quick", 1.5)], "finish");
        let text = text.unwrap();
        assert!(text.contains("1.40 s more of seek") && !text.contains("queue"), "{text}");
        assert!(!text.contains("at the same time"), "{text}");
    }

    #[test]
    fn the_reason_says_that_requests_overlap_where_they_do() {
        let mut slow = run("slow", 3.0);
        slow.disk_use.time_s = vec![("flush", 4.0)];
        (slow.disk_use.service_s, slow.disk_use.busy_s) = (4.0, 2.0);
        let (_, text) = judge(vec![slow, run("quick", 1.5)], "finish");
        let text = text.unwrap();
        assert!(text.contains("4.00 s more of flush (added up over requests, also"), "{text}");
    }
}
