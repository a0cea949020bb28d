//! The inodes that the kernel knows, and the descriptors that hold them.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{AtFlags, Statx, StatxFlags, statx};
use rustix::io::Errno;
use twin_fs::{Attr, Entry, Ino, ROOT_INO, Timestamp};
use twin_rt::FixedMap;

/// How many inodes that nobody has open may keep descriptors for data.
const IDLE_FILES: usize = 256;
/// Inodes that do not get their host's number have one from here on.
const OWN_NUMBERS: Ino = 1 << 62;

/// Which inode of the host: device and number.
type Key = (u64, u64);

/// An inode.
struct Node {
    key: Key,
    /// Holds it; cannot read or write.
    path: Rc<OwnedFd>,
    is_dir: bool,
    refs: u64,
    opens: u32,
    files: Files,
}

/// Descriptors for data, opened when they are needed.
#[derive(Default, Clone)]
pub(super) struct Files {
    pub(super) read: Option<Rc<OwnedFd>>,
    pub(super) write: Option<Rc<OwnedFd>>,
    pub(super) dir: Option<Rc<OwnedFd>>,
    /// Where `dir` stands.
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
    most_fds: usize,
}

impl Nodes {
    pub(super) fn new(root: OwnedFd, most_fds: usize) -> Result<Nodes, Errno> {
        let stat = stat_of(&root)?;
        let key = key_of(&stat);
        let mut nodes = Nodes {
            by_ino: FixedMap::default(),
            by_key: FixedMap::default(),
            root_device: key.0,
            root_number: key.1,
            next_own: OWN_NUMBERS,
            idle: VecDeque::new(),
            most_fds,
        };
        let path = Rc::new(root);
        let root = Node { key, path, is_dir: true, refs: 1, opens: 0, files: Files::default() };
        nodes.by_ino.insert(ROOT_INO, root);
        nodes.by_key.insert(key, ROOT_INO);
        Ok(nodes)
    }

    fn node(&self, ino: Ino) -> Result<&Node, Errno> {
        self.by_ino.get(&ino).ok_or(Errno::STALE)
    }

    pub(super) fn path_fd(&self, ino: Ino) -> Result<Rc<OwnedFd>, Errno> {
        self.node(ino).map(|node| Rc::clone(&node.path))
    }

    pub(super) fn is_dir(&self, ino: Ino) -> Result<bool, Errno> {
        self.node(ino).map(|node| node.is_dir)
    }

    /// True while there is room to hold more inodes than we must.
    pub(super) fn has_room(&self) -> bool {
        self.by_ino.len() < self.most_fds / 4 * 3
    }

    /// Our number of an inode that an entry of `dir` names, whether we hold it or not.
    pub(super) fn number_in(&self, dir: Ino, number: u64) -> Ino {
        let device = self.by_ino.get(&dir).map_or(self.root_device, |node| node.key.0);
        self.number_of(device, number).max(1)
    }

    fn number_of(&self, device: u64, number: u64) -> Ino {
        if let Some(&ino) = self.by_key.get(&(device, number)) {
            return ino;
        }
        // The root has a number that another inode may have on the host; give that one the root's.
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

    /// Adds a reference to the inode that `fd` holds, and gives its entry.
    pub(super) fn enter(&mut self, fd: OwnedFd) -> Result<Entry, Errno> {
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
        let fresh =
            || Node { key, path: Rc::new(fd), is_dir, refs: 0, opens: 0, files: Files::default() };
        self.by_ino.entry(ino).or_insert_with(fresh).refs += 1;
        Ok(Entry { attr, generation: 0 })
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

    fn drop_unused(&mut self, ino: Ino) {
        let unused = self.by_ino.get(&ino).filter(|node| node.refs == 0 && node.opens == 0);
        if let Some(key) = unused.map(|node| node.key) {
            self.by_key.remove(&key);
            self.by_ino.remove(&ino);
        }
    }

    pub(super) fn attr(&self, ino: Ino) -> Result<Attr, Errno> {
        Ok(attr_of(ino, &stat_of(&self.node(ino)?.path)?))
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

    /// Keeps data descriptors of an inode: until its last release, or, if it is not open, until
    /// enough others have come after it.
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
    }
}
