//! A client of NFS version 3 as a part: a [`FileSystem`] whose operations become calls to a server.
//!
//! Contract: it does what the clients of the field do. Biods read ahead and write; attributes are
//! believed for a time; data is collected and written when it is 30 s old, when a file is closed or
//! synced, or when there is too much of it; opening a file compares its times with the server's, so
//! that what was written before another client closed the file is seen (close-to-open). Written
//! data is kept until a COMMIT with the same verifier, and written again if the verifier differs. A
//! file that is removed, or another is renamed to its name, while it is open, is renamed until it is closed.
//! Calls are repeated until
//! they are answered (hard mount). What a repeated call finds done is taken as done by its
//! first copy: a server that was restarted in between has forgotten that.
//!
//! With `consistency=lease`, an extension of ours, everything is kept under leases of the server instead: others'
//! changes are seen at once, and data need not be written when a file is closed.
//!
//! Not modelled: locks, listings that are kept, and names that are known not to exist.
//!
//! Main types: [`Client`], [`ClientSettings`], [`Carrier`] (the network below it). Start at
//! [`Client::new`].

mod data;
mod direct;
mod leases;
mod names;
mod nodes;
mod pages;
mod rpc;
mod settings;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use twin_fs::{
    Attr, Cred, Data, FileSystem, FsError, Ino, LookupEntry, Op, Reply, Request, Result, SetAttr,
    VolumeStat,
};
use twin_rt::{BoxFuture, Budget, Event, FixedMap, Rt};

use crate::attrs;
use crate::lease::{self, Kind};
use crate::proc;
use crate::status::Status;
use nodes::Node;
use rpc::{Results, Rpc, garbled};

pub use direct::Direct;
pub use rpc::{CallStats, Carrier, Deliver};
pub use settings::{ClientSettings, Consistency, KEYS, Writes};

/// The handles of inodes, by number. Clients may share them, if what drives them knows inodes from
/// other clients' replies.
pub type Handles = Rc<RefCell<FixedMap<Ino, Vec<u8>>>>;

/// A client's machine. Cheap to clone.
#[derive(Clone)]
pub struct Client(Rc<Inner>);

struct Inner {
    rt: Rt,
    settings: ClientSettings,
    rpc: Rc<Rpc>,
    handles: Handles,
    nodes: RefCell<FixedMap<Ino, Rc<Node>>>,
    /// Names that were found: the inode, and the time of the directory's last change then.
    names: RefCell<FixedMap<(Ino, twin_fs::Name), (Ino, twin_fs::Timestamp)>>,
    /// Files with data that is not known to be on the server's disk, or was lost unsaid.
    unclean: RefCell<std::collections::BTreeMap<Ino, Rc<Node>>>,
    /// Files that are open.
    open_files: Cell<u64>,
    biods: Budget,
    /// Uses of pages, oldest first.
    uses: RefCell<VecDeque<(Ino, u64, u64)>>,
    clock: Cell<u64>,
    /// Pages in memory, and of these those that are not clean.
    pages: Cell<u64>,
    /// The task that writes old data is there.
    daemon_runs: Cell<bool>,
    next_silly: Cell<u64>,
    /// The number by which the client calls itself when it asks for leases.
    id: Cell<u64>,
    /// The start of the server of which it knows.
    boot: Cell<u64>,
    /// A lease was granted.
    got_lease: Rc<Event>,
    /// The term of leases.
    term_ns: Cell<twin_rt::Nanos>,
    /// Inodes with leases.
    leased: RefCell<std::collections::BTreeMap<Ino, Rc<Node>>>,
    /// Leases that are being vacated.
    vacating: RefCell<std::collections::BTreeSet<u64>>,
}

impl Client {
    /// A client whose calls go through `carrier`. `root` is the handle of the root directory, which
    /// has the number [`twin_fs::ROOT_INO`]; `xid` the number of its first call.
    pub fn new(
        rt: &Rt,
        settings: ClientSettings,
        carrier: Box<dyn Carrier>,
        handles: Handles,
        root: &[u8],
        xid: u32,
    ) -> Client {
        handles.borrow_mut().insert(twin_fs::ROOT_INO, root.to_vec());
        Client(Rc::new(Inner {
            rt: rt.clone(),
            biods: Budget::new(settings.biods),
            rpc: Rc::new(Rpc::new(rt, carrier, xid, settings.timeout_ns)),
            settings,
            handles,
            nodes: RefCell::default(),
            names: RefCell::default(),
            unclean: RefCell::default(),
            open_files: Cell::new(0),
            uses: RefCell::default(),
            clock: Cell::new(0),
            pages: Cell::new(0),
            daemon_runs: Cell::new(false),
            next_silly: Cell::new(0),
            id: Cell::new(1),
            boot: Cell::new(0),
            got_lease: Rc::default(),
            term_ns: Cell::new(0),
            leased: RefCell::default(),
            vacating: RefCell::default(),
        }))
    }

    /// The same client, which calls itself `id` when it asks for leases, and renews them; without this it has leases until their
    /// term is over. All clients of a server have different
    /// numbers, also one that is started anew.
    #[must_use]
    pub fn called(self, id: u64) -> Client {
        self.0.id.set(id);
        if self.0.has_leases() {
            self.0.rt.spawn("leases", Inner::listen(Rc::downgrade(&self.0)));
        }
        self
    }

    /// Counters of its calls.
    pub fn stats(&self) -> CallStats {
        self.0.rpc.stats()
    }

    /// Writes and commits everything.
    ///
    /// # Errors
    /// The first loss since the last report.
    pub async fn sync(&self) -> Result<()> {
        self.0.sync_all().await
    }

    /// Boxed, because whoever awaits a future has its code made anew, and this is all of the client's.
    fn begin(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        let Request { cred, op, .. } = request;
        // A server judges permissions itself. What a front end has judged already must not fail there.
        let cred = if cred.checked { Cred::root() } else { cred };
        Box::pin(async move { self.0.execute(&cred, op).await })
    }
}

impl FileSystem for Client {
    async fn execute(&self, request: Request) -> Result<Reply> {
        self.begin(request).await
    }
}

impl Inner {
    async fn execute(self: &Rc<Self>, cred: &Cred, op: Op) -> Result<Reply> {
        let done = |()| Reply::Done;
        match op {
            Op::Lookup { dir, name } => self.lookup(cred, dir, &name).await.map(Reply::Entry),
            Op::Forget { ino, count } => {
                self.forget(ino, count);
                Ok(Reply::Done)
            }
            Op::GetAttr { ino } => self.believed(cred, &self.node(ino)?).await.map(Reply::Attr),
            Op::SetAttr { ino, set } => self.set(cred, ino, set).await.map(Reply::Attr),
            Op::ReadLink { ino } => self.read_link(cred, ino).await,
            Op::MakeNode { .. } | Op::MakeDir { .. } | Op::Symlink { .. } | Op::Create { .. } => {
                self.make(cred, op).await.map(Reply::Entry)
            }
            Op::Unlink { dir, name } => self.unlink(cred, dir, &name).await.map(done),
            Op::RemoveDir { dir, name } => {
                self.remove(cred, proc::RMDIR, dir, &name).await.map(done)
            }
            Op::Rename { dir, name, to_dir, to_name, mode } => {
                if mode != twin_fs::RenameMode::Replace {
                    return Err(FsError::NotSupported("NFS has one kind of rename"));
                }
                self.rename(cred, (dir, &name), (to_dir, &to_name)).await.map(done)
            }
            Op::Link { ino, dir, name } => self.link(cred, ino, dir, &name).await.map(Reply::Entry),
            Op::Open { ino, truncate, .. } => self.open(cred, ino, truncate).await.map(done),
            Op::Release { ino } => self.release(cred, ino).await.map(done),
            Op::Read { ino, off, len } => self.read(cred, ino, off, len).await,
            Op::Write { ino, off, data } | Op::WriteBack { ino, off, data } => {
                self.write(cred, ino, Some(off), data).await.map(Reply::Written)
            }
            // The protocol has no appends: the client takes the end that it knows.
            Op::Append { ino, data, .. } => {
                self.write(cred, ino, None, data).await.map(Reply::Written)
            }
            Op::Fsync { ino, .. } => self.fsync(ino).await.map(done),
            Op::ReadDir { dir, cookie, max_bytes, plus } => {
                self.list(cred, dir, cookie, max_bytes, plus).await.map(Reply::Dir)
            }
            Op::StatFs => self.stat_fs(cred).await.map(Reply::Stat),
            Op::Access { ino, mask } => self.access(cred, ino, mask).await.map(done),
            Op::Sync => self.sync_all().await.map(done),
            Op::SetXattr { .. }
            | Op::GetXattr { .. }
            | Op::ListXattr { .. }
            | Op::RemoveXattr { .. } => Err(FsError::NotSupported("NFS 3 has no attributes")),
            Op::Fallocate { .. } | Op::Seek { .. } => {
                Err(FsError::NotSupported("NFS 3 knows nothing of holes"))
            }
        }
    }

    /// Calls a procedure of NFS.
    async fn call(
        &self,
        cred: &Cred,
        procedure: u32,
        args: impl Fn(&mut crate::xdr::Writer),
    ) -> Result<Results> {
        self.call_under(cred, 0, procedure, args).await
    }

    /// Calls a procedure of NFS; with leases, under the lease of this number.
    async fn call_under(
        &self,
        cred: &Cred,
        number: u64,
        procedure: u32,
        args: impl Fn(&mut crate::xdr::Writer),
    ) -> Result<Results> {
        if !self.has_leases() {
            return self.rpc.call((proc::NFS, 3, procedure), cred, args).await;
        }
        let under = (lease::proc::LEASE, lease::proc::VERSION, lease::proc::NFS);
        let id = self.id.get();
        let args = |w: &mut crate::xdr::Writer| {
            w.u64(id);
            w.u64(number);
            w.u32(procedure);
            args(w);
        };
        self.rpc.call(under, cred, args).await
    }

    async fn set(self: &Rc<Self>, cred: &Cred, ino: Ino, set: SetAttr) -> Result<Attr> {
        let node = self.node(ino)?;
        loop {
            let _writing = match set.size {
                Some(_) => Some(self.using(cred, &node, Kind::Write).await?),
                None => None,
            };
            let number = set.size.map_or(0, |_| Inner::number(&node));
            // Writes that are older than the change must not come after it. What the change drops need not be
            // written, if nothing is on its way.
            let drops = self.has_leases() && set.size == Some(0);
            let _flushing = if drops { Some(node.flushing.write().await) } else { None };
            if drops {
                // The lock keeps writes back.
            } else if number > 0 {
                if !self.write_held(&node, number).await {
                    continue;
                }
            } else {
                self.write_all(&node).await?;
            }
            let results = self.call_under(cred, number, proc::SETATTR, |w| {
                w.opaque(&node.handle);
                attrs::settings(w, &set);
                w.flag(false);
            });
            let results = results.await?;
            if let Some(boot) = results.lost() {
                self.refused(&node, number, boot);
                continue;
            }
            return self.was_set(cred, &node, &set, &results).await;
        }
    }

    /// Takes the results of a SETATTR.
    async fn was_set(
        self: &Rc<Self>,
        cred: &Cred,
        node: &Rc<Node>,
        set: &SetAttr,
        results: &Results,
    ) -> Result<Attr> {
        // A kernel above writes back the times of files that it remembers, also when they are removed
        // meanwhile. Their times are nobody's then, and it tells nobody of an error.
        let writes_back = set.ctime.is_some() && set.size.is_none() && set.mode.is_none();
        if results.status == Status::Stale as u32
            && writes_back
            && let Some(last) = node.attr()
        {
            return Ok(last);
        }
        let mut r = results.ok()?;
        let wcc = attrs::read_wcc(&mut r).map_err(garbled)?;
        if let Some(size) = set.size {
            self.cut(node, size);
        }
        self.learn_own(node, &wcc);
        match &wcc.after {
            Some(after) if self.has_leases() => Ok(node.attr().unwrap_or_else(|| after.clone())),
            _ => self.believed(cred, node).await,
        }
    }

    async fn read_link(&self, cred: &Cred, ino: Ino) -> Result<Reply> {
        let node = self.node(ino)?;
        let results = self.call(cred, proc::READLINK, |w| w.opaque(&node.handle)).await?;
        let mut r = results.ok()?;
        let attr = r.optional(attrs::read_attributes).map_err(garbled)?;
        let target = r.opaque(usize::MAX).map_err(garbled)?;
        attr.into_iter().for_each(|attr| self.learn(&node, &attr));
        Ok(Reply::Bytes(target.into()))
    }

    async fn access(self: &Rc<Self>, cred: &Cred, ino: Ino, mask: u32) -> Result<()> {
        let node = self.node(ino)?;
        let attr = self.believed(cred, &node).await?;
        if twin_fs::perm::allows(&attr, cred, mask) { Ok(()) } else { Err(FsError::Access) }
    }

    async fn stat_fs(&self, cred: &Cred) -> Result<VolumeStat> {
        let root = self.node(twin_fs::ROOT_INO)?;
        let results = self.call(cred, proc::FSSTAT, |w| w.opaque(&root.handle)).await?;
        let mut r = results.ok()?;
        r.optional(attrs::read_attributes).map_err(garbled)?;
        let mut figure = || r.u64().map_err(garbled);
        let unit = pages::PAGE;
        let (all, free, _) = (figure()?, figure()?, figure()?);
        let (inodes, free_inodes) = (figure()?, figure()?);
        let (blocks, free) = (all / unit, free / unit);
        let (block_size, io_size) = (unit as u32, self.settings.wsize as u32);
        Ok(VolumeStat { block_size, io_size, blocks, free, inodes, free_inodes })
    }

    /// An inode of a reply, with a reference.
    fn entry(&self, handle: &[u8], attr: Attr) -> LookupEntry {
        let node = self.adopt(attr.ino, handle);
        self.learn(&node, &attr);
        node.refs.set(node.refs.get() + 1);
        let attr = node.attr().unwrap_or(attr);
        // Generations are inside of handles, which clients do not read.
        LookupEntry { attr, generation: 0 }
    }
}

/// The bytes of a write.
fn bytes_of(data: &Data) -> Vec<u8> {
    match data {
        Data::Bytes(bytes) => bytes.to_vec(),
        Data::Synthetic(len) => vec![0; *len as usize],
    }
}
