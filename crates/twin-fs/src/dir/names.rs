//! Names in directories: finding, adding and removing them.
//!
//! Contract: the caller holds the directory's lock, shared to find names, exclusively for all other
//! functions. Changes are first planned ([`Directories::plan_insert`],
//! [`Directories::plan_remove`]), which loads and holds the blocks that they need, and are then
//! made without waiting.

use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::Origin;

use super::Directories;
use super::blocks::{note_room, noted_room, with_bytes};
use super::index;
use super::index_file::{IndexChange, IndexPlan, IndexStep, Overlay};
use super::name_hash;
use crate::inodes::Inode;
use crate::{FsError, Ino, NAME_MAX, Peeked, Result, Timestamp, Work};

/// The most blocks with room that a directory remembers.
const ROOM_HINTS: usize = 64;

/// The most blocks of a directory that [`Directories::peek`] looks at.
const MOST_PEEKED: u64 = 64;

/// A name that was found, and the block that contains it.
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

/// The place of a new name, and the blocks that adding it needs.
pub(crate) struct InsertPlan {
    lbn: u64,
    /// The size of the directory afterwards, in bytes.
    new_size: u64,
    /// The block to change and the indirect blocks above it.
    _held: Vec<Rc<Frame>>,
    index: Option<IndexPlan>,
}

/// The blocks that the removal of a name needs.
pub(crate) struct RemovePlan {
    _held: Vec<Rc<Frame>>,
    index: Option<IndexPlan>,
}

impl Directories {
    /// Finds the entry of a name, by the index if the directory has one.
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

    /// What a name leads to, as far as blocks that are in memory tell. Of a large directory without an
    /// index only the last blocks are looked at, to which names are added.
    pub(crate) fn peek(&self, dir: &Inode, name: &[u8]) -> Peeked {
        let index_ino = dir.d.borrow().index_ino;
        let blocks = self.dir_blocks(dir);
        let first = blocks.saturating_sub(MOST_PEEKED);
        let (places, mut complete): (Vec<u64>, bool) = match index_ino {
            0 => ((first..blocks).rev().collect(), first == 0),
            _ => match self.peek_index(index_ino, name) {
                Some(places) => (places.into_iter().filter(|&lbn| lbn < blocks).collect(), true),
                None => return Peeked::Unknown,
            },
        };
        for lbn in places {
            let frame = self.core.cache.peek(&dir.frames, lbn as Lbn).filter(|f| f.is_valid());
            let Some(frame) = frame else {
                complete = false;
                continue;
            };
            let len = self.dir_len(dir, lbn);
            let format = self.core.features.directories;
            if let Some(found) = with_bytes(&frame, |bytes| format.find(&bytes[..len], name)) {
                return Peeked::LeadsTo(found.ino);
            }
        }
        if complete { Peeked::Absent } else { Peeked::Unknown }
    }

    async fn find_in(&self, dir: &Inode, lbn: u64, name: &[u8]) -> Result<Option<Hit>> {
        self.core.cpu.charge(Work::Block).await;
        let frame = self.dir_block(dir, lbn).await?;
        let len = self.dir_len(dir, lbn);
        let found =
            with_bytes(&frame, |bytes| self.core.features.directories.find(&bytes[..len], name));
        Ok(found.map(|f| Hit { ino: f.ino, kind: f.kind, lbn, offset: f.offset, frame }))
    }

    /// Plans the insertion of a name. It makes the index first if the directory now needs one.
    pub(crate) async fn plan_insert(&self, dir: &Rc<Inode>, name: &[u8]) -> Result<InsertPlan> {
        self.plan_insert_and(dir, name, None).await
    }

    /// Plans the insertion of a name and the removal of another name of the same directory from the
    /// index. The two changes may be in the same blocks of the index, so they are planned together.
    /// The removal of the other name from its directory block is planned with
    /// [`plan_unlisted`](Self::plan_unlisted).
    pub(crate) async fn plan_insert_and(
        &self,
        dir: &Rc<Inode>,
        name: &[u8],
        removed: Option<(&[u8], &Hit)>,
    ) -> Result<InsertPlan> {
        if self.wants_index(dir) {
            self.make_index(dir).await?;
        }
        let (lbn, new_size, mut pinned) = self.find_room(dir, name).await?;
        self.core.pin_parents(dir, lbn as Lbn, &mut pinned).await?;
        if let Some(tail) = self.files.growing_tail(dir, new_size) {
            pinned.extend(self.core.block(dir, tail as Lbn, Origin::User).await?);
        }
        let mut changes = vec![IndexChange { name, position: lbn as u32, step: IndexStep::Insert }];
        changes.extend(removed.map(|(name, hit)| hit.leaves_index(name)));
        let index = self.plan_index(dir, &changes).await?;
        Ok(InsertPlan { lbn, new_size, _held: pinned, index })
    }

    /// Finds a block with room for a name. Returns the number of the block, the size of the
    /// directory afterwards, and the frames to hold.
    async fn find_room(&self, dir: &Inode, name: &[u8]) -> Result<(u64, u64, Vec<Rc<Frame>>)> {
        let format = self.core.features.directories;
        let need = format.entry_len(name.len());
        let (size, blocks) = (dir.d.borrow().size, self.dir_blocks(dir));
        let hinted: Vec<u64> = {
            let hints = dir.room.borrow();
            let hints = hints.iter().filter(|(_, room)| **room >= need).map(|(lbn, _)| *lbn);
            hints.filter(|lbn| lbn + 1 < blocks).take(2).chain(blocks.checked_sub(1)).collect()
        };
        for lbn in hinted {
            let frame = self.dir_block(dir, lbn).await?;
            // The step that inserts cannot fail, so the block is checked now.
            let room = self.dir_room(dir, &frame)?;
            self.hint_room(dir, lbn, room);
            if room >= need {
                return Ok((lbn, size, vec![frame]));
            }
        }
        let unit = self.core.geometry.dir_unit() as u64;
        let block = u64::from(self.core.geometry.block_size);
        let new_size = size + unit;
        if size / block > u64::from(u32::MAX) || new_size > self.core.features.file_bytes_max {
            return Err(FsError::FileTooBig);
        }
        let lbn = size / block;
        let pinned = match size.is_multiple_of(block) {
            true => Vec::new(),
            false => {
                let frame = self.dir_block(dir, lbn).await?;
                self.dir_room(dir, &frame)?;
                vec![frame]
            }
        };
        Ok((lbn, new_size, pinned))
    }

    /// Lets the directory remember a block with room.
    fn hint_room(&self, dir: &Inode, lbn: u64, room: usize) {
        let mut hints = dir.room.borrow_mut();
        // Room that is too small for the entry of a short name is not remembered.
        if room < self.core.features.directories.entry_len(8) {
            hints.remove(&lbn);
        } else if hints.len() < ROOM_HINTS || hints.contains_key(&lbn) {
            hints.insert(lbn, room);
        }
    }

    /// The bytes of new space that a planned insertion takes.
    pub(crate) fn insert_space(&self, dir: &Inode, plan: &InsertPlan) -> u64 {
        let own = self.files.space_for(dir, plan.lbn..plan.lbn + 1, plan.new_size);
        own + plan.index.as_ref().map_or(0, |index| self.index_space(index))
    }

    /// Adds a name as planned. The caller has reserved the space.
    pub(crate) fn insert(
        &self,
        dir: &Rc<Inode>,
        plan: InsertPlan,
        name: &[u8],
        ino: Ino,
        kind: u32,
    ) {
        let (format, unit) = (self.core.features.directories, self.core.geometry.dir_unit());
        let block = u64::from(self.core.geometry.block_size);
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
            placed.expect("a planned insertion has room").room
        });
        note_room(&frame, new_len, room);
        self.files.dirty_data(dir, &frame, plan.new_size);
        self.hint_room(dir, plan.lbn, room);
        self.count_entry(dir, 1);
        if let Some(index) = plan.index {
            self.apply_index(index);
        }
    }

    /// Updates the number of entries, in layouts whose inodes store it.
    fn count_entry(&self, dir: &Inode, change: i64) {
        if self.core.features.indexed_directories {
            let mut d = dir.d.borrow_mut();
            d.entries = d.entries.saturating_add_signed(change);
        }
    }

    /// Plans the removal of a name.
    pub(crate) async fn plan_remove(
        &self,
        dir: &Inode,
        name: &[u8],
        hit: &Hit,
    ) -> Result<RemovePlan> {
        let plan = self.plan_unlisted(dir, hit).await?;
        Ok(RemovePlan { index: self.plan_index(dir, &[hit.leaves_index(name)]).await?, ..plan })
    }

    /// Plans the removal of a name whose entry in the index is removed by another plan.
    pub(crate) async fn plan_unlisted(&self, dir: &Inode, hit: &Hit) -> Result<RemovePlan> {
        let mut pinned = Vec::new();
        self.core.pin_parents(dir, hit.lbn as Lbn, &mut pinned).await?;
        Ok(RemovePlan { _held: pinned, index: None })
    }

    /// The bytes of new space that a planned removal takes: an index may need a block to shrink.
    pub(crate) fn remove_space(&self, plan: &RemovePlan) -> u64 {
        plan.index.as_ref().map_or(0, |index| self.index_space(index))
    }

    /// Removes a name as planned.
    pub(crate) fn remove_name(&self, dir: &Rc<Inode>, hit: &Hit, plan: RemovePlan) -> Result<()> {
        let format = self.core.features.directories;
        let len = self.dir_len(dir, hit.lbn);
        let before = noted_room(&hit.frame, len);
        let room = hit.frame.change(|b| {
            let bytes = &mut b.bytes_mut()[..len];
            let here = format.remove(bytes, hit.offset)?;
            Ok::<usize, FsError>(match before {
                Some(before) => before.max(here),
                None => format.room(bytes),
            })
        })?;
        if before.is_some() {
            note_room(&hit.frame, len, room);
        }
        self.files.dirty_data(dir, &hit.frame, dir.d.borrow().size);
        self.hint_room(dir, hit.lbn, room);
        self.count_entry(dir, -1);
        if let Some(index) = plan.index {
            self.apply_index(index);
        }
        Ok(())
    }

    /// Makes a name lead to another inode. The caller holds the indirect blocks of
    /// [`pin_hit`](Self::pin_hit).
    pub(crate) fn redirect(&self, dir: &Rc<Inode>, hit: &Hit, ino: Ino, kind: u32) -> Result<()> {
        let len = self.dir_len(dir, hit.lbn);
        let format = self.core.features.directories;
        let noted = hit.frame.note();
        hit.frame.change(|b| format.set_ino(&mut b.bytes_mut()[..len], hit.offset, ino, kind))?;
        // No entry became longer or shorter.
        hit.frame.set_note(noted);
        let size = dir.d.borrow().size;
        self.files.dirty_data(dir, &hit.frame, size);
        Ok(())
    }

    /// The indirect blocks that a redirection of a name needs; the caller holds them.
    pub(crate) async fn pin_hit(&self, dir: &Inode, hit: &Hit) -> Result<Vec<Rc<Frame>>> {
        let mut pinned = Vec::new();
        self.core.pin_parents(dir, hit.lbn as Lbn, &mut pinned).await?;
        Ok(pinned)
    }

    /// Sets the times of a directory to `now` and changes its link count by `links`.
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

/// Checks that a name is possible, in any directory.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(FsError::Invalid("a name must not be empty or contain a slash or a zero byte"));
    }
    if name.len() > NAME_MAX { Err(FsError::NameTooLong) } else { Ok(()) }
}
