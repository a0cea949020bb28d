//! The layout seam: where blocks and inodes lie on the device.
//!
//! The volume above decides what files contain; a layout decides where the contents lie and when
//! they are durable. Two guarantees make this work. Space is reserved ([`Layout::reserve`]) before
//! a block may become dirty, so write-back never finds a full volume. Every method that is not
//! `async` takes effect at once, so the volume can apply an operation as one step.

use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::Io;

use crate::core::Core;
use crate::flushing::Chosen;
use crate::geometry::Ptr;
use crate::inodes::Inode;
use crate::{FsError, Ino, LogStatus, Result, Room, SpaceMap, VolumeStat};

/// Whether an operation needs more space. Admission depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The operation may add data; it waits while the layout needs the room for cleaning.
    Grow,
    /// The operation only removes data or changes attributes; it may use the last reserve, because
    /// it makes room.
    Shrink,
}

/// Adjacent blocks of a file, and the place on the device that they are to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldRun {
    /// The first block's number in the file; negative for an indirect block.
    pub lbn: Lbn,
    /// The first byte on the device.
    pub at: u64,
    /// Bytes on the device; the last block may be shorter than a block.
    pub bytes: u64,
}

/// What a layout is told of the places that blocks are to have, while a volume is made as a copy.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// These places are for files that come: nothing else goes there.
    Hold(&'a [ToldRun]),
    /// The blocks of this file lie here, in places that are held; without a number, those of the next
    /// file of which nothing was told.
    File(Option<Ino>, &'a [ToldRun]),
    /// There is no more: places that are held and were not taken become free.
    End,
}

/// A free inode number that an operation has taken for a new inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    /// The number.
    pub ino: Ino,
    /// The generation of the new inode.
    pub generation: u32,
}

/// The amounts that a layout has written to its device since it was opened. They are bytes unless
/// the name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// All bytes written.
    pub bytes: u64,
    /// Of `bytes`, the data of files.
    pub data_bytes: u64,
    /// Of `bytes`, the metadata.
    pub meta_bytes: u64,
    /// Of `bytes`, the contents of files that users wrote: neither directories nor other metadata,
    /// and nothing that the cleaner moved. Contents that are kept in an inode are metadata here.
    pub new_data_bytes: u64,
    /// Of `bytes`, the blocks that the cleaner moved.
    pub moved_bytes: u64,
    /// Bytes that the cleaner read.
    pub cleaner_read_bytes: u64,
    /// Number of segments that the cleaner emptied.
    pub cleaned_segments: u64,
    /// Number of operations that waited for the cleaner to make room.
    pub space_waits: u64,
    /// Number of log writes, or of transactions of a journal.
    pub batches: u64,
    /// Number of checkpoints.
    pub checkpoints: u64,
}

/// The write cost: bytes moved to and from the disk, metadata and cleaning included, for each byte
/// of new data (Rosenblum and Ousterhout 1991, section 3.4).
///
/// New data is [`Written::new_data_bytes`]. Metadata is a cost and no data, because otherwise a
/// policy that causes more of it would look better. So the cost of a log is above 1 even without
/// cleaning. `None` if there is no new data.
pub fn write_cost(written_bytes: u64, cleaner_read_bytes: u64, new_data_bytes: u64) -> Option<f64> {
    let moved = written_bytes + cleaner_read_bytes;
    (new_data_bytes > 0).then(|| moved as f64 / new_data_bytes as f64)
}

/// What an operation has just changed, for layouts that make parts of it durable before the reply.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    /// Names were made or removed. The inodes should reach the device before the directories, and
    /// the directories in `added` before those in `removed`.
    Names {
        /// New inodes, new directories first because their first blocks are new too, and inodes
        /// whose link count grew.
        inodes: &'a [&'a Rc<Inode>],
        /// Directories that got new names.
        added: &'a [&'a Rc<Inode>],
        /// Directories that only lost names.
        removed: &'a [&'a Rc<Inode>],
    },
    /// Data blocks `first..end` of a file were written.
    Written {
        /// The inode of the file.
        inode: &'a Rc<Inode>,
        /// The first block that was written.
        first: u64,
        /// The block after the last one that was written.
        end: u64,
    },
    /// Blocks were removed from this file.
    Cut(&'a Rc<Inode>),
}

/// What waits to be written back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dirty {
    /// Bytes of blocks and inodes.
    pub bytes: u64,
    /// True if there is something to write, even if it is only in the layout's own maps.
    pub any: bool,
    /// The number of bytes that the layout prefers to write at once: a segment or a cluster.
    pub unit_bytes: u64,
}

/// Decides where blocks and inodes lie on the device. See the module for the rules.
#[allow(async_fn_in_trait)] // Volumes are driven on one thread: no `Send` bound is wanted.
pub trait Layout: Sized + 'static {
    /// The guard that an admitted operation holds while it runs; dropping it returns the bytes.
    type AdmissionGuard;

    /// Reads an inode that is not in memory. Fails with `NotFound` if the number is free or out of
    /// range.
    async fn load_inode(&self, core: &Rc<Core>, ino: Ino) -> Result<Rc<Inode>>;

    /// Picks a free inode number, near the directory `near`. It stays picked until
    /// [`inode_created`](Self::inode_created) or [`unpick`](Self::unpick). This does not reserve
    /// space.
    async fn pick_inode(&self, core: &Rc<Core>, near: Ino, mode: u32) -> Result<Picked>;

    /// Gives a picked number back, because no inode was made with it.
    fn unpick(&self, core: &Core, picked: Picked);

    /// Called when an inode was made with a picked number: the number is in use from now on.
    fn inode_created(&self, core: &Core, inode: &Rc<Inode>);

    /// Frees the number of an inode that has no names and no users and whose blocks are freed.
    fn free_inode(&self, core: &Core, inode: &Rc<Inode>);

    /// Notes whether recovery has to finish work on an inode after a crash: the inode has no names
    /// but is open, or its truncation is under way.
    fn set_orphan(&self, core: &Core, inode: &Inode, orphan: bool);

    /// Reserves space for this many bytes of new blocks. If not all of them can be reserved, it
    /// reserves none and fails with `NoSpace`.
    fn reserve(&self, core: &Core, bytes: u64) -> Result<()>;

    /// Returns reserved space that is not needed.
    fn unreserve(&self, core: &Core, bytes: u64);

    /// The bytes of space to reserve for a new inode.
    fn inode_bytes(&self) -> u64;

    /// Returns the new pointer of a block that is about to become dirty. `old` is its current
    /// pointer and `len` its length on disk from now on. The caller has reserved the space.
    fn place(&self, core: &Core, inode: &Inode, lbn: Lbn, old: Ptr, len: u32) -> Ptr;

    /// Called when a truncation zeroes the end of a block and shortens the file. A layout that can
    /// make the two changes atomic only by writing the block elsewhere returns another place of the
    /// same length; others return `ptr`.
    fn relocate_tail(&self, _core: &Core, _inode: &Inode, _lbn: Lbn, ptr: Ptr) -> Ptr {
        ptr
    }

    /// Frees a block that is no longer part of the file; `len` is its reserved length. The layout
    /// reuses the space only when that is safe.
    fn free_block(&self, core: &Core, inode: &Inode, ptr: Ptr, len: u32);

    /// Makes those parts of a change durable that the layout's ordering promises before the reply.
    /// The operation calls it after the step that made the change, while it still holds the locks
    /// of the inodes that it changed.
    async fn enforce_ordering(&self, _core: &Rc<Core>, _change: Change<'_>) -> Result<()> {
        Ok(())
    }

    /// Called before a file takes the name of another one: starts to write the data of `source`, in such
    /// a way that the name is never durable without it. Then the name leads to the old bytes or to the
    /// new ones after a crash, although nobody asked for that with an fsync (ext4's rule,
    /// `auto_da_alloc`). A layout that writes names and data in one step has nothing to do.
    async fn before_replace(&self, _core: &Rc<Core>, _source: &Rc<Inode>) -> Result<()> {
        Ok(())
    }

    /// True if the flusher has work.
    fn has_dirty(&self, core: &Core) -> bool {
        core.dirty_inode_count() > 0
    }

    /// Waits until an operation that makes up to `bytes` dirty may begin.
    async fn admit(&self, core: &Rc<Core>, bytes: u64, need: Need) -> Result<Self::AdmissionGuard>;

    /// The amount of dirty data, from which the flush policy decides.
    fn dirty(&self, core: &Core) -> Dirty;

    /// Writes all dirty data. At the moment when the layout takes the data it calls
    /// [`Core::forget_dirty`].
    async fn write_back(&self, core: &Rc<Core>) -> Result<()>;

    /// Writes these dirty files, or of each the blocks that are named, and what must go with them so
    /// that a crash leaves a consistent volume, not more. The files are in the order in which they
    /// became dirty; some may have become clean meanwhile. A layout that can only write everything
    /// does that.
    async fn write_some(&self, core: &Rc<Core>, _chosen: Vec<Chosen>) -> Result<()> {
        self.write_back(core).await
    }

    /// Waits until the device has completed what write-back has sent to it so far; with `durable`,
    /// until that is certain to survive a power failure.
    async fn settle(&self, core: &Rc<Core>, durable: bool) -> Result<()>;

    /// What memory that survives a power failure holds at this instant, as writes that recovery
    /// applies to the device, in order, before it opens the volume: everything that is dirty or not
    /// known to be durable. Takes it as write-back does, so the volume must not be used afterwards.
    /// `None` if the layout cannot recover from memory.
    ///
    /// It is asked only of volumes whose flush policy keeps data in such memory.
    fn preserve(&self, _core: &Rc<Core>) -> Option<Result<Vec<Io>>> {
        None
    }

    /// Makes a file and the names that lead to it durable.
    async fn fsync(&self, core: &Rc<Core>, inode: &Rc<Inode>, data_only: bool) -> Result<()>;

    /// Makes everything durable.
    async fn sync(&self, core: &Rc<Core>) -> Result<()>;

    /// Makes everything durable and marks the volume as closed, so that the next start needs no
    /// recovery. It is the last call for a volume.
    async fn close(&self, core: &Rc<Core>) -> Result<()>;

    /// The most that [`reserve`](Self::reserve) would reserve now. It is called after every write
    /// and must be cheap.
    fn room(&self, core: &Core) -> Room;

    /// The amounts written since the volume was opened.
    fn written(&self) -> Written;

    /// The number of the segment that a byte of the device lies in, and the offset in that segment;
    /// `None` if the layout has no segments.
    fn segment_at(&self, _byte: u64) -> Option<(u32, u64)> {
        None
    }

    /// The status of the log; `None` if the layout has no log.
    fn log_status(&self, _core: &Core) -> Option<LogStatus> {
        None
    }

    /// Chooses the places of blocks that files get later.
    ///
    /// # Errors
    /// If the layout lets nobody choose, or a place that is to be held is not free; then none is.
    fn tell_places(&self, _core: &Core, _told: Told<'_>) -> Result<()> {
        Err(FsError::NotSupported("places that are chosen by others"))
    }

    /// How full the regions of the volume are.
    fn space_map(&self, core: &Core) -> SpaceMap;

    /// The figures of the volume, for `statfs`.
    fn stat(&self, core: &Core) -> VolumeStat;
}

#[cfg(test)]
mod tests {
    use super::write_cost;

    #[test]
    fn more_metadata_for_the_same_data_costs_more() {
        let with_metadata = |bytes: u64| write_cost(1000 + bytes, 0, 1000).unwrap();
        assert_eq!(with_metadata(0), 1.0);
        assert!(with_metadata(500) > with_metadata(100));
    }

    #[test]
    fn without_new_data_there_is_no_write_cost() {
        assert_eq!(write_cost(5000, 1000, 0), None);
    }
}
