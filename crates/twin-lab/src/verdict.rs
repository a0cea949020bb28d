//! The verdict of a comparison: which configuration is the best by a measure, by how much, and why.
//!
//! Contract: a run in which operations failed is not judged, because the missing work took no time.
//! Figures that differ by less than [`NOISE`] are equal. With several seeds the medians are compared,
//! and runs are equal too if chance explains their difference: the ranges of the values overlap, and
//! the test of Mann and Whitney does not tell them apart at 5%. A measure is a line in [`MEASURES`].

use twin_settings::{Registry, RegistryEntry};

use crate::chance::differ;
use crate::figures::{Figures, Spread, WAITING};
use crate::units::{duration, mib};

/// Figures whose ratio differs from 1 by less than this are equal.
pub const NOISE: f64 = 0.02;

/// What runs are judged by: smaller is better.
pub struct Measure {
    of: fn(&Figures) -> Option<f64>,
    text: fn(f64) -> String,
    /// Why the second run has more, as far as the runs tell.
    why: fn(&Figures, &Figures) -> Option<String>,
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
    pub(crate) fn value_of(&self, figures: &Figures) -> Option<f64> {
        (self.of)(figures)
    }
}

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
                why: why_later,
            },
        ),
        RegistryEntry::new(
            "p99",
            "latency that 99 of 100 operations do not exceed",
            Measure {
                of: |figures| Some(figures.latency.p99_us),
                text: duration,
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
                why: |_, _| None,
            },
        ),
        RegistryEntry::new(
            "written",
            "bytes written to the disk",
            Measure {
                of: |figures| Some(figures.disk_use.written_bytes as f64),
                text: |bytes| mib(bytes as u64),
                why: why_more_written,
            },
        ),
    ],
);

/// A measure in the registry.
pub type MeasureEntry = RegistryEntry<Measure>;

/// Gives each run its place by a measure. Runs that are equal to the best of their place share it.
pub fn rank(runs: &mut [&mut Figures], measure: &MeasureEntry) {
    let mut judged: Vec<(f64, &mut &mut Figures)> = runs
        .iter_mut()
        .filter(|figures| figures.failed == 0)
        .filter_map(|figures| Some((value_of(measure, figures)?, figures)))
        .collect();
    judged.sort_by(|a, b| a.0.total_cmp(&b.0));
    let places: Vec<usize> = {
        let mut best = 0;
        let place = |nth: usize| {
            if !is_equal(measure, &judged[best], &judged[nth]) {
                best = nth;
            }
            best + 1
        };
        (0..judged.len()).map(place).collect()
    };
    for ((_, figures), place) in judged.into_iter().zip(places) {
        figures.rank = Some(place);
    }
}

/// True if two runs are equal, the second of which is no better: within the noise, or by chance.
fn is_equal(
    measure: &MeasureEntry,
    (best, first): &(f64, &mut &mut Figures),
    (value, next): &(f64, &mut &mut Figures),
) -> bool {
    let values = |figures| spread_of(measure.name, figures).map(|spread| &spread.values[..]);
    let by_chance = match (values(first), values(next)) {
        (Some(first), Some(next)) => !differ(first, next),
        _ => false,
    };
    value - best <= NOISE * best.abs() || by_chance
}

/// The verdict on ranked runs, in words; nothing if fewer than two can be compared.
pub fn verdict(runs: &[Figures], measure: &MeasureEntry) -> Option<String> {
    let value = |figures: &Figures| value_of(measure, figures);
    let mut judged: Vec<&Figures> = runs.iter().filter(|figures| figures.rank.is_some()).collect();
    judged.sort_by(|a, b| value(a).partial_cmp(&value(b)).unwrap_or(std::cmp::Ordering::Equal));
    let (first, others) = judged.split_first().filter(|(_, others)| !others.is_empty())?;
    let text = |figures: &Figures| text_of(measure, figures).unwrap_or_default();
    let of_seeds = match spread_of(measure.name, first) {
        Some(spread) => format!(", medians of {} seeds", spread.values.len()),
        None => String::new(),
    };
    let winners: Vec<&str> = judged
        .iter()
        .filter(|figures| figures.rank == Some(1))
        .map(|figures| figures.config.as_str())
        .collect();
    let behind = others.iter().find(|figures| figures.rank != Some(1));
    let mut lines = Vec::new();
    match behind {
        None => {
            let about = measure.about;
            let (how, values) = match of_seeds.is_empty() {
                true => (format!("within {:.0}%", NOISE * 100.0), text(first)),
                false => {
                    let each = judged.iter().map(|figures| text(figures)).collect::<Vec<_>>();
                    let how = format!("within {:.0}% or what chance explains", NOISE * 100.0);
                    (how, each.join(", "))
                }
            };
            lines.push(format!(
                "No winner: {} are equal {how} by {} ({about}{of_seeds}): {values}.",
                winners.join(", "),
                measure.name,
            ));
            lines.push(hint(&judged, !of_seeds.is_empty()));
        }
        Some(next) => {
            let wins = if winners.len() == 1 { "wins" } else { "win" };
            let times = value(next).zip(value(first)).map_or(0.0, |(next, first)| next / first);
            lines.push(format!(
                "{} {wins} by {} ({}{of_seeds}): {}. Next is {} with {}, {times:.2} times as much.",
                winners.join(" and "),
                measure.name,
                measure.about,
                text(first),
                next.config,
                text(next)
            ));
            lines.extend((measure.why)(first, next));
        }
    }
    Some(lines.join("\n"))
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
    let told: Vec<String> =
        told.map(|(name, s)| format!("{} more of {name}", duration(s * 1e6))).collect();
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

fn because(next: &Figures, told: &[String]) -> Option<String> {
    (!told.is_empty()).then(|| format!("Why: {} has {}.", next.config, told.join(", ")))
}

/// What would tell configurations apart that are equal.
fn hint(runs: &[&Figures], has_seeds: bool) -> String {
    if has_seeds {
        return "More seeds, or a larger workload, may tell them apart.".into();
    }
    let most = |of: fn(&Figures) -> f64| runs.iter().map(|figures| of(figures)).fold(0.0, f64::max);
    let reads = most(|figures| figures.disk_use.reads as f64 / figures.ops.max(1) as f64);
    let busy = most(|figures| figures.disk_use.busy_s / figures.finish_s.max(1e-9));
    if busy < 0.1 {
        return "The disk is idle nine tenths of the time: a slower disk (disk=disk-7200), or a workload \
                with fsyncs, would tell them apart."
            .into();
    }
    if reads < 0.01 {
        return "Nearly all reads are served from memory: a smaller cache (cache=4M) would tell them apart."
            .into();
    }
    "A larger workload, or a fuller volume (size=), may tell them apart.".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(config: &str, finish_s: f64) -> Figures {
        Figures { config: config.into(), finish_s, ops: 100, ..Figures::default() }
    }

    fn judge(mut runs: Vec<Figures>, measure: &str) -> (Vec<Option<usize>>, Option<String>) {
        let measure = MEASURES.get(measure).unwrap();
        rank(&mut runs.iter_mut().collect::<Vec<_>>(), measure);
        (runs.iter().map(|figures| figures.rank).collect(), verdict(&runs, measure))
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
        assert!(text.contains("1400.0 ms (") && text.contains("1500.0 ms ("), "{text}");
        let (ranks, text) = judge(vec![of("b", [2.1, 2.3, 2.5, 2.7, 1.7]), a], "finish");
        assert_eq!(ranks, [Some(2), Some(1)]);
        let text = text.unwrap();
        assert!(text.contains("medians of 5 seeds"), "{text}");
        assert!(text.contains("1400.0 ms (1000.0 ms to 1800.0 ms)"), "{text}");
    }

    #[test]
    fn a_measure_that_no_run_has_ranks_nothing() {
        let (ranks, text) = judge(vec![run("a", 1.0), run("b", 2.0)], "fsync");
        assert_eq!((ranks, text), (vec![None, None], None));
    }

    #[test]
    fn the_reason_names_what_takes_longer() {
        let mut slow = run("slow", 3.0);
        slow.disk_use.time_s = vec![("queue", 9.0), ("seek", 1.4)];
        let (_, text) = judge(vec![slow, run("quick", 1.5)], "finish");
        let text = text.unwrap();
        assert!(text.contains("1400.0 ms more of seek") && !text.contains("queue"), "{text}");
    }
}
