//! Segment usage: how much of each segment is live, which are clean, and the policies that look at
//! it.
//!
//! Contract: bytes live and die through one pair of methods, [`SegmentUsage::block_lives`] and
//! [`SegmentUsage::block_dies`] (and [`inode_dies`](SegmentUsage::inode_dies)), which keep the table ([`SegmentTable`]) and what the policies know
//! of blocks ([`CleaningPolicies`]) in step. Nothing waits.

mod policies;
mod ranges;
mod table;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use twin_cache::Lbn;
use twin_clean::inputs::SegmentState as Use;
use twin_fs::{FsError, Ino, Result};
use twin_rt::Time;

use crate::format::{HeadPos, SegEntry, Superblock};
use crate::settings::LfsSettings;
use policies::CleaningPolicies;

pub(crate) use policies::{BlockHistory, BlockToPlace, placement_of};
pub use table::{SegmentState, SegmentTable};

/// The reason why a block is no longer live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// A newer copy lives: its history went there when its stream was chosen, or it has none since
    /// recovery found both.
    Rewritten,
    /// The block or inode is no more.
    Deleted,
}

/// Which segments come into question for cleaning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum VictimChoice {
    /// What the policy ranks first, of those with this share of garbage at least.
    Ranked(f64),
    /// Those with most garbage, whatever the policy.
    Emptiest,
}

struct UsageState {
    table: SegmentTable,
    policies: CleaningPolicies,
}

/// The usage of all segments, and the policies that look at it.
pub(crate) struct SegmentUsage {
    segment_size: u32,
    block_size: u32,
    parts: RefCell<UsageState>,
    /// Whether the places of dead blocks are noted.
    notes_dead: Cell<bool>,
    /// Places of blocks that have died, as bytes of the device.
    dead: RefCell<Vec<(u64, u64)>>,
    /// Segments that had nothing live at some moment since.
    emptied: RefCell<BTreeSet<u32>>,
}

impl SegmentUsage {
    /// The usage of segments by this table, and the policies of these settings on a log of so
    /// many streams.
    pub(crate) fn new(
        sb: &Superblock,
        table: SegmentTable,
        policies: PolicySettings<'_>,
    ) -> Result<SegmentUsage> {
        let policies = policies.make(sb)?;
        let (segment_size, block_size) = (sb.segment_size, sb.geometry.block_size);
        let parts = RefCell::new(UsageState { table, policies });
        let (notes_dead, dead, emptied) = Default::default();
        Ok(SegmentUsage { segment_size, block_size, parts, notes_dead, dead, emptied })
    }

    /// Other policies from now on, which know nothing of what is there.
    pub(crate) fn set_policies(&self, sb: &Superblock, policies: PolicySettings<'_>) -> Result<()> {
        self.parts.borrow_mut().policies = policies.make(sb)?;
        Ok(())
    }

    /// There are as many segments as this superblock says; those that are new are clean.
    pub(crate) fn grow(&self, sb: &Superblock) {
        self.parts.borrow_mut().table.grow(sb);
    }

    /// Looks at the table.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&SegmentTable) -> T) -> T {
        f(&self.parts.borrow().table)
    }

    /// Live bytes of all segments.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.with(SegmentTable::live_bytes)
    }

    /// Bytes of pinned segments that cannot be had.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.with(SegmentTable::held_bytes)
    }

    /// What would be held if all segments in use were pinned.
    pub(crate) fn held_if_all_pinned(&self) -> u64 {
        self.with(SegmentTable::held_if_all_pinned)
    }

    /// The most pins that a segment has.
    pub(crate) fn most_pins(&self) -> u16 {
        self.with(|table| (0..table.count()).map(|s| table.entry(s).pins).max().unwrap_or(0))
    }

    /// Segments with live bytes.
    pub(crate) fn live_segments(&self) -> Vec<u32> {
        self.with(|table| (0..table.count()).filter(|&s| table.entry(s).live_bytes > 0).collect())
    }

    /// A snapshot or branch needs these segments from now on.
    pub(crate) fn pin(&self, segments: &[u32]) -> Result<()> {
        self.parts.borrow_mut().table.pin(segments).map_err(FsError::inconsistent)
    }

    /// A snapshot or branch needs these segments no more.
    pub(crate) fn unpin(&self, segments: &[u32]) -> Result<()> {
        self.parts.borrow_mut().table.unpin(segments).map_err(FsError::inconsistent)
    }

    /// Checks the sums of what is pinned.
    pub(crate) fn assert_held(&self) {
        self.with(SegmentTable::assert_held);
    }

    /// Live bytes of a segment.
    pub(crate) fn live_in(&self, segment: u32) -> u32 {
        self.with(|table| table.entry(segment).live_bytes)
    }

    /// The log's time: fragments that users have written.
    pub(crate) fn now(&self) -> u64 {
        self.with(SegmentTable::now)
    }

    /// How many segments are clean.
    pub(crate) fn clean_count(&self) -> u32 {
        self.with(SegmentTable::clean_count)
    }

    /// The block of the table on disk that has a segment's entry.
    pub(crate) fn table_block(&self, segment: u32) -> u64 {
        self.with(|table| table.table_block(segment))
    }

    /// The next `most` clean segments after one.
    pub(crate) fn clean_after(&self, segment: u32, most: usize) -> Vec<u32> {
        self.with(|table| table.next_clean(segment).take(most).collect())
    }

    /// How many segments the next checkpoint makes clean.
    pub(crate) fn empty_count(&self) -> u32 {
        self.with(|table| table.empty().len() as u32)
    }

    /// Bytes that the log can take before the cleaner has to make more room.
    pub(crate) fn log_room(&self) -> u64 {
        let segment = u64::from(self.segment_size);
        // A stream loses the end of a segment that the next block does not fit, and summaries.
        let payload = segment - segment / 32 - u64::from(self.block_size);
        payload * u64::from(self.clean_count())
    }

    /// Bytes at byte `at` of the device live from now on; they are as old as `written`. `history`
    /// came with their stream; recovery has none.
    pub(crate) fn block_lives(
        &self,
        at: u64,
        len: u32,
        written: Time,
        history: Option<&BlockHistory>,
    ) {
        let UsageState { table, policies } = &mut *self.parts.borrow_mut();
        table.add_live(at, len, written);
        if let Some(history) = history {
            policies.block_placed(table, at, len, history);
        }
    }

    /// A block at byte `at` of the device is dead from now on.
    pub(crate) fn block_dies(&self, at: u64, len: u32, why: Death) {
        self.inode_dies(at, len, why);
        if self.notes_dead.get() {
            self.dead.borrow_mut().push((at, len.into()));
        }
    }

    /// An inode at byte `at` of the device is dead from now on. The block that it lies in has others, and is
    /// read as a whole.
    pub(crate) fn inode_dies(&self, at: u64, len: u32, why: Death) {
        let UsageState { table, policies } = &mut *self.parts.borrow_mut();
        if why == Death::Deleted {
            policies.trimmed(table, at, len);
        }
        table.sub_live(at, len);
        if self.notes_dead.get() {
            let segment = table.segment_of(at);
            if table.entry(segment).live_bytes == 0 {
                self.emptied.borrow_mut().insert(segment);
            }
        }
    }

    /// Whether the places of what dies are noted: for a device that `drops_dead`. Others have no use for it.
    pub(crate) fn note_dead(&self, drops_dead: bool) {
        self.notes_dead.set(drops_dead);
    }

    /// The ranges of the device, in order, of what has died since the last call: blocks, and whole segments in
    /// which nothing is live, with their summaries and inodes. Snapshots need none of them.
    pub(crate) fn take_dead(&self, sb: &Superblock) -> Vec<(u64, u64)> {
        let mut dead = self.dead.take();
        let table = &self.parts.borrow().table;
        let pins = |at: u64| sb.segment_of(at).map(|segment| table.entry(segment).pins);
        dead.retain(|(at, _)| pins(*at) == Some(0));
        let emptied = std::mem::take(&mut *self.emptied.borrow_mut());
        for segment in emptied {
            let SegEntry { live_bytes, pins, .. } = table.entry(segment);
            match table.state(segment) {
                SegmentState::Used if (live_bytes, pins) == (0, 0) => {
                    dead.push((sb.segment_start(segment), self.segment_size.into()));
                }
                // It is looked at again when it is full.
                SegmentState::Open => _ = self.emptied.borrow_mut().insert(segment),
                _ => {}
            }
        }
        dead.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (at, len) in dead {
            match ranges.last_mut() {
                Some((start, all)) if at <= *start + *all => *all = (*all).max(at + len - *start),
                _ => ranges.push((at, len)),
            }
        }
        ranges
    }

    /// The stream of each block of a log write, and its history. None: it takes no room, and goes
    /// with the one before it.
    pub(crate) fn choose_streams(
        &self,
        heads: &[HeadPos],
        blocks: &[Option<BlockToPlace>],
        is_cleaner: bool,
    ) -> Vec<(u8, BlockHistory)> {
        let UsageState { table, policies } = &mut *self.parts.borrow_mut();
        policies.choose_streams(table, heads, blocks, is_cleaner)
    }

    /// Takes the next clean segment after one.
    pub(crate) fn take_clean(&self, after: u32) -> Option<u32> {
        self.parts.borrow_mut().table.take_clean(after)
    }

    /// A stream begins to fill a segment.
    pub(crate) fn begin(&self, segment: u32, stream: u8) {
        self.parts.borrow_mut().table.begin(segment, stream);
    }

    /// A stream has filled its segment: moves it on to the next, and takes a clean one for it to
    /// go on with later. None if there is no clean segment left.
    pub(crate) fn next_segment(&self, head: HeadPos, stream: u8) -> Option<HeadPos> {
        let UsageState { table, policies } = &mut *self.parts.borrow_mut();
        let next = table.take_clean(head.next)?;
        table.set_used(head.segment);
        table.begin(head.next, stream);
        policies.sealed(table, head.segment);
        policies.forget(head.next);
        Some(HeadPos { segment: head.next, offset: 0, next })
    }

    /// Notes how many bytes of a segment a stream has filled.
    pub(crate) fn set_filled(&self, segment: u32, bytes: u32) {
        self.parts.borrow_mut().table.set_filled(segment, bytes);
    }

    /// The log goes on in a segment, or will next.
    pub(crate) fn set_open(&self, segment: u32) {
        self.parts.borrow_mut().table.set_open(segment);
    }

    /// No stream fills a segment any more.
    pub(crate) fn set_used(&self, segment: u32) {
        self.parts.borrow_mut().table.set_used(segment);
    }

    /// Nothing in these segments is needed any more.
    pub(crate) fn set_clean(&self, segments: &[u32]) {
        let table = &mut self.parts.borrow_mut().table;
        segments.iter().for_each(|&segment| table.set_clean(segment));
        if self.notes_dead.get() && !segments.is_empty() {
            // What lies there may be something new before it could be let go.
            let stays = |at: u64| !segments.contains(&table.segment_of(at));
            self.dead.borrow_mut().retain(|(at, _)| stays(*at));
            self.emptied.borrow_mut().retain(|segment| !segments.contains(segment));
        }
    }

    /// A summary in the segment with byte `at` says of a block that it is forwarded.
    pub(crate) fn note_forwards(&self, at: u64) {
        self.parts.borrow_mut().table.note_forwards(at);
    }

    /// No block is forwarded any more.
    pub(crate) fn clear_forwards(&self) {
        self.parts.borrow_mut().table.clear_forwards();
    }

    /// The blocks of the table that were out of date are being written.
    pub(crate) fn clear_changed(&self) {
        self.parts.borrow_mut().table.clear_changed();
    }

    /// How many segments the placement policy wants cleaned together.
    pub(crate) fn victims_at_once(&self) -> usize {
        self.parts.borrow().policies.batch()
    }

    /// The best victims of those that were not `tried` yet, as many as are cleaned together. They
    /// count as being cleaned from now on.
    pub(crate) fn take_victims(&self, tried: &BTreeSet<u32>, choice: VictimChoice) -> Vec<u32> {
        let UsageState { table, policies } = &mut *self.parts.borrow_mut();
        let (mut victims, mut pinned) = (Vec::new(), Vec::new());
        tried.iter().for_each(|&segment| table.set_cleaning(segment, true));
        while victims.len() < policies.batch() {
            let victim = match choice {
                VictimChoice::Ranked(share) => policies.choose(table, share),
                VictimChoice::Emptiest => policies.emptiest(table),
            };
            let Some(victim) = victim else { break };
            table.set_cleaning(victim, true);
            // What is empty needs a checkpoint, no cleaning; from what snapshots need nothing is gained.
            let SegEntry { live_bytes, pins, .. } = table.entry(victim);
            match (live_bytes, pins) {
                (_, 1..) => pinned.push(victim),
                (1.., 0) => victims.push(victim),
                (0, 0) => {}
            }
        }
        pinned.into_iter().for_each(|segment| table.set_cleaning(segment, false));
        victims
    }

    /// Victims that could not be emptied may be chosen again.
    pub(crate) fn release_victims(&self, victims: impl IntoIterator<Item = u32>) {
        let table = &mut self.parts.borrow_mut().table;
        victims.into_iter().for_each(|segment| table.set_cleaning(segment, false));
    }

    /// True if these segments are still what is being cleaned: none of them emptied, and none is
    /// filled anew.
    pub(crate) fn are_being_cleaned(&self, victims: &[u32]) -> bool {
        let state = |table: &SegmentTable, victim: u32| table.info_of(victim).state;
        self.with(|table| victims.iter().all(|&victim| state(table, victim) == Use::Cleaning))
    }

    /// A segment is about to be cleaned.
    pub(crate) fn collected(&self, segment: u32) {
        let UsageState { table, policies } = &mut *self.parts.borrow_mut();
        policies.collected(table, segment);
    }

    /// By what blocks that are moved together are sorted: the block at byte `at`, with this number in
    /// this file.
    pub(crate) fn move_key(&self, at: u64, ino: Ino, lbn: Lbn) -> (u64, i64) {
        let parts = self.parts.borrow();
        parts.policies.move_key(&parts.table, at, ino, lbn)
    }
}

/// What policies are made of.
#[derive(Clone, Copy)]
pub(crate) struct PolicySettings<'a> {
    pub(crate) settings: &'a LfsSettings,
    pub(crate) streams: usize,
    /// Bytes of memory that the cache may take.
    pub(crate) memory_bytes: u64,
    pub(crate) seed: u64,
}

impl PolicySettings<'_> {
    fn make(self, sb: &Superblock) -> Result<CleaningPolicies> {
        let PolicySettings { settings, streams, memory_bytes, seed } = self;
        CleaningPolicies::new(sb, settings, streams, memory_bytes, seed)
    }
}
