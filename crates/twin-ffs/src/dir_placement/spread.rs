//! 4.4BSD's `ffs_dirpref`: of the groups with no fewer free inodes than the average, the one with
//! the fewest directories (McKusick, Joy, Leffler and Fabry 1984, section 3.3).

use super::{DirPlacement, GroupSummary, average};

pub(super) struct Spread;

impl DirPlacement for Spread {
    fn group(&self, groups: &[GroupSummary], _parent: u32, _parent_is_root: bool) -> u32 {
        let least = average(groups, |g| g.free_inodes);
        let rich = groups.iter().enumerate().filter(|(_, g)| u64::from(g.free_inodes) >= least);
        rich.min_by_key(|(_, g)| g.dirs).map_or(0, |(i, _)| i as u32)
    }
}
