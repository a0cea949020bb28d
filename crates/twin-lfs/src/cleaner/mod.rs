//! The cleaner: moves live blocks out of segments, so that these can be filled again.
//!
//! Contract: a policy ranks segments, and this mechanism moves blocks. The cleaner writes log
//! writes of its own, which change nothing but places. The next checkpoint writes the parents that
//! got new pointers, and makes the emptied segments clean. The cleaner takes no lock that an
//! operation takes. The policies are those of `twin-clean`; [`segment_usage`](crate::segment_usage)
//! tells them what they need, and [`task`] decides when the cleaner works.

mod quick;
mod scan;
mod state;
mod task;
mod wanted;

use std::collections::BTreeSet;
use std::rc::Rc;

use twin_disk::Origin;
use twin_fs::geometry::Parent;
use twin_fs::{CleanedCounts, CleanerCounts, Core, Inode, Result};

use crate::build::dirty_indirect;
use crate::format::HolderVersion;
use crate::format::{ImapEntry, LOG_WRITE_CLEANER};
use crate::forwards::Holder;
use crate::lfs::Lfs;
use crate::log_items::LogItem;
use crate::segment_usage::VictimChoice;
use crate::sizing;
use scan::{LiveItem, LiveItems, Victim};

pub(crate) use state::{CleanerState, Watch};
pub(crate) use task::run;

/// How fast the cleaner goes about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// With large requests and without waiting for writes, because an operation waits for room or
    /// will soon, or because the device is quick.
    Whole,
    /// With requests of this many bytes, one at a time. With `yields` the cleaner stops when an
    /// operation asks for clean segments.
    Steps { bytes: u64, yields: bool },
}

/// Why segments are cleaned, for the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The policy of when to clean chose the moment; no operation waits.
    Background,
    /// Operations wait for room, or will soon.
    Demand,
    /// Somebody asked for it.
    ByHand,
}

impl Reason {
    /// Where it is counted.
    fn counts(self, of: &mut CleanerCounts) -> &mut CleanedCounts {
        match self {
            Reason::Background => &mut of.background,
            Reason::Demand => &mut of.demand,
            Reason::ByHand => &mut of.by_hand,
        }
    }
}

/// Which segments may be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Choice {
    /// Those with at least this share of garbage.
    Worth(f64),
    /// An operation waits for room: those that gain some. If the last round gained nothing, the
    /// emptiest is taken, whatever the policy says.
    InNeed,
}

/// Garbage, in segments, that a round gathers before a checkpoint lets a waiting operation
/// continue.
const ENOUGH_FOR_ONE: u64 = 2;
/// The least gain of a segment that is cleaned while an operation waits: moving its blocks also
/// costs summaries and new pointers.
const GAINS: f64 = 1.0 / 16.0;

impl Lfs {
    /// Cleans segments until enough are clean or nothing more is gained.
    pub(crate) async fn clean_round(&self, core: &Rc<Core>) -> Result<()> {
        let goal =
            self.usage.clean_count().max(self.low_water()) + sizing::round_segments(&self.sb);
        // If segments are empty already, or blocks are dirty, a checkpoint alone gains room.
        // Otherwise a checkpoint would only use some.
        let waits = core.cache.dirty_bytes() > 0 || core.dirty_inode_count() > 0;
        if self.empty_count() > 0 || (waits && self.is_short_of_space(core, 0)) {
            self.checkpoint(core, false).await?;
        }
        let mut before = self.usage.clean_count();
        // The victims since the last checkpoint are not chosen again. One that could not be emptied
        // holds blocks that are dirty in memory; the checkpoint moves those, and cleaning again
        // would not.
        let mut tried = BTreeSet::new();
        let mut gained = 0;
        let mut ahead = None;
        // Empty segments will be clean with the checkpoint at the end.
        while !self.cleaner.is_stopped() && self.usage.clean_count() + self.empty_count() < goal {
            let first = self.keep_wanted(core, ahead.take());
            let victims = match &first {
                Some(victim) => vec![victim.segment],
                None => self.choose_victims(core, &tried, Choice::InNeed),
            };
            if !victims.is_empty() {
                let garbage = self.garbage_in(&victims);
                gained += garbage;
                let enough = gained >= ENOUGH_FOR_ONE * u64::from(self.sb.segment_size);
                let pace = self.pace_in_need(core);
                if pace == Pace::Whole && !(enough && self.is_urgent(core)) {
                    ahead = self.read_ahead(core, &tried);
                }
                self.clean_segments(core, &victims, first, pace, Reason::Demand).await?;
                self.grant_allowance(core, garbage);
                tried.extend(victims);
                if enough && self.is_urgent(core) {
                    self.forget(ahead.take());
                    self.checkpoint(core, false).await?;
                    gained = 0;
                }
            } else if tried.is_empty() {
                break;
            } else {
                self.checkpoint(core, false).await?;
                self.release_victims(std::mem::take(&mut tried));
                let clean = self.usage.clean_count();
                // Without a gain the cleaner would move the same blocks for ever.
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
        self.release_victims(tried);
        Ok(())
    }

    /// True if an operation waits for a checkpoint, or will very soon.
    fn is_urgent(&self, core: &Core) -> bool {
        self.is_awaited() || self.is_nearly_out(core)
    }

    /// The pace: in steps while there is time, unless the device is quick.
    fn pace_in_need(&self, core: &Core) -> Pace {
        let hurries = self.is_awaited() || self.is_short(core);
        match hurries || self.cleaner.quick.is_known() {
            true => Pace::Whole,
            false => self.steps(false),
        }
    }

    /// Begins to read the next victim, so that the device works while the present one is scanned.
    fn read_ahead(&self, core: &Core, tried: &BTreeSet<u32>) -> Option<Victim> {
        // Victims that are cleaned together must be chosen together.
        if self.usage.victims_at_once() > 1 {
            return None;
        }
        let victims = self.choose_victims(core, tried, Choice::InNeed);
        victims.first().map(|&segment| self.begin_reading(core, segment, Pace::Whole))
    }

    /// The victim that was read ahead, unless it has become empty or there is too little room to
    /// move its blocks.
    fn keep_wanted(&self, core: &Core, ahead: Option<Victim>) -> Option<Victim> {
        let ahead = ahead?;
        let live = u64::from(self.usage.live_in(ahead.segment));
        if live == 0 || self.is_short_of_space(core, live) {
            self.forget(Some(ahead));
            return None;
        }
        Some(ahead)
    }

    /// Gives up the victim that was read ahead.
    fn forget(&self, ahead: Option<Victim>) {
        self.release_victims(ahead.map(|victim| victim.segment));
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
    fn is_short_of_space(&self, core: &Core, live: u64) -> bool {
        let segment = u64::from(self.sb.segment_size);
        self.usage.log_room() < self.pending_log_bytes(core) + 2 * live + segment
    }

    /// The best victims of those that were not tried yet, as many as the policy cleans together, or as moving
    /// what is live in them leaves room for, if those are fewer. They count as being cleaned from now on.
    fn choose_victims(&self, core: &Core, tried: &BTreeSet<u32>, choice: Choice) -> Vec<u32> {
        let mut victims = self.best_victims(tried, choice);
        let live = |victim: &u32| u64::from(self.usage.live_in(*victim));
        let mut live_bytes: u64 = victims.iter().map(live).sum();
        while self.is_short_of_space(core, live_bytes)
            && let Some(worst) = victims.pop()
        {
            live_bytes -= live(&worst);
            self.release_victims([worst]);
        }
        victims
    }

    fn best_victims(&self, tried: &BTreeSet<u32>, choice: Choice) -> Vec<u32> {
        // A segment is never quite full: summaries, and an end that nothing fits.
        let empty = 2.0 * f64::from(self.sb.geometry.block_size) / f64::from(self.sb.segment_size);
        let choice = match choice {
            Choice::Worth(share) => VictimChoice::Ranked(share + empty),
            Choice::InNeed if self.cleaner.was_fruitless() => VictimChoice::Emptiest,
            Choice::InNeed => VictimChoice::Ranked(GAINS + empty),
        };
        self.usage.take_victims(tried, choice)
    }

    /// Moves all live blocks out of segments. Gives false if it stopped early because an operation
    /// waits for room. `first` is the first of them if it is being read already.
    async fn clean_segments(
        &self,
        core: &Rc<Core>,
        victims: &[u32],
        mut first: Option<Victim>,
        pace: Pace,
        reason: Reason,
    ) -> Result<bool> {
        let mut all = LiveItems::default();
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
                reason.counts(&mut stats.cleaner).segments += 1;
                stats.cleaned_live_bytes += u64::from(live);
            });
        }
        let LiveItems { mut found, parents: _parents } = all;
        if victims.len() > 1 {
            found.sort_by_key(|found| {
                let (ino, lbn) = found.in_file();
                self.usage.move_key(found.at(&self.sb), ino, lbn)
            });
        }
        // A holder is written after the blocks that it points to, because it contains their places
        // and checksums.
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
            self.move_items(core, step, reason).await?;
            if let Pace::Steps { yields, .. } = pace {
                self.wait_written(core, self.progress.last()).await?;
                // The blocks found may be gone: a victim that has become empty may be filled again.
                if (yields && self.cleaner.is_wanted()) || !self.usage.are_being_cleaned(victims) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Writes those of the found blocks that are still live to new places.
    async fn move_items(
        &self,
        core: &Rc<Core>,
        found: Vec<LiveItem>,
        reason: Reason,
    ) -> Result<()> {
        let mut items = self.keep_live(core, found);
        let moved = self.decide_forwarding(core, &mut items);
        let log_write = self.build(core, items, LOG_WRITE_CLEANER, Origin::Cleaner)?;
        let dirty = core.cache.dirty_bytes();
        for (inode, lbn, holder) in moved {
            match (holder, self.sb.geometry.parent(lbn)) {
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
        if let Some(log_write) = &log_write {
            self.count(|stats| {
                stats.moved_bytes += log_write.bytes;
                reason.counts(&mut stats.cleaner).moved_bytes += log_write.bytes;
            });
        }
        self.copy(core, &log_write).await;
        self.send(core, log_write, None);
        Ok(())
    }

    /// Those of the found blocks that are still live. This is checked in the step that builds the
    /// log write, so that nothing can change in between.
    fn keep_live(&self, core: &Core, found: Vec<LiveItem>) -> Vec<LogItem> {
        // A checksum may be kept only if the content was compared with it, because recovery
        // compares them again.
        let checked = core.settings.check_data && self.sb.geometry.has_checksums();
        let mut blocks = Vec::new();
        let (mut inodes, mut raws) = (Vec::new(), Vec::new());
        for live in found {
            match live {
                LiveItem::Block { inode, frame, addr, len, .. } => {
                    let ptr = core.resident_ptr(&inode, frame.lbn());
                    let there = ptr.is_some_and(|p| p.addr == addr && p.len == len);
                    if there && frame.is_attached() && frame.is_valid() && !frame.is_dirty() {
                        // Indirect blocks change when what they point to moves with them.
                        let crc = ptr.filter(|_| checked && frame.lbn() >= 0).map(|p| p.crc);
                        blocks.push((inode, frame, len, crc));
                    }
                }
                LiveItem::Inode { raw, at, .. } => {
                    let entry = self.ifile.entry(&raw.anchor, raw.ino);
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
            |(inode, frame, len, crc)| LogItem::Block { inode, frame, len, holder: None, crc };
        let mut items: Vec<LogItem> = blocks.into_iter().map(block).collect();
        let per_block = (self.sb.geometry.block_size / self.sb.geometry.inode_size) as usize;
        items.extend(in_chunks(inodes, per_block).map(LogItem::Inodes));
        items.extend(in_chunks(raws, per_block).map(LogItem::RawInodes));
        items
    }

    /// Decides for each block that is about to move what happens to its holder: nothing, if the
    /// holder moves in the same log write; if writing all such holders would cost too much, the
    /// holder stays unchanged and the block is forwarded; otherwise (`None` in the result) the
    /// holder becomes dirty.
    fn decide_forwarding(&self, core: &Core, items: &mut [LogItem]) -> Vec<Moved> {
        let mut moving = BTreeSet::new();
        for item in items.iter() {
            match item {
                LogItem::Block { inode, frame, .. } if frame.lbn() < 0 => {
                    moving.insert((inode.ino, Holder::Indirect(frame.lbn())));
                }
                LogItem::Inodes(list) => moving.extend(list.iter().map(|i| (i.ino, Holder::Inode))),
                _ => {}
            }
        }
        let geometry = &self.sb.geometry;
        let (mut stay, mut burden, mut all) = (BTreeSet::new(), 0u64, 0u64);
        let mut moved = Vec::new();
        for (nth, item) in items.iter().enumerate() {
            let LogItem::Block { inode, frame, len, .. } = item else { continue };
            all += u64::from(*len);
            let holder = Holder::of(geometry, frame.lbn()).0;
            if moving.contains(&(inode.ino, holder)) {
                continue;
            }
            let form = self.clean_holder(core, inode, frame.lbn());
            if form.is_some() && stay.insert((inode.ino, holder)) {
                burden += u64::from(match holder {
                    Holder::Inode => geometry.inode_size,
                    Holder::Indirect(_) => geometry.block_size,
                });
            }
            moved.push((nth, (Rc::clone(inode), frame.lbn(), form)));
        }
        let forward = burden * BURDEN_SHARE > all && self.forwards.has_room_for(core, moved.len());
        for (nth, (_, _, form)) in &mut moved {
            match &mut items[*nth] {
                LogItem::Block { holder, .. } if forward => *holder = *form,
                _ => *form = None,
            }
        }
        moved.into_iter().map(|(_, moved)| moved).collect()
    }
}

/// A block that moves, and the form in which its holder stays, if the block is forwarded.
type Moved = (Rc<Inode>, i64, Option<HolderVersion>);

/// Blocks are forwarded if writing their holders would add more than this fraction, as one part in N.
const BURDEN_SHARE: u64 = 16;

/// The list in parts of `len`.
fn in_chunks<T>(list: Vec<T>, len: usize) -> impl Iterator<Item = Vec<T>> {
    let mut rest = list.into_iter();
    std::iter::from_fn(move || {
        let chunk: Vec<T> = rest.by_ref().take(len).collect();
        (!chunk.is_empty()).then_some(chunk)
    })
}
