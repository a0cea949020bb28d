//! What every part of a volume shares: the clock, the device, the cache, the inodes in memory.
//!
//! Contract: an inode is in the table at most once. It stays while somebody holds it, while it
//! has dirty state, and as long as memory allows. The reference and open counts that clients hold
//! are kept apart from it, so that an inode which clients merely know of can leave memory.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use twin_cache::{Cache, FileFrames, Frame, FrameError, Lbn};
use twin_disk::{BlockDevice, Class, DeviceInfo};
use twin_rt::{Event, FixedMap, Rt, RwLock};

use crate::dinode::{Dinode, HIDDEN};
use crate::reading::{Overwrite, ReadPolicy};
use crate::shape::Shape;
use crate::{Attr, Cpu, Features, Forwards, FsError, Ino, Result, Timestamp};

/// What is set when a volume is opened and stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of memory for blocks.
    pub cache_bytes: u64,
    /// Inodes kept in memory beyond those in use.
    pub cached_inodes: usize,
    /// The replacement policy, by name.
    pub replacement: String,
    /// The flush policy, by name.
    pub flush: String,
    /// The flush policy's age limit; `None` for its own.
    pub flush_age_ns: Option<u64>,
    /// What was changed is durable after so long, whoever asks for it; `None`: the flush policy
    /// alone decides, and durable is what clients ask for.
    pub durable_within_ns: Option<u64>,
    /// The most that is read ahead of a sequential reader, in bytes; 0 for none.
    pub read_ahead_bytes: u32,
    /// Clients keep what they have read, as the kernel above a mount does: blocks that were read
    /// for a sequential reader leave memory once he has them, and make room for what follows.
    pub drop_behind: bool,
    /// How files are read, by name: see [`reading`](crate::reading). With any policy but the first,
    /// reads and writes go block by block.
    pub reading: String,
    /// When blocks that are overwritten are read first.
    pub overwrite: Overwrite,
    /// Neighbouring blocks are read with one request up to this many bytes; 0: the device's limit.
    pub cluster_bytes: u32,
    /// Synthetic data is stored as real bytes, not as stamps.
    pub expand_stamps: bool,
    /// No change is allowed.
    pub read_only: bool,
    /// What is read is checked against its checksum, where the format has one.
    pub check_data: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            cache_bytes: 64 << 20,
            cached_inodes: 16_384,
            replacement: twin_cache::replacement::registry()[0].name.into(),
            flush: twin_cache::flush::registry()[0].name.into(),
            flush_age_ns: None,
            durable_within_ns: None,
            read_ahead_bytes: 1 << 20,
            drop_behind: false,
            reading: crate::reading::registry()[0].name.into(),
            overwrite: Overwrite::Needed,
            cluster_bytes: 0,
            expand_stamps: false,
            read_only: false,
            check_data: true,
        }
    }
}

/// Sequential reading, as seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadAhead {
    /// The byte after the last one read.
    pub(crate) next: u64,
    /// Bytes to keep read ahead; 0 until reading looks sequential.
    pub(crate) window: u64,
    /// Everything before this byte has been asked for.
    pub(crate) asked: u64,
    /// The block that was read last, where files are read block by block.
    pub(crate) last_block: Option<u64>,
    /// What the read policy remembers.
    pub(crate) memory: u64,
}

/// An inode in memory.
pub struct Inode {
    /// Its number.
    pub ino: Ino,
    /// Held shared while content is read, exclusively while content or names change.
    pub lock: RwLock,
    /// The inode proper. Changed only between `.await`s.
    pub d: RefCell<Dinode>,
    /// Its blocks in memory.
    pub frames: Rc<FileFrames>,
    /// Indirect blocks that lost pointers since they were last written: a layout that defers
    /// indirect blocks must not defer these.
    pub cleared: RefCell<BTreeSet<Lbn>>,
    /// For the layout: what it must keep in memory beside the inode (its inode-map block).
    pub anchor: RefCell<Option<Rc<Frame>>>,
    /// For the layout: the number of the log write that took the inode's latest changes.
    pub written_in: Cell<u64>,
    /// For directories: blocks known to have room, by logical block.
    pub(crate) room: RefCell<BTreeMap<u64, usize>>,
    pub(crate) ahead: Cell<ReadAhead>,
    /// Position in the list of dirty inodes; 0 if clean.
    dirty: Cell<u64>,
}

impl Inode {
    /// An inode in memory, not yet in any table.
    pub fn new(d: Dinode) -> Rc<Inode> {
        Rc::new(Inode {
            ino: d.ino,
            lock: RwLock::new(),
            frames: FileFrames::new(d.ino),
            d: RefCell::new(d),
            cleared: RefCell::default(),
            anchor: RefCell::default(),
            written_in: Cell::new(0),
            room: RefCell::default(),
            ahead: Cell::default(),
            dirty: Cell::new(0),
        })
    }

    /// Its attributes.
    pub fn attr(&self) -> Attr {
        self.d.borrow().attr()
    }

    /// True if its on-disk form is out of date.
    pub fn is_dirty(&self) -> bool {
        self.dirty.get() != 0
    }

    /// What its blocks are to a device.
    pub fn class(&self, lbn: Lbn) -> Class {
        let d = self.d.borrow();
        let meta = lbn < 0 || d.flags & HIDDEN != 0 || d.kind() != crate::mode::REGULAR;
        if meta { Class::Meta } else { Class::Data }
    }
}

/// What clients hold of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refs {
    /// References from replies.
    pub entries: u64,
    /// Opens.
    pub opens: u64,
}

/// Reads under way, so that space can be reused only when nobody still reads it.
#[derive(Default)]
pub struct ReadGate {
    epoch: Cell<u64>,
    /// Reads under way that began in the current epoch, and in earlier ones.
    counts: Cell<[u64; 2]>,
    drained: Event,
}

impl ReadGate {
    /// Says that a read begins.
    pub fn enter(self: &Rc<Self>) -> ReadPass {
        let [now, before] = self.counts.get();
        self.counts.set([now + 1, before]);
        ReadPass { gate: Rc::clone(self), epoch: self.epoch.get() }
    }

    /// Waits until all reads that began before this call have ended. One caller at a time.
    pub async fn drain(&self) {
        let [now, before] = self.counts.get();
        self.epoch.set(self.epoch.get() + 1);
        self.counts.set([0, now + before]);
        self.drained.wait_until(|| self.counts.get()[1] == 0).await;
    }
}

/// Held for the length of a read.
pub struct ReadPass {
    gate: Rc<ReadGate>,
    epoch: u64,
}

impl Drop for ReadPass {
    fn drop(&mut self) {
        let mut counts = self.gate.counts.get();
        counts[usize::from(self.epoch != self.gate.epoch.get())] -= 1;
        self.gate.counts.set(counts);
        if counts[1] == 0 {
            self.gate.drained.notify();
        }
    }
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
    /// Pointers that are newer than what holds them on the device.
    pub forwards: Forwards,
    table: RefCell<FixedMap<Ino, Rc<Inode>>>,
    clock: RefCell<VecDeque<Ino>>,
    refs: RefCell<FixedMap<Ino, Refs>>,
    dirty: RefCell<BTreeMap<u64, Rc<Inode>>>,
    dirty_seq: Cell<u64>,
    changes: Cell<u64>,
    poison: RefCell<Option<FsError>>,
    /// Notified when the volume stops taking changes.
    on_stop: RefCell<Vec<Rc<Event>>>,
    /// Told of it, once.
    listener: RefCell<Option<StopListener>>,
}

/// Hears why a volume stopped taking changes.
type StopListener = Box<dyn FnOnce(&FsError)>;

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
            forwards: Forwards::default(),
            table: RefCell::default(),
            clock: RefCell::default(),
            refs: RefCell::default(),
            dirty: RefCell::default(),
            dirty_seq: Cell::new(1),
            changes: Cell::new(0),
            poison: RefCell::default(),
            on_stop: RefCell::default(),
            listener: RefCell::default(),
        }))
    }

    /// The current time as files carry it.
    pub fn now(&self) -> Timestamp {
        self.features.nearest_time(self.rt.now().into())
    }

    /// The inode, if it is in memory.
    pub fn cached_inode(&self, ino: Ino) -> Option<Rc<Inode>> {
        self.table.borrow().get(&ino).cloned()
    }

    /// Puts an inode into the table. If one with its number is there already, that one stays and
    /// is returned.
    pub fn add_inode(&self, inode: Rc<Inode>) -> Rc<Inode> {
        if let Some(there) = self.cached_inode(inode.ino) {
            return there;
        }
        self.table.borrow_mut().insert(inode.ino, Rc::clone(&inode));
        self.clock.borrow_mut().push_back(inode.ino);
        self.evict_inodes();
        inode
    }

    /// Takes an inode out of the table: it was freed.
    pub fn drop_inode(&self, inode: &Inode) {
        self.cache.remove_range(&inode.frames, Lbn::MIN..Lbn::MAX);
        self.mark_inode_clean(inode);
        self.table.borrow_mut().remove(&inode.ino);
    }

    /// A bounded second-chance sweep over the inodes in memory.
    fn evict_inodes(&self) {
        for _ in 0..8 {
            if self.table.borrow().len() <= self.settings.cached_inodes {
                return;
            }
            let Some(ino) = self.clock.borrow_mut().pop_front() else { return };
            let Some(inode) = self.cached_inode(ino) else { continue };
            // Two holders: the table and this function.
            let idle = Rc::strong_count(&inode) == 2 && !inode.is_dirty();
            if idle && !inode.frames.has_dirty() && self.cache.release(&inode.frames) {
                self.table.borrow_mut().remove(&ino);
            } else {
                self.clock.borrow_mut().push_back(ino);
            }
        }
    }

    /// Drops every clean block and idle inode: a cold cache.
    pub fn drop_caches(&self) {
        let mut inodes: Vec<_> = self.table.borrow().values().cloned().collect();
        inodes.sort_by_key(|inode| inode.ino);
        for inode in inodes {
            let empty = self.cache.release(&inode.frames);
            if empty && Rc::strong_count(&inode) == 2 && !inode.is_dirty() {
                self.table.borrow_mut().remove(&inode.ino);
            }
        }
        let table = self.table.borrow();
        self.clock.borrow_mut().retain(|ino| table.contains_key(ino));
    }

    /// Inodes in memory.
    pub fn cached_inodes(&self) -> usize {
        self.table.borrow().len()
    }

    /// Notes that an inode's on-disk form is out of date.
    pub fn mark_inode_dirty(&self, inode: &Rc<Inode>) {
        if inode.dirty.get() == 0 {
            let seq = self.dirty_seq.get();
            self.dirty_seq.set(seq + 1);
            inode.dirty.set(seq);
            self.dirty.borrow_mut().insert(seq, Rc::clone(inode));
        }
    }

    /// Notes that an inode's current form is on its way to the disk.
    pub fn mark_inode_clean(&self, inode: &Inode) {
        let seq = inode.dirty.replace(0);
        if seq != 0 {
            self.dirty.borrow_mut().remove(&seq);
        }
    }

    /// The dirty inodes, first dirtied first.
    pub fn dirty_inodes(&self) -> Vec<Rc<Inode>> {
        self.dirty.borrow().values().cloned().collect()
    }

    /// How many inodes are dirty.
    pub fn dirty_inode_count(&self) -> usize {
        self.dirty.borrow().len()
    }

    /// Counts the steps in which operations changed what clients can see: whoever polls an
    /// operation and finds the count higher than before knows that it has just taken effect.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// An operation takes effect, or a part of it does.
    pub(crate) fn note_change(&self) {
        self.changes.set(self.changes.get() + 1);
    }

    /// What clients hold of an inode.
    pub fn refs(&self, ino: Ino) -> Refs {
        self.refs.borrow().get(&ino).copied().unwrap_or_default()
    }

    /// The inodes of which clients hold something, in order.
    pub fn held(&self) -> Vec<Ino> {
        let mut all: Vec<Ino> = self.refs.borrow().keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// Changes what clients hold of an inode and gives the result.
    pub fn change_refs(&self, ino: Ino, change: impl FnOnce(&mut Refs)) -> Refs {
        let mut all = self.refs.borrow_mut();
        let refs = all.entry(ino).or_default();
        change(refs);
        let result = *refs;
        if result == Refs::default() {
            all.remove(&ino);
        }
        result
    }

    /// Forgets everything that clients hold: they are gone.
    pub fn drop_refs(&self) -> Vec<Ino> {
        let mut all: Vec<Ino> = self.refs.take().into_keys().collect();
        all.sort_unstable();
        all
    }

    /// Refuses every change from here on, because an earlier one could not be made safe. Whoever
    /// waits for what will not come any more is woken, to find out.
    pub fn poison(&self, error: FsError) {
        if self.poison.borrow().is_some() {
            return;
        }
        *self.poison.borrow_mut() = Some(error.clone());
        self.on_stop.borrow().iter().for_each(|event| event.notify());
        let listener = self.listener.borrow_mut().take();
        if let Some(listener) = listener {
            listener(&error);
        }
    }

    /// Has an event notified when the volume stops taking changes. Every event that somebody waits
    /// for until room, a flush or a log write comes is to be known here: a wait without an end is
    /// a mount that cannot be unmounted.
    pub fn wake_on_stop(&self, event: &Rc<Event>) {
        self.on_stop.borrow_mut().push(Rc::clone(event));
    }

    /// Has somebody told, once, why the volume stopped taking changes: at once if it has.
    pub fn tell_of_stop(&self, listener: impl FnOnce(&FsError) + 'static) {
        match self.poisoned() {
            Some(error) => listener(&error),
            None => *self.listener.borrow_mut() = Some(Box::new(listener)),
        }
    }

    /// Why the volume refuses changes, if it does.
    pub fn poisoned(&self) -> Option<FsError> {
        self.poison.borrow().clone()
    }

    /// An error if the volume takes no changes.
    pub fn check_writable(&self) -> Result<()> {
        if self.settings.read_only {
            return Err(FsError::ReadOnly);
        }
        match &*self.poison.borrow() {
            Some(FsError::Io(error)) => Err(FsError::Io(error.clone())),
            Some(_) => Err(FsError::ReadOnly),
            None => Ok(()),
        }
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
