//! Directories near their parents, so that trees that are made together lie together; after
//! Orlov's allocator (FreeBSD's `ffs_dirpref` since 2001). The root's children are spread.

use super::spread::Spread;
use super::{DirPlacement, GroupSummary, average};

pub(super) struct NearParent;

impl DirPlacement for NearParent {
    fn group(&self, groups: &[GroupSummary], parent: u32, parent_is_root: bool) -> u32 {
        if parent_is_root {
            return Spread.group(groups, parent, true);
        }
        let inodes = average(groups, |g| g.free_inodes) * 3 / 4;
        let blocks = average(groups, |g| g.free_blocks) * 3 / 4;
        let has_room = |g: &GroupSummary| {
            u64::from(g.free_inodes) >= inodes && u64::from(g.free_blocks) >= blocks
        };
        let n = groups.len() as u32;
        // Forward from the parent, then from the start.
        let mut order = (parent..n).chain(0..parent);
        let forward = order.find(|&g| groups.get(g as usize).is_some_and(has_room));
        // The nearest group on either side, so that trees do not move towards the end of the
        // volume.
        let back = (0..parent).rev().find(|&g| has_room(&groups[g as usize]));
        match (forward, back) {
            (Some(f), Some(b)) if f < parent || f - parent > parent - b => b,
            (Some(f), _) => f,
            (None, _) => Spread.group(groups, parent, false),
        }
    }
}
