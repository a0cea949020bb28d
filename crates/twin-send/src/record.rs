//! The records of a stream and their payloads.
//!
//! Contract: numbers are little-endian; bytes of variable length have their length before them, in four bytes. A payload
//! that is decoded is used to its last byte, and what no writer writes is refused.

use twin_fs::{Timestamp, mode};

/// The longest path, in bytes.
pub const PATH_MAX: usize = 64 << 10;
/// The most bytes of data in a record.
pub const DATA_MAX: usize = 256 << 10;

/// Which state of which volume it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateId {
    /// The volume's number.
    pub volume: [u8; 16],
    /// The state's number, which no other state of the volume has.
    pub id: u64,
    /// When the state was that of the head, in nanoseconds. Copies of an image share numbers, but hardly this.
    pub time_ns: u64,
    /// Its name, for people; two names may stand for one state.
    pub name: String,
}

impl StateId {
    /// True if it is the same state, whatever it is called.
    pub fn is_same(&self, other: &StateId) -> bool {
        (self.volume, self.id, self.time_ns) == (other.volume, other.id, other.time_ns)
    }
}

/// The first record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The state that whoever applies the stream has afterwards.
    pub state: StateId,
    /// The state that he needs before; `None` for a whole one.
    pub base: Option<StateId>,
}

/// The attributes of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The path; empty for the root.
    pub path: Vec<u8>,
    /// Type and permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub atime: Timestamp,
    pub mtime: Timestamp,
    /// The names of all its extended attributes; others are removed.
    pub xattrs: Vec<Vec<u8>>,
}

/// The counts in the last record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records before this one.
    pub records: u64,
    /// Bytes of data in them.
    pub data_bytes: u64,
}

/// A record. Paths have no slash at the beginning or end, and are below the root. What has the name already is removed
/// by a record that makes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Header(Header),
    /// Removes what the path leads to, with all that is below it.
    Remove(Vec<u8>),
    /// Makes a directory.
    Directory(Vec<u8>),
    /// Makes a file of this size, all of it a hole. Data follows.
    File {
        path: Vec<u8>,
        size: u64,
    },
    /// Changes a file that is there, first of all its size. Data and holes follow.
    Update {
        path: Vec<u8>,
        size: u64,
    },
    /// Writes to the last file.
    Data {
        off: u64,
        data: Vec<u8>,
    },
    /// Makes a hole in the last file.
    Hole {
        off: u64,
        len: u64,
    },
    Symlink {
        path: Vec<u8>,
        target: Vec<u8>,
    },
    /// Makes a device, a FIFO or a socket.
    Node {
        path: Vec<u8>,
        mode: u32,
        rdev: u64,
    },
    /// Makes another name for what is at `to`.
    Link {
        path: Vec<u8>,
        to: Vec<u8>,
    },
    Attributes(Attributes),
    /// Sets an extended attribute of the path of the last [`Attributes`], which has its name.
    Xattr {
        name: Vec<u8>,
        value: Vec<u8>,
    },
    /// The last record.
    End(Totals),
}

impl Record {
    /// The number of its kind.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Record::Header(_) => 1,
            Record::Remove(_) => 2,
            Record::Directory(_) => 3,
            Record::File { .. } => 4,
            Record::Update { .. } => 5,
            Record::Data { .. } => 6,
            Record::Hole { .. } => 7,
            Record::Symlink { .. } => 8,
            Record::Node { .. } => 9,
            Record::Link { .. } => 10,
            Record::Attributes(_) => 11,
            Record::Xattr { .. } => 12,
            Record::End(_) => 13,
        }
    }

    /// The path that it changes, if it names one.
    pub(crate) fn path(&self) -> Option<&[u8]> {
        match self {
            Record::Remove(path)
            | Record::Directory(path)
            | Record::File { path, .. }
            | Record::Update { path, .. }
            | Record::Symlink { path, .. }
            | Record::Node { path, .. }
            | Record::Link { path, .. }
            | Record::Attributes(Attributes { path, .. }) => Some(path),
            Record::Header(_)
            | Record::Data { .. }
            | Record::Hole { .. }
            | Record::Xattr { .. }
            | Record::End(_) => None,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Record::Header(Header { state, base }) => {
                put_state(&mut out, state);
                out.push(u8::from(base.is_some()));
                if let Some(base) = base {
                    put_state(&mut out, base);
                }
            }
            Record::Remove(path) | Record::Directory(path) => put_bytes(&mut out, path),
            Record::File { path, size } | Record::Update { path, size } => {
                put_bytes(&mut out, path);
                put_u64(&mut out, *size);
            }
            Record::Data { off, data } => {
                put_u64(&mut out, *off);
                out.extend_from_slice(data);
            }
            Record::Hole { off, len } => {
                put_u64(&mut out, *off);
                put_u64(&mut out, *len);
            }
            Record::Symlink { path, target: other } | Record::Link { path, to: other } => {
                put_bytes(&mut out, path);
                put_bytes(&mut out, other);
            }
            Record::Node { path, mode, rdev } => {
                put_bytes(&mut out, path);
                put_u32(&mut out, *mode);
                put_u64(&mut out, *rdev);
            }
            Record::Attributes(attributes) => put_attributes(&mut out, attributes),
            Record::Xattr { name, value } => {
                put_bytes(&mut out, name);
                put_bytes(&mut out, value);
            }
            Record::End(Totals { records, data_bytes }) => {
                put_u64(&mut out, *records);
                put_u64(&mut out, *data_bytes);
            }
        }
        out
    }

    /// Decodes a payload. The error says what is wrong.
    pub(crate) fn decode(kind: u8, payload: &[u8]) -> Result<Record, String> {
        let mut rest = Rest(payload);
        let record = match kind {
            1 => {
                let state = rest.state()?;
                let base = match rest.u8()? {
                    0 => None,
                    1 => Some(rest.state()?),
                    other => return Err(format!("{other} says nothing about a base")),
                };
                Record::Header(Header { state, base })
            }
            2 => Record::Remove(rest.bytes()?),
            3 => Record::Directory(rest.bytes()?),
            4 => Record::File { path: rest.bytes()?, size: rest.u64()? },
            5 => Record::Update { path: rest.bytes()?, size: rest.u64()? },
            6 => Record::Data { off: rest.u64()?, data: std::mem::take(&mut rest.0).to_vec() },
            7 => Record::Hole { off: rest.u64()?, len: rest.u64()? },
            8 => Record::Symlink { path: rest.bytes()?, target: rest.bytes()? },
            9 => Record::Node { path: rest.bytes()?, mode: rest.u32()?, rdev: rest.u64()? },
            10 => Record::Link { path: rest.bytes()?, to: rest.bytes()? },
            11 => Record::Attributes(rest.attributes()?),
            12 => Record::Xattr { name: rest.bytes()?, value: rest.bytes()? },
            13 => Record::End(Totals { records: rest.u64()?, data_bytes: rest.u64()? }),
            other => return Err(format!("there is no record of kind {other}")),
        };
        match rest.0 {
            [] => Ok(record),
            left => Err(format!("{} bytes of the record have no sense", left.len())),
        }
    }
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// A length that four bytes cannot hold makes a record that is too long for a stream, which the writer refuses.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    out.extend_from_slice(bytes);
}

fn put_state(out: &mut Vec<u8>, state: &StateId) {
    out.extend_from_slice(&state.volume);
    put_u64(out, state.id);
    put_u64(out, state.time_ns);
    put_bytes(out, state.name.as_bytes());
}

fn put_attributes(out: &mut Vec<u8>, attributes: &Attributes) {
    let Attributes { path, mode, uid, gid, atime, mtime, xattrs } = attributes;
    put_bytes(out, path);
    for value in [*mode, *uid, *gid] {
        put_u32(out, value);
    }
    for time in [atime, mtime] {
        out.extend_from_slice(&time.secs.to_le_bytes());
        put_u32(out, time.nanos);
    }
    put_u32(out, xattrs.len() as u32);
    xattrs.iter().for_each(|name| put_bytes(out, name));
}

/// What is left of a payload.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("the record is too short")?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, String> {
        self.array().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, String> {
        let len = self.u32()? as usize;
        let (taken, rest) = self.0.split_at_checked(len).ok_or("the record is too short")?;
        self.0 = rest;
        Ok(taken.to_vec())
    }

    fn state(&mut self) -> Result<StateId, String> {
        let (volume, id, time_ns) = (self.array()?, self.u64()?, self.u64()?);
        let name = String::from_utf8(self.bytes()?).map_err(|_| "a state's name is no text")?;
        match name.chars().any(char::is_control) {
            true => Err("a state's name has control characters".into()),
            false => Ok(StateId { volume, id, time_ns, name }),
        }
    }

    fn time(&mut self) -> Result<Timestamp, String> {
        let time = Timestamp { secs: self.array().map(i64::from_le_bytes)?, nanos: self.u32()? };
        match time.nanos < 1_000_000_000 {
            true => Ok(time),
            false => Err("a time has more nanoseconds than a second".into()),
        }
    }

    fn attributes(&mut self) -> Result<Attributes, String> {
        let (path, mode) = (self.bytes()?, self.u32()?);
        let (uid, gid) = (self.u32()?, self.u32()?);
        let (atime, mtime) = (self.time()?, self.time()?);
        let count = self.u32()?;
        let xattrs = (0..count).map(|_| self.bytes()).collect::<Result<_, _>>()?;
        if !mode::is_kind(mode & mode::TYPE) || mode & !(mode::TYPE | mode::PERMISSIONS) != 0 {
            return Err(format!("no file has the mode {mode:o}"));
        }
        Ok(Attributes { path, mode, uid, gid, atime, mtime, xattrs })
    }
}
