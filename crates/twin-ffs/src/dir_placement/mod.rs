//! Directory placement: the group of a new directory's inode, and so of the files that will be in
//! it. Adding a policy: a file here, a line in [`registry`].

mod near;
mod spread;

/// What a policy may look at of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Directories that it has.
    pub dirs: u32,
    /// Inodes free.
    pub free_inodes: u32,
    /// Blocks free.
    pub free_blocks: u32,
}

/// Decides where directories go.
pub trait DirPlacement {
    /// The group for a directory below one whose inode is in group `parent`, itself a child of
    /// the root or not.
    fn group(&self, groups: &[GroupView], parent: u32, parent_is_root: bool) -> u32;
}

/// A policy by name.
pub struct Entry {
    /// What settings call it.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    make: fn() -> Box<dyn DirPlacement>,
}

impl Entry {
    /// The policy.
    pub fn build(&self) -> Box<dyn DirPlacement> {
        (self.make)()
    }
}

/// All policies; the first is the default.
pub fn registry() -> &'static [Entry] {
    &[
        Entry {
            name: "spread",
            about: "the group with the fewest directories among those with many free inodes (4.4BSD)",
            make: || Box::new(spread::Spread),
        },
        Entry {
            name: "near-parent",
            about: "the parent's group while it has room; the root's children are spread",
            make: || Box::new(near::NearParent),
        },
    ]
}

/// The policy called `name`.
pub fn by_name(name: &str) -> Option<&'static Entry> {
    registry().iter().find(|e| e.name == name)
}

fn average(groups: &[GroupView], of: impl Fn(&GroupView) -> u32) -> u64 {
    groups.iter().map(|g| u64::from(of(g))).sum::<u64>() / (groups.len() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: [GroupView; 4] = [
        GroupView { dirs: 1, free_inodes: 10, free_blocks: 50 },
        GroupView { dirs: 3, free_inodes: 90, free_blocks: 60 },
        GroupView { dirs: 2, free_inodes: 80, free_blocks: 70 },
        GroupView { dirs: 9, free_inodes: 100, free_blocks: 5 },
    ];

    #[test]
    fn spread_takes_the_fewest_directories_among_groups_with_inodes() {
        assert_eq!(by_name("spread").unwrap().build().group(&GROUPS, 3, false), 2);
    }

    #[test]
    fn near_parent_stays_while_there_is_room() {
        let near = by_name("near-parent").unwrap().build();
        assert_eq!(near.group(&GROUPS, 1, false), 1);
        assert_eq!(near.group(&GROUPS, 1, true), 2);
        // Group 3 has few free blocks: the nearest that has more.
        assert_eq!(near.group(&GROUPS, 3, false), 2);
    }
}
