//! The cleaner: moves what is live out of segments, so that they can be filled again.
//!
//! Contract: a policy ranks segments, this mechanism moves blocks. What it moves is written as
//! groups of its own, which change nothing but places; parents that get new pointers are written
//! by the next checkpoint, and with that checkpoint the emptied segments become clean. It takes
//! no lock that an operation takes.

mod policy;
mod scan;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::Origin;
use twin_fs::shape::{Parent, Ptr};
use twin_fs::{Core, Ino, Inode, Result, Volume};
use twin_rt::Event;

use crate::build::{Piece, RawInode, dirty_indirect};
use crate::format::{GROUP_CLEANER, ImapEntry};
use crate::lfs::Lfs;
use crate::segments::State;

pub use policy::{Candidate, VictimPolicy, by_name, registry};
pub(crate) use scan::summary_at;

/// What was cleaned since the last checkpoint.
#[derive(Default)]
struct Batch {
    /// Its victims. One that could not be emptied holds blocks that are dirty in memory: the
    /// checkpoint moves them, cleaning it again would not.
    tried: BTreeSet<u32>,
    /// Bytes in other segments that die with the checkpoint, because it writes them elsewhere:
    /// the parents of what was moved. To move them as well would be in vain.
    doomed: BTreeMap<u32, u32>,
}

/// What the cleaner's task and those who wait for it share.
pub(crate) struct CleanerState {
    requested: Cell<bool>,
    stopped: Cell<bool>,
    /// Its task is there.
    runs: Cell<bool>,
    wake: Event,
    ended: Event,
    policy: RefCell<Box<dyn VictimPolicy>>,
    /// Rounds in a row that gained too little.
    futile_rounds: Cell<u32>,
}

/// A round is futile if it cleans more than this many segments for each that it gains.
const FUTILE_COST: u64 = 32;
/// After this many futile rounds in a row, whoever waits for space is told that there is none. A round that only moves dead bytes together may let the next one gain.
const FUTILE_ROUNDS: u32 = 16;

impl CleanerState {
    pub(crate) fn new(policy: Box<dyn VictimPolicy>) -> CleanerState {
        CleanerState {
            requested: Cell::new(false),
            stopped: Cell::new(false),
            runs: Cell::new(false),
            wake: Event::new(),
            ended: Event::new(),
            policy: RefCell::new(policy),
            futile_rounds: Cell::new(0),
        }
    }

    /// True if cleaning has not gained anything for long: dead bytes are spread so thin that the
    /// parents of what must move fill more than the move frees.
    pub(crate) fn is_futile(&self) -> bool {
        self.futile_rounds.get() >= FUTILE_ROUNDS
    }

    /// Somebody waits for clean segments.
    pub(crate) fn request(&self) {
        self.requested.set(true);
        self.wake.notify();
    }

    /// The cleaner's task is about to begin.
    pub(crate) fn begin(&self) {
        self.runs.set(true);
    }

    /// Ends the cleaner's task, and waits until it writes nothing more.
    pub(crate) async fn stop(&self) {
        self.stopped.set(true);
        self.wake.notify();
        self.ended.wait_until(|| !self.runs.get()).await;
    }

    fn end(&self) {
        self.runs.set(false);
        self.ended.notify();
    }
}

/// The cleaner's task: runs until the volume is closed.
pub(crate) async fn run(volume: Rc<Volume<Lfs>>) {
    let (core, lfs) = (Rc::clone(&volume.core), &volume.layout);
    loop {
        lfs.cleaner
            .wake
            .wait_until(|| lfs.cleaner.requested.get() || lfs.cleaner.stopped.get())
            .await;
        if lfs.cleaner.stopped.get() || core.poisoned().is_some() {
            lfs.space.notify();
            lfs.cleaner.end();
            return;
        }
        lfs.cleaner.requested.set(false);
        let standing = || {
            let log = lfs.log.borrow();
            (u64::from(log.segments.clean_count()), log.stats.cleaned_segments)
        };
        let (clean, cleaned) = standing();
        if let Err(error) = lfs.clean_round(&core).await {
            core.poison(error);
        }
        let (clean_now, cleaned_now) = standing();
        let is_futile =
            clean_now.saturating_sub(clean) * FUTILE_COST < (cleaned_now - cleaned).max(1);
        let rounds = if is_futile { lfs.cleaner.futile_rounds.get() + 1 } else { 0 };
        lfs.cleaner.futile_rounds.set(rounds);
        // The round itself fills segments, and that asks for cleaning. Whoever still waits asks
        // again.
        lfs.cleaner.requested.set(false);
        lfs.space.notify();
    }
}

impl Lfs {
    /// Segments below which the cleaner works on its own.
    pub(crate) fn low_water(&self) -> u32 {
        Lfs::reserve_segments(&self.sb) + 4
    }

    /// Asks the cleaner to work if clean segments are getting few.
    pub(crate) fn consider_cleaning(&self) {
        let few = self.log.borrow().segments.clean_count() < self.low_water();
        if few && self.settings.background_cleaning {
            self.cleaner.request();
        }
    }

    /// Cleans segments until enough are clean or nothing more is gained.
    pub(crate) async fn clean_round(&self, core: &Rc<Core>) -> Result<()> {
        let goal = self.log.borrow().segments.clean_count().max(self.low_water()) + 2;
        // Segments that are empty already, and parents that wait, cost only a checkpoint.
        if self.empty_count() > 0 || self.short_of_room(core, 0) {
            self.checkpoint(core, false).await?;
        }
        let mut before = self.log.borrow().segments.clean_count();
        let mut batch = Batch::default();
        // Empty segments will be clean with the checkpoint at the end.
        while !self.cleaner.stopped.get()
            && self.log.borrow().segments.clean_count() + self.empty_count() < goal
        {
            let victim = self.choose_victim(core, &batch);
            let live = |victim| u64::from(self.log.borrow().segments.entry(victim).live_bytes);
            match victim.filter(|&victim| !self.short_of_room(core, live(victim))) {
                Some(victim) => {
                    self.clean_segment(core, victim, &mut batch).await?;
                    batch.tried.insert(victim);
                }
                None if batch.tried.is_empty() => break,
                None => {
                    self.checkpoint(core, false).await?;
                    batch = Batch::default();
                    let clean = self.log.borrow().segments.clean_count();
                    // Moving must gain room, or it would go round in circles.
                    if clean <= before {
                        break;
                    }
                    before = clean;
                }
            }
        }
        if !batch.tried.is_empty() || self.empty_count() > 0 {
            self.checkpoint(core, false).await?;
        }
        Ok(())
    }

    /// Segments that the next checkpoint makes clean.
    fn empty_count(&self) -> u32 {
        self.log.borrow().segments.empty().len() as u32
    }

    /// True if moving this many bytes could leave too little for the checkpoint that must follow.
    fn short_of_room(&self, core: &Core, live: u64) -> bool {
        let segment = u64::from(self.sb.segment_size);
        self.log_room() < self.log_debt(core) + 2 * live + segment
    }

    /// The best victim that was not tried yet.
    fn choose_victim(&self, core: &Core, batch: &Batch) -> Option<u32> {
        let now = core.rt.now();
        let log = self.log.borrow();
        let policy = self.cleaner.policy.borrow();
        // With the last reserve there is no room for patience: what gains most now goes first.
        let desperate = log.segments.clean_count() < Lfs::reserve_segments(&self.sb) / 2;
        let size = self.sb.segment_size;
        let mut best: Option<(f64, u32)> = None;
        for segment in 0..log.segments.count() {
            let entry = log.segments.entry(segment);
            let is_used = log.segments.state(segment) == State::Used && entry.live_bytes > 0;
            if !is_used || batch.tried.contains(&segment) {
                continue;
            }
            let age_ns = now - entry.written;
            let doomed = batch.doomed.get(&segment).copied().unwrap_or(0);
            let live_bytes = entry.live_bytes.saturating_sub(doomed);
            let candidate = Candidate { live_bytes, size, age_ns };
            let priority = match desperate {
                true => -f64::from(live_bytes),
                false => policy.priority(&candidate),
            };
            if best.is_none_or(|(most, _)| priority > most) {
                best = Some((priority, segment));
            }
        }
        best.map(|(_, segment)| segment)
    }

    /// Moves everything that is live out of a segment.
    async fn clean_segment(&self, core: &Rc<Core>, segment: u32, batch: &mut Batch) -> Result<()> {
        let live = self.log.borrow().segments.entry(segment).live_bytes;
        let found = self.scan_segment(core, segment).await?;
        let pieces = self.still_there(core, found);
        {
            let stats = &mut self.log.borrow_mut().stats;
            stats.cleaned_segments += 1;
            stats.cleaned_live_bytes += u64::from(live);
            stats.cleaner_read_bytes += u64::from(self.sb.segment_size);
        }
        let moved: Vec<(Rc<Inode>, Lbn)> = pieces
            .iter()
            .filter_map(|piece| match piece {
                Piece::Block { inode, frame, .. } => Some((Rc::clone(inode), frame.lbn())),
                _ => None,
            })
            .collect();
        let together: BTreeSet<(Ino, Lbn)> = (moved.iter())
            .filter(|(_, lbn)| *lbn < 0)
            .map(|(inode, lbn)| (inode.ino, *lbn))
            .collect();
        let stream = self.cleaner_stream();
        let group = self.build(core, pieces, stream, GROUP_CLEANER, Origin::Cleaner)?;
        for (inode, lbn) in moved {
            match self.sb.shape.parent(lbn) {
                // It moved in the same group, after its children.
                Parent::Indirect(up, _) if together.contains(&(inode.ino, up)) => {}
                _ => self.doom_parents(core, &inode, lbn, batch),
            }
        }
        self.deferred_bytes.set(core.cache.dirty_bytes().max(self.deferred_bytes.get()));
        if let Some(group) = &group {
            self.log.borrow_mut().stats.moved_bytes += group.bytes;
        }
        self.send(core, group, None);
        Ok(())
    }

    /// What is above a block that moved waits for the checkpoint, and dies where it is.
    fn doom_parents(&self, core: &Core, inode: &Rc<Inode>, lbn: Lbn, batch: &mut Batch) {
        let mut doom = |byte: u64, len: u32| {
            if let Some(segment) = self.sb.segment_of(byte) {
                *batch.doomed.entry(segment).or_default() += len;
            }
        };
        let mut at = lbn;
        while let Parent::Indirect(up, _) = self.sb.shape.parent(at) {
            if let Some(frame) = core.cache.peek(&inode.frames, up)
                && !frame.is_dirty()
                && let Some(ptr) = core.resident_ptr(inode, up).filter(Ptr::is_on_disk)
            {
                doom(self.sb.shape.byte_of(ptr.addr), ptr.len);
            }
            at = up;
        }
        let waits = self.log.borrow().deferred.contains_key(&inode.ino);
        if !inode.is_dirty() && !waits {
            let entry = inode.anchor.borrow().as_ref().map(|a| self.entry_in(a, inode.ino));
            if let Some(ImapEntry::Used { at, .. }) = entry
                && at != 0
            {
                doom(at * u64::from(self.sb.shape.inode_size), self.sb.shape.inode_size);
            }
        }
        match self.sb.shape.parent(lbn) {
            Parent::Inode(_) => core.mark_inode_dirty(inode),
            Parent::Indirect(..) => {
                dirty_indirect(core, inode, lbn);
                self.log.borrow_mut().deferred.insert(inode.ino, Rc::clone(inode));
            }
        }
    }

    /// The stream that the cleaner writes to: its own where the format has more than one.
    fn cleaner_stream(&self) -> usize {
        self.log.borrow().heads.len() - 1
    }

    /// Of what was found live, what still is: looked at in the same step as the write is built.
    /// Children come before their parents. An inode whose own pointers change is left to the next
    /// log write, which must write it anyway.
    fn still_there(&self, core: &Core, found: Vec<scan::Found>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut inodes = Vec::new();
        let per_block = (self.sb.shape.block_size / self.sb.shape.inode_size) as usize;
        let mut changed = BTreeSet::new();
        for item in found {
            match item {
                scan::Found::Block { inode, frame, addr, len } => {
                    let ptr = core.resident_ptr(&inode, frame.lbn());
                    let there = ptr.is_some_and(|p| p.addr == addr && p.len == len);
                    if there && frame.is_attached() && frame.is_valid() && !frame.is_dirty() {
                        if matches!(self.sb.shape.parent(frame.lbn()), Parent::Inode(_)) {
                            changed.insert(inode.ino);
                        }
                        pieces.push(Piece::Block { inode, frame, len });
                    }
                }
                scan::Found::Inode { raw, at } => {
                    let entry = self.entry_in(&raw.anchor, raw.ino);
                    let there = matches!(entry, ImapEntry::Used { at: now, .. } if now == at);
                    let dirty = core.cached_inode(raw.ino).is_some_and(|i| i.is_dirty());
                    if there && !dirty {
                        inodes.push(raw);
                    }
                }
            }
        }
        pieces.sort_by_key(|piece| match piece {
            Piece::Block { frame, .. } if frame.lbn() < 0 => {
                self.sb.shape.indirect(frame.lbn()).0 + 1
            }
            _ => 0,
        });
        inodes.retain(|raw: &RawInode| !changed.contains(&raw.ino));
        while !inodes.is_empty() {
            let rest = inodes.split_off(inodes.len().min(per_block));
            pieces.push(Piece::RawInodes(std::mem::replace(&mut inodes, rest)));
        }
        pieces
    }
}
