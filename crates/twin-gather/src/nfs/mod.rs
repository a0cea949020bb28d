//! The calls and answers of NFS version 2 (RFC 1094) and 3 (RFC 1813), as far as a trace needs them.
//!
//! Contract: both versions become the same [`Call`]s and [`Answer`]s. Of an answer that was captured in part
//! the part is used. Numbers that the protocol does not have make a message malformed: `None`.

mod v2;
mod v3;

use twin_fs::mode;

use crate::rpc::Target;
use crate::xdr::Xdr;

/// The program number of NFS.
pub const PROGRAM: u32 = 100_003;
/// The longest file handle (version 3).
pub(crate) const LONGEST_HANDLE: usize = 64;
/// The longest name or path that is believed.
pub(crate) const LONGEST_PATH: usize = 4096;
/// The most names that are taken from one listing.
const MOST_ENTRIES: usize = 1 << 16;

/// A file handle, whose bytes only its server understands.
pub type Handle = Box<[u8]>;

/// The arguments of a call, the same for NFS versions 2 and 3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Does nothing, or asks for what a trace does not have (PATHCONF, FSINFO, obsolete procedures).
    Nothing,
    /// GETATTR: asks for the attributes of a file.
    GetAttr {
        /// The file whose attributes are asked for.
        file: Handle,
    },
    /// SETATTR: changes attributes, or the length, of a file.
    SetAttr {
        /// The file whose attributes change.
        file: Handle,
        /// The new permission bits, if they change.
        mode: Option<u32>,
        /// New length, in bytes.
        size: Option<u64>,
    },
    /// LOOKUP: looks a name up.
    Lookup {
        /// The directory in which to look.
        dir: Handle,
        /// The name in it.
        name: Box<[u8]>,
    },
    /// ACCESS: asks what the caller may do with a file.
    Access {
        /// The file that the question is about.
        file: Handle,
    },
    /// READLINK: reads the target of a symbolic link.
    ReadLink {
        /// The symbolic link whose target is read.
        file: Handle,
    },
    /// READ: reads from a file.
    Read {
        /// The file that is read.
        file: Handle,
        /// Offset of the first byte to read.
        off: u64,
        /// The number of bytes asked for.
        len: u32,
    },
    /// WRITE: writes to a file.
    Write {
        /// The file that is written.
        file: Handle,
        /// Offset of the first byte to write.
        off: u64,
        /// The number of bytes.
        len: u32,
        /// The answer has to wait until they are durable.
        stable: bool,
    },
    /// CREATE, MKDIR, SYMLINK and MKNOD.
    Create {
        /// The directory that gets the new name.
        dir: Handle,
        /// The name of the new file.
        name: Box<[u8]>,
        /// File type and permission bits.
        mode: u32,
        /// An existing file is an error.
        exclusive: bool,
        /// The length that an existing or new file gets, if one is given.
        size: Option<u64>,
        /// The target of a symbolic link.
        target: Box<[u8]>,
    },
    /// REMOVE and RMDIR: remove a name.
    Remove {
        /// The directory that loses the name.
        dir: Handle,
        /// The name in it.
        name: Box<[u8]>,
        /// The name of a directory.
        is_dir: bool,
    },
    /// RENAME: moves a name to another name or directory.
    Rename {
        /// The directory of the old name.
        dir: Handle,
        /// The name before the call.
        name: Box<[u8]>,
        /// The directory of the new name.
        to_dir: Handle,
        /// The name after the call.
        to_name: Box<[u8]>,
    },
    /// LINK: adds a name to a file.
    Link {
        /// The file that gets another name.
        file: Handle,
        /// The directory of the new name.
        dir: Handle,
        /// The additional name of the file.
        name: Box<[u8]>,
    },
    /// READDIR and READDIRPLUS: list a directory.
    ReadDir {
        /// The directory that is listed.
        dir: Handle,
        /// The cookie at which the listing continues; zero at the beginning.
        cookie: u64,
        /// The most bytes of the answer.
        bytes: u32,
        /// Whether attributes are asked for too (READDIRPLUS).
        plus: bool,
    },
    /// STATFS and FSSTAT: ask for the free space.
    StatFs,
    /// COMMIT: makes written data durable.
    Commit {
        /// The file whose data is made durable.
        file: Handle,
    },
}

/// Attributes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// File type and permission bits.
    pub mode: u32,
    /// Number of names of the file.
    pub nlink: u32,
    /// User number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Length of the file in bytes.
    pub size: u64,
    /// Space that the file takes, in bytes.
    pub used: u64,
}

/// A name of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name as the directory has it.
    pub name: Box<[u8]>,
    /// Attributes, if they came with it.
    pub attr: Option<Attr>,
    /// The handle, if it came with it.
    pub handle: Option<Handle>,
}

/// An answer. Parts that the call does not ask for, or that were not captured, are `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Zero, or the number of an error.
    pub status: u32,
    /// The file that was found or made.
    pub handle: Option<Handle>,
    /// The attributes, after the call, of the file that was found, made or used.
    pub attr: Option<Attr>,
    /// The length, before the call, of the file that was used.
    pub size_before: Option<u64>,
    /// Bytes read or written.
    pub count: Option<u32>,
    /// Names of a listing.
    pub entries: Vec<Listed>,
}

/// The errors of which an answer tells: version 3's, which include those of version 2.
const STATUSES: [u32; 29] = [
    0, 1, 2, 5, 6, 13, 17, 18, 19, 20, 21, 22, 27, 28, 30, 31, 63, 66, 69, 70, 71, 99, 10001,
    10002, 10003, 10004, 10005, 10006, 10007,
];
/// True for a status that a version of the protocol has.
pub(crate) fn is_status(status: u32) -> bool {
    STATUSES.contains(&status) || status == TRY_LATER
}

/// A file or name does not exist.
pub const NOT_FOUND: u32 = 2;
/// A name exists already.
pub const EXISTS: u32 = 17;
/// A directory is not empty.
pub const NOT_EMPTY: u32 = 66;
/// The server asks to come again later (version 3).
const TRY_LATER: u32 = 10008;

/// The names of the procedures of a version of NFS.
pub fn procedures(version: u32) -> &'static [&'static str] {
    match version {
        2 => &v2::PROCEDURES,
        3 => &twin_nfs::proc::NAMES,
        _ => &[],
    }
}

/// Decodes the arguments of a call of NFS; `None` if they are malformed or cut.
pub fn call(target: Target, arguments: &[u8]) -> Option<Call> {
    let xdr = &mut Xdr::new(arguments);
    match target.version {
        2 => v2::call(target.procedure, xdr),
        3 => v3::call(target.procedure, xdr),
        _ => None,
    }
}

/// Decodes the results of a call; `None` if there is not even a status, or they are malformed.
pub fn answer(target: Target, call: &Call, results: &[u8]) -> Option<Answer> {
    let xdr = &mut Xdr::new(results);
    if *call == Call::Nothing && target.procedure == 0 {
        return Some(Answer::default());
    }
    let status = xdr.u32()?;
    if !is_status(status) {
        return None;
    }
    let mut answer = Answer { status, ..Answer::default() };
    let whole = match target.version {
        2 => v2::answer(call, xdr, &mut answer),
        3 => v3::answer(target.procedure, call, xdr, &mut answer),
        _ => return None,
    };
    match whole {
        Ok(()) | Err(Stop::Cut) => Some(answer),
        Err(Stop::Malformed) => None,
    }
}

/// Why the reading of results stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Here the captured bytes end.
    Cut,
    /// A number that the protocol does not have.
    Malformed,
}

/// The type bits of a file type number, which both versions share as far as version 2 goes.
pub(crate) fn type_bits(number: u32) -> Option<u32> {
    Some(match number {
        1 => mode::REGULAR,
        2 => mode::DIRECTORY,
        3 => mode::BLOCK,
        4 => mode::CHAR,
        5 => mode::SYMLINK,
        6 => mode::SOCKET,
        7 => mode::FIFO,
        _ => return None,
    })
}

fn name(xdr: &mut Xdr<'_>) -> Option<Box<[u8]>> {
    xdr.opaque(LONGEST_PATH).map(Into::into)
}

#[cfg(test)]
mod tests;
