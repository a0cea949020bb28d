//! The core: the parts that all layers of a volume share, such as the clock, the device, the cache
//! and the inodes in memory.
//!
//! Contract: [`Core`] holds parts whose state is private to each of them; it knows no layout and no
//! operation.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use twin_cache::replacement::for_cache;
use twin_cache::{Cache, Capacity, Frame, FrameError, Lbn};
use twin_disk::{BlockDevice, DeviceInfo};
use twin_rt::{Event, Rt, Time};

use crate::file_type::Profile;
use crate::file_type::admission::StreamCounts;
use crate::flushing::Flushing;
use crate::geometry::{Geometry, Ptr};
use crate::inodes::{DirtyInodes, Inode, InodeTable, References, Refs};
use crate::nvram::{MemberRef, Nvram};
use crate::observing::{Observation, Observed, OperationObserver};
use crate::quota::{QuotaId, QuotaUse, Quotas};
use crate::reading::ReadPolicy;
use crate::reads::ReadGate;
use crate::settings::Settings;
use crate::stop::Stop;
use crate::{Attr, Cpu, Features, FsError, Ino, Op, Result, Timestamp};

/// The calls that a layout receives when the block map of a file (its tree of indirect blocks) is
/// read or changed, in addition to those of [`Layout`](crate::Layout). A layout registers it with
/// [`Core::set_block_map_hook`].
pub trait BlockMapHook {
    /// Called when an indirect block was read from the place that `ptr` names, or is about to be
    /// used as if it had been. The layout replaces the pointers for which it knows newer ones.
    fn loaded(&self, core: &Core, inode: &Inode, frame: &Frame, ptr: Ptr);

    /// Called when a block has left the file and the pointer to it has been cleared.
    fn freed(&self, core: &Core, inode: &Inode, lbn: Lbn);
}

/// The parts and the state that all layers of a volume share.
pub struct Core {
    /// The clock, the tasks and the random streams.
    pub rt: Rt,
    /// The device below; requests to it are logged.
    pub device: Rc<dyn BlockDevice>,
    /// The disk's limits, and its size when the volume was opened.
    pub info: DeviceInfo,
    /// The blocks in memory, of all files.
    pub cache: Cache,
    /// The policy that reads files block by block; `None` reads all blocks of an operation at once.
    pub reading: Option<Rc<dyn ReadPolicy>>,
    /// The model of the processor, which charges nothing on a host.
    pub cpu: Cpu,
    /// The sizes of blocks, inodes and pointers.
    pub geometry: Geometry,
    /// What the files of the layout can do.
    pub features: Features,
    /// The settings with which the volume was opened.
    pub settings: Settings,
    frags: Cell<u64>,
    /// Counts the device reads under way, so that their space is not reused too early.
    pub reads: Rc<ReadGate>,
    /// Set by a layout that wants to know of indirect blocks that are read and blocks that are
    /// freed.
    block_map_hook: OnceCell<Rc<dyn BlockMapHook>>,
    /// The quotas of directories.
    pub quotas: Quotas,
    inodes: InodeTable,
    dirty: DirtyInodes,
    refs: References,
    changes: Cell<u64>,
    operations: Cell<u64>,
    dirty_since: Cell<Option<Time>>,
    flushing: Flushing,
    /// The memory that survives and that it shares, and its number there.
    nvram: OnceCell<(Rc<Nvram>, usize)>,
    streams: Cell<StreamCounts>,
    observed: Observed,
    stop: Stop,
}

impl Core {
    /// The shared parts of a volume on `device`.
    ///
    /// # Errors
    /// If the settings name a policy that does not exist.
    pub fn new(
        rt: Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        geometry: Geometry,
        features: Features,
        settings: Settings,
    ) -> Result<Rc<Core>> {
        let frames = Capacity::frames(settings.cache_bytes / u64::from(geometry.block_size));
        let policy = for_cache(&settings.replacement)
            .map_err(|_| FsError::Invalid("no such replacement policy for a cache"))?
            .make(frames);
        let reading = crate::reading::REGISTRY
            .get(&settings.reading)
            .map_err(|_| FsError::Invalid("no such read policy"))?
            .maker
            .map(|make| Rc::from(make()));
        let flushing = Flushing::new(&settings)?;
        let info = device.info();
        let cache = Cache::new(settings.cache_bytes, geometry.block_size.into(), policy);
        cache.set_clock(&rt);
        let device = twin_disk::logged(&rt, twin_disk::yielding(&rt, device));
        Ok(Rc::new(Core {
            cache,
            frags: Cell::new(info.size / u64::from(geometry.frag_size)),
            rt,
            device,
            info,
            reading,
            cpu,
            geometry,
            features,
            settings,
            reads: Rc::default(),
            block_map_hook: OnceCell::new(),
            quotas: Quotas::default(),
            inodes: InodeTable::default(),
            dirty: DirtyInodes::default(),
            refs: References::default(),
            changes: Cell::new(0),
            operations: Cell::new(0),
            dirty_since: Cell::new(None),
            flushing,
            nvram: OnceCell::new(),
            streams: Cell::default(),
            observed: Observed::default(),
            stop: Stop::default(),
        }))
    }

    pub(crate) fn flushing(&self) -> &Flushing {
        &self.flushing
    }

    /// Takes this memory of the host, where it has this number, instead of the volume's own; the first
    /// call counts.
    pub(crate) fn set_nvram(&self, nvram: &Rc<Nvram>, number: usize) {
        let _ = self.nvram.set((Rc::clone(nvram), number));
    }

    /// The memory that survives and that the volume shares, if it does, and what others hold of it.
    pub(crate) fn nvram(&self) -> Option<(&Rc<Nvram>, u64)> {
        let (nvram, number) = self.nvram.get()?;
        Some((nvram, nvram.held_by_others(*number)))
    }

    /// The member of the shared memory whose dirty data is the oldest, and this volume as the one that
    /// needs room if that is another.
    pub(crate) fn oldest_of_shared(&self) -> Option<(MemberRef, Option<MemberRef>)> {
        let (nvram, own) = self.nvram.get()?;
        let (number, member) = nvram.oldest()?;
        let needer = if number == *own { None } else { nvram.member(*own) };
        Some((member, needer))
    }

    /// The number of fragments on the device; every address is below it.
    pub fn frags(&self) -> u64 {
        self.frags.get()
    }

    /// The device has become larger, and so has the volume: blocks may lie anywhere on it from now on.
    pub fn note_growth(&self) {
        self.frags.set(self.device.info().size / u64::from(self.geometry.frag_size));
    }

    /// Counts the space of a block of this file that took `old` bytes and takes `new` ones now.
    pub(crate) fn count_space(&self, inode: &Inode, old: u64, new: u64) {
        let (quota, before, after) = {
            let mut d = inode.d.borrow_mut();
            let before = d.allocated;
            d.count_space(old, new);
            (d.quota, before, d.allocated)
        };
        if quota != 0 {
            self.quotas.count_bytes(quota, inode.ino, before, after);
        }
    }

    /// Asks the quota of this inode for room for more bytes.
    ///
    /// # Errors
    /// `QuotaExceeded` if there is none.
    pub(crate) fn check_quota(&self, inode: &Inode, bytes: u64) -> Result<()> {
        match inode.d.borrow().quota {
            0 => Ok(()),
            quota => self.quotas.check(quota, QuotaUse { bytes, files: 0 }),
        }
    }

    /// The quota for which a new inode in this directory counts, or one that belongs to this file.
    pub(crate) fn quota_of(&self, inode: &Inode) -> QuotaId {
        self.quotas.effective(inode.d.borrow().quota)
    }

    /// Registers the layout's hook for the block maps of files. A layout calls this at most once,
    /// before any inode is loaded.
    pub fn set_block_map_hook(&self, hook: Rc<dyn BlockMapHook>) {
        let is_first = self.block_map_hook.set(hook).is_ok();
        assert!(is_first, "a volume has one layout");
    }

    pub(crate) fn block_map_hook(&self) -> Option<&dyn BlockMapHook> {
        self.block_map_hook.get().map(|hook| &**hook)
    }

    /// The number of operations of clients that have ended, with or without an error. Those that a front end makes on
    /// its own account are not among them, as they are not observed, logged or recorded.
    pub fn operations(&self) -> u64 {
        self.operations.get()
    }

    /// Has the blocks of a file replaced by the policy that its attributes name.
    pub(crate) fn set_replacement(&self, inode: &Inode, profile: &Profile) {
        let own = profile.replacement.and_then(|name| for_cache(name).ok());
        self.cache.set_policy(&inode.frames, own);
    }

    /// Has `observer` told of every operation from now on, in place of an earlier observer; `None`
    /// ends that. Operations that are under way keep the observer that saw them begin.
    pub fn observe_operations(&self, observer: Option<Rc<dyn OperationObserver>>) {
        self.observed.set(observer);
    }

    pub(crate) fn observation(&self, op: &Op) -> Option<Observation> {
        self.observed.begin(op, &self.rt)
    }

    pub(crate) fn note_operation(&self) {
        self.operations.set(self.operations.get() + 1);
    }

    /// How many streams were admitted and refused.
    pub fn stream_counts(&self) -> StreamCounts {
        self.streams.get()
    }

    pub(crate) fn count_streams(&self, change: impl FnOnce(&mut StreamCounts)) {
        let mut counts = self.streams.get();
        change(&mut counts);
        self.streams.set(counts);
    }

    /// The current civil time in the precision that inodes of this layout can store.
    pub fn now(&self) -> Timestamp {
        self.features.nearest_time(self.rt.civil().into())
    }

    /// The inode, if it is in memory.
    pub fn cached_inode(&self, ino: Ino) -> Option<Rc<Inode>> {
        self.inodes.get(ino)
    }

    /// Puts an inode into the table. If the table already has an inode with this number, that one
    /// stays and is returned.
    pub fn add_inode(&self, inode: Rc<Inode>) -> Rc<Inode> {
        inode.lock.yield_in(&self.rt);
        self.inodes.add(inode, &self.cache, self.settings.cached_inodes)
    }

    /// Removes a freed inode and its blocks from memory.
    pub fn drop_inode(&self, inode: &Inode) {
        self.cache.remove_range(&inode.frames, Lbn::MIN..Lbn::MAX);
        self.dirty.remove(inode);
        self.inodes.remove(inode.ino);
    }

    /// Drops every clean block and every idle inode, so that the cache is cold.
    pub fn drop_caches(&self) {
        self.inodes.drop_idle(&self.cache);
    }

    /// The number of inodes in memory.
    pub fn cached_inodes(&self) -> usize {
        self.inodes.len()
    }

    /// Marks an inode dirty: its on-disk form is out of date.
    pub fn mark_inode_dirty(&self, inode: &Rc<Inode>) {
        self.dirty.add(inode, self.rt.now());
    }

    /// Marks an inode clean: its current form is on its way to the disk.
    pub fn mark_inode_clean(&self, inode: &Inode) {
        self.dirty.remove(inode);
    }

    /// The dirty inodes, in the order in which they became dirty.
    pub fn dirty_inodes(&self) -> Vec<Rc<Inode>> {
        self.dirty.all()
    }

    /// Calls `f` for dirty inodes, in the order in which they became dirty, until it returns false.
    /// `f` may not change which inodes are dirty.
    pub(crate) fn for_dirty_inodes(&self, f: impl FnMut(&Inode) -> bool) {
        self.dirty.each(f);
    }

    /// Since when the first of the dirty inodes has been dirty.
    pub(crate) fn dirty_since(&self) -> Option<Time> {
        self.dirty.oldest()
    }

    /// The number of dirty inodes.
    pub fn dirty_inode_count(&self) -> usize {
        self.dirty.len()
    }

    /// Stores the attributes that the rules of [`perm`](crate::perm) computed, as a change that
    /// clients see.
    pub(crate) fn set_attributes(&self, inode: &Rc<Inode>, attr: &Attr) {
        inode.d.borrow_mut().set_attributes(attr);
        self.mark_inode_dirty(inode);
        self.note_change();
    }

    /// Called by the flusher each time it looks for dirty data; `any` says whether there is some.
    /// Returns the time since when there has been some: now, if there was none at the last look.
    pub(crate) fn note_dirty(&self, any: bool) -> Option<Time> {
        let since = any.then(|| self.dirty_since.get().unwrap_or(self.rt.now()));
        self.dirty_since.set(since);
        since
    }

    /// Called by a layout when it takes all dirty data to write it. The age that the flush policy
    /// sees starts anew with what becomes dirty afterwards.
    pub fn forget_dirty(&self) {
        self.dirty_since.set(None);
    }

    /// The number of steps so far in which operations changed what clients can see. If the number
    /// is higher after a poll of an operation than before, the operation took effect in that poll.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Notes that an operation, or a part of it, takes effect in this step.
    pub(crate) fn note_change(&self) {
        self.changes.set(self.changes.get() + 1);
    }

    /// The references and opens that clients have on an inode.
    pub fn refs(&self, ino: Ino) -> Refs {
        self.refs.of(ino)
    }

    /// The inodes that clients have references or opens on, in ascending order.
    pub fn held(&self) -> Vec<Ino> {
        self.refs.held()
    }

    /// Changes the references and opens on an inode and returns the new counts.
    pub fn change_refs(&self, ino: Ino, change: impl FnOnce(&mut Refs)) -> Refs {
        self.refs.change(ino, change)
    }

    /// Forgets the references and opens of all clients, because the clients are gone. Returns the
    /// inodes that had some.
    pub fn drop_refs(&self) -> Vec<Ino> {
        self.refs.take()
    }

    /// Refuses every change from now on, because an earlier one could not be made safe. Tasks that
    /// wait for an event of [`wake_on_stop`](Self::wake_on_stop) are woken, so that they see it.
    pub fn poison(&self, error: FsError) {
        self.stop.stop(error);
    }

    /// Has an event notified when the volume stops taking changes. Every event on which a task
    /// waits for room, a flush or a log write must be registered here: after the stop none of these
    /// comes, and a task that waits for ever keeps a mount from being unmounted.
    pub fn wake_on_stop(&self, event: &Rc<Event>) {
        self.stop.wakes(event);
    }

    /// Calls `listener` once, with the reason, when the volume stops taking changes; immediately
    /// if it has stopped already.
    pub fn on_stop(&self, listener: impl FnOnce(&FsError) + 'static) {
        self.stop.on_stop(listener);
    }

    /// The reason why the volume refuses changes, if it does.
    pub fn poisoned(&self) -> Option<FsError> {
        self.stop.why()
    }

    /// Fails if the volume is read-only or has stopped taking changes.
    pub fn check_writable(&self) -> Result<()> {
        if self.settings.read_only { Err(FsError::ReadOnly) } else { self.stop.check() }
    }
}

impl From<FrameError> for FsError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Io(error) => FsError::Io(error),
            FrameError::Checksum { at } => {
                FsError::corrupt(at, "the content does not match its checksum")
            }
        }
    }
}
