//! What a client knows of an inode: its handle, its attributes and since when, its data.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_fs::{Attr, Cred, FsError, Ino, Name, Result, SetAttr, Timestamp};
use twin_rt::{RwLock, Time};

use super::Inner;
use super::pages::Pages;
use super::rpc::{Results, garbled};
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
    /// One task at a time writes the file's data to the server.
    pub(super) flushing: RwLock,
    pub(super) pages: RefCell<Pages>,
    /// Where it was renamed to when it was removed while it was open.
    pub(super) silly: RefCell<Option<(Ino, Name)>>,
    /// The attributes of a file whose last name this client has removed, for those that still refer
    /// to it: the server knows it no more.
    gone: RefCell<Option<Attr>>,
    /// Calls of this client are under way that take its last name.
    leaving: Cell<u32>,
    /// A loss that no process has been told of.
    pub(super) error: RefCell<Option<FsError>>,
    /// Whose data is written behind.
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
            gone: RefCell::default(),
            leaving: Cell::new(0),
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

    /// The same with the attributes around a change that the client itself made.
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

    /// The file has lost its last name, by this client.
    fn go(&self) {
        let last = self.attr.borrow().clone();
        *self.gone.borrow_mut() = last.map(|attr| Attr { nlink: 0, ..attr });
    }

    /// True if the server does not know the file because this client has removed it. The answer to that
    /// may still be under way.
    pub(super) fn is_lost(&self, results: &Results) -> bool {
        let stale = results.status == crate::Status::Stale as u32;
        if stale && self.leaving.get() > 0 && self.gone.borrow().is_none() {
            self.go();
        }
        stale && self.gone.borrow().is_some()
    }

    /// The server has the file. A reply that was under way when the file went has no news.
    pub(super) fn found(&self, attr: &Attr) {
        let news = |known: &Attr| attr.ctime > known.ctime;
        if self.attr.borrow().as_ref().is_none_or(news) {
            *self.gone.borrow_mut() = None;
        }
    }

    /// The attributes of a file that this client has removed.
    pub(super) fn gone(&self) -> Option<Attr> {
        self.gone.borrow().clone()
    }

    /// Changes the attributes of a file that this client has removed, as a local file system would.
    /// A kernel above does so: it writes back the times of files that it remembers. `None` if the file
    /// is there.
    ///
    /// # Errors
    /// [`twin_fs::perm::set_attr`].
    pub(super) fn set_gone(&self, cred: &Cred, set: &SetAttr, now: Time) -> Option<Result<Attr>> {
        let attr = self.gone()?;
        let changed = twin_fs::perm::set_attr(&attr, cred, set, now.into());
        if let Ok(changed) = &changed {
            *self.gone.borrow_mut() = Some(changed.clone());
        }
        Some(changed)
    }

    /// The loss that no process has been told of, which is told now.
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

    /// The inode with this number and handle. A new handle means a new inode.
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

    /// Drops references. An inode that an operation uses stays, so that there is one node of it.
    pub(super) fn forget(&self, ino: Ino, count: u64) {
        let Some(node) = self.nodes.borrow().get(&ino).cloned() else { return };
        node.refs.set(node.refs.get().saturating_sub(count));
        // Besides the table and this function, operations hold it.
        let used = Rc::strong_count(&node) > 2;
        let idle = node.refs.get() == 0 && node.opens.get() == 0 && !used;
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

    /// Does what takes the last name of a file that is not open. If it succeeds nothing needs the file's
    /// data, and nobody is owed it.
    pub(super) async fn take_last<T>(
        &self,
        node: Option<&Rc<Node>>,
        taking: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Some(node) = node else { return taking.await };
        node.leaving.set(node.leaving.get() + 1);
        let taken = taking.await;
        node.leaving.set(node.leaving.get() - 1);
        if taken.is_ok() {
            node.go();
            self.with_pages(node, |pages| *pages = Pages::default());
            let mut unclean = self.unclean.borrow_mut();
            if unclean.get(&node.ino).is_some_and(|held| Rc::ptr_eq(held, node)) {
                unclean.remove(&node.ino);
            }
        }
        taken
    }

    /// The attributes, from the client's memory if they are believed still.
    pub(super) async fn believed(&self, cred: &Cred, node: &Rc<Node>) -> Result<Attr> {
        if let Some(attr) = node.gone() {
            return Ok(attr);
        }
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
        if node.is_lost(&results)
            && let Some(attr) = node.gone()
        {
            return Ok(attr);
        }
        let mut r = results.ok()?;
        let attr = attrs::read_attributes(&mut r).map_err(garbled)?;
        node.found(&attr);
        self.learn(node, &attr);
        Ok(node.attr().unwrap_or(attr))
    }
}
