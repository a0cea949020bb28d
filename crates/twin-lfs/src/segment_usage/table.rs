//! The segment usage table in memory: how much of each segment is live, and which are clean.
//!
//! Contract: pure bookkeeping. A segment is clean (may be filled), open (a stream fills it, or
//! will next), or used. A used segment with no live byte becomes clean only at a checkpoint that
//! has reached the disk ([`SegmentTable::empty`], [`SegmentTable::set_clean`]): until then a crash may
//! bring back a state that needs what is in it.
//!
//! A segment is *pinned* while snapshots or branches need something in it: it does not become clean, it is no
//! victim, and what is garbage in it cannot be had, which [`SegmentTable::held_bytes`] adds up. Policies are told
//! that a pinned segment is full.
//!
//! Beside the entries it keeps what policies of `twin-clean` are told of segments
//! ([`SegmentInfo`]), in fragments, with user writes as time. Of what was before the volume was
//! opened only the order is known: segments count as written one after the other, oldest first.
//!
//! Entries and what is told go as far as the last segment that was ever in use, because a log runs forward:
//! a large volume takes no memory for what it has never reached.

use std::collections::BTreeSet;

use twin_clean::inputs::{NO_SEGMENT, SegmentInfo, SegmentState as Use};
use twin_rt::Time;

use super::ranges::Ranges;
use crate::format::{SegEntry, Superblock};
use crate::sizing;

/// What a segment may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Nothing in it is needed.
    Clean,
    /// A stream of the log fills it, or will next.
    Open,
    /// It may hold live blocks, and is not being filled.
    Used,
}

/// The segment usage table: live bytes and state of each segment.
pub struct SegmentTable {
    sb: Superblock,
    /// Those behind the last one have their default, as have those of `info`.
    entries: Vec<SegEntry>,
    /// Those behind the last one are clean.
    states: Vec<SegmentState>,
    clean: Ranges,
    live_bytes: u64,
    /// Bytes of pinned segments that are not live and cannot be had.
    held_bytes: u64,
    /// Blocks of the table on disk that are out of date.
    changed: BTreeSet<u64>,
    info: Vec<SegmentInfo>,
    /// Open segments behind all of these: streams that have not begun yet may be anywhere.
    open_ahead: Vec<u32>,
    /// Fragments that users have written.
    now: u64,
    /// Segments ever opened, as policies count them.
    opened: u64,
}

/// True if nothing in a segment with this entry is needed.
fn is_clean(entry: &SegEntry) -> bool {
    entry.live_bytes == 0 && entry.pins == 0
}

/// The entry of a segment, to be changed; the entries go up to it from now on.
fn grown(entries: &mut Vec<SegEntry>, segment: u32) -> &mut SegEntry {
    let at = segment as usize;
    if at >= entries.len() {
        entries.resize(at + 1, SegEntry::default());
    }
    &mut entries[at]
}

/// What policies are told of segments found on a device: written one after the other, those with
/// the oldest content first.
fn infos_of(entries: &[SegEntry], segment: u32, unit: u32) -> Vec<SegmentInfo> {
    let size = segment / unit;
    let mut info = vec![SegmentInfo::default(); entries.len()];
    let mut used: Vec<usize> = (0..entries.len()).filter(|&s| !is_clean(&entries[s])).collect();
    used.sort_by_key(|&s| (entries[s].written, s));
    for (serial, s) in (0u64..).zip(used) {
        let (opened_at, sealed_at) = (serial * u64::from(size), (serial + 1) * u64::from(size));
        info[s] = SegmentInfo {
            state: Use::Sealed,
            size_blocks: size,
            written_blocks: size,
            live_blocks: match entries[s].pins {
                0 => entries[s].live_bytes.div_ceil(unit).min(size),
                _ => size,
            },
            opened_at,
            sealed_at,
            youngest_at: sealed_at,
            serial,
            penultimate_sum: f64::from(size) * sealed_at as f64 / 2.0,
            ..SegmentInfo::default()
        };
    }
    info
}

/// What cannot be had of a segment with this entry although it is not live.
fn held(sb: &Superblock, entry: &SegEntry) -> u64 {
    match entry.pins {
        0 => 0,
        _ => sizing::payload(sb).saturating_sub(entry.live_bytes.into()),
    }
}

fn held_in_all(sb: &Superblock, entries: &[SegEntry]) -> u64 {
    entries.iter().map(|entry| held(sb, entry)).sum()
}

impl SegmentTable {
    /// A table with these entries of its first segments, and default ones of the others; segments without
    /// live bytes and pins are clean.
    pub fn new(sb: &Superblock, mut entries: Vec<SegEntry>) -> SegmentTable {
        let last = entries.iter().rposition(|entry| *entry != SegEntry::default());
        entries.truncate(last.map_or(0, |last| last + 1));
        let state = |entry| if is_clean(entry) { SegmentState::Clean } else { SegmentState::Used };
        let states: Vec<SegmentState> = entries.iter().map(state).collect();
        let is_clean = |&s: &u32| states.get(s as usize).is_none_or(|s| *s == SegmentState::Clean);
        let info = infos_of(&entries, sb.segment_size, sb.geometry.frag_size);
        let opened = u64::from(sb.segments());
        SegmentTable {
            info,
            open_ahead: Vec::new(),
            now: opened * u64::from(sb.segment_size / sb.geometry.frag_size),
            opened,
            sb: sb.clone(),
            clean: Ranges::of((0..sb.segments()).filter(is_clean)),
            states,
            live_bytes: entries.iter().map(|e| u64::from(e.live_bytes)).sum(),
            held_bytes: held_in_all(sb, &entries),
            changed: BTreeSet::new(),
            entries,
        }
    }

    /// There are as many segments as this superblock says; those that are new are clean.
    pub(super) fn grow(&mut self, sb: &Superblock) {
        self.clean.append(self.count()..sb.segments());
        self.sb = sb.clone();
    }

    /// The number of segments.
    pub fn count(&self) -> u32 {
        self.sb.segments()
    }

    /// The entry of a segment.
    pub fn entry(&self, segment: u32) -> SegEntry {
        self.entries.get(segment as usize).copied().unwrap_or_default()
    }

    /// True if a block of the table on disk is about segments that were never in use, so that it has zeros.
    pub(crate) fn is_unused(&self, block: u64) -> bool {
        self.table_block(self.entries.len().saturating_sub(1) as u32) < block
    }

    /// The entries of the segments up to the last one that was ever in use.
    pub(crate) fn entries(&self) -> &[SegEntry] {
        &self.entries
    }

    /// What a segment may be used for.
    pub fn state(&self, segment: u32) -> SegmentState {
        self.states.get(segment as usize).copied().unwrap_or(SegmentState::Clean)
    }

    fn set_state(&mut self, segment: u32, state: SegmentState) {
        let at = segment as usize;
        if at >= self.states.len() {
            self.states.resize(at + 1, SegmentState::Clean);
        }
        self.states[at] = state;
    }

    /// Live bytes of all segments.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Bytes of pinned segments that are not live and cannot be had.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// What would be held if all segments in use were pinned.
    pub(super) fn held_if_all_pinned(&self) -> u64 {
        let used = self.entries.iter().filter(|entry| !is_clean(entry));
        used.map(|entry| held(&self.sb, &SegEntry { pins: 1, ..*entry })).sum()
    }

    /// Each of these segments gets a pin more.
    ///
    /// # Errors
    /// If one has as many as can be counted; then none gets one.
    pub(super) fn pin(&mut self, segments: &[u32]) -> Result<(), &'static str> {
        if segments.iter().any(|&s| self.entry(s).pins == u16::MAX) {
            return Err("a segment is needed by as many snapshots as can be counted");
        }
        segments.iter().for_each(|&s| self.change_entry(s, |entry| entry.pins += 1));
        Ok(())
    }

    /// Each of these segments loses a pin. What nothing in is needed any more becomes clean with the next
    /// checkpoint.
    ///
    /// # Errors
    /// If one has none; then none loses one.
    pub(super) fn unpin(&mut self, segments: &[u32]) -> Result<(), &'static str> {
        if segments.iter().any(|&s| self.entry(s).pins == 0) {
            return Err("a snapshot needs a segment that is not pinned: check the volume");
        }
        segments.iter().for_each(|&s| self.change_entry(s, |entry| entry.pins -= 1));
        Ok(())
    }

    /// Checks what is counted step by step against the entries.
    ///
    /// # Panics
    /// If they differ.
    pub(super) fn assert_held(&self) {
        assert_eq!(
            self.held_bytes,
            held_in_all(&self.sb, &self.entries),
            "bytes held by snapshots"
        );
    }

    /// All blocks of the table on disk are out of date.
    pub(crate) fn set_all_changed(&mut self) {
        self.changed.extend(0..self.sb.usage_blocks());
    }

    /// How many segments are clean.
    pub fn clean_count(&self) -> u32 {
        self.clean.count()
    }

    /// The clean segments that streams would take next, in order.
    pub fn next_clean(&self, after: u32) -> impl Iterator<Item = u32> + '_ {
        self.clean.from(after).chain(self.clean.from(0).take_while(move |s| *s < after))
    }

    /// Takes the next clean segment after one, so that the log runs forward over the device.
    pub(crate) fn take_clean(&mut self, after: u32) -> Option<u32> {
        let segment = self.next_clean(after).next()?;
        self.clean.remove(segment);
        self.set_state(segment, SegmentState::Open);
        self.unmark(segment);
        Some(segment)
    }

    /// Says that a segment is open although it may hold blocks: a log goes on in it.
    pub(crate) fn set_open(&mut self, segment: u32) {
        self.clean.remove(segment);
        self.set_state(segment, SegmentState::Open);
        match self.info.get_mut(segment as usize) {
            Some(info) => info.state = Use::Open,
            None => self.open_ahead.push(segment),
        }
    }

    /// Says that a stream has filled a segment.
    pub(crate) fn set_used(&mut self, segment: u32) {
        self.set_state(segment, SegmentState::Used);
        let (now, size_blocks) = (self.now, self.segment_frags());
        let info = self.tell_of(segment);
        (info.state, info.sealed_at) = (Use::Sealed, now);
        info.size_blocks = size_blocks;
        // What is left at its end comes back with cleaning, like what is dead.
        info.written_blocks = info.size_blocks;
        self.tell_live(segment);
    }

    /// Says that a stream, of this number, begins to fill a segment.
    pub(super) fn begin(&mut self, segment: u32, class: u8) {
        self.opened += 1;
        // Of an earlier life: what comes now may be older.
        grown(&mut self.entries, segment).written = Time(0);
        let (now, opened, size_blocks) = (self.now, self.opened, self.segment_frags());
        let info = self.tell_of(segment);
        *info = SegmentInfo {
            state: Use::Open,
            class,
            size_blocks,
            live_blocks: info.live_blocks,
            opened_at: now,
            sealed_at: now,
            youngest_at: now,
            serial: opened,
            ..SegmentInfo::default()
        };
    }

    /// Says how far a stream has filled a segment.
    pub(super) fn set_filled(&mut self, segment: u32, bytes: u32) {
        let written = bytes / self.sb.geometry.frag_size;
        self.tell_of(segment).written_blocks = written;
    }

    /// Says that a segment is being cleaned, or, if it still holds something, no longer.
    pub(super) fn set_cleaning(&mut self, segment: u32, cleaning: bool) {
        let info = self.tell_of(segment);
        if matches!(info.state, Use::Sealed | Use::Cleaning) {
            info.state = if cleaning { Use::Cleaning } else { Use::Sealed };
        }
    }

    /// Fragments of a segment.
    fn segment_frags(&self) -> u32 {
        self.sb.segment_size / self.sb.geometry.frag_size
    }

    /// What policies are told of the segments up to the last one that was ever in use.
    pub fn info(&self) -> &[SegmentInfo] {
        &self.info
    }

    /// What policies are told of a segment.
    pub fn info_of(&self, segment: u32) -> SegmentInfo {
        self.info.get(segment as usize).copied().unwrap_or_else(|| self.untold(segment))
    }

    /// What is to be told of a segment of which nothing has been kept.
    fn untold(&self, segment: u32) -> SegmentInfo {
        let is_open = self.open_ahead.contains(&segment);
        let state = if is_open { Use::Open } else { Use::Free };
        SegmentInfo { state, ..SegmentInfo::default() }
    }

    /// What is told of a segment, to be changed. From now on policies are told of all segments up to it.
    pub(super) fn tell_of(&mut self, segment: u32) -> &mut SegmentInfo {
        for next in self.info.len() as u32..=segment {
            let info = self.untold(next);
            self.info.push(info);
        }
        &mut self.info[segment as usize]
    }

    /// What policies are told of all segments.
    pub fn all_info(&self) -> impl Iterator<Item = SegmentInfo> {
        (0..self.count()).map(|segment| self.info_of(segment))
    }

    /// What is told of the segment with a byte of the device, to be changed.
    pub(super) fn info_at(&mut self, byte: u64) -> Option<&mut SegmentInfo> {
        let segment = self.sb.segment_of(byte)?;
        (segment < self.count()).then(|| self.tell_of(segment))
    }

    /// When the youngest block of a segment was written.
    pub(super) fn written_at(&self, segment: u32) -> Option<Time> {
        (segment < self.count()).then(|| self.entry(segment).written)
    }

    /// The number of the segment with a byte of the device.
    pub(super) fn segment_of(&self, byte: u64) -> u32 {
        self.sb.segment_of(byte).unwrap_or(NO_SEGMENT)
    }

    /// The log's time: fragments that users have written.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Users have written this many bytes more.
    pub(super) fn advance(&mut self, bytes: u32) {
        self.now += u64::from(bytes.div_ceil(self.sb.geometry.frag_size));
    }

    /// Says that nothing in a segment is needed any more.
    pub(super) fn set_clean(&mut self, segment: u32) {
        debug_assert!(is_clean(&self.entry(segment)));
        self.set_state(segment, SegmentState::Clean);
        self.clean.insert(segment);
        *self.tell_of(segment) = SegmentInfo::default();
    }

    /// Used segments without a live byte that no snapshot needs.
    pub fn empty(&self) -> Vec<u32> {
        (0..self.states.len() as u32)
            .filter(|&s| self.state(s) == SegmentState::Used && is_clean(&self.entry(s)))
            .collect()
    }

    /// The block of the table on disk that has a segment's entry.
    pub fn table_block(&self, segment: u32) -> u64 {
        let per_block = self.sb.geometry.block_size as usize / crate::format::SEG_ENTRY_BYTES;
        u64::from(segment) / per_block as u64
    }

    fn change(&mut self, byte: u64, f: impl FnOnce(&mut SegEntry)) {
        if let Some(segment) = self.sb.segment_of(byte) {
            self.change_entry(segment, f);
        }
    }

    fn change_entry(&mut self, segment: u32, f: impl FnOnce(&mut SegEntry)) {
        let entry = grown(&mut self.entries, segment);
        self.held_bytes -= held(&self.sb, entry);
        f(entry);
        self.held_bytes += held(&self.sb, entry);
        self.tell_live(segment);
        let block = self.table_block(segment);
        self.changed.insert(block);
    }

    /// Tells policies how much of a segment lives. A pinned one that is not being filled is as good as full.
    fn tell_live(&mut self, segment: u32) {
        let entry = self.entry(segment);
        let live = entry.live_bytes.div_ceil(self.sb.geometry.frag_size);
        let info = self.tell_of(segment);
        info.live_blocks = match info.state {
            Use::Sealed | Use::Cleaning if entry.pins > 0 => info.size_blocks,
            _ => live,
        };
    }

    /// Counts bytes at byte `at` of the device as live, written `now`.
    pub(super) fn add_live(&mut self, at: u64, len: u32, now: Time) {
        self.live_bytes += u64::from(len);
        self.change(at, |e| {
            e.live_bytes += len;
            e.written = e.written.max(now);
        });
    }

    /// Counts bytes at byte `at` of the device as dead.
    pub(super) fn sub_live(&mut self, at: u64, len: u32) {
        let mut taken = 0;
        self.change(at, |e| {
            // A damaged volume may count wrong; the checker says so, this must not panic.
            taken = e.live_bytes.min(len);
            e.live_bytes -= taken;
        });
        self.live_bytes -= u64::from(taken);
    }

    /// Notes that a summary in the segment with byte `at` says of a block that it is forwarded.
    pub(super) fn note_forwards(&mut self, at: u64) {
        self.change(at, |e| e.forwards = true);
    }

    /// No block is forwarded any more.
    pub(super) fn clear_forwards(&mut self) {
        (0..self.entries.len() as u32).for_each(|segment| self.unmark(segment));
    }

    /// What the summaries of a segment say of forwarded blocks counts no more.
    fn unmark(&mut self, segment: u32) {
        let entry = self.entries.get_mut(segment as usize);
        if entry.is_some_and(|entry| std::mem::take(&mut entry.forwards)) {
            let block = self.table_block(segment);
            self.changed.insert(block);
        }
    }

    /// Blocks of the table on disk that are out of date.
    pub fn changed(&self) -> &BTreeSet<u64> {
        &self.changed
    }

    /// The blocks are being written.
    pub(super) fn clear_changed(&mut self) {
        self.changed.clear();
    }

    /// Writes the entries that block `block` of the table holds into its content.
    pub fn encode_block(&self, block: u64, raw: &mut [u8]) {
        let chunks = raw.chunks_exact_mut(crate::format::SEG_ENTRY_BYTES);
        let per_block = chunks.len();
        let first = block as u32 * per_block as u32;
        for (segment, chunk) in (first..self.count()).zip(chunks) {
            self.entry(segment).encode(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Profile;
    use twin_fs::geometry::Geometry;

    fn table() -> SegmentTable {
        let geometry = Geometry::modern(4096, 512);
        let sb =
            Superblock::plan([0; 16], Profile::Modern, geometry, 1 << 20, 32 << 20, 2).unwrap();
        SegmentTable::new(&sb, Vec::new())
    }

    #[test]
    fn clean_segments_are_taken_forward_and_around() {
        let mut table = table();
        let last = table.count() - 1;
        assert_eq!(table.take_clean(last), Some(last));
        assert_eq!(table.take_clean(last), Some(0));
        assert_eq!(table.state(0), SegmentState::Open);
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

    #[test]
    fn what_the_log_has_never_reached_takes_nothing() {
        let mut table = table();
        let last = table.count() - 1;
        table.set_open(last);
        assert_eq!((table.info().len(), table.entries().len()), (0, 0));
        let opens = table.all_info().filter(|info| info.state == Use::Open).count();
        assert_eq!((opens, table.info_of(last).state), (1, Use::Open));
        // A segment in use shows those before it, and what was said of those behind it stays true.
        let segment = table.take_clean(0).unwrap();
        table.begin(segment, 0);
        table.add_live(table.sb.segment_start(segment), 4096, Time(5));
        let shown = segment as usize + 1;
        assert_eq!((table.info().len(), table.entries().len()), (shown, shown));
        table.begin(last, 1);
        assert_eq!(table.info().len(), last as usize + 1);
        assert_eq!(table.entry(segment).live_bytes, 4096);
        let mut raw = [0xff; crate::format::SEG_ENTRY_BYTES];
        let per_block = table.sb.geometry.block_size as usize / raw.len();
        table.encode_block(u64::from(last) / per_block as u64, &mut raw);
        assert_eq!(SegEntry::decode(&raw), table.entry(last / per_block as u32 * per_block as u32));
    }

    #[test]
    fn a_pinned_segment_is_neither_clean_nor_a_victim() {
        let mut table = table();
        let segment = table.take_clean(0).unwrap();
        let at = table.sb.segment_start(segment);
        table.begin(segment, 0);
        table.add_live(at, 8192, Time(5));
        table.set_used(segment);
        table.pin(&[segment]).unwrap();
        assert_eq!(table.held_bytes(), sizing::payload(&table.sb) - 8192);
        let info = table.info()[segment as usize];
        assert_eq!(info.live_blocks, info.written_blocks);
        table.sub_live(at, 8192);
        assert_eq!((table.empty(), table.held_bytes()), (vec![], sizing::payload(&table.sb)));
        table.unpin(&[segment]).unwrap();
        assert_eq!((table.empty(), table.held_bytes()), (vec![segment], 0));
        assert!(table.unpin(&[segment]).is_err());
        table.assert_held();
    }
}
