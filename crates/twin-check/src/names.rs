//! The paths of the inodes of which a report tells: "inode 23" does not tell anybody which file it is.
//!
//! Contract: only these inodes are looked for, so a sound volume costs nothing. Names are noted
//! while directories are checked; whatever has not been met by then (a fault of the log itself is
//! found last) is looked for in all directories once more. A path leads up over the directories that
//! own each other; one that cannot be followed to the root is left out, as are errors, because
//! the findings about directories have told of them.

use std::collections::{BTreeMap, BTreeSet};

use twin_fs::{Ino, ROOT_INO};

use crate::{Checker, Walk};

/// The directory in which an inode has a name, and the name.
pub(crate) type Names = BTreeMap<Ino, (Ino, Vec<u8>)>;

impl Checker<'_> {
    /// Notes a name of an inode that is looked for.
    pub(crate) fn note_name(&mut self, dir: Ino, ino: Ino, name: &[u8]) {
        if !self.wanted.is_empty() && self.wanted.contains(&ino) {
            self.names.entry(ino).or_insert_with(|| (dir, name.to_vec()));
        }
    }

    /// Finds the paths of all inodes of which the report tells.
    pub(crate) async fn name_inodes(&mut self) {
        self.wanted.extend(self.report.inodes());
        let missing = |this: &Self| -> BTreeSet<Ino> {
            let unknown = |ino: &Ino| *ino != ROOT_INO && !this.names.contains_key(ino);
            this.wanted.iter().copied().filter(unknown).collect()
        };
        let files = missing(self);
        if !files.is_empty() {
            let dirs: Vec<Ino> = self.dirs.iter().map(|dir| dir.ino).collect();
            self.look_for(&files, dirs).await;
        }
        for ino in self.wanted.clone() {
            if let Some(path) = self.path(ino).await {
                self.report.paths.insert(ino, path);
            }
        }
    }

    /// The path of an inode whose name is known.
    async fn path(&mut self, ino: Ino) -> Option<String> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let (mut at, mut met) = (ino, BTreeSet::new());
        while at != ROOT_INO {
            if !met.insert(at) {
                return None;
            }
            if !self.names.contains_key(&at) {
                // The name of a directory on the way: only the one that owns it has it.
                let owner = self.node(at).map(|node| node.owner).filter(|&owner| owner != 0)?;
                self.look_for(&BTreeSet::from([at]), vec![owner]).await;
            }
            let (dir, name) = self.names.get(&at)?;
            names.push(name.clone());
            at = *dir;
        }
        let path: Vec<u8> =
            names.iter().rev().flat_map(|name| [b"/", &name[..]].concat()).collect();
        let path = String::from_utf8_lossy(if path.is_empty() { b"/" } else { &path });
        let shown = |letter: char| match letter.is_control() {
            true => letter.escape_default().to_string(),
            false => letter.to_string(),
        };
        Some(path.chars().map(shown).collect())
    }

    /// Looks for names of these inodes in these directories.
    async fn look_for(&mut self, inos: &BTreeSet<Ino>, dirs: Vec<Ino>) {
        for dir in dirs {
            let Ok(Some(d)) = self.dinode(dir).await else { continue };
            if !d.is_dir() {
                continue;
            }
            let mut walk = Walk::new(&d);
            while let Some(step) = walk.next(&self.geometry) {
                let lbn = step.lbn;
                if self.usable(&d, lbn, step.ptr).is_hole()
                    || lbn < 0 && walk.has_met(step.ptr.addr)
                {
                    continue;
                }
                let Ok(content) = self.image.block(dir, lbn, step.ptr).await else { continue };
                if lbn < 0 {
                    walk.descend(step, content);
                    continue;
                }
                let len = self.bytes_in(&d, lbn as u64, &content);
                let format = self.features.directories;
                if format.validate(&content[..len], (lbn == 0).then_some(dir)).is_err() {
                    continue;
                }
                for item in format.items(&content[..len], 0) {
                    if inos.contains(&item.ino) && !matches!(item.name, b"." | b"..") {
                        let known = self.names.entry(item.ino);
                        known.or_insert_with(|| (dir, item.name.to_vec()));
                    }
                }
            }
        }
    }
}
