//! Files that are renamed over others before their writers have closed them.
//!
//! Programs replace a file by writing a new one and renaming it over the old name. Many do so without an
//! fsync, and some before they close the new file. The kernel then still holds what was written, and a
//! crash some seconds later, when the rename is durable, would leave a name that has lost the old bytes
//! and does not have the new ones. ext4 therefore writes the data at such a rename (`auto_da_alloc`).
//!
//! Contract: [`replacement`] says which file's pages a front end must fetch before it executes an
//! operation. The volume does the rest: see [`Layout::before_replace`](twin_fs::Layout::before_replace).

use twin_fs::{FileSystem, Ino, Op, Peeked, mode};

use super::translate::node;

/// The file that an operation puts in place of another one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Replacement {
    /// The operation puts no file in place of another.
    None,
    /// The operation puts this file in place of another.
    File(Ino),
    /// The file is not known without waiting.
    Unknown,
}

impl Replacement {
    /// The node of the file; `None` if any may be meant.
    pub(super) fn node(&self) -> Option<u64> {
        match self {
            Replacement::File(ino) => Some(node(*ino)),
            _ => None,
        }
    }
}

/// The file that an operation puts in place of another one.
pub(super) fn replacement<F: FileSystem>(fs: &F, op: &Op) -> Replacement {
    let Op::Rename { dir, name, to_dir, to_name, mode } = op else { return Replacement::None };
    if !mode.replaces() {
        return Replacement::None;
    }
    let is_file = |ino| fs.known(ino).is_none_or(|entry| entry.attr.kind() == mode::REGULAR);
    match (fs.peek(*dir, name), fs.peek(*to_dir, to_name)) {
        (Peeked::Absent, _) | (_, Peeked::Absent) => Replacement::None,
        (Peeked::LeadsTo(old), Peeked::LeadsTo(new)) if old == new => Replacement::None,
        (Peeked::LeadsTo(ino), _) if !is_file(ino) => Replacement::None,
        (_, Peeked::LeadsTo(ino)) if !is_file(ino) => Replacement::None,
        (Peeked::LeadsTo(ino), _) => Replacement::File(ino),
        (Peeked::Unknown, _) => Replacement::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_fs::{Attr, FsError, LookupEntry, RenameMode, Reply, Request};

    /// A directory with files `a` (5) and `b` (6), a directory `d` (7), and names that are unknown.
    struct Names;

    impl FileSystem for Names {
        async fn execute(&self, _: Request) -> Result<Reply, FsError> {
            Err(FsError::NotFound)
        }

        fn peek(&self, _: Ino, name: &[u8]) -> Peeked {
            match name {
                b"a" => Peeked::LeadsTo(5),
                b"b" => Peeked::LeadsTo(6),
                b"d" => Peeked::LeadsTo(7),
                b"unknown" => Peeked::Unknown,
                _ => Peeked::Absent,
            }
        }

        fn known(&self, ino: Ino) -> Option<LookupEntry> {
            let kind = if ino == 7 { mode::DIRECTORY } else { mode::REGULAR };
            Some(LookupEntry { attr: Attr { ino, mode: kind, ..Attr::default() }, generation: 1 })
        }
    }

    fn of(from: &str, to: &str, mode: RenameMode) -> Replacement {
        let (name, to_name) = (from.as_bytes().into(), to.as_bytes().into());
        replacement(&Names, &Op::Rename { dir: 2, name, to_dir: 2, to_name, mode })
    }

    #[test]
    fn pages_are_needed_of_a_file_that_takes_the_place_of_another() {
        let over = RenameMode::Replace;
        assert_eq!(of("a", "b", over), Replacement::File(5));
        assert_eq!(of("a", "b", RenameMode::Whiteout), Replacement::File(5));
        assert_eq!(of("a", "unknown", over), Replacement::File(5));
        assert_eq!(of("unknown", "b", over), Replacement::Unknown);
    }

    #[test]
    fn nothing_is_fetched_where_no_file_is_replaced() {
        let over = RenameMode::Replace;
        for (from, to) in [("a", "new"), ("gone", "b"), ("a", "a"), ("d", "b"), ("a", "d")] {
            assert_eq!(of(from, to, over), Replacement::None, "{from} {to}");
        }
        assert_eq!(of("a", "b", RenameMode::Exchange), Replacement::None);
        assert_eq!(of("a", "b", RenameMode::NoReplace), Replacement::None);
        assert_eq!(replacement(&Names, &Op::Sync), Replacement::None);
    }
}
