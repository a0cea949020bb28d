//! The policies of cleaning on an open volume: which stream of the log each block of a log write
//! goes to, and which segments are cleaned.
//!
//! A placement policy of `twin-clean` says the class of each block; class n is stream n. What is
//! given to it here is what a file system knows: block numbers are those of files, scattered by
//! inode, time is fragments that users have written, and inodes that are written together are one
//! block. The words that a policy keeps with blocks are in memory, by place, and go with the volume
//! when it is closed: a block from before is [imported](Placement::import_block) when it is next
//! touched.
//!
//! Contract: pure bookkeeping, nothing waits. Nothing here matters to recovery: any block may be in
//! any stream.

use twin_cache::Lbn;
use twin_clean::inputs::{
    BlockKind, CleanerWrite, LogView, MovedBlock, NO_SEGMENT, Needs, Setting, UserWrite,
};
use twin_clean::placement::{self, Placement};
use twin_clean::victim::{self, Candidates, VictimPolicy};
use twin_fs::{FsError, Ino, Result};

use super::table::SegmentTable;
use crate::format::{HeadPos, STREAMS_MAX, Superblock};
use crate::settings::LfsSettings;

/// The least number of blocks for which a log write uses a stream; fewer join those of a neighbour,
/// lest summaries outweigh what they describe.
const LEAST_BLOCKS: u64 = 16;
/// Blocks of which words are kept take this part of the cache's memory at the most.
const MEMORY_SHARE: u64 = 8;

/// What is kept with a block.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// Fragment of the device.
    frag: u64,
    word: u64,
    /// User writes that were seen.
    writes: u32,
    /// When the last of them was.
    last_at: u64,
    /// The block has gone elsewhere.
    is_dead: bool,
}

/// What goes with a block from its old place to its new one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockHistory {
    word: u64,
    writes: u32,
    last_at: u64,
    youngest_at: u64,
    penultimate: f64,
    /// The time that its segment is as old as, if it is not now.
    pub(crate) written: Option<twin_rt::Time>,
}

/// A block that is about to get a place in the log.
#[derive(Clone, Copy)]
pub(crate) struct BlockToPlace {
    /// Its file, or the first inode of a block of inodes.
    pub(crate) ino: Ino,
    /// Its number in the file; none of a block of inodes.
    pub(crate) lbn: Option<Lbn>,
    pub(crate) kind: BlockKind,
    /// First byte and length of the old copy.
    pub(crate) old: Option<(u64, u32)>,
    pub(crate) len: u32,
}

/// The policies of an open volume, and what they keep.
pub(super) struct CleaningPolicies {
    placement: Box<dyn Placement>,
    victim: Box<dyn VictimPolicy>,
    needs: Needs,
    keeps_words: bool,
    frag: u32,
    block_size: u32,
    segment_frags: u32,
    setting: Setting,
    /// By segment, as far as there are any, in the order of their places.
    records: Vec<Vec<Record>>,
    kept: usize,
    most: usize,
    open: Vec<u32>,
}

/// The placement policy of these settings on a log with this number of streams.
///
/// # Errors
/// If there is none of that name, or it cannot work in a file system.
pub(crate) fn placement_of(
    settings: &LfsSettings,
    streams: usize,
) -> Result<&'static placement::PlacementEntry> {
    let name = match (settings.placement.as_str(), streams) {
        ("", 1) => placement::PLAIN,
        ("", _) => placement::APART,
        (name, _) => name,
    };
    let entry =
        placement::REGISTRY.get(name).map_err(|_| FsError::Invalid("no such placement policy"))?;
    match entry.is_mountable() {
        true => Ok(entry),
        false => Err(FsError::Invalid("this placement policy works on a bare volume only")),
    }
}

impl CleaningPolicies {
    /// The policies of these settings.
    pub(super) fn new(
        sb: &Superblock,
        settings: &LfsSettings,
        streams: usize,
        memory_bytes: u64,
        seed: u64,
    ) -> Result<CleaningPolicies> {
        let victim = victim::REGISTRY
            .get(&settings.victim)
            .map_err(|_| FsError::Invalid("no such victim policy"))?;
        let entry = placement_of(settings, streams)?;
        let frags = sb.size() / u64::from(sb.geometry.frag_size);
        let setting = Setting {
            blocks: frags.clamp(1 << 10, 1 << 30) as u32,
            segment_blocks: sb.segment_size / sb.geometry.frag_size,
            garbage_share: 0.15,
            open_segments: streams.min(usize::from(entry.most_classes)) as u8,
            seed,
        };
        let (placement, victim) = (entry.make(&setting), victim.make(&setting));
        let needs = placement.needs().and(victim.needs());
        Ok(CleaningPolicies {
            placement,
            victim,
            needs,
            keeps_words: entry.bits_per_block > 0 || needs.heat,
            frag: sb.geometry.frag_size,
            block_size: sb.geometry.block_size,
            segment_frags: setting.segment_blocks,
            setting,
            records: Vec::new(),
            kept: 0,
            most: (memory_bytes / MEMORY_SHARE) as usize / size_of::<Record>(),
            open: Vec::new(),
        })
    }

    /// How many segments are cleaned together.
    pub(super) fn batch(&self) -> usize {
        self.placement.batch_segments().max(1) as usize
    }

    fn with<T>(
        &mut self,
        table: &SegmentTable,
        f: impl FnOnce(&mut dyn Placement, &mut dyn VictimPolicy, &LogView<'_>) -> T,
    ) -> T {
        let view = LogView {
            now: table.now(),
            live_blocks: table.live_bytes() / u64::from(self.frag),
            segment_blocks: self.segment_frags,
            segments: table.info(),
            open: &self.open,
        };
        f(&mut *self.placement, &mut *self.victim, &view)
    }

    /// A log write begins.
    fn begin(&mut self, heads: &[HeadPos]) {
        self.open.clear();
        let open = |head: &HeadPos| if head.offset > 0 { head.segment } else { NO_SEGMENT };
        self.open.extend(heads.iter().map(open));
    }

    /// The segment to clean next, of those with at least this share of garbage.
    pub(super) fn choose(&mut self, table: &SegmentTable, min_garbage_share: f64) -> Option<u32> {
        self.with(table, |placement, victim, view| {
            let candidates = Candidates { view: *view, min_garbage_share };
            placement.victim(&candidates).or_else(|| victim.choose(&candidates))
        })
    }

    /// The segment with most garbage.
    pub(super) fn emptiest(&mut self, table: &SegmentTable) -> Option<u32> {
        self.with(table, |_, _, view| {
            let candidates = Candidates { view: *view, min_garbage_share: 0.0 };
            candidates.best(|segment| segment.garbage_share())
        })
    }

    /// A segment is about to be cleaned.
    pub(super) fn collected(&mut self, table: &SegmentTable, segment: u32) {
        self.with(table, |placement, _, view| {
            placement.collected(&view.segments[segment as usize], view);
        });
    }

    /// A segment is full.
    pub(super) fn sealed(&mut self, table: &SegmentTable, segment: u32) {
        self.with(table, |placement, _, view| {
            placement.sealed(&view.segments[segment as usize], view);
        });
    }

    /// A segment is filled anew: nothing that was in it counts.
    pub(super) fn forget(&mut self, segment: u32) {
        if let Some(records) = self.records.get_mut(segment as usize) {
            self.kept -= std::mem::take(records).len();
        }
    }

    /// By what blocks that are moved together are sorted: the block at byte `at`, with this number in
    /// this file.
    pub(super) fn move_key(
        &self,
        table: &SegmentTable,
        at: u64,
        file: u64,
        number: i64,
    ) -> (u64, i64) {
        let segment = table.segment_of(at);
        if segment == NO_SEGMENT {
            return (0, 0);
        }
        let records = self.records.get(segment as usize).map_or(&[][..], Vec::as_slice);
        let frag = at / u64::from(self.frag);
        let word = match records.binary_search_by_key(&frag, |record| record.frag) {
            Ok(found) => records[found].word,
            Err(_) => table.info_of(segment).youngest_at,
        };
        self.placement.move_key(&MovedBlock { word, file, number })
    }

    /// Takes what is kept of the block whose copy at `old` dies.
    fn take(&mut self, table: &mut SegmentTable, old: Option<(u64, u32)>) -> BlockHistory {
        let Some((at, len)) = old else { return BlockHistory::default() };
        let segment = table.segment_of(at);
        if segment == NO_SEGMENT {
            return BlockHistory::default();
        }
        // Policies look there. On a damaged volume a block may lie where the log has never been.
        table.tell_of(segment);
        let info = table.info_of(segment);
        let (youngest_at, penultimate) = (info.youngest_at, info.penultimate_at());
        let mut history = BlockHistory { youngest_at, penultimate, ..BlockHistory::default() };
        if !self.keeps_words {
            return history;
        }
        let records = self.records.get_mut(segment as usize).map_or(&mut [][..], Vec::as_mut_slice);
        let frag = at / u64::from(self.frag);
        let found = records.binary_search_by_key(&frag, |record| record.frag).ok();
        match found.filter(|&found| !records[found].is_dead) {
            Some(found) => {
                let record = &mut records[found];
                record.is_dead = true;
                (history.word, history.writes, history.last_at) =
                    (record.word, record.writes, record.last_at);
                let (record, units) = (*record, u64::from(len / self.frag));
                if let Some(info) = table.info_at(at) {
                    let heat = &mut info.heat;
                    heat.writes = heat.writes.saturating_sub(u64::from(record.writes) * units);
                    heat.last_at = heat.last_at.saturating_sub(record.last_at * units);
                }
            }
            None => {
                history.last_at = youngest_at;
                self.with(table, |placement, _, view| {
                    placement.import_block(youngest_at, &mut history.word, view);
                });
            }
        }
        history
    }

    /// The class of a block that a user writes.
    fn user(&mut self, table: &mut SegmentTable, block: BlockToPlace) -> (u8, BlockHistory) {
        let mut history = self.take(table, block.old);
        let now = table.now();
        let old_segment = block.old.map_or(NO_SEGMENT, |(at, _)| table.segment_of(at));
        let (number, kind) = (self.number(block.ino, block.lbn), block.kind);
        let write = UserWrite { block: number, old_segment, kind, lifetime_writes: 0 };
        let class = self.with(table, |placement, _, view| {
            placement.user_write(&write, &mut history.word, view)
        });
        history.penultimate = match old_segment {
            NO_SEGMENT => 0.0,
            _ => (history.penultimate + now as f64) / 2.0,
        };
        (history.writes, history.last_at) = (history.writes.saturating_add(1), now);
        history.youngest_at = now;
        table.advance(block.len);
        (class, history)
    }

    /// The class of a block that the cleaner moves.
    fn moved(&mut self, table: &mut SegmentTable, block: BlockToPlace) -> (u8, BlockHistory) {
        let mut history = self.take(table, block.old);
        let Some((at, _)) = block.old else { return (0, history) };
        let victim = table.segment_of(at);
        history.written = table.written_at(victim);
        let victim_class = table.info().get(victim as usize).map_or(0, |info| info.class);
        let (number, kind) = (self.number(block.ino, block.lbn), block.kind);
        let write = CleanerWrite { block: number, victim, victim_class, kind };
        let class = self.with(table, |placement, _, view| {
            placement.cleaner_write(&write, &mut history.word, view)
        });
        (class, history)
    }

    /// A block has come to its new place.
    pub(super) fn block_placed(
        &mut self,
        table: &mut SegmentTable,
        at: u64,
        len: u32,
        history: &BlockHistory,
    ) {
        let units = len / self.frag;
        if let Some(info) = table.info_at(at) {
            info.youngest_at = info.youngest_at.max(history.youngest_at);
            info.penultimate_sum += history.penultimate * f64::from(units);
            info.heat.writes += u64::from(history.writes) * u64::from(units);
            info.heat.last_at += history.last_at * u64::from(units);
        }
        if !self.keeps_words {
            return;
        }
        let segment = table.segment_of(at);
        if segment == NO_SEGMENT {
            return;
        }
        if self.records.len() <= segment as usize {
            self.records.resize(segment as usize + 1, Vec::new());
        }
        let records = &mut self.records[segment as usize];
        let BlockHistory { word, writes, last_at, .. } = *history;
        let record =
            Record { frag: at / u64::from(self.frag), word, writes, last_at, is_dead: false };
        // Several inodes share a fragment in the classic profile.
        if records.last().is_none_or(|last| last.frag < record.frag) {
            records.push(record);
            self.kept += 1;
        }
        if self.kept > self.most {
            self.forget_oldest(table);
        }
    }

    /// Memory is short: what was written longest ago is as if it had never been seen.
    fn forget_oldest(&mut self, table: &mut SegmentTable) {
        let kept = (0u32..).zip(&self.records).filter(|(_, records)| !records.is_empty());
        if let Some((oldest, _)) = kept.min_by_key(|(segment, _)| table.info_of(*segment).serial) {
            self.forget(oldest);
        }
    }

    /// A block has been deleted.
    pub(super) fn trimmed(&mut self, table: &mut SegmentTable, at: u64, len: u32) {
        if !self.keeps_words {
            return;
        }
        let mut history = self.take(table, Some((at, len)));
        let segment = table.segment_of(at);
        self.with(table, |placement, _, view| {
            placement.trimmed(0, segment, &mut history.word, view);
        });
    }

    /// The number of a block of a file, below that of all blocks: neighbours are neighbours.
    fn number(&self, ino: Ino, lbn: Option<Lbn>) -> u32 {
        let lbn = lbn.unwrap_or(0);
        let scattered = (ino.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).wrapping_add(lbn as u64);
        (scattered % u64::from(self.setting.blocks)) as u32
    }

    /// The stream of each block of a log write, and what goes with it. None: it takes no room, and
    /// goes with the one before it.
    pub(super) fn choose_streams(
        &mut self,
        table: &mut SegmentTable,
        heads: &[HeadPos],
        blocks: &[Option<BlockToPlace>],
        is_cleaner: bool,
    ) -> Vec<(u8, BlockHistory)> {
        self.begin(heads);
        let top = heads.len() as u8 - 1;
        let mut out: Vec<(u8, BlockHistory)> = Vec::with_capacity(blocks.len());
        let mut bytes = [0u64; STREAMS_MAX];
        for (nth, block) in blocks.iter().enumerate() {
            if self.needs.requests && !is_cleaner {
                self.tell_request(table, blocks, nth);
            }
            let Some(block) = *block else {
                let stream = out.last().map_or(0, |&(stream, _)| stream);
                out.push((stream, BlockHistory::default()));
                continue;
            };
            let (class, history) = match is_cleaner {
                true => self.moved(table, block),
                false => self.user(table, block),
            };
            let class = class.min(top);
            bytes[usize::from(class)] += u64::from(block.len);
            out.push((class, history));
        }
        let joins = join_small(&bytes, u64::from(self.block_size) * LEAST_BLOCKS);
        out.iter_mut().for_each(|(stream, _)| *stream = joins[usize::from(*stream)]);
        out
    }

    /// Tells of the run of blocks that begins with this one, unless it goes on with one.
    fn tell_request(&mut self, table: &SegmentTable, all: &[Option<BlockToPlace>], nth: usize) {
        let at = |nth: usize| {
            let block = (*all.get(nth)?)?;
            Some((block.ino, block.lbn?))
        };
        let Some((ino, lbn)) = at(nth) else { return };
        if nth > 0 && at(nth - 1) == Some((ino, lbn - 1)) {
            return;
        }
        let run = (1..).take_while(|&n| at(nth + n) == Some((ino, lbn + n as Lbn))).count() + 1;
        let first = self.number(ino, Some(lbn));
        let blocks = (run as u32).min(self.setting.blocks - first);
        self.with(table, |placement, _, view| placement.request(first, blocks, view));
    }
}

/// Where the blocks of each stream go: to their own stream if it has `least` bytes, else to the nearest
/// stream that has, else to the one with most.
fn join_small(bytes: &[u64; STREAMS_MAX], least: u64) -> [u8; STREAMS_MAX] {
    let large = |stream: &usize| bytes[*stream] >= least;
    let most = (0..STREAMS_MAX).rev().max_by_key(|&stream| bytes[stream]).unwrap_or(0);
    std::array::from_fn(|stream| {
        let to = match large(&stream) {
            true => Some(stream),
            false => (0..STREAMS_MAX).filter(large).min_by_key(|other| other.abs_diff(stream)),
        };
        to.unwrap_or(most) as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_blocks_join_the_nearest_stream() {
        let mut bytes = [0; STREAMS_MAX];
        (bytes[0], bytes[1], bytes[4]) = (100, 5, 100);
        let joins = join_small(&bytes, 50);
        assert_eq!((joins[0], joins[1], joins[4]), (0, 0, 4));
        assert_eq!(join_small(&bytes, 500)[1], 0, "all small: where most is");
    }
}
