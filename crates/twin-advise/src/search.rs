//! The search: rounds of runs, after each of which the better part of a field goes on.
//!
//! Contract: survivors are found by the measure, then by the bytes that they wrote, then by how few settings they
//! change, so that a setting without any effect does not win. Those that did exactly the same as a simpler one go on
//! only if there is room. A third of the places of a round is for new configurations that join the changes of the best
//! of one layout. The default goes through all rounds. A configuration that could not run, or in which operations
//! failed, is out, with its reason.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use twin_lab::{
    Figures, MachineFile, Run, SimulateError, Steps, Workload, median, side_by_side, simulate,
};
use twin_rt::Rng;
use twin_trace::replay::Pace;
use twin_verdict::MeasureEntry;

use crate::plan::{Plan, Round};
use crate::space::{Point, Space};

/// The most survivors whose changes are joined.
const MOST_JOINED: usize = 64;

/// What is to be found out.
#[derive(Clone)]
pub struct Question<'a> {
    /// The name of the workload.
    pub name: String,
    /// The workload.
    pub workload: &'a Workload,
    /// The number of its operations.
    pub operations: u64,
    /// When they are issued.
    pub pace: Pace,
    /// What configurations are judged by.
    pub measure: &'static MeasureEntry,
    /// The machine that is simulated, if it was measured.
    pub machine: Option<Arc<MachineFile>>,
    /// What may be set.
    pub space: Space,
    /// The most runs.
    pub budget: u64,
    /// The seed of what the search draws.
    pub seed: u64,
    /// Runs at once.
    pub threads: usize,
    /// Who is told how far runs are.
    pub steps: Option<Steps>,
}

impl Question<'_> {
    /// The most runs that its search makes.
    pub fn runs(&self) -> u64 {
        self.plan().runs()
    }

    /// The operations of that number of runs.
    pub fn operations_of_runs(&self) -> u64 {
        self.plan().operations()
    }

    pub(crate) fn plan(&self) -> Plan {
        Plan::of(self.workload, self.operations, self.budget)
    }
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The configuration.
    pub config: String,
    /// The round, from 0; the last judgement is behind all rounds.
    pub round: usize,
    /// What the measure says; `None` if it could not be judged.
    pub value: Option<f64>,
    /// Bytes written to the disk.
    pub written_bytes: u64,
}

/// Who hears of each run when it has ended, with its number, from any thread.
pub(crate) type Ended<'a> = &'a (dyn Fn(usize, Tried) + Sync);

/// What a configuration did in a round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// The median over the seeds.
    pub(crate) value: f64,
    /// The median of the bytes written.
    pub(crate) written: f64,
    /// Fingerprints of the runs.
    digest: String,
}

impl Outcome {
    /// True if both did exactly the same.
    pub(crate) fn is_same(&self, other: &Outcome) -> bool {
        self.digest == other.digest
    }
}

/// A configuration with its outcome.
pub(crate) type Judged = (Point, Outcome);

/// The search while it goes on.
pub(crate) struct Search<'a> {
    pub(crate) question: &'a Question<'a>,
    pub(crate) plan: Plan,
    ended: Ended<'a>,
    runs: AtomicUsize,
    /// Configurations that are out, with their reasons, in the order in which they were found.
    pub(crate) failures: Vec<(String, String)>,
    /// All that ran.
    pub(crate) tried: BTreeSet<String>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(question: &'a Question<'a>, ended: Ended<'a>) -> Search<'a> {
        let plan = question.plan();
        let (failures, tried) = (Vec::new(), BTreeSet::new());
        Search { question, plan, ended, runs: AtomicUsize::new(0), failures, tried }
    }

    /// The number of runs so far.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }

    /// All rounds: the last field, the best first, and the outcome of the default, if it had one.
    pub(crate) fn rounds(&mut self) -> (Vec<Judged>, Option<Outcome>) {
        let space = &self.question.space;
        let mut rng = Rng::stream(self.question.seed, "advice");
        let bare = space.default_point();
        let mut field = space.field(self.plan.rounds[0].places, &mut rng);
        for nth in 0..self.plan.rounds.len() {
            if !field.contains(&bare) {
                field.push(bare.clone());
            }
            let judged = self.round(nth, &field);
            let of_default = judged.iter().find(|(point, _)| *point == bare);
            let of_default = of_default.map(|(_, outcome)| outcome.clone());
            match self.plan.rounds.get(nth + 1) {
                None => return (judged, of_default),
                // A part without anything to measure tells nobody apart.
                Some(next) if judged.is_empty() => field.truncate(next.places),
                Some(next) => field = next_field(&judged, next.places),
            }
        }
        (Vec::new(), None)
    }

    /// Runs a field, and gives those that can be judged, the best first.
    fn round(&mut self, nth: usize, field: &[Point]) -> Vec<Judged> {
        let round = self.plan.rounds[nth].clone();
        let outcomes = self.outcomes(field, nth, &round);
        let mut judged: Vec<Judged> = Vec::new();
        for (point, outcome) in field.iter().zip(outcomes) {
            match outcome {
                Ok(outcome) => judged.push((point.clone(), outcome)),
                Err(why) => self.fail(point, why),
            }
        }
        sort(&mut judged);
        judged
    }

    fn fail(&mut self, point: &Point, why: String) {
        let text = self.question.space.text(point);
        if !self.failures.iter().any(|(other, _)| *other == text) {
            self.failures.push((text, why));
        }
    }

    /// The outcomes of configurations in a round.
    fn outcomes(
        &mut self,
        field: &[Point],
        nth: usize,
        round: &Round,
    ) -> Vec<Result<Outcome, String>> {
        let whole = self.question.workload;
        let part = match round.operations < self.question.operations {
            true => Workload::Part(Box::new(whole.clone()), round.operations),
            false => whole.clone(),
        };
        let measure = self.question.measure;
        // Figures of many runs would fill the memory.
        let keep = |run: Figures| Seen {
            value: measure.value_of(&run),
            written: run.disk_use.written_bytes as f64,
            digest: format!("{} {}", run.digest, run.waiting_s),
        };
        let all = self.each(field, (&part, 0..round.seeds), nth, &keep);
        all.into_iter().map(|runs| outcome(measure, &runs?)).collect()
    }

    /// The figures of configurations on a workload, a run for each seed.
    pub(crate) fn figures(
        &mut self,
        field: &[Point],
        workload: &Workload,
        round: usize,
        seeds: Range<u64>,
    ) -> Vec<Result<Vec<Figures>, String>> {
        self.each(field, (workload, seeds), round, &|run| run)
    }

    /// What is kept of each run of configurations on a workload, a run for each seed.
    fn each<T: Send>(
        &mut self,
        field: &[Point],
        (workload, seeds): (&Workload, Range<u64>),
        round: usize,
        keep: &(dyn Fn(Figures) -> T + Sync),
    ) -> Vec<Result<Vec<T>, String>> {
        let Question { space, machine, pace, measure, steps, threads, .. } = self.question;
        let first = self.runs();
        let texts: Vec<String> = field.iter().map(|point| space.text(point)).collect();
        self.tried.extend(texts.iter().cloned());
        let count = (seeds.end - seeds.start) as usize;
        let run = |at: usize| {
            let (which, seed) = (at / count, seeds.start + (at % count) as u64);
            let config = space.config(&field[which], machine.as_ref());
            let config = config.map_err(|error| error.to_string())?;
            let run = Run { seed, steps: steps.clone(), ..Run::of(config) };
            let result = simulate(run, &workload.with_seed(seed), *pace);
            let figures = sound(result);
            let known = figures.as_ref().ok();
            let tried = Tried {
                config: texts[which].clone(),
                round,
                value: known.and_then(|figures| measure.value_of(figures)),
                written_bytes: known.map_or(0, |figures| figures.disk_use.written_bytes),
            };
            (self.ended)(first + at, tried);
            figures.map(keep)
        };
        let all = side_by_side(field.len() * count, *threads, &run, &|_, _| {});
        self.runs.fetch_add(all.len(), Ordering::Relaxed);
        let mut all = all.into_iter();
        let mut of_one = || {
            // All of one, also behind a failure.
            let own: Vec<_> = all.by_ref().take(count).collect();
            own.into_iter().collect()
        };
        field.iter().map(|_| of_one()).collect()
    }

    /// The best without the settings that are of no use to it: without each of them, and without all of them
    /// together, it is at most so much worse as noise is.
    pub(crate) fn simplified(&mut self, best: Judged) -> Judged {
        let nth = self.plan.rounds.len() - 1;
        let mut simpler = self.question.space.simpler(&best.0);
        simpler.truncate(self.plan.simpler());
        if simpler.is_empty() {
            return best;
        }
        let limit = best.1.value * (1.0 + twin_verdict::NOISE);
        let is_as_good = |(_, outcome): &Judged| outcome.value <= limit;
        let mut harmless = self.round(nth, &simpler);
        harmless.retain(is_as_good);
        let points: Vec<Point> = harmless.iter().map(|(point, _)| point.clone()).collect();
        // Together they may matter although none does alone.
        if let (2.., Some(joint)) = (points.len(), Point::common(&points))
            && let Some(found) = self.round(nth, &[joint]).into_iter().find(is_as_good)
        {
            return found;
        }
        harmless.into_iter().next().unwrap_or(best)
    }
}

/// What a round needs of a run.
struct Seen {
    value: Option<f64>,
    written: f64,
    digest: String,
}

fn outcome(measure: &MeasureEntry, runs: &[Seen]) -> Result<Outcome, String> {
    let values: Option<Vec<f64>> = runs.iter().map(|run| run.value).collect();
    let values = values.ok_or_else(|| format!("it has no figure by {}", measure.name))?;
    let written: Vec<f64> = runs.iter().map(|run| run.written).collect();
    let digests: Vec<&str> = runs.iter().map(|run| run.digest.as_str()).collect();
    Ok(Outcome { value: median(&values), written: median(&written), digest: digests.join(" ") })
}

/// The figures of a run, or why they do not count.
pub(crate) fn sound(result: Result<Figures, SimulateError>) -> Result<Figures, String> {
    let figures = result.map_err(|error| error.to_string())?;
    match figures.failed {
        0 => Ok(figures),
        failed => Err(format!(
            "{failed} of {} operations failed that succeed in the workload: a larger size may help",
            figures.ops + failed
        )),
    }
}

/// The best first.
fn sort(judged: &mut [Judged]) {
    judged.sort_by(|(a, x), (b, y)| {
        let by_value = x.value.total_cmp(&y.value).then(x.written.total_cmp(&y.written));
        by_value.then(a.changes().cmp(&b.changes())).then(a.cmp(b))
    });
}

/// The field of the next round: survivors, and a third that joins the changes of the best.
fn next_field(judged: &[Judged], places: usize) -> Vec<Point> {
    let (mut first, mut same): (Vec<&Judged>, Vec<&Judged>) = Default::default();
    let mut digests = BTreeSet::new();
    for one in judged {
        let is_new = digests.insert(&one.1.digest);
        if is_new { &mut first } else { &mut same }.push(one);
    }
    let joined = places / 3;
    let order: Vec<Point> = first.iter().chain(&same).map(|(point, _)| point.clone()).collect();
    let mut field: Vec<Point> = order.iter().take(places - joined).cloned().collect();
    let best: Vec<Point> = first.iter().take(MOST_JOINED).map(|(point, _)| point.clone()).collect();
    let pairs = (1..best.len()).flat_map(|later| (0..later).map(move |earlier| (earlier, later)));
    for (earlier, later) in pairs {
        if field.len() >= places {
            break;
        }
        if let Some(child) = best[earlier].joined(&best[later])
            && !order.contains(&child)
            && !field.contains(&child)
        {
            field.push(child);
        }
    }
    let rest = order.into_iter().skip(places - joined);
    let room = places - field.len();
    field.extend(rest.take(room));
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Wanted;

    fn outcome(value: f64, digest: &str) -> Outcome {
        Outcome { value, written: 1.0, digest: digest.into() }
    }

    fn points(count: usize) -> Vec<Point> {
        let space = Space::of(&Wanted { fixed: "layout=lfs".into(), ..Wanted::default() }, None);
        space.unwrap().field(count, &mut Rng::new(3))
    }

    #[test]
    fn what_did_the_same_as_a_simpler_one_goes_on_only_if_there_is_room() {
        let all = points(9);
        let digests = ["a", "a", "b", "c", "d", "e", "f", "g", "h"];
        let judged: Vec<Judged> = all
            .iter()
            .zip(digests)
            .enumerate()
            .map(|(at, (point, digest))| (point.clone(), outcome(at as f64, digest)))
            .collect();
        let next = next_field(&judged, 6);
        assert_eq!(next.len(), 6);
        assert!(next[..4] == [&all[0], &all[2], &all[3], &all[4]].map(Clone::clone));
        assert!(next[4..].iter().all(|point| !all.contains(point)), "joined");
        let few = next_field(&judged[..2], 3);
        assert!(few.contains(&all[1]), "there is room");
    }

    #[test]
    fn bytes_written_and_then_fewer_settings_decide_between_equal_values() {
        let all = points(40);
        let simple = all.iter().find(|point| point.changes() == 1).unwrap();
        let complex = all.iter().find(|point| point.changes() > 2).unwrap();
        let mut judged = vec![
            (complex.clone(), outcome(1.0, "a")),
            (simple.clone(), outcome(1.0, "b")),
            (all[0].clone(), Outcome { written: 2.0, ..outcome(1.0, "c") }),
        ];
        sort(&mut judged);
        assert!(judged[0].0 == *simple && judged[1].0 == *complex);
    }
}
