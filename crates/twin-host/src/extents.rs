//! Where the files below a directory are on the device of their file system, as its kernel tells.
//!
//! Contract: nothing is written: no file is synced, and directories are read without changing their
//! times where the kernel allows that. Blocks that have no place yet (delayed allocation, inline
//! data) are left out. Other file systems that are mounted below are not entered, symbolic links
//! not followed, and a file with several names is listed once. What cannot be read is listed, up to
//! [`MOST_PROBLEMS`].

#![allow(unsafe_code)] // The ioctls have no safe wrapper.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::fuse::FUSE_TYPE;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// A walk over a directory.
#[derive(Debug, Default)]
pub struct Walked {
    /// The name of the file system's kind: "ext4", or "type 0x1234".
    pub system: String,
    /// The unit of its space in bytes.
    pub block_size: u32,
    /// Size of the file system in bytes: the end of its last place, where that is known.
    pub size: u64,
    /// When the walk began, in seconds since 1970.
    pub now_s: i64,
    /// The block groups of the file system, if its kind shows where they are.
    pub areas: Vec<Range<u64>>,
    /// The free ranges in bytes; `None` where the kernel does not tell.
    pub free: Option<Vec<Range<u64>>>,
    /// Regular files and directories.
    pub files: Vec<WalkedFile>,
    /// Directory, inode and name of each name of these.
    pub names: Vec<(u64, u64, Vec<u8>)>,
    /// The files and directories that could not be read.
    pub problems: Vec<String>,
}

/// A file or directory.
#[derive(Debug)]
pub struct WalkedFile {
    /// The inode number of the file.
    pub ino: u64,
    /// True for a directory.
    pub is_dir: bool,
    /// The length in bytes.
    pub size: u64,
    /// The time of the last change of content.
    pub mtime_s: i64,
    /// The places of the file, in the order of its content.
    pub extents: Vec<Extent>,
}

/// A part of a file that is in one piece on the device; all in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first byte in the file.
    pub offset: u64,
    /// The first byte on the device.
    pub at: u64,
    /// Length of the part in bytes.
    pub bytes: u64,
}

/// Why there is no map.
#[derive(Debug)]
pub enum ExtentsError {
    /// The file system does not tell where files are: the directory and its kind.
    NotTold(PathBuf, String),
    /// The directory cannot be read.
    Host(PathBuf, Errno),
    /// The caller ended it.
    Ended,
}

impl fmt::Display for ExtentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExtentsError::NotTold(path, system) if system == "fuse" => write!(
                f,
                "{}: FUSE mounts do not tell where files are (FIEMAP): if this is a mount of \
                 twinfs, name its image",
                path.display()
            ),
            ExtentsError::NotTold(path, system) => write!(
                f,
                "{}: this file system ({system}) does not tell where files are (FIEMAP), as ext4, \
                 xfs, btrfs and f2fs do",
                path.display()
            ),
            ExtentsError::Host(path, errno) => write!(f, "{}: {errno}", path.display()),
            ExtentsError::Ended => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for ExtentsError {}

/// The most problems that are listed one by one.
pub const MOST_PROBLEMS: usize = 100;

/// Kinds of file systems by the magic numbers of statfs (`linux/magic.h`).
const SYSTEMS: [(u64, &str); 8] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0xf2f5_2010, "f2fs"),
    (0x0102_1994, "tmpfs"),
    (FUSE_TYPE, "fuse"),
    (0x794c_7630, "overlay"),
    (0x6969, "nfs"),
];

/// The map of all files below a directory, and, if `with_free`, of the free space of the whole device, which may
/// take long. `keep_on` is called with the number of files now and then, and ends the walk by returning false.
///
/// # Errors
/// If the file system does not report where files are, or the directory cannot be read.
pub fn map(
    dir: &Path,
    with_free: bool,
    keep_on: &dyn Fn(u64) -> bool,
) -> Result<Walked, ExtentsError> {
    let host = |errno| ExtentsError::Host(dir.into(), errno);
    let root = open_dir(None, dir.as_os_str().as_encoded_bytes()).map_err(host)?;
    let about = rustix::fs::fstatfs(&root).map_err(host)?;
    let magic = about.f_type as u64 & 0xffff_ffff;
    let system = SYSTEMS.iter().find(|(known, _)| *known == magic);
    let system = system.map_or(format!("type {magic:#x}"), |(_, name)| (*name).into());
    let stat = rustix::fs::fstat(&root).map_err(host)?;
    let block_size = u32::try_from(about.f_bsize).unwrap_or(4096).max(512);
    let space = with_free.then(|| space(&root, stat.st_dev)).flatten();
    // statfs leaves the metadata of ext4 out of the size, so places reach beyond it: free space there was
    // cut off.
    let size = about.f_blocks * about.f_bsize as u64;
    let size = size.max(space.as_ref().map_or(0, |space| space.end));
    let areas = if system == "ext4" { ext4_groups(block_size, size) } else { Vec::new() };
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let free = space.map(|space| space.free);
    let walked =
        Walked { system, block_size, size, now_s: now.tv_sec, areas, free, ..Walked::default() };
    let mut walk = Walk {
        walked,
        device: stat.st_dev,
        seen: Default::default(),
        unread: 0,
        is_refused: false,
        keep_on,
    };
    // Some tell of files alone, so that the directory itself proves nothing.
    let told = !matches!(extents(&root), Err(Errno::NOTTY | Errno::OPNOTSUPP));
    let ended = walk.all(dir, root, &stat);
    if walk.is_refused || (!told && walk.walked.files.iter().all(|file| file.is_dir)) {
        return Err(ExtentsError::NotTold(dir.into(), walk.walked.system));
    }
    ended?;
    let Walk { mut walked, unread, .. } = walk;
    if unread > MOST_PROBLEMS as u64 {
        walked
            .problems
            .push(format!("{} more files could not be read", unread - MOST_PROBLEMS as u64));
    }
    Ok(walked)
}

/// The block groups of ext4, which have as many blocks as a block has bits; mke2fs chooses this
/// size by default. With blocks of 1 KiB, one block for the boot sector precedes the first group.
fn ext4_groups(block_size: u32, size: u64) -> Vec<Range<u64>> {
    let group = u64::from(block_size) * u64::from(block_size) * 8;
    let first = if block_size == 1024 { 1024 } else { 0 };
    let count = size.saturating_sub(first).div_ceil(group);
    let starts = (0..count).map(|nth| first + nth * group);
    starts.map(|start| start..(start + group).min(size)).collect()
}

struct Walk<'a> {
    walked: Walked,
    device: u64,
    /// Inodes with several names, and directories.
    seen: twin_rt::FixedSet<u64>,
    unread: u64,
    /// A regular file was there whose extents cannot be asked for.
    is_refused: bool,
    keep_on: &'a dyn Fn(u64) -> bool,
}

/// Files between two calls of the caller.
const BATCH: usize = 256;

impl Walk<'_> {
    fn all(&mut self, dir: &Path, root: OwnedFd, stat: &Stat) -> Result<(), ExtentsError> {
        self.add(&root, stat, true);
        let mut waiting = vec![(dir.to_path_buf(), stat.st_ino, Some(root))];
        while let Some((path, ino, fd)) = waiting.pop() {
            let opened = match fd {
                Some(fd) => Ok(fd),
                None => open_dir(None, path.as_os_str().as_encoded_bytes()),
            };
            let mut below = Vec::new();
            match opened {
                Ok(fd) => self.directory(&path, ino, fd, &mut below)?,
                Err(errno) => self.problem(&path, errno),
            }
            waiting.extend(below.into_iter().rev().map(|(path, ino)| (path, ino, None)));
        }
        Ok(())
    }

    fn directory(
        &mut self,
        path: &Path,
        ino: u64,
        fd: OwnedFd,
        below: &mut Vec<(PathBuf, u64)>,
    ) -> Result<(), ExtentsError> {
        let entries = match Dir::read_from(&fd) {
            Ok(entries) => entries,
            Err(errno) => {
                self.problem(path, errno);
                return Ok(());
            }
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => {
                    self.problem(path, errno);
                    break;
                }
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let child = path.join(OsStr::from_bytes(name.to_bytes()));
            match rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(errno) => self.problem(&child, errno),
                Ok(stat) => self.entry(&fd, &child, ino, name.to_bytes(), &stat, below),
            }
            if self.is_refused
                || self.walked.files.len().is_multiple_of(BATCH)
                    && !(self.keep_on)(self.walked.files.len() as u64)
            {
                return Err(ExtentsError::Ended);
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        dir: &OwnedFd,
        path: &Path,
        dir_ino: u64,
        name: &[u8],
        stat: &Stat,
        below: &mut Vec<(PathBuf, u64)>,
    ) {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let is_dir = kind == FileType::Directory;
        if !(is_dir || kind == FileType::RegularFile) || stat.st_dev != self.device {
            return;
        }
        self.walked.names.push((dir_ino, stat.st_ino, name.to_vec()));
        if (is_dir || stat.st_nlink > 1) && !self.seen.insert(stat.st_ino) {
            return;
        }
        let flags = if is_dir { OFlags::DIRECTORY } else { OFlags::empty() };
        match open_at(Some(dir), name, flags) {
            Ok(file) => self.add(&file, stat, is_dir),
            Err(errno) => self.problem(path, errno),
        }
        if is_dir {
            below.push((path.into(), stat.st_ino));
        }
    }

    fn add(&mut self, file: &OwnedFd, stat: &Stat, is_dir: bool) {
        let asked = extents(file);
        if !is_dir && matches!(asked, Err(Errno::NOTTY | Errno::OPNOTSUPP)) {
            self.is_refused = true;
        }
        let extents = asked.unwrap_or_default();
        self.walked.files.push(WalkedFile {
            ino: stat.st_ino,
            is_dir,
            size: stat.st_size as u64,
            mtime_s: stat.st_mtime,
            extents,
        });
    }

    fn problem(&mut self, path: &Path, errno: Errno) {
        self.unread += 1;
        if self.unread <= MOST_PROBLEMS as u64 {
            self.walked.problems.push(format!("{}: {errno}", path.display()));
        }
    }
}

fn open_dir(at: Option<&OwnedFd>, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    open_at(at, path, OFlags::DIRECTORY)
}

/// Opens for reading, without changing the time of access where this user may ask for that.
fn open_at(at: Option<&OwnedFd>, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let flags = if at.is_some() { flags | OFlags::NOFOLLOW } else { flags };
    let open = |flags| match at {
        Some(dir) => rustix::fs::openat(dir, path, flags, Mode::empty()),
        None => rustix::fs::open(path, flags, Mode::empty()),
    };
    match open(flags | OFlags::NOATIME) {
        Err(Errno::PERM) => open(flags),
        other => other,
    }
}

/// `struct fiemap_extent` of `linux/fiemap.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` with room for extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; EXTENTS],
}

/// Extents that are asked for at once.
const EXTENTS: usize = 128;
/// FS_IOC_FIEMAP: _IOWR('f', 11, struct fiemap).
const FS_IOC_FIEMAP: u32 = 0xc020_660b;
/// The flag of the last extent of a file (`FIEMAP_EXTENT_LAST`).
const LAST: u32 = 0x1;
/// FIEMAP_EXTENT_UNKNOWN, _DELALLOC, _NOT_ALIGNED, _DATA_INLINE, _DATA_TAIL: no place of its own.
const NO_PLACE: u32 = 0x2 | 0x4 | 0x100 | 0x200 | 0x400;

/// The places of a file or directory.
fn extents(file: &OwnedFd) -> rustix::io::Result<Vec<Extent>> {
    let mut found = Vec::new();
    let mut start = 0u64;
    loop {
        let mut ask = Fiemap {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped_extents: 0,
            extent_count: EXTENTS as u32,
            reserved: 0,
            extents: [FiemapExtent::default(); EXTENTS],
        };
        // SAFETY: the kernel reads the head of `ask` and writes at most `extent_count` extents, for
        // which the array behind the head has room; both live until the call returns.
        let done = unsafe {
            let request = FS_IOC_FIEMAP as libc::Ioctl;
            libc::ioctl(file.as_raw_fd(), request, &raw mut ask)
        };
        if done < 0 {
            return Err(last_errno());
        }
        let got = &ask.extents[..(ask.mapped_extents as usize).min(EXTENTS)];
        for extent in got.iter().filter(|extent| extent.flags & NO_PLACE == 0) {
            let FiemapExtent { logical, physical, length, .. } = *extent;
            found.push(Extent { offset: logical, at: physical, bytes: length });
        }
        match got.last() {
            Some(last) if last.flags & LAST == 0 => {
                let next = last.logical.saturating_add(last.length);
                // A kernel that does not advance would never end.
                if next <= start && start > 0 {
                    return Ok(found);
                }
                start = next;
            }
            _ => return Ok(found),
        }
    }
}

/// `struct fsmap` of `linux/fsmap.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Fsmap {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

/// `struct fsmap_head` with room for records.
#[repr(C)]
struct FsmapHead {
    iflags: u32,
    oflags: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    keys: [Fsmap; 2],
    records: [Fsmap; RECORDS],
}

/// Records that are asked for at once.
const RECORDS: usize = 512;
/// FS_IOC_GETFSMAP: _IOWR('X', 59, struct fsmap_head).
const FS_IOC_GETFSMAP: u32 = 0xc0c0_583b;
/// The flags of an owner that is no inode (`FMR_OF_SPECIAL_OWNER`), and of the last record
/// (`FMR_OF_LAST`).
const SPECIAL_OWNER: u32 = 0x10;
const LAST_RECORD: u32 = 0x20;
/// The special owner of free space (`FMR_OWN_FREE`).
const OWN_FREE: u64 = 1;

/// The space of a file system.
#[derive(Default)]
struct Space {
    /// The free ranges in bytes.
    free: Vec<Range<u64>>,
    /// The end of the last place that is free or used.
    end: u64,
}

/// The space of a file system; `None` if its kernel does not tell, or not this user.
fn space(root: &OwnedFd, device: u64) -> Option<Space> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // As the kernel encodes device numbers in 32 bits.
    let device = (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12);
    let mut space = Space::default();
    let mut low = Fsmap::default();
    let high = Fsmap {
        device: u32::MAX,
        flags: u32::MAX,
        physical: u64::MAX,
        owner: u64::MAX,
        offset: u64::MAX,
        ..Fsmap::default()
    };
    let mut ask = Box::new(FsmapHead {
        iflags: 0,
        oflags: 0,
        count: RECORDS as u32,
        entries: 0,
        reserved: [0; 6],
        keys: [low, high],
        records: [Fsmap::default(); RECORDS],
    });
    loop {
        ask.keys = [low, high];
        ask.entries = 0;
        // SAFETY: the kernel reads the head of `ask` and writes at most `count` records, for which
        // the array behind the head has room; both live until the call returns.
        let done = unsafe {
            let request = FS_IOC_GETFSMAP as libc::Ioctl;
            libc::ioctl(root.as_raw_fd(), request, &raw mut *ask)
        };
        if done < 0 {
            return None;
        }
        let got = &ask.records[..(ask.entries as usize).min(RECORDS)];
        for record in got {
            if record.device != device || record.length == 0 {
                continue;
            }
            let range = record.physical..record.physical.checked_add(record.length)?;
            space.end = space.end.max(range.end);
            if record.flags & SPECIAL_OWNER == 0 || record.owner != OWN_FREE {
                continue;
            }
            let free = &mut space.free;
            match free.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                // Out of order it is no list of ranges.
                Some(last) if last.end > range.start => return None,
                _ => free.push(range),
            }
        }
        let last = *got.last()?;
        if last.flags & LAST_RECORD != 0 {
            return Some(space);
        }
        low = last;
    }
}

fn last_errno() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_kernels() {
        assert_eq!(size_of::<FiemapExtent>(), 56);
        assert_eq!(size_of::<Fiemap>(), 32 + EXTENTS * 56);
        assert_eq!(size_of::<Fsmap>(), 64);
        assert_eq!(size_of::<FsmapHead>(), 192 + RECORDS * 64);
    }

    #[test]
    fn a_directory_without_extents_is_refused_with_its_kind() {
        let error = map(Path::new("/proc/self"), false, &|_| true).unwrap_err();
        assert!(error.to_string().contains("does not tell where files are"), "{error}");
        assert!(map(Path::new("/no such place"), false, &|_| true).is_err());
    }

    #[test]
    fn groups_of_ext4_cover_the_volume() {
        let groups = ext4_groups(4096, (300 << 20) + 4096);
        assert_eq!(groups.len(), 3);
        assert_eq!(groups[2], 256 << 20..(300 << 20) + 4096);
        // As dumpe2fs says: group 0 is blocks 1 to 8192.
        let groups = ext4_groups(1024, 300 << 20);
        assert_eq!((groups[0].clone(), groups.len()), (1024..8193 << 10, 38));
    }
}
