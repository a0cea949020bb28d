//! The layout seam: where blocks and inodes lie on the device.
//!
//! The volume above decides what files contain; a layout decides where the contents lie and when
//! they are durable. Two guarantees make this work. Space is reserved ([`Layout::reserve`]) before
//! a block may become dirty, so write-back never finds a full volume. Every method that returns no
//! future takes effect at once, so the volume can apply an operation as one step.
//!
//! A layout has sixteen methods. What only some layouts can do (promise an order of writes, keep a
//! log, take placement hints, be scrubbed) are [`Views`] that a layout offers.

use std::any::Any;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use twin_cache::Lbn;
use twin_rt::BoxFuture;

use crate::admission::AdmissionGuard;
use crate::core::Core;
use crate::flushing::Chosen;
use crate::geometry::Ptr;
use crate::inodes::Inode;
use crate::scrub_view::ScrubView;
use crate::snapshots::{Keep, States};
use crate::{CleanerCounts, Ino, LogStatus, Result, Room, SegmentStatus, SpaceMap, VolumeStat};

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
pub struct HintedRun {
    /// The first block's number in the file; negative for an indirect block.
    pub lbn: Lbn,
    /// The first byte on the device.
    pub at: u64,
    /// Bytes on the device; the last block may be shorter than a block.
    pub bytes: u64,
}

/// A free inode number that an operation has taken for a new inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    /// The inode number.
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
    /// The number of checkpoints.
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
    /// True if a flusher that waits should begin to look at the dirty data.
    pub wakes_flusher: bool,
    /// The number of bytes that the layout prefers to write at once: a segment or a cluster.
    pub unit_bytes: u64,
}

/// A step in the life of an inode number.
#[derive(Clone, Copy)]
pub enum InodeEvent<'a> {
    /// A picked number is given back, because no inode was made with it.
    Unpicked(Picked),
    /// An inode was made with a picked number: the number is in use from now on.
    Created(&'a Rc<Inode>),
    /// Recovery has to finish work on the inode after a crash: it has no names but is open, or its
    /// truncation is under way.
    Orphaned(&'a Inode),
    /// Recovery has no work with the inode any more.
    Adopted(&'a Inode),
    /// The inode has no names, no users and no blocks: its number becomes free.
    Freed(&'a Rc<Inode>),
}

/// What [`Layout::sync`] makes durable.
#[derive(Clone, Copy)]
pub enum SyncScope<'a> {
    /// A file and the names that lead to it.
    File {
        /// The inode of the file.
        inode: &'a Rc<Inode>,
        /// Attributes that are not needed to read the data may stay behind.
        data_only: bool,
    },
    /// All files, names and attributes of the volume.
    Volume,
    /// That, and what the layout notes of the volume as a whole: the note about
    /// [quotas](crate::quota::QuotaNote).
    Checkpoint,
    /// Everything, and the note that the volume was closed, so that the next start needs no
    /// recovery. It is the last call for a volume.
    Close,
}

/// The figures of a volume, for `statfs` and for observers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Sizes and free space.
    pub stat: VolumeStat,
    /// The amounts written since the volume was opened.
    pub written: Written,
}

/// The answer of a layout: at hand, or to be awaited. An answer that is at hand allocates nothing,
/// which matters where each operation asks.
pub enum Answer<'a, T> {
    /// At hand, until it is taken.
    Ready(Option<T>),
    /// Not at hand yet.
    Pending(BoxFuture<'a, T>),
}

impl<'a, T> Answer<'a, T> {
    /// An answer that is at hand.
    pub fn ready(answer: T) -> Answer<'a, T> {
        Answer::Ready(Some(answer))
    }

    /// The answer of a future, which is not polled before the answer is.
    pub fn later(future: impl Future<Output = T> + 'a) -> Answer<'a, T> {
        Answer::Pending(Box::pin(future))
    }
}

impl<T: Unpin> Future for Answer<'_, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match self.get_mut() {
            Answer::Ready(answer) => match answer.take() {
                Some(answer) => Poll::Ready(answer),
                None => unreachable!("polled after it was ready"),
            },
            Answer::Pending(future) => future.as_mut().poll(context),
        }
    }
}

/// Decides where blocks and inodes lie on the device. See the module for the rules.
///
/// The life of a change: the operation is admitted ([`admit`](Self::admit)), may pick a number for a
/// new inode, reserves space for the blocks that it will make dirty ([`reserve`](Self::reserve)), and
/// then changes blocks in one step ([`place`](Self::place), [`free_block`](Self::free_block)). Later
/// the flusher ([`write_back`](Self::write_back)) or a client ([`sync`](Self::sync)) has them written.
pub trait Layout: Any {
    /// Reads an inode that is not in memory. Fails with `NotFound` if the number is free or out of
    /// range.
    fn load_inode<'a>(&'a self, core: &'a Rc<Core>, ino: Ino) -> BoxFuture<'a, Result<Rc<Inode>>>;

    /// Picks a free inode number, near the directory `near`. It stays picked until an
    /// [`InodeEvent`] creates the inode or gives the number back. This does not reserve space.
    fn pick_inode<'a>(
        &'a self,
        core: &'a Rc<Core>,
        near: Ino,
        mode: u32,
    ) -> BoxFuture<'a, Result<Picked>>;

    /// Follows the life of an inode number.
    fn inode_event(&self, core: &Core, event: InodeEvent<'_>);

    /// Waits until an operation that makes up to `bytes` dirty may begin. The operation holds the
    /// guard while it runs.
    fn admit<'a>(
        &'a self,
        core: &'a Rc<Core>,
        bytes: u64,
        need: Need,
    ) -> Answer<'a, Result<AdmissionGuard>>;

    /// Reserves space for this many bytes of new blocks. If not all of them can be reserved, it
    /// reserves none and fails with `NoSpace`.
    fn reserve(&self, core: &Core, bytes: u64) -> Result<()>;

    /// Returns reserved space that is not needed.
    fn release(&self, core: &Core, bytes: u64);

    /// Returns the new pointer of a block that is about to become dirty. `old` is its current
    /// pointer and `len` its length on disk from now on. The caller has reserved the space.
    fn place(&self, core: &Core, inode: &Inode, lbn: Lbn, old: Ptr, len: u32) -> Ptr;

    /// Frees a block that is no longer part of the file; `len` is its reserved length. The layout
    /// reuses the space only when that is safe.
    fn free_block(&self, core: &Core, inode: &Inode, ptr: Ptr, len: u32);

    /// The amount of dirty data, from which the flush policy decides. It is called after every
    /// operation and must be cheap.
    fn dirty(&self, core: &Core) -> Dirty;

    /// Writes the chosen dirty files, or of each the blocks that are named, and what must go with
    /// them so that a crash leaves a consistent volume, not more; without a choice all dirty data. The
    /// files are in the order in which they became dirty; some may have become clean meanwhile. A
    /// layout that can only write everything does that. At the moment when the layout takes all data
    /// it calls [`Core::forget_dirty`].
    fn write_back<'a>(
        &'a self,
        core: &'a Rc<Core>,
        chosen: Option<Vec<Chosen>>,
    ) -> BoxFuture<'a, Result<()>>;

    /// Waits until the device has completed what write-back has sent to it so far; with `durable`,
    /// until that is certain to survive a power failure.
    fn drain<'a>(&'a self, core: &'a Rc<Core>, durable: bool) -> BoxFuture<'a, Result<()>>;

    /// Makes a file or everything durable.
    fn sync<'a>(&'a self, core: &'a Rc<Core>, scope: SyncScope<'a>) -> BoxFuture<'a, Result<()>>;

    /// The most that [`reserve`](Self::reserve) would reserve now. It is called after every write
    /// and must be cheap.
    fn room(&self, core: &Core) -> Room;

    /// The figures of the volume.
    fn figures(&self, core: &Core) -> Figures;

    /// How full the regions of the volume are.
    fn space_map(&self, core: &Core) -> SpaceMap;

    /// What this layout can do besides.
    fn views(&self) -> Views<'_> {
        Views::default()
    }
}

impl dyn Layout {
    /// See [`UpdateOrder::enforce`].
    pub(crate) async fn enforce_order(&self, core: &Rc<Core>, change: Change<'_>) -> Result<()> {
        match self.views().order {
            Some(order) => order.enforce(core, change).await,
            None => Ok(()),
        }
    }

    /// See [`UpdateOrder::before_replace`].
    pub(crate) async fn before_replace(&self, core: &Rc<Core>, source: &Rc<Inode>) -> Result<()> {
        match self.views().order {
            Some(order) => order.before_replace(core, source).await,
            None => Ok(()),
        }
    }

    /// See [`UpdateOrder::relocate_tail`].
    pub(crate) fn relocate_tail(&self, core: &Core, inode: &Inode, lbn: Lbn, ptr: Ptr) -> Ptr {
        let order = self.views().order;
        order.map_or(ptr, |order| order.relocate_tail(core, inode, lbn, ptr))
    }
}

/// What a layout can do that not every layout can.
#[derive(Clone, Copy, Default)]
pub struct Views<'a> {
    /// It promises an order of writes to the device.
    pub order: Option<&'a dyn UpdateOrder>,
    /// It keeps a log.
    pub log: Option<&'a dyn LogView>,
    /// It lets others choose places of blocks.
    pub hints: Option<&'a dyn PlacementHints>,
    /// It can be compared with what lies on its device.
    pub scrub: Option<&'a dyn ScrubView>,
    /// It keeps states of the volume.
    pub snapshots: Option<&'a dyn SnapshotView>,
    /// It can become larger while it is in use.
    pub growth: Option<&'a dyn GrowthView>,
}

/// What reaches the device before what else, for layouts that promise more than consistent volumes.
pub trait UpdateOrder {
    /// Makes those parts of a change durable that the layout's ordering promises before the reply.
    /// The operation calls it after the step that made the change, while it still holds the locks
    /// of the inodes that it changed.
    fn enforce<'a>(&'a self, _core: &'a Rc<Core>, _change: Change<'a>) -> Answer<'a, Result<()>> {
        Answer::ready(Ok(()))
    }

    /// Called before a file takes the name of another one: starts to write the data of `source`, in such
    /// a way that the name is never durable without it. Then the name leads to the old bytes or to the
    /// new ones after a crash, although nobody asked for that with an fsync (ext4's rule,
    /// `auto_da_alloc`). A layout that writes names and data in one step has nothing to do.
    fn before_replace<'a>(
        &'a self,
        core: &'a Rc<Core>,
        source: &'a Rc<Inode>,
    ) -> BoxFuture<'a, Result<()>>;

    /// Called when a truncation zeroes the end of a block and shortens the file. A layout that can
    /// make the two changes atomic only by writing the block elsewhere returns another place of the
    /// same length; others return `ptr`.
    fn relocate_tail(&self, core: &Core, inode: &Inode, lbn: Lbn, ptr: Ptr) -> Ptr;
}

/// A log in segments, which a cleaner empties.
pub trait LogView {
    /// The status of the log.
    fn status(&self, core: &Core) -> LogStatus;

    /// What the cleaner has done: cheap, unlike [`status`](Self::status), which lists every segment.
    fn cleaner(&self) -> CleanerCounts;

    /// The name of the policy of when to clean.
    fn trigger(&self) -> &str;

    /// Calls `f` for each segment, in order: what [`status`](Self::status) lists, without the list.
    fn each_segment(&self, f: &mut dyn FnMut(SegmentStatus));

    /// The number of the segment that a byte of the device lies in, and the offset in that segment;
    /// `None` for a byte outside all segments.
    fn segment_at(&self, byte: u64) -> Option<(u32, u64)>;

    /// Cleans segments.
    fn clean<'a>(&'a self, core: &'a Rc<Core>, how: Cleaning) -> BoxFuture<'a, Result<Cleaned>>;
}

/// Places that blocks are to have, while a volume is made as a copy of another one.
pub trait PlacementHints {
    /// Claims these places for files that come: nothing else goes there until [`end`](Self::end).
    ///
    /// # Errors
    /// If one of them is not free; then none is claimed.
    fn claim(&self, runs: &[HintedRun]) -> Result<()>;

    /// The blocks of this file go to these places, which are claimed; without a number, those of the
    /// next file that no hint covers.
    fn assign(&self, ino: Option<Ino>, runs: &[HintedRun]);

    /// There are no more hints: places that are claimed and were not taken become free.
    fn end(&self);
}

/// The limits of a cleaning run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cleaning {
    /// The most segments to clean.
    pub segments: u64,
    /// The smallest share of dead data, from 0 to 1, that makes a segment worth cleaning.
    pub garbage_share: f64,
}

/// The result of cleaning a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// The number of segments that were cleaned.
    pub segments: u64,
    /// The bytes that were moved out of them.
    pub moved_bytes: u64,
    /// The number of clean segments before.
    pub clean_before: u32,
    /// The number of clean segments afterwards.
    pub clean_after: u32,
}

/// Why a layout refuses to become larger.
pub const NO_GROWTH: &str =
    "this layout does not grow, only a log does: make a larger volume and copy the files to it";

/// The sizes of a volume that becomes larger, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Before it.
    pub before_bytes: u64,
    /// After it.
    pub after_bytes: u64,
}

/// A layout that can become larger while it is in use.
pub trait GrowthView {
    /// What would become of the volume on a device of `size` bytes. Nothing changes.
    ///
    /// # Errors
    /// `Invalid` if it would not become larger, or cannot be so large.
    fn growth(&self, size: u64) -> Result<Growth>;

    /// Lets the volume have all of its device, which [has become larger](twin_disk::BlockDevice::grow). A power
    /// failure at any instant leaves a volume of the old or of the new size, and all that was durable before.
    ///
    /// # Errors
    /// Those of [`growth`](Self::growth), or the device fails: then the volume goes on with the size that it had.
    fn grow<'a>(&'a self, core: &'a Rc<Core>) -> BoxFuture<'a, Result<Growth>>;
}

/// Why a layout refuses what concerns snapshots.
pub const NO_SNAPSHOTS: &str = "this layout keeps no snapshots: only a log does";

/// The parts of a volume that has a kept state.
pub type OpenedState = (Rc<Core>, Rc<dyn Layout>);

/// A layout that keeps states.
pub trait SnapshotView {
    /// All states.
    fn states(&self, core: &Core) -> States;

    /// Keeps a state under a name.
    ///
    /// # Errors
    /// `Exists` if the name is taken, `NotFound` if there is no state to make a branch of, `NoSpace` if what would be
    /// held leaves too little room, `Invalid` for a name that cannot be one.
    fn keep<'a>(
        &'a self,
        core: &'a Rc<Core>,
        name: &'a str,
        what: Keep,
    ) -> BoxFuture<'a, Result<()>>;

    /// The parts of a volume that has a state which is kept, and is not the head. It can only be read; its blocks take
    /// up to `cache_bytes` of memory. The state cannot be deleted while the parts exist.
    ///
    /// # Errors
    /// `NotFound` if there is no such state, or what is wrong with it.
    fn open<'a>(
        &'a self,
        core: &'a Rc<Core>,
        name: &'a str,
        cache_bytes: u64,
    ) -> BoxFuture<'a, Result<OpenedState>>;

    /// Deletes states. The space that only they used is free when it returns.
    ///
    /// # Errors
    /// `NotFound` if there is no such state, `Busy` if it is the head or is being read; then none is deleted.
    fn delete<'a>(&'a self, core: &'a Rc<Core>, names: &'a [String]) -> BoxFuture<'a, Result<()>>;
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
