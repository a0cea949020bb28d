//! What only the whole tree shows: counts of names, lost inodes, directories out of reach.

use twin_fs::{Ino, ROOT_INO, mode};

use super::{Checker, Finding, Kind, Severity, State};

/// How a directory stands to the root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Unknown,
    OnTheWay,
    Reached,
    Cut,
}

impl Checker<'_> {
    pub(super) fn check_names(&mut self) {
        self.check_orphan_count();
        self.check_parents();
        self.check_links();
        self.check_reach();
    }

    /// The next mount looks for orphans only if the checkpoint counts some.
    fn check_orphan_count(&mut self) {
        let (said, found) = (self.view.standing.orphans, self.report.counts.orphans);
        if said != found {
            let what = format!("{said} orphans are counted, {found} inodes are marked as such");
            self.add(Finding::new(Kind::OrphanMark, Severity::Minor, what));
        }
    }

    /// Each directory's entry for its parent leads to the one that has its name, and its count of
    /// names fits its subdirectories.
    fn check_parents(&mut self) {
        for dir in std::mem::take(&mut self.dirs) {
            let Some(node) = self.node(dir.ino).copied() else { continue };
            if node.nlink == 0 {
                continue;
            }
            let parent = if dir.ino == ROOT_INO { ROOT_INO } else { node.link };
            if dir.up != parent && parent != 0 {
                let what = format!("its .. leads to {}, its name is in {parent}", dir.up);
                self.add(Finding::new(Kind::Parent, Severity::Serious, what).of(dir.ino));
            }
            if node.nlink != dir.subdirs + 2 {
                let what = format!(
                    "a count of {} names for a directory with {} subdirectories",
                    node.nlink, dir.subdirs
                );
                self.add(Finding::new(Kind::LinkCount, Severity::Serious, what).of(dir.ino));
            }
        }
    }

    fn check_links(&mut self) {
        for ino in ROOT_INO + 1..self.nodes.len() as Ino {
            let node = self.nodes[ino as usize];
            if node.state != State::Read || node.kind == 0 {
                continue;
            }
            let is_dir = u32::from(node.kind) << 12 == mode::DIRECTORY;
            let said = match node.nlink {
                0 => 0,
                _ if is_dir => 1,
                count => count,
            };
            if node.names == 0 && said > 0 {
                let what = "no directory has a name for it";
                self.add(Finding::new(Kind::LostInode, Severity::Serious, what).of(ino));
            } else if node.names != said {
                let what = format!("{said} names are counted, there are {}", node.names);
                self.add(Finding::new(Kind::LinkCount, Severity::Serious, what).of(ino));
            }
        }
    }

    /// From every directory that has a name the way up ends at the root.
    fn check_reach(&mut self) {
        let mut reach = vec![Reach::Unknown; self.nodes.len()];
        // The way up from a directory without a name ends at number 0; it is a lost inode.
        for end in [0, ROOT_INO as usize] {
            if let Some(end) = reach.get_mut(end) {
                *end = Reach::Reached;
            }
        }
        let mut way = Vec::new();
        for ino in 0..self.nodes.len() {
            let node = &self.nodes[ino];
            let is_dir = u32::from(node.kind) << 12 == mode::DIRECTORY;
            if node.state != State::Read || !is_dir || node.link == 0 {
                continue;
            }
            let mut at = ino;
            while reach[at] == Reach::Unknown {
                reach[at] = Reach::OnTheWay;
                way.push(at);
                at = self.nodes[at].link as usize;
            }
            let circle = reach[at] == Reach::OnTheWay;
            let end = if circle { Reach::Cut } else { reach[at] };
            for passed in way.drain(..) {
                reach[passed] = end;
            }
            if circle {
                let what = "the way up from the directory runs in a circle";
                self.add(Finding::new(Kind::Unreachable, Severity::Serious, what).of(ino as Ino));
            }
        }
    }
}
