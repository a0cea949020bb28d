//! Placing: which stream of the log each piece of a log write goes to.
//!
//! A placement policy of `twin-clean` says the class of each block; class n is stream n. What is
//! given to it here is what a file system knows: block numbers are those of files, scattered by
//! inode, time is fragments that users have written, and inodes that are written together are one
//! block. The words that a policy keeps with blocks are in memory, by place, and go with the volume
//! when it is closed: a block from before is [adopted](Placement::adopt) when it is next touched.
//!
//! Contract: pure bookkeeping, nothing waits. Nothing here matters to recovery: any block may be in
//! any stream.

use twin_cache::Lbn;
use twin_clean::facts::{BlockKind, CleanerWrite, NO_SEGMENT, Needs, Setting, UserWrite, View};
use twin_clean::placement::{self, Placement};
use twin_clean::victim::{self, Candidates, VictimPolicy};
use twin_fs::{Core, FsError, Ino, Inode, Result};

use crate::build::Piece;
use crate::format::IFILE_INO;
use crate::format::{HeadPos, ImapEntry, STREAMS_MAX, Superblock};
use crate::inode_state::InodeState;
use crate::lfs::Lfs;
use crate::segments::Segments;
use crate::settings::LfsSettings;
use crate::sizing;

/// Streams that a policy gets which could use more, where the volume has room for them.
const STREAMS: usize = 6;
/// A log write has a part in a stream only if the part has so many blocks; less joins a neighbour,
/// lest summaries outweigh what they describe.
const PART_BLOCKS: u64 = 16;
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
pub(crate) struct Carry {
    word: u64,
    writes: u32,
    last_at: u64,
    youngest_at: u64,
    penultimate: f64,
    /// The time that its segment is as old as, if it is not now.
    pub(crate) written: Option<twin_rt::Time>,
}

/// The block that is asked about.
#[derive(Clone, Copy)]
struct Asked {
    number: u32,
    kind: BlockKind,
    /// First byte and length of the old copy.
    old: Option<(u64, u32)>,
    len: u32,
}

/// The policies of an open volume, and what they keep.
pub(crate) struct Placing {
    placement: Box<dyn Placement>,
    victim: Box<dyn VictimPolicy>,
    needs: Needs,
    keeps_words: bool,
    frag: u32,
    segment_frags: u32,
    setting: Setting,
    /// By segment, in the order of their places.
    records: Vec<Vec<Record>>,
    kept: usize,
    most: usize,
    open: Vec<u32>,
}

/// The placement policy of these settings on a log of so many streams.
///
/// # Errors
/// If there is none of that name, or it cannot work in a file system.
pub(crate) fn placement_of(
    settings: &LfsSettings,
    streams: usize,
) -> Result<&'static placement::Entry> {
    let name = match (settings.placement.as_str(), streams) {
        ("", 1) => placement::PLAIN,
        ("", _) => placement::APART,
        (name, _) => name,
    };
    let entry = placement::by_name(name).ok_or(FsError::Invalid("no such placement policy"))?;
    match entry.is_mountable() {
        true => Ok(entry),
        false => Err(FsError::Invalid("this placement policy works on a bare volume only")),
    }
}

impl Placing {
    /// The policies of these settings.
    ///
    /// # Errors
    /// If there are none of such names.
    pub(crate) fn new(
        sb: &Superblock,
        settings: &LfsSettings,
        streams: usize,
        memory_bytes: u64,
        seed: u64,
    ) -> Result<Placing> {
        let victim =
            victim::by_name(&settings.victim).ok_or(FsError::Invalid("no such victim policy"))?;
        let entry = placement_of(settings, streams)?;
        let frags = sb.size / u64::from(sb.shape.frag_size);
        let setting = Setting {
            blocks: frags.clamp(1 << 10, 1 << 30) as u32,
            segment_blocks: sb.segment_size / sb.shape.frag_size,
            garbage_share: 0.15,
            open_segments: streams.min(usize::from(entry.most_classes)) as u8,
            seed,
        };
        let (placement, victim) = (entry.make(&setting), victim.make(&setting));
        let needs = placement.needs().and(victim.needs());
        Ok(Placing {
            placement,
            victim,
            needs,
            keeps_words: entry.bits_per_block > 0 || needs.heat,
            frag: sb.shape.frag_size,
            segment_frags: setting.segment_blocks,
            setting,
            records: vec![Vec::new(); sb.segments as usize],
            kept: 0,
            most: (memory_bytes / MEMORY_SHARE) as usize / size_of::<Record>(),
            open: Vec::new(),
        })
    }

    /// How many segments are cleaned together.
    pub(crate) fn batch(&self) -> usize {
        self.placement.batch_segments().max(1) as usize
    }

    fn with<T>(
        &mut self,
        segments: &Segments,
        f: impl FnOnce(&mut dyn Placement, &mut dyn VictimPolicy, &View<'_>) -> T,
    ) -> T {
        let view = View {
            now: segments.now(),
            live_blocks: segments.live_bytes() / u64::from(self.frag),
            segment_blocks: self.segment_frags,
            segments: segments.facts(),
            open: &self.open,
        };
        f(&mut *self.placement, &mut *self.victim, &view)
    }

    /// A new log write begins.
    fn begin(&mut self, heads: &[HeadPos]) {
        self.open.clear();
        let open = |head: &HeadPos| if head.offset > 0 { head.segment } else { NO_SEGMENT };
        self.open.extend(heads.iter().map(open));
    }

    /// The segment to clean next, of those with at least this share of garbage.
    pub(crate) fn choose(&mut self, segments: &Segments, min_garbage_share: f64) -> Option<u32> {
        self.with(segments, |placement, victim, view| {
            let candidates = Candidates { view: *view, min_garbage_share };
            placement.victim(&candidates).or_else(|| victim.choose(&candidates))
        })
    }

    /// The segment with most garbage.
    pub(crate) fn emptiest(&mut self, segments: &Segments) -> Option<u32> {
        self.with(segments, |_, _, view| {
            let candidates = Candidates { view: *view, min_garbage_share: 0.0 };
            candidates.best(|segment| segment.garbage_share())
        })
    }

    /// A segment is about to be cleaned.
    pub(crate) fn collected(&mut self, segments: &Segments, segment: u32) {
        self.with(segments, |placement, _, view| {
            placement.collected(&view.segments[segment as usize], view);
        });
    }

    /// A segment is full.
    pub(crate) fn sealed(&mut self, segments: &Segments, segment: u32) {
        self.with(segments, |placement, _, view| {
            placement.sealed(&view.segments[segment as usize], view);
        });
    }

    /// A segment is filled anew: nothing that was in it counts.
    pub(crate) fn forget(&mut self, segment: u32) {
        let records = std::mem::take(&mut self.records[segment as usize]);
        self.kept -= records.len();
    }

    /// By what blocks that are moved together are sorted: the block at byte `at`.
    pub(crate) fn age_key(&self, segments: &Segments, at: u64) -> u64 {
        let segment = segments.segment_of(at);
        let Some(records) = self.records.get(segment as usize) else { return 0 };
        let frag = at / u64::from(self.frag);
        match records.binary_search_by_key(&frag, |record| record.frag) {
            Ok(found) => self.placement.age_key(records[found].word),
            Err(_) => segments.facts()[segment as usize].youngest_at,
        }
    }

    /// Takes what is kept of the block whose copy at `old` dies.
    fn take(&mut self, segments: &mut Segments, old: Option<(u64, u32)>) -> Carry {
        let Some((at, len)) = old else { return Carry::default() };
        let segment = segments.segment_of(at);
        let Some(records) = self.records.get_mut(segment as usize) else {
            return Carry::default();
        };
        let facts = segments.facts()[segment as usize];
        let (youngest_at, penultimate) = (facts.youngest_at, facts.penultimate_at());
        let mut carry = Carry { youngest_at, penultimate, ..Carry::default() };
        if !self.keeps_words {
            return carry;
        }
        let frag = at / u64::from(self.frag);
        let found = records.binary_search_by_key(&frag, |record| record.frag).ok();
        match found.filter(|&found| !records[found].is_dead) {
            Some(found) => {
                let record = &mut records[found];
                record.is_dead = true;
                (carry.word, carry.writes, carry.last_at) =
                    (record.word, record.writes, record.last_at);
                let (record, units) = (*record, u64::from(len / self.frag));
                if let Some(facts) = segments.facts_at(at) {
                    let heat = &mut facts.heat;
                    heat.writes = heat.writes.saturating_sub(u64::from(record.writes) * units);
                    heat.last_at = heat.last_at.saturating_sub(record.last_at * units);
                }
            }
            None => {
                carry.last_at = youngest_at;
                self.with(segments, |placement, _, view| {
                    placement.adopt(youngest_at, &mut carry.word, view);
                });
            }
        }
        carry
    }

    /// The class of a block that a user writes.
    fn user(&mut self, segments: &mut Segments, asked: Asked) -> (u8, Carry) {
        let mut carry = self.take(segments, asked.old);
        let now = segments.now();
        let old_segment = asked.old.map_or(NO_SEGMENT, |(at, _)| segments.segment_of(at));
        let (block, kind) = (asked.number, asked.kind);
        let write = UserWrite { block, old_segment, kind, lifetime_writes: 0 };
        let class = self.with(segments, |placement, _, view| {
            placement.user_write(&write, &mut carry.word, view)
        });
        carry.penultimate = match old_segment {
            NO_SEGMENT => 0.0,
            _ => (carry.penultimate + now as f64) / 2.0,
        };
        (carry.writes, carry.last_at) = (carry.writes.saturating_add(1), now);
        carry.youngest_at = now;
        segments.advance(asked.len);
        (class, carry)
    }

    /// The class of a block that the cleaner moves.
    fn moved(&mut self, segments: &mut Segments, asked: Asked) -> (u8, Carry) {
        let mut carry = self.take(segments, asked.old);
        let Some((at, _)) = asked.old else { return (0, carry) };
        let victim = segments.segment_of(at);
        carry.written = segments.written_at(victim);
        let victim_class = segments.facts().get(victim as usize).map_or(0, |facts| facts.class);
        let (block, kind) = (asked.number, asked.kind);
        let write = CleanerWrite { block, victim, victim_class, kind };
        let class = self.with(segments, |placement, _, view| {
            placement.cleaner_write(&write, &mut carry.word, view)
        });
        (class, carry)
    }

    /// A block has come to its new place.
    pub(crate) fn landed(&mut self, segments: &mut Segments, at: u64, len: u32, carry: &Carry) {
        let units = len / self.frag;
        if let Some(facts) = segments.facts_at(at) {
            facts.youngest_at = facts.youngest_at.max(carry.youngest_at);
            facts.penultimate_sum += carry.penultimate * f64::from(units);
            facts.heat.writes += u64::from(carry.writes) * u64::from(units);
            facts.heat.last_at += carry.last_at * u64::from(units);
        }
        if !self.keeps_words {
            return;
        }
        let segment = segments.segment_of(at);
        let Some(records) = self.records.get_mut(segment as usize) else { return };
        let Carry { word, writes, last_at, .. } = *carry;
        let record =
            Record { frag: at / u64::from(self.frag), word, writes, last_at, is_dead: false };
        // Several inodes share a fragment in the classic profile.
        if records.last().is_none_or(|last| last.frag < record.frag) {
            records.push(record);
            self.kept += 1;
        }
        if self.kept > self.most {
            self.forget_oldest(segments);
        }
    }

    /// Memory is short: what was written longest ago is as if it had never been seen.
    fn forget_oldest(&mut self, segments: &mut Segments) {
        let facts = segments.facts();
        let kept = (0..facts.len()).filter(|&s| !self.records[s].is_empty());
        if let Some(oldest) = kept.min_by_key(|&s| facts[s].serial) {
            self.forget(oldest as u32);
        }
    }

    /// A block has been deleted.
    pub(crate) fn trimmed(&mut self, segments: &mut Segments, at: u64, len: u32) {
        if !self.keeps_words {
            return;
        }
        let mut carry = self.take(segments, Some((at, len)));
        let segment = segments.segment_of(at);
        self.with(segments, |placement, _, view| {
            placement.trimmed(0, segment, &mut carry.word, view);
        });
    }

    /// The number of a block of a file, below that of all blocks: neighbours are neighbours.
    fn number(&self, ino: Ino, lbn: Lbn) -> u32 {
        let scattered = (ino.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).wrapping_add(lbn as u64);
        (scattered % u64::from(self.setting.blocks)) as u32
    }
}

impl Lfs {
    /// The stream of each piece, and what goes with it.
    pub(crate) fn assign(&self, core: &Core, pieces: &[Piece], cleaner: bool) -> Vec<(u8, Carry)> {
        let mut log = self.log.borrow_mut();
        let mut placing = self.placing.borrow_mut();
        placing.begin(&log.heads);
        let top = log.heads.len() as u8 - 1;
        let mut out: Vec<(u8, Carry)> = Vec::with_capacity(pieces.len());
        let mut bytes = [0u64; STREAMS_MAX];
        for (nth, piece) in pieces.iter().enumerate() {
            if placing.needs.requests && !cleaner {
                self.tell_request(&mut placing, &log.segments, pieces, nth);
            }
            let Some(asked) = self.asked(core, &placing, piece) else {
                let stream = out.last().map_or(0, |&(stream, _)| stream);
                out.push((stream, Carry::default()));
                continue;
            };
            let (class, carry) = match cleaner {
                true => placing.moved(&mut log.segments, asked),
                false => placing.user(&mut log.segments, asked),
            };
            let class = class.min(top);
            bytes[usize::from(class)] += u64::from(asked.len);
            out.push((class, carry));
        }
        let least = u64::from(self.sb.shape.block_size) * PART_BLOCKS;
        let joins = join_small(&bytes, least);
        out.iter_mut().for_each(|(stream, _)| *stream = joins[usize::from(*stream)]);
        out
    }

    /// Tells of the run of blocks that begins with this piece, unless it goes on with one.
    fn tell_request(&self, placing: &mut Placing, segments: &Segments, all: &[Piece], nth: usize) {
        let at = |nth: usize| match all.get(nth) {
            Some(Piece::Block { inode, frame, .. }) => Some((inode.ino, frame.lbn())),
            _ => None,
        };
        let Some((ino, lbn)) = at(nth) else { return };
        if nth > 0 && at(nth - 1) == Some((ino, lbn - 1)) {
            return;
        }
        let run = (1..).take_while(|&n| at(nth + n) == Some((ino, lbn + n as Lbn))).count() + 1;
        let first = placing.number(ino, lbn);
        let blocks = (run as u32).min(placing.setting.blocks - first);
        placing.with(segments, |placement, _, view| placement.request(first, blocks, view));
    }

    /// The piece as a block; none if it takes no room.
    fn asked(&self, core: &Core, placing: &Placing, piece: &Piece) -> Option<Asked> {
        let shape = &self.sb.shape;
        let inode_size = u64::from(shape.inode_size);
        let old_inode = |entry| match entry {
            ImapEntry::Used { at, .. } if at != 0 => Some((at * inode_size, shape.inode_size)),
            _ => None,
        };
        let asked = match piece {
            Piece::Block { inode, frame, len, .. } => {
                let old = core.resident_ptr(inode, frame.lbn()).filter(|ptr| ptr.is_on_disk());
                Asked {
                    number: placing.number(inode.ino, frame.lbn()),
                    kind: kind_of(inode, frame.lbn()),
                    old: old.map(|ptr| (shape.byte_of(ptr.addr), ptr.len)),
                    len: *len,
                }
            }
            Piece::Inodes(list) => {
                let inode = list.first()?;
                let anchor = InodeState::of(inode).map_block();
                let entry = anchor.as_ref().map(|anchor| self.entry_in(anchor, inode.ino));
                let is_dir = inode.d.borrow().kind() == twin_fs::mode::DIRECTORY;
                Asked {
                    number: placing.number(inode.ino, 0),
                    kind: if is_dir { BlockKind::DirectoryInode } else { BlockKind::Inode },
                    old: entry.and_then(old_inode),
                    len: list.len() as u32 * shape.inode_size,
                }
            }
            Piece::RawInodes(list) => {
                let raw = list.first()?;
                Asked {
                    number: placing.number(raw.ino, 0),
                    kind: BlockKind::Inode,
                    old: old_inode(self.entry_in(&raw.anchor, raw.ino)),
                    len: list.len() as u32 * shape.inode_size,
                }
            }
            Piece::Freed { .. } => return None,
        };
        Some(asked)
    }

    /// Streams beyond the two that the reserve has room for.
    pub(crate) fn more_streams(&self) -> u64 {
        sizing::more_streams(self.log.borrow().heads.len())
    }

    /// Gives the log the streams that the placement policy can use, and the policy its streams.
    ///
    /// # Errors
    /// If the volume is too small, or too full, for those that the policy needs.
    pub(crate) fn set_streams(&self, core: &Core) -> Result<()> {
        let before = self.log.borrow().heads.len();
        if self.settings.placement.is_empty() {
            return Ok(());
        }
        let entry = placement_of(&self.settings, before)?;
        let clean = self.log.borrow().segments.clean_count() as usize;
        let fits = |&streams: &usize| {
            let more = 3 * streams.saturating_sub(2) as u64;
            streams <= 2.max(before)
                || (more * 12 <= u64::from(self.sb.segments)
                    && 2 * (streams - before.min(streams)) + 4 <= clean
                    && self.reservations.used() <= sizing::capacity(&self.sb, more))
        };
        let most = usize::from(entry.most_classes).min(STREAMS);
        let streams = (1..=most).rev().find(fits).unwrap_or(1);
        if streams < usize::from(entry.classes) {
            return Err(FsError::Invalid(
                "the volume has no room for as many streams as this placement policy needs: \
                 choose twin, sep-gc or none, or clean the volume first",
            ));
        }
        let mut log = self.log.borrow_mut();
        while log.heads.len() > streams {
            if let Some(head) = log.heads.pop() {
                // The log since the last checkpoint may be there, though nothing of it lives.
                log.segments.set_used(head.segment);
                log.segments.set_clean(head.next);
            }
        }
        while log.heads.len() < streams {
            let from =
                (u64::from(self.sb.segments) * log.heads.len() as u64 / streams as u64) as u32;
            let taken = (log.segments.take_clean(from), log.segments.take_clean(from));
            let (Some(segment), Some(next)) = taken else {
                return Err(FsError::inconsistent("the log has no clean segments for its streams"));
            };
            let stream = log.heads.len() as u8;
            log.segments.begin(segment, stream);
            log.heads.push(HeadPos { segment, offset: 0, next });
        }
        drop(log);
        let seed = core.rt.rng("cleaner policies").next_u64();
        let memory = core.settings.cache_bytes;
        *self.placing.borrow_mut() = Placing::new(&self.sb, &self.settings, streams, memory, seed)?;
        self.reservations.set_limit(sizing::capacity(&self.sb, 3 * self.more_streams()));
        Ok(())
    }
}

/// What a block of a file is.
fn kind_of(inode: &Inode, lbn: Lbn) -> BlockKind {
    match lbn {
        _ if inode.ino == IFILE_INO => BlockKind::Inode,
        ..0 => BlockKind::Indirect,
        _ if inode.d.borrow().kind() == twin_fs::mode::DIRECTORY => BlockKind::Directory,
        _ => BlockKind::Data,
    }
}

/// Where each stream's part goes: to its own stream if it has `least` bytes, else to the nearest
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
    fn a_small_part_joins_its_nearest_neighbour() {
        let mut bytes = [0; STREAMS_MAX];
        (bytes[0], bytes[1], bytes[4]) = (100, 5, 100);
        let joins = join_small(&bytes, 50);
        assert_eq!((joins[0], joins[1], joins[4]), (0, 0, 4));
        assert_eq!(join_small(&bytes, 500)[1], 0, "all small: where most is");
    }
}
