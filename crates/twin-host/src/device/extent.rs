//! Whether a device is as large as it was when it was opened.
//!
//! Contract: an image file can be cut short by anybody who may write it, and a device can shrink,
//! below an open volume. A write behind the new end would make the file long again, with a hole where
//! data was, and a flush would succeed. So the size is looked at before each change and after each
//! flush, before it is acknowledged: 0.3 us, where a flush takes a hundred times as much. Once it has
//! shrunk the device takes no changes any more, whatever becomes of it later. A file that is
//! cut and made long again between two looks is not noticed. Only [`Extent::grow`] changes the size that counts.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{SeekFrom, fstat, ftruncate, seek};
use rustix::io::Errno;
use twin_disk::IoErrorKind;

use super::exclusion::Claim;
use crate::limits::file_size_limit;

/// Watches whether a device still has the size with which it was opened.
pub(super) struct Extent {
    fd: Arc<OwnedFd>,
    is_device: bool,
    size: Cell<u64>,
    /// The parts below that must keep their sizes, too, and the locks that keep others away.
    claim: Claim,
    shrank: Cell<bool>,
}

impl Extent {
    pub(super) fn new(fd: Arc<OwnedFd>, is_device: bool, size: u64, claim: Claim) -> Extent {
        Extent { fd, is_device, size: Cell::new(size), claim, shrank: Cell::new(false) }
    }

    fn measure(&self) -> Result<u64, Errno> {
        match self.is_device {
            true => seek(&self.fd, SeekFrom::End(0)),
            false => Ok(fstat(&self.fd)?.st_size as u64),
        }
    }

    /// Makes a file `to` bytes long if it is shorter, and looks how large file or device are now. Gives that.
    pub(super) fn grow(&self, to: Option<u64>) -> Result<u64, IoErrorKind> {
        let other = |why: &str| IoErrorKind::Other(why.into());
        let failed = |errno: Errno| match errno {
            Errno::NOSPC | Errno::FBIG => IoErrorKind::NoSpace,
            errno => IoErrorKind::Other(errno.to_string()),
        };
        if let Some(cut) = self.check() {
            return Err(cut);
        }
        let is = self.measure().map_err(failed)?;
        match to {
            Some(to) if to > is && self.is_device => {
                return Err(other("a device has the size that it has: make it larger first"));
            }
            Some(to) if to > is => {
                if file_size_limit().is_some_and(|limit| limit < to) {
                    return Err(other(
                        "it is more than the limit on the size of files (`ulimit -f`)",
                    ));
                }
                ftruncate(&self.fd, to).map_err(failed)?;
            }
            _ => {}
        }
        let size = self.measure().map_err(failed)?;
        self.size.set(size);
        Ok(size)
    }

    /// The error of the device if it is smaller than it was.
    pub(super) fn check(&self) -> Option<IoErrorKind> {
        if !self.shrank.get() {
            // A size that cannot be had says nothing; the request itself will fail.
            let shrank = self.measure().is_ok_and(|size| size < self.size.get());
            self.shrank.set(shrank || self.claim.shrank());
        }
        self.shrank.get().then(|| {
            IoErrorKind::Other("it was cut short while it was in use: its end is lost".into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_file_grows_and_must_keep_the_size_that_it_got() {
        let place = std::env::temp_dir().join(format!("twinfs-grows-{}", std::process::id()));
        let file = File::create(&place).unwrap();
        file.set_len(8192).unwrap();
        let fd = Arc::new(OwnedFd::from(File::options().write(true).open(&place).unwrap()));
        let extent = Extent::new(fd, false, 8192, Claim::default());
        assert_eq!(extent.grow(Some(20_000)), Ok(20_000));
        assert_eq!(file.metadata().unwrap().len(), 20_000);
        assert_eq!(extent.grow(Some(10_000)), Ok(20_000), "it never becomes smaller");
        file.set_len(30_000).unwrap();
        assert_eq!(extent.grow(None), Ok(30_000));
        file.set_len(20_000).unwrap();
        assert!(extent.check().is_some());
        std::fs::remove_file(&place).unwrap();
    }

    #[test]
    fn a_file_that_was_cut_stays_refused_when_it_is_long_again() {
        let place = std::env::temp_dir().join(format!("twinfs-extent-{}", std::process::id()));
        let file = File::create(&place).unwrap();
        file.set_len(8192).unwrap();
        let fd = Arc::new(OwnedFd::from(File::open(&place).unwrap()));
        let extent = Extent::new(fd, false, 8192, Claim::default());
        assert_eq!(extent.check(), None);
        file.set_len(9000).unwrap();
        assert_eq!(extent.check(), None, "longer does no harm");
        file.set_len(8191).unwrap();
        assert!(
            matches!(extent.check(), Some(IoErrorKind::Other(why)) if why.contains("cut short"))
        );
        file.set_len(8192).unwrap();
        assert!(extent.check().is_some());
        assert!(extent.grow(Some(16384)).is_err(), "what was lost is not made up for");
        std::fs::remove_file(&place).unwrap();
    }
}
