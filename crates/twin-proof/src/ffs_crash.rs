//! Power failures of clustered volumes at every write and flush of a run, and what a restart makes
//! of them.
//!
//! Contract: after a power failure the volume opens (replayed, or repaired, as its ordering says),
//! has what the ordering promises (`promise`), is sound by its checker once it was closed, and goes
//! on working. A power failure during the recovery changes nothing of this.

use std::collections::BTreeSet;

use twin_ffs::{Ffs, check};
use twin_model::Dump;
use twin_model::generate::Generator;
use twin_rt::{Rng, SECS, Time};

use super::contents::Contents;
use super::crash::{describe, outcomes};
use super::drive::{Ack, Replied, drive};
use super::oracle::History;
use super::promise::{FailurePoint, Judged, Promises};
use super::restarts::Restarts;
use super::{AnyWorld, Depth, Explored, Failure, Scenario, Timing, prepare_any};
use twin_sim::Platter;
use twin_sim::faults::{Exploration, FaultPlan, WriteLog};

/// Runs the scenario once on a clustered volume and looks at its power failures. Of the figures,
/// `rolled` counts replays and repairs, `states` the names and blocks that were promised and found.
///
/// # Errors
/// The first that breaks a promise.
pub fn ffs_crash(scenario: &Scenario, depth: &Depth) -> Result<Explored, Failure> {
    let explored = run(scenario, depth);
    explored.map_err(|what| Failure { kind: "ffs", scenario: scenario.clone(), what })
}

fn run(scenario: &Scenario, depth: &Depth) -> Result<Explored, String> {
    let (platter, model) = prepare_any::<Ffs>(scenario)?;
    let (log, start) = (WriteLog::new(), Time(SECS));
    let faults = FaultPlan::none();
    let mut world =
        AnyWorld::<Ffs>::build(scenario, platter, Timing::Jitter, start, faults, Some(&log));
    world.open()?;
    let mut history = History::new(scenario, &model);
    let generator = super::generator(scenario)?;
    let (mut journal, _) = drive(scenario, &world, generator, scenario.ops, Some(&log))?;
    let end = world.rt.now();
    if scenario.seed.is_multiple_of(2) {
        world.close()?;
        // Closing is a sync of its own.
        let place = journal.order.len();
        journal.replies.push(Replied { place, seen: place });
        let replied = journal.replies.len();
        journal.acks.push(Ack { issued: place, ino: None, replied, data_only: false });
        log.mark(replied as u64);
    } else {
        world.crash();
    }
    history.follow(&journal)?;
    let mut restart = Restart {
        scenario,
        promises: Promises::new(history, journal),
        end,
        depth,
        explored: Explored::default(),
        judged: Judged::default(),
        rng: Rng::stream(scenario.seed, "crash"),
        seen: BTreeSet::new(),
    };
    restart.explore(&log)?;
    let Judged { names, blocks } = restart.judged;
    Ok(Explored { states: names + blocks, ..restart.explored })
}

/// Restarts after power failures.
struct Restart<'a> {
    scenario: &'a Scenario,
    promises: Promises,
    end: Time,
    depth: &'a Depth,
    explored: Explored,
    judged: Judged,
    rng: Rng,
    /// The contents that were looked at.
    seen: BTreeSet<u64>,
}

impl Restarts for Restart<'_> {
    type Promise = FailurePoint;

    fn parts(&mut self) -> (&Depth, &mut Explored, &mut Rng) {
        (self.depth, &mut self.explored, &mut self.rng)
    }

    fn promised(&self, mark: u64) -> FailurePoint {
        self.promises.moment(mark as usize)
    }

    fn is_known(&mut self, key: u64, _moment: FailurePoint) -> Result<bool, String> {
        Ok(!self.seen.insert(key))
    }

    fn check(&mut self, platter: Platter, _key: u64, moment: FailurePoint) -> Result<(), String> {
        self.explored.failures += 1;
        let number = self.explored.failures;
        let works = number.is_multiple_of(self.depth.work_every);
        self.open(platter.clone(), moment, works)
            .map_err(|what| format!("{what}; it was left so: {}", self.left(platter.clone())))?;
        if number.is_multiple_of(self.depth.interrupt_every) {
            self.interrupt(platter, moment)
                .map_err(|what| format!("a second power failure: {what}"))?;
        }
        Ok(())
    }
}

impl Restart<'_> {
    fn open(&mut self, platter: Platter, moment: FailurePoint, works: bool) -> Result<(), String> {
        // No two starts have the same time, and with it the same seed.
        let start = self.end + self.explored.failures + self.explored.second;
        let mut world = AnyWorld::<Ffs>::new(self.scenario, platter, Timing::Instant, start);
        let recovered = world.open()?;
        self.explored.rolled += u64::from(recovered.records > 0 || recovered.repaired > 0);
        let tree = world.dump()?;
        if let Some(what) = tree.contradiction() {
            return Err(what);
        }
        let ordering = &self.scenario.ordering;
        let mut read = |ino, off, len| world.read_file(ino, off, len);
        let judged = self.promises.judge(ordering, moment, &tree, &mut read)?;
        self.judged.names += judged.names;
        self.judged.blocks += judged.blocks;
        let tree = match works {
            false => tree,
            true => {
                self.explored.worked += 1;
                self.work(&mut world).map_err(|what| format!("work: {what}"))?
            }
        };
        let platter = world.close()?;
        self.expect_sound(platter, works.then_some(&tree), start)
    }

    /// What the checker says of what a power failure left.
    fn left(&self, platter: Platter) -> String {
        let start = self.end + SECS;
        let world = AnyWorld::<Ffs>::new(self.scenario, platter, Timing::Instant, start);
        match world.wait("checking", check::check(world.device(), &mut |_| {})) {
            Ok(Ok(report)) => report.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(what) => what,
        }
    }

    /// The volume goes on to work. Gives the tree then.
    fn work(&self, world: &mut AnyWorld<Ffs>) -> Result<Dump, String> {
        let scenario = self.scenario;
        let (params, number) = (scenario.workload_params(), self.explored.worked);
        let generator = Generator::new(&scenario.workload, params, number);
        let mut generator = generator.ok_or("no workload")?;
        generator.set_next_id(1 << 32);
        drive(scenario, world, generator, 60, None)?;
        world.dump()
    }

    /// A closed volume is sound and holds the tree that it was closed with.
    fn expect_sound(
        &self,
        platter: Platter,
        tree: Option<&Dump>,
        start: Time,
    ) -> Result<(), String> {
        let mut world = AnyWorld::<Ffs>::new(self.scenario, platter, Timing::Instant, start + SECS);
        let device = world.device();
        let report = world.wait("checking", check::check(device, &mut |_| {}))?;
        let report = report.map_err(|error| format!("checking: {error}"))?;
        if !report.is_clean() {
            return Err(format!("after closing: {report}"));
        }
        if let Some(tree) = tree {
            world.open()?;
            let again = world.dump()?;
            let (compare, names) = (Default::default(), ["closed", "opened"]);
            if let Some(what) = twin_model::diff(tree, &again, names, &compare) {
                return Err(format!("after opening again: {what}"));
            }
        }
        Ok(())
    }

    /// The power fails again while the volume recovers: the promises are the same.
    fn interrupt(&mut self, platter: Platter, moment: FailurePoint) -> Result<(), String> {
        let (log, faults, timing) = (WriteLog::new(), FaultPlan::none(), Timing::Jitter);
        let mut world =
            AnyWorld::<Ffs>::build(self.scenario, platter, timing, self.end, faults, Some(&log));
        world.open()?;
        drop(world);
        let exploration = Exploration { exhaustive: 2, torn: true, random: 2 };
        let mut contents = Contents::new(self.explored.second.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for point in log.crash_points() {
            contents.advance(&point.state);
            for outcomes in outcomes(&point, &exploration, &mut self.rng) {
                self.explored.outcomes += 1;
                if self.seen.insert(contents.fingerprint(&point.state, &outcomes)) {
                    self.explored.second += 1;
                    self.explored.failures += 1;
                    self.open(point.state.with(&outcomes), moment, false)
                        .map_err(|what| describe(&point, &outcomes, &what))?;
                }
            }
        }
        Ok(())
    }
}
