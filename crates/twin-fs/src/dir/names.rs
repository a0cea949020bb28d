//! Names in directories: finding, adding, removing them.
//!
//! Contract: the directory's lock is held, shared for finding, exclusively for the rest. Changes
//! are planned first ([`Directories::plan_insert`], [`Directories::plan_remove`]), which loads and
//! holds what they need, and then made without waiting.

use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::Origin;

use super::Directories;
use super::blocks::with_bytes;
use super::index;
use super::index_file::{IndexChange, IndexPlan, IndexStep, Overlay};
use super::name_hash;
use crate::inodes::Inode;
use crate::layout::Layout;
use crate::{FsError, Ino, NAME_MAX, Result, Timestamp, Work};

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

impl Hit {
    /// The change of the index when this name is removed.
    fn leaves_index<'a>(&self, name: &'a [u8]) -> IndexChange<'a> {
        IndexChange { name, position: self.lbn as u32, step: IndexStep::Remove }
    }
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

impl<L: Layout> Directories<L> {
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
        let index = self.files.any_inode(index_ino).await?;
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
        let found =
            with_bytes(&frame, |bytes| self.core.features.directories.find(&bytes[..len], name));
        Ok(found.map(|f| Hit { ino: f.ino, kind: f.kind, lbn, offset: f.offset, frame }))
    }

    /// Finds a place for a new name.
    pub(crate) async fn plan_insert(&self, dir: &Rc<Inode>, name: &[u8]) -> Result<InsertPlan> {
        self.plan_insert_and(dir, name, None).await
    }

    /// Finds a place for a new name, which will take the index's entry of another name of the same
    /// directory away: the two changes meet in the index's blocks, so they are planned together.
    /// The other name itself is removed as [`plan_unlisted`](Self::plan_unlisted) plans it.
    pub(crate) async fn plan_insert_and(
        &self,
        dir: &Rc<Inode>,
        name: &[u8],
        removed: Option<(&[u8], &Hit)>,
    ) -> Result<InsertPlan> {
        if self.wants_index(dir) {
            self.make_index(dir).await?;
        }
        let (lbn, new_size, mut held) = self.find_room(dir, name).await?;
        self.core.hold_parents(dir, lbn as Lbn, &mut held).await?;
        if let Some(tail) = self.files.growing_tail(dir, new_size) {
            held.extend(self.core.block(dir, tail as Lbn, Origin::User).await?);
        }
        let mut changes = vec![IndexChange { name, position: lbn as u32, step: IndexStep::Insert }];
        changes.extend(removed.map(|(name, hit)| hit.leaves_index(name)));
        let index = self.plan_index(dir, &changes).await?;
        Ok(InsertPlan { lbn, new_size, _held: held, index })
    }

    /// A block with room for a name: the block, the directory's size afterwards, what is held.
    async fn find_room(&self, dir: &Inode, name: &[u8]) -> Result<(u64, u64, Vec<Rc<Frame>>)> {
        let format = self.core.features.directories;
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
        if room < self.core.features.directories.entry_len(8) {
            hints.remove(&lbn);
        } else if hints.len() < ROOM_HINTS || hints.contains_key(&lbn) {
            hints.insert(lbn, room);
        }
    }

    /// Bytes of new space that an insertion takes.
    pub(crate) fn insert_space(&self, dir: &Inode, plan: &InsertPlan) -> u64 {
        let own = self.files.space_for(dir, plan.lbn..plan.lbn + 1, plan.new_size);
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
        let (format, unit) = (self.core.features.directories, self.core.shape.dir_unit());
        let block = u64::from(self.core.shape.block_size);
        let old_len = self.dir_len(dir, plan.lbn);
        let new_len = (plan.new_size - plan.lbn * block).min(block) as usize;
        self.files.lengthen(dir, plan.new_size);
        let frame = match old_len {
            0 => {
                let frame = self.files.frame_for_change(dir, plan.lbn);
                frame.change(|b| *b = self.empty_dir_block());
                frame
            }
            _ => self.files.frame_for_change(dir, plan.lbn),
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
        self.files.dirty_data(dir, &frame, plan.new_size);
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
        let plan = self.plan_unlisted(dir, hit).await?;
        Ok(RemovePlan { index: self.plan_index(dir, &[hit.leaves_index(name)]).await?, ..plan })
    }

    /// Prepares the removal of a name that the index no longer has by then.
    pub(crate) async fn plan_unlisted(&self, dir: &Inode, hit: &Hit) -> Result<RemovePlan> {
        let mut held = Vec::new();
        self.core.hold_parents(dir, hit.lbn as Lbn, &mut held).await?;
        Ok(RemovePlan { _held: held, index: None })
    }

    /// Bytes of new space that a removal takes: an index may need a block to shrink.
    pub(crate) fn remove_space(&self, plan: &RemovePlan) -> u64 {
        plan.index.as_ref().map_or(0, |index| self.index_space(index))
    }

    /// Removes a name as planned.
    pub(crate) fn remove_name(&self, dir: &Rc<Inode>, hit: &Hit, plan: RemovePlan) -> Result<()> {
        let format = self.core.features.directories;
        let len = self.dir_len(dir, hit.lbn);
        let room = hit.frame.change(|b| {
            let bytes = &mut b.bytes_mut()[..len];
            format.remove(bytes, hit.offset).map(|()| format.room(bytes))
        })?;
        self.files.dirty_data(dir, &hit.frame, dir.d.borrow().size);
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
        let format = self.core.features.directories;
        hit.frame.change(|b| format.set_ino(&mut b.bytes_mut()[..len], hit.offset, ino, kind))?;
        let size = dir.d.borrow().size;
        self.files.dirty_data(dir, &hit.frame, size);
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
}

/// Errors of a name as such.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(FsError::Invalid("a name is not empty and has no slash and no zero byte"));
    }
    if name.len() > NAME_MAX { Err(FsError::NameTooLong) } else { Ok(()) }
}
