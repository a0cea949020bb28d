//! What every layer of a volume shares: the clock, the device, the cache, the inodes in memory.
//!
//! Contract: [`Core`] puts parts together that keep their state to themselves; it knows of no layout
//! and of no operation.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use twin_cache::{Cache, Frame, FrameError, Lbn};
use twin_disk::{BlockDevice, DeviceInfo};
use twin_rt::{Event, Rt};

use crate::inodes::{DirtyInodes, Inode, References, Refs, Table};
use crate::reading::ReadPolicy;
use crate::reads::ReadGate;
use crate::settings::Settings;
use crate::shape::{Ptr, Shape};
use crate::stop::Stop;
use crate::{Attr, Cpu, Features, FsError, Ino, Result, Timestamp};

/// What a layout does when the block map of a file (its tree of indirect blocks) is read or
/// changed, beside what a [`Layout`](crate::Layout) is asked for: see
/// [`Core::set_block_map_hook`].
pub trait BlockMapHook {
    /// An indirect block was read from where `ptr` leads, or is about to be used as if it had been:
    /// brings it up to date where the layout knows newer pointers.
    fn loaded(&self, core: &Core, inode: &Inode, frame: &Frame, ptr: Ptr);

    /// A block has left the file, and the pointer to it has been cleared.
    fn freed(&self, core: &Core, inode: &Inode, lbn: Lbn);
}

/// What every part of a volume shares.
pub struct Core {
    /// Time, tasks, chance.
    pub rt: Rt,
    /// The disk.
    pub device: Rc<dyn BlockDevice>,
    /// The disk's size and limits.
    pub info: DeviceInfo,
    /// Blocks in memory.
    pub cache: Cache,
    /// How files are read block by block, if they are.
    pub reading: Option<Rc<dyn ReadPolicy>>,
    /// The processor, if it is modelled.
    pub cpu: Cpu,
    /// Sizes.
    pub shape: Shape,
    /// What the layout can do.
    pub features: Features,
    /// Settings.
    pub settings: Settings,
    /// Fragments on the device: where addresses end.
    pub frags: u64,
    /// Device reads under way.
    pub reads: Rc<ReadGate>,
    /// Told of indirect blocks that are read and of blocks that are freed, if the layout wants.
    block_map_hook: OnceCell<Rc<dyn BlockMapHook>>,
    inodes: Table,
    dirty: DirtyInodes,
    refs: References,
    changes: Cell<u64>,
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
        shape: Shape,
        features: Features,
        settings: Settings,
    ) -> Result<Rc<Core>> {
        let policy = twin_cache::replacement::by_name(&settings.replacement)
            .ok_or(FsError::Invalid("no such replacement policy"))?;
        let reading = crate::reading::by_name(&settings.reading)
            .ok_or(FsError::Invalid("no such read policy"))?
            .map(Rc::from);
        let info = device.info();
        let device = twin_disk::logged(&rt, twin_disk::yielding(&rt, device));
        Ok(Rc::new(Core {
            cache: Cache::new(settings.cache_bytes, shape.block_size.into(), policy),
            frags: info.size / u64::from(shape.frag_size),
            rt,
            device,
            info,
            reading,
            cpu,
            shape,
            features,
            settings,
            reads: Rc::default(),
            block_map_hook: OnceCell::new(),
            inodes: Table::default(),
            dirty: DirtyInodes::default(),
            refs: References::default(),
            changes: Cell::new(0),
            stop: Stop::default(),
        }))
    }

    /// Has a layout told of what happens to the block maps of files. Once, before any inode is
    /// loaded.
    pub fn set_block_map_hook(&self, hook: Rc<dyn BlockMapHook>) {
        let is_first = self.block_map_hook.set(hook).is_ok();
        assert!(is_first, "a volume has one layout");
    }

    pub(crate) fn block_map_hook(&self) -> Option<&dyn BlockMapHook> {
        self.block_map_hook.get().map(|hook| &**hook)
    }

    /// The current time as files carry it.
    pub fn now(&self) -> Timestamp {
        self.features.nearest_time(self.rt.now().into())
    }

    /// The inode, if it is in memory.
    pub fn cached_inode(&self, ino: Ino) -> Option<Rc<Inode>> {
        self.inodes.get(ino)
    }

    /// Puts an inode into the table. If one with its number is there already, that one stays and
    /// is returned.
    pub fn add_inode(&self, inode: Rc<Inode>) -> Rc<Inode> {
        inode.lock.yield_in(&self.rt);
        self.inodes.add(inode, &self.cache, self.settings.cached_inodes)
    }

    /// Takes an inode out of the table: it was freed.
    pub fn drop_inode(&self, inode: &Inode) {
        self.cache.remove_range(&inode.frames, Lbn::MIN..Lbn::MAX);
        self.dirty.remove(inode);
        self.inodes.remove(inode.ino);
    }

    /// Drops every clean block and idle inode: a cold cache.
    pub fn drop_caches(&self) {
        self.inodes.drop_idle(&self.cache);
    }

    /// Inodes in memory.
    pub fn cached_inodes(&self) -> usize {
        self.inodes.len()
    }

    /// Notes that an inode's on-disk form is out of date.
    pub fn mark_inode_dirty(&self, inode: &Rc<Inode>) {
        self.dirty.add(inode);
    }

    /// Notes that an inode's current form is on its way to the disk.
    pub fn mark_inode_clean(&self, inode: &Inode) {
        self.dirty.remove(inode);
    }

    /// The dirty inodes, first dirtied first.
    pub fn dirty_inodes(&self) -> Vec<Rc<Inode>> {
        self.dirty.all()
    }

    /// How many inodes are dirty.
    pub fn dirty_inode_count(&self) -> usize {
        self.dirty.len()
    }

    /// Takes over the attributes that rules decide on: a change that clients see.
    pub(crate) fn set_attributes(&self, inode: &Rc<Inode>, attr: &Attr) {
        inode.d.borrow_mut().set_attributes(attr);
        self.mark_inode_dirty(inode);
        self.note_change();
    }

    /// Counts the steps in which operations changed what clients can see: if the
    /// count is higher after a poll of an operation than before, the operation has just taken effect.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// An operation takes effect, or a part of it does.
    pub(crate) fn note_change(&self) {
        self.changes.set(self.changes.get() + 1);
    }

    /// What clients hold of an inode.
    pub fn refs(&self, ino: Ino) -> Refs {
        self.refs.of(ino)
    }

    /// The inodes of which clients hold something, in order.
    pub fn held(&self) -> Vec<Ino> {
        self.refs.held()
    }

    /// Changes what clients hold of an inode and gives the result.
    pub fn change_refs(&self, ino: Ino, change: impl FnOnce(&mut Refs)) -> Refs {
        self.refs.change(ino, change)
    }

    /// Forgets everything that clients hold: they are gone.
    pub fn drop_refs(&self) -> Vec<Ino> {
        self.refs.take()
    }

    /// Refuses every change from here on, because an earlier one could not be made safe. All that
    /// wait for what will not come any more are woken, to find out.
    pub fn poison(&self, error: FsError) {
        self.stop.stop(error);
    }

    /// Has an event notified when the volume stops taking changes. Every event that is waited for
    /// until room, a flush or a log write comes is to be known here: a wait without an end is
    /// a mount that cannot be unmounted.
    pub fn wake_on_stop(&self, event: &Rc<Event>) {
        self.stop.wakes(event);
    }

    /// Has `listener` told, once, why the volume stopped taking changes: at once if it has.
    pub fn tell_of_stop(&self, listener: impl FnOnce(&FsError) + 'static) {
        self.stop.tell(listener);
    }

    /// Why the volume refuses changes, if it does.
    pub fn poisoned(&self) -> Option<FsError> {
        self.stop.why()
    }

    /// An error if the volume takes no changes.
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
