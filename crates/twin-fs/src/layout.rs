//! The layout seam: where blocks and inodes live.
//!
//! The volume above decides what files contain; a layout decides where that goes and when it is
//! durable. The two promises that make this work: space is promised ([`Layout::reserve`]) before
//! a block may become dirty, so write-back never meets a full volume; and every method that is
//! not `async` takes effect at once, so the volume can apply an operation as one step.

use std::rc::Rc;

use twin_cache::{FlushState, Lbn};

use crate::core::Core;
use crate::inodes::Inode;
use crate::shape::Ptr;
use crate::{Ino, Result, Room, VolumeStat};

/// How much an operation presses on space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It may add data: waits while the layout wants room to clean.
    Grow,
    /// It only removes or changes attributes: may use the last reserve, because it makes room.
    Shrink,
}

/// An inode number that was picked for a new inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    /// The number.
    pub ino: Ino,
    /// Its life's number.
    pub generation: u32,
}

/// What a layout has written to its device since it was opened. Amounts are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// All of it.
    pub bytes: u64,
    /// Of these, the data of files.
    pub data_bytes: u64,
    /// Of these, everything that leads to it.
    pub meta_bytes: u64,
    /// Of these, what a cleaner moved.
    pub moved_bytes: u64,
    /// What a cleaner read.
    pub cleaner_read_bytes: u64,
    /// Segments that a cleaner emptied.
    pub cleaned_segments: u64,
    /// Log writes, or transactions of a journal.
    pub batches: u64,
    /// Checkpoints.
    pub checkpoints: u64,
}

/// What an operation has just changed, for layouts that promise something of it before the reply.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    /// Names were made or removed: these inodes should be on the device before these directories,
    /// the directories with new names before those that only lost one.
    Names {
        /// New inodes, directories first whose own first block is new, and those whose count of
        /// names grew.
        inodes: &'a [&'a Rc<Inode>],
        /// Directories with new names.
        added: &'a [&'a Rc<Inode>],
        /// Directories that lost names.
        removed: &'a [&'a Rc<Inode>],
    },
    /// Data blocks `first..end` of a file were written.
    Written {
        /// The file.
        inode: &'a Rc<Inode>,
        /// First data block.
        first: u64,
        /// The one after the last.
        end: u64,
    },
    /// Blocks were taken out of a file.
    Cut(&'a Rc<Inode>),
}

/// Where blocks and inodes live. See the module for the rules.
#[allow(async_fn_in_trait)] // Volumes are driven on one thread: no `Send` bound is wanted.
pub trait Layout: Sized + 'static {
    /// Something held while an operation that was admitted runs.
    type Permit;

    /// Reads an inode that is not in memory. `NotFound` if the number is free or out of range.
    async fn load_inode(&self, core: &Rc<Core>, ino: Ino) -> Result<Rc<Inode>>;

    /// Picks a free inode number, near the directory `near`. It stays picked until
    /// [`born`](Self::born) or [`unpick`](Self::unpick). Space for it is not reserved yet.
    async fn pick_inode(&self, core: &Rc<Core>, near: Ino, mode: u32) -> Result<Picked>;

    /// Takes back a pick.
    fn unpick(&self, core: &Core, picked: Picked);

    /// The picked number is in use from now on.
    fn born(&self, core: &Core, inode: &Rc<Inode>);

    /// The inode has no names and no users, its blocks are freed: frees its number.
    fn free_inode(&self, core: &Core, inode: &Rc<Inode>);

    /// Notes that an inode needs work after a crash: it has no names but is open, or its
    /// truncation is under way. Or that it no longer does.
    fn set_orphan(&self, core: &Core, inode: &Inode, orphan: bool);

    /// Promises space for this many bytes of new blocks, all or nothing (`NoSpace`).
    fn reserve(&self, core: &Core, bytes: u64) -> Result<()>;

    /// Gives promised space back.
    fn unreserve(&self, core: &Core, bytes: u64);

    /// Bytes of promised space that a new inode takes.
    fn inode_bytes(&self) -> u64;

    /// The address for a block that is about to become dirty. `old` is its pointer; `len` its
    /// length on disk from now on; the space has been reserved.
    fn place(&self, core: &Core, inode: &Inode, lbn: Lbn, old: Ptr, len: u32) -> Ptr;

    /// The end of a block is cut off together with the file's length: another place for it, of the
    /// same length, if the layout can make the two one change only so; otherwise its own.
    fn recast(&self, _core: &Core, _inode: &Inode, _lbn: Lbn, ptr: Ptr) -> Ptr {
        ptr
    }

    /// A block is no longer part of the file; `len` is its promised length. Its space becomes
    /// free when that is safe.
    fn free_block(&self, core: &Core, inode: &Inode, ptr: Ptr, len: u32);

    /// Does for a change what is promised of it before the reply. Called after the step, by the
    /// operation that made the change, which holds the locks of what it changed.
    async fn settle(&self, _core: &Rc<Core>, _change: Change<'_>) -> Result<()> {
        Ok(())
    }

    /// True if there is something for the flusher.
    fn has_dirty(&self, core: &Core) -> bool {
        core.dirty_inode_count() > 0
    }

    /// Waits until an operation that makes up to `bytes` dirty may begin.
    async fn admit(&self, core: &Rc<Core>, bytes: u64, need: Need) -> Result<Self::Permit>;

    /// What the flush policy should look at.
    fn flush_state(&self, core: &Core) -> FlushState;

    /// Writes dirty blocks that became dirty at or before `until`, and perhaps more.
    async fn write_back(&self, core: &Rc<Core>, until: twin_rt::Time) -> Result<()>;

    /// Makes a file and the names that lead to it durable.
    async fn fsync(&self, core: &Rc<Core>, inode: &Rc<Inode>, data_only: bool) -> Result<()>;

    /// Makes everything durable.
    async fn sync(&self, core: &Rc<Core>) -> Result<()>;

    /// Makes everything durable and the next start quick: the last act before a volume is closed.
    async fn close(&self, core: &Rc<Core>) -> Result<()>;

    /// What [`reserve`](Self::reserve) would promise at most: asked after every write, so it must
    /// be cheap.
    fn room(&self, core: &Core) -> Room;

    /// What was written since the volume was opened.
    fn written(&self) -> Written;

    /// The segment that a byte of the device lies in, and where in it; none if there are no segments.
    fn segment_at(&self, _byte: u64) -> Option<(u32, u64)> {
        None
    }

    /// The volume's figures.
    fn stat(&self, core: &Core) -> VolumeStat;
}
