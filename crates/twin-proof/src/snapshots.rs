//! Snapshots and branches: clients at work and the cleaner beside them, states that are kept in the middle of it, deleted,
//! rolled back to and switched to; and power failures at every write of each of these.
//!
//! Contract: each round works on the volume that the last one left.
//! - A state that was kept while clients worked has the tree of one instant: that of the model after some of the
//!   requests.
//! - From then on it has that tree, whatever is written, cleaned, deleted or put in its place, until it is deleted.
//! - The head has the tree of the model; after a rollback or a switch that of the state that became the head.
//! - A power failure while states are kept or deleted, or while the head changes, leaves all of it as before or all as
//!   after, with every tree right and nothing for a check to find.
//! - When all states are deleted, their space is back.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_fs::SnapshotView;
use twin_fs::snapshots::{HeadChange, Keep, StateKind};
use twin_fs::{FsError, Volume};
use twin_lfs::Lfs;
use twin_lfs::check::{CheckOptions, FindingKind};
use twin_model::generate::Generator;
use twin_model::{Dump, ModelFs};
use twin_rt::{FixedMap, MILLIS, Rng, SECS, Time};

use super::below::Below;
use super::contents::Contents;
use super::crash::{describe, outcomes};
use super::{
    Depth, Failure, History, Place, Scenario, Timing, World, drive, expect_last, oracle, prepare,
};
use twin_sim::Platter;
use twin_sim::faults::{FaultPlan, WriteLog};

/// The most states that a run has at a time.
const STATES_MOST: usize = 12;
/// Trees of states that are looked at in each round.
const LOOKED_AT: usize = 4;
/// Memory for blocks of a state that is looked at.
const CACHE_BYTES: u64 = 256 << 10;

/// When what a power failure left is checked.
const UNRECOVERED: &str = "before recovery";

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshotted {
    /// States that were kept.
    pub kept: u64,
    /// Of these, while clients worked.
    pub amid: u64,
    /// States that were refused for want of room.
    pub refused: u64,
    /// States that were deleted.
    pub deleted: u64,
    /// Times that another state became the head.
    pub heads: u64,
    /// Trees of states that were compared.
    pub trees: u64,
    /// Segments that were cleaned meanwhile.
    pub cleaned: u64,
    /// Different contents that power failures left.
    pub failures: u64,
}

impl std::ops::AddAssign for Snapshotted {
    fn add_assign(&mut self, other: Snapshotted) {
        self.kept += other.kept;
        self.amid += other.amid;
        self.refused += other.refused;
        self.deleted += other.deleted;
        self.heads += other.heads;
        self.trees += other.trees;
        self.cleaned += other.cleaned;
        self.failures += other.failures;
    }
}

/// Works on a volume in this many rounds.
///
/// # Errors
/// The first promise that is broken.
pub fn snapshots(scenario: &Scenario, rounds: u64, depth: &Depth) -> Result<Snapshotted, Failure> {
    Campaign::run(scenario, rounds, depth).map_err(|what| Failure {
        kind: "snapshots",
        scenario: scenario.clone(),
        what,
    })
}

/// The name of a state, and whether it was kept.
type Answer = (String, twin_fs::Result<()>);

/// What a volume must have.
#[derive(Clone)]
struct Expected {
    head: String,
    model: ModelFs,
    /// By name: whether it is a branch, and its tree.
    states: BTreeMap<String, (bool, ModelFs)>,
}

/// A change of the states of a volume.
#[derive(Clone, Debug)]
enum Action {
    Keep(String, Keep),
    Delete(Vec<String>),
    Head(HeadChange),
}

struct Campaign<'a> {
    scenario: &'a Scenario,
    depth: &'a Depth,
    expected: Expected,
    rng: Rng,
    next_name: u64,
    done: Snapshotted,
}

impl Campaign<'_> {
    fn run(scenario: &Scenario, rounds: u64, depth: &Depth) -> Result<Snapshotted, String> {
        let (mut platter, model) = prepare(scenario)?;
        let expected = Expected { head: "main".into(), model, states: BTreeMap::new() };
        let rng = Rng::stream(scenario.seed, "snapshots");
        let mut campaign =
            Campaign { scenario, depth, expected, rng, next_name: 0, done: Snapshotted::default() };
        for round in 0..rounds {
            let at = |what: String| format!("round {round}: {what}");
            platter = campaign.work(platter, round).map_err(at)?;
            platter = campaign.act(platter, round).map_err(at)?;
        }
        campaign.give_back(platter)?;
        Ok(campaign.done)
    }

    fn start(round: u64) -> Time {
        Time((round + 1) * 10_000 * SECS)
    }

    fn name(&mut self) -> String {
        self.next_name += 1;
        format!("s{}", self.next_name)
    }

    /// Clients work, and states are kept meanwhile.
    fn work(&mut self, platter: Platter, round: u64) -> Result<Platter, String> {
        let scenario = self.scenario;
        let start = Self::start(round);
        let mut world =
            World::build(scenario, platter, Timing::Jitter, start, FaultPlan::none(), None);
        world.open()?;
        self.look(&mut world, "before the clients")?;
        let mut history = History::new(scenario, &self.expected.model);
        let params = scenario.workload_params();
        let generator = Generator::new(&scenario.workload, params, scenario.seed ^ round << 32);
        let mut generator = generator.ok_or("no workload")?;
        generator.set_next_id((round + 1) << 32);
        let amid: Vec<String> = (0..self.rng.below(3)).map(|_| self.name()).collect();
        let kept: Rc<RefCell<Vec<Answer>>> = Rc::default();
        for name in amid {
            let (volume, kept, rt) = (world.volume().clone(), Rc::clone(&kept), world.rt.clone());
            let after = self.rng.below(2000) * MILLIS;
            world.rt.spawn("snapshot", async move {
                rt.sleep(after).await;
                let done = volume.layout.keep(volume.core(), &name, Keep::Snapshot).await;
                kept.borrow_mut().push((name, done));
            });
        }
        let waiting = Rc::strong_count(&kept) - 1;
        let (journal, _) = drive(scenario, &world, generator, scenario.ops, None)?;
        while kept.borrow().len() < waiting {
            world.wait("a snapshot", world.rt.sleep(100 * MILLIS))?;
        }
        history.follow(&journal)?;
        expect_last(&history, &mut world, "after the clients")?;
        for (name, done) in kept.take() {
            match done {
                Ok(()) => {
                    let tree = self.tree(&world, &name)?;
                    let Place::At(n) = history.find(&tree, 0) else {
                        return Err(format!(
                            "{name}, kept amid the work, has the tree of no instant"
                        ));
                    };
                    self.expected.states.insert(name, (false, history.state(n).clone()));
                    (self.done.kept, self.done.amid) = (self.done.kept + 1, self.done.amid + 1);
                }
                Err(FsError::NoSpace) => self.done.refused += 1,
                Err(error) => return Err(format!("{name}: {error}")),
            }
        }
        self.expected.model = history.last().clone();
        self.expected.model.crash();
        self.done.cleaned += world.volume().layout.stats().cleaned_segments;
        self.look(&mut world, "after the clients")?;
        let platter = world.close()?;
        self.check(platter.clone(), "after the clients")?;
        Ok(platter)
    }

    /// States are kept and deleted, or the head changes, with power failures at every write.
    fn act(&mut self, platter: Platter, round: u64) -> Result<Platter, String> {
        let actions = self.draw();
        let is_head = matches!(actions.first(), Some(Action::Head(_)));
        let start = Self::start(round) + 5_000 * SECS;
        let log = WriteLog::new();
        let (timing, plan) = (Timing::Jitter, FaultPlan::none());
        let mut world = World::build(self.scenario, platter, timing, start, plan, Some(&log));
        if !is_head {
            world.open()?;
        }
        let mut expected = vec![self.expected.clone()];
        for (nth, action) in (1..).zip(&actions) {
            let done = perform(&world, action)?;
            let mut next = expected[expected.len() - 1].clone();
            match done {
                Ok(()) => {
                    next.apply(action);
                    match action {
                        Action::Keep(..) => self.done.kept += 1,
                        Action::Delete(names) => self.done.deleted += names.len() as u64,
                        Action::Head(_) => self.done.heads += 1,
                    }
                }
                Err(FsError::NoSpace) => self.done.refused += 1,
                Err(error) => return Err(format!("{action:?}: {error}")),
            }
            expected.push(next);
            log.mark(nth);
        }
        self.expected = expected[expected.len() - 1].clone();
        let platter = match is_head {
            true => {
                let platter = world.disk.platter();
                world.crash();
                platter
            }
            false => world.close()?,
        };
        self.explore(&log, &expected, &actions)?;
        self.check(platter.clone(), &format!("after {actions:?}"))?;
        Ok(platter)
    }

    /// What is done next.
    fn draw(&mut self) -> Vec<Action> {
        let all: Vec<String> = self.expected.states.keys().cloned().collect();
        let of_kind = |is_branch: bool| -> Vec<String> {
            let of = self.expected.states.iter().filter(|(_, (branch, _))| *branch == is_branch);
            of.map(|(name, _)| name.clone()).collect()
        };
        let branches = of_kind(true);
        if !all.is_empty() && self.rng.chance(0.3) {
            let change = match branches.is_empty() || self.rng.chance(0.4) {
                true => HeadChange::Rollback(self.rng.pick(&all).clone()),
                false => HeadChange::Switch(self.rng.pick(&branches).clone()),
            };
            return vec![Action::Head(change)];
        }
        let mut left = all;
        let mut actions = Vec::new();
        for _ in 0..self.rng.range(1, 4) {
            let delete = !left.is_empty() && (left.len() >= STATES_MOST || self.rng.chance(0.4));
            actions.push(match delete {
                true => {
                    let many = self.rng.range(1, 1 + left.len().min(3) as u64);
                    let some = |_| left.swap_remove(self.rng.below(left.len() as u64) as usize);
                    Action::Delete((0..many).map(some).collect())
                }
                false => {
                    let what = match self.rng.below(3) {
                        0 if !left.is_empty() => Keep::BranchOf(self.rng.pick(&left).clone()),
                        1 => Keep::Branch,
                        _ => Keep::Snapshot,
                    };
                    Action::Keep(self.name(), what)
                }
            });
        }
        actions
    }

    /// Looks at what power failures leave.
    fn explore(
        &mut self,
        log: &WriteLog,
        expected: &[Expected],
        actions: &[Action],
    ) -> Result<(), String> {
        let (mut contents, mut seen) = (Contents::new(0), FixedMap::default());
        let share = (self.depth.points as f64 / log.crash_points().count() as f64).min(1.0);
        let mut failures = 0;
        for point in log.crash_points() {
            contents.advance(&point.state);
            if failures >= self.depth.most || !self.rng.chance(share) {
                continue;
            }
            let mark = point.mark.unwrap_or(0) as usize;
            for outcomes in outcomes(&point, &self.depth.exploration, &mut self.rng) {
                let key = contents.fingerprint(&point.state, &outcomes);
                let found: usize = match seen.get(&key) {
                    Some(&found) => found,
                    None => {
                        failures += 1;
                        let looked =
                            self.recover(point.state.with(&outcomes), expected, mark, failures);
                        let told = |what: String| {
                            format!("{actions:?}: {}", describe(&point, &outcomes, &what))
                        };
                        let found = looked.map_err(told)?;
                        seen.insert(key, found);
                        found
                    }
                };
                if found < mark {
                    let what =
                        format!("{actions:?}: {found} changes are found, {mark} were acknowledged");
                    return Err(describe(&point, &outcomes, &what));
                }
            }
        }
        self.done.failures += failures;
        Ok(())
    }

    /// Opens what a power failure left. Gives how many of the changes it has.
    fn recover(
        &mut self,
        platter: Platter,
        expected: &[Expected],
        mark: usize,
        number: u64,
    ) -> Result<usize, String> {
        self.check(platter.clone(), UNRECOVERED)?;
        let start = Time(1_000_000_000 * SECS + number);
        let mut world = World::new(self.scenario, platter, Timing::Instant, start);
        world.open()?;
        let names = |expected: &Expected| {
            let mut all: Vec<String> = expected.states.keys().cloned().collect();
            all.push(expected.head.clone());
            all.sort();
            (expected.head.clone(), all)
        };
        let found = names_of(world.volume());
        let fits = |nth: &usize| names(&expected[*nth]) == found;
        let nths: Vec<usize> = (mark..expected.len()).rev().filter(fits).collect();
        if nths.is_empty() {
            return Err(format!(
                "{found:?} are found, {:?} were acknowledged",
                names(&expected[mark])
            ));
        }
        // A rollback changes no name: the head's tree tells.
        let tree = world.dump()?;
        let same = |nth: &&usize| has_tree(self.scenario, &expected[**nth].model, &tree);
        let nth = *nths.iter().find(same).ok_or("the head has another tree")?;
        let was = std::mem::replace(&mut self.expected, expected[nth].clone());
        let looked = self.look(&mut world, "after a power failure");
        self.expected = was;
        looked?;
        let platter = world.close()?;
        self.check(platter, "after recovery")?;
        Ok(nth)
    }

    /// Compares the head and some states with what they must have.
    fn look(&mut self, world: &mut World, when: &str) -> Result<(), String> {
        let tree = world.dump()?;
        if !has_tree(self.scenario, &self.expected.model, &tree) {
            let more = oracle::explain(&self.expected.model, &tree, world).unwrap_or_default();
            return Err(format!("{when}: the head has another tree: {more}"));
        }
        let mut names: Vec<String> = self.expected.states.keys().cloned().collect();
        for _ in 0..LOOKED_AT.min(names.len()) {
            let name = names.swap_remove(self.rng.below(names.len() as u64) as usize);
            let tree = self.tree(world, &name).map_err(|what| format!("{when}: {what}"))?;
            let (_, model) = &self.expected.states[&name];
            if !has_tree(self.scenario, model, &tree) {
                return Err(format!("{when}: {name} has another tree than it had"));
            }
            self.done.trees += 1;
        }
        Ok(())
    }

    /// The tree of a state: of each second one as clients find it below `.twinfs`, beside the head.
    fn tree(&self, world: &World, name: &str) -> Result<Dump, String> {
        let volume = &world.volume().volume;
        if self.done.trees.is_multiple_of(2) {
            let mut id = 1 << 57;
            let walked = world.wait("walking", async {
                let below = Below::find(volume, name).await.map_err(|error| error.to_string())?;
                let walked = twin_model::dump(&below, &mut id).await;
                walked.map_err(|error| error.to_string())
            })?;
            return walked.map_err(|error| format!("{name} below .twinfs: {error}"));
        }
        let opening = volume.open_state(name, CACHE_BYTES);
        let opened = world.wait("a state", opening)?;
        let state: Volume = opened.map_err(|error| format!("{name}: {error}"))?;
        let mut id = 1 << 57;
        let walked = world.wait("walking", twin_model::dump(&state, &mut id))?;
        walked.map_err(|error| format!("{name}: {error}"))
    }

    /// Nothing is for a check to find.
    fn check(&self, platter: Platter, when: &str) -> Result<(), String> {
        let start = Time(2_000_000_000 * SECS);
        let world = World::new(self.scenario, platter, Timing::Instant, start);
        let (rt, device) = (world.rt.clone(), world.device());
        let options = CheckOptions { data: self.scenario.seed.is_multiple_of(3) };
        let mut ignore = |_| {};
        let checking = twin_lfs::check::check(&rt, device, &options, &mut ignore);
        let report =
            world.wait("a check", checking)?.map_err(|error| format!("{when}: {error}"))?;
        // A power failure while a volume is closed leaves copies of the checkpoint that differ.
        let kinds = report.findings.iter().map(|finding| finding.kind);
        let closing =
            when == UNRECOVERED && kinds.into_iter().all(|kind| kind == FindingKind::Checkpoint);
        match report.is_clean() || closing {
            true => Ok(()),
            false => Err(format!("{when}: a check finds: {report}")),
        }
    }

    /// All states are deleted: what they held is back.
    fn give_back(&mut self, platter: Platter) -> Result<(), String> {
        let start = Time(3_000_000_000 * SECS);
        let mut world = World::new(self.scenario, platter, Timing::Jitter, start);
        world.open()?;
        let names: Vec<String> = self.expected.states.keys().cloned().collect();
        let volume = world.volume().clone();
        let deleting = volume.layout.delete(volume.core(), &names);
        world.wait("deleting", deleting)?.map_err(|error| format!("deleting all: {error}"))?;
        let states = volume.layout.states(volume.core());
        let stat = volume.stat();
        let (used, limit) = volume.layout.space();
        let free = (limit - used) / u64::from(stat.block_size);
        if states.states.len() != 1 || states.held_bytes != 0 || stat.free != free {
            return Err(format!(
                "all states are deleted, and {} bytes are held",
                states.held_bytes
            ));
        }
        self.expected.states.clear();
        self.look(&mut world, "without states")?;
        let platter = world.close()?;
        self.check(platter, "without states")
    }
}

impl Expected {
    fn apply(&mut self, action: &Action) {
        match action {
            Action::Keep(name, Keep::Snapshot) => {
                self.states.insert(name.clone(), (false, self.model.clone()));
            }
            Action::Keep(name, Keep::Branch) => {
                self.states.insert(name.clone(), (true, self.model.clone()));
            }
            Action::Keep(name, Keep::BranchOf(from)) => {
                let (_, model) = self.states[from].clone();
                self.states.insert(name.clone(), (true, model));
            }
            Action::Delete(names) => names.iter().for_each(|name| drop(self.states.remove(name))),
            Action::Head(HeadChange::Rollback(name)) => self.model = self.states[name].1.clone(),
            Action::Head(HeadChange::Switch(name)) => {
                let (_, model) =
                    self.states.remove(name).unwrap_or_else(|| panic!("no branch {name}"));
                let old = std::mem::replace(&mut self.head, name.clone());
                self.states.insert(old, (true, std::mem::replace(&mut self.model, model)));
            }
        }
        self.model.crash();
    }
}

/// Does something with the states of the volume in a world.
fn perform(world: &World, action: &Action) -> Result<twin_fs::Result<()>, String> {
    let what = format!("{action:?}");
    match action {
        Action::Keep(name, how) => {
            let volume = world.volume().clone();
            world.wait(&what, volume.layout.keep(volume.core(), name, how.clone()))
        }
        Action::Delete(names) => {
            let volume = world.volume().clone();
            world.wait(&what, volume.volume.delete_states(names))
        }
        Action::Head(change) => {
            let (rt, device) = (world.rt.clone(), world.device());
            world.wait(&what, Lfs::set_head(&rt, device, change))
        }
    }
}

/// The name of the head of a volume, and all names.
fn names_of(volume: &twin_fs::VolumeOf<Lfs>) -> (String, Vec<String>) {
    let states = volume.layout.states(volume.core()).states;
    let head = states.iter().find(|state| state.kind == StateKind::Head);
    let head = head.map(|state| state.name.clone()).unwrap_or_default();
    let mut all: Vec<String> = states.into_iter().map(|state| state.name).collect();
    all.sort();
    (head, all)
}

/// True if a model has this tree.
fn has_tree(scenario: &Scenario, model: &ModelFs, tree: &Dump) -> bool {
    matches!(History::new(scenario, model).find(tree, 0), Place::At(_))
}
