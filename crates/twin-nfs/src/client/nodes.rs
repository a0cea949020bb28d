//! A client's state of an inode: its handle, its attributes with their time, its data.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_fs::{Attr, Cred, FsError, Ino, Name, Result, Timestamp};
use twin_rt::{LockGuard, MILLIS, Nanos, RwLock, Time};

use super::Inner;
use super::pages::Pages;
use super::rpc::{Results, garbled};
use crate::attrs::{self, Wcc};
use crate::lease::{Kind, proc as lease_proc};
use crate::proc;
use crate::xdr::Garbage;

/// The pause after a grant that was over when it came.
const AGAIN_NS: Nanos = MILLIS;

/// A lease as its holder knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) number: u64,
    /// The start of the server that granted it.
    pub(super) boot: u64,
    pub(super) kind: Kind,
    /// When the client stops using it, by true time.
    pub(super) until: Time,
    /// The server has said that it is not held, or what is known under it is in doubt.
    pub(super) suspect: bool,
}

/// A grant as it is in a reply.
struct Granted {
    lease: Lease,
    reclaimed: bool,
    attr: Attr,
}

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
    /// The lease under which all this is kept.
    pub(super) lease: Cell<Option<Lease>>,
    /// Held while a task asks for a lease, so that only one does.
    pub(super) asking: RwLock,
    /// Leases that were vacated while the client asked.
    pub(super) gave_up: RefCell<Vec<u64>>,
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
            lease: Cell::new(None),
            asking: RwLock::new(),
            gave_up: RefCell::default(),
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
    pub(super) fn keep(&self, attr: &Attr, now: Time) -> bool {
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

    /// Takes the attributes that came with a lease, whatever was known.
    pub(super) fn set_attr(&self, attr: &Attr, now: Time) {
        *self.attr.borrow_mut() = Some(attr.clone());
        self.learned.set(now);
        self.basis.set(Some((attr.mtime, attr.size)));
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
            self.leased.borrow_mut().remove(&ino);
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
        // A node with a lease stays, so that the lease can be given back when it is claimed.
        if idle
            && node.lease.get().is_none()
            && node.pages.borrow().all.is_empty()
            && !self.unclean.borrow().contains_key(&ino)
        {
            self.nodes.borrow_mut().remove(&ino);
        }
    }

    /// Takes attributes that the server sent.
    pub(super) fn learn(&self, node: &Node, attr: &Attr) {
        if self.has_leases() {
            // Whether data is right depends on the lease.
            node.keep(attr, self.rt.now());
            return;
        }
        if node.learn(attr, self.rt.now()) {
            self.with_pages(node, Pages::drop_clean);
        }
    }

    /// Takes the attributes around a change that the client itself made.
    pub(super) fn learn_own(&self, node: &Node, wcc: &Wcc) {
        if self.has_leases() {
            return self.learn_under_lease(node, wcc);
        }
        if node.learn_own(wcc, self.rt.now()) {
            self.with_pages(node, Pages::drop_clean);
        }
    }

    /// The attributes, from the client's memory if they are believed still.
    pub(super) async fn believed(self: &Rc<Self>, cred: &Cred, node: &Rc<Node>) -> Result<Attr> {
        if self.has_leases() {
            return self.leased_attr(cred, node).await;
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
    pub(super) async fn ask(self: &Rc<Self>, cred: &Cred, node: &Rc<Node>) -> Result<Attr> {
        if self.has_leases() {
            return self.leased_attr(cred, node).await;
        }
        let results = self.call(cred, proc::GETATTR, |w| w.opaque(&node.handle)).await?;
        let mut r = results.ok()?;
        let attr = attrs::read_attributes(&mut r).map_err(garbled)?;
        self.learn(node, &attr);
        Ok(node.attr().unwrap_or(attr))
    }
}

impl Inner {
    /// True if this client uses leases.
    pub(super) fn has_leases(&self) -> bool {
        self.settings.consistency == super::Consistency::Lease
    }

    /// True if a lease is held now that allows this.
    pub(super) fn holds(&self, node: &Node, kind: Kind) -> bool {
        let now = self.rt.now();
        node.lease.get().is_some_and(|l| !l.suspect && l.kind >= kind && now < l.until)
    }

    /// The number of the lease that is held or was held last; 0 if there is none.
    pub(super) fn number(node: &Node) -> u64 {
        node.lease.get().map_or(0, |lease| lease.number)
    }

    /// The lease is in doubt: it is asked for again before the next use.
    pub(super) fn suspect(node: &Node) {
        node.lease.set(node.lease.get().map(|lease| Lease { suspect: true, ..lease }));
    }

    /// A call was refused because its lease is not held.
    pub(super) fn refused(&self, node: &Node, number: u64, boot: u64) {
        self.boot.set(boot);
        if Inner::number(node) == number {
            Inner::suspect(node);
        }
    }

    /// The attributes, under a lease.
    pub(super) async fn leased_attr(self: &Rc<Self>, cred: &Cred, node: &Rc<Node>) -> Result<Attr> {
        loop {
            if self.holds(node, Kind::Read)
                && let Some(attr) = node.attr()
            {
                return Ok(attr);
            }
            self.acquire(cred, node, Kind::Read).await?;
        }
    }

    /// Takes the lock of a file for an operation; with leases, while a lease is held that allows it.
    pub(super) async fn using(
        self: &Rc<Self>,
        cred: &Cred,
        node: &Rc<Node>,
        kind: Kind,
    ) -> Result<LockGuard> {
        loop {
            let guard = match kind {
                Kind::Read => node.lock.read().await,
                Kind::Write => node.lock.write().await,
            };
            if !self.has_leases() || self.holds(node, kind) {
                return Ok(guard);
            }
            drop(guard);
            // Who waits for the lock when the grant comes gets it before who vacates this lease again.
            self.acquire(cred, node, kind).await?;
        }
    }

    /// Asks for a lease until the server grants it. The caller does not hold the lock of the file.
    pub(super) async fn acquire(
        self: &Rc<Self>,
        cred: &Cred,
        node: &Rc<Node>,
        kind: Kind,
    ) -> Result<()> {
        let _one = node.asking.write().await;
        if self.holds(node, kind) {
            return Ok(());
        }
        node.gave_up.borrow_mut().clear();
        let old = node.lease.get();
        // What was not written under a lost lease needs a lease to be written.
        let owes = node.pages.borrow().oldest().is_some();
        let kind = if owes { Kind::Write } else { kind };
        let (boot, now) = (self.boot.get(), self.rt.now());
        // Nobody else can have got a lease that still runs.
        let runs = old.is_some_and(|lease| lease.boot != boot && now < lease.until);
        let reclaim = if runs { boot } else { 0 };
        let results =
            self.rpc.call((lease_proc::LEASE, lease_proc::VERSION, lease_proc::GET), cred, |w| {
                w.u64(self.id.get());
                w.opaque(&node.handle);
                w.flag(kind == Kind::Write);
                w.u64(reclaim);
            });
        let results = results.await?;
        let granted = self.granted(&results)?;
        let lease = granted.lease;
        self.boot.set(lease.boot);
        if node.gave_up.borrow().contains(&lease.number) {
            return Ok(());
        }
        let same = node.lease.get().is_some_and(|old| old.number == lease.number);
        // The lease with which the call began may have been vacated meanwhile.
        let goes_on = same || granted.reclaimed && runs && node.lease.get() == old;
        if !goes_on {
            self.begin_anew(node);
        }
        node.set_attr(&granted.attr, self.rt.now());
        node.lease.set(Some(lease));
        self.leased.borrow_mut().insert(node.ino, Rc::clone(node));
        self.term_ns.set(lease.until.since(self.rt.now().min(lease.until)));
        self.got_lease.notify();
        if self.rt.now() >= lease.until {
            self.rt.sleep(AGAIN_NS).await;
        }
        Ok(())
    }

    fn granted(&self, results: &Results) -> Result<Granted> {
        let mut r = results.ok()?;
        let mut read = || -> Result<Granted, Garbage> {
            let (boot, number) = (r.u64()?, r.u64()?);
            let kind = if r.flag()? { Kind::Write } else { Kind::Read };
            let (left_ns, waited_ns) = (r.u64()?, r.u64()?);
            let reclaimed = r.flag()?;
            let attr = attrs::read_attributes(&mut r)?;
            let until = self.end_of(results.sent, waited_ns.saturating_add(left_ns));
            let lease = Lease { number, boot, kind, until, suspect: false };
            Ok(Granted { lease, reclaimed, attr })
        };
        read().map_err(garbled)
    }

    /// When a span of the server that began after `sent` is over at the earliest, by the client's own clock.
    pub(super) fn end_of(&self, sent: Time, span_ns: Nanos) -> Time {
        let by_own_clock = span_ns as f64 * (1.0 - self.settings.drift);
        sent + (by_own_clock / self.settings.clock) as Nanos
    }

    /// A lease was granted, and others may have had the file since the last one.
    fn begin_anew(&self, node: &Node) {
        if node.pages.borrow().oldest().is_some() {
            self.with_pages(node, Pages::drop_all);
            let what = "data was dropped that had not been written when the lease was lost";
            *node.error.borrow_mut() = Some(FsError::inconsistent(what));
        } else {
            self.with_pages(node, Pages::drop_clean);
        }
    }

    /// Takes the attributes around a change that the client itself made.
    pub(super) fn learn_under_lease(&self, node: &Node, wcc: &Wcc) {
        match &wcc.after {
            Some(after) => {
                node.keep(after, self.rt.now());
            }
            None => Inner::suspect(node),
        }
    }
}
