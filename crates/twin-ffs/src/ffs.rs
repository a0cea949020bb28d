//! The state of an open clustered layout.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::rc::Rc;

use twin_cache::FileFrames;
use twin_disk::{Io, Origin};
use twin_fs::geometry::{Parent, Ptr};
use twin_fs::{Admission, Core, FsError, Inode, Result};

use crate::allocation;
use crate::dir_placement::{self, DirPlacement};
use crate::format::{Superblock, VolumeState, state_io};
use crate::group::Group;
use crate::hints::Hints;
use crate::inode_set::{DueInodes, InodeSet, PickedNumbers};
use crate::journal::Journal;
use crate::ordering::{Ordering, Reuse};
use crate::preference::PlacementRequest;
use crate::settings::{FfsSettings, PlantedFault};
use crate::space::{SearchStats, Space};
use crate::sums::Summed;
use crate::write_behind::{self, FileClusters};
use crate::writes::Writes;

/// Counters since the volume was opened.
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
    /// Writes for which an operation waited before its reply, to keep the order.
    pub ordered_writes: u64,
    /// Operations that waited until freed space was safe to reuse.
    pub space_waits: u64,
}

impl FfsStats {
    /// The difference from the earlier counters `before`.
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

/// An open clustered layout: its parts, each of which keeps its state private.
pub struct Ffs {
    pub(crate) sb: Superblock,
    pub(crate) settings: FfsSettings,
    pub(crate) ordering: Box<dyn Ordering>,
    pub(crate) dir_placement: Box<dyn DirPlacement>,
    pub(crate) write_behind: FileClusters,
    space: RefCell<Space>,
    /// Blocks of the inode tables in memory, by block from the start of the device.
    pub(crate) tables: Rc<FileFrames>,
    pub(crate) picked: PickedNumbers,
    /// Inodes that need work after a crash.
    pub(crate) orphans: InodeSet,
    pub(crate) writes: Rc<Writes>,
    pub(crate) journal: Option<Journal>,
    /// Files with new indirect blocks that the ordering requires on the disk.
    pub(crate) new_maps: DueInodes,
    /// Files whose last block moved to a place where the disk may not have its content yet. Their
    /// inodes on the disk lead to the old place, which has it.
    pub(crate) moved: DueInodes,
    pub(crate) admission: Admission,
    pub(crate) hints: Hints,
    /// The device below, if it compares what is read.
    pub(crate) sums: Option<Rc<Summed>>,
    state: Cell<VolumeState>,
    stats: Cell<FfsStats>,
}

/// The parts of an open layout.
pub(crate) struct FfsParts {
    pub(crate) sb: Superblock,
    pub(crate) state: VolumeState,
    pub(crate) settings: FfsSettings,
    pub(crate) groups: Vec<Group>,
    pub(crate) journal: Option<Journal>,
    pub(crate) ordering: Box<dyn Ordering>,
    pub(crate) sums: Option<Rc<Summed>>,
}

impl Ffs {
    /// Builds a layout from its parts.
    ///
    /// # Errors
    /// If the settings name a policy that does not exist.
    pub(crate) fn assemble(parts: FfsParts) -> Result<Ffs> {
        let FfsParts { sb, state, settings, groups, journal, ordering, sums } = parts;
        let dir_placement = dir_placement::REGISTRY
            .get(&settings.dir_placement)
            .map_err(|_| FsError::Invalid("no such directory placement"))?
            .make();
        let allocation = allocation::REGISTRY
            .get(&settings.allocation)
            .map_err(|_| FsError::Invalid("no such allocation policy"))?
            .make();
        let write_behind = write_behind::REGISTRY
            .get(&settings.write_behind)
            .map_err(|_| FsError::Invalid("no such write-behind policy"))?
            .make();
        let at_once = settings.planted().is(PlantedFault::ReuseAtOnce);
        let reuse = if at_once { Reuse::AtOnce } else { ordering.reuse() };
        Ok(Ffs {
            space: RefCell::new(Space::new(&sb, groups, allocation, reuse)),
            writes: Rc::new(Writes::new(settings.planted())),
            sb,
            settings,
            ordering,
            dir_placement,
            write_behind: FileClusters::new(write_behind),
            tables: FileFrames::of_layout(),
            picked: PickedNumbers::default(),
            orphans: InodeSet::default(),
            journal,
            new_maps: DueInodes::default(),
            moved: DueInodes::default(),
            admission: Admission::default(),
            hints: Hints::default(),
            sums,
            state: Cell::new(state),
            stats: Cell::default(),
        })
    }

    /// The superblock of the volume.
    pub fn superblock(&self) -> &Superblock {
        &self.sb
    }

    /// The counters since the volume was opened.
    pub fn stats(&self) -> FfsStats {
        let journal = self.journal.as_ref().map(Journal::counts).unwrap_or_default();
        FfsStats {
            search: self.alloc().stats(),
            journal_bytes: journal.bytes,
            commits: journal.commits,
            checkpoints: journal.checkpoints,
            ..self.stats.get()
        }
    }

    /// The bytes that are reserved or used by files, and the most that this may become.
    pub fn space(&self) -> (u64, u64) {
        self.alloc().used_and_limit()
    }

    /// The number of free whole blocks, and of all free bytes. The rest of the bytes is in
    /// fragments.
    pub fn free_space(&self) -> (u64, u64) {
        let space = self.alloc();
        (space.free_blocks(), space.free_frags() * u64::from(self.sb.geometry.frag_size))
    }

    pub(crate) fn alloc(&self) -> Ref<'_, Space> {
        self.space.borrow()
    }

    pub(crate) fn alloc_mut(&self) -> RefMut<'_, Space> {
        self.space.borrow_mut()
    }

    pub(crate) fn count(&self, f: impl FnOnce(&mut FfsStats)) {
        let mut stats = self.stats.get();
        f(&mut stats);
        self.stats.set(stats);
    }

    /// What the device should say of the volume being in use.
    pub(crate) fn state(&self) -> VolumeState {
        self.state.get()
    }

    /// Notes on the device whether the volume is in use.
    pub(crate) async fn write_state(&self, core: &Core, closed: bool) -> Result<()> {
        let state = VolumeState { closed, quotas: core.quotas.note(), ..self.state.get() };
        self.state.set(state);
        for io in [state_io(&self.sb, &state, core.info.sector), Io::flush(Origin::Checkpoint)] {
            if let Err(error) = core.device.submit(io).await {
                core.poison(FsError::Io(error));
            }
        }
        core.check_writable()
    }

    /// The most bytes that one request writes.
    pub(crate) fn cluster_bytes(&self, core: &Core) -> u64 {
        let block = u64::from(self.sb.geometry.block_size);
        (u64::from(self.sb.tuning.maxcontig) * block).min(core.info.max_io.into()).max(block)
    }

    /// The facts about a block for the block preference. The pointers to it must be in memory.
    pub(crate) fn wanted(&self, core: &Core, inode: &Inode, lbn: i64) -> PlacementRequest {
        let geometry = &self.sb.geometry;
        let home = self.sb.inode_group(inode.ino).min(self.sb.groups - 1);
        let first = geometry.first_data(lbn);
        if lbn < 0 {
            let (index, before, cluster, rest) = (0, 0, 0, 1);
            let (indirect, is_map, prior) = (true, true, self.addr_before(core, inode, first));
            let lbn = first;
            return PlacementRequest {
                home,
                lbn,
                index,
                indirect,
                before,
                cluster,
                is_map,
                prior,
                rest,
            };
        }
        let (index, sibling): (u64, Box<dyn Fn(u64) -> i64>) = match geometry.parent(lbn) {
            Parent::Inode(slot) => (slot as u64, Box::new(|i| i as i64)),
            Parent::Indirect(up, index) => {
                (index as u64, Box::new(move |i| geometry.child(up, i as usize)))
            }
        };
        let addr_of = |back: u64| match index.checked_sub(back) {
            Some(i) => core.resident_ptr(inode, sibling(i)).map_or(0, |p: Ptr| p.addr),
            None => 0,
        };
        let indirect = lbn as u64 >= geometry.direct as u64;
        let (before, cluster) = (addr_of(1), addr_of(self.sb.tuning.maxcontig.into()));
        let prior = if index > 0 { before } else { self.addr_before(core, inode, first) };
        let rest = geometry.blocks_for(inode.d.borrow().size).saturating_sub(first).max(1);
        let (lbn, is_map) = (first, false);
        PlacementRequest { home, lbn, index, indirect, before, cluster, is_map, prior, rest }
    }

    /// The address of the data block before this one, as far as is in memory; 0 if there is none.
    fn addr_before(&self, core: &Core, inode: &Inode, lbn: u64) -> u64 {
        let before = lbn.checked_sub(1).and_then(|lbn| core.resident_ptr(inode, lbn as i64));
        before.map_or(0, |ptr| ptr.addr)
    }
}
