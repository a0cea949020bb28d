//! Operations and replies: the interface between clients and file systems.
//!
//! [`Op`] is plain data. Front ends, traces and fuzzers all use this type, so recording means
//! writing it to a file and replaying means reading it back.
//!
//! Lifetime of an inode number: every [`LookupEntry`] in a reply adds one reference to its inode
//! (for [`Op::ReadDir`] with `plus`, entries other than `.` and `..`); [`Op::Forget`] drops
//! references. [`Op::Open`] and [`Op::Create`] add an open, [`Op::Release`] drops it. An inode
//! without names stays in existence while it has references or opens. The root needs no reference.

use std::future::Future;

use twin_disk::{Block, Bytes};
use twin_rt::Time;

use crate::Result;
use crate::acl::AccessAcl;
use crate::quota::Quota;

/// An inode number. Never zero.
pub type Ino = u64;
/// The root directory's number on every layout.
pub const ROOT_INO: Ino = 2;
/// The longest name, in bytes.
pub const NAME_MAX: usize = 255;
/// A file name: bytes without a slash or a zero.
pub type Name = Box<[u8]>;

/// File type bits of a mode, as in POSIX `S_IFMT`.
pub mod mode {
    /// Mask of the type bits.
    pub const TYPE: u32 = 0o170_000;
    pub const SOCKET: u32 = 0o140_000;
    pub const SYMLINK: u32 = 0o120_000;
    pub const REGULAR: u32 = 0o100_000;
    pub const BLOCK: u32 = 0o060_000;
    pub const DIRECTORY: u32 = 0o040_000;
    pub const CHAR: u32 = 0o020_000;
    pub const FIFO: u32 = 0o010_000;
    /// Set user id on execution.
    pub const SETUID: u32 = 0o4000;
    /// Set group id on execution; on a directory, new files take its group.
    pub const SETGID: u32 = 0o2000;
    /// In such a directory only the owner of a file, or of the directory, may remove its name.
    pub const STICKY: u32 = 0o1000;
    /// Permission bits, with set-id and sticky.
    pub const PERMISSIONS: u32 = 0o7777;
    /// The file types that a mode can have.
    pub const KINDS: [u32; 7] = [SOCKET, SYMLINK, REGULAR, BLOCK, DIRECTORY, CHAR, FIFO];

    /// The mode of a new inode, with the umask of the client in the upper half, for a directory whose
    /// default ACL may take its place. A client that has applied its umask itself has none there.
    pub const fn with_umask(mode: u32, umask: u32) -> u32 {
        mode | (umask & 0o777) << UMASK_SHIFT
    }

    /// The mode of a new inode whose umask counts.
    pub const fn without_umask(wanted: u32) -> u32 {
        wanted & (TYPE | PERMISSIONS) & !(wanted >> UMASK_SHIFT & 0o777)
    }

    /// A mode of this type with the permissions, and the umask, of the other.
    pub(crate) const fn typed(kind: u32, wanted: u32) -> u32 {
        kind | wanted & !TYPE
    }

    /// The place of a umask in a mode, in bits.
    const UMASK_SHIFT: u32 = 16;

    /// True for the bits of a file type. A test of bits, not a search: each directory entry that is
    /// read takes it.
    pub const fn is_kind(bits: u32) -> bool {
        matches!(bits, SOCKET | SYMLINK | REGULAR | BLOCK | DIRECTORY | CHAR | FIFO)
    }
}

/// The credentials of the client that makes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cred {
    pub uid: u32,
    pub gid: u32,
    pub groups: Box<[u32]>,
    /// The front end has checked permission bits already (a kernel with `default_permissions`).
    /// Rules about ownership (chmod, chown, sticky, set-id) still hold.
    pub checked: bool,
}

impl Cred {
    /// The credentials of the superuser, who may do everything.
    pub fn root() -> Cred {
        Cred { uid: 0, gid: 0, groups: Box::default(), checked: false }
    }

    /// True if the group is the primary group or a supplementary one.
    pub fn is_member(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// A user with one group.
    pub fn user(uid: u32, gid: u32) -> Cred {
        Cred { uid, gid, groups: Box::default(), checked: false }
    }
}

/// A time of a file, in civil time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Seconds since the Unix epoch.
    pub secs: i64,
    /// Nanoseconds past the second.
    pub nanos: u32,
}

impl From<twin_rt::Time> for Timestamp {
    fn from(time: twin_rt::Time) -> Self {
        Timestamp { secs: time.secs() as i64, nanos: time.subsec_nanos() }
    }
}

/// The value to which a time of a file is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The volume's current time.
    Now,
    /// The time that the client gives.
    At(Timestamp),
}

/// The attributes of an inode to change. Fields that are `None` stay.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SetAttr {
    /// The new permission bits, with set-id and sticky bits.
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// Length in bytes: a smaller one truncates the file, a larger one extends it with a hole.
    pub size: Option<u64>,
    /// The time of the last access.
    pub atime: Option<SetTime>,
    /// Last change of content.
    pub mtime: Option<SetTime>,
    /// Last change of the inode. `None` means the current time if anything changes.
    pub ctime: Option<Timestamp>,
}

/// The data of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Bytes that the client gave.
    Bytes(Bytes),
    /// This many bytes whose content does not matter, as in a trace. They are stored as stamps, or
    /// as the bytes that the stamps stand for, depending on the settings of the volume.
    Synthetic(u64),
}

impl Data {
    /// The number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Synthetic(len) => *len,
        }
    }

    /// True if there are no bytes to write.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `len` bytes from `off` on, which must be within the data.
    pub fn part(&self, off: u64, len: u64) -> Data {
        match self {
            Data::Bytes(bytes) => Data::Bytes(bytes.slice(off as usize, len as usize)),
            Data::Synthetic(_) => Data::Synthetic(len),
        }
    }
}

/// The flags of `renameat2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum RenameMode {
    /// An existing target is replaced.
    #[default]
    Replace,
    /// An existing target is an error (RENAME_NOREPLACE).
    NoReplace,
    /// The two names change places (RENAME_EXCHANGE).
    Exchange,
    /// The old name becomes a whiteout: a character device 0, 0 (RENAME_WHITEOUT).
    Whiteout,
    /// As [`Whiteout`](Self::Whiteout), and an existing target is an error.
    WhiteoutNoReplace,
}

impl RenameMode {
    /// True if an existing target is an error.
    pub fn needs_new_name(self) -> bool {
        matches!(self, RenameMode::NoReplace | RenameMode::WhiteoutNoReplace)
    }

    /// True if the source takes the place of an existing target, which loses its name.
    pub fn replaces(self) -> bool {
        matches!(self, RenameMode::Replace | RenameMode::Whiteout)
    }

    /// True if the old name becomes a whiteout.
    pub fn leaves_whiteout(self) -> bool {
        matches!(self, RenameMode::Whiteout | RenameMode::WhiteoutNoReplace)
    }
}

/// The modes of `fallocate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fallocate {
    /// Reserve room, so that writes to the range cannot fail for want of it.
    Allocate {
        /// Do not extend the file. A range that goes beyond the end is then not supported, because no
        /// layout has blocks there.
        keep_size: bool,
    },
    /// Make a hole; the length of the file stays.
    PunchHole,
    /// Make the range read as zeros, and reserve room for it.
    ZeroRange {
        /// Do not extend the file, as for [`Allocate`](Self::Allocate).
        keep_size: bool,
    },
}

/// The target of `lseek`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SeekFor {
    /// The next byte of data.
    Data,
    /// The next hole; the end of the file counts as one.
    Hole,
}

/// The flags of `setxattr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum XattrMode {
    /// An attribute that exists is replaced.
    #[default]
    Any,
    /// The attribute must not exist.
    Create,
    /// The attribute must exist.
    Replace,
}

/// An operation on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Finds a name. `.` and `..` are allowed; `.` finds the inode itself, even if that is no
    /// directory, as long as it has a name. Returns an entry.
    Lookup { dir: Ino, name: Name },
    /// Drops references to an inode. Returns nothing and cannot fail.
    Forget { ino: Ino, count: u64 },
    /// Returns the attributes of an inode.
    GetAttr { ino: Ino },
    /// Changes attributes and returns the new ones.
    SetAttr { ino: Ino, set: SetAttr },
    /// Returns a symbolic link's target.
    ReadLink { ino: Ino },
    /// Makes a file of any kind except directories and symbolic links; `mode` has the type bits;
    /// `rdev` is the device number of a special file. Returns an entry. Here, in `MakeDir` and in
    /// `Create`, `mode` may carry a umask: see [`mode::with_umask`].
    MakeNode { dir: Ino, name: Name, mode: u32, rdev: u64 },
    /// Makes a directory. Returns an entry.
    MakeDir { dir: Ino, name: Name, mode: u32 },
    /// Makes a symbolic link. Returns an entry.
    Symlink { dir: Ino, name: Name, target: Box<[u8]> },
    /// Makes a regular file if the name does not exist, and opens it. If `exclusive`, an existing
    /// name is an error. Returns an entry.
    Create { dir: Ino, name: Name, mode: u32, exclusive: bool },
    /// Removes a name of an inode that is not a directory.
    Unlink { dir: Ino, name: Name },
    /// Removes an empty directory.
    RemoveDir { dir: Ino, name: Name },
    /// Moves a name, within a directory or to another one.
    Rename { dir: Ino, name: Name, to_dir: Ino, to_name: Name, mode: RenameMode },
    /// Makes another name for an inode. Returns an entry.
    Link { ino: Ino, dir: Ino, name: Name },
    /// Opens a file or directory, which holds the inode until [`Op::Release`]. `read` and `write`
    /// ask for these permissions.
    Open { ino: Ino, read: bool, write: bool, truncate: bool },
    /// Drops an open. Like [`Op::Forget`] it cannot fail.
    Release { ino: Ino },
    /// Reads; returns data, which is shorter than `len` at the end of the file.
    Read { ino: Ino, off: u64, len: u32 },
    /// Writes all of the data and returns the number of bytes.
    Write { ino: Ino, off: u64, data: Data },
    /// Writes all of the data behind the end that the file has then, whoever else appends, and
    /// returns the number of bytes. `off` is the end that the client knew, which is only recorded.
    Append { ino: Ino, off: u64, data: Data },
    /// Writes data that the front end's own cache collected from earlier writes; returns the number
    /// of bytes. Times and set-id bits stay: the front end changed them when the writes were made,
    /// and sends them with [`Op::SetAttr`].
    WriteBack { ino: Ino, off: u64, data: Data },
    /// Makes a file, and the names that lead to it, durable. With `data_only` its times need not
    /// become durable.
    Fsync { ino: Ino, data_only: bool },
    /// Reads a directory from a cookie (0: the start). An entry costs 24 bytes and its name,
    /// rounded up to 8, and with `plus` 128 bytes more; the reply ends before the sum exceeds
    /// `max_bytes`.
    ReadDir { dir: Ino, cookie: u64, max_bytes: u32, plus: bool },
    /// Returns the figures of the volume.
    StatFs,
    /// Asks whether reading (4), writing (2) and executing (1) are allowed.
    Access { ino: Ino, mask: u32 },
    /// Sets an extended attribute.
    SetXattr { ino: Ino, name: Name, value: Box<[u8]>, mode: XattrMode },
    /// Returns an extended attribute's value.
    GetXattr { ino: Ino, name: Name },
    /// Returns the names of the extended attributes, each ended by a zero byte.
    ListXattr { ino: Ino },
    /// Removes an extended attribute.
    RemoveXattr { ino: Ino, name: Name },
    /// Reserves, punches or zeroes a range.
    Fallocate { ino: Ino, off: u64, len: u64, mode: Fallocate },
    /// Finds data or a hole at or after an offset. Returns an offset.
    Seek { ino: Ino, off: u64, what: SeekFor },
    /// Makes all changes so far durable.
    Sync,
}

impl Op {
    /// The file, place and data of an operation that writes data. The place of an append is the one
    /// that its client expected.
    pub fn written(&self) -> Option<(Ino, u64, &Data)> {
        match self {
            Op::Write { ino, off, data }
            | Op::WriteBack { ino, off, data }
            | Op::Append { ino, off, data } => Some((*ino, *off, data)),
            _ => None,
        }
    }

    /// Its name in the log of events, which is that of the system call that asks for it where there is one.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Lookup { .. } => "lookup",
            Op::Forget { .. } => "forget",
            Op::GetAttr { .. } => "getattr",
            Op::SetAttr { .. } => "setattr",
            Op::ReadLink { .. } => "readlink",
            Op::MakeNode { .. } => "mknod",
            Op::MakeDir { .. } => "mkdir",
            Op::Symlink { .. } => "symlink",
            Op::Create { .. } => "create",
            Op::Unlink { .. } => "unlink",
            Op::RemoveDir { .. } => "rmdir",
            Op::Rename { .. } => "rename",
            Op::Link { .. } => "link",
            Op::Open { .. } => "open",
            Op::Release { .. } => "release",
            Op::Read { .. } => "read",
            Op::Write { .. } => "write",
            Op::Append { .. } => "append",
            Op::WriteBack { .. } => "write-back",
            Op::Fsync { .. } => "fsync",
            Op::ReadDir { .. } => "readdir",
            Op::StatFs => "statfs",
            Op::Access { .. } => "access",
            Op::SetXattr { .. } => "setxattr",
            Op::GetXattr { .. } => "getxattr",
            Op::ListXattr { .. } => "listxattr",
            Op::RemoveXattr { .. } => "removexattr",
            Op::Fallocate { .. } => "fallocate",
            Op::Seek { .. } => "seek",
            Op::Sync => "sync",
        }
    }

    /// The inode that it is about: the directory, if it is about a name. 0 for the whole volume.
    pub fn subject(&self) -> Ino {
        match self {
            Op::Lookup { dir, .. }
            | Op::MakeNode { dir, .. }
            | Op::MakeDir { dir, .. }
            | Op::Symlink { dir, .. }
            | Op::Create { dir, .. }
            | Op::Unlink { dir, .. }
            | Op::RemoveDir { dir, .. }
            | Op::Rename { dir, .. }
            | Op::ReadDir { dir, .. } => *dir,
            Op::Forget { ino, .. }
            | Op::GetAttr { ino, .. }
            | Op::SetAttr { ino, .. }
            | Op::ReadLink { ino, .. }
            | Op::Link { ino, .. }
            | Op::Open { ino, .. }
            | Op::Release { ino, .. }
            | Op::Read { ino, .. }
            | Op::Write { ino, .. }
            | Op::Append { ino, .. }
            | Op::WriteBack { ino, .. }
            | Op::Fsync { ino, .. }
            | Op::Access { ino, .. }
            | Op::SetXattr { ino, .. }
            | Op::GetXattr { ino, .. }
            | Op::ListXattr { ino, .. }
            | Op::RemoveXattr { ino, .. }
            | Op::Fallocate { ino, .. }
            | Op::Seek { ino, .. } => *ino,
            Op::StatFs | Op::Sync => 0,
        }
    }

    /// The inode numbers in it, to be changed.
    pub fn inos_mut(&mut self) -> [Option<&mut Ino>; 2] {
        match self {
            Op::Lookup { dir, .. }
            | Op::MakeNode { dir, .. }
            | Op::MakeDir { dir, .. }
            | Op::Symlink { dir, .. }
            | Op::Create { dir, .. }
            | Op::Unlink { dir, .. }
            | Op::RemoveDir { dir, .. }
            | Op::ReadDir { dir, .. } => [Some(dir), None],
            Op::Rename { dir, to_dir, .. } => [Some(dir), Some(to_dir)],
            Op::Link { ino, dir, .. } => [Some(ino), Some(dir)],
            Op::Forget { ino, .. }
            | Op::GetAttr { ino }
            | Op::SetAttr { ino, .. }
            | Op::ReadLink { ino }
            | Op::Open { ino, .. }
            | Op::Release { ino }
            | Op::Read { ino, .. }
            | Op::Write { ino, .. }
            | Op::WriteBack { ino, .. }
            | Op::Append { ino, .. }
            | Op::Fsync { ino, .. }
            | Op::Access { ino, .. }
            | Op::SetXattr { ino, .. }
            | Op::GetXattr { ino, .. }
            | Op::ListXattr { ino }
            | Op::RemoveXattr { ino, .. }
            | Op::Fallocate { ino, .. }
            | Op::Seek { ino, .. } => [Some(ino), None],
            Op::StatFs | Op::Sync => [None, None],
        }
    }

    /// True if it changes the volume, so that a volume which takes no changes refuses it. References
    /// and opens do not count as changes, nor does making durable what was changed before.
    ///
    /// There is no arm for all others: whoever adds an operation has to answer for it here.
    pub fn changes_volume(&self) -> bool {
        match self {
            Op::SetAttr { .. }
            | Op::MakeNode { .. }
            | Op::MakeDir { .. }
            | Op::Symlink { .. }
            | Op::Create { .. }
            | Op::Unlink { .. }
            | Op::RemoveDir { .. }
            | Op::Rename { .. }
            | Op::Link { .. }
            | Op::Write { .. }
            | Op::WriteBack { .. }
            | Op::Append { .. }
            | Op::SetXattr { .. }
            | Op::RemoveXattr { .. }
            | Op::Fallocate { .. } => true,
            Op::Open { truncate, .. } => *truncate,
            Op::Lookup { .. }
            | Op::Forget { .. }
            | Op::GetAttr { .. }
            | Op::ReadLink { .. }
            | Op::Release { .. }
            | Op::Read { .. }
            | Op::Fsync { .. }
            | Op::ReadDir { .. }
            | Op::StatFs
            | Op::Access { .. }
            | Op::GetXattr { .. }
            | Op::ListXattr { .. }
            | Op::Seek { .. }
            | Op::Sync => false,
        }
    }
}

/// An operation with its number, its client and the client's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of the request while the volume is open, from 1, in the order in which requests
    /// enter the core. The stamps of a synthetic write carry it as their version.
    pub id: u64,
    /// The client: a process on a mount, a stream of a trace, or [`NO_CLIENT`](Self::NO_CLIENT).
    pub client: u32,
    /// The credentials of the client.
    pub cred: Cred,
    pub op: Op,
}

impl Request {
    /// The client of requests that a front end makes on its own account: observers do not count
    /// them, and they are not recorded. No process has this number.
    pub const NO_CLIENT: u32 = u32::MAX;

    /// A request of client 0 with the credentials of root.
    pub fn root(id: u64, op: Op) -> Request {
        Request { id, client: 0, cred: Cred::root(), op }
    }
}

/// The attributes of an inode.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Attr {
    pub ino: Ino,
    /// Type and permission bits.
    pub mode: u32,
    /// The link count: the number of names; for a directory its own `.` and the `..` of its
    /// subdirectories count as well.
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    /// Device number of a special file.
    pub rdev: u64,
    pub size: u64,
    /// Space used, in units of 512 bytes, dirty blocks included.
    pub blocks: u64,
    /// The time of the last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Creation, where the layout stores it.
    pub btime: Timestamp,
    /// The access ACL, for the rules of [`perm`](crate::perm).
    pub acl: AccessAcl,
}

impl Attr {
    /// The type bits of the mode.
    pub fn kind(&self) -> u32 {
        self.mode & mode::TYPE
    }

    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == mode::DIRECTORY
    }
}

/// An inode that a name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupEntry {
    /// The attributes of the inode.
    pub attr: Attr,
    /// The generation of the inode number.
    pub generation: u32,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    pub name: Name,
    /// The inode that the name leads to.
    pub ino: Ino,
    /// Type bits of its mode.
    pub kind: u32,
    /// The cookie with which reading continues after this entry.
    pub next: u64,
    /// The inode, referenced, if the request had `plus`; `None` for `.` and `..`. It has a place of its
    /// own because it is three times as large as the rest, and most listings have none.
    pub entry: Option<Box<LookupEntry>>,
}

/// The figures of a volume, for `statfs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct VolumeStat {
    /// Unit of the block counts, in bytes.
    pub block_size: u32,
    /// Preferred unit of transfers, in bytes.
    pub io_size: u32,
    /// Blocks that user data and its metadata may fill.
    pub blocks: u64,
    /// Of `blocks`, those that are free.
    pub free: u64,
    /// The number of inodes, in use and free.
    pub inodes: u64,
    /// Of `inodes`, those that are free.
    pub free_inodes: u64,
}

/// The answer to an operation that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Success, without a value.
    Done,
    /// An inode; the reply adds a reference to it.
    Entry(LookupEntry),
    /// The attributes of an inode.
    Attr(Attr),
    /// File data, in order.
    Data(Vec<Block>),
    /// A link target, an attribute value or attribute names.
    Bytes(Box<[u8]>),
    /// The number of bytes written.
    Written(u64),
    /// Directory entries; empty at the end.
    Dir(Vec<DirEntry>),
    /// The answer to `StatFs`.
    Stat(VolumeStat),
    /// The offset that a seek found.
    Offset(u64),
}

/// The room on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The bytes that can still be reserved.
    pub free_bytes: u64,
    /// Bytes that can be reserved in total.
    pub limit_bytes: u64,
}

/// Executes operations: a volume, or the model file system with which volumes are compared. One
/// thread owns it; many requests may be under way at a time.
pub trait FileSystem: 'static {
    /// Executes one request.
    fn execute(&self, request: Request) -> impl Future<Output = Result<Reply>>;

    /// The room that is left; `None` if the file system has no limit of its own. The call changes
    /// nothing.
    fn room(&self) -> Option<Room> {
        None
    }

    /// The bytes of room that a file takes; `None` if its inode is not in memory.
    fn room_of(&self, _ino: Ino) -> Option<u64> {
        None
    }

    /// The quota that an inode counts for, if it does and is in memory.
    fn quota_of(&self, _ino: Ino) -> Option<Quota> {
        None
    }

    /// When a client needs the answer, if that is known: see [`Rt::by`](twin_rt::Rt::by). The call changes nothing.
    fn due(&self, _op: &Op) -> Option<Time> {
        None
    }

    /// The inodes that clients hold references to.
    fn held(&self) -> Vec<Ino> {
        Vec::new()
    }

    /// What a name leads to, as far as that is known without waiting. The call changes nothing.
    fn peek(&self, _dir: Ino, _name: &[u8]) -> Peeked {
        Peeked::Unknown
    }

    /// An inode as it is now, if that is known without waiting. The call adds no reference, and is
    /// no operation of a client.
    fn known(&self, _ino: Ino) -> Option<LookupEntry> {
        None
    }
}

/// What is known of a name. See [`FileSystem::peek`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peeked {
    /// It would have to be read.
    Unknown,
    /// There is no such name.
    Absent,
    /// It leads to this inode.
    LeadsTo(Ino),
}

impl<F: FileSystem> FileSystem for std::rc::Rc<F> {
    fn execute(&self, request: Request) -> impl Future<Output = Result<Reply>> {
        (**self).execute(request)
    }

    fn due(&self, op: &Op) -> Option<Time> {
        (**self).due(op)
    }

    fn room(&self) -> Option<Room> {
        (**self).room()
    }

    fn room_of(&self, ino: Ino) -> Option<u64> {
        (**self).room_of(ino)
    }

    fn quota_of(&self, ino: Ino) -> Option<Quota> {
        (**self).quota_of(ino)
    }

    fn held(&self) -> Vec<Ino> {
        (**self).held()
    }

    fn peek(&self, dir: Ino, name: &[u8]) -> Peeked {
        (**self).peek(dir, name)
    }

    fn known(&self, ino: Ino) -> Option<LookupEntry> {
        (**self).known(ino)
    }
}
