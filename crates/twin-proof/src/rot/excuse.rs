//! What of a rotten volume nobody has to find, and why.
//!
//! Contract: what is in use is found here without the layout's code: of a log from the pointers on the image
//! ([`recount`](crate::recount)), of a clustered volume from the places of its structures.

use std::ops::Range;

use twin_disk::{Block, Bytes};
use twin_ffs::format::{CgImage, Superblock as FfsSuperblock};
use twin_fs::dinode::Dinode;
use twin_lfs::format::{CHECKPOINT_BYTES, SUPERBLOCK_BYTES, Summary, Superblock as LfsSuperblock};
use twin_sim::Platter;

use super::disk::UNIT;
use super::volume::MARK;
use super::{Fault, Rotting};
use crate::recount::live_places;

/// The reason why a fault need not be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Excuse {
    /// Nothing in use has changed.
    Dead,
    /// The slot of the older checkpoint has one that is older still.
    OlderCheckpoint,
    /// A closed volume says that it was not, so that the next start replays a journal without records; or
    /// it has a region in doubt, and its checksums are computed anew.
    OlderState,
    /// Opening the volume wrote it anew, so that a scrub has nothing to find.
    Replaced,
    /// The format has no checksum of file data.
    UncheckedData,
    /// The format has no checksum for the block, of a directory, an index, attributes, a link, or pointers.
    UncheckedMeta,
    /// A table of checksums as it was before, which does not know some: these are not compared.
    OlderSums,
    /// A block of inodes as it was before: each inode has its own checksum, and nothing has one of them all.
    OlderInodes,
}

impl Excuse {
    /// The reason in words.
    pub fn reason(self) -> &'static str {
        match self {
            Excuse::Dead => "changed nothing that is in use",
            Excuse::OlderCheckpoint => {
                "put an older checkpoint in the place of the last but one, which nobody needs"
            }
            Excuse::OlderState => {
                "say that the volume was not closed, or that a region is in doubt: looked at needlessly"
            }
            Excuse::Replaced => {
                "are of blocks that opening the volume writes anew: not for a scrub"
            }
            Excuse::OlderSums => {
                "put back a table that knows fewer checksums: those are not compared"
            }
            Excuse::OlderInodes => "put back older inodes, whose own checksums are right",
            Excuse::UncheckedData => "are of file data, for which the format has no checksum",
            Excuse::UncheckedMeta => {
                "are of directories, pointers and the like, for which the format has no checksum"
            }
        }
    }

    /// True if it also excuses wrong data.
    pub(super) fn covers_wrong_data(self) -> bool {
        matches!(self, Excuse::UncheckedData | Excuse::UncheckedMeta | Excuse::OlderInodes)
    }
}

/// The excuses of one volume.
pub(super) struct Excuses {
    /// What is in use, by first byte and end, and whether the format has a checksum for it.
    live: Vec<(Range<usize>, bool)>,
    /// Units with tables of checksums.
    sums: Vec<usize>,
    /// Tables of inodes, where the format has no checksum of a whole block.
    tables: Vec<Range<usize>>,
    /// The units with checkpoints of a log.
    checkpoints: Vec<usize>,
    /// The units with the state of a clustered volume, and with the regions in doubt.
    state: Vec<usize>,
}

impl Excuses {
    pub(super) fn new(rotting: &Rotting, image: &[u8]) -> Result<Excuses, String> {
        match rotting.kind.name() {
            "lfs" => of_log(image),
            "ffs" => of_clustered(image),
            other => Err(format!("it is not known what {other} has in use")),
        }
    }

    /// True if something in use is changed.
    pub(super) fn is_hit(&self, unit: usize, good: &[u8], bad: &[u8]) -> bool {
        self.live.iter().any(|(range, _)| is_changed(range, unit, good, bad))
    }

    /// True if a sector in use is changed that does not begin with `mark`.
    pub(super) fn is_hit_beside(&self, mark: &str, unit: usize, good: &[u8], bad: &[u8]) -> bool {
        let mut sectors =
            (0..UNIT).step_by(512).filter(|&at| !good[at..].starts_with(mark.as_bytes()));
        sectors.any(|at| {
            let part = unit * UNIT + at..unit * UNIT + at + 512;
            let overlaps = |range: &Range<usize>| range.start < part.end && range.end > part.start;
            self.live.iter().any(|(range, _)| overlaps(range)) && is_changed(&part, unit, good, bad)
        })
    }

    pub(super) fn of(&self, unit: usize, fault: Fault, good: &[u8], bad: &[u8]) -> Option<Excuse> {
        let changed = |range: &Range<usize>| is_changed(range, unit, good, bad);
        let hit: Vec<_> = self.live.iter().filter(|(range, _)| changed(range)).collect();
        if hit.is_empty() {
            return Some(Excuse::Dead);
        }
        if fault == Fault::Stale && self.checkpoints.contains(&unit) {
            return Some(Excuse::OlderCheckpoint);
        }
        if fault == Fault::Stale && self.state.contains(&unit) {
            return Some(Excuse::OlderState);
        }
        if fault == Fault::Stale && self.sums.contains(&unit) {
            return Some(Excuse::OlderSums);
        }
        if fault == Fault::Stale && self.tables.iter().any(changed) {
            return Some(Excuse::OlderInodes);
        }
        let unchecked = match good.starts_with(MARK.as_bytes()) {
            true => Excuse::UncheckedData,
            false => Excuse::UncheckedMeta,
        };
        hit.iter().all(|(_, has_checksum)| !has_checksum).then_some(unchecked)
    }
}

/// True if a part of the image is changed, if a unit of it is.
fn is_changed(range: &Range<usize>, unit: usize, good: &[u8], bad: &[u8]) -> bool {
    let start = unit * UNIT;
    let part = range.start.max(start)..range.end.min(start + UNIT);
    part.start < part.end && {
        let part = part.start - start..part.end - start;
        good[part.clone()] != bad[part]
    }
}

fn of_log(image: &[u8]) -> Result<Excuses, String> {
    let size = image.len() as u64;
    let mut platter = Platter::new(size);
    platter.write(0, &[Block::Bytes(Bytes::copy_of(image))]);
    let sb = LfsSuperblock::decode(image, 0, size).map_err(|e| e.to_string())?;
    let places = live_places(&platter)?;
    let mut live: Vec<Range<usize>> =
        places.iter().map(|&(at, len)| at as usize..at as usize + len as usize).collect();
    for at in LfsSuperblock::places(size, sb.copies) {
        live.push(at as usize..(at + SUPERBLOCK_BYTES) as usize);
    }
    let mut checkpoints = Vec::new();
    for slot in 0..2 {
        for at in sb.checkpoint_places(slot) {
            live.push(at as usize..(at + CHECKPOINT_BYTES) as usize);
            checkpoints.push(at as usize / UNIT);
        }
    }
    for segment in 0..sb.segments() {
        let start = sb.segment_start(segment);
        let ends =
            places.iter().map(|(at, _)| *at).filter(|&at| sb.segment_of(at) == Some(segment));
        let Some(last) = ends.max() else { continue };
        // Summaries up to that of the last block in use are needed to find it.
        let mut at = start;
        while at <= last {
            let left = sb.segment_size - (at - start) as u32;
            let raw = &image[at as usize..at as usize + left as usize];
            let summary = Summary::decode(&sb, raw, left).ok_or("a summary is not sound")?;
            let header = &summary.header;
            live.push(at as usize..at as usize + header.summary_bytes as usize);
            at += u64::from(header.total_bytes);
        }
    }
    let live = live.into_iter().map(|range| (range, true)).collect();
    Ok(Excuses { live, sums: Vec::new(), tables: Vec::new(), checkpoints, state: Vec::new() })
}

fn of_clustered(image: &[u8]) -> Result<Excuses, String> {
    let sb = FfsSuperblock::decode(image, 0, image.len() as u64).map_err(|e| e.to_string())?;
    let block = sb.geometry.block_size as usize;
    let byte = |addr: u64| sb.geometry.byte_of(addr) as usize;
    // The superblock, the state, and the headers of the journal, whose records are not needed any more.
    let mut live = vec![(0..4096, true), (4096..4096 + 512, true)];
    let mut tables = Vec::new();
    for slot in 0..2 {
        let at = sb.journal_start as usize + slot * block;
        live.push((at..at + 512, true));
    }
    for group in 0..sb.groups {
        let start = byte(sb.group_start(group));
        live.push((start..start + 4096, true));
        let maps = byte(sb.cg_addr(group));
        live.push((maps..maps + block, true));
        let data = byte(sb.group_start(group) + u64::from(sb.group_data_start()));
        let end = byte(sb.group_start(group) + u64::from(sb.frags_of(group)));
        let map = CgImage::decode(&sb, group, &image[maps..maps + block]);
        let map = map.map_err(|error| error.to_string())?;
        let frag = sb.geometry.frag_size as usize;
        for at in (data..end).step_by(frag) {
            let nth = (at - start) / frag;
            if map.free[nth / 8] >> (nth % 8) & 1 == 0 {
                live.push((at..at + frag, sb.data_checksums));
            }
        }
        if !sb.data_checksums {
            tables.push(maps + block..data);
        }
    }
    let size = sb.geometry.inode_size as usize;
    for ino in 2..sb.inodes() {
        let (addr, off) = sb.inode_place(ino);
        let at = byte(addr) + off;
        let raw = &image[at..at + size];
        if raw.iter().any(|&byte| byte != 0) && Dinode::free_generation(&sb.geometry, raw).is_none()
        {
            live.push((at..at + size, true));
        }
    }
    let (mut state, mut sums) = (vec![1], Vec::new());
    if sb.data_checksums {
        // Behind the volume a page of the regions in doubt, which says nothing of a closed volume, and a
        // table block for each region of 1016 fragments.
        let page = (sb.size as usize).next_multiple_of(UNIT);
        live.push((page..page + 512, true));
        state.push(page / UNIT);
        let regions = (sb.size as usize).div_ceil(1016 * sb.geometry.frag_size as usize);
        // The table of a region in doubt is not read: it is written when the region is at rest.
        for region in 0..regions {
            let is_in_doubt = image[page + 16 + region / 8] >> (region % 8) & 1 != 0;
            if !is_in_doubt {
                let at = page + (region + 1) * UNIT;
                live.push((at..at + UNIT, true));
                sums.push(at / UNIT);
            }
        }
    }
    Ok(Excuses { live, sums, tables, checkpoints: Vec::new(), state })
}
