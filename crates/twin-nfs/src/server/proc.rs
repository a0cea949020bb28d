//! The numbers of programs and procedures (RFC 1813).
#![allow(missing_docs)] // The names are those of the protocol.

pub const NFS: u32 = 100_003;
pub const MOUNT: u32 = 100_005;
pub const PORTMAP: u32 = 100_000;

pub const NULL: u32 = 0;
pub const GETATTR: u32 = 1;
pub const SETATTR: u32 = 2;
pub const LOOKUP: u32 = 3;
pub const ACCESS: u32 = 4;
pub const READLINK: u32 = 5;
pub const READ: u32 = 6;
pub const WRITE: u32 = 7;
pub const CREATE: u32 = 8;
pub const MKDIR: u32 = 9;
pub const SYMLINK: u32 = 10;
pub const MKNOD: u32 = 11;
pub const REMOVE: u32 = 12;
pub const RMDIR: u32 = 13;
pub const RENAME: u32 = 14;
pub const LINK: u32 = 15;
pub const READDIR: u32 = 16;
pub const READDIRPLUS: u32 = 17;
pub const FSSTAT: u32 = 18;
pub const FSINFO: u32 = 19;
pub const PATHCONF: u32 = 20;
pub const COMMIT: u32 = 21;

/// The number of NFS procedures.
pub const COUNT: usize = 22;

/// The names of the procedures, by number.
pub const NAMES: [&str; COUNT] = [
    "null",
    "getattr",
    "setattr",
    "lookup",
    "access",
    "readlink",
    "read",
    "write",
    "create",
    "mkdir",
    "symlink",
    "mknod",
    "remove",
    "rmdir",
    "rename",
    "link",
    "readdir",
    "readdirplus",
    "fsstat",
    "fsinfo",
    "pathconf",
    "commit",
];

/// The index of a procedure in tables; `None` if there is no such procedure.
pub fn index(procedure: u32) -> Option<usize> {
    usize::try_from(procedure).ok().filter(|&index| index < COUNT)
}

/// True for procedures that must not be executed again when a call is repeated. A WRITE is among
/// them, although it may be executed twice in a row: a copy of the call that was held up on an old
/// connection would undo later writes.
pub fn is_changing(procedure: u32) -> bool {
    matches!(procedure, SETATTR | WRITE..=LINK)
}

/// The procedures of the portmapper.
pub mod portmap {
    pub const NULL: u32 = 0;
    pub const GETPORT: u32 = 3;
    pub const DUMP: u32 = 4;
}

/// The procedures of MOUNT.
pub mod mount {
    pub const NULL: u32 = 0;
    pub const MNT: u32 = 1;
    pub const DUMP: u32 = 2;
    pub const UMNT: u32 = 3;
    pub const UMNTALL: u32 = 4;
    pub const EXPORT: u32 = 5;
}
