//! Block preference: where the next block of a file should go, apart from whether that is free.
//!
//! Contract: pure. Source: `ffs_blkpref` of 4.4BSD; McKusick, Joy, Leffler and Fabry 1984, section
//! 3.3 (layout policies); Seltzer et al. 1995, section 3, on the change of group at indirect
//! blocks.
//!
//! - A file's first block goes to the start of the data of its inode's group.
//! - After a block, the next one follows it on the disk, up to `maxcontig` of them; then a gap of
//!   `rotdelay` is left.
//! - At an indirect block, and each time `maxbpg` blocks came from one group, the file goes on in
//!   the next group that has no fewer free blocks than the average.

use crate::format::Superblock;
use crate::group::Group;

/// What is known of the block to be placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacementRequest {
    /// The group of the file's inode.
    pub(crate) home: u32,
    /// The first data block that it holds or maps.
    pub(crate) lbn: u64,
    /// Its place among the pointers of its parent; 0 for an indirect block.
    pub(crate) index: u64,
    /// It is an indirect block or behind one.
    pub(crate) indirect: bool,
    /// The address of the block before it in the same parent; 0 if there is none.
    pub(crate) before: u64,
    /// The address `maxcontig` blocks before it in the same parent; 0 if there is none.
    pub(crate) cluster: u64,
    /// It is an indirect block itself.
    pub(crate) is_map: bool,
    /// The address of the data block before `lbn`, whatever its parent; 0 if there is none.
    pub(crate) prior: u64,
    /// Blocks of the file from `lbn` on, by its size; at least 1.
    pub(crate) rest: u64,
}

impl PlacementRequest {
    /// A request for data block `lbn` of a file with its inode in group `home`, of which nothing
    /// else is known.
    #[cfg(test)]
    pub(crate) fn sample(home: u32, lbn: u64) -> PlacementRequest {
        let (index, before, cluster, prior) = (lbn, 0, 0, 0);
        let (indirect, is_map) = (false, false);
        PlacementRequest { home, lbn, index, indirect, before, cluster, is_map, prior, rest: 1 }
    }
}

/// The address that the block should have. `rotor` is the group where the last file went on.
pub(crate) fn preferred(
    sb: &Superblock,
    groups: &[Group],
    wanted: &PlacementRequest,
    rotor: &mut u32,
) -> Option<u64> {
    let per_block = u64::from(sb.frags_per_block());
    let tuning = &sb.tuning;
    let data = |group: u32| sb.group_start(group) + u64::from(sb.group_data_start());
    if wanted.index.is_multiple_of(tuning.maxbpg.into()) || wanted.before == 0 {
        if !wanted.indirect {
            return Some(data(wanted.home));
        }
        let from = match sb.locate(wanted.before) {
            Some((group, _)) if wanted.index > 0 => u64::from(group) + 1,
            _ => u64::from(wanted.home) + wanted.lbn / u64::from(tuning.maxbpg),
        };
        return next_group(sb, groups, (from % u64::from(sb.groups)) as u32, rotor).map(data);
    }
    let next = wanted.before + per_block;
    let contiguous = u64::from(tuning.maxcontig);
    if wanted.index < contiguous || wanted.cluster + contiguous * per_block != next {
        return Some(next);
    }
    Some(next + gap_frags(sb))
}

/// The gap after `maxcontig` blocks, in fragments: whole blocks.
fn gap_frags(sb: &Superblock) -> u64 {
    let g = &sb.disk_geometry;
    let sectors_per_frag = u64::from(sb.geometry.frag_size / 512);
    let sectors =
        u64::from(sb.tuning.rotdelay_ms) * u64::from(g.rpm) * u64::from(g.sectors_per_track)
            / 60_000;
    (sectors / sectors_per_frag).next_multiple_of(sb.frags_per_block().into())
}

/// The first group from `from` on, around the end, that has no fewer free blocks than the average.
fn next_group(sb: &Superblock, groups: &[Group], from: u32, rotor: &mut u32) -> Option<u32> {
    let free: u64 = groups.iter().map(|g| u64::from(g.counts.free_blocks)).sum();
    let average = free / u64::from(sb.groups);
    let order = (from..sb.groups).chain(0..from);
    let found =
        order.into_iter().find(|&g| u64::from(groups[g as usize].counts.free_blocks) >= average);
    *rotor = found.unwrap_or(*rotor);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{DiskGeometry, Tuning};

    fn sample(maxcontig: u32, rotdelay_ms: u32) -> (Superblock, Vec<Group>) {
        let options = crate::MkfsOptions::classic([7; 16]);
        let tuning = Tuning { maxcontig, rotdelay_ms, maxbpg: 64, ..options.tuning };
        let disk_geometry =
            DiskGeometry { rpm: 5400, sectors_per_track: 57, tracks_per_cylinder: 14 };
        let options = crate::MkfsOptions { tuning, disk_geometry, ..options };
        let sb = options.superblock(64 << 20, 512).unwrap();
        let groups = (0..sb.groups).map(|g| Group::empty(&sb, g)).collect();
        (sb, groups)
    }

    fn direct(home: u32, lbn: u64, before: u64, cluster: u64) -> PlacementRequest {
        PlacementRequest { before, cluster, ..PlacementRequest::sample(home, lbn) }
    }

    #[test]
    fn the_first_block_goes_to_the_inodes_group() {
        let (sb, groups) = sample(8, 0);
        let at = preferred(&sb, &groups, &direct(2, 0, 0, 0), &mut 0);
        assert_eq!(at, Some(sb.group_start(2) + u64::from(sb.group_data_start())));
    }

    #[test]
    fn blocks_follow_each_other_up_to_maxcontig_and_then_leave_a_gap() {
        // 4 ms at 5400 rpm and 57 sectors are 20 sectors: two blocks of 8 KiB.
        let (sb, groups) = sample(2, 4);
        let base = sb.group_start(1) + 4096;
        let next = |lbn, before, cluster| {
            preferred(&sb, &groups, &direct(1, lbn, before, cluster), &mut 0)
        };
        assert_eq!(next(1, base, 0), Some(base + 8));
        assert_eq!(next(2, base + 8, base), Some(base + 16 + 16));
        // Where the cluster is broken already, it goes on without a gap.
        assert_eq!(next(2, base + 8, base - 80), Some(base + 16));
    }

    #[test]
    fn without_rotdelay_there_is_no_gap() {
        let (sb, groups) = sample(2, 0);
        let base = sb.group_start(1) + 4096;
        let at = preferred(&sb, &groups, &direct(1, 2, base + 8, base), &mut 0);
        assert_eq!(at, Some(base + 16));
    }

    #[test]
    fn an_indirect_block_starts_a_new_group_that_has_room() {
        let (sb, mut groups) = sample(8, 0);
        while groups[1].counts.free_blocks > 10 {
            groups[1].alloc_block(&sb, None);
        }
        let wanted =
            PlacementRequest { index: 0, indirect: true, ..PlacementRequest::sample(1, 12) };
        let at = preferred(&sb, &groups, &wanted, &mut 0).unwrap();
        assert_eq!(sb.locate(at).unwrap().0, 2);
    }

    #[test]
    fn after_maxbpg_blocks_the_file_goes_on_in_the_next_group() {
        let (sb, groups) = sample(8, 0);
        let before = sb.group_start(1) + 4096;
        let wanted = PlacementRequest {
            index: 64,
            indirect: true,
            before,
            ..PlacementRequest::sample(1, 12 + 64)
        };
        let at = preferred(&sb, &groups, &wanted, &mut 0).unwrap();
        assert_eq!(sb.locate(at).unwrap().0, 2);
    }
}
