//! The volume: operations on top of a layout, and the tasks that write back what they change.
//!
//! Contract: [`Volume::execute`] may be called any number of times at once, on one thread. The
//! layers, each using only those below: operations ([`ops`](crate::ops)), directories
//! ([`dir`](crate::dir)), inodes without names ([`orphans`](crate::orphans)), file data
//! ([`data`](crate::data)), the layout, and inodes with what every layer shares ([`Core`]).

use std::collections::BTreeSet;
use std::rc::Rc;

use twin_rt::{BoxFuture, Time};

use crate::core::Core;
use crate::entrance::{Entrance, Still};
use crate::layout::{Layout, Picked};
use crate::ops::Operations;
use crate::running::{Execution, Runners};
use crate::write_back::WriteBack;
use crate::{FileSystem, FsError, Ino, LookupEntry, Peeked, Reply, Request, Result, Room};

/// How often everything is written before operations have to wait for a still volume.
const EARLY_SYNCS: u32 = 3;
/// So few dirty bytes may be written while they wait.
const LITTLE_DIRTY_BYTES: u64 = 256 << 10;

/// A file system: names and files, over a layout. The layout's `open` makes it.
pub struct Volume<L: Layout> {
    /// The parts that all layers share.
    pub core: Rc<Core>,
    /// The layout, which decides where blocks and inodes lie.
    pub layout: Rc<L>,
    ops: Operations<L>,
    write_back: Rc<WriteBack<L>>,
    runners: Runners,
    entrance: Rc<Entrance>,
}

impl<L: Layout> Volume<L> {
    /// A volume over an opened layout. Its flusher and committer are started.
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
            entrance: Rc::default(),
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

    /// Finishes what a crash interrupted on an inode: frees it if it has no name, otherwise frees
    /// its blocks beyond the end of the file. If there is no room for that it is done later.
    ///
    /// # Errors
    /// If the inode cannot be read or changed.
    pub async fn finish_orphan(&self, ino: Ino) -> Result<()> {
        self.ops.finish_orphan(ino).await
    }

    /// Adds an inode without names to the directory `lost+found` of the root, with a hash sign and
    /// its number as its name. The directory is made if it is missing. If one of these names is
    /// taken, by an earlier repair or by a file called `lost+found`, a number is appended to it.
    ///
    /// # Errors
    /// `NotFound` if the inode is free or hidden; other errors if there is no space or no root.
    pub async fn reconnect(&self, ino: Ino) -> Result<()> {
        self.ops.reconnect(ino).await
    }

    /// Calls [`reconnect`](Self::reconnect) for all inodes that a repair found without a name, and
    /// returns how many got one. Unless the repair is `attended`, lack of room for more names is no
    /// error.
    ///
    /// # Errors
    /// As for [`reconnect`](Self::reconnect).
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

    /// Executes one request.
    pub(crate) fn execution(&self, request: Request) -> Execution<'_> {
        Execution::new(&self.runners, request)
    }

    /// Drops the references of all clients, makes everything durable and ends the tasks.
    ///
    /// # Errors
    /// If something could not be written. The volume then needs recovery.
    pub fn close(&self) -> BoxFuture<'static, Result<()>> {
        self.runners.close()
    }

    async fn close_now(self: Rc<Self>) -> Result<()> {
        // Dropping references frees orphans, which makes blocks dirty, so it comes first. Then the
        // tasks stop, so that they begin no further write-back while the layout closes.
        self.ops.drop_clients().await?;
        self.write_back.stop();
        if let Some(error) = self.core.poisoned() {
            return Err(error);
        }
        if self.core.settings.read_only { Ok(()) } else { self.layout.close(&self.core).await }
    }

    /// See [`AnyVolume::hold_still`](crate::AnyVolume::hold_still).
    pub(crate) fn still(&self, clock: Rc<dyn Fn() -> Time>) -> BoxFuture<'static, Result<Still>> {
        let (core, layout) = (Rc::clone(&self.core), Rc::clone(&self.layout));
        let entrance = Rc::clone(&self.entrance);
        Box::pin(async move {
            let has_writes = !core.settings.read_only;
            // What is dirty now is written while operations go on, so that little is left to write
            // while they wait.
            for _ in 0..EARLY_SYNCS {
                if has_writes && layout.dirty(&core).bytes > LITTLE_DIRTY_BYTES {
                    layout.sync(&core).await?;
                }
            }
            let still = entrance.close(&*clock).await;
            if has_writes {
                layout.sync(&core).await?;
            }
            Ok(still)
        })
    }

    /// Runs one operation and then wakes the tasks that write back what it changed. [`Execution`]
    /// calls this.
    async fn run(self: Rc<Self>, request: Request) -> Result<Reply> {
        let is_client_s = request.client != Request::NO_CLIENT;
        let observation = is_client_s.then(|| self.core.observation(&request.op)).flatten();
        if self.entrance.is_closed() {
            self.entrance.opened().await;
        }
        let inside = self.entrance.enter();
        let result = self.ops.run(request).await;
        drop(inside);
        self.core.note_operation();
        if let Some(observation) = observation {
            observation.end();
        }
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

    fn peek(&self, dir: Ino, name: &[u8]) -> Peeked {
        self.ops.peek(dir, name)
    }

    fn known(&self, ino: Ino) -> Option<LookupEntry> {
        let inode = self.core.cached_inode(ino)?;
        let generation = inode.d.borrow().generation;
        Some(LookupEntry { attr: inode.attr(), generation })
    }
}
