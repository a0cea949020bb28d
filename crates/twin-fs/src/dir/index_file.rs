//! The hidden file of the index of a large directory.
//!
//! Contract: changes are first planned on copies of the blocks, which loads and holds the blocks
//! that they need, and are then put in place without waiting.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Buf, Origin};

use super::Directories;
use super::blocks::with_bytes;
use super::index::{self, Frames, StepError};
use super::name_hash;
use crate::core::Core;
use crate::dinode::{Dinode, HIDDEN};
use crate::inodes::Inode;
use crate::layout::{InodeEvent, Need};
use crate::{FsError, Ino, Result};

/// A directory of this many blocks gets an index, if the layout has indexes.
pub(super) const INDEX_FROM_BLOCKS: u64 = 4;

/// The changed blocks of an index, to be put in place. The plan holds all blocks that this needs.
pub(super) struct IndexPlan {
    inode: Rc<Inode>,
    changed: BTreeMap<u64, Buf>,
    new_size: u64,
    _held: Vec<Rc<Frame>>,
}

/// The blocks of an index in memory, and copies of those that a plan changes.
#[derive(Default)]
pub(super) struct Overlay {
    held: BTreeMap<u64, Rc<Frame>>,
    changed: BTreeMap<u64, Buf>,
}

impl Frames for Overlay {
    fn read<R>(&self, lbn: u64, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        if let Some(bytes) = self.changed.get(&lbn) {
            return Some(f(bytes));
        }
        self.held.get(&lbn).map(|frame| with_bytes(frame, f))
    }

    fn write<R>(&mut self, lbn: u64, f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let bytes = match self.changed.entry(lbn) {
            Entry::Occupied(changed) => changed.into_mut(),
            Entry::Vacant(place) => place.insert(with_bytes(self.held.get(&lbn)?, Buf::copy_of)),
        };
        Some(f(bytes))
    }
}

/// The blocks of an index that are in memory, as they are.
struct Resident<'a>(&'a Core, &'a Inode);

impl Frames for Resident<'_> {
    fn read<R>(&self, lbn: u64, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let frame = self.0.cache.peek(&self.1.frames, lbn as Lbn).filter(|f| f.is_valid())?;
        Some(with_bytes(&frame, f))
    }

    fn write<R>(&mut self, _lbn: u64, _f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        None
    }
}

/// A change of an index: a name that is added or removed, and the directory block that contains it.
pub(super) struct IndexChange<'a> {
    pub(super) name: &'a [u8],
    pub(super) position: u32,
    pub(super) step: IndexStep,
}

#[derive(Clone, Copy)]
pub(super) enum IndexStep {
    Insert,
    Remove,
}

impl IndexChange<'_> {
    fn make(&self, blocks: &mut Overlay, hash: u32) -> Result<(), StepError> {
        match self.step {
            IndexStep::Insert => index::insert(blocks, hash, self.position),
            IndexStep::Remove if index::remove(blocks, hash, self.position)? => Ok(()),
            IndexStep::Remove => {
                Err(StepError::Bad(index::IndexError { lbn: 0, what: "a name is missing" }))
            }
        }
    }
}

impl Directories {
    /// The blocks of a directory that may have a name, by the index with this number; `None` if not all
    /// that it takes to know is in memory.
    pub(super) fn peek_index(&self, index_ino: Ino, name: &[u8]) -> Option<Vec<u64>> {
        let index = self.core.cached_inode(index_ino)?;
        let frames = Resident(&self.core, &index);
        let header = index::header(&frames).ok()?;
        let places = index::lookup(&frames, name_hash(header.key, name)).ok()?;
        Some(places.into_iter().map(u64::from).collect())
    }

    /// Runs a step on an index and loads the blocks that it asks for.
    pub(super) async fn drive<T>(
        &self,
        index: &Rc<Inode>,
        overlay: &mut Overlay,
        mut step: impl FnMut(&mut Overlay) -> Result<T, StepError>,
    ) -> Result<T> {
        let block = u64::from(self.core.geometry.block_size);
        loop {
            match step(overlay) {
                Ok(done) => return Ok(done),
                Err(StepError::Bad(error)) => return Err(error.into()),
                Err(StepError::Make(lbn)) => {
                    overlay.changed.insert(lbn, Buf::zeroed(block as usize));
                }
                Err(StepError::Load(lbn)) => {
                    let inside = lbn < self.core.geometry.blocks_for(index.d.borrow().size);
                    let frame = match inside {
                        true => self.core.block(index, lbn as Lbn, Origin::User).await?,
                        false => None,
                    };
                    let Some(frame) = frame else {
                        let what = format!("index {} has no block {lbn}", index.ino);
                        return Err(FsError::inconsistent(what));
                    };
                    overlay.held.insert(lbn, frame);
                }
            }
        }
    }

    /// The header of an index. Its figures are compared with the size of the file, so that no chain
    /// is followed for more steps than the file has blocks.
    pub(super) async fn index_header(
        &self,
        index: &Rc<Inode>,
        overlay: &mut Overlay,
    ) -> Result<index::Header> {
        let header = self.drive(index, overlay, |o| index::header(o)).await?;
        let blocks = self.core.geometry.blocks_for(index.d.borrow().size);
        if u64::from(header.buckets.max(header.overflow)) >= blocks {
            let what = format!("index {} counts more blocks than it has", index.ino);
            return Err(FsError::inconsistent(what));
        }
        Ok(header)
    }

    /// Plans these changes of a directory's index, one after the other; `None` if the directory has
    /// no index.
    pub(super) async fn plan_index(
        &self,
        dir: &Inode,
        changes: &[IndexChange<'_>],
    ) -> Result<Option<IndexPlan>> {
        let index_ino = dir.d.borrow().index_ino;
        if index_ino == 0 {
            return Ok(None);
        }
        let inode = self.files.any_inode(index_ino).await?;
        let mut overlay = Overlay::default();
        let header = self.index_header(&inode, &mut overlay).await?;
        for change in changes {
            let hash = name_hash(header.key, change.name);
            self.drive(&inode, &mut overlay, |o| change.make(o, hash)).await?;
            // Both calls change nothing if the table is as full as it should be.
            self.drive(&inode, &mut overlay, index::grow).await?;
            self.drive(&inode, &mut overlay, index::shrink).await?;
        }
        Ok(Some(self.pin_index(inode, overlay).await?))
    }

    async fn pin_index(&self, inode: Rc<Inode>, overlay: Overlay) -> Result<IndexPlan> {
        let block = u64::from(self.core.geometry.block_size);
        let mut held: Vec<_> = overlay.held.into_values().collect();
        for &lbn in overlay.changed.keys() {
            self.core.pin_parents(&inode, lbn as Lbn, &mut held).await?;
        }
        let last = overlay.changed.keys().next_back().map_or(0, |lbn| (lbn + 1) * block);
        let new_size = inode.d.borrow().size.max(last);
        Ok(IndexPlan { inode, changed: overlay.changed, new_size, _held: held })
    }

    pub(super) fn index_space(&self, plan: &IndexPlan) -> u64 {
        let lbns = plan.changed.keys();
        lbns.map(|&lbn| self.files.space_for(&plan.inode, lbn..lbn + 1, plan.new_size)).sum()
    }

    /// Puts planned changes of an index in place, without waiting, and returns reserved space that
    /// they did not take.
    pub(super) fn apply_index(&self, plan: IndexPlan) {
        let before = plan.inode.d.borrow().allocated;
        let reserved = self.index_space(&plan);
        for (lbn, bytes) in plan.changed {
            let frame = self.files.frame_for_change(&plan.inode, lbn);
            frame.change(|b| *b = Block::Bytes(bytes.freeze()));
            self.files.dirty_data(&plan.inode, &frame, plan.new_size);
        }
        let taken = plan.inode.d.borrow().allocated - before;
        self.layout.release(&self.core, reserved - taken);
        plan.inode.d.borrow_mut().size = plan.new_size;
        self.core.mark_inode_dirty(&plan.inode);
    }

    pub(super) fn wants_index(&self, dir: &Inode) -> bool {
        let wide = self.core.features.indexed_directories;
        wide && dir.d.borrow().index_ino == 0 && self.dir_blocks(dir) >= INDEX_FROM_BLOCKS
    }

    /// Makes the index of a directory: a hidden file with an entry for each name.
    pub(super) async fn make_index(&self, dir: &Rc<Inode>) -> Result<()> {
        let _admission = self.files.admit_small(Need::Grow).await?;
        let mut rng = self.core.rt.rng("directory index");
        let key = [rng.next_u64() ^ dir.ino, rng.next_u64()];
        let mut overlay = Overlay::default();
        let picked = self.layout.pick_inode(&self.core, dir.ino, 0).await?;
        let now = self.core.now();
        let d = Dinode::new(&self.core.geometry, picked.ino, picked.generation, 0, now);
        let inode = Inode::new(Dinode { flags: HIDDEN, nlink: 1, ..d });
        let filled = self.fill_index(dir, &inode, &mut overlay, key).await;
        let plan = match filled {
            Ok(()) => self.pin_index(Rc::clone(&inode), overlay).await,
            Err(error) => Err(error),
        };
        let reserved = plan.and_then(|plan| {
            let blocks = self.index_space(&plan);
            self.core.check_quota(dir, blocks)?;
            let space = self.core.features.new_inode_bytes + blocks;
            self.layout.reserve(&self.core, space).map(|()| plan)
        });
        let plan = match reserved {
            Ok(plan) => plan,
            Err(error) => {
                self.layout.inode_event(&self.core, InodeEvent::Unpicked(picked));
                return Err(error);
            }
        };
        // From here on nothing waits: the hidden file comes into existence and the directory gets
        // its number in one step, so a crash leaves either both or neither.
        inode.d.borrow_mut().quota = self.core.quota_of(dir);
        self.core.add_inode(Rc::clone(&inode));
        self.layout.inode_event(&self.core, InodeEvent::Created(&inode));
        self.apply_index(plan);
        dir.d.borrow_mut().index_ino = inode.ino;
        self.core.mark_inode_dirty(dir);
        Ok(())
    }

    async fn fill_index(
        &self,
        dir: &Inode,
        inode: &Rc<Inode>,
        overlay: &mut Overlay,
        key: [u64; 2],
    ) -> Result<()> {
        self.drive(inode, overlay, |o| index::create(o, key)).await?;
        for lbn in 0..self.dir_blocks(dir) {
            let frame = self.dir_block(dir, lbn).await?;
            let len = self.dir_len(dir, lbn);
            let names: Vec<Vec<u8>> = with_bytes(&frame, |bytes| {
                let items = self.core.features.directories.items(&bytes[..len], 0);
                items.map(|i| i.name.to_vec()).filter(|n| n != b"." && n != b"..").collect()
            });
            for name in names {
                let hash = name_hash(key, &name);
                self.drive(inode, overlay, |o| index::insert(o, hash, lbn as u32)).await?;
                self.drive(inode, overlay, index::grow).await?;
            }
        }
        Ok(())
    }
}
