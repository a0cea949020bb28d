//! The tree as a trace knows it: which names lead to which files at each moment.
//!
//! Contract: a trace can only hold what a replay can do. So this tree starts empty, a file that is met for
//! the first time gets a node (it existed before the trace), and every operation that is written changes this
//! tree as it changes the replay's. Where a server's answer contradicts it, the answer gives way.

use twin_fs::{Ino, Name, ROOT_INO, mode};
use twin_rt::{FixedMap, FixedSet};

use crate::nfs::Attr;

/// A file of the tree that was seen so far.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    /// Type and permission bits.
    pub(super) mode: u32,
    /// Length of the file in bytes.
    pub(super) size: u64,
    /// References that the trace holds, from lookups and creations.
    pub(super) refs: u64,
    /// The directories and names that lead to it; to a directory only one does.
    pub(super) places: Vec<(Ino, Name)>,
    /// The number of names in it, if it is a directory.
    pub(super) entries: u64,
    /// The directory was made within the trace, so nothing in it existed before.
    pub(super) is_new: bool,
    /// The number of its handle, if it is known.
    pub(super) handle: Option<usize>,
}

impl File {
    pub(super) fn new(mode: u32, attr: Option<Attr>) -> File {
        File { mode, size: attr.map_or(0, |attr| attr.size), ..File::default() }
    }

    pub(super) fn is_dir(&self) -> bool {
        self.mode & mode::TYPE == mode::DIRECTORY
    }
}

/// The tree of names that the calls and replies have shown so far.
pub(super) struct Names {
    files: FixedMap<Ino, File>,
    names: FixedMap<(Ino, Name), Ino>,
    /// Names of which a node cannot be made any more: there is one, or the trace has found them to be free.
    decided: FixedSet<(Ino, Name)>,
    next: Ino,
}

impl Names {
    pub(super) fn new() -> Names {
        let root = File { mode: mode::DIRECTORY | 0o755, refs: 1, ..File::default() };
        Names {
            files: [(ROOT_INO, root)].into_iter().collect(),
            names: FixedMap::default(),
            decided: FixedSet::default(),
            next: ROOT_INO + 1,
        }
    }

    /// The file of a name.
    pub(super) fn get(&self, dir: Ino, name: &[u8]) -> Option<Ino> {
        self.names.get(&(dir, name.into())).copied()
    }

    /// True if a node can still be made of this name.
    pub(super) fn undecided(&self, dir: Ino, name: &[u8]) -> bool {
        let is_new = self.file(dir).is_some_and(|dir| dir.is_new);
        !is_new && !self.decided.contains(&(dir, name.into()))
    }

    /// Notes that the trace says that a name is free.
    pub(super) fn decide(&mut self, dir: Ino, name: &[u8]) {
        self.decided.insert((dir, name.into()));
    }

    /// A file that exists.
    pub(super) fn file(&self, ino: Ino) -> Option<&File> {
        self.files.get(&ino)
    }

    pub(super) fn file_mut(&mut self, ino: Ino) -> Option<&mut File> {
        self.files.get_mut(&ino)
    }

    pub(super) fn is_dir(&self, ino: Ino) -> bool {
        self.file(ino).is_some_and(File::is_dir)
    }

    /// Adds a file under a name that is free; returns its number.
    pub(super) fn add(&mut self, dir: Ino, name: &[u8], file: File) -> Ino {
        let ino = self.next;
        self.next += 1;
        self.files.insert(ino, file);
        self.link(ino, dir, name);
        ino
    }

    /// Adds a name, which is free, to a file.
    pub(super) fn link(&mut self, ino: Ino, dir: Ino, name: &[u8]) {
        self.names.insert((dir, name.into()), ino);
        self.decide(dir, name);
        if let Some(dir) = self.files.get_mut(&dir) {
            dir.entries += 1;
        }
        if let Some(file) = self.files.get_mut(&ino) {
            file.places.push((dir, name.into()));
        }
    }

    /// Removes a name; returns its file.
    pub(super) fn unlink(&mut self, dir: Ino, name: &[u8]) -> Option<Ino> {
        let ino = self.names.remove(&(dir, name.into()))?;
        if let Some(dir) = self.files.get_mut(&dir) {
            dir.entries = dir.entries.saturating_sub(1);
        }
        let file = self.files.get_mut(&ino)?;
        file.places.retain(|(at, old)| *at != dir || **old != *name);
        Some(ino)
    }

    /// Forgets a file without names.
    pub(super) fn forget(&mut self, ino: Ino) -> Option<File> {
        self.files.remove(&ino)
    }

    /// True if `ino` is `dir` or a directory above it.
    pub(super) fn is_above(&self, ino: Ino, mut dir: Ino) -> bool {
        loop {
            if dir == ino {
                return true;
            }
            match self.file(dir).and_then(|file| file.places.first()) {
                Some(&(parent, _)) if dir != ROOT_INO => dir = parent,
                _ => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_its_names_until_they_are_removed() {
        let mut names = Names::new();
        let file = names.add(ROOT_INO, b"a", File::new(mode::REGULAR, None));
        names.link(file, ROOT_INO, b"b");
        assert_eq!(
            (names.get(ROOT_INO, b"a"), names.get(ROOT_INO, b"b")),
            (Some(file), Some(file))
        );
        assert_eq!(names.unlink(ROOT_INO, b"b"), Some(file));
        assert_eq!(names.file(file).unwrap().places.len(), 1);
        assert_eq!(names.unlink(ROOT_INO, b"b"), None);
        assert!(!names.undecided(ROOT_INO, b"b") && names.undecided(ROOT_INO, b"c"));
    }

    #[test]
    fn directories_above_are_found() {
        let mut names = Names::new();
        let dir = || File::new(mode::DIRECTORY, None);
        let a = names.add(ROOT_INO, b"a", dir());
        let b = names.add(a, b"b", dir());
        let c = names.add(ROOT_INO, b"c", dir());
        assert!(names.is_above(a, b) && names.is_above(b, b) && names.is_above(ROOT_INO, c));
        assert!(!names.is_above(b, a) && !names.is_above(c, b));
    }
}
