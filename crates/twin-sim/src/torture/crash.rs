//! Power failures at every write and flush of a run, and what a restart makes of them.
//!
//! Contract, as the layout promises it: after a power failure the volume opens, and its tree is
//! the one after some prefix of the requests in the order in which they took effect, no older
//! than what the last acknowledged fsync or sync promised. Only a file that was just being
//! changed in several steps (punching or zeroing more than 256 blocks) may hold anything between.
//! The accounts are those that a recount finds, nothing is lost or held by nobody, and the volume
//! works from there on. A power failure during the recovery changes nothing of this.

use std::collections::BTreeMap;
use std::rc::Rc;

use twin_fs::generate::Generator;
use twin_lfs::LfsStats;
use twin_rt::{FixedMap, Rng, SECS, Time};

use super::drive::{Ack, drive};
use super::oracle::{self, History, Place};
use super::recount::recount;
use super::{Failure, Scenario, Timing, World, make};
use crate::Platter;
use crate::faults::{CrashPoint, Doubt, Exploration, Fate, WriteLog};

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
}

impl Default for Depth {
    fn default() -> Depth {
        Depth {
            exploration: Exploration { exhaustive: 3, torn: true, random: 6 },
            work_every: 40,
            interrupt_every: 150,
            most: u64::MAX,
        }
    }
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Moments at which the power failed.
    pub points: u64,
    /// Different contents that it left, each recovered from.
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
}

impl std::ops::AddAssign for Explored {
    fn add_assign(&mut self, other: Explored) {
        self.points += other.points;
        self.failures += other.failures;
        self.second += other.second;
        self.rolled += other.rolled;
        self.worked += other.worked;
        self.states += other.states;
        self.cleaned += other.cleaned;
        self.checkpoints += other.checkpoints;
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
struct Recorded {
    log: WriteLog,
    history: History,
    end: Time,
    stats: LfsStats,
}

fn run(scenario: &Scenario) -> Result<Recorded, String> {
    let platter = make(scenario)?;
    let log = WriteLog::new();
    let faults = crate::faults::FaultPlan::none();
    let start = Time(SECS);
    let mut world = World::build(scenario, platter, Timing::Jitter, start, faults, Some(&log));
    world.open()?;
    let model = oracle::model_of(scenario, &mut world)?;
    let mut history = History::new(scenario, &model);
    let generator = super::generator(scenario)?;
    let (mut journal, _) = drive(scenario, &world, generator, scenario.ops, Some(&log))?;
    let end = world.rt.now();
    let stats = world.volume().layout.stats();
    if scenario.seed.is_multiple_of(2) {
        world.close()?;
        journal.acks.push(Ack { issued: journal.order.len(), ino: None });
        log.mark(journal.acks.len() as u64);
    } else {
        world.crash();
    }
    history.follow(&journal)?;
    Ok(Recorded { log, history, end, stats })
}

impl Recorded {
    fn explore(&self, scenario: &Scenario, depth: &Depth) -> Result<Explored, String> {
        let (cleaned, checkpoints) = (self.stats.cleaned_segments, self.stats.checkpoints);
        let mut explored = Explored { cleaned, checkpoints, ..Explored::default() };
        let mut seen = Seen::default();
        let mut rng = Rng::stream(scenario.seed, "crash");
        let mut states = std::collections::BTreeSet::new();
        for point in self.log.crash_points() {
            explored.points += 1;
            seen.sight(point.state.doubts());
            let oldest = self.history.kept(point.mark.unwrap_or(0));
            for fates in fates(&point, &depth.exploration, &mut rng) {
                let key = seen.key(point.state.doubts(), &fates);
                if let Some(found) = seen.found.get(&key) {
                    // The same content as before, but perhaps more was promised since.
                    if *found < oldest {
                        let what = format!("state {found} is found, but {oldest} is promised");
                        return Err(describe(&point, &fates, &what));
                    }
                    continue;
                }
                if explored.failures >= depth.most {
                    explored.states = states.len() as u64;
                    return Ok(explored);
                }
                let platter = point.state.with(&fates);
                let mut restart = Restart { scenario, history: &self.history, end: self.end };
                let found = restart
                    .check(platter, oldest, depth, &mut explored, &mut rng)
                    .map_err(|what| describe(&point, &fates, &what))?;
                seen.found.insert(key, found);
                states.insert(found);
            }
        }
        explored.states = states.len() as u64;
        Ok(explored)
    }
}

/// Which contents were looked at already. A content is known by the writes of the log that are in
/// it: those that are certain, and those in doubt by their fates.
#[derive(Default)]
struct Seen {
    numbers: BTreeMap<usize, u64>,
    all: u64,
    /// The state that was found in each.
    found: FixedMap<u64, usize>,
}

impl Seen {
    fn address(doubt: &Doubt) -> usize {
        // The log keeps every write, so that no two have one address.
        Rc::as_ptr(&doubt.blocks).cast::<u8>() as usize
    }

    fn sight(&mut self, doubts: &[Doubt]) {
        for doubt in doubts {
            let next = self.numbers.len() as u64 + 1;
            self.numbers.entry(Seen::address(doubt)).or_insert_with(|| {
                self.all ^= mix(next);
                next
            });
        }
    }

    fn key(&self, doubts: &[Doubt], fates: &[Fate]) -> u64 {
        let mut key = self.all;
        for (i, doubt) in doubts.iter().enumerate() {
            let number = self.numbers[&Seen::address(doubt)];
            match fates.get(i).unwrap_or(&Fate::Lost) {
                Fate::Whole => {}
                Fate::Lost => key ^= mix(number),
                Fate::Torn(mask) => {
                    let sum = mask.iter().fold(number, |sum, word| mix(sum ^ word));
                    key ^= mix(number) ^ mix(sum);
                }
            }
        }
        key
    }
}

fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ (n >> 31)
}

/// The fates to look at: those of the exploration, and random ones.
fn fates(point: &CrashPoint, exploration: &Exploration, rng: &mut Rng) -> Vec<Vec<Fate>> {
    let mut all = point.state.fates(exploration);
    let sector = u64::from(point.state.sector);
    for _ in 0..exploration.random {
        let fate = |doubt: &Doubt| (doubt.len / sector, doubt.reported);
        let draw = |(sectors, _)| Fate::random(rng, sectors);
        all.push(point.state.doubts().iter().map(fate).map(draw).collect());
    }
    all
}

fn describe(point: &CrashPoint, fates: &[Fate], what: &str) -> String {
    let doubts = point.state.doubts().iter().enumerate().map(|(i, d)| {
        let fate = match fates.get(i).unwrap_or(&Fate::Lost) {
            Fate::Lost => "lost".into(),
            Fate::Whole => "whole".into(),
            Fate::Torn(mask) => format!("torn {mask:x?}"),
        };
        format!("{}+{} {fate}", d.at, d.len)
    });
    let doubts: Vec<String> = doubts.collect();
    let (index, at) = (point.index, point.time);
    format!(
        "power failure before event {index}, at {at:?}: {what}; in doubt: {}",
        doubts.join(", ")
    )
}

/// A restart after a power failure.
struct Restart<'a> {
    scenario: &'a Scenario,
    history: &'a History,
    end: Time,
}

impl Restart<'_> {
    /// Opens what a power failure left and checks it. Gives the state that was found.
    fn check(
        &mut self,
        platter: Platter,
        oldest: usize,
        depth: &Depth,
        explored: &mut Explored,
        rng: &mut Rng,
    ) -> Result<usize, String> {
        explored.failures += 1;
        let number = explored.failures;
        let interrupt = number.is_multiple_of(depth.interrupt_every);
        let (found, mut world) = self.open(platter.clone(), oldest, explored)?;
        if number.is_multiple_of(depth.work_every) {
            explored.worked += 1;
            self.work(found, &mut world, number).map_err(|what| format!("work: {what}"))?;
        }
        drop(world);
        if interrupt {
            self.interrupt(platter, found, explored, rng)
                .map_err(|what| format!("a second power failure: {what}"))?;
        }
        Ok(found)
    }

    fn open(
        &self,
        platter: Platter,
        oldest: usize,
        explored: &mut Explored,
    ) -> Result<(usize, World), String> {
        let mut world = World::new(self.scenario, platter, Timing::Instant, self.end);
        let recovered = world.open()?;
        explored.rolled += u64::from(recovered.groups > 0);
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
            Place::At(n) => Ok((n, world)),
            Place::Wrong(what) => Err(what),
        }
    }

    /// The volume goes on to work: more requests, closing, opening.
    fn work(&self, found: usize, world: &mut World, number: u64) -> Result<(), String> {
        let scenario = self.scenario;
        let mut model = self.history.state(found).clone();
        model.crash();
        let mut history = History::new(scenario, &model);
        let generator = Generator::new(&scenario.workload, scenario.shape(), number);
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
    fn interrupt(
        &self,
        platter: Platter,
        found: usize,
        explored: &mut Explored,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let log = WriteLog::new();
        let faults = crate::faults::FaultPlan::none();
        let timing = Timing::Jitter;
        let mut world = World::build(self.scenario, platter, timing, self.end, faults, Some(&log));
        world.open()?;
        drop(world);
        let exploration = Exploration { exhaustive: 2, torn: true, random: 2 };
        let mut seen = Seen::default();
        for point in log.crash_points() {
            seen.sight(point.state.doubts());
            for fates in fates(&point, &exploration, rng) {
                let key = seen.key(point.state.doubts(), &fates);
                if seen.found.insert(key, found).is_some() {
                    continue;
                }
                explored.failures += 1;
                explored.second += 1;
                let platter = point.state.with(&fates);
                let (again, _) = self
                    .open(platter, found, explored)
                    .map_err(|what| describe(&point, &fates, &what))?;
                if again != found {
                    let what = format!("state {found}, then state {again}");
                    return Err(describe(&point, &fates, &what));
                }
            }
        }
        Ok(())
    }
}
