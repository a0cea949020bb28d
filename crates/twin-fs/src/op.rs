//! Operations and replies: the one vocabulary of clients.
//!
//! [`Op`] is plain data. The VFS call, the trace record, the fuzzer's input, the message from a
//! front end are all this type: recording is writing it down, replaying is reading it back.
//!
//! Lifetime of an inode number: every [`Entry`] that a reply carries adds one reference to its
//! inode (for [`Op::ReadDir`] with `plus`, entries other than `.` and `..`); [`Op::Forget`] takes
//! references back. [`Op::Open`] and [`Op::Create`] add an open, [`Op::Release`] takes it back.
//! An inode without links lives until it has neither. The root needs no reference.

use std::future::Future;

use twin_disk::{Block, Bytes};

use crate::Result;

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
    /// Socket.
    pub const SOCKET: u32 = 0o140_000;
    /// Symbolic link.
    pub const SYMLINK: u32 = 0o120_000;
    /// Regular file.
    pub const REGULAR: u32 = 0o100_000;
    /// Block device.
    pub const BLOCK: u32 = 0o060_000;
    /// Directory.
    pub const DIRECTORY: u32 = 0o040_000;
    /// Character device.
    pub const CHAR: u32 = 0o020_000;
    /// FIFO.
    pub const FIFO: u32 = 0o010_000;
    /// Set user id on execution.
    pub const SETUID: u32 = 0o4000;
    /// Set group id on execution; on a directory, new files take its group.
    pub const SETGID: u32 = 0o2000;
    /// On a directory, only owners may remove.
    pub const STICKY: u32 = 0o1000;
    /// Permission bits, with set-id and sticky.
    pub const PERMISSIONS: u32 = 0o7777;
    /// All file types.
    pub const KINDS: [u32; 7] = [SOCKET, SYMLINK, REGULAR, BLOCK, DIRECTORY, CHAR, FIFO];
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cred {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Further groups.
    pub groups: Box<[u32]>,
    /// The front end has checked permission bits already (a kernel with `default_permissions`).
    /// Rules about ownership (chmod, chown, sticky, set-id) still hold.
    pub checked: bool,
}

impl Cred {
    /// The superuser.
    pub fn root() -> Cred {
        Cred { uid: 0, gid: 0, groups: Box::default(), checked: false }
    }

    /// A user with one group.
    pub fn user(uid: u32, gid: u32) -> Cred {
        Cred { uid, gid, groups: Box::default(), checked: false }
    }
}

/// A point in civil time, as files carry it.
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

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The volume's current time.
    Now,
    /// This one.
    At(Timestamp),
}

/// What to change of an inode. Absent fields stay.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SetAttr {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length: cuts, or extends with a hole.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of content.
    pub mtime: Option<SetTime>,
    /// Last change of the inode; otherwise the current time if anything changes.
    pub ctime: Option<Timestamp>,
}

/// The data of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// These bytes.
    Bytes(Bytes),
    /// This many bytes whose content nobody cares about: a trace's. Stored as stamps (or as the
    /// bytes that the stamps stand for, if the volume is told to).
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

    /// True if there is no byte to write.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `len` bytes from `off` on, which it must have.
    pub fn part(&self, off: u64, len: u64) -> Data {
        match self {
            Data::Bytes(bytes) => Data::Bytes(bytes.slice(off as usize, len as usize)),
            Data::Synthetic(_) => Data::Synthetic(len),
        }
    }
}

/// `renameat2`'s flags.
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
}

/// `fallocate`'s modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fallocate {
    /// Promise room; `keep_size` leaves the length as it is.
    Allocate {
        /// Do not extend the file.
        keep_size: bool,
    },
    /// Make a hole; the length stays.
    PunchHole,
    /// Make it read as zeros; `keep_size` leaves the length as it is.
    ZeroRange {
        /// Do not extend the file.
        keep_size: bool,
    },
}

/// What `lseek` looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SeekFor {
    /// The next byte of data.
    Data,
    /// The next hole; the end of the file counts as one.
    Hole,
}

/// `setxattr`'s flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum XattrMode {
    /// Create or replace.
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
    /// Finds a name. `.` and `..` are allowed. Gives an entry.
    Lookup { dir: Ino, name: Name },
    /// Takes back references of an inode. Gives nothing and cannot fail.
    Forget { ino: Ino, count: u64 },
    /// Gives the attributes.
    GetAttr { ino: Ino },
    /// Changes attributes and gives the new ones.
    SetAttr { ino: Ino, set: SetAttr },
    /// Gives a symbolic link's target.
    ReadLink { ino: Ino },
    /// Makes a file of any kind but directory and symbolic link; `mode` has the type bits; `rdev`
    /// is the device number of a special file. Gives an entry.
    MakeNode { dir: Ino, name: Name, mode: u32, rdev: u64 },
    /// Makes a directory. Gives an entry.
    MakeDir { dir: Ino, name: Name, mode: u32 },
    /// Makes a symbolic link. Gives an entry.
    Symlink { dir: Ino, name: Name, target: Box<[u8]> },
    /// Makes a regular file if there is none (`exclusive`: there must be none) and opens it.
    /// Gives an entry.
    Create { dir: Ino, name: Name, mode: u32, exclusive: bool },
    /// Removes a name of anything but a directory.
    Unlink { dir: Ino, name: Name },
    /// Removes an empty directory.
    RemoveDir { dir: Ino, name: Name },
    /// Moves a name.
    Rename { dir: Ino, name: Name, to_dir: Ino, to_name: Name, mode: RenameMode },
    /// Makes another name for an inode. Gives an entry.
    Link { ino: Ino, dir: Ino, name: Name },
    /// Opens a file or directory: holds it until released. `write` asks for write permission.
    Open { ino: Ino, read: bool, write: bool, truncate: bool },
    /// Takes back an open. Cannot fail, as a reference that is given back cannot.
    Release { ino: Ino },
    /// Reads; gives data, shorter at the end of the file.
    Read { ino: Ino, off: u64, len: u32 },
    /// Writes; gives the number of bytes written, which is all of them.
    Write { ino: Ino, off: u64, data: Data },
    /// Takes over data that the front end's own cache collected from earlier writes; gives the
    /// number of bytes. Times and set-id bits stay: the front end has changed them when the
    /// writes were made, and tells them with [`Op::SetAttr`].
    WriteBack { ino: Ino, off: u64, data: Data },
    /// Makes a file, and the names that lead to it, durable. `data_only`: its times need not be.
    Fsync { ino: Ino, data_only: bool },
    /// Reads a directory from a cookie (0: the start). Entries stop before their cost, 24 bytes
    /// plus the name rounded up to 8 (with `plus` 128 more each), exceeds `max_bytes`.
    ReadDir { dir: Ino, cookie: u64, max_bytes: u32, plus: bool },
    /// Gives the volume's figures.
    StatFs,
    /// Asks whether reading (4), writing (2) and executing (1) are allowed.
    Access { ino: Ino, mask: u32 },
    /// Sets an extended attribute.
    SetXattr { ino: Ino, name: Name, value: Box<[u8]>, mode: XattrMode },
    /// Gives an extended attribute's value.
    GetXattr { ino: Ino, name: Name },
    /// Gives the names of the extended attributes, each ended by a zero byte.
    ListXattr { ino: Ino },
    /// Removes an extended attribute.
    RemoveXattr { ino: Ino, name: Name },
    /// Reserves, punches or zeroes a range.
    Fallocate { ino: Ino, off: u64, len: u64, mode: Fallocate },
    /// Finds data or a hole at or after an offset. Gives an offset.
    Seek { ino: Ino, off: u64, what: SeekFor },
    /// Makes everything durable.
    Sync,
}

/// An operation with who asks and when it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Numbers requests within a volume's run, from 1, in the order in which they enter the core.
    /// It is the version of the stamps that a synthetic write makes.
    pub id: u64,
    /// The client (a process of a mount, a stream of a trace).
    pub client: u32,
    /// Who asks.
    pub cred: Cred,
    /// What is asked.
    pub op: Op,
}

impl Request {
    /// A request by root.
    pub fn root(id: u64, op: Op) -> Request {
        Request { id, client: 0, cred: Cred::root(), op }
    }
}

/// The attributes of an inode.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Attr {
    /// Its number.
    pub ino: Ino,
    /// Type and permission bits.
    pub mode: u32,
    /// Names, and for a directory its own `.` and the `..` of its subdirectories.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a special file.
    pub rdev: u64,
    /// Length in bytes.
    pub size: u64,
    /// Space used, in units of 512 bytes, dirty blocks included.
    pub blocks: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Birth.
    pub btime: Timestamp,
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
pub struct Entry {
    /// Its attributes.
    pub attr: Attr,
    /// Tells two lives of one inode number apart.
    pub generation: u32,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: Name,
    /// The inode.
    pub ino: Ino,
    /// Type bits of its mode.
    pub kind: u32,
    /// Where to go on reading after this entry.
    pub next: u64,
    /// The entry itself, if `plus` was asked (not for `.` and `..`).
    pub entry: Option<Entry>,
}

/// The figures of a volume, as `statfs` wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct VolumeStat {
    /// Unit of the block counts, in bytes.
    pub block_size: u32,
    /// Preferred unit of transfers, in bytes.
    pub io_size: u32,
    /// Blocks that user data and its metadata may fill.
    pub blocks: u64,
    /// Of these, free.
    pub free: u64,
    /// Inodes in use and free together.
    pub inodes: u64,
    /// Of these, free.
    pub free_inodes: u64,
}

/// What an operation gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing but success.
    Done,
    /// An inode, referenced.
    Entry(Entry),
    /// Attributes.
    Attr(Attr),
    /// File data, in order.
    Data(Vec<Block>),
    /// A link target, an attribute value or attribute names.
    Bytes(Box<[u8]>),
    /// Bytes written.
    Written(u64),
    /// Directory entries; empty at the end.
    Dir(Vec<DirEntry>),
    /// The volume's figures.
    Stat(VolumeStat),
    /// An offset.
    Offset(u64),
}

/// The room of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that could still be promised.
    pub free_bytes: u64,
    /// Bytes that can be promised in all.
    pub limit_bytes: u64,
}

/// Something that executes operations: a volume, or the model that volumes are held against.
/// One thread owns it; many requests may be under way at a time.
pub trait FileSystem: 'static {
    /// Executes one request.
    fn execute(&self, request: Request) -> impl Future<Output = Result<Reply>>;

    /// The room that is left, if this file system knows where its own ends. Looking changes nothing.
    fn room(&self) -> Option<Room> {
        None
    }

    /// Bytes of room that a file takes, if it is in memory.
    fn room_of(&self, _ino: Ino) -> Option<u64> {
        None
    }

    /// The inodes that clients hold references to.
    fn held(&self) -> Vec<Ino> {
        Vec::new()
    }
}

impl<F: FileSystem> FileSystem for std::rc::Rc<F> {
    fn execute(&self, request: Request) -> impl Future<Output = Result<Reply>> {
        (**self).execute(request)
    }

    fn room(&self) -> Option<Room> {
        (**self).room()
    }

    fn room_of(&self, ino: Ino) -> Option<u64> {
        (**self).room_of(ino)
    }

    fn held(&self) -> Vec<Ino> {
        (**self).held()
    }
}
