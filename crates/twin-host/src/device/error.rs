//! Why an image could not be opened or made.
//!
//! Contract: each message names the image and, where the user can do something, says what.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::fuse::mountinfo::mounted_from;
use crate::limits::FILE_SIZE_REMEDY;

/// Why an image could not be opened or made.
#[derive(Debug)]
pub enum ImageError {
    /// Another process has it open.
    InUse {
        /// The image that was to be opened.
        path: PathBuf,
        /// The directory at which it is mounted, if it is.
        mounted_at: Option<PathBuf>,
    },
    /// The image is, or lies on, something that another process uses by another name.
    InUseAs {
        /// The image that was to be opened.
        path: PathBuf,
        /// The device or mount that uses its bytes.
        what: String,
        /// What the user can do about it.
        remedy: String,
    },
    /// The limit of this process on the size of files would end writes in the middle.
    SizeLimit {
        /// The image that was to be opened.
        path: PathBuf,
        /// Size of the image in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// Neither a regular file nor a block device.
    NotAnImage(PathBuf),
    /// A file of that name exists already.
    Exists(PathBuf),
    /// The block device's sectors are larger than the caller can use.
    SectorTooLarge {
        /// The block device that was to be opened.
        path: PathBuf,
        /// Size of the device's sectors in bytes.
        sector: u32,
        /// The largest that the caller can use, in bytes.
        max: u32,
    },
    /// A system call failed.
    Host {
        /// The attempted action, for example "opening".
        what: &'static str,
        /// The file that the system call was about.
        path: PathBuf,
        /// The error of the host.
        error: io::Error,
    },
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageError::InUse { path, mounted_at: Some(dir) } => {
                let (path, dir) = (path.display(), dir.display());
                write!(
                    f,
                    "{path} is mounted at {dir}: look at it there (`twinfs stat {dir}`), or unmount \
                     it (`twinfs umount {dir}`)"
                )
            }
            ImageError::InUse { path, mounted_at: None } => {
                let path = path.display();
                write!(f, "{path} is in use by another process: unmount it, or wait for it to end")
            }
            ImageError::InUseAs { path, what, remedy } => {
                let path = path.display();
                write!(f, "{path} {what}, which another process uses: {remedy}")
            }
            ImageError::SizeLimit { path, size, limit } => {
                let path = path.display();
                write!(
                    f,
                    "{path} has {size} bytes, and the limit on the size of files (`ulimit -f`) is \
                     {limit}: writes would fail in the middle of it; {FILE_SIZE_REMEDY}"
                )
            }
            ImageError::NotAnImage(path) => {
                let path = path.display();
                write!(f, "{path} is neither a regular file nor a block device: name one")
            }
            ImageError::Exists(path) => {
                write!(f, "{} exists already: remove it or choose another name", path.display())
            }
            ImageError::SectorTooLarge { path, sector, max } => {
                let path = path.display();
                write!(
                    f,
                    "{path} has sectors of {sector} bytes, the volume's are {max}: copy it "
                )?;
                f.write_str("to an image file, or to a device with small sectors")
            }
            ImageError::Host { what, path, error } => {
                write!(f, "{what} {}: {error}", path.display())?;
                match (error.kind(), *what) {
                    (io::ErrorKind::NotFound, "opening") => {
                        write!(f, "; `twinfs mkfs --size 4G {}` makes a volume", path.display())
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for ImageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ImageError::Host { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The error of a system call that failed at `what`.
pub(super) fn host(what: &'static str, path: &Path) -> impl FnOnce(Errno) -> ImageError {
    let path = path.to_path_buf();
    move |errno| ImageError::Host { what, path, error: errno.into() }
}

/// The error of an image that could not be opened or locked.
pub(super) fn refused(path: &Path, errno: Errno) -> ImageError {
    match errno {
        Errno::BUSY | Errno::AGAIN | Errno::TXTBSY => {
            ImageError::InUse { path: path.into(), mounted_at: mounted_from(path) }
        }
        errno => host("opening", path)(errno),
    }
}
