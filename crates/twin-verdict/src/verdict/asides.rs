//! What a verdict says besides its order: which pauses the time contains, what other measures say, which
//! configurations are the same, and what may tell those apart that are equal.

use twin_lab::Figures;
use twin_report::units::{count, duration, list};
use twin_sim::model;

use super::judgement::{Judgement, Pauses};
use super::measure::{FINISH, MEASURES, MeasureEntry, spread_of, text_of};
use super::ranking::{Gap, Judged, gap, in_order};
use super::why::Side;

/// A run that is judged, and its value.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) side: Side<'a>,
    pub(super) value: f64,
}

impl<'a> Run<'a> {
    /// What places are found by.
    pub(super) fn judged(&self) -> Judged<'a> {
        (self.value, self.side.figures)
    }

    /// Its value by a measure, in words.
    pub(super) fn text(&self, measure: &MeasureEntry) -> String {
        text_of(measure, self.side.figures).unwrap_or_default()
    }
}

fn seconds(s: f64) -> String {
    duration(s * 1e6)
}

/// How much of the time of the first of these runs, and of the others beside it, is pauses.
pub(super) fn pauses(runs: &[Run<'_>], how: &Judgement<'_>) -> Option<String> {
    let whose = match how.pauses {
        Pauses::Recorded => "the recorded pauses of its clients",
        Pauses::Drawn => "the pauses of its clients",
        Pauses::LeftOut => {
            let text = "The pauses that were recorded between operations are left out; `--pace think` \
                        keeps them.";
            return how.measure.is_total_time().then(|| text.into());
        }
        Pauses::None => return None,
    };
    let first = runs.first()?.side;
    let reported = |figures: &Figures| {
        format!("{} of {}", seconds(figures.pauses_s), seconds(figures.finish_s))
    };
    let others = runs[1..].iter().filter(|run| run.side.label != first.label);
    let others = others.map(|run| format!("{}: {}", run.side.label, reported(run.side.figures)));
    let others: Vec<String> = others.collect();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!(" ({})", others.join(", ")),
    };
    let offer = match how.pauses {
        Pauses::Recorded if how.measure.is_total_time() => {
            " `--pace asap` leaves them out and judges by finish: what is written back or cleaned \
             during pauses then keeps operations waiting."
        }
        _ => "",
    };
    Some(format!(
        "Of the {} with {}, {} are {whose}, in which no operation was under way{others}.{offer}",
        seconds(first.figures.finish_s),
        first.label,
        seconds(first.figures.pauses_s)
    ))
}

/// The measures beside the chosen one. With pauses in it, the time until the end is none.
fn others(how: &Judgement<'_>) -> impl Iterator<Item = &'static MeasureEntry> {
    let (chosen, pauses) = (how.measure.name, how.pauses);
    let has_pauses = matches!(pauses, Pauses::Recorded | Pauses::Drawn);
    MEASURES
        .iter()
        .filter(move |measure| measure.name != chosen && !(has_pauses && measure.name == FINISH))
}

/// The most other measures that are named.
const MOST_OTHERS: usize = 3;

/// The measures that tell runs apart which the chosen one does not; `are_all` says whether there are no others.
pub(super) fn other_measures(
    runs: &[Run<'_>],
    are_all: bool,
    how: &Judgement<'_>,
) -> Option<String> {
    let figures = || runs.iter().map(|run| run.side.figures).enumerate();
    let reported = |measure: &'static MeasureEntry| {
        let sorted = in_order(figures(), measure);
        let (best, rest) = sorted.split_first()?;
        let apart = |other: &&(usize, _)| gap(measure, how.trust, best.1, other.1) == Gap::Apart;
        let next = rest.iter().find(apart).filter(|_| sorted.len() == runs.len())?;
        let [best_run, next_run] = [best, next].map(|(at, _)| &runs[*at]);
        Some(format!(
            "by {} {} has {}, and next is {} with {} ({:.2} times)",
            measure.name,
            best_run.side.label,
            best_run.text(measure),
            next_run.side.label,
            next_run.text(measure),
            next.1.0 / best.1.0,
        ))
    };
    let reported: Vec<String> = others(how).filter_map(reported).take(MOST_OTHERS).collect();
    let whom = if are_all { "them" } else { "the winners" };
    (!reported.is_empty())
        .then(|| format!("Other measures tell {whom} apart: {}.", reported.join("; ")))
}

/// The measures by which another run is ahead of all winners.
pub(super) fn other_orders(
    judged: &[Run<'_>],
    winners: &[Run<'_>],
    how: &Judgement<'_>,
) -> Option<String> {
    let figures = || judged.iter().map(|run| run.side.figures).enumerate();
    let wins = |at: usize| winners.iter().any(|run| run.side.label == judged[at].side.label);
    let reported = |measure: &'static MeasureEntry| {
        let sorted = in_order(figures(), measure);
        let ahead = sorted.first().filter(|(at, _)| !wins(*at))?;
        let best_winner = sorted.iter().find(|(at, _)| wins(*at))?;
        let is_apart = gap(measure, how.trust, ahead.1, best_winner.1) == Gap::Apart;
        let [ahead, behind] = [ahead, best_winner].map(|(at, _)| &judged[*at]);
        is_apart.then(|| {
            format!(
                "by {} {} is ahead with {} ({} with {})",
                measure.name,
                ahead.side.label,
                ahead.text(measure),
                behind.side.label,
                behind.text(measure),
            )
        })
    };
    let reported: Vec<String> = others(how).filter_map(reported).take(MOST_OTHERS).collect();
    (!reported.is_empty()).then(|| format!("Another order: {}.", reported.join("; ")))
}

/// True if two runs made the same requests at the same times.
fn ran_alike(a: &Figures, b: &Figures) -> bool {
    let of = |figures: &Figures| (figures.finish_s, figures.waiting_s, figures.latency);
    !a.digest.is_empty() && a.digest == b.digest && of(a) == of(b)
}

/// The groups of runs that are the same, each with a sentence about it.
pub(super) fn sameness<'a>(judged: &[Run<'a>]) -> Vec<(Vec<Run<'a>>, String)> {
    let mut groups: Vec<Vec<Run<'a>>> = Vec::new();
    for run in judged {
        let is_same =
            |group: &&mut Vec<Run<'a>>| ran_alike(group[0].side.figures, run.side.figures);
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(*run),
            None => groups.push(vec![*run]),
        }
    }
    let several = groups.into_iter().filter(|group| group.len() > 1);
    let reported = several.map(|group| {
        let names = list(&group.iter().map(|run| run.side.label.to_owned()).collect::<Vec<_>>());
        let settings = group[0].side.config.resolved();
        let words = match group.iter().all(|run| run.side.config.resolved() == settings) {
            true => format!("{names} are identical: all their settings are the same."),
            false => format!(
                "{names} did exactly the same, every request to the disk at the same time: what \
                 differs between them does not matter to this workload."
            ),
        };
        (group, words)
    });
    reported.collect()
}

/// The share of the time without pauses below which a disk is idle for the most part.
const IDLE: f64 = 0.1;
/// The share of operations with a read of the disk below which memory serves nearly all.
const FEW_READS: f64 = 0.01;

/// What may tell configurations apart that no measure tells apart. It fits the runs: what they have is not
/// advised, and what is advised has not been tried.
pub(super) fn advice(runs: &[Run<'_>], how: &Judgement<'_>) -> String {
    if spread_of(how.measure.name, runs[0].side.figures).is_some() {
        return "More seeds, or a larger workload, may tell them apart.".into();
    }
    let most =
        |of: fn(&Figures) -> f64| runs.iter().map(|run| of(run.side.figures)).fold(0.0, f64::max);
    let reads = most(|figures| figures.disk_use.reads as f64 / figures.ops.max(1) as f64);
    let busy =
        most(|figures| figures.disk_use.busy_s / (figures.finish_s - figures.pauses_s).max(1e-9));
    if busy < IDLE {
        let is_slow = |disk: &str| {
            let model = model::REGISTRY.get(disk);
            model.is_ok_and(|model| model.kind == model::Kind::Mechanical)
        };
        let fsyncs = most(|figures| {
            let fsync = twin_trace::Verb::Fsync.name();
            let found = figures.verbs.iter().find(|of| of.verb == fsync);
            found.map_or(0.0, |of| of.latency.count as f64)
        });
        let mut advised = Vec::new();
        if !runs.iter().all(|run| is_slow(&run.side.figures.disk)) {
            advised.push("a slower disk (disk=disk-7200)");
        }
        if fsyncs == 0.0 {
            advised.push("a workload with fsyncs");
        }
        if advised.is_empty() {
            advised.push("a workload that uses the disk more");
        }
        let because = match how.pauses {
            Pauses::Recorded | Pauses::Drawn => ", pauses aside",
            _ => "",
        };
        return format!(
            "The disk is idle nine tenths of the time{because}: {} may tell them apart.",
            advised.join(", or ")
        );
    }
    if reads < FEW_READS {
        let asked = most(|figures| figures.disk_use.reads as f64);
        return format!(
            "Memory serves nearly all reads (the disk served {}): a smaller cache (cache=) may tell \
             them apart.",
            count(asked as u64)
        );
    }
    "A larger workload, or a fuller volume (size=), may tell them apart.".into()
}
