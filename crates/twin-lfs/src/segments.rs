//! The segment usage table in memory: how much of each segment is live, and which are clean.
//!
//! Contract: pure bookkeeping. A segment is clean (may be filled), open (a stream fills it, or
//! will next), or used. A used segment with no live byte becomes clean only at a checkpoint that
//! has reached the disk ([`Segments::empty`], [`Segments::set_clean`]): until then a crash may
//! bring back a state that needs what is in it.

use std::collections::BTreeSet;

use twin_rt::Time;

use crate::format::{SegEntry, Superblock};

/// What a segment may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing in it is needed.
    Clean,
    /// A stream of the log fills it, or will next.
    Open,
    /// It holds blocks.
    Used,
}

/// The table.
pub struct Segments {
    sb: Superblock,
    entries: Vec<SegEntry>,
    states: Vec<State>,
    clean: BTreeSet<u32>,
    live_bytes: u64,
    /// Blocks of the table on disk that are out of date.
    changed: BTreeSet<u64>,
}

impl Segments {
    /// A table with these entries; segments without live bytes are clean.
    pub fn new(sb: &Superblock, entries: Vec<SegEntry>) -> Segments {
        let is_clean = |e: &SegEntry| e.live_bytes == 0;
        let states = |e| if is_clean(e) { State::Clean } else { State::Used };
        Segments {
            sb: sb.clone(),
            states: entries.iter().map(states).collect(),
            clean: (0..).zip(&entries).filter(|(_, e)| is_clean(e)).map(|(s, _)| s).collect(),
            live_bytes: entries.iter().map(|e| u64::from(e.live_bytes)).sum(),
            changed: BTreeSet::new(),
            entries,
        }
    }

    /// The number of segments.
    pub fn count(&self) -> u32 {
        self.entries.len() as u32
    }

    /// The entry of a segment.
    pub fn entry(&self, segment: u32) -> SegEntry {
        self.entries[segment as usize]
    }

    /// What a segment may be used for.
    pub fn state(&self, segment: u32) -> State {
        self.states[segment as usize]
    }

    /// Live bytes of all segments.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// How many segments are clean.
    pub fn clean_count(&self) -> u32 {
        self.clean.len() as u32
    }

    /// The clean segments that streams would take next, in order.
    pub fn next_clean(&self, after: u32) -> impl Iterator<Item = u32> + '_ {
        self.clean.range(after..).chain(self.clean.range(..after)).copied()
    }

    /// Takes the next clean segment after one, so that the log runs forward over the device.
    pub fn take_clean(&mut self, after: u32) -> Option<u32> {
        let segment = self.next_clean(after).next()?;
        self.clean.remove(&segment);
        self.states[segment as usize] = State::Open;
        self.unmark(segment);
        Some(segment)
    }

    /// Says that a segment is open although it may hold blocks: a log goes on in it.
    pub fn set_open(&mut self, segment: u32) {
        self.clean.remove(&segment);
        self.states[segment as usize] = State::Open;
    }

    /// Says that a stream has filled a segment.
    pub fn set_used(&mut self, segment: u32) {
        self.states[segment as usize] = State::Used;
    }

    /// Says that nothing in a segment is needed any more.
    pub fn set_clean(&mut self, segment: u32) {
        debug_assert_eq!(self.entries[segment as usize].live_bytes, 0);
        self.states[segment as usize] = State::Clean;
        self.clean.insert(segment);
    }

    /// Used segments without a live byte.
    pub fn empty(&self) -> Vec<u32> {
        (0..self.count())
            .filter(|&s| self.state(s) == State::Used && self.entry(s).live_bytes == 0)
            .collect()
    }

    /// The block of the table on disk that has a segment's entry.
    pub fn table_block(&self, segment: u32) -> u64 {
        let per_block = self.sb.shape.block_size as usize / crate::format::SEG_ENTRY_BYTES;
        u64::from(segment) / per_block as u64
    }

    fn change(&mut self, byte: u64, f: impl FnOnce(&mut SegEntry)) {
        if let Some(segment) = self.sb.segment_of(byte) {
            f(&mut self.entries[segment as usize]);
            let block = self.table_block(segment);
            self.changed.insert(block);
        }
    }

    /// Counts bytes at byte `at` of the device as live, written `now`.
    pub fn add_live(&mut self, at: u64, len: u32, now: Time) {
        self.live_bytes += u64::from(len);
        self.change(at, |e| {
            e.live_bytes += len;
            e.written = e.written.max(now);
        });
    }

    /// Counts bytes at byte `at` of the device as dead.
    pub fn sub_live(&mut self, at: u64, len: u32) {
        let mut taken = 0;
        self.change(at, |e| {
            // A damaged volume may count wrong; the checker says so, this must not panic.
            taken = e.live_bytes.min(len);
            e.live_bytes -= taken;
        });
        self.live_bytes -= u64::from(taken);
    }

    /// Notes that a summary in the segment with byte `at` says of a block that it is forwarded.
    pub fn note_forwards(&mut self, at: u64) {
        self.change(at, |e| e.forwards = true);
    }

    /// No block is forwarded any more.
    pub fn clear_forwards(&mut self) {
        (0..self.count()).for_each(|segment| self.unmark(segment));
    }

    /// What the summaries of a segment say of forwarded blocks counts no more.
    fn unmark(&mut self, segment: u32) {
        if std::mem::take(&mut self.entries[segment as usize].forwards) {
            let block = self.table_block(segment);
            self.changed.insert(block);
        }
    }

    /// Blocks of the table on disk that are out of date.
    pub fn changed(&self) -> &BTreeSet<u64> {
        &self.changed
    }

    /// The blocks are being written.
    pub fn clear_changed(&mut self) {
        self.changed.clear();
    }

    /// Writes the entries that block `block` of the table holds into its content.
    pub fn encode_block(&self, block: u64, raw: &mut [u8]) {
        let chunks = raw.chunks_exact_mut(crate::format::SEG_ENTRY_BYTES);
        let per_block = chunks.len();
        let first = block as usize * per_block;
        for (entry, chunk) in self.entries.iter().skip(first).zip(chunks) {
            entry.encode(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Profile;
    use twin_fs::shape::Shape;

    fn table() -> Segments {
        let shape = Shape::modern(4096, 512);
        let sb = Superblock::plan([0; 16], Profile::Modern, shape, 1 << 20, 32 << 20, 2).unwrap();
        let n = sb.segments as usize;
        Segments::new(&sb, vec![SegEntry::default(); n])
    }

    #[test]
    fn clean_segments_are_taken_forward_and_around() {
        let mut table = table();
        let last = table.count() - 1;
        assert_eq!(table.take_clean(last), Some(last));
        assert_eq!(table.take_clean(last), Some(0));
        assert_eq!(table.state(0), State::Open);
    }

    #[test]
    fn an_emptied_segment_is_not_clean_by_itself() {
        let mut table = table();
        let segment = table.take_clean(0).unwrap();
        let at = table.sb.segment_start(segment);
        table.add_live(at, 4096, Time(5));
        table.set_used(segment);
        table.sub_live(at, 4096);
        assert_eq!(table.empty(), [segment]);
        assert!(!table.next_clean(0).any(|s| s == segment));
        table.set_clean(segment);
        assert!(table.next_clean(0).any(|s| s == segment));
    }

    #[test]
    fn live_bytes_add_up() {
        let mut table = table();
        let at = table.sb.segment_start(3);
        table.add_live(at, 4096, Time(5));
        table.add_live(at + 4096, 512, Time(4));
        assert_eq!((table.live_bytes(), table.entry(3).live_bytes), (4608, 4608));
        assert_eq!(table.entry(3).written, Time(5));
    }
}
