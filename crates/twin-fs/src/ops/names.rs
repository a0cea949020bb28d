//! Names in directories: finding, adding, removing them, on the blocks of [`crate::dir`].
//!
//! Contract: the directory's lock is held, shared for finding, exclusively for the rest. Changes
//! are planned first ([`Volume::plan_insert`], [`Volume::plan_remove`]), which loads and holds
//! what they need, and then made without waiting.

use std::collections::BTreeMap;
use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Origin};

use super::create::check_name;
use crate::core::Inode;
use crate::dinode::{Dinode, HIDDEN};
use crate::dir::block::Format;
use crate::dir::index::{self, Frames, Stop};
use crate::dir::name_hash;
use crate::layout::{Layout, Need};
use crate::{Cred, FsError, Ino, Name, Reply, Result, Timestamp, Volume, Work, perm};

/// A directory of this many blocks gets an index (where the format has one).
const INDEX_FROM_BLOCKS: u64 = 4;
/// Blocks with room that a directory remembers at the most.
const ROOM_HINTS: usize = 64;

/// A name that was found, and the block that it is in.
pub(crate) struct Hit {
    pub(crate) ino: Ino,
    pub(crate) kind: u32,
    lbn: u64,
    offset: usize,
    frame: Rc<Frame>,
}

/// Where a new name will go.
pub(crate) struct InsertPlan {
    lbn: u64,
    /// The directory's size afterwards.
    new_size: u64,
    /// The block to change and what the indirect blocks on the way are; held.
    _held: Vec<Rc<Frame>>,
    index: Option<IndexPlan>,
}

/// How a name will go.
pub(crate) struct RemovePlan {
    _held: Vec<Rc<Frame>>,
    index: Option<IndexPlan>,
}

/// Changed blocks of a directory's index, to be put in place.
struct IndexPlan {
    inode: Rc<Inode>,
    changed: BTreeMap<u64, Vec<u8>>,
    new_size: u64,
    _held: Vec<Rc<Frame>>,
}

/// The index's blocks in memory, with planned changes over them.
#[derive(Default)]
struct Overlay {
    held: BTreeMap<u64, Rc<Frame>>,
    changed: BTreeMap<u64, Vec<u8>>,
}

impl Frames for Overlay {
    fn read<R>(&self, lbn: u64, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        if let Some(bytes) = self.changed.get(&lbn) {
            return Some(f(bytes));
        }
        self.held.get(&lbn).map(|frame| f(&frame.block().to_bytes()))
    }

    fn write<R>(&mut self, lbn: u64, f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        if !self.changed.contains_key(&lbn) {
            let bytes = self.held.get(&lbn)?.block().to_bytes().to_vec();
            self.changed.insert(lbn, bytes);
        }
        self.changed.get_mut(&lbn).map(|bytes| f(bytes))
    }
}

impl<L: Layout> Volume<L> {
    /// The format of this volume's directories.
    pub(crate) fn dir_format(&self) -> Format {
        self.core.features.directories
    }

    /// An inode that must be a directory.
    pub(crate) async fn directory(&self, ino: Ino) -> Result<Rc<Inode>> {
        let inode = self.inode(ino).await?;
        let is_dir = inode.d.borrow().is_dir();
        if is_dir { Ok(inode) } else { Err(FsError::NotDirectory) }
    }

    pub(crate) async fn op_lookup(&self, dir: Ino, name: &Name, cred: &Cred) -> Result<Reply> {
        let inode = self.lookup(dir, name, cred).await?;
        Ok(Reply::Entry(self.entry(&inode)))
    }

    /// The inode that a name leads to.
    pub(crate) async fn lookup(&self, dir: Ino, name: &Name, cred: &Cred) -> Result<Rc<Inode>> {
        let dir = self.directory(dir).await?;
        let _shared = dir.lock.read().await;
        let ino = self.search(&dir, name, cred).await?.ok_or(FsError::NotFound)?.ino;
        let inode = self.inode(ino).await.map_err(|error| match error {
            // The directory is locked, so the name cannot have gone: the volume is damaged.
            FsError::NotFound => FsError::inconsistent(format!(
                "an entry of directory {} leads to inode {ino}, which is free",
                dir.ino
            )),
            other => other,
        })?;
        // The directory itself may have been removed while this waited.
        if dir.d.borrow().nlink == 0 { Err(FsError::NotFound) } else { Ok(inode) }
    }

    /// A block of a directory, checked when it comes from the disk.
    pub(crate) async fn dir_block(&self, dir: &Inode, lbn: u64) -> Result<Rc<Frame>> {
        let fresh = self.core.cache.peek(&dir.frames, lbn as Lbn).is_none();
        let frame = self.core.block(dir, lbn as Lbn, Origin::User).await?;
        let frame = frame.ok_or_else(|| {
            FsError::inconsistent(format!("directory {} has a hole at block {lbn}", dir.ino))
        })?;
        if fresh {
            self.check_dir_block(dir, &frame).inspect_err(|_| {
                // The next one to come must not take it for checked.
                self.core.cache.remove(&dir.frames, lbn as Lbn);
            })?;
        }
        Ok(frame)
    }

    fn check_dir_block(&self, dir: &Inode, frame: &Frame) -> Result<()> {
        let lbn = frame.lbn() as u64;
        let first = (lbn == 0).then_some(dir.ino);
        let len = self.dir_len(dir, lbn);
        let checked = with_bytes(frame, |bytes| self.dir_format().validate(&bytes[..len], first));
        checked
            .map_err(|e| FsError::inconsistent(format!("directory {}, block {lbn}: {e}", dir.ino)))
    }

    /// Bytes of a directory's block that are part of the directory.
    pub(crate) fn dir_len(&self, dir: &Inode, lbn: u64) -> usize {
        let block = u64::from(self.core.shape.block_size);
        (dir.d.borrow().size.saturating_sub(lbn * block)).min(block) as usize
    }

    pub(crate) fn dir_blocks(&self, dir: &Inode) -> u64 {
        self.core.shape.blocks_for(dir.d.borrow().size)
    }

    /// Finds a name as a client may: if the directory may be searched, has not been removed, and
    /// the name is possible.
    pub(crate) async fn search(
        &self,
        dir: &Inode,
        name: &[u8],
        cred: &Cred,
    ) -> Result<Option<Hit>> {
        perm::access(&dir.attr(), cred, perm::EXECUTE)?;
        if dir.d.borrow().nlink == 0 {
            return Err(FsError::NotFound);
        }
        check_name(name)?;
        let found = self.find(dir, name).await?;
        // It may have been removed while this waited.
        if dir.d.borrow().nlink == 0 { Err(FsError::NotFound) } else { Ok(found) }
    }

    /// Finds a name.
    pub(crate) async fn find(&self, dir: &Inode, name: &[u8]) -> Result<Option<Hit>> {
        let index_ino = dir.d.borrow().index_ino;
        let dots = matches!(name, b"." | b"..");
        if dots || index_ino == 0 {
            let blocks = if dots { 1 } else { self.dir_blocks(dir) };
            for lbn in 0..blocks {
                if let Some(hit) = self.find_in(dir, lbn, name).await? {
                    return Ok(Some(hit));
                }
            }
            return Ok(None);
        }
        let index = self.any_inode(index_ino).await?;
        let mut overlay = Overlay::default();
        let header = self.index_header(&index, &mut overlay).await?;
        let hash = name_hash(header.key, name);
        let places = self.drive(&index, &mut overlay, |o| index::lookup(o, hash)).await?;
        for lbn in places {
            if u64::from(lbn) < self.dir_blocks(dir)
                && let Some(hit) = self.find_in(dir, lbn.into(), name).await?
            {
                return Ok(Some(hit));
            }
        }
        Ok(None)
    }

    async fn find_in(&self, dir: &Inode, lbn: u64, name: &[u8]) -> Result<Option<Hit>> {
        self.core.cpu.charge(Work::Block).await;
        let frame = self.dir_block(dir, lbn).await?;
        let len = self.dir_len(dir, lbn);
        let found = with_bytes(&frame, |bytes| self.dir_format().find(&bytes[..len], name));
        Ok(found.map(|f| Hit { ino: f.ino, kind: f.kind, lbn, offset: f.offset, frame }))
    }

    /// Runs a step on an index, loading the blocks that it asks for.
    async fn drive<T>(
        &self,
        index: &Rc<Inode>,
        overlay: &mut Overlay,
        mut step: impl FnMut(&mut Overlay) -> Result<T, Stop>,
    ) -> Result<T> {
        let block = u64::from(self.core.shape.block_size);
        loop {
            match step(overlay) {
                Ok(done) => return Ok(done),
                Err(Stop::Bad(error)) => return Err(error.into()),
                Err(Stop::Make(lbn)) => {
                    overlay.changed.insert(lbn, vec![0; block as usize]);
                }
                Err(Stop::Load(lbn)) => {
                    let inside = lbn < self.core.shape.blocks_for(index.d.borrow().size);
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

    /// The header of an index. Its figures must be possible for the file, so that no chain of
    /// blocks is followed for longer than there are blocks.
    async fn index_header(
        &self,
        index: &Rc<Inode>,
        overlay: &mut Overlay,
    ) -> Result<index::Header> {
        let header = self.drive(index, overlay, |o| index::header(o)).await?;
        let blocks = self.core.shape.blocks_for(index.d.borrow().size);
        if u64::from(header.buckets.max(header.overflow)) >= blocks {
            let what = format!("index {} counts more blocks than it has", index.ino);
            return Err(FsError::inconsistent(what));
        }
        Ok(header)
    }

    /// The changes that `step` makes to a directory's index, ready to be put in place.
    async fn plan_index(
        &self,
        dir: &Inode,
        mut step: impl FnMut(&mut Overlay, u32) -> Result<(), Stop>,
        name: &[u8],
    ) -> Result<Option<IndexPlan>> {
        let index_ino = dir.d.borrow().index_ino;
        if index_ino == 0 {
            return Ok(None);
        }
        let inode = self.any_inode(index_ino).await?;
        let mut overlay = Overlay::default();
        let header = self.index_header(&inode, &mut overlay).await?;
        let hash = name_hash(header.key, name);
        self.drive(&inode, &mut overlay, |o| step(o, hash)).await?;
        // Growing and shrinking change nothing when the table is as full as it should be.
        self.drive(&inode, &mut overlay, index::grow).await?;
        self.drive(&inode, &mut overlay, index::shrink).await?;
        Ok(Some(self.hold_index(inode, overlay).await?))
    }

    async fn hold_index(&self, inode: Rc<Inode>, overlay: Overlay) -> Result<IndexPlan> {
        let block = u64::from(self.core.shape.block_size);
        let mut held: Vec<_> = overlay.held.into_values().collect();
        for &lbn in overlay.changed.keys() {
            self.core.hold_parents(&inode, lbn as Lbn, &mut held).await?;
        }
        let last = overlay.changed.keys().next_back().map_or(0, |lbn| (lbn + 1) * block);
        let new_size = inode.d.borrow().size.max(last);
        Ok(IndexPlan { inode, changed: overlay.changed, new_size, _held: held })
    }

    fn index_space(&self, plan: &IndexPlan) -> u64 {
        let lbns = plan.changed.keys();
        lbns.map(|&lbn| self.space_for(&plan.inode, lbn..lbn + 1, plan.new_size)).sum()
    }

    /// Puts planned changes of an index in place. More space may have been reserved than it took.
    fn apply_index(&self, plan: IndexPlan) {
        let before = plan.inode.d.borrow().allocated;
        let reserved = self.index_space(&plan);
        for (lbn, bytes) in plan.changed {
            let frame = self.frame_for_change(&plan.inode, lbn);
            frame.change(|b| *b = Block::Bytes(twin_disk::Bytes::copy_of(&bytes)));
            self.dirty_data(&plan.inode, &frame, plan.new_size);
        }
        let taken = plan.inode.d.borrow().allocated - before;
        self.layout.unreserve(&self.core, reserved - taken);
        plan.inode.d.borrow_mut().size = plan.new_size;
        self.core.mark_inode_dirty(&plan.inode);
    }

    /// Finds a place for a new name.
    pub(crate) async fn plan_insert(&self, dir: &Rc<Inode>, name: &[u8]) -> Result<InsertPlan> {
        if self.wants_index(dir) {
            self.make_index(dir).await?;
        }
        let (lbn, new_size, mut held) = self.find_room(dir, name).await?;
        self.core.hold_parents(dir, lbn as Lbn, &mut held).await?;
        if let Some(tail) = self.growing_tail(dir, new_size) {
            held.extend(self.core.block(dir, tail as Lbn, Origin::User).await?);
        }
        let position = lbn as u32;
        let insert = |o: &mut Overlay, hash| index::insert(o, hash, position);
        let index = self.plan_index(dir, insert, name).await?;
        Ok(InsertPlan { lbn, new_size, _held: held, index })
    }

    /// A block with room for a name: the block, the directory's size afterwards, what is held.
    async fn find_room(&self, dir: &Inode, name: &[u8]) -> Result<(u64, u64, Vec<Rc<Frame>>)> {
        let format = self.dir_format();
        let need = format.entry_len(name.len());
        let (size, blocks) = (dir.d.borrow().size, self.dir_blocks(dir));
        let hinted: Vec<u64> =
            dir.room.borrow().iter().filter(|(_, room)| **room >= need).map(|(l, _)| *l).collect();
        for lbn in
            hinted.into_iter().filter(|&l| l + 1 < blocks).take(2).chain(blocks.checked_sub(1))
        {
            let frame = self.dir_block(dir, lbn).await?;
            // The cleaner brings blocks into memory too, and without checksums whatever they say.
            // The step that inserts cannot fail.
            self.check_dir_block(dir, &frame)?;
            let len = self.dir_len(dir, lbn);
            let room = with_bytes(&frame, |bytes| format.room(&bytes[..len]));
            self.note_room(dir, lbn, room);
            if room >= need {
                return Ok((lbn, size, vec![frame]));
            }
        }
        let unit = self.core.shape.dir_unit() as u64;
        let block = u64::from(self.core.shape.block_size);
        let new_size = size + unit;
        if size / block > u64::from(u32::MAX) || new_size > self.core.features.file_bytes_max {
            return Err(FsError::FileTooBig);
        }
        let lbn = size / block;
        let held = match size.is_multiple_of(block) {
            true => Vec::new(),
            false => {
                let frame = self.dir_block(dir, lbn).await?;
                self.check_dir_block(dir, &frame)?;
                vec![frame]
            }
        };
        Ok((lbn, new_size, held))
    }

    fn note_room(&self, dir: &Inode, lbn: u64, room: usize) {
        let mut hints = dir.room.borrow_mut();
        // Less than a short name's entry is no room.
        if room < self.dir_format().entry_len(8) {
            hints.remove(&lbn);
        } else if hints.len() < ROOM_HINTS || hints.contains_key(&lbn) {
            hints.insert(lbn, room);
        }
    }

    /// Bytes of new space that an insertion takes.
    pub(crate) fn insert_space(&self, dir: &Inode, plan: &InsertPlan) -> u64 {
        let own = self.space_for(dir, plan.lbn..plan.lbn + 1, plan.new_size);
        own + plan.index.as_ref().map_or(0, |index| self.index_space(index))
    }

    /// Adds a name where it was planned. The space is reserved.
    pub(crate) fn insert(
        &self,
        dir: &Rc<Inode>,
        plan: InsertPlan,
        name: &[u8],
        ino: Ino,
        kind: u32,
    ) {
        let (format, unit) = (self.dir_format(), self.core.shape.dir_unit());
        let block = u64::from(self.core.shape.block_size);
        let old_len = self.dir_len(dir, plan.lbn);
        let new_len = (plan.new_size - plan.lbn * block).min(block) as usize;
        self.lengthen(dir, plan.new_size);
        let frame = match old_len {
            0 => {
                let frame = self.frame_for_change(dir, plan.lbn);
                frame.change(|b| *b = self.empty_dir_block());
                frame
            }
            _ => self.frame_for_change(dir, plan.lbn),
        };
        let room = frame.change(|b| {
            let bytes = &mut b.bytes_mut()[..new_len];
            if old_len > 0 && new_len > old_len {
                format.init(&mut bytes[new_len - unit..]);
            }
            let placed = format.insert(bytes, name, ino, kind);
            assert!(placed.is_some(), "a planned insertion has room");
            format.room(bytes)
        });
        self.dirty_data(dir, &frame, plan.new_size);
        self.note_room(dir, plan.lbn, room);
        self.count_entry(dir, 1);
        if let Some(index) = plan.index {
            self.apply_index(index);
        }
    }

    /// Keeps the number of entries, where inodes have it.
    fn count_entry(&self, dir: &Inode, change: i64) {
        if self.core.features.indexed_directories {
            let mut d = dir.d.borrow_mut();
            d.entries = d.entries.saturating_add_signed(change);
        }
    }

    /// Prepares the removal of a name.
    pub(crate) async fn plan_remove(
        &self,
        dir: &Inode,
        name: &[u8],
        hit: &Hit,
    ) -> Result<RemovePlan> {
        let mut held = Vec::new();
        self.core.hold_parents(dir, hit.lbn as Lbn, &mut held).await?;
        let position = hit.lbn as u32;
        let remove = |o: &mut Overlay, hash| match index::remove(o, hash, position)? {
            true => Ok(()),
            false => Err(Stop::Bad(index::IndexError { lbn: 0, what: "a name is not in it" })),
        };
        let index = self.plan_index(dir, remove, name).await?;
        Ok(RemovePlan { _held: held, index })
    }

    /// Bytes of new space that a removal takes: an index may need a block to shrink.
    pub(crate) fn remove_space(&self, plan: &RemovePlan) -> u64 {
        plan.index.as_ref().map_or(0, |index| self.index_space(index))
    }

    /// Removes a name as planned.
    pub(crate) fn remove_name(&self, dir: &Rc<Inode>, hit: &Hit, plan: RemovePlan) -> Result<()> {
        let format = self.dir_format();
        let len = self.dir_len(dir, hit.lbn);
        let room = hit.frame.change(|b| {
            let bytes = &mut b.bytes_mut()[..len];
            format.remove(bytes, hit.offset).map(|()| format.room(bytes))
        })?;
        self.dirty_data(dir, &hit.frame, dir.d.borrow().size);
        self.note_room(dir, hit.lbn, room);
        self.count_entry(dir, -1);
        if let Some(index) = plan.index {
            self.apply_index(index);
        }
        Ok(())
    }

    /// Makes a name lead to another inode. The indirect blocks on the way are held.
    pub(crate) fn redirect(&self, dir: &Rc<Inode>, hit: &Hit, ino: Ino, kind: u32) -> Result<()> {
        let len = self.dir_len(dir, hit.lbn);
        let format = self.dir_format();
        hit.frame.change(|b| format.set_ino(&mut b.bytes_mut()[..len], hit.offset, ino, kind))?;
        let size = dir.d.borrow().size;
        self.dirty_data(dir, &hit.frame, size);
        Ok(())
    }

    /// Holds what a redirection of a name needs.
    pub(crate) async fn hold_hit(&self, dir: &Inode, hit: &Hit) -> Result<Vec<Rc<Frame>>> {
        let mut held = Vec::new();
        self.core.hold_parents(dir, hit.lbn as Lbn, &mut held).await?;
        Ok(held)
    }

    /// Marks a directory as changed now; `links` is the change of its link count.
    pub(crate) fn touch_dir(&self, dir: &Rc<Inode>, now: Timestamp, links: i64) {
        {
            let mut d = dir.d.borrow_mut();
            (d.mtime, d.ctime) = (now, now);
            d.nlink = d.nlink.saturating_add_signed(links as i32);
        }
        self.core.mark_inode_dirty(dir);
        self.core.note_change();
    }

    fn wants_index(&self, dir: &Inode) -> bool {
        let wide = self.core.features.indexed_directories;
        wide && dir.d.borrow().index_ino == 0 && self.dir_blocks(dir) >= INDEX_FROM_BLOCKS
    }

    /// Makes the index of a directory: a hidden file with all its names.
    async fn make_index(&self, dir: &Rc<Inode>) -> Result<()> {
        let _permit = self.admit_small(Need::Grow).await?;
        let mut rng = self.core.rt.rng("directory index");
        let key = [rng.next_u64() ^ dir.ino, rng.next_u64()];
        let mut overlay = Overlay::default();
        let picked = self.layout.pick_inode(&self.core, dir.ino, 0).await?;
        let now = self.core.now();
        let d = Dinode::new(&self.core.shape, picked.ino, picked.generation, 0, now);
        let inode = Inode::new(Dinode { flags: HIDDEN, nlink: 1, ..d });
        let filled = self.fill_index(dir, &inode, &mut overlay, key).await;
        let plan = match filled {
            Ok(()) => self.hold_index(Rc::clone(&inode), overlay).await,
            Err(error) => Err(error),
        };
        let reserved = plan.and_then(|plan| {
            let space = self.layout.inode_bytes() + self.index_space(&plan);
            self.layout.reserve(&self.core, space).map(|()| plan)
        });
        let plan = match reserved {
            Ok(plan) => plan,
            Err(error) => {
                self.layout.unpick(&self.core, picked);
                return Err(error);
            }
        };
        self.core.add_inode(Rc::clone(&inode));
        self.layout.born(&self.core, &inode);
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
                let items = self.dir_format().items(&bytes[..len], 0);
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

    /// Loads and holds what tells whether a directory is empty.
    pub(crate) async fn hold_entries(&self, dir: &Inode) -> Result<Vec<Rc<Frame>>> {
        let mut held = Vec::new();
        if !self.core.features.indexed_directories && dir.d.borrow().is_dir() {
            for lbn in 0..self.dir_blocks(dir) {
                held.push(self.dir_block(dir, lbn).await?);
            }
        }
        Ok(held)
    }

    /// True if a directory has no entries but the dots. Does not wait, so that nobody can add one
    /// between the answer and what is done about it: what it looks at is held.
    pub(crate) fn is_empty_dir(&self, dir: &Inode) -> bool {
        if self.core.features.indexed_directories {
            return dir.d.borrow().entries == 0;
        }
        (0..self.dir_blocks(dir)).all(|lbn| {
            let len = self.dir_len(dir, lbn);
            let empty = |frame: Rc<Frame>| {
                with_bytes(&frame, |bytes| self.dir_format().is_empty(&bytes[..len]))
            };
            // A block that is not in memory came after the others were held, for a new name.
            let frame = self.core.cache.peek(&dir.frames, lbn as Lbn).filter(|f| f.is_valid());
            frame.is_some_and(empty)
        })
    }

    /// Gives the space of a large directory back once it is empty.
    pub(crate) async fn shrink_empty_dir(&self, dir: &Rc<Inode>) -> Result<()> {
        let unit = self.core.shape.dir_unit() as u64;
        let index_ino = {
            let d = dir.d.borrow();
            let wide = self.core.features.indexed_directories;
            if !wide || d.entries != 0 || d.size <= INDEX_FROM_BLOCKS * unit {
                return Ok(());
            }
            d.index_ino
        };
        if index_ino != 0 {
            let index = self.any_inode(index_ino).await?;
            dir.d.borrow_mut().index_ino = 0;
            self.core.mark_inode_dirty(dir);
            self.orphan_hidden(&index);
            self.destroy(&index).await?;
        }
        dir.room.borrow_mut().clear();
        self.set_size(dir, unit, 0, &|| Ok(())).await
    }
}

/// Looks at a frame's bytes.
pub(crate) fn with_bytes<T>(frame: &Frame, f: impl FnOnce(&[u8]) -> T) -> T {
    frame.with(|block| match block {
        Block::Bytes(bytes) => f(bytes),
        other => f(&other.to_bytes()),
    })
}
