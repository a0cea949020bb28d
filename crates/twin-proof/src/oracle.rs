//! The model beside the volume: every reply, and the state after each request.
//!
//! A state is kept as the digest of its tree, so that thousands of trees found after power
//! failures are each looked up in a table; the model itself is kept too, for words when one is
//! not found.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;

use twin_fs::geometry::Geometry;
use twin_fs::{Features, Ino, Op, ROOT_INO, Reply, Request, SeekFor, SetTime};
use twin_lfs::format::Profile;
use twin_model::{Compare, DataMode, Dump, DumpNode, ModelFs, Settings, diff};
use twin_rt::{FixedHasher, Time};

use super::drive::{Ack, Applied, Journal};
use super::{AnyWorld, Scenario, Subject};

/// A digest of a tree: the sum of those of its paths, so that parts can be taken out.
pub fn digest(dump: &Dump, without: impl Fn(&DumpNode) -> bool) -> u64 {
    let nodes = dump.nodes.iter().filter(|(_, node)| !without(node));
    nodes.map(|(path, node)| node_digest(path, node)).fold(0, u64::wrapping_add)
}

fn node_digest(path: &[u8], node: &DumpNode) -> u64 {
    let mut h = FixedHasher::default();
    path.hash(&mut h);
    let a = &node.attr;
    (a.mode, a.nlink, a.uid, a.gid, a.rdev).hash(&mut h);
    (a.atime, a.mtime, a.ctime, a.btime).hash(&mut h);
    if !a.is_dir() {
        (a.size, node.content).hash(&mut h);
    }
    (&node.target, &node.xattrs, &node.same_as).hash(&mut h);
    let mut sum = h.finish();
    // The hasher is made for table keys; a sum of digests wants all bits mixed.
    sum = (sum ^ (sum >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    sum ^ (sum >> 29)
}

/// The states of the model over a run.
pub struct History {
    /// State `n` is the one after the first `n` requests in the order of effect.
    states: Vec<ModelFs>,
    digests: Vec<u64>,
    /// The newest state with a digest.
    newest: BTreeMap<u64, usize>,
    /// Files that were being changed in several steps, with the states from and to which any
    /// content of theirs is right.
    stepping: Vec<(Ino, usize, usize)>,
    /// For the first `n` promises, the oldest state that keeps them.
    kept: Vec<usize>,
    /// Print what is followed.
    trace: bool,
}

/// Where in a history a tree belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is this state, the newest that fits.
    At(usize),
    /// It is a state from before a promise, or none at all; in words.
    Wrong(String),
}

impl History {
    /// A history that begins with the tree of a model.
    pub fn new(scenario: &Scenario, model: &ModelFs) -> History {
        let mut history = History {
            states: Vec::new(),
            digests: Vec::new(),
            newest: BTreeMap::new(),
            stepping: Vec::new(),
            kept: vec![0],
            trace: scenario.trace,
        };
        history.push(model);
        history
    }

    fn push(&mut self, model: &ModelFs) {
        let digest = digest(&model.dump(), |_| false);
        self.newest.insert(digest, self.states.len());
        self.digests.push(digest);
        self.states.push(model.clone());
    }

    /// The last state.
    pub fn last(&self) -> &ModelFs {
        &self.states[self.states.len() - 1]
    }

    /// A state.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn state(&self, n: usize) -> &ModelFs {
        &self.states[n]
    }

    /// The number of states.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// False: there is always a first state.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// True if a file was being changed in several steps in some state from `from` on.
    pub fn is_stepping(&self, ino: Ino, from: usize) -> bool {
        self.stepping.iter().any(|(stepping, _, to)| *stepping == ino && *to >= from)
    }

    /// The oldest state that keeps the first `promises` promises.
    pub fn kept(&self, promises: u64) -> usize {
        self.kept[promises as usize]
    }

    /// The oldest state that keeps all promises.
    pub fn kept_by_all(&self) -> usize {
        self.kept[self.kept.len() - 1]
    }

    /// Gives the model all that a volume did, in the order of effect, and compares.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn follow(&mut self, journal: &Journal) -> Result<(), String> {
        let mut model = self.last().clone();
        // Journals may follow one another.
        let before = self.len() - 1;
        for (n, applied) in (before..).zip(&journal.order) {
            self.follow_one(&mut model, n, before, applied)?;
        }
        for ack in &journal.acks {
            let ack = Ack { issued: before + ack.issued, ..*ack };
            self.kept.push(self.kept_by_all().max(self.promised(&ack)));
        }
        Ok(())
    }

    fn follow_one(
        &mut self,
        model: &mut ModelFs,
        n: usize,
        before: usize,
        applied: &Applied,
    ) -> Result<(), String> {
        let Applied { request, reply: Some(reply), at, last_step, .. } = applied else {
            return Err(format!("request {} was never answered", applied.request.id));
        };
        if self.trace {
            println!("{n}: {at:?} client {} {:?} -> {reply:?}", request.client, request.op);
        }
        model
            .follow(*at, request, reply)
            .map_err(|what| format!("client {}, {:?}, in place {n}: {what}", request.client, at))?;
        self.push(model);
        if let (Some(end), Some(ino)) = (last_step, target(&request.op)) {
            self.stepping.push((ino, n, before + *end));
        }
        Ok(())
    }

    /// The state that an fsync promises: for a file, the newest one that changed it, as of when
    /// it was asked. Where the tree stays the same, a reply has only shown the number of an inode for which the model
    /// had a stand-in.
    pub(super) fn promised(&self, ack: &Ack) -> usize {
        let Some(ino) = ack.ino else { return ack.issued };
        let changed = |&n: &usize| {
            self.digests[n] != self.digests[n - 1]
                && !self.states[n].has_same(&self.states[n - 1], ino)
        };
        (1..=ack.issued).rev().find(changed).unwrap_or(0)
    }

    /// True if one of these states has a tree of this digest.
    pub(super) fn is_one_of(&self, states: RangeInclusive<usize>, digest: u64) -> bool {
        let last = self.digests.len() - 1;
        (*states.start()..=last.min(*states.end())).any(|n| self.digests[n] == digest)
    }

    /// Finds the newest state whose tree this is.
    pub fn find(&self, tree: &Dump, oldest: usize) -> Place {
        let found = self.newest.get(&digest(tree, |_| false)).copied();
        match found.or_else(|| self.find_stepping(tree)) {
            Some(n) if n >= oldest => Place::At(n),
            Some(n) => Place::Wrong(format!("state {n} was found, but {oldest} is promised")),
            None => Place::Wrong(self.describe(tree, oldest)),
        }
    }

    /// A tree in which files that were just being changed in steps may hold anything.
    fn find_stepping(&self, tree: &Dump) -> Option<usize> {
        let mut fits = None;
        for &(ino, from, to) in &self.stepping {
            let without = |node: &DumpNode| node.attr.ino == ino;
            let found = digest(tree, without);
            for n in from..=to.min(self.states.len() - 1) {
                if digest(&self.states[n].dump(), without) == found {
                    fits = fits.max(Some(n));
                }
            }
        }
        fits
    }

    /// The newest state that differs from a tree in the fewest paths, and in how many.
    pub fn nearest(&self, tree: &Dump) -> (usize, usize) {
        let mut best: Option<(usize, usize)> = None;
        for n in 0..self.states.len() {
            let dump = self.states[n].dump();
            let paths: std::collections::BTreeSet<_> =
                dump.nodes.keys().chain(tree.nodes.keys()).collect();
            let differ = paths.into_iter().filter(|path| {
                let one = |dump: &Dump| dump.nodes.get(*path).map(|node| node_digest(path, node));
                one(&dump) != one(tree)
            });
            let count = differ.count();
            if best.is_none_or(|(_, least)| count <= least) {
                best = Some((n, count));
            }
        }
        best.unwrap_or_default()
    }

    /// How a tree that is none of the states differs from the one that comes nearest.
    fn describe(&self, tree: &Dump, oldest: usize) -> String {
        let compare = Compare::default();
        let (n, count) = self.nearest(tree);
        let names = ["model", "volume"];
        let what = diff(&self.states[n].dump(), tree, names, &compare).unwrap_or_default();
        let all = self.states.len() - 1;
        format!(
            "no state fits; of {all} (promised: {oldest}), {n} comes nearest with {count} paths that differ: {what}"
        )
    }
}

/// The file that an operation in steps changes.
fn target(op: &Op) -> Option<Ino> {
    match op {
        Op::SetAttr { ino, .. } | Op::Open { ino, .. } | Op::Fallocate { ino, .. } => Some(*ino),
        _ => None,
    }
}

/// A model of a volume that was just opened and holds nothing but its root.
///
/// # Errors
/// If the volume has no root.
pub fn model_of<L: Subject>(
    scenario: &Scenario,
    world: &mut AnyWorld<L>,
) -> Result<ModelFs, String> {
    let geometry = world.volume().core().geometry.clone();
    let settings = Settings {
        block_size: geometry.block_size,
        data: if scenario.stamps { DataMode::Stamps } else { DataMode::Bytes },
        file_size_max: geometry.max_file_size(),
        link_max: if scenario.profile == Profile::Classic { 32_767 } else { 65_000 },
        symlink_max: twin_fs::dir::SYMLINK_MAX.min(geometry.block_size as usize),
        xattr_total_max: 256 << 10,
        xattrs: scenario.profile == Profile::Modern,
        birth_times: scenario.profile == Profile::Modern,
        inline_max: geometry.inline_max.into(),
        promised_is_data: true,
        ..Settings::default()
    };
    let mut model = ModelFs::new(settings, Time(0));
    match world.ask(Op::GetAttr { ino: ROOT_INO })? {
        Ok(Reply::Attr(attr)) => model.set_root_attr(&attr),
        other => return Err(format!("the root of a new volume: {other:?}")),
    }
    Ok(model)
}

/// Makes the times of a request those that a volume of this geometry can keep.
pub fn tame(geometry: &Geometry, mut request: Request) -> Request {
    let features = Features::of(geometry);
    if let Op::SetAttr { set, .. } = &mut request.op {
        for time in [&mut set.atime, &mut set.mtime].into_iter().flatten() {
            if let SetTime::At(at) = time {
                *at = features.nearest_time(*at);
            }
        }
    }
    request
}

/// Reads every file of the last state from model and volume, to say in words where they differ.
pub fn explain<L: Subject>(
    model: &ModelFs,
    tree: &Dump,
    world: &mut AnyWorld<L>,
) -> Option<String> {
    let expected = model.dump();
    let mut model = model.clone();
    for (path, node) in &expected.nodes {
        let same = tree.nodes.get(path).is_some_and(|found| found.content == node.content);
        if same || node.attr.kind() != twin_fs::mode::REGULAR || !tree.nodes.contains_key(path) {
            continue;
        }
        let (ino, mut off) = (node.attr.ino, 0);
        while off < node.attr.size {
            let seek = Op::Seek { ino, off, what: SeekFor::Data };
            for op in [seek, Op::Read { ino, off, len: 1 << 16 }] {
                let request = Request::root(1 << 50, op);
                let reply = world.ask(request.op.clone()).ok()?;
                if let Err(what) = model.follow(Time(0), &request, &reply) {
                    return Some(format!("{}: {what}", path.escape_ascii()));
                }
                match reply {
                    Ok(Reply::Offset(data)) if data > off => off = data & !0xffff,
                    Err(_) => off = node.attr.size,
                    Ok(Reply::Data(_)) => off += 1 << 16,
                    _ => {}
                }
            }
        }
    }
    None
}
