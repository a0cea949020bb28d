//! Directory placement: the group of a new directory's inode, and so of the files that will be in
//! it. Adding a policy: a file here, a line in [`REGISTRY`].

mod near;
mod spread;

use twin_settings::{Registry, RegistryEntry};

/// What a policy may look at of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSummary {
    /// Directories that it has.
    pub dirs: u32,
    /// The number of free inodes.
    pub free_inodes: u32,
    /// The number of free whole blocks.
    pub free_blocks: u32,
}

/// Chooses the groups of directories.
pub trait DirPlacement {
    /// The group for a new directory. `parent` is the group of its parent's inode; the flag says
    /// whether the parent is the root.
    fn group(&self, groups: &[GroupSummary], parent: u32, parent_is_root: bool) -> u32;
}

/// Makes the policy for a volume.
pub type Maker = fn() -> Box<dyn DirPlacement>;

/// All policies.
pub static REGISTRY: Registry<Maker> = Registry::with_default(
    "directory placement",
    "spread",
    &[
        RegistryEntry::new(
            "spread",
            "the group with the fewest directories among those with many free inodes (4.4BSD)",
            || Box::new(spread::Spread),
        ),
        RegistryEntry::new(
            "near-parent",
            "the parent's group while it has room; the root's children are spread",
            || Box::new(near::NearParent),
        ),
    ],
);

fn average(groups: &[GroupSummary], of: impl Fn(&GroupSummary) -> u32) -> u64 {
    groups.iter().map(|g| u64::from(of(g))).sum::<u64>() / (groups.len() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: [GroupSummary; 4] = [
        GroupSummary { dirs: 1, free_inodes: 10, free_blocks: 50 },
        GroupSummary { dirs: 3, free_inodes: 90, free_blocks: 60 },
        GroupSummary { dirs: 2, free_inodes: 80, free_blocks: 70 },
        GroupSummary { dirs: 9, free_inodes: 100, free_blocks: 5 },
    ];

    #[test]
    fn spread_takes_the_fewest_directories_among_groups_with_inodes() {
        assert_eq!(REGISTRY.get("spread").unwrap().make().group(&GROUPS, 3, false), 2);
    }

    #[test]
    fn near_parent_stays_while_there_is_room() {
        let near = REGISTRY.get("near-parent").unwrap().make();
        assert_eq!(near.group(&GROUPS, 1, false), 1);
        assert_eq!(near.group(&GROUPS, 1, true), 2);
        // Group 3 has few free blocks: the nearest that has more.
        assert_eq!(near.group(&GROUPS, 3, false), 2);
    }
}
