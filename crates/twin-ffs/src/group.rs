//! A cylinder group in memory: its maps, and the search for a place within it.
//!
//! Contract: nothing waits. The map of free fragments is authoritative; the map of free blocks and
//! all counts follow from it and are updated with every change. Fragments and blocks are numbered
//! within the group.
//!
//! Sources: `ffs_alloccg`, `ffs_alloccgblk`, `ffs_mapsearch`, `ffs_fragextend`, `ffs_clusteralloc`
//! and `ffs_nodealloccg` of 4.4BSD, as described in McKusick, Joy, Leffler and Fabry 1984 (section
//! 3.3) and in "The Design and Implementation of the 4.4BSD Operating System", section 8.2.

use std::cell::Cell;

use crate::bits::{Bits, mask};
use crate::format::{CgCounts, CgImage, Superblock};

/// Rotational positions that a track is divided in (4.4BSD's `NRPOS`).
const ROTATIONAL_POSITIONS: u64 = 8;

/// Of each map of the fragments of a block the lengths of the runs in it: bit `n` stands for `n`.
const RUN_LENGTHS: [u16; 256] = {
    let mut all = [0; 256];
    let mut bits = 0;
    while bits < all.len() {
        let mut rest = bits as u16;
        while rest > 0 {
            rest >>= rest.trailing_zeros();
            let run = rest.trailing_ones();
            all[bits] |= 1 << run;
            rest >>= run;
        }
        bits += 1;
    }
    all
};

/// How a block was found in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundBy {
    /// The one that was preferred.
    Preferred,
    /// In the same cylinder, soon after it as the disk turns.
    RotationallyNear,
    /// The next free one.
    Next,
}

/// A cylinder group. See the module.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) index: u32,
    per_block: u32,
    /// 1 means that the fragment is free.
    free: Bits,
    /// 1 means that all fragments of the block are free.
    free_blocks: Bits,
    /// 1 means that the inode is used.
    inodes: Bits,
    pub(crate) counts: CgCounts,
    /// Runs of free fragments in partly used blocks, by length.
    frag_runs: [u32; 8],
    pub(crate) rotor: u32,
    frag_rotor: u32,
    inode_rotor: u32,
    pub(crate) inodes_written: u32,
    /// True if it differs from the last written state.
    pub(crate) is_dirty: bool,
    /// The checksum of its block as it was read, or last taken to be written; `None` if it is new.
    pub(crate) checksum: Option<u32>,
    /// No run of free blocks is longer than this.
    longest: Cell<u32>,
}

impl Group {
    /// A group in which only its own structures are used.
    pub(crate) fn empty(sb: &Superblock, index: u32) -> Group {
        let frags = sb.frags_of(index);
        let mut free = Bits::new(frags);
        free.set_range(sb.group_data_start().min(frags), frags, true);
        Group::from_maps(sb, index, free, Bits::new(sb.group_inodes))
    }

    /// A group with these maps. Its own structures are marked as used, whatever the maps say.
    pub(crate) fn from_maps(sb: &Superblock, index: u32, mut free: Bits, inodes: Bits) -> Group {
        let (per_block, data_start) = (sb.frags_per_block(), sb.group_data_start());
        if free.next_set(0, data_start).is_some() {
            free.set_range(0, data_start, false);
        }
        let blocks = free.len() / per_block;
        let mut group = Group {
            index,
            per_block,
            free_blocks: Bits::new(blocks),
            counts: CgCounts { free_inodes: inodes.len() - inodes.count(), ..CgCounts::default() },
            free,
            inodes,
            frag_runs: [0; 8],
            rotor: data_start / per_block,
            frag_rotor: data_start,
            inode_rotor: 0,
            inodes_written: 0,
            is_dirty: false,
            checksum: None,
            longest: Cell::new(u32::MAX),
        };
        group.account_all(blocks);
        group
    }

    /// All empty groups of a volume, each as [`Group::empty`]. They share their maps until one changes.
    pub(crate) fn all_empty(sb: &Superblock) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::with_capacity(sb.groups as usize);
        for index in 0..sb.groups {
            let group = match groups.last() {
                Some(last) if last.frags() == sb.frags_of(index) => Group { index, ..last.clone() },
                _ => Group::empty(sb, index),
            };
            groups.push(group);
        }
        groups
    }

    /// A group from its block on the disk. The counts are computed, except that of directories. If the maps are
    /// those of the group given beside it, they and what follows from them are shared with it.
    pub(crate) fn from_image(sb: &Superblock, image: &CgImage, like: Option<&Group>) -> Group {
        let free = Bits::from_bytes(&image.free, sb.frags_of(image.group));
        let inodes = Bits::from_bytes(&image.inodes, sb.group_inodes);
        let like = like.filter(|like| like.free == free && like.inodes == inodes);
        let mut group = match like {
            Some(like) => Group {
                index: image.group,
                is_dirty: false,
                checksum: None,
                longest: Cell::new(u32::MAX),
                ..like.clone()
            },
            None => Group::from_maps(sb, image.group, free, inodes),
        };
        group.counts.dirs = image.counts.dirs;
        group.inodes_written = image.inodes_written;
        group.set_rotors(image);
        group
    }

    /// Sets the positions of the last allocations.
    pub(crate) fn set_rotors(&mut self, image: &CgImage) {
        self.rotor = image.rotor.min(self.free_blocks.len() - 1);
        self.frag_rotor = image.frag_rotor.min(self.free.len() - 1);
        self.inode_rotor = image.inode_rotor.min(self.inodes.len() - 1);
    }

    /// The maps for the block on the disk. They are as in memory, except that the given fragments
    /// are free there already and the given inodes are not used there yet.
    pub(crate) fn to_image(&self, also_free: &[(u32, u32)], not_used: &[u32]) -> CgImage {
        let mut as_on_disk = self.clone();
        also_free.iter().for_each(|&(at, n)| as_on_disk.mark_free(at, n));
        for &index in not_used {
            as_on_disk.free_inode(index, false);
        }
        let g = &as_on_disk;
        CgImage {
            group: g.index,
            counts: g.counts,
            rotor: g.rotor,
            frag_rotor: g.frag_rotor,
            inode_rotor: g.inode_rotor,
            inodes_written: g.inodes_written,
            frag_runs: g.frag_runs,
            clusters: g.clusters(),
            inodes: g.inodes.to_bytes(),
            free: g.free.to_bytes(),
        }
    }

    /// Runs of free blocks, by length.
    fn clusters(&self) -> [u32; 16] {
        let mut counts = [0; 16];
        let mut at = 0;
        while let Some(start) = self.free_blocks.next_set(at, u32::MAX) {
            at = self.free_blocks.next_clear(start, u32::MAX).unwrap_or(self.free_blocks.len());
            counts[(at - start).min(16) as usize - 1] += 1;
        }
        counts
    }

    /// Adds the contribution of a block to the counts (`sign` 1) or subtracts it (`sign` -1).
    fn account(&mut self, block: u32, sign: i32) {
        let bits = self.free.group(block * self.per_block, self.per_block);
        let add = |n: &mut u32, k: u32| *n = n.wrapping_add_signed(sign * k as i32);
        if bits == mask(self.per_block) {
            if sign > 0 {
                self.longest.set(u32::MAX);
            }
            add(&mut self.counts.free_blocks, 1);
            self.free_blocks.set(block, sign > 0);
            return;
        }
        add(&mut self.counts.free_frags, bits.count_ones());
        let mut at = 0;
        while at < self.per_block {
            let run = (bits >> at).trailing_ones().min(self.per_block - at);
            if run > 0 {
                add(&mut self.frag_runs[run as usize], 1);
            }
            at += run + 1;
        }
    }

    /// Adds the contributions of all blocks; 64 fragments that are all free, or all used, at once.
    fn account_all(&mut self, blocks: u32) {
        let per_word = 64 / self.per_block;
        let mut block = 0;
        while block < blocks {
            let end = (block + per_word).min(blocks);
            match self.free.word(block / per_word) {
                0 => {}
                u64::MAX if end - block == per_word => {
                    self.counts.free_blocks += per_word;
                    self.free_blocks.set_range(block, end, true);
                }
                _ => (block..end).for_each(|block| self.account(block, 1)),
            }
            block = end;
        }
    }

    fn change(&mut self, at: u32, n: u32, free: bool) {
        let mut at = at;
        let end = at + n;
        while at < end {
            let block = at / self.per_block;
            let first = at % self.per_block;
            let count = (self.per_block - first).min(end - at);
            let bits = self.free.group(block * self.per_block, self.per_block);
            let these = mask(count) << first;
            // Fragments that are given back may be free already on a damaged volume, where a file
            // owns what the maps call free. Fragments that are taken were searched for.
            debug_assert!(
                free || bits & these == these,
                "group {}: fragments {at}+{count} are not free",
                self.index,
            );
            self.account(block, -1);
            let bits = if free { bits | these } else { bits & !these };
            self.free.set_group(block * self.per_block, self.per_block, bits);
            self.account(block, 1);
            at += count;
        }
        self.is_dirty = true;
    }

    /// Marks free fragments as used.
    pub(crate) fn mark_used(&mut self, at: u32, n: u32) {
        self.change(at, n, false);
    }

    /// Marks used fragments as free.
    pub(crate) fn mark_free(&mut self, at: u32, n: u32) {
        self.change(at, n, true);
    }

    /// True if all `n` fragments from `at` on are free.
    pub(crate) fn is_free(&self, at: u32, n: u32) -> bool {
        at + n <= self.free.len() && (at..at + n).all(|f| self.free.get(f))
    }

    /// All its fragments, those of its own structures included.
    pub(crate) fn frags(&self) -> u32 {
        self.free.len()
    }

    /// Free fragments in all.
    pub(crate) fn free_frags(&self) -> u64 {
        u64::from(self.counts.free_blocks) * u64::from(self.per_block)
            + u64::from(self.counts.free_frags)
    }

    /// Takes a block: the preferred one, one that passes under the head soon after it, or the next
    /// one in the group. Without a preference, takes the next one from the rotor on.
    pub(crate) fn alloc_block(
        &mut self,
        sb: &Superblock,
        pref: Option<u32>,
    ) -> Option<(u32, FoundBy)> {
        if self.counts.free_blocks == 0 {
            return None;
        }
        let pref = pref.map(|frag| frag / self.per_block);
        let (block, found) = match pref {
            Some(block) if self.free_blocks.get(block) => (block, FoundBy::Preferred),
            Some(block) => match self.rotationally_near(sb, block) {
                Some(near) => (near, FoundBy::RotationallyNear),
                None => (self.next_block(block)?, FoundBy::Next),
            },
            None => (self.next_block(self.rotor)?, FoundBy::Next),
        };
        if found == FoundBy::Next {
            self.rotor = block;
        }
        self.mark_used(block * self.per_block, self.per_block);
        Some((block * self.per_block, found))
    }

    /// The first free block from `from` on, around the end.
    fn next_block(&self, from: u32) -> Option<u32> {
        let next = self.free_blocks.next_set(from, u32::MAX);
        next.or_else(|| self.free_blocks.next_set(0, from))
    }

    /// A free block in the cylinder of `block`, at its rotational position or as soon as possible
    /// after it. The positions are computed; 4.4BSD has tables that describe the same order.
    fn rotationally_near(&self, sb: &Superblock, block: u32) -> Option<u32> {
        if sb.tuning.cpc == 0 {
            return None;
        }
        let sectors = u64::from(sb.geometry.block_size / 512);
        let group_sector = sb.group_start(self.index) * u64::from(sb.geometry.frag_size) / 512;
        let per_cylinder = sb.disk_geometry.sectors_per_cylinder();
        let per_track = u64::from(sb.disk_geometry.sectors_per_track);
        let sector_of = |block: u32| group_sector + u64::from(block) * sectors;
        let position = |block: u32| sector_of(block) % per_track * ROTATIONAL_POSITIONS / per_track;
        let cylinder = sector_of(block) / per_cylinder;
        let first = (cylinder * per_cylinder).saturating_sub(group_sector).div_ceil(sectors);
        let end = ((cylinder + 1) * per_cylinder - group_sector).div_ceil(sectors);
        let end = end.min(self.free_blocks.len().into()) as u32;
        let wanted = position(block);
        let mut best: Option<(u64, u32)> = None;
        let mut at = first as u32;
        while let Some(free) = self.free_blocks.next_set(at, end) {
            let wait = (position(free) + ROTATIONAL_POSITIONS - wanted) % ROTATIONAL_POSITIONS;
            if best.is_none_or(|(least, _)| wait < least) {
                best = Some((wait, free));
            }
            at = free + 1;
        }
        best.map(|(_, block)| block)
    }

    /// Takes `n` fragments, fewer than a block, in one piece: from a run of free fragments that
    /// fits best, or, if there is none that is long enough, from a whole block.
    pub(crate) fn alloc_frags(
        &mut self,
        sb: &Superblock,
        pref: Option<u32>,
        n: u32,
    ) -> Option<u32> {
        if let Some(at) = self.alloc_loose(pref, n) {
            return Some(at);
        }
        let (at, _) = self.alloc_block(sb, pref)?;
        self.mark_free(at + n, self.per_block - n);
        Some(at)
    }

    /// Takes `n` fragments, fewer than a block, of a block that is broken already.
    pub(crate) fn alloc_loose(&mut self, pref: Option<u32>, n: u32) -> Option<u32> {
        let len = (n..self.per_block).find(|&len| self.frag_runs[len as usize] > 0)?;
        let from = pref.unwrap_or(self.frag_rotor) / self.per_block;
        let at = self.find_run(from, len)?;
        self.frag_rotor = at;
        self.mark_used(at, n);
        Some(at)
    }

    /// A run of exactly `len` free fragments, fewer than 8, in a partly used block, from `block` on,
    /// around the end.
    fn find_run(&self, block: u32, len: u32) -> Option<u32> {
        let blocks = self.free_blocks.len();
        (block..blocks).chain(0..block).find_map(|b| {
            let bits = self.free.group(b * self.per_block, self.per_block);
            if RUN_LENGTHS[bits as usize] >> len & 1 == 0 {
                return None;
            }
            let mut at = 0;
            while at < self.per_block {
                let run = (bits >> at).trailing_ones().min(self.per_block - at);
                if run == len {
                    return Some(b * self.per_block + at);
                }
                at += run + 1;
            }
            None
        })
    }

    /// Extends a piece of `old` fragments at `at` to `new` fragments in place. Returns false if the
    /// fragments behind it are used or in another block.
    pub(crate) fn extend(&mut self, at: u32, old: u32, new: u32) -> bool {
        let fits = at % self.per_block + new <= self.per_block;
        let can = fits && self.is_free(at + old, new - old);
        if can {
            self.mark_used(at + old, new - old);
        }
        can
    }

    /// The start of `len` adjacent free blocks: the preferred ones if they are free, else the next
    /// ones. They stay free.
    pub(crate) fn find_cluster(&self, pref: Option<u32>, len: u32) -> Option<u32> {
        let from = pref.unwrap_or(self.rotor * self.per_block) / self.per_block;
        let found = self.cluster_in(from, self.free_blocks.len(), len);
        found.or_else(|| self.cluster_in(0, from, len)).map(|block| block * self.per_block)
    }

    fn cluster_in(&self, from: u32, to: u32, len: u32) -> Option<u32> {
        let mut at = from;
        while let Some(start) = self.free_blocks.next_set(at, to) {
            let end = self.free_blocks.next_clear(start, start + len);
            match end {
                None if start + len <= self.free_blocks.len() => return Some(start),
                None => return None,
                Some(end) => at = end,
            }
        }
        None
    }

    /// The start and the length of the shortest run of at least `len` free blocks, in blocks. The
    /// run from `avoid` on counts from its second block.
    pub(crate) fn shortest_run(&self, len: u32, avoid: Option<u32>) -> Option<(u32, u32)> {
        if self.longest.get() < len || self.counts.free_blocks < len {
            return None;
        }
        let (mut best, mut longest) = (None, 0);
        let mut at = 0;
        while let Some(found) = self.free_blocks.next_set(at, u32::MAX) {
            at = self.free_blocks.next_clear(found, u32::MAX).unwrap_or(self.free_blocks.len());
            longest = longest.max(at - found);
            let start = found + u32::from(avoid == Some(found));
            let run = (start, at - start);
            if run.1 >= len && best.is_none_or(|(_, least)| run.1 < least) {
                best = Some(run);
                if run.1 == len {
                    return best;
                }
            }
        }
        self.longest.set(longest);
        best
    }

    /// The start of the next run of at least `len` free blocks behind the last block that was placed,
    /// around the end, in blocks. The run from `avoid` on counts from its second block.
    pub(crate) fn next_run(&self, len: u32, avoid: Option<u32>) -> Option<u32> {
        if self.longest.get() < len || self.counts.free_blocks < len {
            return None;
        }
        let blocks = self.free_blocks.len();
        let run_in = |from, to| {
            let first = self.cluster_in(from, to, len)?;
            match avoid == Some(first) {
                true => self.cluster_in(first + 1, to, len),
                false => Some(first),
            }
        };
        run_in(self.rotor, blocks).or_else(|| run_in(0, self.rotor))
    }

    /// The start and the length of the longest run of free blocks, in blocks, if it is longer than
    /// `than`.
    pub(crate) fn longer_run(&self, than: u32) -> Option<(u32, u32)> {
        if self.longest.get() <= than {
            return None;
        }
        let mut best: Option<(u32, u32)> = None;
        let mut at = 0;
        while let Some(start) = self.free_blocks.next_set(at, u32::MAX) {
            at = self.free_blocks.next_clear(start, u32::MAX).unwrap_or(self.free_blocks.len());
            if best.is_none_or(|(_, most)| at - start > most) {
                best = Some((start, at - start));
            }
        }
        self.longest.set(best.map_or(0, |(_, len)| len));
        best.filter(|&(_, len)| len > than)
    }

    /// Takes an inode number, as an index: the preferred one or the next one.
    pub(crate) fn alloc_inode(&mut self, pref: Option<u32>) -> Option<u32> {
        if self.counts.free_inodes == 0 {
            return None;
        }
        let preferred = pref.filter(|&index| !self.inodes.get(index));
        let next = || {
            let after = self.inodes.next_clear(self.inode_rotor, u32::MAX);
            after.or_else(|| self.inodes.next_clear(0, self.inode_rotor))
        };
        let index = preferred.or_else(next)?;
        self.inode_rotor = index;
        self.use_inode(index);
        Some(index)
    }

    /// Marks a free inode as used.
    pub(crate) fn use_inode(&mut self, index: u32) {
        debug_assert!(!self.inodes.get(index));
        self.inodes.set(index, true);
        self.counts.free_inodes -= 1;
        self.is_dirty = true;
    }

    /// Marks an inode as free. On a damaged volume, where a name leads to an inode that the maps
    /// call free, it is free already; and the count of directories, which comes from the disk, may
    /// be too low.
    pub(crate) fn free_inode(&mut self, index: u32, is_dir: bool) {
        if !self.inodes.get(index) {
            return;
        }
        self.inodes.set(index, false);
        self.counts.free_inodes += 1;
        self.counts.dirs = self.counts.dirs.saturating_sub(is_dir.into());
        self.is_dirty = true;
    }

    pub(crate) fn inode_used(&self, index: u32) -> bool {
        self.inodes.get(index)
    }

    #[cfg(test)]
    fn recounted(&self, sb: &Superblock) -> Group {
        let mut group = Group::from_maps(sb, self.index, self.free.clone(), self.inodes.clone());
        group.counts.dirs = self.counts.dirs;
        group
    }
}

#[cfg(test)]
mod tests;
