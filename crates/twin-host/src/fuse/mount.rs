//! Mounting: with mount(2) as the superuser, with fusermount3 as an ordinary user.

use std::fmt;
use std::fs;
use std::io;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, fcntl_setfl};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::mount::MountFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

use super::deputy::Deputy;
use super::errand::{Errand, Place};
use super::mountinfo::{MOUNT_TYPE, mounted_at};
use super::server::{Server, find_server, resolve};
use super::unmounter::{HELPER, Unmounter};

/// The type of our mounts, after `fuse.`.
const SUBTYPE: &str = "twinfs";
/// How long the drop of a mount waits for its unmounting.
const DROP_PATIENCE: Duration = Duration::from_secs(2);

/// The options of a mount, as the kernel and fusermount3 know them.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The text to show as the mounted device: the path of the image.
    pub source: String,
    /// Allow other users access. An ordinary user needs `user_allow_other` in /etc/fuse.conf.
    pub allow_other: bool,
    /// Let the kernel check permission bits.
    pub kernel_checks: bool,
    /// Whether the kernel refuses all changes.
    pub read_only: bool,
    /// Say that reading sets no access times (`noatime`), as is true of all that keeps them itself.
    pub no_access_times: bool,
    /// Set-id bits mean nothing. Mounts of ordinary users are so in any case.
    pub no_suid: bool,
    /// Device nodes mean nothing. Mounts of ordinary users are so in any case.
    pub no_dev: bool,
    /// Whether the kernel refuses to execute programs.
    pub no_exec: bool,
    /// The limit on dirty bytes in the kernel's page cache. Only the superuser may change the
    /// default of the kernel.
    pub collected_bytes: u64,
    /// The largest read-ahead of the kernel, in bytes. Only the superuser may exceed the kernel's
    /// 128 KiB.
    pub read_ahead: u32,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            source: SUBTYPE.into(),
            allow_other: rustix::process::geteuid().is_root(),
            kernel_checks: true,
            read_only: false,
            no_access_times: false,
            no_suid: false,
            no_dev: false,
            no_exec: false,
            read_ahead: 1 << 20,
            collected_bytes: 64 << 20,
        }
    }
}

/// Why a mount failed.
#[derive(Debug)]
pub enum MountError {
    /// `/dev/fuse` could not be opened.
    NoFuse(io::Error),
    /// The directory cannot be used.
    Place {
        /// The directory to mount at.
        dir: PathBuf,
        /// The error of the host.
        error: io::Error,
    },
    /// The kernel or fusermount3 refused.
    Refused {
        /// The directory to mount at.
        dir: PathBuf,
        /// The message of the kernel or of fusermount3.
        why: String,
    },
    /// There is no fusermount3, which an ordinary user needs.
    NoHelper(io::Error),
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MountError::NoFuse(error) => {
                write!(f, "/dev/fuse: {error}: load the kernel's fuse module, or allow the device")
            }
            MountError::Place { dir, error } => {
                write!(f, "{}: {error}: mount at an existing directory", dir.display())
            }
            MountError::Refused { dir, why } => {
                write!(f, "cannot mount at {}: {why}", dir.display())
            }
            MountError::NoHelper(error) => {
                write!(f, "{HELPER}: {error}: install fuse3, or mount as root")
            }
        }
    }
}

impl std::error::Error for MountError {}

/// A mounted file system whose requests can be read. If it is dropped while still mounted, it is
/// detached from the tree.
pub struct Mount {
    pub(super) dir: PathBuf,
    fd: Rc<OwnedFd>,
    by_helper: bool,
    read_only: bool,
    deputy: Deputy,
    pub(super) gone: bool,
}

impl Mount {
    /// Mounts at a directory. Requests wait until a [`Session`](super::Session) answers them. What has
    /// to be done in the mount itself the deputy does.
    ///
    /// # Errors
    /// If the place is not a directory, or if the kernel or fusermount3 refuses.
    pub fn new(dir: &Path, options: &MountOptions, deputy: Deputy) -> Result<Mount, MountError> {
        make_way(dir)?;
        let place = |error| MountError::Place { dir: dir.into(), error };
        let dir = fs::canonicalize(dir).map_err(place)?;
        let meta = fs::metadata(&dir).map_err(place)?;
        if !meta.is_dir() {
            return Err(place(io::Error::from(io::ErrorKind::NotADirectory)));
        }
        let by_helper = !rustix::process::geteuid().is_root();
        let fd = if by_helper { ask_helper(&dir, options)? } else { mount_here(&dir, options)? };
        let (fd, read_only) = (Rc::new(fd), options.read_only);
        let mount = Mount { dir, fd, by_helper, read_only, deputy, gone: false };
        if !by_helper {
            mount.widen(options.read_ahead, options.collected_bytes);
        }
        Ok(mount)
    }

    /// The descriptor to read requests from.
    pub fn fd(&self) -> Rc<OwnedFd> {
        Rc::clone(&self.fd)
    }

    /// The directory at which it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The process that calls into the mount for the daemon.
    pub(super) fn deputy(&self) -> &Deputy {
        &self.deputy
    }

    /// True if nothing can be written there, and so the kernel collects nothing.
    pub(super) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Where the mount is, for its deputy, and the most bytes of writes that the kernel collects there.
    pub(super) fn place(&self, own_file: &str) -> Option<(Place, u64)> {
        let device = mounted_at(&self.dir).ok()??.device;
        let limits = limits_of(&device);
        let read = |what: &str| fs::read_to_string(limits.join(what)).ok()?.trim().parse().ok();
        // Without a strict limit, the mount may use the limit that all file systems share.
        let strict = read("strict_limit") == Some(1u64);
        let collected_bytes = read("max_bytes").filter(|_| strict).unwrap_or(u64::MAX);
        let (dir, own_file) = (self.dir.clone(), own_file.into());
        Some((Place { dir, device, own_file, by_helper: self.by_helper }, collected_bytes))
    }

    /// Sets the limits of the kernel for this mount: read-ahead, and dirty bytes in the page cache.
    /// Above half of the latter the kernel begins to write, so that a large file is on its way to
    /// the device while it is still being written; at the limit, writers wait. Failures are
    /// ignored, because only speed depends on it.
    fn widen(&self, read_ahead: u32, collected_bytes: u64) {
        let Ok(Some(mounted)) = mounted_at(&self.dir) else { return };
        let limits = limits_of(&mounted.device);
        let _ = fs::write(limits.join("read_ahead_kb"), (read_ahead >> 10).to_string());
        let set = |what: &str, value: u64| fs::write(limits.join(what), value.to_string());
        if set("max_bytes", collected_bytes).and_then(|()| set("strict_limit", 1)).is_err() {
            // For kernels before 6.2: no limit is better than their one percent.
            let _ = set("strict_limit", 0);
            let _ = set("max_ratio", 100);
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !self.gone {
            // The deputy may not know the mount yet. We wait for it only for a limited time,
            // because the kernel may first send us writes that this thread does not answer.
            if let Some((place, _)) = self.place("") {
                let _ = self.deputy.ask_and_wait(&Errand::Know(place), DROP_PATIENCE);
                let _ = self.deputy.ask_and_wait(&Errand::Detach, DROP_PATIENCE);
            }
        }
    }
}

/// The directory with the kernel's limits for a mount, by its device number.
fn limits_of(device: &str) -> PathBuf {
    PathBuf::from("/sys/class/bdi").join(device)
}

/// Removes the mount of a daemon that was killed, on which every call fails. Refuses to cover the
/// mount of a living daemon.
fn make_way(dir: &Path) -> Result<(), MountError> {
    let Ok(place) = resolve(dir) else { return Ok(()) };
    match find_server(&place) {
        Ok(Server::Dead) => {
            let by_helper = !rustix::process::geteuid().is_root();
            let _ = Unmounter { dir: place, by_helper }.detach();
            Ok(())
        }
        Ok(Server::Alive(_) | Server::Unseen) => {
            let why = "a twinfs is mounted there already: unmount it first".into();
            Err(MountError::Refused { dir: place, why })
        }
        _ => Ok(()),
    }
}

fn flags_of(options: &MountOptions) -> Vec<String> {
    let mut flags = vec![format!("max_read={}", 1 << 20)];
    if options.kernel_checks {
        flags.push("default_permissions".into());
    }
    if options.allow_other {
        flags.push("allow_other".into());
    }
    flags
}

fn mount_here(dir: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = rustix::fs::open("/dev/fuse", flags, Mode::empty())
        .map_err(|errno| MountError::NoFuse(errno.into()))?;
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let mut data = vec![
        format!("fd={}", fd.as_raw_fd()),
        "rootmode=40000".into(),
        format!("user_id={},group_id={}", uid.as_raw(), gid.as_raw()),
    ];
    data.extend(flags_of(options));
    let data = std::ffi::CString::new(data.join(",")).unwrap_or_default();
    let given = [
        (options.read_only, MountFlags::RDONLY),
        (options.no_access_times, MountFlags::NOATIME),
        (options.no_suid, MountFlags::NOSUID),
        (options.no_dev, MountFlags::NODEV),
        (options.no_exec, MountFlags::NOEXEC),
    ];
    let given = given.into_iter().filter(|(given, _)| *given);
    let flags = given.fold(MountFlags::empty(), |all, (_, flag)| all | flag);
    rustix::mount::mount(options.source.as_str(), dir, MOUNT_TYPE, flags, Some(data.as_c_str()))
        .map_err(|errno| MountError::Refused {
            dir: dir.into(),
            why: io::Error::from(errno).to_string(),
        })?;
    Ok(fd)
}

/// Asks fusermount3 to mount. It returns the descriptor of `/dev/fuse` over a socket.
fn ask_helper(dir: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let refused = |why: String| MountError::Refused { dir: dir.into(), why };
    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None);
    let (ours, theirs) = pair.map_err(|errno| refused(io::Error::from(errno).to_string()))?;
    let _ = fcntl_setfd(&ours, FdFlags::CLOEXEC);
    let mut flags = flags_of(options);
    flags.push(format!("fsname={}", options.source.replace('\\', "\\\\").replace(',', "\\,")));
    flags.push(format!("subtype={SUBTYPE}"));
    if options.read_only {
        flags.push("ro".into());
    }
    if options.no_access_times {
        flags.push("noatime".into());
    }
    if options.no_exec {
        flags.push("noexec".into());
    }
    let child = Command::new(HELPER)
        .arg("-o")
        .arg(flags.join(","))
        .arg("--")
        .arg(dir)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(MountError::NoHelper)?;
    // Closes our copy of the helper's end, so that the socket reports its end if the helper fails.
    drop(theirs);
    let fd = receive_fd(&ours);
    let output = child.wait_with_output().map_err(MountError::NoHelper)?;
    match fd {
        Ok(Some(fd)) => {
            let flags = fcntl_setfd(&fd, FdFlags::CLOEXEC)
                .and_then(|()| fcntl_setfl(&fd, OFlags::RDWR | OFlags::NONBLOCK));
            flags.map_err(|errno| refused(io::Error::from(errno).to_string()))?;
            Ok(fd)
        }
        _ => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
            Err(refused(if said.is_empty() { format!("{HELPER} failed") } else { said }))
        }
    }
}

fn receive_fd(socket: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0u8; 1];
    let mut pieces = [IoSliceMut::new(&mut byte)];
    recvmsg(socket.as_fd(), &mut pieces, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    Ok(ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    }))
}
