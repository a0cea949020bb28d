//! What is known of a log-structured volume while it is checked: the inode map, the usage table,
//! and which places are in use. Inodes are read from where the inode map says, several at once.
//!
//! Contract: the changes of a repair stay in memory, over the content of the device, as those of
//! roll-forward do. Nothing is written before [`rebuild`](super::rebuild) writes all of them.

use std::collections::{BTreeMap, BTreeSet};

use twin_cache::Lbn;
use twin_check::{FoundInode, NumberState};
use twin_disk::Bytes;
use twin_fs::dinode::Dinode;
use twin_fs::quota::QuotaNote;
use twin_fs::{FsError, Ino, Result};
use twin_settings::value::bytes_for_people;

use super::CheckOptions;
use super::claims::{Claims, identity};
use super::found_snapshots::FoundSnapshots;
use super::map_entry::{LostInodes, MapEntry};
use crate::format::{BlockContents, Checkpoint, Profile, SegEntry};
use crate::partial_segments::PartialSegments;
use crate::volume_reader::VolumeReader;

/// Inodes with smaller gaps between them than this are read with one request, in bytes.
const GAP_MAX: u64 = 16 << 10;
/// The largest request, in bytes.
const RUN_MAX: u64 = 256 << 10;

/// A log as the checker of files and names sees it.
pub(super) struct LfsImage {
    pub(super) view: VolumeReader,
    pub(super) options: CheckOptions,
    /// True in a repair.
    pub(super) repairs: bool,
    pub(super) claims: Claims,
    /// The segment usage table, as it is on the device.
    pub(super) table: Vec<SegEntry>,
    /// Bytes of the ifile, by segment.
    pub(super) ifile_bytes: BTreeMap<u32, u32>,
    /// The inode map, one entry for each number.
    pub(super) map: Vec<MapEntry>,
    /// Numbers that the repair freed, with the generation that the next file gets.
    pub(super) freed: BTreeMap<Ino, u32>,
    /// Numbers that the repair freed and gave to another inode, which has no place yet.
    pub(super) replaced: BTreeSet<Ino>,
    /// What the log says of numbers whose part of the map is lost; read when first needed.
    pub(super) lost: Option<LostInodes>,
    /// Blocks of files that do not match their checksum.
    pub(super) rotten: BTreeSet<(Ino, Lbn)>,
    /// The snapshots and branches.
    pub(super) snapshots: FoundSnapshots,
    /// True if it is the state of a record, which has no log of its own and whose pins mean nothing.
    pub(super) is_record: bool,
    /// It was closed with a note that the use of its quotas is right.
    pub(super) quotas_are_counted: bool,
    /// Segments with wrong summaries: a repair moves the live blocks out of them.
    pub(super) moves: BTreeSet<u32>,
}

/// The identity of a block of a file at a place in the log.
pub(super) fn block_identity(
    ino: Ino,
    generation: u32,
    lbn: Lbn,
    at: u64,
    len: u32,
    crc: u32,
) -> u64 {
    let life_and_sum = u64::from(generation) << 32 | u64::from(crc);
    identity(&[ino, life_and_sum, lbn as u64, at, len.into()])
}

/// The identity of an inode at a place in the log. It is 0 in the classic profile, whose summaries
/// do not name inodes.
pub(super) fn inode_identity(profile: Profile, ino: Ino, at: u64, crc: u32) -> u64 {
    match profile {
        Profile::Modern => identity(&[ino, u64::MAX, at, crc.into()]),
        Profile::Classic => 0,
    }
}

impl LfsImage {
    pub(super) fn new(view: VolumeReader, options: CheckOptions) -> LfsImage {
        LfsImage {
            claims: Claims::new(&view.sb),
            view,
            options,
            repairs: false,
            table: Vec::new(),
            ifile_bytes: BTreeMap::new(),
            map: Vec::new(),
            freed: BTreeMap::new(),
            replaced: BTreeSet::new(),
            lost: None,
            rotten: BTreeSet::new(),
            snapshots: FoundSnapshots::default(),
            is_record: false,
            quotas_are_counted: false,
            moves: BTreeSet::new(),
        }
    }

    /// The same for the volume that this checkpoint leads to.
    pub(super) fn of(self, newest: Option<&Checkpoint>) -> LfsImage {
        let counted = |last: &Checkpoint| last.closed && last.quotas == QuotaNote::Counted;
        LfsImage { quotas_are_counted: newest.is_some_and(counted), ..self }
    }

    /// The same for a repair.
    pub(super) fn for_repair(self) -> LfsImage {
        LfsImage { repairs: true, ..self }
    }

    /// A note on how much of the log is in use.
    pub(super) fn usage_note(&self) -> String {
        let used = self.view.sb.segments() - self.claims.empty_segments();
        let live = bytes_for_people(self.claims.live_bytes());
        format!("{live} live in {used} of {} segments", self.view.sb.segments())
    }

    pub(super) fn entry(&self, ino: Ino) -> Option<&MapEntry> {
        self.map.get(usize::try_from(ino).ok()?)
    }

    pub(super) fn entry_mut(&mut self, ino: Ino) -> Option<&mut MapEntry> {
        self.map.get_mut(usize::try_from(ino).ok()?)
    }

    /// The first byte of an inode on the device; 0 if it was never written.
    pub(super) fn byte_of_inode(&self, ino: Ino) -> u64 {
        let size = u64::from(self.view.sb.geometry.inode_size);
        self.entry(ino).map_or(0, |entry| entry.at.saturating_mul(size))
    }

    /// Reads an inode that is in use.
    pub(super) async fn inode(&self, ino: Ino) -> Result<FoundInode> {
        let used = |entry: &&MapEntry| entry.state == NumberState::Used;
        self.entry(ino).filter(used).ok_or(FsError::NotFound)?;
        let at = self.byte_of_inode(ino);
        if let Some(d) = self.view.log_state.inode(ino) {
            return Ok(FoundInode { at, d: d.clone() });
        }
        let raw = self.view.raw_inode(at).await?;
        Ok(FoundInode { at, d: self.identify(ino, at, &raw)? })
    }

    /// Decodes an inode and checks that it is the one that the map leads to.
    fn identify(&self, ino: Ino, at: u64, raw: &Bytes) -> Result<Dinode> {
        let entry = self.entry(ino).ok_or(FsError::NotFound)?;
        self.view.inode_in(raw, at, ino, entry.generation, entry.crc)
    }

    /// Reads inodes; those whose places are near each other are read with one request.
    pub(super) async fn read_inodes(&self, some: &[Ino]) -> Vec<Result<Option<FoundInode>>> {
        let size = u64::from(self.view.sb.geometry.inode_size);
        let mut found = Vec::with_capacity(some.len());
        while let Some(rest) = some.get(found.len()..).filter(|rest| !rest.is_empty()) {
            let start = self.byte_of_inode(rest[0]);
            let (mut end, mut count) = (start.saturating_add(size), 1);
            while let Some(at) = rest.get(count).map(|&ino| self.byte_of_inode(ino))
                && (start..end.saturating_add(GAP_MAX)).contains(&at)
                && at.saturating_add(size) - start <= RUN_MAX
            {
                (end, count) = (end.max(at + size), count + 1);
            }
            let run = match count {
                // A single inode may have no place: it may be known from memory only.
                1 => None,
                _ => self.view.read(start, end - start).await.ok().map(|block| block.to_bytes()),
            };
            for &ino in &rest[..count] {
                let at = self.byte_of_inode(ino);
                let in_use = self.entry(ino).is_some_and(|entry| entry.state == NumberState::Used);
                let is_changed = self.view.log_state.inode(ino).is_some();
                found.push(match &run {
                    _ if !in_use => Ok(None),
                    // An inode that was changed in memory is not taken from the device.
                    Some(bytes) if !is_changed => {
                        let raw = bytes.slice((at - start) as usize, size as usize);
                        self.identify(ino, at, &raw).map(|d| Some(FoundInode { at, d }))
                    }
                    // If the run could not be read, each inode is read alone to find the bad one.
                    _ => self.inode(ino).await.map(Some),
                });
            }
        }
        found
    }

    /// The block of a file for which the log wrote what lies at a byte of the device.
    pub(super) async fn written_for(&self, at: u64) -> Option<(Ino, Lbn)> {
        let sb = &self.view.sb;
        let segment = sb.segment_of(at)?;
        let mut parts = PartialSegments::of(sb, segment);
        while let Ok(Some(part)) = parts.next(sb, &self.view).await {
            let start = sb.segment_start(segment) + u64::from(part.offset);
            for placed in part.summary.blocks(sb) {
                if let BlockContents::Block { ino, block, .. } = placed.what
                    && start + u64::from(placed.at) == at
                {
                    return Some((ino, block.lbn));
                }
            }
        }
        None
    }
}
