//! Why an operation failed. Front ends turn these into errno or NFS status; nothing below does.

use std::fmt;

use twin_disk::IoError;

/// The error of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FsError {
    /// No such name, or no such inode (ENOENT).
    NotFound,
    /// The name exists already (EEXIST).
    Exists,
    /// Not a directory where one is needed (ENOTDIR).
    NotDirectory,
    /// A directory where none may be (EISDIR).
    IsDirectory,
    /// The directory has entries (ENOTEMPTY).
    NotEmpty,
    /// The permission bits forbid it (EACCES).
    Access,
    /// Only the owner or root may (EPERM).
    NotPermitted,
    /// The volume has no room for it (ENOSPC).
    NoSpace,
    /// The volume has no inode left (ENOSPC).
    NoInodes,
    /// The name is longer than 255 bytes, or the link target than a block (ENAMETOOLONG).
    NameTooLong,
    /// An argument makes no sense (EINVAL).
    Invalid(&'static str),
    /// The file would grow past what the format can map (EFBIG).
    FileTooBig,
    /// Too many links to the inode (EMLINK).
    TooManyLinks,
    /// No such extended attribute (ENODATA).
    NoAttribute,
    /// The value does not fit where it should go (ERANGE).
    Range,
    /// The attributes do not fit the inode's room for them (E2BIG or ENOSPC).
    AttributesTooBig,
    /// No data or hole at or after the offset (ENXIO).
    NoSuchOffset,
    /// The handle names an inode that has been removed (ESTALE).
    Stale,
    /// The volume is mounted read-only or was poisoned by a failed write (EROFS).
    ReadOnly,
    /// The format or the front end cannot do it (EOPNOTSUPP).
    NotSupported(&'static str),
    /// The two names are on different volumes (EXDEV).
    CrossDevice,
    /// Something uses it: a mount point, a program that runs (EBUSY).
    Busy,
    /// The device failed (EIO).
    Io(IoError),
    /// What the disk says contradicts itself or its checksum (EIO). Names the place.
    Corrupt {
        /// First byte of the bad structure on the device, if it has one place.
        at: Option<u64>,
        /// What is wrong, in words.
        what: String,
    },
}

/// What an operation gives.
pub type Result<T, E = FsError> = std::result::Result<T, E>;

impl FsError {
    /// A contradiction at a place on the device.
    pub fn corrupt(at: u64, what: impl Into<String>) -> FsError {
        FsError::Corrupt { at: Some(at), what: what.into() }
    }

    /// A contradiction without one place.
    pub fn inconsistent(what: impl Into<String>) -> FsError {
        FsError::Corrupt { at: None, what: what.into() }
    }

    /// True for the device's and the medium's faults, false for what a client may cause.
    pub fn is_damage(&self) -> bool {
        matches!(self, FsError::Io(_) | FsError::Corrupt { .. })
    }
}

impl From<IoError> for FsError {
    fn from(error: IoError) -> Self {
        FsError::Io(error)
    }
}

impl fmt::Display for FsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            FsError::NotFound => "no such file or directory",
            FsError::Exists => "the name exists already",
            FsError::NotDirectory => "not a directory",
            FsError::IsDirectory => "is a directory",
            FsError::NotEmpty => "the directory is not empty",
            FsError::Access => "permission denied",
            FsError::NotPermitted => "only the owner or root may do that",
            FsError::NoSpace => "no space left on the volume",
            FsError::NoInodes => "no inode left on the volume",
            FsError::NameTooLong => "the name is too long",
            FsError::FileTooBig => "the file would be too big for the format",
            FsError::TooManyLinks => "too many links",
            FsError::NoAttribute => "no such extended attribute",
            FsError::Range => "the value does not fit the room given",
            FsError::AttributesTooBig => "no room for the extended attribute",
            FsError::NoSuchOffset => "no data or hole at or after the offset",
            FsError::Stale => "the inode has been removed",
            FsError::ReadOnly => "the volume is read-only",
            FsError::CrossDevice => "the two names are on different volumes",
            FsError::Busy => "it is in use",
            FsError::Invalid(why) => return write!(f, "invalid argument: {why}"),
            FsError::NotSupported(what) => return write!(f, "not supported: {what}"),
            FsError::Io(error) => return write!(f, "{error}"),
            FsError::Corrupt { at: Some(at), what } => {
                return write!(f, "damaged at byte {at}: {what}");
            }
            FsError::Corrupt { at: None, what } => return write!(f, "damaged: {what}"),
        };
        f.write_str(text)
    }
}

impl std::error::Error for FsError {}
