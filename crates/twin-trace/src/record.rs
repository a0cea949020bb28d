//! The records of a trace of operations, in the order of events: [`Record`].

use twin_fs::{DirEntry, FsError, Ino, Name, Op, Reply, Request, mode};
use twin_rt::Nanos;

/// One record of a trace of operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A file that existed before the trace began, recorded when it first occurs.
    Node(Node),
    /// A client asked for an operation.
    Request {
        /// The time of the request since the start of the trace.
        at_ns: Nanos,
        /// The request; its `id` is its number in the trace, from 1, without gaps.
        request: Request,
    },
    /// A request was answered.
    Reply {
        /// The time of the answer since the start of the trace.
        at_ns: Nanos,
        /// The number of the request.
        id: u64,
        /// The answer, without the parts that a replay does not need.
        outcome: Outcome,
    },
}

/// A name, and its inode, that existed before the trace began.
///
/// The root has no node. A directory has its node before those of its entries. An inode may have
/// several nodes: one for each further name (`nlink` is then above 1), and a second one with `attr`
/// that completes a first one without.
///
/// A node without a name is that of data in a file, which had a node before ([`Node::data`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The directory that holds the name.
    pub dir: Ino,
    /// The name within the directory.
    pub name: Name,
    /// The inode, by its number in the trace.
    pub ino: Ino,
    /// Type bits of its mode, and the permissions if `attr` is present.
    pub mode: u32,
    /// The other attributes; unknown if the name was only listed.
    pub attr: Option<NodeAttr>,
}

impl Node {
    /// The node that says that a file has data in a range of `len` bytes from `off` on. A file with such
    /// nodes has data in their ranges and nowhere else; without any, a file has the bytes of its storage
    /// from its beginning on.
    pub fn data(ino: Ino, off: u64, len: u64) -> Node {
        let (size, allocated) = (off.saturating_add(len), len);
        let attr = Some(NodeAttr { nlink: 1, size, allocated, ..NodeAttr::default() });
        Node { dir: twin_fs::ROOT_INO, name: [].as_slice().into(), ino, mode: mode::REGULAR, attr }
    }

    /// The beginning and length of a range that has data; `None` for the node of a name.
    pub fn as_data(&self) -> Option<(u64, u64)> {
        let attr = self.attr.filter(|_| self.name.is_empty())?;
        let len = attr.allocated.min(attr.size);
        Some((attr.size - len, len))
    }

    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.mode & mode::TYPE == mode::DIRECTORY
    }
}

/// Attributes of a [`Node`], as of its first lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NodeAttr {
    /// Number of names of the file.
    pub nlink: u32,
    /// User number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Device number of a special file.
    pub rdev: u64,
    /// Length of the file in bytes.
    pub size: u64,
    /// Bytes of storage: fewer than its length for a sparse file, otherwise equal to the length.
    pub allocated: u64,
}

/// An answer, with the parts that a trace keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request failed with this error.
    Failed(ErrorCode),
    /// Success without a value (of StatFs too).
    Done,
    /// An entry: later operations may refer to this inode.
    Entry(Ino),
    /// Success with attributes, which are not kept.
    Attr,
    /// This many bytes of file data.
    Data(u64),
    /// A link target, attribute value or attribute names of this many bytes.
    Bytes(u64),
    /// This many bytes were written.
    Written(u64),
    /// The entries of a listing.
    Dir(DirOutcome),
    /// The offset that a seek found.
    Offset(u64),
}

/// The answer to [`Op::ReadDir`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DirOutcome {
    /// The number of entries; zero means the end of the directory.
    pub entries: u32,
    /// The cookie after the last entry; zero if there is none.
    pub next: u64,
    /// With `plus`: the inodes to which the listing returned a reference, in order.
    pub referenced: Vec<Ino>,
}

impl Outcome {
    /// The error, if the request failed.
    pub fn error(&self) -> Option<ErrorCode> {
        match self {
            Outcome::Failed(code) => Some(*code),
            _ => None,
        }
    }

    /// The outcome that a trace keeps of a result.
    pub fn of(result: &Result<Reply, FsError>) -> Outcome {
        match result {
            Err(error) => Outcome::Failed(ErrorCode::of(error)),
            Ok(Reply::Done | Reply::Stat(_)) => Outcome::Done,
            Ok(Reply::Entry(entry)) => Outcome::Entry(entry.attr.ino),
            Ok(Reply::Attr(_)) => Outcome::Attr,
            Ok(Reply::Data(blocks)) => Outcome::Data(blocks.iter().map(|b| b.len() as u64).sum()),
            Ok(Reply::Bytes(bytes)) => Outcome::Bytes(bytes.len() as u64),
            Ok(Reply::Written(n)) => Outcome::Written(*n),
            Ok(Reply::Dir(entries)) => Outcome::Dir(DirOutcome::of(entries)),
            Ok(Reply::Offset(off)) => Outcome::Offset(*off),
        }
    }
}

impl DirOutcome {
    fn of(entries: &[DirEntry]) -> DirOutcome {
        DirOutcome {
            entries: entries.len() as u32,
            next: entries.last().map_or(0, |e| e.next),
            referenced: entries.iter().filter_map(|e| Some(e.entry.as_ref()?.attr.ino)).collect(),
        }
    }
}

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $code:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)] // The doc comment of each variant is its meaning.
        pub enum $name { $($variant = $code,)* }

        impl $name {
            /// All of them, in the order of their codes.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// The one with this code in a trace.
            pub fn from_code(code: u8) -> Option<$name> {
                match code {
                    $($code => Some($name::$variant),)*
                    _ => None,
                }
            }

            /// The name of the verb in reports.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

codes! {
    /// [`FsError`] without its details. The number is the code in a trace.
    ErrorCode {
        NotFound = 1 "not-found",
        Exists = 2 "exists",
        NotDirectory = 3 "not-directory",
        IsDirectory = 4 "is-directory",
        NotEmpty = 5 "not-empty",
        Access = 6 "access",
        NotPermitted = 7 "not-permitted",
        NoSpace = 8 "no-space",
        NoInodes = 9 "no-inodes",
        NameTooLong = 10 "name-too-long",
        Invalid = 11 "invalid",
        FileTooBig = 12 "file-too-big",
        TooManyLinks = 13 "too-many-links",
        NoAttribute = 14 "no-attribute",
        Range = 15 "range",
        AttributesTooBig = 16 "attributes-too-big",
        NoSuchOffset = 17 "no-such-offset",
        Stale = 18 "stale",
        ReadOnly = 19 "read-only",
        NotSupported = 20 "not-supported",
        Io = 21 "io",
        Corrupt = 22 "corrupt",
        CrossDevice = 23 "cross-device",
        Busy = 24 "busy",
        Refused = 25 "refused",
        QuotaExceeded = 26 "quota-exceeded",
    }
}

impl ErrorCode {
    /// The code of an error.
    pub fn of(error: &FsError) -> ErrorCode {
        match error {
            FsError::NotFound => ErrorCode::NotFound,
            FsError::Exists => ErrorCode::Exists,
            FsError::NotDirectory => ErrorCode::NotDirectory,
            FsError::IsDirectory => ErrorCode::IsDirectory,
            FsError::NotEmpty => ErrorCode::NotEmpty,
            FsError::Access => ErrorCode::Access,
            FsError::NotPermitted => ErrorCode::NotPermitted,
            FsError::NoSpace => ErrorCode::NoSpace,
            FsError::NoInodes => ErrorCode::NoInodes,
            FsError::NameTooLong => ErrorCode::NameTooLong,
            FsError::Invalid(_) => ErrorCode::Invalid,
            FsError::FileTooBig => ErrorCode::FileTooBig,
            FsError::TooManyLinks => ErrorCode::TooManyLinks,
            FsError::NoAttribute => ErrorCode::NoAttribute,
            FsError::Range => ErrorCode::Range,
            FsError::AttributesTooBig => ErrorCode::AttributesTooBig,
            FsError::NoSuchOffset => ErrorCode::NoSuchOffset,
            FsError::Stale => ErrorCode::Stale,
            FsError::ReadOnly => ErrorCode::ReadOnly,
            FsError::NotSupported(_) => ErrorCode::NotSupported,
            FsError::Io(_) => ErrorCode::Io,
            FsError::Corrupt { .. } => ErrorCode::Corrupt,
            FsError::CrossDevice => ErrorCode::CrossDevice,
            FsError::Busy => ErrorCode::Busy,
            FsError::Refused(_) => ErrorCode::Refused,
            FsError::QuotaExceeded => ErrorCode::QuotaExceeded,
        }
    }
}

codes! {
    /// The kind of an operation: [`Op`] without its arguments. The number is the code in a trace.
    Verb {
        Lookup = 1 "lookup",
        Forget = 2 "forget",
        GetAttr = 3 "getattr",
        SetAttr = 4 "setattr",
        ReadLink = 5 "readlink",
        MakeNode = 6 "mknod",
        MakeDir = 7 "mkdir",
        Symlink = 8 "symlink",
        Create = 9 "create",
        Unlink = 10 "unlink",
        RemoveDir = 11 "rmdir",
        Rename = 12 "rename",
        Link = 13 "link",
        Open = 14 "open",
        Release = 15 "release",
        Read = 16 "read",
        Write = 17 "write",
        Fsync = 18 "fsync",
        ReadDir = 19 "readdir",
        StatFs = 20 "statfs",
        Access = 21 "access",
        SetXattr = 22 "setxattr",
        GetXattr = 23 "getxattr",
        ListXattr = 24 "listxattr",
        RemoveXattr = 25 "removexattr",
        Fallocate = 26 "fallocate",
        Seek = 27 "seek",
        Sync = 28 "sync",
    }
}

impl Verb {
    /// The verb of an operation.
    pub fn of(op: &Op) -> Verb {
        match op {
            Op::Lookup { .. } => Verb::Lookup,
            Op::Forget { .. } => Verb::Forget,
            Op::GetAttr { .. } => Verb::GetAttr,
            Op::SetAttr { .. } => Verb::SetAttr,
            Op::ReadLink { .. } => Verb::ReadLink,
            Op::MakeNode { .. } => Verb::MakeNode,
            Op::MakeDir { .. } => Verb::MakeDir,
            Op::Symlink { .. } => Verb::Symlink,
            Op::Create { .. } => Verb::Create,
            Op::Unlink { .. } => Verb::Unlink,
            Op::RemoveDir { .. } => Verb::RemoveDir,
            Op::Rename { .. } => Verb::Rename,
            Op::Link { .. } => Verb::Link,
            Op::Open { .. } => Verb::Open,
            Op::Release { .. } => Verb::Release,
            Op::Read { .. } => Verb::Read,
            Op::Write { .. } | Op::WriteBack { .. } | Op::Append { .. } => Verb::Write,
            Op::Fsync { .. } => Verb::Fsync,
            Op::ReadDir { .. } => Verb::ReadDir,
            Op::StatFs => Verb::StatFs,
            Op::Access { .. } => Verb::Access,
            Op::SetXattr { .. } => Verb::SetXattr,
            Op::GetXattr { .. } => Verb::GetXattr,
            Op::ListXattr { .. } => Verb::ListXattr,
            Op::RemoveXattr { .. } => Verb::RemoveXattr,
            Op::Fallocate { .. } => Verb::Fallocate,
            Op::Seek { .. } => Verb::Seek,
            Op::Sync => Verb::Sync,
        }
    }
}

/// The part of a file's contents that an operation reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The file whose contents move.
    pub ino: Ino,
    /// Offset of the first byte that moves.
    pub off: u64,
    /// How many bytes it asks for.
    pub bytes: u64,
    /// True if they are written, at once or back from a kernel's cache.
    pub is_write: bool,
}

impl Transfer {
    /// The part that an operation reads or writes; `None` if it is no read or write. All operations
    /// are named here, so that no study forgets one that is added.
    pub fn of(op: &Op) -> Option<Transfer> {
        match op {
            Op::Read { ino, off, len } => {
                Some(Transfer { ino: *ino, off: *off, bytes: u64::from(*len), is_write: false })
            }
            Op::Write { ino, off, data }
            | Op::Append { ino, off, data }
            | Op::WriteBack { ino, off, data } => {
                Some(Transfer { ino: *ino, off: *off, bytes: data.len(), is_write: true })
            }
            Op::Lookup { .. }
            | Op::Forget { .. }
            | Op::GetAttr { .. }
            | Op::SetAttr { .. }
            | Op::ReadLink { .. }
            | Op::MakeNode { .. }
            | Op::MakeDir { .. }
            | Op::Symlink { .. }
            | Op::Create { .. }
            | Op::Unlink { .. }
            | Op::RemoveDir { .. }
            | Op::Rename { .. }
            | Op::Link { .. }
            | Op::Open { .. }
            | Op::Release { .. }
            | Op::Fsync { .. }
            | Op::ReadDir { .. }
            | Op::StatFs
            | Op::Access { .. }
            | Op::SetXattr { .. }
            | Op::GetXattr { .. }
            | Op::ListXattr { .. }
            | Op::RemoveXattr { .. }
            | Op::Fallocate { .. }
            | Op::Seek { .. }
            | Op::Sync => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_leads_back_to_its_variant() {
        for &verb in Verb::ALL {
            assert_eq!(Verb::from_code(verb as u8), Some(verb));
        }
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(code as u8), Some(code));
        }
        assert_eq!((Verb::from_code(0), ErrorCode::from_code(0)), (None, None));
    }

    #[test]
    fn a_listing_keeps_what_gained_a_reference() {
        let plain =
            DirEntry { name: (*b".").into(), ino: 2, kind: mode::DIRECTORY, next: 1, entry: None };
        let attr = twin_fs::Attr { ino: 9, ..Default::default() };
        let entry = twin_fs::LookupEntry { attr, generation: 0 };
        let plus = DirEntry {
            name: (*b"a").into(),
            ino: 9,
            next: 5,
            entry: Some(Box::new(entry)),
            ..plain
        };
        let plain = DirEntry { entry: None, ..plus.clone() };
        let outcome = Outcome::of(&Ok(Reply::Dir(vec![plain, plus])));
        let expected = DirOutcome { entries: 2, next: 5, referenced: vec![9] };
        assert_eq!(outcome, Outcome::Dir(expected));
    }
}
