//! How a mount serves its clients.

use std::rc::Rc;

use twin_rt::{Nanos, SECS};

/// How the front end and the kernel divide the work.
#[derive(Clone)]
pub struct SessionOptions {
    /// How long the kernel may trust a name, in nanoseconds. It may be long if only this mount
    /// changes the volume.
    pub entry_timeout_ns: Nanos,
    /// How long the kernel may trust attributes, in nanoseconds. A session in which the kernel
    /// collects writes tells it when they are out of date; they must not expire by themselves
    /// there.
    pub attr_timeout_ns: Nanos,
    /// How long the kernel may trust that a name does not exist, in nanoseconds. Zero turns this
    /// off.
    pub negative_timeout_ns: Nanos,
    /// Let the kernel collect writes in its page cache until a file is closed or fsynced, or for
    /// some seconds, and keep times and sizes meanwhile. The error of a full volume is then
    /// reported at those moments. Use it with [`coarse_time`](crate::HostOptions::coarse_time);
    /// without, small files cost one more request.
    pub writeback_cache: bool,
    /// Execute opens and releases. Otherwise the kernel learns once that opens need no request,
    /// which saves up to three requests for each file; then only references keep inodes alive.
    pub count_opens: bool,
    /// Serve extended attributes. Otherwise the kernel learns once that there are none, which saves
    /// a request at the first write to each file.
    pub xattrs: bool,
    /// Serve ACLs, where there are extended attributes and the kernel checks permissions: it reads the
    /// ACLs and keeps them like attributes. New inodes then come with the umask of their maker, because
    /// a default ACL may take its place.
    pub acls: bool,
    /// Only this mount changes the volume, so that the kernel may keep cached data between opens
    /// without looking for changes.
    pub exclusive: bool,
    /// What is served is a [`Following`](twin_fs::Following): names and directories change by themselves, and nothing is kept of
    /// them; all else stays what it is. Programs are shown the numbers that inodes have on the volume.
    pub follows: bool,
    /// The kernel checks permission bits (mount option `default_permissions`). If it does not,
    /// opens are executed whatever [`count_opens`](Self::count_opens) says: the core checks there.
    pub kernel_checks: bool,
    /// The largest write and read, in bytes: a multiple of 4,096, at most 1 MiB.
    pub max_write: u32,
    /// The most requests of the kernel's own under way at once: read-ahead and write-back.
    pub max_background: u16,
    /// Writes out what was recorded of this mount, and returns true if the recording has ended before
    /// its time. `None` if nothing is recorded.
    pub recording_ended: Option<Rc<dyn Fn() -> bool>>,
    /// Called with a line about damage, a malformed packet, or another event that belongs in a log.
    pub report: Rc<dyn Fn(&str)>,
}

/// A time that never expires in practice: fifty years.
const FOR_EVER: Nanos = 50 * 365 * 86_400 * SECS;

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            entry_timeout_ns: 86_400 * SECS,
            attr_timeout_ns: FOR_EVER,
            negative_timeout_ns: 86_400 * SECS,
            writeback_cache: false,
            count_opens: false,
            xattrs: true,
            acls: false,
            exclusive: true,
            follows: false,
            kernel_checks: true,
            max_write: 1 << 20,
            max_background: 64,
            recording_ended: None,
            report: Rc::new(|line| crate::note!("{line}")),
        }
    }
}

impl SessionOptions {
    /// Options for a file system that others change too, for example a mirrored directory. The
    /// kernel asks again after a second, and at every open.
    pub fn shared() -> SessionOptions {
        SessionOptions {
            entry_timeout_ns: SECS,
            attr_timeout_ns: SECS,
            negative_timeout_ns: 0,
            count_opens: true,
            exclusive: false,
            ..SessionOptions::default()
        }
    }
}

impl SessionOptions {
    /// Options for a [`Following`](twin_fs::Following). Opens hold its states.
    #[must_use]
    pub fn following(self) -> SessionOptions {
        SessionOptions {
            entry_timeout_ns: 0,
            negative_timeout_ns: 0,
            writeback_cache: false,
            count_opens: true,
            exclusive: true,
            follows: true,
            ..self
        }
    }

    /// True if ACLs are served.
    pub(super) fn serves_acls(&self) -> bool {
        self.acls && self.xattrs && self.kernel_checks
    }

    /// True if opens are requests.
    pub(super) fn executes_opens(&self) -> bool {
        self.count_opens || !self.kernel_checks
    }
}

/// The features that were agreed with the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreed {
    /// INIT has been answered.
    pub(super) started: bool,
    /// The kernel leaves the clearing of set-id bits to us and says when it is due.
    pub(super) kill_privileges: bool,
    /// Opens need no request.
    pub(super) no_open: bool,
    pub(super) no_opendir: bool,
    /// The kernel collects writes, and keeps times and sizes of files meanwhile.
    pub(super) writeback: bool,
    /// A program that waits until a page of a file is written waits until the write is answered.
    pub(super) tells_written: bool,
    /// The mode of a new inode goes to the core with the umask beside it.
    pub(super) passes_umask: bool,
    /// A request for attributes by a file handle means that the client is about to write.
    pub(super) gated: bool,
}
