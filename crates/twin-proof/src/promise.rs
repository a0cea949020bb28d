//! What the clustered layout's orderings promise of a power failure, held against what was found.
//!
//! Contract: [`Promises`] has the states of the model after each request in the order of effect,
//! the replies and the acknowledged fsyncs of a run. [`Promises::judge`] is told which replies had
//! been given when the power failed, and what a restart found. The three rules are those of
//! `docs/design-ffs.md`:
//!
//! - `journal`: all metadata is that of one state, no older than what fsync and sync promised.
//!   Data is that of this state or, where blocks were overwritten in place, of another one since
//!   the file was last made durable; never what lay there before the block was the file's.
//! - `sync`: each name leads where the last acknowledged request left it, or where one under way
//!   puts it; data that was fsynced and is still the file's is there.
//! - `async`: what a sync made durable and nothing has touched since is there, whole.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use twin_disk::{Block, gather};
use twin_fs::{Ino, Name, Op, mode};
use twin_model::{Dump, DumpNode, ModelFs};
use twin_rt::{FixedHasher, Time};

use super::drive::{Ack, Journal};
use super::oracle::{History, digest};

/// Blocks of a file from which on holes are not read: a file may have a million million of them.
const HOLES_MAX: u64 = 4096;

/// Reads a file of the found tree, as pieces of a block: inode, offset, length.
pub(super) type ReadFile<'a> = &'a mut dyn FnMut(Ino, u64, u32) -> Result<Vec<Block>, String>;

/// The smallest unit that a disk writes whole.
const SECTOR: u64 = 512;

/// A name in a directory.
type Key = (Ino, Name);

/// A request with what it did to names.
struct Step {
    op: Op,
    at: Time,
    /// Names that it made, removed or changed.
    keys: Vec<Key>,
}

/// What was promised in a run. See the module.
pub(super) struct Promises {
    history: History,
    /// The requests in the order of effect: step `n` leads from state `n` to `n + 1`.
    steps: Vec<Step>,
    /// For each step the inodes that it changed.
    changed: Vec<Vec<Ino>>,
    journal: Journal,
    /// Digests of states without the content of files, with the states that have them.
    by_metadata: BTreeMap<u64, Vec<usize>>,
}

/// What a power failure is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailurePoint {
    /// Replies that had been given.
    pub(super) replies: usize,
    /// States that may have been reached: the newest.
    top: usize,
}

/// How much was there to be judged: tests see by it that rules are not empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// Names.
    pub(super) names: u64,
    /// Blocks of files.
    pub(super) blocks: u64,
}

impl Promises {
    pub(super) fn new(history: History, journal: Journal) -> Promises {
        let step = |applied: &super::Applied| Step {
            op: applied.request.op.clone(),
            at: applied.at,
            keys: match &applied.reply {
                Some(Ok(_)) => keys(&applied.request.op),
                _ => Vec::new(),
            },
        };
        let steps: Vec<Step> = journal.order.iter().map(step).collect();
        let changed = (0..steps.len()).map(|n| {
            let (before, after) = (history.state(n), history.state(n + 1));
            after.changed_since(before)
        });
        let changed = changed.collect();
        let mut by_metadata: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for n in 0..history.len() {
            by_metadata.entry(metadata(&history.state(n).dump())).or_default().push(n);
        }
        Promises { history, steps, changed, journal, by_metadata }
    }

    /// The last state.
    pub(super) fn last(&self) -> usize {
        self.history.len() - 1
    }

    /// The moment when so many replies had been given.
    pub(super) fn moment(&self, replies: usize) -> FailurePoint {
        let next = self.journal.replies.get(replies);
        FailurePoint { replies, top: next.map_or(self.last(), |next| next.seen) }
    }

    /// Whether a tree of this digest keeps whatever was promised, because it is that of a state as new as all
    /// that was. If not, it may still be right: [`judge`](Self::judge) says.
    pub(super) fn is_plainly_right(
        &self,
        ordering: &str,
        moment: FailurePoint,
        digest: u64,
    ) -> bool {
        let least = match ordering {
            // Requests that were answered come before those that were not, with one client.
            "sync" => moment.replies,
            "journal" => self.acks(moment).map(|ack| ack.issued).max().unwrap_or(0),
            _ => {
                let syncs = self.acks(moment).filter(|ack| ack.ino.is_none());
                syncs.map(|ack| ack.issued).max().unwrap_or(0)
            }
        };
        self.history.is_one_of(least..=moment.top, digest)
    }

    /// A number for all that a judgement at this moment depends on besides what was found: the requests until
    /// then, and what was acknowledged. Workloads that begin alike have the same.
    pub(super) fn class(&self, moment: FailurePoint) -> u64 {
        let mut h = FixedHasher::default();
        moment.replies.hash(&mut h);
        for step in &self.steps[..moment.top] {
            (format!("{:?}", step.op), step.at).hash(&mut h);
        }
        for ack in self.acks(moment) {
            (ack.issued, ack.ino, ack.data_only).hash(&mut h);
        }
        h.finish()
    }

    fn state(&self, n: usize) -> &ModelFs {
        self.history.state(n)
    }

    /// Fsyncs and syncs that were acknowledged.
    fn acks(&self, moment: FailurePoint) -> impl DoubleEndedIterator<Item = &Ack> {
        self.journal.acks.iter().filter(move |ack| ack.replied <= moment.replies)
    }

    /// Holds a tree that was found against what was promised.
    ///
    /// # Errors
    /// What is not as promised, in words.
    pub(super) fn judge(
        &self,
        ordering: &str,
        moment: FailurePoint,
        found: &Dump,
        read: ReadFile<'_>,
    ) -> Result<Judged, String> {
        let mut judged = Judged::default();
        match ordering {
            "journal" => self.judge_journal(moment, found, read, &mut judged)?,
            "sync" => self.judge_sync(moment, found, read, &mut judged)?,
            _ => self.judge_async(moment, found, &mut judged)?,
        }
        Ok(judged)
    }

    // ---- journal

    fn judge_journal(
        &self,
        moment: FailurePoint,
        found: &Dump,
        read: ReadFile<'_>,
        judged: &mut Judged,
    ) -> Result<(), String> {
        let full = self.acks(moment).filter(|ack| !ack.data_only);
        let oldest = full.map(|ack| self.history.promised(ack)).max().unwrap_or(0);
        let fits = |n: &&usize| (oldest..=moment.top).contains(*n);
        let same = self.by_metadata.get(&metadata(found));
        let mut why = None;
        for &n in same.into_iter().flatten().rev().filter(fits) {
            match self.data_fits(moment, n, found, read, judged) {
                Ok(()) => return Ok(()),
                Err(what) => why = why.or(Some(what)),
            }
        }
        if let Some(what) = why {
            return Err(what);
        }
        // Files that were being changed in several steps may be between two states.
        match self.history.find(found, oldest) {
            super::Place::At(_) => Ok(()),
            super::Place::Wrong(what) => Err(what),
        }
    }

    /// The data of all files is right for state `n`.
    fn data_fits(
        &self,
        moment: FailurePoint,
        n: usize,
        found: &Dump,
        read: ReadFile<'_>,
        judged: &mut Judged,
    ) -> Result<(), String> {
        judged.names += found.nodes.len() as u64;
        for (path, node) in &found.nodes {
            let ino = node.attr.ino;
            let is_file = node.attr.kind() == mode::REGULAR && node.same_as.is_none();
            if !is_file || self.is_settled(moment, n, node) {
                continue;
            }
            let (state, kept) = (self.state(n), self.data_kept(moment, ino));
            // The size that fdatasync promises, too.
            if kept > n
                && state.attr(ino).map(|a| a.size) != self.state(kept).attr(ino).map(|a| a.size)
            {
                return Err(format!(
                    "{}: the size of state {n}, {kept} is promised",
                    path.escape_ascii()
                ));
            }
            let block = u64::from(state.settings().block_size);
            for lbn in 0..node.attr.size.div_ceil(block) {
                let allowed = self.allowed(moment, n, ino, lbn);
                if allowed.len() == 1 && allowed[0].is_none() {
                    continue;
                }
                let len = block.min(node.attr.size - lbn * block);
                judged.blocks += 1;
                let got = read(ino, lbn * block, len as u32)?;
                if let Some(at) = foreign_sector(&got, len, &allowed) {
                    return Err(format!(
                        "{}: at {} it has what it never had in states {} to {}",
                        path.escape_ascii(),
                        lbn * block + at,
                        self.data_kept(moment, ino),
                        moment.top
                    ));
                }
            }
        }
        Ok(())
    }

    /// The content is that of state `n`, and nothing newer is promised.
    fn is_settled(&self, moment: FailurePoint, n: usize, node: &DumpNode) -> bool {
        let same = self.state(n).node(node.attr.ino).is_some_and(|m| m.content == node.content);
        same && self.data_kept(moment, node.attr.ino) <= n
    }

    /// The oldest state whose data of a file may be found: that of its last fsync.
    fn data_kept(&self, moment: FailurePoint, ino: Ino) -> usize {
        let of_it = |ack: &&Ack| ack.ino.is_none_or(|i| i == ino);
        self.acks(moment).filter(of_it).map(|ack| ack.issued).max().unwrap_or(0)
    }

    /// What may be found in a block if the metadata is that of state `n`.
    fn allowed(&self, moment: FailurePoint, n: usize, ino: Ino, lbn: u64) -> Vec<Option<&Block>> {
        let at = |m: usize| self.state(m).block(ino, lbn);
        let oldest = self.data_kept(moment, ino);
        // Of fdatasync the times may be older than the data.
        let n = n.max(oldest);
        let Some(now) = at(n) else { return vec![None] };
        let mut allowed = vec![Some(now)];
        let before = (oldest..n).rev().map(at).take_while(Option::is_some);
        let after = (n + 1..=moment.top).map(at).take_while(Option::is_some);
        for block in before.chain(after) {
            if allowed.last() != Some(&block) {
                allowed.push(block);
            }
        }
        allowed
    }

    // ---- sync

    fn judge_sync(
        &self,
        moment: FailurePoint,
        found: &Dump,
        read: ReadFile<'_>,
        judged: &mut Judged,
    ) -> Result<(), String> {
        let replied: BTreeSet<usize> =
            self.journal.replies[..moment.replies].iter().map(|r| r.place).collect();
        let tree = names_of(found);
        // The last acknowledged step of each name, and the names that are promised at all.
        let mut last: BTreeMap<&Key, usize> = BTreeMap::new();
        for (n, step) in self.steps[..moment.top].iter().enumerate() {
            let done = replied.contains(&n);
            for key in &step.keys {
                let known = last.entry(key).or_insert(0);
                *known = if done { n + 1 } else { *known };
            }
        }
        let begin = self.state(0).dump();
        let older = names_of(&begin);
        let all: BTreeSet<&Key> =
            tree.keys().chain(older.keys()).chain(last.keys().copied()).collect();
        for key in all.into_iter().filter(|(_, name)| **name != *b"lost+found") {
            judged.names += 1;
            let from = last.get(key).copied().unwrap_or(0);
            let is = tree.get(key).map(|node| node.attr.ino);
            let mut may = (from..=moment.top).map(|n| self.state(n).leads_to(key.0, &key.1));
            let fits = |may: Option<Ino>| may == is || may.is_some_and(ModelFs::is_stand_in);
            if !may.any(fits) && !in_lost_and_found(found, key.0) {
                let want = self.state(from).leads_to(key.0, &key.1);
                let name = key.1.escape_ascii();
                return Err(format!(
                    "{name} in directory {} leads to {is:?}; state {from} of {} has {want:?}",
                    key.0, moment.top
                ));
            }
        }
        self.renamed_are_there(moment, &replied, found)?;
        self.kinds_fit(moment, found)?;
        self.synced_data_is_there(moment, found, read, judged)
    }

    /// What a rename under way moves has one of the two names.
    fn renamed_are_there(
        &self,
        moment: FailurePoint,
        replied: &BTreeSet<usize>,
        found: &Dump,
    ) -> Result<(), String> {
        for (n, step) in self.steps[..moment.top].iter().enumerate() {
            let Op::Rename { dir, name, .. } = &step.op else { continue };
            let moved = self.state(n).leads_to(*dir, name);
            let Some(ino) = moved.filter(|_| !replied.contains(&n) && !step.keys.is_empty()) else {
                continue;
            };
            let named = |m: usize| self.state(m).attr(ino).is_some_and(|a| a.nlink > 0);
            let is_there = found.nodes.values().any(|node| node.attr.ino == ino);
            if (n..=moment.top).all(named) && !is_there {
                return Err(format!("inode {ino}, being renamed at {:?}, has no name", step.at));
            }
        }
        Ok(())
    }

    /// Each inode is of the kind that it was made with, and links have their targets.
    fn kinds_fit(&self, moment: FailurePoint, found: &Dump) -> Result<(), String> {
        for (path, node) in &found.nodes {
            let same = |n: usize| {
                let model = self.state(n).node(node.attr.ino);
                model.is_some_and(|m| m.attr.kind() == node.attr.kind() && m.target == node.target)
            };
            let is_rescue = path.starts_with(b"/lost+found");
            if !is_rescue && !(0..=moment.top).rev().any(same) && self.is_known(moment, node) {
                return Err(format!("{}: an inode that never was so", path.escape_ascii()));
            }
        }
        Ok(())
    }

    fn is_known(&self, moment: FailurePoint, node: &DumpNode) -> bool {
        (0..=moment.top).any(|n| self.state(n).attr(node.attr.ino).is_some())
    }

    fn synced_data_is_there(
        &self,
        moment: FailurePoint,
        found: &Dump,
        read: ReadFile<'_>,
        judged: &mut Judged,
    ) -> Result<(), String> {
        for (path, node) in &found.nodes {
            let ino = node.attr.ino;
            let of_it = |ack: &&Ack| ack.ino.is_none_or(|i| i == ino);
            let Some(from) = self.acks(moment).filter(of_it).map(|ack| ack.issued).max() else {
                continue;
            };
            let sizes = (from..=moment.top).map(|n| Some(self.state(n).attr(ino)?.size));
            let Some(sizes) = sizes.collect::<Option<Vec<u64>>>() else { continue };
            if node.attr.kind() != mode::REGULAR || self.history.is_stepping(ino, from) {
                continue;
            }
            let (Some(&least), Some(&most)) = (sizes.iter().min(), sizes.iter().max()) else {
                continue;
            };
            if node.attr.size < least || node.attr.size > most {
                let (path, size) = (path.escape_ascii(), node.attr.size);
                return Err(format!("{path} has {size} bytes, fsynced since: {least} to {most}"));
            }
            let block = u64::from(self.state(from).settings().block_size);
            for lbn in 0..node.attr.size.div_ceil(block) {
                let want = self.state(from).block(ino, lbn);
                if want.is_none() && lbn >= HOLES_MAX {
                    continue;
                }
                if (from..=moment.top).any(|n| self.state(n).block(ino, lbn) != want) {
                    continue;
                }
                // Behind the end that the file has had ever since, a block has bytes that nobody has synced: what
                // lay there before may be seen. A hole has no such bytes.
                let end = if want.is_some() { least } else { node.attr.size };
                let len = block.min(end.saturating_sub(lbn * block));
                judged.blocks += 1;
                let got = read(ino, lbn * block, len as u32)?;
                if let Some(at) = foreign_sector(&got, len, &[want]) {
                    let (path, at) = (path.escape_ascii(), lbn * block + at);
                    return Err(format!("{path}: what was fsynced in state {from} is not at {at}"));
                }
            }
        }
        Ok(())
    }

    // ---- async

    fn judge_async(
        &self,
        moment: FailurePoint,
        found: &Dump,
        judged: &mut Judged,
    ) -> Result<(), String> {
        let syncs = self.acks(moment).filter(|ack| ack.ino.is_none());
        let Some(from) = syncs.filter(|ack| self.is_undisturbed(ack)).map(|a| a.issued).max()
        else {
            return Ok(());
        };
        let steps = &self.steps[from..moment.top];
        let touched: BTreeSet<Ino> =
            self.changed[from..moment.top].iter().flatten().copied().collect();
        let renamed: BTreeSet<&Key> = steps.iter().flat_map(|step| &step.keys).collect();
        let tree = self.state(from).dump();
        // A repair makes lost+found in the root.
        let rescue: &[u8] = b"/lost+found";
        let root_is_new = found.nodes.contains_key(rescue) && !tree.nodes.contains_key(rescue);
        for (path, node) in &tree.nodes {
            if root_is_new && **path == *b"/" {
                continue;
            }
            // Neither the inode was touched nor any of the names that lead to it.
            let own = std::iter::once(&path[..]).filter(|path| *path != b"/");
            let names = own.chain(ancestors(path).into_iter().filter(|path| *path != b"/"));
            let mut keys = names.map(|path| {
                let (dir, name) = split(path);
                (tree.nodes[dir].attr.ino, Name::from(name))
            });
            if touched.contains(&node.attr.ino) || keys.any(|key| renamed.contains(&key)) {
                continue;
            }
            judged.names += 1;
            let one = |node: &DumpNode| {
                let alone = DumpNode { same_as: None, ..node.clone() };
                digest(&Dump { nodes: [(path.clone(), alone)].into() }, |_| false)
            };
            match found.nodes.get(path) {
                Some(is) if one(is) == one(node) => {}
                is => {
                    let path = path.escape_ascii();
                    return Err(format!(
                        "{path} was synced in state {from} and not touched; it is {is:?}, was {node:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Nothing else was under way when a sync was asked.
    fn is_undisturbed(&self, ack: &Ack) -> bool {
        let replies = &self.journal.replies;
        let its = replies[ack.replied - 1];
        let before = replies[..ack.replied - 1].iter().filter(|r| r.place < ack.issued).count();
        before == ack.issued && its.place == ack.issued
    }
}

/// The digest of a tree without the content of its files.
fn metadata(tree: &Dump) -> u64 {
    let without = |node: &DumpNode| DumpNode { content: 0, ..node.clone() };
    let nodes = tree.nodes.iter().map(|(path, node)| (path.clone(), without(node))).collect();
    digest(&Dump { nodes }, |_| false)
}

/// The names that an operation makes, removes or changes.
fn keys(op: &Op) -> Vec<Key> {
    match op {
        Op::MakeNode { dir, name, .. }
        | Op::MakeDir { dir, name, .. }
        | Op::Symlink { dir, name, .. }
        | Op::Create { dir, name, .. }
        | Op::Unlink { dir, name }
        | Op::RemoveDir { dir, name }
        | Op::Link { dir, name, .. } => vec![(*dir, name.clone())],
        Op::Rename { dir, name, to_dir, to_name, .. } => {
            vec![(*dir, name.clone()), (*to_dir, to_name.clone())]
        }
        _ => Vec::new(),
    }
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        None | Some(0) => (b"/", &path[1.min(path.len())..]),
        Some(at) => (&path[..at], &path[at + 1..]),
    }
}

/// The names of a tree.
fn names_of(tree: &Dump) -> BTreeMap<Key, &DumpNode> {
    let mut names = BTreeMap::new();
    for (path, node) in tree.nodes.iter().filter(|(path, _)| ***path != *b"/") {
        let (dir, name) = split(path);
        names.insert((tree.nodes[dir].attr.ino, Name::from(name)), node);
    }
    names
}

/// A directory that a repair put into lost+found, or lost+found.
fn in_lost_and_found(tree: &Dump, dir: Ino) -> bool {
    let mut below = tree.nodes.iter().filter(|(path, _)| path.starts_with(b"/lost+found"));
    below.any(|(_, node)| node.attr.ino == dir)
}

/// The directories above a path, the root among them.
fn ancestors(path: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    let mut path = path;
    while path != b"/" {
        path = split(path).0;
        all.push(path);
    }
    all
}

/// The first sector of a block that is not that of one of the allowed ones; none stands for zeros.
pub(super) fn foreign_sector(got: &[Block], len: u64, allowed: &[Option<&Block>]) -> Option<u64> {
    (0..len).step_by(SECTOR as usize).find(|&at| {
        let n = SECTOR.min(len - at) as usize;
        let is = gather(got, at as usize, n);
        !allowed.iter().any(|block| match block {
            None => is.to_bytes().iter().all(|byte| *byte == 0),
            Some(block) => same(&is, &block.slice(at as usize, n)),
        })
    })
}

fn same(a: &Block, b: &Block) -> bool {
    a == b || a.to_bytes() == b.to_bytes()
}
