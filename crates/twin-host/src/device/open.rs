//! Opening, locking, measuring and creating images.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, StatxFlags, fcntl_getfl,
    fcntl_setfl, flock, fstat, open as open_file, seek, statx,
};
use rustix::io::Errno;
use twin_disk::Buf;

use super::error::{ImageError, host, refused};
use super::exclusion::{Claim, attach};
use super::patience::with_patience;
use super::queue::{DriverQueue, QueueChoice};
use crate::limits::file_size_limit;

/// The unit of addresses, in bytes, if the host requires no larger one.
const SMALLEST_SECTOR: u32 = 512;
/// How to open an image.
#[derive(Clone, Debug)]
pub struct ImageOptions {
    /// Open for reading only, and share an image file with other readers.
    pub read_only: bool,
    /// Read it beside the process that has it open and that has agreed to that: without a lock.
    pub beside: bool,
    /// Bypass the host's page cache (O_DIRECT) if the host supports it.
    pub direct: bool,
    /// The largest sector that the caller can use, in bytes. Direct I/O that requires larger units
    /// is not used. For a volume, this is the sector size with which it was made.
    pub max_sector: u32,
    /// The order in which requests reach the kernel.
    pub queue: QueueChoice,
}

impl Default for ImageOptions {
    fn default() -> Self {
        ImageOptions {
            read_only: false,
            beside: false,
            direct: true,
            max_sector: 4096,
            queue: QueueChoice::Automatic,
        }
    }
}

/// An image that is open, with the locks on it.
pub(super) struct Image {
    pub(super) fd: OwnedFd,
    pub(super) size: u64,
    pub(super) sector: u32,
    /// The alignment that direct I/O requires in memory; 1 without direct I/O.
    pub(super) memory_align: usize,
    pub(super) queue: DriverQueue,
    pub(super) is_device: bool,
    /// The locks that keep others away while the image is open.
    pub(super) claim: Claim,
}

/// Makes a sparse image file of `size` bytes, for its owner alone: whoever can read the image reads
/// all files in it.
///
/// # Errors
/// If a file of that name exists, or the host refuses.
pub fn create_image(path: &Path, size: u64) -> Result<(), ImageError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let fd = match open_file(path, flags, Mode::from_raw_mode(0o600)) {
        Ok(fd) => fd,
        Err(Errno::EXIST) => return Err(ImageError::Exists(path.into())),
        Err(errno) => return Err(host("creating", path)(errno)),
    };
    rustix::fs::ftruncate(&fd, size).map_err(|errno| {
        let _ = std::fs::remove_file(path);
        host("giving its size to", path)(errno)
    })
}

pub(super) fn open(path: &Path, options: &ImageOptions) -> Result<Image, ImageError> {
    let stat = rustix::fs::stat(path).map_err(host("opening", path))?;
    let is_device = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => false,
        FileType::BlockDevice => true,
        _ => return Err(ImageError::NotAnImage(path.into())),
    };
    let queue = DriverQueue::of(options.queue, &stat, is_device);
    let access = if options.read_only { OFlags::RDONLY } else { OFlags::RDWR };
    // On a block device, O_EXCL excludes mounts and other exclusive users.
    let exclusive = if is_device && !options.beside { OFlags::EXCL } else { OFlags::empty() };
    let flags = access | exclusive | OFlags::CLOEXEC;
    let fd = with_patience(|| open_file(path, flags, Mode::empty()), Errno::BUSY)
        .map_err(|errno| refused(path, errno))?;
    if !is_device && !options.beside {
        lock(&fd, options.read_only).map_err(|errno| refused(path, errno))?;
    }
    let claim = match options.beside {
        true => Claim::default(),
        false => Claim::of(&fd, path, options.read_only)?,
    };
    let size = if is_device {
        seek(&fd, SeekFrom::End(0)).map_err(host("measuring", path))?
    } else {
        fstat(&fd).map_err(host("measuring", path))?.st_size as u64
    };
    let (mut fd, mut is_device, mut claim) = (fd, is_device, claim);
    if let Some(limit) = file_size_limit()
        && !is_device
        && !options.read_only
        && limit < size
    {
        // The kernel may write where this process may not.
        let Some(device) = attach(&fd) else {
            return Err(ImageError::SizeLimit { path: path.into(), size, limit });
        };
        claim.keep_file(std::mem::replace(&mut fd, device), size);
        is_device = true;
    }
    let direct = if options.direct { direct_align(&fd, is_device, size) } else { None };
    let (sector, memory_align) = match direct {
        Some((sector, memory_align)) if sector <= options.max_sector => (sector, memory_align),
        _ => {
            set_direct(&fd, false).map_err(host("opening", path))?;
            (SMALLEST_SECTOR, 1)
        }
    };
    if is_device {
        // With or without direct I/O, a device writes only whole sectors of its own size.
        let own = rustix::fs::ioctl_blksszget(&fd).map_err(host("measuring", path))?;
        let sector = sector.max(own);
        if sector > options.max_sector {
            let max = options.max_sector;
            return Err(ImageError::SectorTooLarge { path: path.into(), sector, max });
        }
        let size = whole(size, sector);
        return Ok(Image { fd, size, sector, memory_align, queue, is_device, claim });
    }
    let size = whole(size, sector);
    Ok(Image { fd, size, sector, memory_align, queue, is_device, claim })
}

pub(super) fn whole(size: u64, sector: u32) -> u64 {
    size - size % u64::from(sector)
}

fn lock(fd: &OwnedFd, shared: bool) -> Result<(), Errno> {
    let operation = if shared {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    with_patience(|| flock(fd, operation), Errno::WOULDBLOCK)
}

fn set_direct(fd: &OwnedFd, direct: bool) -> Result<(), Errno> {
    let mut flags = fcntl_getfl(fd)?;
    flags.set(OFlags::DIRECT, direct);
    fcntl_setfl(fd, flags)
}

/// Turns on direct I/O. Returns the sector and the memory alignment that it requires, or `None` if
/// the host does not support it on this file.
fn direct_align(fd: &OwnedFd, is_device: bool, size: u64) -> Option<(u32, usize)> {
    set_direct(fd, true).ok()?;
    let stat = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    let told = stat
        .filter(|stat| stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0)
        .map(|stat| (stat.stx_dio_offset_align, stat.stx_dio_mem_align));
    let (offset, memory) = match told {
        Some((0, _) | (_, 0)) => return None,
        Some(told) => told,
        None if is_device => (rustix::fs::ioctl_blksszget(fd).ok()?, 4096),
        // Kernels before 6.1 do not report the alignment: a page satisfies every device.
        None => (4096, 4096),
    };
    let sector = offset.max(SMALLEST_SECTOR).next_power_of_two();
    if size >= u64::from(sector) {
        // Some file systems accept the flag and then refuse the requests.
        let mut probe = Buf::aligned(sector as usize);
        rustix::io::pread(fd, &mut probe[..], 0).ok()?;
    }
    Some((sector, memory.max(2) as usize))
}
