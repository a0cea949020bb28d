//! The cleaner: moves what is live out of segments, so that they can be filled again.
//!
//! Contract: a policy ranks segments, this mechanism moves blocks. What it moves is written as
//! groups of its own, which change nothing but places; parents that get new pointers are written
//! by the next checkpoint, and with that checkpoint the emptied segments become clean. It takes
//! no lock that an operation takes. Policies are those of `twin-clean`, told what they need by
//! [`placing`](crate::placing); when the cleaner works is up to [`task`].

mod quick;
mod scan;
mod task;

use std::collections::BTreeSet;
use std::rc::Rc;

use twin_disk::Origin;
use twin_fs::shape::Parent;
use twin_fs::{Core, Inode, Result};

use crate::build::{Piece, dirty_indirect};
use crate::format::Form;
use crate::format::{GROUP_CLEANER, ImapEntry};
use crate::forwards::Holder;
use crate::lfs::Lfs;
use crate::segment_usage::VictimChoice;
use crate::sizing;
use scan::{Found, Live, Victim};

pub(crate) use task::{CleanerState, Watch, run};

/// How fast the cleaner goes about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// With large requests, not waiting for writes: somebody waits, or will soon; or the device is
    /// quick.
    Whole,
    /// With requests of so many bytes, one under way. `yields`: it stops when somebody asks for
    /// clean segments.
    Steps { bytes: u64, yields: bool },
}

/// Which segments come into question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Choice {
    /// Those with this share of garbage at least.
    Worth(f64),
    /// Somebody waits for room: those that gain some; and, if the last round gained nothing, the
    /// emptiest, whatever the policy.
    InNeed,
}

/// Segments' worth of garbage that are gathered before a checkpoint lets somebody who waits go on.
const ENOUGH_FOR_ONE: u64 = 2;
/// What a segment that is cleaned in need has to gain at least: summaries, and what points to what
/// moves, take something.
const GAINS: f64 = 1.0 / 16.0;

impl Lfs {
    /// Cleans segments until enough are clean or nothing more is gained.
    pub(crate) async fn clean_round(&self, core: &Rc<Core>) -> Result<()> {
        let goal =
            self.usage.clean_count().max(self.low_water()) + sizing::round_segments(&self.sb);
        // Segments that are empty already, and what is dirty, cost only a checkpoint. Where there is
        // neither, a checkpoint would use up room and give none back.
        let waits = core.cache.dirty_bytes() > 0 || core.dirty_inode_count() > 0;
        if self.empty_count() > 0 || (waits && self.short_of_room(core, 0)) {
            self.checkpoint(core, false).await?;
        }
        let mut before = self.usage.clean_count();
        // Victims since the last checkpoint. One that could not be emptied holds blocks that are
        // dirty in memory: the checkpoint moves them, cleaning it again would not.
        let mut tried = BTreeSet::new();
        let mut gained = 0;
        let mut ahead = None;
        // Empty segments will be clean with the checkpoint at the end.
        while !self.cleaner.is_stopped() && self.usage.clean_count() + self.empty_count() < goal {
            let first = self.still_wanted(core, ahead.take());
            let victims = match &first {
                Some(victim) => vec![victim.segment],
                None => self.choose_victims(core, &tried, Choice::InNeed),
            };
            if !victims.is_empty() {
                let garbage = self.garbage_in(&victims);
                gained += garbage;
                let enough = gained >= ENOUGH_FOR_ONE * u64::from(self.sb.segment_size);
                let pace = self.pace_in_need(core);
                if pace == Pace::Whole && !(enough && self.presses(core)) {
                    ahead = self.read_ahead(core, &tried);
                }
                self.clean_segments(core, &victims, first, pace).await?;
                self.give_credit(core, garbage);
                tried.extend(victims);
                if enough && self.presses(core) {
                    self.forget(ahead.take());
                    self.checkpoint(core, false).await?;
                    gained = 0;
                }
            } else if tried.is_empty() {
                break;
            } else {
                self.checkpoint(core, false).await?;
                self.let_go(std::mem::take(&mut tried));
                let clean = self.usage.clean_count();
                // Moving must gain room, or it would go round in circles.
                if clean <= before {
                    break;
                }
                before = clean;
            }
        }
        self.forget(ahead);
        if !tried.is_empty() || self.empty_count() > 0 {
            self.checkpoint(core, false).await?;
        }
        self.let_go(tried);
        Ok(())
    }

    /// True if somebody waits for a checkpoint, or will very soon.
    fn presses(&self, core: &Core) -> bool {
        self.is_awaited() || self.is_nearly_out(core)
    }

    /// In steps while there is time, unless the device is quick.
    fn pace_in_need(&self, core: &Core) -> Pace {
        let hurries = self.is_awaited() || self.is_short(core);
        match hurries || self.cleaner.quick.is_known() {
            true => Pace::Whole,
            false => self.steps(false),
        }
    }

    /// Begins to read the victim that comes next, so that the device works while the one before it
    /// is looked at.
    fn read_ahead(&self, core: &Core, tried: &BTreeSet<u32>) -> Option<Victim> {
        // What is cleaned together is chosen together.
        if self.usage.victims_at_once() > 1 {
            return None;
        }
        let victims = self.choose_victims(core, tried, Choice::InNeed);
        victims.first().map(|&segment| self.begin_reading(core, segment, Pace::Whole))
    }

    /// The victim that was read ahead, unless it emptied or there is too little room to move it.
    fn still_wanted(&self, core: &Core, ahead: Option<Victim>) -> Option<Victim> {
        let ahead = ahead?;
        let live = u64::from(self.usage.live_in(ahead.segment));
        if live == 0 || self.short_of_room(core, live) {
            self.forget(Some(ahead));
            return None;
        }
        Some(ahead)
    }

    /// What was read ahead is not cleaned.
    fn forget(&self, ahead: Option<Victim>) {
        self.let_go(ahead.map(|victim| victim.segment));
    }

    /// Bytes that are not live in these segments.
    fn garbage_in(&self, segments: &[u32]) -> u64 {
        let live = |&segment| u64::from(self.usage.live_in(segment));
        let all = segments.len() as u64 * u64::from(self.sb.segment_size);
        all.saturating_sub(segments.iter().map(live).sum())
    }

    /// True if an operation waits for room.
    fn is_awaited(&self) -> bool {
        self.admission.any_waits()
    }

    /// The pace that leaves the device to others.
    fn steps(&self, yields: bool) -> Pace {
        Pace::Steps { bytes: u64::from(self.settings.clean_step_bytes), yields }
    }

    /// Segments that the next checkpoint makes clean.
    pub(crate) fn empty_count(&self) -> u32 {
        self.usage.empty_count()
    }

    /// True if moving this many bytes could leave too little for the checkpoint that must follow.
    fn short_of_room(&self, core: &Core, live: u64) -> bool {
        let segment = u64::from(self.sb.segment_size);
        self.usage.log_room() < self.log_debt(core) + 2 * live + segment
    }

    /// The best victims of those that were not tried yet, as many as the policy cleans together.
    /// They count as being cleaned from now on. None if moving what is live in them could leave too
    /// little room.
    fn choose_victims(&self, core: &Core, tried: &BTreeSet<u32>, choice: Choice) -> Vec<u32> {
        let victims = self.best_victims(tried, choice);
        let live = |&victim| u64::from(self.usage.live_in(victim));
        if self.short_of_room(core, victims.iter().map(live).sum()) {
            self.let_go(victims);
            return Vec::new();
        }
        victims
    }

    fn best_victims(&self, tried: &BTreeSet<u32>, choice: Choice) -> Vec<u32> {
        // A segment is never quite full: summaries, and an end that nothing fits.
        let empty = 2.0 * f64::from(self.sb.shape.block_size) / f64::from(self.sb.segment_size);
        let choice = match choice {
            Choice::Worth(share) => VictimChoice::Ranked(share + empty),
            Choice::InNeed if self.cleaner.was_barren() => VictimChoice::Emptiest,
            Choice::InNeed => VictimChoice::Ranked(GAINS + empty),
        };
        self.usage.take_victims(tried, choice)
    }

    /// Moves everything that is live out of segments. False if somebody who waits for room made it
    /// stop before the end. `first`: the first of them is being read.
    async fn clean_segments(
        &self,
        core: &Rc<Core>,
        victims: &[u32],
        mut first: Option<Victim>,
        pace: Pace,
    ) -> Result<bool> {
        let mut all = Live::default();
        for &segment in victims {
            let live = self.usage.live_in(segment);
            self.usage.collected(segment);
            let victim = first.take().unwrap_or_else(|| self.begin_reading(core, segment, pace));
            self.scan_segment(core, victim, &mut all).await?;
            core.rt.log(twin_rt::Category::Cleaner, "victim", || {
                [("number", segment.into()), ("live_bytes", live.into())]
            });
            self.count(|stats| {
                stats.cleaned_segments += 1;
                stats.cleaned_live_bytes += u64::from(live);
                stats.cleaner_read_bytes += u64::from(self.sb.segment_size);
            });
        }
        let Live { mut found, parents: _parents } = all;
        if victims.len() > 1 {
            found.sort_by_key(|found| self.usage.age_key(found.at(&self.sb)));
        }
        // A holder is written behind what it points to, for it takes places and checksums along.
        found.sort_by_key(|found| found.level(&self.sb));
        let mut rest = found.into_iter().peekable();
        while rest.peek().is_some() {
            let (mut step, mut bytes) = (Vec::new(), 0);
            while let Some(found) = rest.next_if(|_| match pace {
                Pace::Whole => true,
                Pace::Steps { bytes: most, .. } => bytes < most,
            }) {
                bytes += u64::from(found.len(&self.sb));
                step.push(found);
            }
            self.move_pieces(core, step)?;
            if let Pace::Steps { yields, .. } = pace {
                self.wait_written(core, self.progress.last()).await?;
                // What was found may be there no longer: a victim that emptied is filled anew.
                if (yields && self.cleaner.is_wanted()) || !self.usage.are_being_cleaned(victims) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Writes what is still live of what was found to new places.
    fn move_pieces(&self, core: &Rc<Core>, found: Vec<Found>) -> Result<()> {
        let mut pieces = self.still_there(core, found);
        let moved = self.settle_holders(core, &mut pieces);
        let group = self.build(core, pieces, GROUP_CLEANER, Origin::Cleaner)?;
        let dirty = core.cache.dirty_bytes();
        for (inode, lbn, holder) in moved {
            match (holder, self.sb.shape.parent(lbn)) {
                (Some(form), _) => {
                    if let Some(ptr) = core.resident_ptr(&inode, lbn) {
                        self.forward(inode.ino, lbn, form, ptr);
                    }
                }
                (None, Parent::Inode(_)) => core.mark_inode_dirty(&inode),
                (None, Parent::Indirect(..)) => {
                    dirty_indirect(core, &inode, lbn);
                    self.checkpoints.defer(&inode);
                }
            }
        }
        // The holders that became dirty wait for the next checkpoint.
        let deferred = core.cache.dirty_bytes() - dirty;
        self.checkpoints.set_deferred_bytes(self.checkpoints.deferred_bytes() + deferred);
        if let Some(group) = &group {
            self.count(|stats| stats.moved_bytes += group.bytes);
        }
        self.send(core, group, None);
        Ok(())
    }

    /// Of what was found live, what still is: looked at in the same step as the write is built.
    fn still_there(&self, core: &Core, found: Vec<Found>) -> Vec<Piece> {
        // Only what was held against its checksum may be written with it: recovery asks again.
        let checked = core.settings.check_data && self.sb.shape.pointer.has_checksum();
        let mut blocks = Vec::new();
        let (mut inodes, mut raws) = (Vec::new(), Vec::new());
        for item in found {
            match item {
                Found::Block { inode, frame, addr, len, .. } => {
                    let ptr = core.resident_ptr(&inode, frame.lbn());
                    let there = ptr.is_some_and(|p| p.addr == addr && p.len == len);
                    if there && frame.is_attached() && frame.is_valid() && !frame.is_dirty() {
                        // Indirect blocks change when what they point to moves with them.
                        let crc = ptr.filter(|_| checked && frame.lbn() >= 0).map(|p| p.crc);
                        blocks.push((inode, frame, len, crc));
                    }
                }
                Found::Inode { raw, at, .. } => {
                    let entry = self.entry_in(&raw.anchor, raw.ino);
                    if !matches!(entry, ImapEntry::Used { at: now, .. } if now == at) {
                        continue;
                    }
                    // What is in memory is up to date, the raw form need not be.
                    match core.cached_inode(raw.ino) {
                        Some(inode) if inode.is_dirty() => {}
                        Some(inode) => inodes.push(inode),
                        None if self.forwards.has(raw.ino, Holder::Inode) => {}
                        None => raws.push(raw),
                    }
                }
            }
        }
        let block =
            |(inode, frame, len, crc)| Piece::Block { inode, frame, len, holder: None, crc };
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
        let forward = burden * BURDEN_SHARE > all && self.forwards.has_room_for(core, moved.len());
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
