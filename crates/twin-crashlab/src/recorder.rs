//! A file system whose history is kept.
//!
//! Contract: every request goes to the file system inside, unchanged. One that changed something, or made something
//! durable, becomes an [`Event`]; before a request begins, what was acknowledged meanwhile is read, so that an
//! acknowledgement stands before everything that the one who made it does afterwards. The file system must be empty at
//! first: an inode that the recorder has not seen made is not known to it.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use twin_fs::quota::Quota;
use twin_fs::{
    Data, Fallocate, FileSystem, Ino, LookupEntry, Op, Peeked, ROOT_INO, RenameMode, Reply,
    Request, Result, Room, mode,
};
use twin_rt::FixedMap;

use crate::history::{Event, History, What};
use crate::strict::{TreeDevice, blank};
use crate::tree::{Id, Meta, Name, ROOT, Tree};

/// Deeper paths are cut.
const DEEPEST: usize = 64;

/// Returns the labels that were acknowledged since it was called last.
pub type Acks = Box<dyn Fn() -> Vec<String>>;

/// A file system whose history is kept; see the module.
pub struct Recorded<F> {
    inner: F,
    acks: Acks,
    log: Rc<RefCell<Log>>,
}

struct Log {
    history: History,
    /// The tree after all events.
    now: Tree,
    ids: FixedMap<Ino, Id>,
    next_id: Id,
    /// The name that each inode got last.
    homes: FixedMap<Id, (Id, Name)>,
    /// The device, if the history is that of one.
    device: Option<Tree>,
}

/// The history of a volume's device, for the recorder of its files: see [`Recorded::with_device`].
pub struct DeviceHistory(Rc<RefCell<Log>>);

impl DeviceHistory {
    /// A device of zeros in memory, and its history from now on.
    pub fn begin(size: u64, root: Meta) -> (TreeDevice, DeviceHistory) {
        let log = Rc::new(RefCell::new(Log { device: Some(blank(size)), ..Log::new(root) }));
        let hearer = Rc::clone(&log);
        let device = TreeDevice::blank(
            size,
            Some(Rc::new(move |what| hearer.borrow_mut().device_event(what))),
        );
        (device, DeviceHistory(log))
    }
}

impl<F: FileSystem> Recorded<F> {
    /// Keeps the history of an empty file system with this root.
    pub fn new(inner: F, root: Meta, acks: Acks) -> Recorded<F> {
        Recorded { inner, acks, log: Rc::new(RefCell::new(Log::new(root))) }
    }

    /// The same of a volume on a device whose history is kept: what happens to files stands between what happens to
    /// the device.
    pub fn with_device(inner: F, device: DeviceHistory, acks: Acks) -> Recorded<F> {
        Recorded { inner, acks, log: device.0 }
    }

    /// Says that a program has succeeded.
    pub fn exited(&self) {
        self.hear();
        self.log.borrow_mut().push(What::Exit);
    }

    /// Ends the history and returns it; the next one begins, on what is there now.
    pub fn cut(&self) -> History {
        self.hear();
        let mut log = self.log.borrow_mut();
        let base = log.device.as_ref().unwrap_or(&log.now).clone();
        let next = History { base, events: Vec::new(), promised: None };
        std::mem::replace(&mut log.history, next)
    }

    /// The file system inside.
    pub fn inner(&self) -> &F {
        &self.inner
    }

    fn hear(&self) {
        let labels = (self.acks)();
        if !labels.is_empty() {
            let mut log = self.log.borrow_mut();
            let acks = labels
                .into_iter()
                .map(|label| Event { what: What::Ack { label }, path: String::new() });
            log.history.events.extend(acks);
        }
    }
}

/// Whether an operation leaves something in a history.
fn is_kept(op: &Op) -> bool {
    op.changes_volume() || matches!(op, Op::Fsync { .. } | Op::Sync | Op::Release { .. })
}

impl Log {
    fn new(root: Meta) -> Log {
        let mut ids = FixedMap::default();
        ids.insert(ROOT_INO, ROOT);
        let now = Tree::new(root);
        let history = History { base: now.clone(), events: Vec::new(), promised: None };
        Log { history, now, ids, next_id: ROOT + 1, homes: FixedMap::default(), device: None }
    }

    /// Keeps a write or a flush of the device, which is complete.
    fn device_event(&mut self, what: What) {
        let since = self.history.events.len();
        let what = match what {
            What::Fsync { id, data_only, .. } => What::Fsync { id, data_only, since },
            what => what,
        };
        if let Some(device) = &mut self.device {
            what.effects().iter().for_each(|effect| device.apply(effect));
        }
        self.history.events.push(Event { what, path: "the device".into() });
    }

    fn id(&self, ino: Ino) -> Option<Id> {
        self.ids.get(&ino).copied()
    }

    /// The path of an inode by the name that it got last, which may be gone.
    fn path(&self, mut id: Id) -> String {
        let mut parts = Vec::new();
        while let Some((dir, name)) = self.homes.get(&id).filter(|_| parts.len() < DEEPEST) {
            parts.push(String::from_utf8_lossy(name).into_owned());
            id = *dir;
        }
        parts.reverse();
        if parts.is_empty() { ".".into() } else { parts.join("/") }
    }

    fn path_in(&self, dir: Id, name: &[u8]) -> String {
        let name = String::from_utf8_lossy(name);
        if dir == ROOT { name.into_owned() } else { format!("{}/{name}", self.path(dir)) }
    }

    fn push(&mut self, what: What) {
        what.effects().iter().for_each(|effect| self.now.apply(effect));
        let path = match &what {
            What::Make { dir, name, id, .. } | What::Link { dir, name, id } => {
                self.homes.insert(*id, (*dir, name.clone()));
                self.path_in(*dir, name)
            }
            What::Remove { dir, name, .. } => self.path_in(*dir, name),
            What::Rename { dir, name, to_dir, to_name, id, replaced, exchange } => {
                self.homes.insert(*id, (*to_dir, to_name.clone()));
                if let (Some(other), true) = (replaced, exchange) {
                    self.homes.insert(*other, (*dir, name.clone()));
                }
                self.path_in(*to_dir, to_name)
            }
            what => what.id().map_or(String::new(), |id| self.path(id)),
        };
        self.history.events.push(Event { what, path });
    }

    /// A new inode, if this answer is that of one.
    fn made(&mut self, dir: Ino, name: &[u8], entry: &LookupEntry, target: Option<&[u8]>) {
        let Some(dir) = self.id(dir) else { return };
        if self.now.find(dir, name).is_some() {
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        let attr = &entry.attr;
        self.ids.insert(attr.ino, id);
        let meta = Meta { mode: attr.mode, uid: attr.uid, gid: attr.gid, rdev: attr.rdev };
        let target = target.map(Into::into);
        self.push(What::Make { dir, name: name.into(), id, meta, target });
    }

    fn removed(&mut self, dir: Ino, name: &[u8]) {
        let Some(dir) = self.id(dir) else { return };
        let Some(id) = self.now.find(dir, name) else { return };
        self.push(What::Remove { dir, name: name.into(), id });
    }

    fn renamed(&mut self, op: &Op) {
        let Op::Rename { dir, name, to_dir, to_name, mode: how } = op else { return };
        let (Some(dir), Some(to_dir)) = (self.id(*dir), self.id(*to_dir)) else { return };
        let Some(id) = self.now.find(dir, name) else { return };
        let replaced = self.now.find(to_dir, to_name);
        if replaced == Some(id) && *how != RenameMode::Exchange {
            // Two names of one inode: nothing happens.
            return;
        }
        let (name, to_name, exchange) =
            (name.clone(), to_name.clone(), *how == RenameMode::Exchange);
        self.push(What::Rename { dir, name, to_dir, to_name, id, replaced, exchange });
    }

    fn written(&mut self, ino: Ino, off: u64, data: &Data) {
        let (Some(id), Data::Bytes(bytes)) = (self.id(ino), data) else { return };
        let was = self.now.size(id);
        self.push(What::Write { id, off, bytes: bytes.as_ref().into(), was });
    }

    fn resized(&mut self, ino: Ino, size: u64) {
        let Some(id) = self.id(ino) else { return };
        let was = self.now.size(id);
        self.push(What::Resize { id, size, was });
    }

    fn allocated(&mut self, ino: Ino, off: u64, len: u64, how: Fallocate) {
        let Some(id) = self.id(ino) else { return };
        let was = self.now.size(id);
        let grown = |keeps: bool| if keeps { was } else { was.max(off + len) };
        match how {
            Fallocate::Allocate { keep_size } => {
                let size = grown(keep_size);
                self.push(What::Allocate { id, size, was });
            }
            Fallocate::PunchHole => self.push(What::Zero { id, off, len, size: was }),
            Fallocate::ZeroRange { keep_size } => {
                let size = grown(keep_size);
                self.push(What::Zero { id, off, len, size });
            }
        }
    }

    /// Keeps what an operation did that succeeded.
    fn note(&mut self, op: &Op, reply: &Reply, since: usize) {
        match (op, reply) {
            (
                Op::MakeNode { dir, name, .. } | Op::MakeDir { dir, name, .. },
                Reply::Entry(entry),
            )
            | (Op::Create { dir, name, .. }, Reply::Entry(entry)) => {
                self.made(*dir, name, entry, None)
            }
            (Op::Symlink { dir, name, target }, Reply::Entry(entry)) => {
                self.made(*dir, name, entry, Some(target));
            }
            (Op::Link { ino, dir, name }, _) => {
                if let (Some(id), Some(dir)) = (self.id(*ino), self.id(*dir)) {
                    self.push(What::Link { dir, name: name.clone(), id });
                }
            }
            (Op::Unlink { dir, name } | Op::RemoveDir { dir, name }, _) => self.removed(*dir, name),
            (Op::Rename { .. }, _) => self.renamed(op),
            (Op::Write { ino, off, data } | Op::WriteBack { ino, off, data }, _) => {
                self.written(*ino, *off, data)
            }
            (Op::Append { ino, data, .. }, _) => {
                let end = self.id(*ino).map_or(0, |id| self.now.size(id));
                self.written(*ino, end, data);
            }
            (Op::Open { ino, truncate: true, .. }, _) => self.resized(*ino, 0),
            (Op::SetAttr { ino, set }, _) => {
                if let Some(size) = set.size {
                    self.resized(*ino, size);
                }
                if let (Some(id), true) =
                    (self.id(*ino), set.mode.is_some() || set.uid.is_some() || set.gid.is_some())
                {
                    self.push(What::Attr { id, mode: set.mode, uid: set.uid, gid: set.gid });
                }
            }
            (Op::SetXattr { ino, name, value, .. }, _) => {
                self.xattr(*ino, name, Some(value.clone()))
            }
            (Op::RemoveXattr { ino, name }, _) => self.xattr(*ino, name, None),
            (Op::Fallocate { ino, off, len, mode }, _) => self.allocated(*ino, *off, *len, *mode),
            (Op::Fsync { ino, data_only }, _) => {
                if let Some(id) = self.id(*ino) {
                    self.push(What::Fsync { id, data_only: *data_only, since });
                }
            }
            (Op::Sync, _) => self.push(What::Sync { since }),
            (Op::Release { ino }, _) => {
                if let Some(id) = self.id(*ino).filter(|&id| self.now.is_file(id)) {
                    self.push(What::Close { id });
                }
            }
            _ => {}
        }
    }

    fn xattr(&mut self, ino: Ino, name: &[u8], value: Option<Box<[u8]>>) {
        if let Some(id) = self.id(ino) {
            self.push(What::Xattr { id, name: name.into(), value });
        }
    }
}

impl<F: FileSystem> FileSystem for Recorded<F> {
    fn execute(&self, request: Request) -> impl Future<Output = Result<Reply>> {
        self.hear();
        let op = is_kept(&request.op).then(|| request.op.clone());
        let since = self.log.borrow().history.events.len();
        let (answer, log) = (self.inner.execute(request), Rc::clone(&self.log));
        async move {
            let reply = answer.await?;
            if let Some(op) = op {
                log.borrow_mut().note(&op, &reply, since);
            }
            Ok(reply)
        }
    }

    fn room(&self) -> Option<Room> {
        self.inner.room()
    }

    fn room_of(&self, ino: Ino) -> Option<u64> {
        self.inner.room_of(ino)
    }

    fn quota_of(&self, ino: Ino) -> Option<Quota> {
        self.inner.quota_of(ino)
    }

    fn held(&self) -> Vec<Ino> {
        self.inner.held()
    }

    fn peek(&self, dir: Ino, name: &[u8]) -> Peeked {
        self.inner.peek(dir, name)
    }

    fn known(&self, ino: Ino) -> Option<LookupEntry> {
        self.inner.known(ino)
    }
}

/// The root of an empty volume that belongs to this user.
pub fn root_of(uid: u32, gid: u32) -> Meta {
    Meta { mode: mode::DIRECTORY | 0o755, uid, gid, rdev: 0 }
}
