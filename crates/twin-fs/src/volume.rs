//! The volume: operations on top of a layout.
//!
//! Contract: [`Volume::execute`] may be called any number of times at once, on one thread. Each
//! operation loads what it needs, waiting as it must, and then changes the state in one step
//! without waiting, so that whoever looks between two steps (a log write, a crash) sees only
//! whole operations. Long truncations and allocations are several steps; each leaves a sound
//! state.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};

use twin_cache::{FlushAdvice, FlushPolicy};
use twin_rt::{BoxFuture, Event, RwLock};

use crate::core::{Core, Inode, Refs};
use crate::dinode::{Dinode, HIDDEN};
use crate::layout::Layout;
use crate::running::{Execution, Runners};
use crate::{
    Entry, FileSystem, FsError, Ino, Op, OpKind, ROOT_INO, Reply, Request, Result, Room, Work,
};

/// A file system: names and files, over a layout. Made by the layout's `open`.
pub struct Volume<L: Layout> {
    /// What all parts share.
    pub core: Rc<Core>,
    /// Where blocks and inodes live.
    pub layout: L,
    /// Held while a name moves between directories, so that the tree stands still.
    pub(crate) rename_lock: RwLock,
    flush: RefCell<Box<dyn FlushPolicy>>,
    closing: Cell<bool>,
    flusher_waits: Cell<bool>,
    wake_flusher: Rc<Event>,
    /// The count of changes up to which all are durable.
    committed: Cell<u64>,
    committer_waits: Cell<bool>,
    wake_committer: Event,
    /// Inodes without names that could not be freed for want of room.
    postponed: RefCell<BTreeSet<Ino>>,
    runners: Runners,
    /// Itself, for tasks that operations start.
    this: Weak<Volume<L>>,
}

impl<L: Layout> Volume<L> {
    /// A volume over an opened layout, with its flusher running.
    ///
    /// # Errors
    /// If the settings name a policy that does not exist.
    pub fn new(core: Rc<Core>, layout: L) -> Result<Rc<Volume<L>>> {
        let settings = &core.settings;
        let flush = twin_cache::flush::by_name(&settings.flush, settings.flush_age_ns)
            .ok_or(FsError::Invalid("no such flush policy"))?;
        let volume = Rc::new_cyclic(|this| Volume {
            core,
            layout,
            rename_lock: RwLock::new(),
            flush: RefCell::new(flush),
            closing: Cell::new(false),
            flusher_waits: Cell::new(false),
            wake_flusher: Rc::default(),
            committed: Cell::new(0),
            committer_waits: Cell::new(false),
            wake_committer: Event::new(),
            postponed: RefCell::default(),
            runners: Runners::new(this),
            this: Weak::clone(this),
        });
        volume.core.wake_on_stop(&volume.wake_flusher);
        if !volume.core.settings.read_only {
            let flusher = Rc::clone(&volume);
            volume.core.rt.spawn("flusher", async move { flusher.flush_loop().await });
            if let Some(within_ns) = volume.core.settings.durable_within_ns {
                let committer = Rc::clone(&volume);
                let work = async move { committer.commit_loop(within_ns).await };
                volume.core.rt.spawn("committer", work);
            }
        }
        Ok(volume)
    }

    /// Makes the root directory of a new volume, under the number that was picked for it.
    ///
    /// # Errors
    /// If there is no space.
    pub fn make_root(&self, picked: crate::Picked, mode: u32) -> Result<()> {
        let shape = &self.core.shape;
        let (ino, generation) = (picked.ino, picked.generation);
        let mode = crate::mode::DIRECTORY | mode;
        let d = Dinode::new(shape, ino, generation, mode, self.core.now());
        let inode = Inode::new(Dinode { nlink: 2, ..d });
        let unit = self.core.shape.dir_unit() as u64;
        let space = self.layout.inode_bytes() + self.space_for(&inode, 0..1, unit);
        self.layout.reserve(&self.core, space)?;
        let inode = self.core.add_inode(inode);
        self.layout.born(&self.core, &inode);
        let frame = self.frame_for_change(&inode, 0);
        let format = self.dir_format();
        frame.change(|b| format.init_first(&mut b.bytes_mut()[..unit as usize], ino, ino));
        self.dirty_data(&inode, &frame, unit);
        inode.d.borrow_mut().size = unit;
        self.core.mark_inode_dirty(&inode);
        Ok(())
    }

    /// Goes on with what a crash interrupted: frees inodes without names, cuts what is past the
    /// end of files that were being cut. What there is no room for is done later.
    ///
    /// # Errors
    /// The first inode that cannot be read or changed.
    pub async fn finish_orphan(&self, ino: Ino) -> Result<()> {
        self.or_later(ino, self.free_orphan(ino).await)
    }

    async fn free_orphan(&self, ino: Ino) -> Result<()> {
        let inode = self.any_inode(ino).await?;
        let _alone = inode.lock.write().await;
        if self.is_used_or_gone(ino) {
            return Ok(());
        }
        let (nlink, size) = {
            let d = inode.d.borrow();
            (d.nlink, d.size)
        };
        self.free_tail(&inode, self.core.shape.blocks_for(size)).await?;
        if nlink == 0 { self.destroy(&inode).await } else { Ok(()) }
    }

    /// Itself, counted.
    pub(crate) fn this(&self) -> Rc<Volume<L>> {
        match self.this.upgrade() {
            Some(this) => this,
            None => unreachable!("a volume exists while its methods run"),
        }
    }

    /// Writes back when the flush policy says so, until the volume is closed.
    async fn flush_loop(&self) {
        let core = &self.core;
        while !self.closing.get() && core.poisoned().is_none() {
            let now = core.rt.now();
            let state = self.layout.flush_state(core);
            let advice = self.flush.borrow_mut().advise(now, state);
            match advice {
                FlushAdvice::Flush(until) => {
                    if let Err(error) = self.layout.write_back(core, until).await {
                        core.poison(error);
                    }
                }
                FlushAdvice::WaitUntil(at) => {
                    // Two reasons to look again: the time, and enough dirty data.
                    let start = self.flush.borrow().start_bytes(state);
                    let missing = start.saturating_sub(state.dirty_bytes);
                    let full = core.cache.dirty_bytes() + missing;
                    let more = core.cache.wait_dirty_above(full);
                    self.wait_either(core.rt.sleep_until(at), more).await;
                }
                FlushAdvice::Wait => {
                    self.flusher_waits.set(true);
                    self.wake_flusher.wait().await;
                    self.flusher_waits.set(false);
                }
            }
        }
    }

    /// Makes durable what was changed, soon after, until the volume is closed: for clients whose
    /// wish for it never comes here.
    async fn commit_loop(&self, within_ns: u64) {
        let core = &self.core;
        while !self.closing.get() && core.poisoned().is_none() {
            if core.changes() == self.committed.get() {
                self.committer_waits.set(true);
                self.wake_committer.wait().await;
                self.committer_waits.set(false);
                continue;
            }
            // One half to collect what comes with it, the other to write.
            core.rt.sleep(within_ns / 2).await;
            if self.closing.get() {
                return;
            }
            let changes = core.changes();
            let written = match self.layout.write_back(core, core.rt.now()).await {
                Ok(()) => self.layout.sync(core).await,
                failed => failed,
            };
            if let Err(error) = written {
                core.poison(error);
            }
            self.committed.set(changes);
        }
    }

    /// Waits for one of two futures.
    async fn wait_either(&self, a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
        let mut a = std::pin::pin!(a);
        let mut b = std::pin::pin!(b);
        std::future::poll_fn(|cx| match a.as_mut().poll(cx) {
            std::task::Poll::Ready(()) => std::task::Poll::Ready(()),
            std::task::Poll::Pending => b.as_mut().poll(cx),
        })
        .await;
    }

    /// Takes the references of all clients back, makes everything durable and ends the tasks.
    ///
    /// # Errors
    /// If something could not be written: the volume needs recovery.
    pub fn close(&self) -> BoxFuture<'static, Result<()>> {
        self.runners.close()
    }

    pub(crate) async fn close_whole(&self) -> Result<()> {
        for ino in self.core.drop_refs() {
            self.reap(ino).await?;
        }
        self.closing.set(true);
        self.wake_flusher.notify();
        self.wake_committer.notify();
        if let Some(error) = self.core.poisoned() {
            return Err(error);
        }
        if self.core.settings.read_only { Ok(()) } else { self.layout.close(&self.core).await }
    }

    /// An inode that a client names.
    pub(crate) async fn inode(&self, ino: Ino) -> Result<Rc<Inode>> {
        let inode = self.any_inode(ino).await?;
        if inode.d.borrow().flags & HIDDEN != 0 {
            return Err(FsError::NotFound);
        }
        Ok(inode)
    }

    /// An inode, hidden ones included.
    pub(crate) async fn any_inode(&self, ino: Ino) -> Result<Rc<Inode>> {
        match self.core.cached_inode(ino) {
            Some(inode) => Ok(inode),
            None => self.layout.load_inode(&self.core, ino).await,
        }
    }

    /// A reply that adds a reference.
    pub(crate) fn entry(&self, inode: &Inode) -> Entry {
        self.core.change_refs(inode.ino, |refs| refs.entries += 1);
        Entry { attr: self.attr(inode), generation: inode.d.borrow().generation }
    }

    /// The attributes that clients see.
    pub(crate) fn attr(&self, inode: &Inode) -> crate::Attr {
        inode.attr()
    }

    /// Takes over the fields of an inode that rules change.
    pub(crate) fn set_attr_fields(&self, inode: &Rc<Inode>, attr: &crate::Attr) {
        {
            let mut d = inode.d.borrow_mut();
            (d.mode, d.uid, d.gid) = (attr.mode, attr.uid, attr.gid);
            (d.atime, d.mtime, d.ctime) = (attr.atime, attr.mtime, attr.ctime);
        }
        self.core.mark_inode_dirty(inode);
        self.core.note_change();
    }

    /// Frees an inode if it has neither names nor users. Called whenever one of them ends. Where
    /// there is no room to free it, the end of its name or user stands, and it is freed later.
    pub(crate) async fn reap(&self, ino: Ino) -> Result<()> {
        match self.reap_now(ino).await {
            Ok(true) => self.reap_postponed().await,
            result => self.or_later(ino, result.map(drop)),
        }
    }

    /// What there is no room for now waits until something else was freed.
    fn or_later(&self, ino: Ino, freed: Result<()>) -> Result<()> {
        if let Err(FsError::NoSpace) = freed {
            self.postponed.borrow_mut().insert(ino);
            return Ok(());
        }
        freed
    }

    /// Something was freed: one of those that wait may be now.
    async fn reap_postponed(&self) -> Result<()> {
        let Some(ino) = self.postponed.borrow_mut().pop_first() else { return Ok(()) };
        match self.finish_orphan(ino).await {
            Err(FsError::NotFound) => Ok(()),
            result => result,
        }
    }

    /// True if an inode that is held has users again, the last of whom frees it, or was freed while
    /// its lock was waited for.
    fn is_used_or_gone(&self, ino: Ino) -> bool {
        self.core.refs(ino) != Refs::default() || self.core.cached_inode(ino).is_none()
    }

    /// True if it was freed.
    async fn reap_now(&self, ino: Ino) -> Result<bool> {
        if self.core.refs(ino) != Refs::default() || ino == ROOT_INO {
            return Ok(false);
        }
        // Only inodes in memory can be in question: a name or a user ended just now, except when
        // the inode left memory in between, and then it is loaded again.
        let inode = match self.any_inode(ino).await {
            Ok(inode) => inode,
            Err(FsError::NotFound) => return Ok(false),
            Err(error) => return Err(error),
        };
        if inode.d.borrow().nlink > 0 || inode.d.borrow().flags & HIDDEN != 0 {
            return Ok(false);
        }
        let _alone = inode.lock.write().await;
        if self.is_used_or_gone(ino) {
            return Ok(false);
        }
        self.destroy(&inode).await?;
        Ok(true)
    }

    /// Frees an inode with all that it has. The caller holds its lock.
    pub(crate) async fn destroy(&self, inode: &Rc<Inode>) -> Result<()> {
        self.core.check_writable()?;
        for which in [Hidden::Index, Hidden::Attributes] {
            let ino = which.of(&inode.d.borrow());
            if ino != 0 {
                let hidden = self.any_inode(ino).await?;
                // One step: whoever recovers from here must not follow the number again.
                *which.of_mut(&mut inode.d.borrow_mut()) = 0;
                self.core.mark_inode_dirty(inode);
                self.orphan_hidden(&hidden);
                Box::pin(self.destroy(&hidden)).await?;
            }
        }
        let (size, allocated) = {
            let d = inode.d.borrow();
            (d.size, d.allocated)
        };
        if size > 0 {
            self.set_size(inode, 0, 0, &|| Ok(())).await?;
        } else if allocated > 0 {
            // It was being cut when room ran out.
            self.free_tail(inode, 0).await?;
        }
        self.layout.set_orphan(&self.core, inode, false);
        self.layout.free_inode(&self.core, inode);
        self.layout.unreserve(&self.core, self.layout.inode_bytes());
        Ok(())
    }

    /// A hidden file lost the inode that it belonged to.
    pub(crate) fn orphan_hidden(&self, hidden: &Rc<Inode>) {
        hidden.d.borrow_mut().nlink = 0;
        self.layout.set_orphan(&self.core, hidden, true);
        self.core.mark_inode_dirty(hidden);
    }

    /// An operation with all that belongs to it: what [`Execution`] runs.
    pub(crate) async fn whole(&self, request: Request) -> Result<Reply> {
        let result = self.run(request).await;
        if self.flusher_waits.get() && self.layout.has_dirty(&self.core) {
            self.wake_flusher.notify();
        }
        if self.committer_waits.get() && self.core.changes() != self.committed.get() {
            self.wake_committer.notify();
        }
        result
    }

    async fn run(&self, request: Request) -> Result<Reply> {
        let Request { id, cred, op, .. } = request;
        self.core.cpu.charge(Work::Op(kind_of(&op))).await;
        if changes(&op) {
            self.core.check_writable()?;
        }
        match op {
            Op::Lookup { dir, name } => self.op_lookup(dir, &name, &cred).await,
            Op::Forget { ino, count } => self.op_forget(ino, count).await,
            Op::GetAttr { ino } => Ok(Reply::Attr(self.attr(&*self.inode(ino).await?))),
            Op::SetAttr { ino, set } => self.op_set_attr(ino, &set, &cred, id).await,
            Op::ReadLink { ino } => self.op_read_link(ino).await,
            Op::MakeNode { dir, name, mode, rdev } => {
                self.op_make_node(dir, &name, mode, rdev, &cred).await
            }
            Op::MakeDir { dir, name, mode } => self.op_make_dir(dir, &name, mode, &cred).await,
            Op::Symlink { dir, name, target } => self.op_symlink(dir, &name, &target, &cred).await,
            Op::Create { dir, name, mode, exclusive } => {
                self.op_create(dir, &name, mode, exclusive, &cred).await
            }
            Op::Unlink { dir, name } => self.op_remove(dir, &name, false, &cred).await,
            Op::RemoveDir { dir, name } => self.op_remove(dir, &name, true, &cred).await,
            Op::Rename { dir, name, to_dir, to_name, mode } => {
                self.op_rename((dir, &name), (to_dir, &to_name), mode, &cred).await
            }
            Op::Link { ino, dir, name } => self.op_link(ino, dir, &name, &cred).await,
            Op::Open { ino, read, write, truncate } => {
                self.op_open(ino, read, write, truncate, &cred, id).await
            }
            Op::Release { ino } => self.op_release(ino).await,
            Op::Read { ino, off, len } => self.op_read(ino, off, len).await,
            Op::Write { ino, off, data } => self.op_write(ino, off, &data, Some(&cred), id).await,
            Op::WriteBack { ino, off, data } => self.op_write(ino, off, &data, None, id).await,
            Op::Fsync { ino, data_only } => self.op_fsync(ino, data_only).await,
            Op::ReadDir { dir, cookie, max_bytes, plus } => {
                self.op_read_dir(dir, cookie, max_bytes, plus).await
            }
            Op::StatFs => Ok(Reply::Stat(self.layout.stat(&self.core))),
            Op::Access { ino, mask } => {
                let inode = self.inode(ino).await?;
                crate::perm::access(&inode.attr(), &cred, mask).map(|()| Reply::Done)
            }
            Op::SetXattr { ino, name, value, mode } => {
                self.op_set_xattr(ino, &name, &value, mode, &cred).await
            }
            Op::GetXattr { ino, name } => self.op_get_xattr(ino, &name, &cred).await,
            Op::ListXattr { ino } => self.op_list_xattr(ino, &cred).await,
            Op::RemoveXattr { ino, name } => self.op_remove_xattr(ino, &name, &cred).await,
            Op::Fallocate { ino, off, len, mode } => {
                self.op_fallocate(ino, off, len, mode, &cred, id).await
            }
            Op::Seek { ino, off, what } => self.op_seek(ino, off, what).await,
            // Nothing changes, so nothing is to be written: an unmount asks all the same.
            Op::Sync if self.core.settings.read_only => Ok(Reply::Done),
            Op::Sync => self.layout.sync(&self.core).await.map(|()| Reply::Done),
        }
    }
}

impl<L: Layout> FileSystem for Volume<L> {
    fn execute(&self, request: Request) -> impl Future<Output = Result<Reply>> {
        Execution::new(&self.runners, request)
    }

    fn room(&self) -> Option<Room> {
        (!self.core.settings.read_only).then(|| self.layout.room(&self.core))
    }

    fn room_of(&self, ino: Ino) -> Option<u64> {
        let inode = self.core.cached_inode(ino)?;
        let d = inode.d.borrow();
        Some(d.allocated + d.inline.len() as u64)
    }

    fn held(&self) -> Vec<Ino> {
        self.core.held()
    }
}

/// The hidden files that an inode may have.
#[derive(Clone, Copy)]
enum Hidden {
    Index,
    Attributes,
}

impl Hidden {
    fn of(self, d: &Dinode) -> Ino {
        match self {
            Hidden::Index => d.index_ino,
            Hidden::Attributes => d.xattr_ino,
        }
    }

    fn of_mut(self, d: &mut Dinode) -> &mut Ino {
        match self {
            Hidden::Index => &mut d.index_ino,
            Hidden::Attributes => &mut d.xattr_ino,
        }
    }
}

/// True if an operation changes the volume (references and opens are no change).
fn changes(op: &Op) -> bool {
    match op {
        Op::SetAttr { .. }
        | Op::MakeNode { .. }
        | Op::MakeDir { .. }
        | Op::Symlink { .. }
        | Op::Create { .. }
        | Op::Unlink { .. }
        | Op::RemoveDir { .. }
        | Op::Rename { .. }
        | Op::Link { .. }
        | Op::Write { .. }
        | Op::WriteBack { .. }
        | Op::SetXattr { .. }
        | Op::RemoveXattr { .. }
        | Op::Fallocate { .. } => true,
        Op::Open { truncate, .. } => *truncate,
        _ => false,
    }
}

/// What an operation costs a processor.
fn kind_of(op: &Op) -> OpKind {
    match op {
        Op::Lookup { .. } => OpKind::Lookup,
        Op::MakeNode { .. } | Op::MakeDir { .. } | Op::Symlink { .. } | Op::Create { .. } => {
            OpKind::Create
        }
        Op::Unlink { .. } | Op::RemoveDir { .. } => OpKind::Remove,
        Op::Rename { .. } | Op::Link { .. } => OpKind::Rename,
        Op::Open { .. } | Op::Release { .. } => OpKind::Open,
        Op::Read { .. } => OpKind::Read,
        Op::Write { .. } | Op::WriteBack { .. } => OpKind::Write,
        Op::GetAttr { .. } | Op::SetAttr { .. } | Op::Access { .. } => OpKind::Attr,
        Op::ReadDir { .. } => OpKind::ReadDir,
        Op::Fsync { .. } | Op::Sync => OpKind::Sync,
        _ => OpKind::Other,
    }
}
