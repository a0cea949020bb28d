//! The volume: operations on top of a layout, and the tasks that write back what they change.
//!
//! Contract: [`Volume`] is the one door to a file system: front ends, simulations and tools hold it, and
//! none of them is written or compiled once for each layout. [`Volume::execute`] may be called any
//! number of times at once, on one thread. The layers, each using only those below: operations
//! ([`ops`](crate::ops)), directories ([`dir`](crate::dir)), inodes without names
//! ([`orphans`](crate::orphans)), file data ([`data`](crate::data)), the layout, and inodes with what
//! every layer shares ([`Core`]).

use std::any::Any;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use twin_disk::{IoError, IoKind};
use twin_rt::{BoxFuture, Time};

use crate::below::{concerns, finds_it};
use crate::core::Core;
use crate::dirty_limit::join_nvram;
use crate::freeze::{FreezeGuard, Freezer};
use crate::layout::{Growth, Layout, NO_GROWTH, NO_SNAPSHOTS, Picked, SyncScope};
use crate::nvram::Nvram;
use crate::ops::Operations;
use crate::places::{Placed, Places, place};
use crate::quota::{Quota, QuotaNote};
use crate::scrub::{self, Scrub, ScrubHow};
use crate::snapshots_directory::SnapshotsDirectory;
use crate::write_back::WriteBack;
use crate::{
    FileSystem, FsError, Ino, LookupEntry, Op, Peeked, Reply, Request, Result, Room, VolumeStat,
    Written,
};

/// How often everything is written before operations have to wait for a frozen volume.
const EARLY_SYNCS: u32 = 3;
/// So few dirty bytes may be written while they wait.
const LITTLE_DIRTY_BYTES: u64 = 256 << 10;

/// A counted reference to an open file system: names and files, over a layout.
#[derive(Clone)]
pub struct Volume(Rc<Parts>);

/// A volume with the type of its layout, which the layout's `open` returns, for what only that layout
/// has.
pub struct VolumeOf<L> {
    /// The volume, without the type of its layout.
    pub volume: Volume,
    /// The layout of the volume.
    pub layout: Rc<L>,
}

/// A request, and what it is executed on.
type Begun = (Rc<Parts>, Request);

/// An operation under way.
pub struct Executing(Placed<Begun, Result<Reply>>);

impl Future for Executing {
    type Output = Result<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Reply>> {
        Pin::new(&mut self.0).poll(cx)
    }
}

struct Parts {
    core: Rc<Core>,
    layout: Rc<dyn Layout>,
    ops: Operations,
    write_back: Rc<WriteBack>,
    freezer: Rc<Freezer>,
    places: Rc<Places<Begun, Result<Reply>>>,
    /// The directory of kept states, if the layout keeps some.
    snapshots: Option<SnapshotsDirectory>,
}

impl<L: Layout> VolumeOf<L> {
    /// A volume over an opened layout. Its flusher and committer are started.
    ///
    /// # Errors
    /// If the settings name a policy that does not exist.
    pub fn new(core: Rc<Core>, layout: L) -> Result<VolumeOf<L>> {
        let layout = Rc::new(layout);
        let volume = Volume::over(core, Rc::clone(&layout) as Rc<dyn Layout>)?;
        Ok(VolumeOf { volume, layout })
    }
}

impl<L> Clone for VolumeOf<L> {
    fn clone(&self) -> Self {
        VolumeOf { volume: self.volume.clone(), layout: Rc::clone(&self.layout) }
    }
}

impl<L> Deref for VolumeOf<L> {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.volume
    }
}

impl Volume {
    fn over(core: Rc<Core>, layout: Rc<dyn Layout>) -> Result<Volume> {
        Ok(Volume(Rc::new(Parts {
            ops: Operations::new(&core, &layout),
            write_back: WriteBack::start(&core, &layout)?,
            snapshots: SnapshotsDirectory::new(&core, &layout),
            core,
            layout,
            freezer: Rc::default(),
            places: Places::new(|| place(|(parts, request)| Parts::run(parts, request))),
        })))
    }

    /// The parts that all layers of the volume share.
    pub fn core(&self) -> &Rc<Core> {
        &self.0.core
    }

    /// The layout, which decides where blocks and inodes lie.
    pub fn layout(&self) -> &dyn Layout {
        &*self.0.layout
    }

    /// The layout, if it is of this type; for what only one layout has.
    pub fn layout_as<L: Layout>(&self) -> Option<&L> {
        (&*self.0.layout as &dyn Any).downcast_ref()
    }

    /// The figures of the volume, for `statfs`.
    pub fn stat(&self) -> VolumeStat {
        self.0.layout.figures(&self.0.core).stat
    }

    /// What the layout has written since the volume was opened.
    pub fn written(&self) -> Written {
        self.0.layout.figures(&self.0.core).written
    }

    /// Makes the root directory of a new volume, under the number that was picked for it.
    pub fn make_root(&self, picked: Picked, mode: u32) -> Result<()> {
        self.0.ops.make_root(picked, mode)
    }

    /// Reads the quotas of a volume that has some; a layout calls it at the end of its start, when nothing
    /// else uses the volume. After a crash it reads all inodes.
    pub async fn start_quotas(&self) -> Result<()> {
        match self.0.core.quotas.note() {
            QuotaNote::None => Ok(()),
            _ => Box::pin(self.0.ops.start_quotas()).await,
        }
    }

    /// Finishes what a crash interrupted on an inode: frees it if it has no name, otherwise frees
    /// its blocks beyond the end of the file. If there is no room for that it is done later.
    pub async fn finish_orphan(&self, ino: Ino) -> Result<()> {
        self.0.ops.finish_orphan(ino).await
    }

    /// Adds an inode without names to the directory `lost+found` of the root, with a hash sign and
    /// its number as its name. The directory is made if it is missing. If one of these names is
    /// taken, by an earlier repair or by a file called `lost+found`, a number is appended to it.
    ///
    /// # Errors
    /// `NotFound` if the inode is free or hidden; other errors if there is no space or no root.
    pub async fn reconnect(&self, ino: Ino) -> Result<()> {
        self.0.ops.reconnect(ino).await
    }

    /// Calls [`reconnect`](Self::reconnect) for all inodes that a repair found without a name, and
    /// returns how many got one. Unless the repair is `attended`, lack of room for more names is no
    /// error.
    pub async fn reconnect_all(&self, lost: BTreeSet<Ino>, attended: bool) -> Result<u64> {
        let mut rescued = 0;
        for ino in lost {
            match self.reconnect(ino).await {
                Ok(()) => rescued += 1,
                // The inode was freed meanwhile, or is a hidden file.
                Err(FsError::NotFound) => {}
                Err(FsError::NoSpace | FsError::NoInodes) if !attended => break,
                Err(error) => return Err(error),
            }
        }
        Ok(rescued)
    }

    /// Executes one request. The future lies behind a pointer, so that the code of operations, the largest of
    /// the project, is compiled here and not in every program that uses a volume.
    pub fn execute(&self, request: Request) -> Executing {
        Executing(self.0.places.begin((Rc::clone(&self.0), request)))
    }

    /// Drops the references of all clients, makes everything durable and ends the tasks.
    ///
    /// # Errors
    /// If something could not be written. The volume then needs recovery.
    pub fn close(&self) -> BoxFuture<'static, Result<()>> {
        let parts = Rc::clone(&self.0);
        Box::pin(async move { parts.close().await })
    }

    /// Makes everything durable and lets no operation run until the result is dropped: meanwhile the
    /// device holds the state of one instant, which is after all operations that have ended and
    /// before all that begin later. Operations wait no longer than for those under way and for one
    /// sync of what became dirty during another; a cleaner may go on. `clock` says since when they
    /// wait: the time of the run may be coarse.
    pub fn freeze(&self, clock: Rc<dyn Fn() -> Time>) -> BoxFuture<'static, Result<FreezeGuard>> {
        let parts = Rc::clone(&self.0);
        Box::pin(async move { parts.freeze(&*clock).await })
    }

    /// Reads everything that is in use from the device, beside operations, and notes in `scrub` what is
    /// not what was written there. Ends early if that is cancelled.
    ///
    /// # Errors
    /// If the layout cannot be scrubbed, or the volume's own tables cannot be followed.
    pub fn scrub(&self, scrub: &Rc<Scrub>, how: ScrubHow) -> BoxFuture<'static, Result<()>> {
        let (parts, scrub) = (Rc::clone(&self.0), Rc::clone(scrub));
        Box::pin(async move { scrub::run(&parts.core, &parts.layout, &scrub, how).await })
    }

    /// Lets the volume become larger while it is in use: its device is made to have `to` bytes if that is asked for, and
    /// the volume has all of it then.
    ///
    /// # Errors
    /// `NotSupported` if the layout cannot grow, `Invalid` if it would not become larger; then nothing has changed.
    pub async fn grow(&self, to: Option<u64>) -> Result<Growth> {
        let (core, view) = (self.core(), self.0.layout.views().growth);
        let view = view.ok_or(FsError::NotSupported(NO_GROWTH))?;
        core.check_writable()?;
        let size = core.device.info().size;
        if let Some(to) = to {
            view.growth(to)?;
            if to < size {
                return Err(FsError::Invalid(
                    "the device is larger than that: without a size, the volume grows to all of it",
                ));
            }
        }
        core.device.grow(to).await.map_err(|kind| {
            let len = to.unwrap_or(size).saturating_sub(size);
            FsError::Io(IoError { op: IoKind::Write, at: size, len, kind })
        })?;
        view.grow(core).await
    }

    /// A state that is kept, and is not the head, as a volume of its own; see [`SnapshotView::open`](crate::SnapshotView::open).
    ///
    /// # Errors
    /// `NotSupported` if the layout keeps no states, and those of that method.
    pub async fn open_state(&self, name: &str, cache_bytes: u64) -> Result<Volume> {
        let view = self.0.layout.views().snapshots.ok_or(FsError::NotSupported(NO_SNAPSHOTS))?;
        let (core, layout) = view.open(&self.0.core, name, cache_bytes).await?;
        Volume::over(core, layout)
    }

    /// Deletes states that are kept; see [`SnapshotView::delete`](crate::SnapshotView::delete). Clients may be below `.twinfs/snapshots` meanwhile.
    ///
    /// # Errors
    /// `NotSupported` if the layout keeps no states, and those of that method.
    pub async fn delete_states(&self, names: &[String]) -> Result<()> {
        match &self.0.snapshots {
            Some(snapshots) => snapshots.delete(names).await,
            None => Err(FsError::NotSupported(NO_SNAPSHOTS)),
        }
    }

    /// Lets the volume's dirty data lie in memory that survives a power failure and that other
    /// volumes use too, instead of memory of its own. Nothing happens if its flush policy uses none.
    pub fn join_nvram(&self, nvram: &Rc<Nvram>) {
        join_nvram(&self.0.core, &self.0.layout, nvram);
    }
}

impl Parts {
    async fn close(&self) -> Result<()> {
        // Dropping references frees orphans, which makes blocks dirty, so it comes first. Then the
        // tasks stop, so that they begin no further write-back while the layout closes.
        if let Some(snapshots) = &self.snapshots {
            snapshots.close_all(|_| true).await?;
        }
        self.ops.drop_clients().await?;
        if self.core.poisoned().is_none() {
            self.ops.end_quotas().await?;
        }
        self.write_back.stop();
        if let Some(error) = self.core.poisoned() {
            return Err(error);
        }
        match self.core.settings.read_only {
            true => Ok(()),
            false => self.layout.sync(&self.core, SyncScope::Close).await,
        }
    }

    async fn freeze(&self, clock: &dyn Fn() -> Time) -> Result<FreezeGuard> {
        let (core, layout) = (&self.core, &self.layout);
        let has_writes = !core.settings.read_only;
        // What is dirty now is written while operations go on, so that little is left to write
        // while they wait.
        for _ in 0..EARLY_SYNCS {
            if has_writes && layout.dirty(core).bytes > LITTLE_DIRTY_BYTES {
                layout.sync(core, SyncScope::Volume).await?;
            }
        }
        let guard = self.freezer.freeze(clock).await;
        if has_writes {
            layout.sync(core, SyncScope::Volume).await?;
        }
        Ok(guard)
    }

    /// Runs one operation and then wakes the tasks that write back what it changed.
    async fn run(self: Rc<Self>, request: Request) -> Result<Reply> {
        let is_client_s = request.client != Request::NO_CLIENT;
        let observation = is_client_s.then(|| self.core.observation(&request.op)).flatten();
        if self.freezer.is_frozen() {
            self.freezer.thawed().await;
        }
        let running = self.freezer.enter();
        let result = match &self.snapshots {
            Some(snapshots) if concerns(&request.op) => {
                Box::pin(snapshots.run(&self.ops, request)).await
            }
            Some(snapshots) if finds_it(&request.op) => match self.ops.run(request).await {
                Err(FsError::NotFound) => Ok(snapshots.entry()),
                found => found,
            },
            _ => match self.ops.due(&request.op) {
                None => self.ops.run(request).await,
                due => Box::pin(self.core.rt.by(due, self.ops.run(request))).await,
            },
        };
        drop(running);
        if is_client_s {
            self.core.note_operation();
        }
        if let Some(observation) = observation {
            observation.end(&self.core.rt, result.is_err());
        }
        self.write_back.wake();
        result
    }
}

impl FileSystem for Volume {
    fn execute(&self, request: Request) -> impl Future<Output = Result<Reply>> {
        Volume::execute(self, request)
    }

    fn room(&self) -> Option<Room> {
        (!self.0.core.settings.read_only).then(|| self.0.layout.room(&self.0.core))
    }

    fn room_of(&self, ino: Ino) -> Option<u64> {
        let inode = self.0.core.cached_inode(ino)?;
        let d = inode.d.borrow();
        Some(d.allocated + d.inline.len() as u64)
    }

    fn quota_of(&self, ino: Ino) -> Option<Quota> {
        let inode = self.0.core.cached_inode(ino)?;
        let quota = inode.d.borrow().quota;
        self.0.core.quotas.get(quota)
    }

    fn due(&self, op: &Op) -> Option<Time> {
        self.0.ops.due(op)
    }

    fn held(&self) -> Vec<Ino> {
        self.0.core.held()
    }

    fn peek(&self, dir: Ino, name: &[u8]) -> Peeked {
        self.0.ops.peek(dir, name)
    }

    fn known(&self, ino: Ino) -> Option<LookupEntry> {
        let inode = self.0.core.cached_inode(ino)?;
        let generation = inode.d.borrow().generation;
        Some(LookupEntry { attr: inode.attr(), generation })
    }
}
