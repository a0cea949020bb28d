//! An open volume of any layout.
//!
//! Contract: programs, simulations and flights hold an [`OpenVolume`], so that none of them is
//! written or compiled once for each layout. An operation on it costs one more indirect call than
//! on the [`Volume`] itself.

use std::any::Any;
use std::ops::Deref;
use std::rc::Rc;

use twin_rt::{BoxFuture, Time};

use crate::core::Core;
use crate::dirty_limit::join_nvram;
use crate::entrance::Still;
use crate::layout::{Layout, Told, Written};
use crate::nvram::Nvram;
use crate::running::Execution;
use crate::volume::Volume;
use crate::{
    FileSystem, Ino, LogStatus, LookupEntry, Peeked, Reply, Request, Result, Room, SpaceMap,
    VolumeStat,
};

/// The functions of a [`Volume`] that do not depend on the type of its layout.
pub trait AnyVolume: Any {
    /// The parts that all layers of the volume share.
    fn core(&self) -> &Rc<Core>;

    /// Executes one request.
    fn execute(&self, request: Request) -> Execution<'_>;

    /// Drops the references of all clients, makes everything durable and ends the tasks.
    ///
    /// # Errors
    /// If something could not be written. The volume then needs recovery.
    fn close(&self) -> BoxFuture<'static, Result<()>>;

    /// Makes everything durable and lets no operation run until the result is dropped: meanwhile the
    /// device holds the state of one instant, which is after all operations that have ended and
    /// before all that begin later. Operations wait no longer than for those under way and for one
    /// sync of what became dirty during another; a cleaner may go on. `clock` says since when they wait:
    /// the time of the run may be coarse.
    ///
    /// # Errors
    /// If something cannot be written.
    fn hold_still(&self, clock: Rc<dyn Fn() -> Time>) -> BoxFuture<'static, Result<Still>>;

    /// Lets the volume's dirty data lie in memory that survives a power failure and that other
    /// volumes use too, instead of memory of its own. Nothing happens if its flush policy uses none.
    fn join_nvram(&self, nvram: &Rc<Nvram>);

    /// See [`FileSystem::room`].
    fn room(&self) -> Option<Room>;

    /// See [`FileSystem::room_of`].
    fn room_of(&self, ino: Ino) -> Option<u64>;

    /// See [`FileSystem::held`].
    fn held(&self) -> Vec<Ino>;

    /// See [`FileSystem::peek`].
    fn peek(&self, dir: Ino, name: &[u8]) -> Peeked;

    /// See [`FileSystem::known`].
    fn known(&self, ino: Ino) -> Option<LookupEntry>;

    /// The figures of the volume, for `statfs`.
    fn stat(&self) -> VolumeStat;

    /// What the layout has written since the volume was opened.
    fn written(&self) -> Written;

    /// The number of the segment that a byte of the device lies in, and the offset in that segment;
    /// `None` if the layout has no segments.
    fn segment_at(&self, byte: u64) -> Option<(u32, u64)>;

    /// The status of the log; `None` if the layout has no log.
    fn log_status(&self) -> Option<LogStatus>;

    /// See [`Layout::tell_places`].
    ///
    /// # Errors
    /// If the layout lets nobody choose, or a place is not free.
    fn tell_places(&self, told: Told<'_>) -> Result<()>;

    /// How full the regions of the volume are.
    fn space_map(&self) -> SpaceMap;
}

impl<L: Layout> AnyVolume for Volume<L> {
    fn core(&self) -> &Rc<Core> {
        &self.core
    }

    fn execute(&self, request: Request) -> Execution<'_> {
        self.execution(request)
    }

    fn close(&self) -> BoxFuture<'static, Result<()>> {
        Volume::close(self)
    }

    fn hold_still(&self, clock: Rc<dyn Fn() -> Time>) -> BoxFuture<'static, Result<Still>> {
        self.still(clock)
    }

    fn join_nvram(&self, nvram: &Rc<Nvram>) {
        join_nvram(&self.core, &self.layout, nvram);
    }

    fn room(&self) -> Option<Room> {
        FileSystem::room(self)
    }

    fn room_of(&self, ino: Ino) -> Option<u64> {
        FileSystem::room_of(self, ino)
    }

    fn held(&self) -> Vec<Ino> {
        FileSystem::held(self)
    }

    fn peek(&self, dir: Ino, name: &[u8]) -> Peeked {
        FileSystem::peek(self, dir, name)
    }

    fn known(&self, ino: Ino) -> Option<LookupEntry> {
        FileSystem::known(self, ino)
    }

    fn stat(&self) -> VolumeStat {
        self.layout.stat(&self.core)
    }

    fn written(&self) -> Written {
        self.layout.written()
    }

    fn segment_at(&self, byte: u64) -> Option<(u32, u64)> {
        self.layout.segment_at(byte)
    }

    fn log_status(&self) -> Option<LogStatus> {
        self.layout.log_status(&self.core)
    }

    fn tell_places(&self, told: Told<'_>) -> Result<()> {
        self.layout.tell_places(&self.core, told)
    }

    fn space_map(&self) -> SpaceMap {
        self.layout.space_map(&self.core)
    }
}

/// A counted reference to an open volume of any layout.
#[derive(Clone)]
pub struct OpenVolume(Rc<dyn AnyVolume>);

impl OpenVolume {
    /// Wraps a volume, and so hides the type of its layout.
    pub fn new<L: Layout>(volume: Rc<Volume<L>>) -> OpenVolume {
        OpenVolume(volume)
    }

    /// The volume with the type of its layout, if that is `L`; for features that only one layout
    /// has.
    pub fn of_layout<L: Layout>(&self) -> Option<&Volume<L>> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// A weak reference, which does not keep the volume in existence.
    pub fn downgrade(&self) -> std::rc::Weak<dyn AnyVolume> {
        Rc::downgrade(&self.0)
    }
}

impl Deref for OpenVolume {
    type Target = dyn AnyVolume;

    fn deref(&self) -> &dyn AnyVolume {
        &*self.0
    }
}

impl FileSystem for OpenVolume {
    fn execute(&self, request: Request) -> impl Future<Output = Result<Reply>> {
        self.0.execute(request)
    }

    fn room(&self) -> Option<Room> {
        self.0.room()
    }

    fn room_of(&self, ino: Ino) -> Option<u64> {
        self.0.room_of(ino)
    }

    fn held(&self) -> Vec<Ino> {
        self.0.held()
    }

    fn peek(&self, dir: Ino, name: &[u8]) -> Peeked {
        self.0.peek(dir, name)
    }

    fn known(&self, ino: Ino) -> Option<LookupEntry> {
        self.0.known(ino)
    }
}
