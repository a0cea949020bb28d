//! Power failures of a log whose flush policy names files, and what a restart makes of them.
//!
//! Contract, as the log promises it for such policies: after a power failure the volume opens; names,
//! link counts, directories, symbolic links and extended attributes are those of one state, no older
//! than what the last acknowledged fsync or sync promised; each file has the content and the
//! attributes of one state, no older than that either, which may be another state for each file. If
//! the policy names blocks, each block of a file may be of a state of its own. The accounts are those
//! of a recount, and the volume closes, is opened again and is the same.
//!
//! A policy that names everything is held to more: see [`crash`](fn@super::crash).

use std::collections::{BTreeMap, BTreeSet};

use twin_cache::flush::{Grain, Survives};
use twin_fs::{Attr, Ino, Layout, Op, Reply, Timestamp, mode};
use twin_model::{Dump, DumpNode};
use twin_rt::{Rng, SECS, Time};
use twin_sim::Platter;
use twin_sim::faults::{FaultPlan, WriteLog};

use super::crash::{Recorded, crash, run};
use super::oracle::digest;
use super::promise::foreign_sector;
use super::recount::recount;
use super::restarts::Restarts;
use super::{Depth, Explored, Failure, History, Place, Scenario, Timing, World, drive, prepare};

/// Runs the scenario once and looks at its power failures, by what its flush policy promises.
///
/// # Errors
/// The first that breaks a promise.
pub fn flush_crash(scenario: &Scenario, depth: &Depth) -> Result<Explored, Failure> {
    let failure = |what| Failure { kind: "flush", scenario: scenario.clone(), what };
    let entry = twin_cache::flush::REGISTRY.get(&scenario.flush);
    let grain = entry.map_err(|error| failure(error.to_string()))?.grain;
    if grain == Grain::Everything {
        return crash(scenario, depth);
    }
    let explored = run(scenario).and_then(|recorded| {
        let by_names = states_by_names(&recorded);
        let rng = Rng::stream(scenario.seed, "crash");
        let mut restart = Restart {
            scenario,
            recorded: &recorded,
            depth,
            grain,
            by_names,
            explored: Explored::default(),
            rng,
            seen: BTreeSet::new(),
        };
        restart.explore(&recorded.log)?;
        Ok(restart.explored)
    });
    explored.map_err(failure)
}

/// What memory that survives held when the power failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preserved {
    /// Bytes of writes that recovery applied.
    pub bytes: u64,
    /// Dirty bytes that the policy had allowed to be there.
    pub dirty_bytes: u64,
    /// True if the device alone was not enough: it held an older state.
    pub needed: bool,
}

/// Runs the scenario and lets the power fail when every request was answered. Recovery applies what
/// memory that survives held, and must find the last state, whatever became of the writes in doubt.
///
/// # Errors
/// If something is lost, or the memory held more than it can.
pub fn preserved(scenario: &Scenario) -> Result<Preserved, Failure> {
    let failure = |what| Failure { kind: "nvram", scenario: scenario.clone(), what };
    fail_with_memory(scenario).map_err(failure)
}

fn fail_with_memory(scenario: &Scenario) -> Result<Preserved, String> {
    let (platter, model) = prepare(scenario)?;
    let (log, faults) = (WriteLog::new(), FaultPlan::none());
    let mut world = World::build(scenario, platter, Timing::Jitter, Time(SECS), faults, Some(&log));
    world.open()?;
    let mut history = History::new(scenario, &model);
    let generator = super::generator(scenario)?;
    let (journal, _) = drive(scenario, &world, generator, scenario.ops, None)?;
    history.follow(&journal)?;
    let (volume, end) = (world.volume().clone(), world.rt.now());
    let mut rng = Rng::stream(scenario.seed, "crash");
    let left = world.disk.power_failure(&mut rng).ok_or("the disk cannot lose its power")?;
    let dirty_bytes = volume.layout.dirty(volume.core()).bytes;
    let writes = volume.layout.preserve(volume.core());
    let writes = writes.map_err(|error| error.to_string())?;
    drop(volume);
    world.crash();
    let mut with_memory = left.clone();
    for io in &writes {
        with_memory.write(io.at, &io.blocks);
    }
    let last = history.len() - 1;
    let found = |platter: Platter, what: &str| {
        let mut world = World::new(scenario, platter, Timing::Instant, end);
        world.open().map_err(|error| format!("{what}: {error}"))?;
        Ok::<Place, String>(history.find(&world.dump()?, last))
    };
    let needed = found(left, "the device alone")? != Place::At(last);
    match found(with_memory, "with what was in memory")? {
        Place::At(_) => {}
        Place::Wrong(what) => return Err(format!("with what was in memory: {what}")),
    }
    // What one operation at a time adds, and what the volume itself keeps dirty, comes on top.
    let most = scenario.nvram + u64::from(scenario.clients) * (scenario.write + (64 << 10));
    let entry = twin_cache::flush::REGISTRY.get(&scenario.flush).map_err(|e| e.to_string())?;
    if entry.survives == Survives::Nvram && dirty_bytes > most {
        return Err(format!("{dirty_bytes} bytes are dirty; the memory has {}", scenario.nvram));
    }
    let bytes = writes.iter().map(|io| io.len).sum();
    Ok(Preserved { bytes, dirty_bytes, needed })
}

/// The states by the digest of their names.
fn states_by_names(recorded: &Recorded) -> BTreeMap<u64, Vec<usize>> {
    let mut by_names: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for n in 0..recorded.history.len() {
        by_names.entry(names(&recorded.history.state(n).dump())).or_default().push(n);
    }
    by_names
}

/// The digest of a tree without what files may have of another state.
fn names(tree: &Dump) -> u64 {
    let without = |node: &DumpNode| match node.attr.kind() == mode::REGULAR {
        false => node.clone(),
        true => DumpNode { attr: identity(&node.attr), content: 0, ..node.clone() },
    };
    let nodes = tree.nodes.iter().map(|(path, node)| (path.clone(), without(node))).collect();
    digest(&Dump { nodes }, |_| false)
}

/// The attributes of a file that change only together with those of other inodes.
fn identity(attr: &Attr) -> Attr {
    let never = Timestamp::default();
    Attr {
        mode: attr.kind(),
        uid: 0,
        gid: 0,
        size: 0,
        atime: never,
        mtime: never,
        ctime: never,
        btime: never,
        ..attr.clone()
    }
}

/// The digest of the content and the attributes of a file.
fn content(node: &DumpNode) -> u64 {
    let alone = DumpNode {
        attr: Attr { nlink: 1, ..node.attr.clone() },
        xattrs: BTreeMap::new(),
        same_as: None,
        ..node.clone()
    };
    digest(&Dump { nodes: [(Box::from(*b"/"), alone)].into() }, |_| false)
}

/// Restarts after power failures.
struct Restart<'a> {
    scenario: &'a Scenario,
    recorded: &'a Recorded,
    depth: &'a Depth,
    grain: Grain,
    by_names: BTreeMap<u64, Vec<usize>>,
    explored: Explored,
    rng: Rng,
    /// The contents that were looked at.
    seen: BTreeSet<(u64, usize)>,
}

impl Restarts for Restart<'_> {
    type Promise = usize;

    fn parts(&mut self) -> (&Depth, &mut Explored, &mut Rng) {
        (self.depth, &mut self.explored, &mut self.rng)
    }

    fn promised(&self, mark: u64) -> usize {
        self.recorded.history.kept(mark)
    }

    fn is_known(&mut self, key: u64, oldest: usize) -> Result<bool, String> {
        Ok(!self.seen.insert((key, oldest)))
    }

    fn check(&mut self, platter: Platter, _key: u64, oldest: usize) -> Result<(), String> {
        self.explored.failures += 1;
        // No two starts have the same time, and with it the same seed.
        let start = self.recorded.end + self.explored.failures;
        let mut world = World::new(self.scenario, platter, Timing::Instant, start);
        let recovered = world.open()?;
        self.explored.rolled += u64::from(recovered.log_writes > 0);
        let counted = recount(&world.disk.platter())?;
        let used = world.volume().layout.space().0;
        if used != counted.live_bytes {
            return Err(format!("{used} bytes are used, {} are counted", counted.live_bytes));
        }
        let tree = world.dump()?;
        if let Some(what) = tree.contradiction() {
            return Err(what);
        }
        counted.compare(&tree)?;
        self.explored.states += self.judge(&tree, oldest, &mut world)?;
        if self.explored.failures.is_multiple_of(self.depth.work_every) {
            self.explored.worked += 1;
            let platter = world.close()?;
            let mut world = World::new(self.scenario, platter, Timing::Instant, start + SECS);
            world.open()?;
            let (compare, words) = (Default::default(), ["closed", "opened"]);
            if let Some(what) = twin_model::diff(&tree, &world.dump()?, words, &compare) {
                return Err(format!("after closing and opening: {what}"));
            }
        }
        Ok(())
    }
}

impl Restart<'_> {
    /// The number of files that are that of one state, or of blocks that are.
    fn judge(&self, tree: &Dump, oldest: usize, world: &mut World) -> Result<u64, String> {
        let mut judged = 0;
        let history = &self.recorded.history;
        let same = self.by_names.get(&names(tree)).into_iter().flatten();
        let Some(&of_names) = same.rev().find(|n| **n >= oldest) else {
            let near = history.state(history.nearest(tree).0).dump();
            let (compare, words) = (Default::default(), ["model", "found"]);
            let what = twin_model::diff(&near, tree, words, &compare).unwrap_or_default();
            return Err(format!("names of no state from {oldest} on; near one: {what}"));
        };
        for (path, node) in &tree.nodes {
            let is_file = node.attr.kind() == mode::REGULAR && node.same_as.is_none();
            if !is_file || history.is_stepping(node.attr.ino, oldest) {
                continue;
            }
            judged += 1;
            let want = content(node);
            let fits = |n: usize| {
                history.state(n).node(node.attr.ino).is_some_and(|m| content(&m) == want)
            };
            // A file whose creation was not answered has another number in the model.
            let by_path = || {
                history.state(of_names).dump().nodes.get(path).is_some_and(|m| content(m) == want)
            };
            if !(oldest..history.len()).rev().any(fits) && !by_path() {
                self.judge_blocks(path, node, oldest, world)?;
            }
        }
        Ok(judged)
    }

    /// The blocks of a file that is not that of one state.
    fn judge_blocks(
        &self,
        path: &[u8],
        node: &DumpNode,
        oldest: usize,
        world: &mut World,
    ) -> Result<(), String> {
        let (ino, path) = (node.attr.ino, path.escape_ascii());
        let history = &self.recorded.history;
        let states: Vec<usize> = (oldest..history.len()).collect();
        let attributes = |n: &usize| {
            let same = |a: &Attr| {
                (a.size, a.mode, a.uid, a.gid, a.mtime, a.ctime)
                    == (
                        node.attr.size,
                        node.attr.mode,
                        node.attr.uid,
                        node.attr.gid,
                        node.attr.mtime,
                        node.attr.ctime,
                    )
            };
            history.state(*n).attr(ino).is_some_and(same)
        };
        if self.grain == Grain::Files || !states.iter().any(attributes) {
            return Err(format!("{path} is that of no state from {oldest} on: {node:?}"));
        }
        let block = u64::from(history.state(oldest).settings().block_size);
        for lbn in 0..node.attr.size.div_ceil(block) {
            let mut allowed: Vec<_> =
                states.iter().map(|n| history.state(*n).block(ino, lbn)).collect();
            allowed.dedup();
            if allowed == [None] {
                continue;
            }
            let len = block.min(node.attr.size - lbn * block);
            let got = read(world, ino, lbn * block, len as u32)?;
            if let Some(at) = foreign_sector(&got, len, &allowed) {
                let at = lbn * block + at;
                return Err(format!("{path}: at {at} is what it never had from state {oldest} on"));
            }
        }
        Ok(())
    }
}

fn read(world: &mut World, ino: Ino, off: u64, len: u32) -> Result<Vec<twin_disk::Block>, String> {
    match world.ask(Op::Read { ino, off, len })? {
        Ok(Reply::Data(pieces)) => Ok(pieces),
        other => Err(format!("reading inode {ino}: {other:?}")),
    }
}
