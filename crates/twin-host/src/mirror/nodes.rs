//! The inodes that the kernel knows, and the descriptors that hold them.
//!
//! The kernel may know more inodes than a process may have descriptors. The oldest inodes that are
//! not open are then held by handles, if the host allows it. A removed inode cannot be opened by
//! its handle, so it gets a descriptor before its name is removed.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxFlags, openat, statx};
use rustix::io::Errno;
use twin_fs::acl::AccessAcl;
use twin_fs::{Attr, Ino, LookupEntry, ROOT_INO, Timestamp};
use twin_rt::FixedMap;

use super::handle::Handle;

/// The number of inodes without opens that may keep data descriptors.
const IDLE_FILES: usize = 256;
/// The number of forgotten inodes without a name that keep a descriptor.
const DEPARTED: usize = 8;
/// Inodes that cannot have their host's number get numbers from here on.
const OWN_NUMBERS: Ino = 1 << 62;

/// The identity of an inode on the host: device and number.
type Key = (u64, u64);

/// An inode of the mirrored directory that the kernel knows.
struct Node {
    key: Key,
    hold: Hold,
    /// True if it must not be held by a handle, because it has lost its name, or may lose it.
    pinned: bool,
    is_dir: bool,
    refs: u64,
    opens: u32,
    files: Files,
}

/// The reason for which an inode is kept.
enum Hold {
    /// A descriptor that cannot read or write.
    Path(Rc<OwnedFd>),
    /// Only a handle. The inode can be opened again while it has a name.
    Handle(Handle),
}

impl Node {
    fn new(key: Key, path: OwnedFd, is_dir: bool) -> Node {
        let (hold, files) = (Hold::Path(Rc::new(path)), Files::default());
        Node { key, hold, pinned: false, is_dir, refs: 0, opens: 0, files }
    }
}

/// Descriptors for data, opened on demand.
#[derive(Default, Clone)]
pub(super) struct Files {
    pub(super) read: Option<Rc<OwnedFd>>,
    pub(super) write: Option<Rc<OwnedFd>>,
    pub(super) dir: Option<Rc<OwnedFd>>,
    /// The position of `dir`.
    pub(super) dir_at: u64,
}

pub(super) struct Nodes {
    by_ino: FixedMap<Ino, Node>,
    by_key: FixedMap<Key, Ino>,
    root_device: u64,
    root_number: u64,
    next_own: Ino,
    /// Inodes that may have data descriptors without being open, the oldest first.
    idle: VecDeque<Ino>,
    /// A directory of the mirrored file system, to open handles by.
    mount: OwnedFd,
    /// The number of inodes that descriptors hold, and the most that they may hold.
    held: usize,
    most_held: usize,
    /// The inodes that descriptors hold, the oldest first. Some of them may be gone.
    order: VecDeque<Ino>,
    /// True if the host lets us open handles.
    handles_open: bool,
    /// Forgotten inodes that have just lost a name, the oldest first.
    departed: VecDeque<Ino>,
    /// True if inodes without references are still held by their handles, while they have a name.
    keeps_forgotten: bool,
}

impl Nodes {
    pub(super) fn new(root: OwnedFd, most_fds: usize) -> Result<Nodes, Errno> {
        let stat = stat_of(&root)?;
        let key = key_of(&stat);
        let mount = openat(&root, c".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let handles_open = Handle::of(&root).and_then(|handle| handle.open(&mount)).is_ok();
        let mut nodes = Nodes {
            by_ino: FixedMap::default(),
            by_key: FixedMap::default(),
            root_device: key.0,
            root_number: key.1,
            next_own: OWN_NUMBERS,
            idle: VecDeque::new(),
            mount,
            handles_open,
            keeps_forgotten: false,
            departed: VecDeque::new(),
            held: 1,
            // The rest is for data and for other uses in the process.
            most_held: most_fds / 4 * 3,
            order: VecDeque::new(),
        };
        let root = Node { refs: 1, pinned: true, ..Node::new(key, root, true) };
        nodes.by_ino.insert(ROOT_INO, root);
        nodes.by_key.insert(key, ROOT_INO);
        Ok(nodes)
    }

    /// From now on inodes without references stay known, where handles can be opened.
    pub(super) fn keep_forgotten(&mut self) {
        self.keeps_forgotten = self.handles_open;
    }

    fn node(&self, ino: Ino) -> Result<&Node, Errno> {
        self.by_ino.get(&ino).ok_or(Errno::STALE)
    }

    pub(super) fn path_fd(&mut self, ino: Ino) -> Result<Rc<OwnedFd>, Errno> {
        let node = self.by_ino.get_mut(&ino).ok_or(Errno::STALE)?;
        let handle = match &node.hold {
            Hold::Path(path) => return Ok(Rc::clone(path)),
            Hold::Handle(handle) => handle,
        };
        let path = Rc::new(handle.open(&self.mount)?);
        node.hold = Hold::Path(Rc::clone(&path));
        self.note_held(ino);
        Ok(path)
    }

    fn note_held(&mut self, ino: Ino) {
        self.held += 1;
        self.order.push_back(ino);
        if self.held > self.most_held && self.handles_open {
            self.close_unused();
        }
    }

    /// Replaces some descriptors by handles. Only a few at a time, because each new inode calls
    /// this.
    fn close_unused(&mut self) {
        for _ in 0..8 {
            let Some(ino) = self.order.pop_front() else { return };
            let Some(node) = self.by_ino.get_mut(&ino) else { continue };
            let Hold::Path(path) = &node.hold else { continue };
            // An inode without a name cannot be opened by its handle.
            node.pinned |= stat_of(path).is_ok_and(|stat| stat.stx_nlink == 0);
            let foreign = node.key.0 != self.root_device;
            match Handle::of(path) {
                Ok(handle) if !node.pinned && node.opens == 0 && !foreign => {
                    node.hold = Hold::Handle(handle);
                    node.files = Files::default();
                    self.held -= 1;
                }
                _ => self.order.push_back(ino),
            }
        }
    }

    /// Called before a name is removed: gives its inode a descriptor again.
    pub(super) fn hold_victim(&mut self, dir: &OwnedFd, name: &[u8]) {
        if self.held == self.by_ino.len() {
            return;
        }
        let stat = statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
        let Some(&ino) = stat.ok().and_then(|stat| self.by_key.get(&key_of(&stat))) else { return };
        if self.path_fd(ino).is_err() && self.hold_by_name(ino, dir, name).is_err() {
            return;
        }
        let Some(node) = self.by_ino.get_mut(&ino) else { return };
        node.pinned = true;
        if node.refs == 0 && node.opens == 0 && !self.departed.contains(&ino) {
            self.depart(ino);
        }
    }

    /// Opens an inode by a name that it has, for where handles open nothing that the host does not
    /// keep in memory: on a mount without support for exports.
    fn hold_by_name(&mut self, ino: Ino, dir: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(dir, name, flags, Mode::empty())?;
        if let Some(node) = self.by_ino.get_mut(&ino) {
            node.hold = Hold::Path(Rc::new(fd));
            self.note_held(ino);
        }
        Ok(())
    }

    /// Keeps the descriptor of a forgotten inode that loses a name, until a few more have: change
    /// times are set just after the name is gone. Not for longer, because a descriptor keeps space.
    fn depart(&mut self, ino: Ino) {
        self.departed.push_back(ino);
        if self.departed.len() > DEPARTED
            && let Some(oldest) = self.departed.pop_front()
        {
            self.drop_unused(oldest);
        }
    }

    pub(super) fn is_dir(&self, ino: Ino) -> Result<bool, Errno> {
        self.node(ino).map(|node| node.is_dir)
    }

    /// True while there is room to hold more inodes than necessary.
    pub(super) fn has_room(&self) -> bool {
        self.held < self.most_held
    }

    /// The number of an inode that an entry of `dir` names, whether or not it is held.
    pub(super) fn number_in(&self, dir: Ino, number: u64) -> Ino {
        let device = self.by_ino.get(&dir).map_or(self.root_device, |node| node.key.0);
        self.number_of(device, number).max(1)
    }

    fn number_of(&self, device: u64, number: u64) -> Ino {
        if let Some(&ino) = self.by_key.get(&(device, number)) {
            return ino;
        }
        // Another inode on the host may have the number of our root; it gets the number of the
        // host's root instead.
        if number == ROOT_INO { self.root_number } else { number }
    }

    fn new_number(&mut self, key: Key) -> Ino {
        let wanted = self.number_of(key.0, key.1);
        let free = !self.by_ino.contains_key(&wanted);
        if key.0 == self.root_device && wanted != 0 && wanted < OWN_NUMBERS && free {
            return wanted;
        }
        self.next_own += 1;
        self.next_own
    }

    /// Adds a reference to the inode that `fd` holds, and returns its entry.
    pub(super) fn enter(&mut self, fd: OwnedFd) -> Result<LookupEntry, Errno> {
        let stat = stat_of(&fd)?;
        let key = key_of(&stat);
        let ino = match self.by_key.get(&key) {
            Some(&ino) => ino,
            None => {
                let ino = self.new_number(key);
                self.by_key.insert(key, ino);
                ino
            }
        };
        let attr = attr_of(ino, &stat);
        let is_dir = attr.is_dir();
        let newly_held = match self.by_ino.get_mut(&ino) {
            Some(node) => {
                node.refs += 1;
                let by_handle = matches!(node.hold, Hold::Handle(_));
                if by_handle {
                    // Another inode may have got the number of one that was forgotten and removed.
                    (node.hold, node.is_dir) = (Hold::Path(Rc::new(fd)), is_dir);
                }
                by_handle
            }
            None => {
                self.by_ino.insert(ino, Node { refs: 1, ..Node::new(key, fd, is_dir) });
                true
            }
        };
        if newly_held {
            self.note_held(ino);
        }
        Ok(LookupEntry { attr, generation: 0 })
    }

    pub(super) fn forget(&mut self, ino: Ino, count: u64) {
        if ino == ROOT_INO {
            return;
        }
        if let Some(node) = self.by_ino.get_mut(&ino) {
            node.refs = node.refs.saturating_sub(count);
            self.drop_unused(ino);
        }
    }

    /// Replaces the descriptor of an inode without references by its handle. Returns false if it
    /// cannot be kept so.
    fn keep_by_handle(&mut self, ino: Ino) -> bool {
        let Some(node) = self.by_ino.get_mut(&ino) else { return false };
        let path = match &node.hold {
            Hold::Handle(_) => return true,
            Hold::Path(path) => path,
        };
        let has_name = stat_of(path).is_ok_and(|stat| stat.stx_nlink > 0);
        match Handle::of(path) {
            Ok(handle) if has_name && node.key.0 == self.root_device => {
                node.hold = Hold::Handle(handle);
                (node.files, node.pinned) = (Files::default(), false);
                self.held -= 1;
                true
            }
            _ => false,
        }
    }

    fn drop_unused(&mut self, ino: Ino) {
        let unused = self.by_ino.get(&ino).filter(|node| node.refs == 0 && node.opens == 0);
        if let Some(key) = unused.map(|node| node.key) {
            if self.keeps_forgotten && self.keep_by_handle(ino) {
                return;
            }
            self.by_key.remove(&key);
            let node = self.by_ino.remove(&ino);
            if node.is_some_and(|node| matches!(node.hold, Hold::Path(_))) {
                self.held -= 1;
            }
            if self.order.len() > 2 * self.by_ino.len() + 16 {
                self.order.retain(|ino| self.by_ino.contains_key(ino));
            }
        }
    }

    pub(super) fn attr(&mut self, ino: Ino) -> Result<Attr, Errno> {
        Ok(attr_of(ino, &stat_of(&*self.path_fd(ino)?)?))
    }

    pub(super) fn count_open(&mut self, ino: Ino) {
        if let Some(node) = self.by_ino.get_mut(&ino) {
            node.opens += 1;
        }
    }

    pub(super) fn release(&mut self, ino: Ino) {
        let Some(node) = self.by_ino.get_mut(&ino) else { return };
        node.opens = node.opens.saturating_sub(1);
        if node.opens == 0 {
            node.files = Files::default();
            self.drop_unused(ino);
        }
    }

    pub(super) fn files(&self, ino: Ino) -> Result<Files, Errno> {
        self.node(ino).map(|node| node.files.clone())
    }

    /// Keeps data descriptors of an inode until its last release or, if it is not open, until
    /// enough others have been added.
    pub(super) fn keep_files(&mut self, ino: Ino, files: Files) {
        let Some(node) = self.by_ino.get_mut(&ino) else { return };
        let first = node.files.read.is_none() && node.files.write.is_none();
        node.files = files;
        if node.opens > 0 || !first {
            return;
        }
        self.idle.push_back(ino);
        if self.idle.len() > IDLE_FILES
            && let Some(oldest) = self.idle.pop_front()
            && let Some(node) = self.by_ino.get_mut(&oldest)
            && node.opens == 0
        {
            node.files = Files::default();
        }
    }
}

fn stat_of(fd: &OwnedFd) -> Result<Statx, Errno> {
    statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

fn key_of(stat: &Statx) -> Key {
    (libc::makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino)
}

fn attr_of(ino: Ino, stat: &Statx) -> Attr {
    let time = |t: rustix::fs::StatxTimestamp| Timestamp { secs: t.tv_sec, nanos: t.tv_nsec };
    Attr {
        ino,
        mode: u32::from(stat.stx_mode),
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        rdev: libc::makedev(stat.stx_rdev_major, stat.stx_rdev_minor),
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        atime: time(stat.stx_atime),
        mtime: time(stat.stx_mtime),
        ctime: time(stat.stx_ctime),
        btime: time(stat.stx_btime),
        acl: AccessAcl::default(),
    }
}
