//! The errors of operations. Only front ends translate them into errno.

use std::fmt;

use twin_disk::IoError;

/// The error of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FsError {
    /// No such name, or no such inode (ENOENT).
    NotFound,
    /// The name already exists (EEXIST).
    Exists,
    /// The inode must be a directory, but is not (ENOTDIR).
    NotDirectory,
    /// The inode must not be a directory, but is (EISDIR).
    IsDirectory,
    /// The directory has entries (ENOTEMPTY).
    NotEmpty,
    /// The permission bits forbid it (EACCES).
    Access,
    /// Only the owner or root may do it (EPERM).
    NotPermitted,
    /// The volume has no room for it (ENOSPC).
    NoSpace,
    /// The quota of a directory has no room for it (EDQUOT).
    QuotaExceeded,
    /// The volume has no inode left (ENOSPC).
    NoInodes,
    /// The name is longer than 255 bytes, or a link target is longer than a block (ENAMETOOLONG).
    NameTooLong,
    /// An argument is invalid (EINVAL).
    Invalid(&'static str),
    /// The file would grow past what the format can map (EFBIG).
    FileTooBig,
    /// Too many links to the inode (EMLINK).
    TooManyLinks,
    /// No such extended attribute (ENODATA).
    NoAttribute,
    /// The value does not fit the space given for it (ERANGE).
    Range,
    /// The attributes do not fit the space that the inode has for them (E2BIG or ENOSPC).
    AttributesTooBig,
    /// No data or hole at or after the offset (ENXIO).
    NoSuchOffset,
    /// The handle names an inode that has been removed (ESTALE).
    Stale,
    /// The volume is mounted read-only or was poisoned by a failed write (EROFS).
    ReadOnly,
    /// The format or the front end does not support it (EOPNOTSUPP).
    NotSupported(&'static str),
    /// The two names are on different volumes, or count for different quotas (EXDEV).
    CrossDevice,
    /// It is in use, for example as a mount point or as a running program (EBUSY).
    Busy,
    /// The disk cannot serve it in time beside what it has promised already (EBUSY).
    Refused(&'static str),
    /// The device failed (EIO).
    Io(IoError),
    /// A structure on the device contradicts itself or its checksum (EIO).
    Corrupt {
        /// First byte of the bad structure on the device, if it has a single place.
        at: Option<u64>,
        /// What is wrong, for display.
        what: String,
    },
}

/// The result of an operation.
pub type Result<T, E = FsError> = std::result::Result<T, E>;

/// How the error for bytes that a repair gave up ends.
const LOST: &str = "was lost in a repair";

impl FsError {
    /// Damage in the structure that starts at byte `at` of the device.
    pub fn corrupt(at: u64, what: impl Into<String>) -> FsError {
        FsError::Corrupt { at: Some(at), what: what.into() }
    }

    /// Damage that has no single place, because structures at several places disagree.
    pub fn inconsistent(what: impl Into<String>) -> FsError {
        FsError::Corrupt { at: None, what: what.into() }
    }

    /// The error for bytes of a file that a repair gave up.
    pub fn lost(ino: crate::Ino, lbn: u64) -> FsError {
        FsError::inconsistent(format!("inode {ino}: block {lbn} {LOST}"))
    }

    /// True if it is the error of [`lost`](Self::lost): the volume is whole, and a part of a file is gone.
    pub fn is_lost(&self) -> bool {
        matches!(self, FsError::Corrupt { at: None, what } if what.ends_with(LOST))
    }

    /// True for faults of the device or of its contents, false for errors that a client can cause.
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
            FsError::QuotaExceeded => "the directory's quota is exhausted",
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
            FsError::CrossDevice => "the two names are on different volumes or in different quotas",
            FsError::Busy => "it is in use",
            FsError::Refused(why) => return write!(f, "refused: {why}"),
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
