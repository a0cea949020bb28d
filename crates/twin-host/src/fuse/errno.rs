//! Translates errors of operations to errno. Error numbers have a meaning only here.

use rustix::io::Errno;
use twin_fs::FsError;

/// The error number for an error.
pub fn errno(error: &FsError) -> Errno {
    match error {
        FsError::NotFound => Errno::NOENT,
        FsError::Exists => Errno::EXIST,
        FsError::NotDirectory => Errno::NOTDIR,
        FsError::IsDirectory => Errno::ISDIR,
        FsError::NotEmpty => Errno::NOTEMPTY,
        FsError::Access => Errno::ACCESS,
        FsError::NotPermitted => Errno::PERM,
        FsError::NoSpace | FsError::NoInodes => Errno::NOSPC,
        FsError::QuotaExceeded => Errno::DQUOT,
        FsError::NameTooLong => Errno::NAMETOOLONG,
        FsError::Invalid(_) => Errno::INVAL,
        FsError::FileTooBig => Errno::FBIG,
        FsError::TooManyLinks => Errno::MLINK,
        FsError::NoAttribute => Errno::NODATA,
        FsError::Range => Errno::RANGE,
        // The answer of ext4 if a value does not fit its inode or block.
        FsError::AttributesTooBig => Errno::NOSPC,
        FsError::NoSuchOffset => Errno::NXIO,
        FsError::Stale => Errno::STALE,
        FsError::ReadOnly => Errno::ROFS,
        FsError::NotSupported(_) => Errno::OPNOTSUPP,
        FsError::CrossDevice => Errno::XDEV,
        FsError::Busy | FsError::Refused(_) => Errno::BUSY,
        FsError::Io(_) | FsError::Corrupt { .. } => Errno::IO,
    }
}

/// The error for an error number of the host's file systems: the inverse of [`errno`].
pub fn from_errno(errno: Errno, what: &str) -> FsError {
    match errno {
        Errno::NOENT => FsError::NotFound,
        Errno::EXIST => FsError::Exists,
        Errno::NOTDIR => FsError::NotDirectory,
        Errno::ISDIR => FsError::IsDirectory,
        Errno::NOTEMPTY => FsError::NotEmpty,
        Errno::ACCESS => FsError::Access,
        Errno::PERM => FsError::NotPermitted,
        Errno::NOSPC | Errno::TOOBIG => FsError::NoSpace,
        Errno::DQUOT => FsError::QuotaExceeded,
        Errno::NAMETOOLONG => FsError::NameTooLong,
        Errno::INVAL => FsError::Invalid("the host's file system refuses it"),
        Errno::FBIG => FsError::FileTooBig,
        Errno::MLINK => FsError::TooManyLinks,
        Errno::NODATA => FsError::NoAttribute,
        Errno::RANGE => FsError::Range,
        Errno::NXIO => FsError::NoSuchOffset,
        Errno::STALE => FsError::Stale,
        Errno::ROFS => FsError::ReadOnly,
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY => {
            FsError::NotSupported("the host's file system cannot do it")
        }
        Errno::XDEV => FsError::CrossDevice,
        Errno::BUSY | Errno::TXTBSY => FsError::Busy,
        other => {
            let error = std::io::Error::from(other);
            FsError::inconsistent(format!("{what} on the host: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_host_come_back_as_they_were() {
        let numbers = [
            Errno::NOENT,
            Errno::EXIST,
            Errno::NOTDIR,
            Errno::ISDIR,
            Errno::NOTEMPTY,
            Errno::ACCESS,
            Errno::PERM,
            Errno::NOSPC,
            Errno::NAMETOOLONG,
            Errno::INVAL,
            Errno::FBIG,
            Errno::MLINK,
            Errno::NODATA,
            Errno::RANGE,
            Errno::NXIO,
            Errno::STALE,
            Errno::ROFS,
            Errno::OPNOTSUPP,
            Errno::XDEV,
            Errno::BUSY,
            Errno::IO,
        ];
        for number in numbers {
            assert_eq!(errno(&from_errno(number, "a test")), number);
        }
    }
}
