//! Snapshots and branches: states of the volume that are kept under a name.
//!
//! A state is kept by its *record*: what a checkpoint says of it, and above all the inode of its ifile, from which its
//! usage table, its inode map and all its files are found. Blocks are never moved or copied for it. Each segment that
//! has live bytes by the record's own usage table is *pinned* in the table of the head for as long as the record
//! exists ([`segment_usage`](crate::segment_usage)), so whatever the state needs stays where it is.
//!
//! The *head* is the state that operations change; it has a name too. A branch is a record whose state may become the
//! head; the head becomes a record then.
//!
//! Contract: the records are in the snapshots' file ([`SnapshotsFile`]), which belongs to the volume and not to any of
//! its states: the usage table of a record does not count its blocks. All changes are made under the lock of
//! checkpoints, and each is in force with one checkpoint: [`take`] makes and deletes records, [`head`] makes a record
//! the head, [`view`] opens one for reading, [`diff`] compares two.

mod diff;
mod head;
mod take;
mod view;

use std::cell::{Cell, Ref, RefCell};
use std::rc::{Rc, Weak};

use twin_disk::{Block, BlockDevice, Bytes, Origin};
use twin_fs::dinode::{Dinode, HIDDEN};
use twin_fs::{Core, FsError, Inode, Result};

pub(crate) use diff::{differences, shared};

use crate::format::{
    Checkpoint, HAS_SNAPSHOTS, SNAPSHOT_SLOT_BYTES, SNAPSHOTS_INO, SnapshotRecord, SnapshotsFile,
    Superblock,
};
use crate::layout_file::LayoutFile;
use crate::lfs::Lfs;
use crate::segment_usage::Death;

/// The records of an open volume.
pub(crate) struct Snapshots {
    /// The device as it was given to the volume, for views.
    device: Rc<dyn BlockDevice>,
    /// The file with the records. It has no block while there is nothing to store.
    pub(crate) file: LayoutFile,
    content: RefCell<SnapshotsFile>,
    /// True if the superblock says that there are snapshots.
    marked: Cell<bool>,
    /// True if the volume is itself a state of another one, open for reading. It keeps none.
    is_view: Cell<bool>,
    /// The states that are open for reading, by the id of their records.
    views: RefCell<Vec<(u64, Weak<Core>)>>,
}

impl Snapshots {
    /// The records of a volume with this checkpoint, not read yet.
    pub(crate) fn new(sb: &Superblock, checkpoint: &Checkpoint, core: &Core) -> Snapshots {
        let new = || {
            let d = Dinode::new(&sb.geometry, SNAPSHOTS_INO, 0, 0, core.now());
            Dinode { flags: HIDDEN, nlink: 1, ..d }
        };
        let inode = Inode::new(checkpoint.snapshots.clone().unwrap_or_else(new));
        Snapshots {
            device: Rc::clone(&core.device),
            file: LayoutFile::new(sb, inode),
            content: RefCell::default(),
            marked: Cell::new(sb.must_write & HAS_SNAPSHOTS != 0),
            is_view: Cell::new(false),
            views: RefCell::default(),
        }
    }

    /// Reads the records and holds the file's blocks in memory.
    pub(crate) async fn load(&self, core: &Core, sb: &Superblock) -> Result<()> {
        let size = self.file.inode.d.borrow().size;
        if size == 0 {
            return Ok(());
        }
        let blocks = sb.geometry.blocks_for(size);
        let frames = core.blocks(&self.file.inode, 0, blocks, Origin::Recovery).await?;
        if frames.len() as u64 != blocks {
            return Err(FsError::inconsistent("the snapshots' file has holes"));
        }
        let raw: Vec<u8> =
            frames.iter().flat_map(|frame| frame.block().to_bytes().to_vec()).collect();
        *self.content.borrow_mut() = SnapshotsFile::decode(sb, &raw)?;
        self.file.pin_indirect(core, self.file.blocks()).await?;
        self.file.pin(frames);
        Ok(())
    }

    /// The inode for a checkpoint, if there is something to find through it.
    pub(crate) fn inode(&self) -> Option<Dinode> {
        let d = self.file.inode.d.borrow();
        (d.size > 0).then(|| d.clone())
    }

    /// The records and the name of the head.
    pub(crate) fn content(&self) -> Ref<'_, SnapshotsFile> {
        self.content.borrow()
    }

    /// The record of a name.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn record(&self, name: &str) -> Result<SnapshotRecord> {
        let content = self.content.borrow();
        content.records.iter().find(|record| record.name == name).cloned().ok_or(FsError::NotFound)
    }

    /// True if the volume can keep states.
    pub(crate) fn can_keep(&self) -> bool {
        !self.is_view.get()
    }

    /// True if a state is open for reading.
    fn is_viewed(&self, id: u64) -> bool {
        let mut views = self.views.borrow_mut();
        views.retain(|(_, core)| core.strong_count() > 0);
        views.iter().any(|&(viewed, _)| viewed == id)
    }
}

impl Lfs {
    /// Reserves what the file takes more with this many records, before anything changes. It is for
    /// [`store_snapshots`](Self::store_snapshots).
    ///
    /// # Errors
    /// `NoSpace`.
    pub(crate) fn reserve_records(&self, records: usize) -> Result<u64> {
        let geometry = &self.sb.geometry;
        let bytes = (records as u64 + 1) * SNAPSHOT_SLOT_BYTES as u64;
        let before = geometry.blocks_for(self.snapshots.file.inode.d.borrow().size);
        let most = match geometry.blocks_for(bytes).saturating_sub(before) {
            0 => 0,
            more => (more + geometry.levels as u64) * u64::from(geometry.block_size),
        };
        self.reservations.reserve(most, self.usage.held_bytes())?;
        Ok(most)
    }

    /// Stores other records: changes the file's blocks in memory, for the checkpoint that follows in the same step.
    /// `reserved` bytes were reserved for it.
    ///
    /// # Errors
    /// If the accounts contradict each other.
    pub(crate) fn store_snapshots(
        &self,
        core: &Core,
        content: SnapshotsFile,
        reserved: u64,
    ) -> Result<()> {
        let (file, geometry) = (&self.snapshots.file, &self.sb.geometry);
        let raw = content.encode(&self.sb);
        let block = geometry.block_size as usize;
        let before = geometry.blocks_for(file.inode.d.borrow().size);
        let blocks = (raw.len() / block) as u64;
        let allocated = |file: &LayoutFile| file.inode.d.borrow().allocated;
        let mut released = 0;
        file.truncate(core, blocks.min(before), |ptr| {
            released += u64::from(ptr.len);
            if ptr.is_on_disk() {
                self.usage.block_dies(geometry.byte_of(ptr.addr), ptr.len, Death::Rewritten);
            }
        });
        let allocated_before = allocated(file);
        for (lbn, raw) in (0..).zip(raw.chunks_exact(block)) {
            let content = Block::Bytes(Bytes::copy_of(raw));
            match core.cache.peek(&file.inode.frames, lbn as i64) {
                Some(frame) if lbn < before => {
                    if *frame.block().to_bytes() != *raw {
                        frame.change(|block| *block = content);
                        file.mark_dirty(core, &frame);
                    }
                }
                _ => {
                    let frame = file.append(core, lbn, content);
                    file.pin([frame]);
                }
            }
        }
        let taken = allocated(file) - allocated_before;
        let more = "the snapshots' file took more room than was reserved for it";
        let left = reserved.checked_sub(taken).ok_or_else(|| FsError::inconsistent(more))?;
        self.reservations.release(left + released)?;
        *self.snapshots.content.borrow_mut() = content;
        Ok(())
    }
}
