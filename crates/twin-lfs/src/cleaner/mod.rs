//! The cleaner: moves what is live out of segments, so that they can be filled again.
//!
//! Contract: a policy ranks segments, this mechanism moves blocks. What it moves is written as
//! groups of its own, which change nothing but places; parents that get new pointers are written
//! by the next checkpoint, and with that checkpoint the emptied segments become clean. It takes
//! no lock that an operation takes.

mod policy;
mod scan;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use twin_disk::Origin;
use twin_fs::shape::Parent;
use twin_fs::{Core, Form, Holder, Inode, Result, Volume};
use twin_rt::Event;

use crate::build::{Piece, dirty_indirect};
use crate::format::{GROUP_CLEANER, ImapEntry};
use crate::lfs::Lfs;
use crate::segments::State;

pub use policy::{Candidate, VictimPolicy, by_name, registry};
pub(crate) use scan::summary_at;

/// What the cleaner's task and those who wait for it share.
pub(crate) struct CleanerState {
    requested: Cell<bool>,
    stopped: Cell<bool>,
    /// Its task is there.
    runs: Cell<bool>,
    rounds: Cell<u64>,
    wake: Event,
    ended: Event,
    policy: RefCell<Box<dyn VictimPolicy>>,
}

impl CleanerState {
    pub(crate) fn new(policy: Box<dyn VictimPolicy>) -> CleanerState {
        CleanerState {
            requested: Cell::new(false),
            stopped: Cell::new(false),
            runs: Cell::new(false),
            rounds: Cell::new(0),
            wake: Event::new(),
            ended: Event::new(),
            policy: RefCell::new(policy),
        }
    }

    /// Somebody waits for clean segments.
    pub(crate) fn request(&self) {
        self.requested.set(true);
        self.wake.notify();
    }

    /// Rounds that ended.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.get()
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
        if let Err(error) = lfs.clean_round(&core).await {
            core.poison(error);
        }
        lfs.cleaner.rounds.set(lfs.cleaner.rounds.get() + 1);
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
        // Segments that are empty already, and what is dirty, cost only a checkpoint. Where there is
        // neither, a checkpoint would use up room and give none back.
        let waits = core.cache.dirty_bytes() > 0 || core.dirty_inode_count() > 0;
        if self.empty_count() > 0 || (waits && self.short_of_room(core, 0)) {
            self.checkpoint(core, false).await?;
        }
        let mut before = self.log.borrow().segments.clean_count();
        // Victims since the last checkpoint. One that could not be emptied holds blocks that are
        // dirty in memory: the checkpoint moves them, cleaning it again would not.
        let mut tried = BTreeSet::new();
        // Empty segments will be clean with the checkpoint at the end.
        while !self.cleaner.stopped.get()
            && self.log.borrow().segments.clean_count() + self.empty_count() < goal
        {
            let victim = self.choose_victim(core, &tried);
            let live = |victim| u64::from(self.log.borrow().segments.entry(victim).live_bytes);
            match victim.filter(|&victim| !self.short_of_room(core, live(victim))) {
                Some(victim) => {
                    self.clean_segment(core, victim).await?;
                    tried.insert(victim);
                }
                None if tried.is_empty() => break,
                None => {
                    self.checkpoint(core, false).await?;
                    tried.clear();
                    let clean = self.log.borrow().segments.clean_count();
                    // Moving must gain room, or it would go round in circles.
                    if clean <= before {
                        break;
                    }
                    before = clean;
                }
            }
        }
        if !tried.is_empty() || self.empty_count() > 0 {
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
    fn choose_victim(&self, core: &Core, tried: &BTreeSet<u32>) -> Option<u32> {
        let now = core.rt.now();
        let log = self.log.borrow();
        let policy = self.cleaner.policy.borrow();
        let size = self.sb.segment_size;
        let mut best: Option<(f64, u32)> = None;
        for segment in 0..log.segments.count() {
            let entry = log.segments.entry(segment);
            let is_used = log.segments.state(segment) == State::Used && entry.live_bytes > 0;
            if !is_used || tried.contains(&segment) {
                continue;
            }
            let age_ns = now - entry.written;
            let candidate = Candidate { live_bytes: entry.live_bytes, size, age_ns };
            let priority = policy.priority(&candidate);
            if best.is_none_or(|(most, _)| priority > most) {
                best = Some((priority, segment));
            }
        }
        best.map(|(_, segment)| segment)
    }

    /// Moves everything that is live out of a segment.
    async fn clean_segment(&self, core: &Rc<Core>, segment: u32) -> Result<()> {
        let live = self.log.borrow().segments.entry(segment).live_bytes;
        let found = self.scan_segment(core, segment).await?;
        let mut pieces = self.still_there(core, found);
        {
            let stats = &mut self.log.borrow_mut().stats;
            stats.cleaned_segments += 1;
            stats.cleaned_live_bytes += u64::from(live);
            stats.cleaner_read_bytes += u64::from(self.sb.segment_size);
        }
        let moved = self.settle_holders(core, &mut pieces);
        let stream = self.cleaner_stream();
        let group = self.build(core, pieces, stream, GROUP_CLEANER, Origin::Cleaner)?;
        let dirty = core.cache.dirty_bytes();
        for (inode, lbn, holder) in moved {
            match (holder, self.sb.shape.parent(lbn)) {
                (Some(form), _) => {
                    if let Some(ptr) = core.resident_ptr(&inode, lbn) {
                        self.forward(core, inode.ino, lbn, form, ptr);
                    }
                }
                (None, Parent::Inode(_)) => core.mark_inode_dirty(&inode),
                (None, Parent::Indirect(..)) => {
                    dirty_indirect(core, &inode, lbn);
                    self.log.borrow_mut().deferred.insert(inode.ino, inode);
                }
            }
        }
        // The holders that became dirty wait for the next checkpoint.
        let deferred = core.cache.dirty_bytes() - dirty;
        self.deferred_bytes.set(self.deferred_bytes.get() + deferred);
        if let Some(group) = &group {
            self.log.borrow_mut().stats.moved_bytes += group.bytes;
        }
        self.send(core, group, None);
        Ok(())
    }

    /// The stream that the cleaner writes to: its own where the format has more than one.
    fn cleaner_stream(&self) -> usize {
        self.log.borrow().heads.len() - 1
    }

    /// Of what was found live, what still is: looked at in the same step as the write is built.
    fn still_there(&self, core: &Core, found: Vec<scan::Found>) -> Vec<Piece> {
        let mut blocks = Vec::new();
        let (mut inodes, mut raws) = (Vec::new(), Vec::new());
        for item in found {
            match item {
                scan::Found::Block { inode, frame, addr, len } => {
                    let ptr = core.resident_ptr(&inode, frame.lbn());
                    let there = ptr.is_some_and(|p| p.addr == addr && p.len == len);
                    if there && frame.is_attached() && frame.is_valid() && !frame.is_dirty() {
                        blocks.push((inode, frame, len));
                    }
                }
                scan::Found::Inode { raw, at, .. } => {
                    let entry = self.entry_in(&raw.anchor, raw.ino);
                    if !matches!(entry, ImapEntry::Used { at: now, .. } if now == at) {
                        continue;
                    }
                    // What is in memory is up to date, the raw form need not be.
                    match core.cached_inode(raw.ino) {
                        Some(inode) if inode.is_dirty() => {}
                        Some(inode) => inodes.push(inode),
                        None if core.forwards.has(raw.ino, Holder::Inode) => {}
                        None => raws.push(raw),
                    }
                }
            }
        }
        // A holder is written behind what it points to, for it takes places and checksums along.
        blocks.sort_by_key(|(_, frame, _)| match frame.lbn() {
            lbn if lbn < 0 => self.sb.shape.indirect(lbn).0,
            _ => 0,
        });
        let block = |(inode, frame, len)| Piece::Block { inode, frame, len, holder: None };
        let mut pieces: Vec<Piece> = blocks.into_iter().map(block).collect();
        let per_block = (self.sb.shape.block_size / self.sb.shape.inode_size) as usize;
        pieces.extend(in_chunks(inodes, per_block).map(Piece::Inodes));
        pieces.extend(in_chunks(raws, per_block).map(Piece::RawInodes));
        pieces
    }

    /// Says of each block that is about to move what becomes of its holder: nothing, if it moves
    /// in the same log write; it stays as it is and the block is forwarded, if writing all such
    /// holders would be a burden; or (`None` in the result) it becomes dirty.
    fn settle_holders(&self, core: &Core, pieces: &mut [Piece]) -> Vec<Moved> {
        let mut moving = BTreeSet::new();
        for piece in pieces.iter() {
            match piece {
                Piece::Block { inode, frame, .. } if frame.lbn() < 0 => {
                    moving.insert((inode.ino, Holder::Indirect(frame.lbn())));
                }
                Piece::Inodes(list) => moving.extend(list.iter().map(|i| (i.ino, Holder::Inode))),
                _ => {}
            }
        }
        let shape = &self.sb.shape;
        let (mut stay, mut burden, mut all) = (BTreeSet::new(), 0u64, 0u64);
        let mut moved = Vec::new();
        for (nth, piece) in pieces.iter().enumerate() {
            let Piece::Block { inode, frame, len, .. } = piece else { continue };
            all += u64::from(*len);
            let holder = Holder::of(shape, frame.lbn()).0;
            if moving.contains(&(inode.ino, holder)) {
                continue;
            }
            let form = self.clean_holder(core, inode, frame.lbn());
            if form.is_some() && stay.insert((inode.ino, holder)) {
                burden += u64::from(match holder {
                    Holder::Inode => shape.inode_size,
                    Holder::Indirect(_) => shape.block_size,
                });
            }
            moved.push((nth, (Rc::clone(inode), frame.lbn(), form)));
        }
        let forward = burden * BURDEN_SHARE > all && self.may_forward(core, moved.len());
        for (nth, (_, _, form)) in &mut moved {
            match &mut pieces[*nth] {
                Piece::Block { holder, .. } if forward => *holder = *form,
                _ => *form = None,
            }
        }
        moved.into_iter().map(|(_, moved)| moved).collect()
    }
}

/// A block that moves, and the form in which its holder stays, if it does.
type Moved = (Rc<Inode>, i64, Option<Form>);

/// Blocks are forwarded if writing their holders would add more than one part in so many.
const BURDEN_SHARE: u64 = 16;

/// The list in pieces of `len`.
fn in_chunks<T>(list: Vec<T>, len: usize) -> impl Iterator<Item = Vec<T>> {
    let mut rest = list.into_iter();
    std::iter::from_fn(move || {
        let chunk: Vec<T> = rest.by_ref().take(len).collect();
        (!chunk.is_empty()).then_some(chunk)
    })
}
