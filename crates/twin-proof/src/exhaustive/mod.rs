//! Everything within bounds: all workloads of a length over few names, and what power failures leave of each.
//!
//! Contract: a workload is one word after the other, each an operation and what follows it (`words`). It runs
//! on a copy of one small volume, which is closed afterwards. The power fails at every write and flush, with
//! the subsets and tears of the writes in doubt that the exploration has, and again at each of those of the
//! recovery. What is left is opened, compared with the model at a state no older than what was promised,
//! checked, written to, closed and checked (`restart`). A content of the medium that was met before is looked
//! up, whatever the workload was: the tree found in it is held against what this one promised.
//!
//! Workloads have numbers, so that a part of a length is every `n`-th. Several threads may work on one
//! campaign: what they share is the table of contents ([`Known`]).

mod covered;
mod restart;
mod served;
mod words;

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use twin_fs::FsError;
use twin_model::ModelFs;
use twin_rt::{FixedMap, FixedSet, Rng, SECS, Time};

use super::contents::Contents;
use super::crash::describe;
use super::drive::{Ack, Journal, Notes, Replied};
use super::oracle::{self, History};
use super::{AnyWorld, Failure, Scenario, Subject, Timing, make};
pub use covered::Covered;
use restart::Promised;
use twin_sim::Platter;
use twin_sim::faults::{CrashPoint, Exploration, FaultPlan, UnstableWrite, WriteLog, WriteOutcome};
use words::{ACTS, Act, Client, THENS, Then, begin};

/// Which workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Words of a workload.
    pub length: u32,
    /// No more workloads than this; if there are more, they lie evenly among all.
    pub most: u64,
}

impl Bounds {
    /// The number of workloads of a length.
    pub fn all(length: u32) -> u64 {
        ((ACTS.len() * THENS.len()) as u64).pow(length)
    }

    /// The texts of the workloads, in order.
    pub fn workloads(self) -> impl Iterator<Item = String> {
        let all = Bounds::all(self.length);
        let count = all.min(self.most);
        // A number that has no factor in common with it goes through all of them.
        let step = (all / count.max(1)) | 1;
        let step = if count == all { 1 } else { step };
        (0..count).map(move |n| text(n.wrapping_mul(step) % all, self.length))
    }
}

/// The text of a workload.
fn text(mut number: u64, length: u32) -> String {
    let mut words = Vec::new();
    for _ in 0..length {
        let (then, rest) = (number % THENS.len() as u64, number / THENS.len() as u64);
        let (act, rest) = (rest % ACTS.len() as u64, rest / ACTS.len() as u64);
        words.push(format!("{}.{}", ACTS[act as usize].0, THENS[then as usize].0));
        number = rest;
    }
    // Those with the same beginning follow each other.
    words.reverse();
    words.join("+")
}

fn parse(text: &str) -> Result<Vec<(Act, Then)>, String> {
    let word = |word: &str| {
        let (act, then) = word.split_once('.')?;
        let act = ACTS.iter().find(|(name, _)| *name == act)?.1;
        let then = THENS.iter().find(|(name, _)| *name == then)?.1;
        Some((act, then))
    };
    let all = text.split('+').map(|w| word(w).ok_or_else(|| format!("{w:?} is no word")));
    all.collect()
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Workloads.
    pub workloads: u64,
    /// Moments at which the power failed.
    pub points: u64,
    /// Outcomes of power failures, those of recoveries among them.
    pub outcomes: u64,
    /// Of these, contents of the medium that were not met before: recovered, compared, checked, written to,
    /// closed and checked.
    pub states: u64,
    /// Of these, those that a power failure during a recovery left.
    pub second: u64,
    /// Contents that were met before, but whose tree had to be held against other promises in full.
    pub again: u64,
    /// Of the states, those that were opened once more after closing, and their trees compared.
    pub reopened: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.workloads += other.workloads;
        self.points += other.points;
        self.outcomes += other.outcomes;
        self.states += other.states;
        self.second += other.second;
        self.again += other.again;
        self.reopened += other.reopened;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { workloads, points, outcomes, states, second, again, reopened } = self;
        write!(
            f,
            "{workloads} workloads, {points} power failures with {outcomes} outcomes, {states} distinct \
             states ({second} of recoveries, {reopened} opened twice), {again} judged again"
        )
    }
}

/// The contents that were met, each with the digest of the tree that was found in it. Cloning gives another
/// handle to the same table.
#[derive(Clone, Default)]
pub struct Known(Arc<Mutex<Tables>>);

#[derive(Default)]
struct Tables {
    trees: FixedMap<u64, u64>,
    /// Contents that were judged in full, each with the class of what was promised.
    judged: FixedSet<(u64, u64)>,
}

impl Known {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tree(&self, key: u64) -> Option<u64> {
        self.tables().trees.get(&key).copied()
    }

    /// Notes a content that was right for a class of promises. True if nobody has noted it before.
    fn insert(&self, key: u64, class: Option<u64>, tree: u64) -> bool {
        let mut tables = self.tables();
        tables.judged.extend(class.map(|class| (key, class)));
        tables.trees.insert(key, tree).is_none()
    }

    fn is_judged(&self, key: u64, class: u64) -> bool {
        self.tables().judged.contains(&(key, class))
    }
}

/// A campaign, or one thread's part of it. See the module.
pub struct Exhaustive<L: Subject> {
    scenario: Scenario,
    base: Platter,
    model: ModelFs,
    known: Known,
    /// The recovery of one content of this number is interrupted.
    interrupt_every: u64,
    counts: Counts,
    covered: RefCell<Covered>,
    layout: std::marker::PhantomData<L>,
}

/// What is looked at of each power failure.
const EXPLORATION: Exploration = Exploration { exhaustive: 4, torn: true, random: 3 };
/// What is looked at of each that comes in a recovery.
const IN_RECOVERY: Exploration = Exploration { exhaustive: 3, torn: true, random: 1 };
/// When workloads begin.
const START: Time = Time(100 * SECS);
/// Where the numbers of their requests begin.
const FIRST: u64 = 1000;

impl<L: Subject> Exhaustive<L> {
    /// A campaign on a volume of this scenario.
    ///
    /// # Errors
    /// If the volume cannot be made.
    pub fn new(scenario: &Scenario, known: &Known) -> Result<Exhaustive<L>, String> {
        let platter = make::<L>(scenario)?;
        let mut world = AnyWorld::<L>::new(scenario, platter, Timing::Instant, Time(SECS));
        world.open()?;
        let model = oracle::model_of(scenario, &mut world)?;
        let covered = RefCell::default();
        let notes = Rc::new(Notes::new(&world, None));
        world.wait("the beginning", begin(&Client::new(&notes, &covered, 1)))?;
        let mut history = History::new(scenario, &model);
        history.follow(&journal_of(notes)?)?;
        let base = world.close()?;
        let mut model = history.last().clone();
        model.crash();
        Ok(Exhaustive {
            scenario: scenario.clone(),
            base,
            model,
            known: known.clone(),
            interrupt_every: 1,
            counts: Counts::default(),
            covered: RefCell::default(),
            layout: std::marker::PhantomData,
        })
    }

    /// Interrupts the recovery of one content of `every`, not of each.
    pub fn interrupt_every(mut self, every: u64) -> Exhaustive<L> {
        self.interrupt_every = every;
        self
    }

    /// What was looked at so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The inputs that workloads had.
    pub fn covered(&self) -> Covered {
        self.covered.borrow().clone()
    }

    /// Runs a workload and looks at its power failures.
    ///
    /// # Errors
    /// The first that breaks a promise.
    pub fn workload(&mut self, text: &str) -> Result<(), Failure> {
        self.counts.workloads += 1;
        self.explore(text).map_err(|what| {
            let scenario = Scenario { workload: text.into(), ..self.scenario.clone() };
            Failure { kind: L::EXHAUSTIVE, scenario, what }
        })
    }

    fn explore(&mut self, text: &str) -> Result<(), String> {
        let words = parse(text)?;
        let log = WriteLog::new();
        let journal = self.run(&words, &log)?;
        let mut history = History::new(&self.scenario, &self.model);
        history.follow(&journal)?;
        let promised = Promised::new::<L>(&self.scenario, history, journal);
        let mut contents = Contents::new(0);
        for point in log.crash_points() {
            contents.advance(&point.state);
            self.counts.points += 1;
            let mark = point.mark.unwrap_or(0);
            for outcomes in outcomes(&point, &EXPLORATION) {
                self.counts.outcomes += 1;
                let key = contents.fingerprint(&point.state, &outcomes);
                let platter = || point.state.with(&outcomes);
                let looked = self.state(key, &platter, &promised, mark, None);
                looked.map_err(|what| describe(&point, &outcomes, &what))?;
            }
        }
        Ok(())
    }

    /// Runs the words on a copy of the volume, and closes it.
    fn run(&self, words: &[(Act, Then)], log: &WriteLog) -> Result<Journal, String> {
        let (faults, timing) = (FaultPlan::none(), Timing::Jitter);
        let platter = self.base.clone();
        let mut world =
            AnyWorld::<L>::build(&self.scenario, platter, timing, START, faults, Some(log));
        world.open()?;
        let notes = Rc::new(Notes::new(&world, Some(log)));
        let client = Client::new(&notes, &self.covered, FIRST);
        let worked = world.wait("the workload", async {
            let client = match &*self.scenario.nfs {
                "" => client,
                how => client.through_nfs(how == "async").await?,
            };
            for (act, then) in words {
                client.word(*act, *then).await;
            }
            client.end().await;
            Ok(())
        })?;
        worked.map_err(|error: FsError| error.to_string())?;
        let mut journal = journal_of(notes)?;
        world.close()?;
        // Closing is a sync of its own.
        let issued = journal.order.len();
        journal.replies.push(Replied { place: issued, seen: issued });
        let replied = journal.replies.len();
        journal.acks.push(Ack { issued, ino: None, replied, data_only: false });
        log.mark(if L::MARKS_REPLIES { replied } else { journal.acks.len() } as u64);
        Ok(journal)
    }

    /// Looks at a content: known ones by their tree, others by all that a restart does. `first` is the tree
    /// that was found in the content from whose recovery this one comes, if it comes from one.
    fn state(
        &mut self,
        key: u64,
        platter: &dyn Fn() -> Platter,
        promised: &Promised,
        mark: u64,
        first: Option<u64>,
    ) -> Result<(), String> {
        let known = self.known.tree(key);
        if known.is_some_and(|tree| promised.is_plainly_right(mark, tree)) {
            return Ok(());
        }
        let class = promised.class(mark);
        if known.is_some() && class.is_some_and(|class| self.known.is_judged(key, class)) {
            return Ok(());
        }
        let start = platter();
        let full = known.is_none();
        let restarted = restart::restart::<L>(&self.scenario, start, key, promised, mark, full)?;
        if known.is_some() {
            self.counts.again += 1;
            self.known.insert(key, class, restarted.tree);
            return Ok(());
        }
        let tree = restarted.tree;
        if let Some(first) = first.filter(|first| *first != tree && promised.recovers_to_one_tree())
        {
            return Err(format!("the tree {first:x}, then {tree:x} after a second power failure"));
        }
        if !self.known.insert(key, class, tree) {
            return Ok(());
        }
        self.counts.states += 1;
        self.counts.second += u64::from(first.is_some());
        self.counts.reopened += u64::from(restarted.reopened);
        if first.is_some() || !key.is_multiple_of(self.interrupt_every) {
            return Ok(());
        }
        let mut contents = Contents::new(key);
        let recovery = restarted.recovery.crash_points();
        for point in recovery.take_while(|point| point.index <= restarted.opened) {
            contents.advance(&point.state);
            for outcomes in outcomes(&point, &IN_RECOVERY) {
                self.counts.outcomes += 1;
                let key = contents.fingerprint(&point.state, &outcomes);
                let platter = || point.state.with(&outcomes);
                let looked = self.state(key, &platter, promised, mark, Some(tree));
                looked.map_err(|what| {
                    format!("in the recovery, {}", describe(&point, &outcomes, &what))
                })?;
            }
        }
        Ok(())
    }
}

/// What was noted, when nobody notes any more.
fn journal_of<L: Subject>(notes: Rc<Notes<L>>) -> Result<Journal, String> {
    Rc::into_inner(notes).map(Notes::into_journal).ok_or_else(|| "a client lives on".into())
}

/// The outcomes to look at. Those drawn at random depend on the moment alone, so that workloads that begin
/// alike have the same.
fn outcomes(point: &CrashPoint, exploration: &Exploration) -> Vec<Vec<WriteOutcome>> {
    let mut all = point.state.outcomes(exploration);
    let mut rng = Rng::stream(point.index as u64, "outcomes");
    let draws = if point.state.unstable_writes().is_empty() { 0 } else { exploration.random };
    for _ in 0..draws {
        let sectors = |write: &UnstableWrite| write.len / u64::from(point.state.sector());
        let draw = |sectors| WriteOutcome::random(&mut rng, sectors);
        all.push(point.state.unstable_writes().iter().map(sectors).map(draw).collect());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_workload_is_read_again() {
        let bounds = Bounds { length: 2, most: u64::MAX };
        let texts: Vec<String> = bounds.workloads().collect();
        assert_eq!(texts.len() as u64, Bounds::all(2));
        let mut distinct = texts.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), texts.len());
        assert!(texts.iter().all(|text| parse(text).is_ok_and(|words| words.len() == 2)));
        assert!(parse("create-n.none+fly.none").unwrap_err().contains("fly"));
    }

    #[test]
    fn a_part_of_a_length_lies_evenly_among_all_and_repeats_none() {
        let bounds = Bounds { length: 3, most: 1000 };
        let mut texts: Vec<String> = bounds.workloads().collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 1000);
        let begins: std::collections::BTreeSet<&str> =
            texts.iter().filter_map(|text| text.split('.').next()).collect();
        assert!(begins.len() > ACTS.len() / 2, "{begins:?}");
    }
}
