//! A client's state of an inode: its handle, its attributes with their time, its data.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_fs::{Attr, Cred, FsError, Ino, Name, Result, Timestamp};
use twin_rt::{RwLock, Time};

use super::Inner;
use super::pages::Pages;
use super::rpc::garbled;
use crate::attrs::{self, Wcc};
use crate::proc;

/// An inode that a client knows.
pub(super) struct Node {
    pub(super) ino: Ino,
    pub(super) handle: Vec<u8>,
    pub(super) refs: Cell<u64>,
    pub(super) opens: Cell<u32>,
    /// Readers share it; who changes data or length has it alone.
    pub(super) lock: RwLock,
    /// Held while a task writes the file's data to the server, so that only one does.
    pub(super) flushing: RwLock,
    pub(super) pages: RefCell<Pages>,
    /// The name to which the file was renamed when it was removed while it was open.
    pub(super) silly: RefCell<Option<(Ino, Name)>>,
    /// A loss of data that has not been reported to any process yet.
    pub(super) error: RefCell<Option<FsError>>,
    /// The user for whom collected data is written.
    pub(super) writer: RefCell<Cred>,
    /// The end of the last read, for reading ahead.
    pub(super) read_end: Cell<u64>,
    attr: RefCell<Option<Attr>>,
    learned: Cell<Time>,
    /// The file's time and size on the server to which the clean pages belong.
    basis: Cell<Option<(Timestamp, u64)>>,
}

impl Node {
    fn new(ino: Ino, handle: &[u8]) -> Node {
        Node {
            ino,
            handle: handle.to_vec(),
            refs: Cell::new(0),
            opens: Cell::new(0),
            lock: RwLock::new(),
            flushing: RwLock::new(),
            pages: RefCell::default(),
            silly: RefCell::default(),
            error: RefCell::default(),
            writer: RefCell::new(Cred::root()),
            read_end: Cell::new(0),
            attr: RefCell::default(),
            learned: Cell::new(Time(0)),
            basis: Cell::new(None),
        }
    }

    /// The attributes, with the length that the client's own data gives the file.
    pub(super) fn attr(&self) -> Option<Attr> {
        let attr = self.attr.borrow().clone()?;
        let size = attr.size.max(self.pages.borrow().end());
        Some(Attr { size, ..attr })
    }

    /// Takes attributes that the server sent. Returns true if the file was changed by others, so
    /// that the clean pages are out of date.
    fn learn(&self, attr: &Attr, now: Time) -> bool {
        if !self.keep(attr, now) {
            return false;
        }
        let basis = Some((attr.mtime, attr.size));
        self.basis.replace(basis) != basis
    }

    /// Applies the attributes around a change that the client itself made.
    fn learn_own(&self, wcc: &Wcc, now: Time) -> bool {
        let Some(after) = &wcc.after else {
            self.basis.set(None);
            self.doubt();
            return false;
        };
        if !self.keep(after, now) {
            return false;
        }
        // Without the earlier attributes others may have changed it too: the next open finds out.
        let basis = wcc.before.map(|_| (after.mtime, after.size));
        let before = wcc.before.map(|before| (before.mtime, before.size));
        self.basis.replace(basis) != before
    }

    /// Keeps attributes, unless they are older than those that are known: replies overtake.
    fn keep(&self, attr: &Attr, now: Time) -> bool {
        let mut known = self.attr.borrow_mut();
        if known.as_ref().is_some_and(|known| known.ctime > attr.ctime) {
            return false;
        }
        *known = Some(attr.clone());
        self.learned.set(now);
        true
    }

    /// The attributes are not believed any more.
    pub(super) fn doubt(&self) {
        self.learned.set(Time(0));
    }

    /// Forgets the attributes: what the server says next is taken.
    pub(super) fn forget_attr(&self) {
        *self.attr.borrow_mut() = None;
    }

    /// Reports the loss of data that has not been reported yet, once.
    pub(super) fn take_error(&self) -> Result<()> {
        self.error.borrow_mut().take().map_or(Ok(()), Err)
    }
}

impl Inner {
    /// An inode that a process names.
    pub(super) fn node(&self, ino: Ino) -> Result<Rc<Node>> {
        if let Some(node) = self.nodes.borrow().get(&ino) {
            return Ok(Rc::clone(node));
        }
        let handle = self.handles.borrow().get(&ino).cloned().ok_or(FsError::Stale)?;
        Ok(self.adopt(ino, &handle))
    }

    /// The inode with this number and handle. A new handle means a new inode: the server has used the
    /// number again. Those who refer to the old one and drop that later know the number alone.
    pub(super) fn adopt(&self, ino: Ino, handle: &[u8]) -> Rc<Node> {
        let mut nodes = self.nodes.borrow_mut();
        if let Some(node) = nodes.get(&ino)
            && node.handle == handle
        {
            return Rc::clone(node);
        }
        let node = Rc::new(Node::new(ino, handle));
        let before = nodes.insert(ino, Rc::clone(&node));
        drop(nodes);
        if let Some(before) = before {
            node.refs.set(before.refs.get());
            self.with_pages(&before, |pages| *pages = Pages::default());
            self.unclean.borrow_mut().remove(&ino);
        }
        self.handles.borrow_mut().insert(ino, handle.to_vec());
        node
    }

    /// Changes the pages of a file, and counts them.
    pub(super) fn with_pages<T>(&self, node: &Node, change: impl FnOnce(&mut Pages) -> T) -> T {
        let mut pages = node.pages.borrow_mut();
        let before = pages.all.len() as u64;
        let result = change(&mut pages);
        self.pages.set(self.pages.get() + pages.all.len() as u64 - before);
        result
    }

    /// Drops `count` references of the client's user to `ino`.
    pub(super) fn forget(&self, ino: Ino, count: u64) {
        let Some(node) = self.nodes.borrow().get(&ino).cloned() else { return };
        node.refs.set(node.refs.get().saturating_sub(count));
        let idle = node.refs.get() == 0 && node.opens.get() == 0;
        if idle && node.pages.borrow().all.is_empty() && !self.unclean.borrow().contains_key(&ino) {
            self.nodes.borrow_mut().remove(&ino);
        }
    }

    /// Takes attributes that the server sent.
    pub(super) fn learn(&self, node: &Node, attr: &Attr) {
        if node.learn(attr, self.rt.now()) {
            self.with_pages(node, Pages::drop_clean);
        }
    }

    /// Takes the attributes around a change that the client itself made.
    pub(super) fn learn_own(&self, node: &Node, wcc: &Wcc) {
        if node.learn_own(wcc, self.rt.now()) {
            self.with_pages(node, Pages::drop_clean);
        }
    }

    /// The attributes, from the client's memory if they are believed still.
    pub(super) async fn believed(&self, cred: &Cred, node: &Rc<Node>) -> Result<Attr> {
        let now = self.rt.now();
        let (least, most) = self.settings.attributes_ns;
        if let Some(attr) = node.attr()
            && node.learned.get() > Time(0)
        {
            let changed = Time(attr.mtime.secs.max(0) as u64 * twin_rt::SECS);
            let belief = (now.since(changed.min(now)) / 10).clamp(least.min(most), most);
            if now.since(node.learned.get()) < belief {
                return Ok(attr);
            }
        }
        self.ask(cred, node).await
    }

    /// The attributes that the server has now.
    pub(super) async fn ask(&self, cred: &Cred, node: &Rc<Node>) -> Result<Attr> {
        let results = self.call(cred, proc::GETATTR, |w| w.opaque(&node.handle)).await?;
        let mut r = results.ok()?;
        let attr = attrs::read_attributes(&mut r).map_err(garbled)?;
        self.learn(node, &attr);
        Ok(node.attr().unwrap_or(attr))
    }
}
