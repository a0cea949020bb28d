//! The volume: operations on top of a layout, and the tasks that write back what they change.
//!
//! Contract: [`Volume::execute`] may be called any number of times at once, on one thread. The
//! layers, each using only those below: operations ([`ops`](crate::ops)), directories
//! ([`dir`](crate::dir)), inodes without names ([`orphans`](crate::orphans)), file data
//! ([`data`](crate::data)), the layout, and inodes with what every layer shares ([`Core`]).

use std::rc::Rc;

use twin_rt::BoxFuture;

use crate::core::Core;
use crate::layout::{Layout, Picked};
use crate::ops::Operations;
use crate::running::{Execution, Runners};
use crate::write_back::WriteBack;
use crate::{FileSystem, Ino, Reply, Request, Result, Room};

/// A file system: names and files, over a layout. Made by the layout's `open`.
pub struct Volume<L: Layout> {
    /// What all parts share.
    pub core: Rc<Core>,
    /// Where blocks and inodes live.
    pub layout: Rc<L>,
    ops: Operations<L>,
    write_back: Rc<WriteBack<L>>,
    runners: Runners,
}

impl<L: Layout> Volume<L> {
    /// A volume over an opened layout, with its flusher running.
    ///
    /// # Errors
    /// If the settings name a policy that does not exist.
    pub fn new(core: Rc<Core>, layout: L) -> Result<Rc<Volume<L>>> {
        let layout = Rc::new(layout);
        let write_back = WriteBack::start(&core, &layout)?;
        Ok(Rc::new_cyclic(|this| Volume {
            ops: Operations::new(&core, &layout),
            core,
            layout,
            write_back,
            runners: Runners::new(this, Volume::run, Volume::close_now),
        }))
    }

    /// Makes the root directory of a new volume, under the number that was picked for it.
    ///
    /// # Errors
    /// If there is no space.
    pub fn make_root(&self, picked: Picked, mode: u32) -> Result<()> {
        self.ops.make_root(picked, mode)
    }

    /// Goes on with what a crash interrupted: frees inodes without names, cuts what is past the
    /// end of files that were being cut. What there is no room for is done later.
    ///
    /// # Errors
    /// If the inode cannot be read or changed.
    pub async fn finish_orphan(&self, ino: Ino) -> Result<()> {
        self.ops.finish_orphan(ino).await
    }

    /// Gives an inode without names one, its number with a hash sign, in the directory
    /// `lost+found` of the root, which is made if need be. A name that is taken, by an earlier
    /// repair or by a file `lost+found`, gets a number behind it.
    ///
    /// # Errors
    /// `NotFound` if the inode is free or hidden; otherwise if there is no space, or no root.
    pub async fn adopt(&self, ino: Ino) -> Result<()> {
        self.ops.adopt(ino).await
    }

    /// Executes one request.
    pub(crate) fn execution(&self, request: Request) -> Execution<'_> {
        Execution::new(&self.runners, request)
    }

    /// Takes the references of all clients back, makes everything durable and ends the tasks.
    ///
    /// # Errors
    /// If something could not be written: the volume needs recovery.
    pub fn close(&self) -> BoxFuture<'static, Result<()>> {
        self.runners.close()
    }

    async fn close_now(self: Rc<Self>) -> Result<()> {
        self.ops.drop_clients().await?;
        self.write_back.stop();
        if let Some(error) = self.core.poisoned() {
            return Err(error);
        }
        if self.core.settings.read_only { Ok(()) } else { self.layout.close(&self.core).await }
    }

    /// An operation with all that belongs to it: what [`Execution`] runs.
    async fn run(self: Rc<Self>, request: Request) -> Result<Reply> {
        let result = self.ops.run(request).await;
        self.write_back.wake();
        result
    }
}

impl<L: Layout> FileSystem for Volume<L> {
    fn execute(&self, request: Request) -> impl Future<Output = Result<Reply>> {
        self.execution(request)
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
