//! The status codes of NFS (RFC 1813, section 2.6), and the errors that they stand for.

use twin_fs::FsError;

/// The status of a reply. The numbers are those of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names say what RFC 1813 says.
pub enum Status {
    Ok = 0,
    NotOwner = 1,
    NoEntry = 2,
    Io = 5,
    NoDevice = 6,
    Access = 13,
    Exists = 17,
    CrossDevice = 18,
    NotDirectory = 20,
    IsDirectory = 21,
    Invalid = 22,
    FileTooBig = 27,
    NoSpace = 28,
    ReadOnly = 30,
    TooManyLinks = 31,
    NameTooLong = 63,
    NotEmpty = 66,
    QuotaExceeded = 69,
    Stale = 70,
    BadHandle = 10_001,
    NotSync = 10_002,
    BadCookie = 10_003,
    NotSupported = 10_004,
    TooSmall = 10_005,
    ServerFault = 10_006,
    BadType = 10_007,
    Jukebox = 10_008,
    /// The lease of the call is not held any more. The protocol has no such status: only calls under
    /// leases get it.
    LeaseLost = 20_001,
}

impl Status {
    /// The status for an error of the file system.
    pub fn of(error: &FsError) -> Status {
        match error {
            FsError::NotFound => Status::NoEntry,
            FsError::Exists => Status::Exists,
            FsError::NotDirectory => Status::NotDirectory,
            FsError::IsDirectory => Status::IsDirectory,
            FsError::NotEmpty => Status::NotEmpty,
            FsError::Access => Status::Access,
            FsError::NotPermitted => Status::NotOwner,
            FsError::NoSpace | FsError::NoInodes | FsError::AttributesTooBig => Status::NoSpace,
            FsError::QuotaExceeded => Status::QuotaExceeded,
            FsError::NameTooLong => Status::NameTooLong,
            FsError::Invalid(_) => Status::Invalid,
            FsError::FileTooBig => Status::FileTooBig,
            FsError::TooManyLinks => Status::TooManyLinks,
            FsError::NoAttribute | FsError::Range => Status::Invalid,
            FsError::NoSuchOffset => Status::NoDevice,
            FsError::Stale => Status::Stale,
            FsError::ReadOnly => Status::ReadOnly,
            FsError::NotSupported(_) => Status::NotSupported,
            FsError::CrossDevice => Status::CrossDevice,
            // The client tries again later.
            FsError::Busy | FsError::Refused(_) => Status::Jukebox,
            FsError::Io(_) | FsError::Corrupt { .. } => Status::Io,
        }
    }

    /// The error for the status of a server: the inverse of [`of`](Self::of) for the errors that a
    /// client can cause. `None` for success.
    pub fn error(code: u32) -> Option<FsError> {
        Some(match code {
            0 => return None,
            1 => FsError::NotPermitted,
            2 => FsError::NotFound,
            13 => FsError::Access,
            17 => FsError::Exists,
            18 => FsError::CrossDevice,
            20 => FsError::NotDirectory,
            21 => FsError::IsDirectory,
            22 => FsError::Invalid("the server refuses it"),
            27 => FsError::FileTooBig,
            28 => FsError::NoSpace,
            30 => FsError::ReadOnly,
            31 => FsError::TooManyLinks,
            63 => FsError::NameTooLong,
            66 => FsError::NotEmpty,
            69 => FsError::QuotaExceeded,
            70 | 10_001 => FsError::Stale,
            10_004 => FsError::NotSupported("the server cannot do it"),
            10_008 => FsError::Busy,
            other => FsError::inconsistent(format!("the server answers with status {other}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_clients_come_back_as_they_were() {
        for error in [
            FsError::NotFound,
            FsError::Exists,
            FsError::NotDirectory,
            FsError::IsDirectory,
            FsError::NotEmpty,
            FsError::Access,
            FsError::NotPermitted,
            FsError::NoSpace,
            FsError::QuotaExceeded,
            FsError::NameTooLong,
            FsError::FileTooBig,
            FsError::TooManyLinks,
            FsError::Stale,
            FsError::ReadOnly,
            FsError::CrossDevice,
            FsError::Busy,
        ] {
            assert_eq!(Status::error(Status::of(&error) as u32), Some(error));
        }
        assert_eq!(Status::error(Status::Ok as u32), None);
    }
}
