//! An open volume of whatever layout.
//!
//! Contract: [`OpenVolume`] is what programs, simulations and flights hold, so that none of them is
//! written, or compiled, once for each layout. An operation on it costs one indirect call more than
//! on the [`Volume`] itself.

use std::any::Any;
use std::ops::Deref;
use std::rc::Rc;

use twin_rt::BoxFuture;

use crate::core::Core;
use crate::layout::{Layout, Written};
use crate::running::Execution;
use crate::volume::Volume;
use crate::{FileSystem, Ino, Reply, Request, Result, Room, VolumeStat};

/// A [`Volume`] without its layout's type.
pub trait AnyVolume: Any {
    /// What the parts of the volume share.
    fn core(&self) -> &Rc<Core>;

    /// Executes one request.
    fn execute(&self, request: Request) -> Execution<'_>;

    /// Takes the references of all clients back, makes everything durable and ends the tasks.
    ///
    /// # Errors
    /// If something could not be written: the volume needs recovery.
    fn close(&self) -> BoxFuture<'static, Result<()>>;

    /// As [`FileSystem::room`].
    fn room(&self) -> Option<Room>;

    /// As [`FileSystem::room_of`].
    fn room_of(&self, ino: Ino) -> Option<u64>;

    /// As [`FileSystem::held`].
    fn held(&self) -> Vec<Ino>;

    /// The volume's figures.
    fn stat(&self) -> VolumeStat;

    /// What was written so far.
    fn written(&self) -> Written;

    /// The segment that a byte of the device lies in, and where in it; none if there are no segments.
    fn segment_at(&self, byte: u64) -> Option<(u32, u64)>;
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

    fn room(&self) -> Option<Room> {
        FileSystem::room(self)
    }

    fn room_of(&self, ino: Ino) -> Option<u64> {
        FileSystem::room_of(self, ino)
    }

    fn held(&self) -> Vec<Ino> {
        FileSystem::held(self)
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
}

/// A counted reference to an open volume of whatever layout.
#[derive(Clone)]
pub struct OpenVolume(Rc<dyn AnyVolume>);

impl OpenVolume {
    /// Of a volume of this layout.
    pub fn new<L: Layout>(volume: Rc<Volume<L>>) -> OpenVolume {
        OpenVolume(volume)
    }

    /// The volume with its layout's type, if it is of this layout: for what only one layout has.
    pub fn of_layout<L: Layout>(&self) -> Option<&Volume<L>> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// A reference that does not keep the volume.
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
}
