//! The state of an open clustered layout.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_cache::{FileFrames, Frame};
use twin_fs::shape::{Parent, Ptr};
use twin_fs::{Core, Ino, Inode};
use twin_rt::Time;

use crate::dir_placement::DirPlacement;
use crate::format::{State, Superblock};
use crate::journal::Journal;
use crate::ordering::Ordering;
use crate::preference::Wanted;
use crate::space::{SearchStats, Space};
use crate::write_behind::{FileState, WriteBehind};
use crate::writes::Writes;

/// Settings of this layout that may change from mount to mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FfsSettings {
    /// Where new directories go, by name.
    pub dir_placement: String,
    /// What is written as soon as it is there, by name.
    pub write_behind: String,
    /// Blocks of a file that is being written are moved together before they are written
    /// (4.4BSD's `doreallocblks`).
    pub reallocate: bool,
    /// fsync sends a file's data and waits for nothing: not durable. One reading of the table of A
    /// Comparison of Logging and Clustering (1994), in which fsync costs next to nothing.
    pub lazy_fsync: bool,
    /// A fault built in on purpose, to show that tests find it.
    pub sabotage: Sabotage,
}

/// Faults that can be built in on purpose: negative controls of the crash tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// Nothing flushes the device.
    SkipFlush,
    /// Freed space is used again at once, whatever the ordering says.
    ReuseAtOnce,
    /// A record of the journal does not wait for the data of its files.
    DataLate,
    /// Replay believes records without looking at the checksums of their blocks.
    SkipChecksum,
    /// Replay puts blocks of the journal over space that was freed and used again.
    SkipRevoked,
    /// What is freed while the transaction that has it is on its way to the journal is not revoked.
    RevokeLate,
    /// A restart leaves the journal's header where it was before the replay.
    HeaderStays,
    /// A commit takes the last flush for that of data which was sent during it.
    FlushEarly,
}

impl Default for FfsSettings {
    fn default() -> Self {
        FfsSettings {
            dir_placement: crate::dir_placement::registry()[0].name.into(),
            write_behind: crate::write_behind::registry()[0].name.into(),
            reallocate: true,
            lazy_fsync: false,
            sabotage: Sabotage::None,
        }
    }
}

/// What was counted since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FfsStats {
    /// How blocks were found.
    pub search: SearchStats,
    /// Bytes of file data written.
    pub data_bytes: u64,
    /// Bytes of directories, indirect blocks, inodes and maps written to their places.
    pub meta_bytes: u64,
    /// Bytes written to the journal.
    pub journal_bytes: u64,
    /// Transactions of the journal.
    pub commits: u64,
    /// Times that the journal was emptied.
    pub checkpoints: u64,
    /// Writes that an operation waited for before it replied, to keep the order.
    pub ordered_writes: u64,
    /// Operations that waited for space given up to be safe to use.
    pub space_waits: u64,
}

impl FfsStats {
    /// What was counted since `before`.
    pub fn since(&self, before: &FfsStats) -> FfsStats {
        let (a, b) = (&self.search, &before.search);
        FfsStats {
            search: SearchStats {
                preferred: a.preferred - b.preferred,
                rotational: a.rotational - b.rotational,
                same_group: a.same_group - b.same_group,
                quadratic: a.quadratic - b.quadratic,
                exhaustive: a.exhaustive - b.exhaustive,
                extended: a.extended - b.extended,
                moved_to_grow: a.moved_to_grow - b.moved_to_grow,
                gathered: a.gathered - b.gathered,
            },
            data_bytes: self.data_bytes - before.data_bytes,
            meta_bytes: self.meta_bytes - before.meta_bytes,
            journal_bytes: self.journal_bytes - before.journal_bytes,
            commits: self.commits - before.commits,
            checkpoints: self.checkpoints - before.checkpoints,
            ordered_writes: self.ordered_writes - before.ordered_writes,
            space_waits: self.space_waits - before.space_waits,
        }
    }
}

/// An open clustered layout.
pub struct Ffs {
    pub(crate) sb: Superblock,
    pub(crate) settings: FfsSettings,
    pub(crate) state: Cell<State>,
    pub(crate) ordering: Box<dyn Ordering>,
    pub(crate) dir_placement: Box<dyn DirPlacement>,
    pub(crate) write_behind: Box<dyn WriteBehind>,
    pub(crate) space: RefCell<Space>,
    /// Blocks of the inode tables in memory, by block from the start of the device.
    pub(crate) tables: Rc<FileFrames>,
    /// Inode numbers taken but not in use, with the blocks of their table, once these are in memory.
    pub(crate) picked: RefCell<BTreeMap<Ino, Option<Rc<Frame>>>>,
    /// Inodes in need of work after a crash.
    pub(crate) orphans: RefCell<BTreeSet<Ino>>,
    pub(crate) writes: Rc<Writes>,
    pub(crate) journal: Option<Journal>,
    /// Files with new indirect blocks that the ordering wants on the disk.
    pub(crate) new_maps: RefCell<BTreeSet<Ino>>,
    pub(crate) file_states: RefCell<BTreeMap<Ino, FileState>>,
    /// Bytes that admitted operations may still make dirty.
    pub(crate) permitted: Rc<Cell<u64>>,
    /// When the oldest change that has not been written was seen.
    pub(crate) oldest: Cell<Option<Time>>,
    /// Data of new blocks was sent to the device and nothing has flushed it.
    pub(crate) unflushed: Cell<bool>,
    pub(crate) stats: Cell<FfsStats>,
}

impl Ffs {
    /// What the volume is.
    pub fn superblock(&self) -> &Superblock {
        &self.sb
    }

    /// What was counted since the volume was opened.
    pub fn stats(&self) -> FfsStats {
        FfsStats { search: self.space.borrow().stats, ..self.stats.get() }
    }

    /// Bytes promised or used by files, and the most that this may become.
    pub fn space(&self) -> (u64, u64) {
        let space = self.space.borrow();
        (space.used, space.limit)
    }

    /// Whole blocks free, and bytes free in all: the difference is in fragments.
    pub fn free_space(&self) -> (u64, u64) {
        let space = self.space.borrow();
        let frags: u64 = space.groups.iter().map(|g| g.free_frags()).sum();
        (space.free_blocks(), frags * u64::from(self.sb.shape.frag_size))
    }

    pub(crate) fn count(&self, f: impl FnOnce(&mut FfsStats)) {
        let mut stats = self.stats.get();
        f(&mut stats);
        self.stats.set(stats);
    }

    /// The most bytes that are written with one request.
    pub(crate) fn cluster_bytes(&self, core: &Core) -> u64 {
        let block = u64::from(self.sb.shape.block_size);
        (u64::from(self.sb.tuning.maxcontig) * block).min(core.info.max_io.into()).max(block)
    }

    /// What the block preference has to know of a block. What leads to it is in memory.
    pub(crate) fn wanted(&self, core: &Core, inode: &Inode, lbn: i64) -> Wanted {
        let shape = &self.sb.shape;
        let home = self.sb.inode_group(inode.ino).min(self.sb.groups - 1);
        let first = shape.first_data(lbn);
        if lbn < 0 {
            let (index, before, cluster) = (0, 0, 0);
            return Wanted { home, lbn: first, index, indirect: true, before, cluster };
        }
        let (index, sibling): (u64, Box<dyn Fn(u64) -> i64>) = match shape.parent(lbn) {
            Parent::Inode(slot) => (slot as u64, Box::new(|i| i as i64)),
            Parent::Indirect(up, index) => {
                (index as u64, Box::new(move |i| shape.child(up, i as usize)))
            }
        };
        let addr_of = |back: u64| match index.checked_sub(back) {
            Some(i) => core.resident_ptr(inode, sibling(i)).map_or(0, |p: Ptr| p.addr),
            None => 0,
        };
        let indirect = lbn as u64 >= shape.direct as u64;
        let (before, cluster) = (addr_of(1), addr_of(self.sb.tuning.maxcontig.into()));
        Wanted { home, lbn: first, index, indirect, before, cluster }
    }
}
