//! Records to bytes and back. `put` and `get` mirror each other; docs/trace-format.md is the
//! contract of both.
//!
//! The records of a frame are spread over columns: one for tags, one for times, one for inode
//! numbers and so on. A column holds similar values, which compress well. Numbers are coded
//! relative to a [`Context`] that is reset at the start of every frame, so that a frame can be read
//! without the earlier ones.

mod get;
mod put;

pub(crate) use get::Decoder;
pub(crate) use put::{Encoder, TooBig};

use twin_fs::{Cred, Ino};

/// The columns, in the order in which a frame holds them.
pub(crate) mod column {
    /// One byte for each record: its code (low five bits) and three flags.
    pub(crate) const TAG: usize = 0;
    /// Time since the record before, in nanoseconds.
    pub(crate) const TIME: usize = 1;
    /// The client and its credentials.
    pub(crate) const WHO: usize = 2;
    /// Inode numbers of all fields.
    pub(crate) const INO: usize = 3;
    /// Offsets in files and cookies of directories.
    pub(crate) const OFFSET: usize = 4;
    /// Lengths, modes and other small numbers.
    pub(crate) const NUMBER: usize = 5;
    /// The outcomes of requests.
    pub(crate) const REPLY: usize = 6;
    /// Lengths of names, then their bytes.
    pub(crate) const NAME: usize = 7;
    /// Data, where it is kept.
    pub(crate) const CONTENT: usize = 8;
    /// The number of columns.
    pub(crate) const COUNT: usize = 9;
}

/// Tags of records that are not requests; those of requests are the codes of their verbs.
pub(crate) mod tag {
    /// An answer to a request.
    pub(crate) const REPLY: u8 = 0;
    /// A file that existed before the trace began.
    pub(crate) const NODE: u8 = 29;
    /// The number of bits of the code; the flags are above them.
    pub(crate) const FLAG_SHIFT: u32 = 5;
}

/// The codes of the outcomes of requests.
mod outcome {
    pub(super) const DONE: u8 = 0;
    pub(super) const ENTRY: u8 = 1;
    pub(super) const ATTR: u8 = 2;
    pub(super) const DATA: u8 = 3;
    pub(super) const BYTES: u8 = 4;
    pub(super) const WRITTEN: u8 = 5;
    pub(super) const DIR: u8 = 6;
    pub(super) const OFFSET: u8 = 7;
    /// Added to the code of an error.
    pub(super) const FAILED: u8 = 32;
}

/// The longest name, link target or list of attribute names, in bytes.
pub(crate) const MAX_NAME: u64 = 65_535;
/// The longest value of an extended attribute, in bytes.
pub(crate) const MAX_VALUE: u64 = 1 << 20;
/// The most bytes that one write may have.
pub(crate) const MAX_WRITE: u64 = 1 << 32;
/// The offset of what is written back that says that a write is an append.
pub(crate) const APPEND: u64 = u64::MAX;
/// The most supplementary groups of a client; further ones are dropped when it is written.
pub(crate) const MAX_GROUPS: u64 = 1024;
/// The most different clients in a frame.
pub(crate) const MAX_WHO: usize = 4096;
/// Number of slots in the table that predicts offsets.
const STREAMS: usize = 256;

/// Client and credentials of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientCred {
    pub(crate) client: u32,
    pub(crate) cred: Cred,
}

/// The values relative to which the next record is coded.
pub(crate) struct Context {
    /// Time of the last record, since the start of the trace.
    at_ns: u64,
    /// Number of the last request.
    request: u64,
    /// The inode that the last operation or answer named.
    ino: Ino,
    /// The directory that the last operation named.
    dir: Ino,
    /// The inode that the last answer or node introduced.
    entry: Ino,
    /// The length of the last read or write.
    len: u64,
    /// The cookie at the end of the last listing.
    cookie: u64,
    /// The last completed device request.
    io: u64,
    /// The client of the last request: an index into the frame's table.
    who: usize,
    /// For inode numbers modulo the size: the inode that was read or written last, and the offset
    /// at which a sequential access would continue.
    streams: Box<[(Ino, u64); STREAMS]>,
}

impl Context {
    fn new() -> Context {
        let streams = Box::new([(0, 0); STREAMS]);
        let (at_ns, request, ino, dir, entry) = (0, 0, 0, 0, 0);
        Context { at_ns, request, ino, dir, entry, len: 0, cookie: 0, io: 0, who: 0, streams }
    }

    /// Starts a frame whose first record follows this time and this request.
    fn start(&mut self, at_ns: u64, request: u64) {
        (self.at_ns, self.request) = (at_ns, request);
        (self.ino, self.dir, self.entry) = (twin_fs::ROOT_INO, twin_fs::ROOT_INO, 0);
        (self.len, self.cookie, self.io, self.who) = (0, 0, 0, 0);
        self.streams.fill((0, 0));
    }

    /// The offset at which a sequential access of the inode would continue.
    fn predicted(&self, ino: Ino) -> u64 {
        let (known, next) = self.streams[ino as usize % STREAMS];
        if known == ino { next } else { 0 }
    }

    /// Records an access, by which the offset of the next one is predicted.
    fn accessed(&mut self, ino: Ino, off: u64, len: u64) {
        self.streams[ino as usize % STREAMS] = (ino, off.wrapping_add(len));
        self.len = len;
    }
}
