//! Power failures at every write and flush of a run, and what a restart makes of them.
//!
//! Contract, as the layout promises it: after a power failure the volume opens, and its tree is the
//! one after some prefix of the requests in the order in which they took effect, no older than what
//! the last acknowledged fsync or sync promised. Only a file that was just being changed in several
//! steps (punching or zeroing more than 256 blocks) may hold anything between. The volume's counts
//! are those of a recount, no inode is lost or left without a name and a holder, and the volume
//! works from there on. A power failure during the recovery does not change this.

use std::collections::BTreeSet;

use twin_lfs::LfsStats;
use twin_model::generate::Generator;
use twin_rt::{FixedMap, Rng, SECS, Time};

use super::contents::Contents;
use super::drive::{Ack, drive};
use super::growing::{self, Growing};
use super::oracle::{self, History, Place};
use super::recount::recount;
use super::restarts::Restarts;
use super::{Failure, Scenario, Timing, World, prepare};
use twin_sim::Platter;
use twin_sim::faults::{CrashPoint, Exploration, UnstableWrite, WriteLog, WriteOutcome};

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// What is looked at of each power failure.
    pub exploration: Exploration,
    /// After every so many recoveries the volume is worked on, closed and opened again.
    pub work_every: u64,
    /// Every so many recoveries are interrupted by power failures of their own.
    pub interrupt_every: u64,
    /// No more recoveries than this.
    pub most: u64,
    /// About so many moments of the run, drawn at random, if it has more.
    pub points: u64,
}

impl Depth {
    /// What the tests of the log look at.
    pub const DEFAULT: Depth = Depth {
        exploration: Exploration { exhaustive: 3, torn: true, random: 6 },
        work_every: 40,
        interrupt_every: 150,
        most: u64::MAX,
        points: 1000,
    };
}

impl Default for Depth {
    fn default() -> Depth {
        Depth::DEFAULT
    }
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Moments at which the power failed.
    pub points: u64,
    /// Outcomes of power failures: what became of the writes in doubt.
    pub outcomes: u64,
    /// Of these, different contents of the medium, each recovered from.
    pub failures: u64,
    /// Of these, those that a failed recovery left.
    pub second: u64,
    /// Recoveries that found groups behind the last checkpoint.
    pub rolled: u64,
    /// Volumes that were worked on afterwards.
    pub worked: u64,
    /// States of the model that were found.
    pub states: u64,
    /// Segments that were cleaned while the power failed.
    pub cleaned: u64,
    /// Checkpoints while the power failed.
    pub checkpoints: u64,
    /// Segments in use in the end that the volume did not have in the beginning.
    pub new_segments: u64,
}

impl std::ops::AddAssign for Explored {
    fn add_assign(&mut self, other: Explored) {
        self.points += other.points;
        self.outcomes += other.outcomes;
        self.failures += other.failures;
        self.second += other.second;
        self.rolled += other.rolled;
        self.worked += other.worked;
        self.states += other.states;
        self.cleaned += other.cleaned;
        self.checkpoints += other.checkpoints;
        self.new_segments += other.new_segments;
    }
}

/// Runs the scenario once and looks at its power failures.
///
/// # Errors
/// The first that breaks a promise.
pub fn crash(scenario: &Scenario, depth: &Depth) -> Result<Explored, Failure> {
    let explored = run(scenario).and_then(|recorded| recorded.explore(scenario, depth));
    explored.map_err(|what| Failure { kind: "crash", scenario: scenario.clone(), what })
}

/// A run with its log of writes.
pub(super) struct Recorded {
    pub(super) log: WriteLog,
    pub(super) history: History,
    pub(super) end: Time,
    stats: LfsStats,
    new_segments: u64,
}

pub(super) fn run(scenario: &Scenario) -> Result<Recorded, String> {
    let (platter, model) = prepare(scenario)?;
    let platter = platter.grown(scenario.grow);
    let log = WriteLog::new();
    let faults = twin_sim::faults::FaultPlan::none();
    let start = Time(SECS);
    let mut world = World::build(scenario, platter, Timing::Jitter, start, faults, Some(&log));
    world.open_as(growing::first_part(scenario, world.device()))?;
    let had = world.volume().layout.superblock().segments();
    let growing = Growing::begin(scenario, &world);
    let mut history = History::new(scenario, &model);
    let generator = super::generator(scenario)?;
    let (mut journal, _) = drive(scenario, &world, generator, scenario.ops, Some(&log))?;
    growing.end(scenario, &world)?;
    let end = world.rt.now();
    let stats = world.volume().layout.stats();
    let new_segments = world.volume().layout.with_segments(|table| {
        (had..table.count()).filter(|segment| table.entry(*segment).live_bytes > 0).count() as u64
    });
    if scenario.seed.is_multiple_of(2) {
        world.close()?;
        let replied = journal.replies.len();
        journal.acks.push(Ack {
            issued: journal.order.len(),
            ino: None,
            replied,
            data_only: false,
        });
        log.mark(journal.acks.len() as u64);
    } else {
        world.crash();
    }
    history.follow(&journal)?;
    Ok(Recorded { log, history, end, stats, new_segments })
}

impl Recorded {
    fn explore(&self, scenario: &Scenario, depth: &Depth) -> Result<Explored, String> {
        let (cleaned, checkpoints) = (self.stats.cleaned_segments, self.stats.checkpoints);
        let new_segments = self.new_segments;
        let explored = Explored { cleaned, checkpoints, new_segments, ..Explored::default() };
        let mut restart = Restart {
            scenario,
            history: &self.history,
            end: self.end,
            depth,
            explored,
            rng: Rng::stream(scenario.seed, "crash"),
            found: FixedMap::default(),
        };
        restart.explore(&self.log)?;
        let states: BTreeSet<_> = restart.found.values().collect();
        Ok(Explored { states: states.len() as u64, ..restart.explored })
    }
}

/// The outcomes to look at: those of the exploration, and random ones.
pub(super) fn outcomes(
    point: &CrashPoint,
    exploration: &Exploration,
    rng: &mut Rng,
) -> Vec<Vec<WriteOutcome>> {
    let mut all = point.state.outcomes(exploration);
    let sector = u64::from(point.state.sector());
    for _ in 0..exploration.random {
        let outcome = |unstable: &UnstableWrite| (unstable.len / sector, unstable.reported);
        let draw = |(sectors, _)| WriteOutcome::random(rng, sectors);
        all.push(point.state.unstable_writes().iter().map(outcome).map(draw).collect());
    }
    all
}

pub(super) fn describe(point: &CrashPoint, outcomes: &[WriteOutcome], what: &str) -> String {
    let unstable_writes = point.state.unstable_writes().iter().enumerate().map(|(i, d)| {
        let outcome = match outcomes.get(i).unwrap_or(&WriteOutcome::Lost) {
            WriteOutcome::Lost => "lost".into(),
            WriteOutcome::Whole => "whole".into(),
            WriteOutcome::Torn(mask) => format!("torn {mask:x?}"),
        };
        format!("{}+{} {outcome}", d.at, d.len)
    });
    let unstable_writes: Vec<String> = unstable_writes.collect();
    let (index, at) = (point.index, point.time);
    format!(
        "power failure before event {index}, at {at:?}: {what}; in doubt: {}",
        unstable_writes.join(", ")
    )
}

/// Restarts after power failures.
struct Restart<'a> {
    scenario: &'a Scenario,
    history: &'a History,
    end: Time,
    depth: &'a Depth,
    explored: Explored,
    rng: Rng,
    /// The contents that were looked at, with the state that was found in each.
    found: FixedMap<u64, usize>,
}

impl Restarts for Restart<'_> {
    type Promise = usize;

    fn parts(&mut self) -> (&Depth, &mut Explored, &mut Rng) {
        (self.depth, &mut self.explored, &mut self.rng)
    }

    fn promised(&self, mark: u64) -> usize {
        self.history.kept(mark)
    }

    fn is_known(&mut self, key: u64, oldest: usize) -> Result<bool, String> {
        match self.found.get(&key) {
            // The same content as before, but perhaps more was promised since.
            Some(found) if *found < oldest => {
                Err(format!("state {found} is found, but {oldest} is promised"))
            }
            known => Ok(known.is_some()),
        }
    }

    fn check(&mut self, platter: Platter, key: u64, oldest: usize) -> Result<(), String> {
        let number = self.explored.failures + 1;
        let (found, mut world) = self.open(platter.clone(), key, oldest)?;
        if number.is_multiple_of(self.depth.work_every) {
            self.explored.worked += 1;
            self.work(found, &mut world, number).map_err(|what| format!("work: {what}"))?;
        }
        drop(world);
        if number.is_multiple_of(self.depth.interrupt_every) {
            self.interrupt(platter, key, found)
                .map_err(|what| format!("a second power failure: {what}"))?;
        }
        Ok(())
    }
}

impl Restart<'_> {
    fn open(
        &mut self,
        platter: Platter,
        key: u64,
        oldest: usize,
    ) -> Result<(usize, World), String> {
        self.explored.failures += 1;
        // No two starts have the same time, and with it the same seed.
        let start = self.end + self.explored.failures;
        let mut world = World::new(self.scenario, platter, Timing::Instant, start);
        let recovered = world.open()?;
        growing::has_a_size_of_its_own(self.scenario, &world)?;
        self.explored.rolled += u64::from(recovered.log_writes > 0);
        let counted = recount(&world.disk.platter())?;
        let used = world.volume().layout.space().0;
        if used != counted.live_bytes {
            let live = counted.live_bytes;
            return Err(format!("{used} bytes are used, {live} are counted"));
        }
        let tree = world.dump()?;
        if let Some(what) = tree.contradiction() {
            return Err(what);
        }
        counted.compare(&tree)?;
        match self.history.find(&tree, oldest) {
            Place::At(n) => {
                self.found.insert(key, n);
                Ok((n, world))
            }
            Place::Wrong(what) => {
                let nearest = self.history.state(self.history.nearest(&tree).0);
                let more = oracle::explain(nearest, &tree, &mut world).unwrap_or_default();
                Err(format!("{what}; {more}"))
            }
        }
    }

    /// The volume goes on to work: more requests, closing, opening.
    fn work(&self, found: usize, world: &mut World, number: u64) -> Result<(), String> {
        let scenario = self.scenario;
        growing::take_rest(scenario, world)?;
        let mut model = self.history.state(found).clone();
        model.crash();
        let mut history = History::new(scenario, &model);
        let generator = Generator::new(&scenario.workload, scenario.workload_params(), number);
        let mut generator = generator.ok_or("no workload")?;
        generator.set_next_id(1 << 32);
        let (journal, _) = drive(scenario, world, generator, 60, None)?;
        history.follow(&journal)?;
        super::expect_last(&history, world, "before closing")?;
        let platter = world.close()?;
        let counted = recount(&platter)?;
        let mut world = World::new(scenario, platter, Timing::Instant, self.end + SECS);
        world.open()?;
        let tree = super::expect_last(&history, &mut world, "after opening again")?;
        counted.compare(&tree)
    }

    /// The power fails again while the volume recovers: it must come to the same state.
    fn interrupt(&mut self, platter: Platter, key: u64, found: usize) -> Result<(), String> {
        let log = WriteLog::new();
        let faults = twin_sim::faults::FaultPlan::none();
        let timing = Timing::Jitter;
        let mut world = World::build(self.scenario, platter, timing, self.end, faults, Some(&log));
        world.open()?;
        drop(world);
        let exploration = Exploration { exhaustive: 2, torn: true, random: 2 };
        let mut contents = Contents::new(key);
        for point in log.crash_points() {
            contents.advance(&point.state);
            for outcomes in outcomes(&point, &exploration, &mut self.rng) {
                self.explored.outcomes += 1;
                let key = contents.fingerprint(&point.state, &outcomes);
                let again = match self.found.get(&key) {
                    Some(again) => *again,
                    None => {
                        self.explored.second += 1;
                        self.open(point.state.with(&outcomes), key, found)
                            .map_err(|what| describe(&point, &outcomes, &what))?
                            .0
                    }
                };
                if again != found {
                    let what = format!("state {found}, then state {again}");
                    return Err(describe(&point, &outcomes, &what));
                }
            }
        }
        Ok(())
    }
}
