//! Who else uses an image: locks on it, and on what it lies on.
//!
//! Contract: bytes of a device that one process may change are open in no other twinfs, by whatever
//! name: a path, a link, another mount namespace, a loop device over the file or over a part of it, a
//! loop device over that, a partition, a device of the device mapper. Everything is found by the
//! identities that the kernel gives (device and inode number), not by names.
//!
//! Who opens an image locks its bytes (an open file description lock, so that loop devices over
//! different parts of a file do not exclude each other) in the file or device itself and in
//! everything below it. A file that can be the backing of a loop device is looked for among those that
//! are attached: one that somebody has open exclusively, such as a mount of another file system,
//! excludes; the others are kept open exclusively, so that nobody mounts them later. Each side takes
//! its own first and then looks at the other's, so of two that come at the same time one at least sees
//! the other.
//!
//! What cannot be seen: another machine on a shared disk; a virtual machine or program that takes no
//! locks; and the file below a loop device whose path leads nowhere from here (another mount
//! namespace, a deleted file) if its user is not in `/proc/locks` either.
#![allow(unsafe_code)] // Locks of open file descriptions and ioctls of loop devices have no safe wrapper.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, major, minor, open as open_file};
use rustix::io::Errno;

use super::error::{ImageError, host, refused};
use super::patience::with_patience;

/// How deep devices may lie on each other.
const DEEPEST: usize = 8;
/// The unit of sizes and places in sysfs, in bytes.
const SYSFS_SECTOR: u64 = 512;

/// The locks and descriptors that an open image holds.
#[derive(Default)]
pub(super) struct Claim {
    /// Descriptors with locks on what lies below, and of loop devices over the file.
    held: Vec<OwnedFd>,
    /// Files below, with the bytes that they must have.
    below: Vec<(OwnedFd, u64)>,
}

/// Bytes of a file or device: the first, and how many; 0 for all that follow.
type Range = (u64, u64);

impl Claim {
    /// Claims an image that was opened at `path`.
    ///
    /// # Errors
    /// If somebody else uses it or a part of what it lies on.
    pub(super) fn of(fd: &OwnedFd, path: &Path, read_only: bool) -> Result<Claim, ImageError> {
        let mut claim = Claim::default();
        let busy = |errno| refused(path, errno);
        let stat = fstat(fd).map_err(busy)?;
        with_patience(|| lock_range(fd, (0, 0), read_only), Errno::AGAIN).map_err(busy)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
            for part in parts_below(fd, &stat, (0, 0)) {
                claim.take_below(part, path, read_only, 0)?;
            }
        } else {
            claim.take_loops_over(&stat, path)?;
        }
        Ok(claim)
    }

    /// Keeps the file of the image itself, which has this size and is used through a loop device.
    pub(super) fn keep_file(&mut self, fd: OwnedFd, size: u64) {
        self.below.push((fd, size));
    }

    /// True if a file below is shorter than it was.
    pub(super) fn shrank(&self) -> bool {
        let short = |(fd, len): &(OwnedFd, u64)| fstat(fd).is_ok_and(|s| (s.st_size as u64) < *len);
        self.below.iter().any(short)
    }

    fn take_below(
        &mut self,
        part: Part,
        path: &Path,
        read_only: bool,
        depth: usize,
    ) -> Result<(), ImageError> {
        let in_use = || ImageError::InUseAs {
            path: path.into(),
            what: format!("lies on {}", part.name),
            remedy: "unmount that first".into(),
        };
        let Some((fd, writable)) = part.open() else {
            // Not reachable from here by its name. What holds it may still be seen.
            return match part.identity.is_some_and(|file| is_locked(file, read_only)) {
                true => Err(in_use()),
                false => Ok(()),
            };
        };
        let locked =
            with_patience(|| lock_range(&fd, part.range, read_only || !writable), Errno::AGAIN);
        match locked {
            Err(Errno::AGAIN) => return Err(in_use()),
            Err(errno) => return Err(host("locking", path)(errno)),
            Ok(()) => {}
        }
        let Ok(stat) = fstat(&fd) else { return Ok(()) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::BlockDevice if depth < DEEPEST => {
                // A device that is made of others has these to itself, and so says nothing.
                if part.identity.is_some() && is_claimed(&part.name) {
                    return Err(in_use());
                }
                for part in parts_below(&fd, &stat, part.range) {
                    self.take_below(part, path, read_only, depth + 1)?;
                }
                self.held.push(fd);
            }
            FileType::RegularFile => {
                let end = if part.range.1 == 0 { u64::MAX } else { part.range.0 + part.range.1 };
                self.below.push((fd, end.min(stat.st_size as u64)));
            }
            _ => self.held.push(fd),
        }
        Ok(())
    }

    /// Keeps loop devices over a file to itself.
    fn take_loops_over(&mut self, file: &Stat, path: &Path) -> Result<(), ImageError> {
        for name in attached_loops() {
            let node = PathBuf::from("/dev").join(&name);
            let in_use = || ImageError::InUseAs {
                path: path.into(),
                what: format!("is in use as {}", node.display()),
                remedy: format!("unmount that, and detach it (losetup -d {})", node.display()),
            };
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let same = match open_file(&node, flags, Mode::empty()) {
                Ok(fd) => loop_status(&fd).is_some_and(|status| status.is_over(file)),
                // This process may not open the device, so its name and the mounts from it have to
                // do.
                Err(_) => backing_is(&name, file) && is_mounted(&name),
            };
            if !same {
                continue;
            }
            match open_file(&node, flags | OFlags::EXCL, Mode::empty()) {
                Ok(fd) => self.held.push(fd),
                Err(_) => return Err(in_use()),
            }
        }
        Ok(())
    }
}

/// Something that a device lies on.
struct Part {
    /// The path of the part, for messages and to open it.
    name: String,
    /// The file or device that must be found at the path; `None` if any will do.
    identity: Option<Identity>,
    range: Range,
}

/// The device and the inode number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: (u32, u32),
    ino: u64,
}

impl Identity {
    fn of(stat: &Stat) -> Identity {
        Identity { device: (major(stat.st_dev), minor(stat.st_dev)), ino: stat.st_ino }
    }
}

impl Part {
    /// It, and whether it was opened for writing, which an exclusive lock needs.
    fn open(&self) -> Option<(OwnedFd, bool)> {
        let right = |fd: &OwnedFd| match (self.identity, fstat(fd)) {
            (Some(identity), Ok(stat)) => Identity::of(&stat) == identity,
            (None, Ok(_)) => true,
            _ => false,
        };
        let with = |access| open_file(&*self.name, access | OFlags::CLOEXEC, Mode::empty()).ok();
        match with(OFlags::RDWR).filter(right) {
            Some(fd) => Some((fd, true)),
            None => with(OFlags::RDONLY).filter(right).map(|fd| (fd, false)),
        }
    }
}

/// The parts on which bytes of a block device lie: a file or device below a loop device, or the
/// devices from which the device mapper or a RAID makes this one.
fn parts_below(fd: &OwnedFd, stat: &Stat, range: Range) -> Vec<Part> {
    let device = (major(stat.st_rdev), minor(stat.st_rdev));
    let node = PathBuf::from(format!("/sys/dev/block/{}:{}", device.0, device.1));
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(node.join(name)).ok()?.trim().parse().ok()
    };
    let sectors = |name: &str| number(name).map(|n| n.saturating_mul(SYSFS_SECTOR));
    let is_partition = number("partition").is_some();
    let start = if is_partition { sectors("start").unwrap_or(0) } else { 0 };
    let size = sectors("size").unwrap_or(0);
    // Without an end of its own it ends where the device ends.
    let len = if range.1 == 0 { size.saturating_sub(range.0) } else { range.1 };
    let whole = if is_partition { node.join("..") } else { node };
    // Other devices may pass the question on to a loop device below them.
    let is_loop = whole.join("loop").is_dir();
    if let Some(status) = is_loop.then(|| loop_status(fd)).flatten() {
        let name = fs::read_to_string(whole.join("loop/backing_file")).unwrap_or_default();
        let range = (status.offset.saturating_add(start).saturating_add(range.0), len);
        let name = name.trim_end_matches('\n').to_string();
        return vec![Part { name, identity: Some(status.backing()), range }];
    }
    let slaves = fs::read_dir(whole.join("slaves")).into_iter().flatten().flatten();
    let names = slaves.map(|slave| slave.file_name().to_string_lossy().replace('!', "/"));
    // Only the mapper knows where on them it lies, so all of each is taken.
    names.map(|name| Part { name: format!("/dev/{name}"), identity: None, range: (0, 0) }).collect()
}

/// The names of loop devices that are attached.
fn attached_loops() -> Vec<String> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let attached = devices.filter(|device| device.path().join("loop/backing_file").exists());
    attached.map(|device| device.file_name().to_string_lossy().into_owned()).collect()
}

/// True if a loop device's file, by its name, is this one.
fn backing_is(name: &str, file: &Stat) -> bool {
    let place = Path::new("/sys/block").join(name).join("loop/backing_file");
    let path = fs::read_to_string(place).unwrap_or_default();
    let found = rustix::fs::stat(path.trim_end_matches('\n'));
    found.is_ok_and(|found| Identity::of(&found) == Identity::of(file))
}

/// True if a file system is mounted from a device, as far as this mount namespace tells.
fn is_mounted(name: &str) -> bool {
    let number = fs::read_to_string(Path::new("/sys/block").join(name).join("dev"));
    let (Ok(number), Ok(mounts)) = (number, fs::read_to_string("/proc/self/mountinfo")) else {
        return false;
    };
    mounts.lines().any(|line| line.split(' ').nth(2) == Some(number.trim()))
}

/// True if somebody has a device to himself: a mount, or another device made of it.
fn is_claimed(node: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    open_file(node, flags, Mode::empty()).is_err_and(|errno| errno == Errno::BUSY)
}

/// True if the kernel's list of locks has one on a file that excludes another.
fn is_locked(file: Identity, read_only: bool) -> bool {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let (major, minor) = file.device;
    let id = format!("{major:02x}:{minor:02x}:{}", file.ino);
    locks.lines().any(|line| {
        let mut words = line.split_whitespace();
        let writes = words.by_ref().any(|word| word == "WRITE");
        (writes || !read_only) && line.split_whitespace().any(|word| word == id)
    })
}

/// Locks bytes of an open file, for writing unless `shared`. A host that has no such locks is no
/// reason to fail.
fn lock_range(fd: &OwnedFd, (start, len): Range, shared: bool) -> Result<(), Errno> {
    let kind = if shared { libc::F_RDLCK } else { libc::F_WRLCK };
    let within = |bytes: u64| libc::off_t::try_from(bytes).unwrap_or(libc::off_t::MAX);
    let wanted = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: within(start),
        l_len: within(len).min(libc::off_t::MAX - within(start)),
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and the command reads the structure, which outlives the call.
    let locked = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &raw const wanted) };
    if locked == 0 {
        return Ok(());
    }
    match Errno::from_io_error(&std::io::Error::last_os_error()) {
        Some(Errno::AGAIN | Errno::ACCESS) => Err(Errno::AGAIN),
        _ => Ok(()),
    }
}

/// The status of a loop device: `struct loop_info64` of the kernel.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// The ioctl that asks for it.
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;

impl Default for LoopInfo {
    fn default() -> LoopInfo {
        LoopInfo {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: 0,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        }
    }
}

impl LoopInfo {
    fn backing(&self) -> Identity {
        // The kernel's own encoding of device numbers, for which there is no function here.
        let number = self.device as u32;
        let device = ((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xf_ff00));
        Identity { device, ino: self.inode }
    }

    fn is_over(&self, file: &Stat) -> bool {
        self.backing() == Identity::of(file)
    }
}

/// The ioctls that attach a file.
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
/// The device goes when nobody has it open.
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// With this flag a loop device does not keep a second copy of the file's pages.
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// How often to try for a device that is still free.
const TRIES: u32 = 8;

/// The request that attaches a file: `struct loop_config` of the kernel.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// A loop device over an open file, which goes when the descriptor is closed. Its writes are the
/// kernel's own, so no limit of this process on the size of files counts for them. `None` without the
/// right to have one.
pub(super) fn attach(file: &OwnedFd) -> Option<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let control = open_file("/dev/loop-control", flags, Mode::empty()).ok()?;
    for _ in 0..TRIES {
        // SAFETY: the request has no argument, and returns the number of a device.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        let number = u32::try_from(number).ok()?;
        let node = format!("/dev/loop{number}");
        let device = open_file(&*node, flags | OFlags::EXCL, Mode::empty()).ok()?;
        let flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
        let config = LoopConfig {
            fd: u32::try_from(file.as_raw_fd()).ok()?,
            block_size: 0,
            info: LoopInfo { flags, ..LoopInfo::default() },
            reserved: [0; 8],
        };
        // SAFETY: the device reads a structure of this form from the pointer, which outlives the call.
        let attached =
            unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
        if attached == 0 {
            return Some(device);
        }
        // Somebody else was faster.
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EBUSY) {
            return None;
        }
    }
    None
}

/// The status of a loop device; `None` for anything else.
fn loop_status(fd: &OwnedFd) -> Option<LoopInfo> {
    let mut info = LoopInfo::default();
    // SAFETY: a loop device writes a structure of this form to the pointer, which points to one that
    // outlives the call. Other files refuse the request; its number is that of no other device's.
    let told = unsafe { libc::ioctl(fd.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
    (told == 0).then_some(info)
}

/// True if the content of an image may have been made by somebody other than the superuser: its file
/// or node, or a file that it lies on, belongs to another user or may be written by one.
pub fn is_foreign(path: &Path) -> bool {
    let Ok(fd) = open_file(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return true;
    };
    is_foreign_at(&fd, 0)
}

fn is_foreign_at(fd: &OwnedFd, depth: usize) -> bool {
    let Ok(stat) = fstat(fd) else { return true };
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    // The group of a disk's node is that of administrators.
    let others = if is_device { 0o002 } else { 0o022 };
    if stat.st_uid != 0 || stat.st_mode & others != 0 || depth > DEEPEST {
        return true;
    }
    is_device
        && parts_below(fd, &stat, (0, 0)).iter().any(|part| match part.open() {
            Some((below, _)) => is_foreign_at(&below, depth + 1),
            None => true,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let place = std::env::temp_dir();
        let place = place.join(format!("twinfs-exclusion-{}-{name}", std::process::id()));
        std::fs::write(&place, vec![0; 64 << 10]).unwrap();
        place
    }

    fn opened(path: &Path) -> OwnedFd {
        open_file(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    #[test]
    fn bytes_are_locked_by_one_and_other_bytes_by_another() {
        let place = scratch("ranges");
        let (one, other) = (opened(&place), opened(&place));
        lock_range(&one, (0, 4096), false).unwrap();
        assert_eq!(lock_range(&other, (4095, 10), false), Err(Errno::AGAIN));
        assert_eq!(lock_range(&other, (0, 0), true), Err(Errno::AGAIN), "all of it");
        lock_range(&other, (4096, 0), false).unwrap();
        drop(one);
        lock_range(&other, (0, 0), false).unwrap();
        std::fs::remove_file(&place).unwrap();
    }

    #[test]
    fn readers_share_and_exclude_a_writer() {
        let place = scratch("readers");
        let all = [opened(&place), opened(&place), opened(&place)];
        lock_range(&all[0], (0, 0), true).unwrap();
        lock_range(&all[1], (0, 0), true).unwrap();
        assert_eq!(lock_range(&all[2], (0, 0), false), Err(Errno::AGAIN));
        let file = Identity::of(&fstat(&all[2]).unwrap());
        assert!(is_locked(file, false) && !is_locked(file, true));
        std::fs::remove_file(&place).unwrap();
    }

    #[test]
    fn the_kernel_s_numbers_of_devices_are_taken_apart() {
        let mut info = LoopInfo { device: 0x10_3456, inode: 7, ..LoopInfo::default() };
        assert_eq!(info.backing(), Identity { device: (0x34, 0x156), ino: 7 });
        info.device = u64::from(259_u32 << 8 | 5);
        assert_eq!(info.backing().device, (259, 5));
    }

    #[test]
    fn what_another_user_may_write_is_foreign() {
        use std::os::unix::fs::PermissionsExt;
        let place = scratch("foreign");
        let mode = |mode| {
            std::fs::set_permissions(&place, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o600);
        assert_eq!(is_foreign(&place), !rustix::process::geteuid().is_root());
        for open in [0o620, 0o602, 0o666] {
            mode(open);
            assert!(is_foreign(&place), "{open:o}");
        }
        std::fs::remove_file(&place).unwrap();
        assert!(is_foreign(&place), "what cannot be looked at");
    }
}
