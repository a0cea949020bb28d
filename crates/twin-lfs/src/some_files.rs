//! Log writes of single files, for flush policies that name some.
//!
//! Contract: a log write of some files leaves a consistent volume after a crash, and takes not more
//! than that needs. A file stands alone if nothing but its content and its attributes differ from the
//! device: it exists there, with the links and the hidden file that it has in memory. It is written
//! alone, as it is at this instant. All other dirty inodes are entangled: directories, new files, files
//! that got or lost links, hidden files, freed numbers. Their names, link counts and numbers agree only
//! at one instant, so they are written all together or not at all. See decision 21.
//!
//! Of a file that stands alone, single blocks can be written. Then go with them: blocks that have no
//! place yet or become longer, since the inode must not lead to nothing, and all blocks if the file was
//! cut, since the old content of the others must not appear behind a new end.

use std::collections::BTreeMap;
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::Class;
use twin_fs::dinode::TRUNCATING;
use twin_fs::geometry::Ptr;
use twin_fs::{Chosen, Core, Ino, Inode};

use crate::format::ImapEntry;
use crate::inode_state::InodeState;
use crate::lfs::Lfs;
use crate::log_items::LogItem;

impl Lfs {
    /// The items of a log write of some files.
    pub(crate) fn some_files(&self, core: &Core, chosen: &[Chosen]) -> Vec<LogItem> {
        let chosen: BTreeMap<Ino, &Chosen> = chosen.iter().map(|c| (c.inode.ino, c)).collect();
        let dirty = core.dirty_inodes();
        let all_entangled =
            dirty.iter().any(|inode| chosen.contains_key(&inode.ino) && !self.stands_alone(inode));
        let per_block = (self.sb.geometry.block_size / self.sb.geometry.inode_size) as usize;
        let (mut items, mut inodes) = (Vec::new(), Vec::new());
        for inode in dirty {
            if all_entangled && !self.stands_alone(&inode) {
                self.collect_whole(core, &inode, &mut items);
            } else if let Some(choice) = chosen.get(&inode.ino) {
                self.collect_some(core, choice, &mut items);
            } else {
                continue;
            }
            inodes.push(inode);
        }
        for group in inodes.chunks(per_block) {
            items.push(LogItem::Inodes(group.to_vec()));
        }
        if all_entangled {
            let freed = self.numbers.take_freed().into_iter();
            items.extend(freed.map(|(ino, generation)| LogItem::Freed { ino, generation }));
        }
        items
    }

    /// True if nothing but the content and the attributes of a file differ from the device. See the
    /// module.
    pub(crate) fn stands_alone(&self, inode: &Inode) -> bool {
        let state = InodeState::of(inode);
        let exists = state.map_block().is_some_and(|anchor| {
            matches!(self.ifile.entry(&anchor, inode.ino), ImapEntry::Used { at, .. } if at != 0)
        });
        let d = inode.d.borrow();
        let is_whole = d.nlink > 0 && d.flags & TRUNCATING == 0;
        exists && is_whole && state.has_links_of_disk(&d) && inode.class(0) == Class::Data
    }

    fn collect_whole(&self, core: &Core, inode: &Rc<Inode>, items: &mut Vec<LogItem>) {
        self.collect_blocks(core, inode, self.settings.eager_indirect, &|_, _| true, items);
    }

    fn collect_some(&self, core: &Core, chosen: &Chosen, items: &mut Vec<LogItem>) {
        let inode = &chosen.inode;
        if chosen.blocks.is_none() || InodeState::of(inode).was_cut() {
            return self.collect_whole(core, inode, items);
        }
        let wanted = |lbn: Lbn, len: u32| {
            let ptr = core.resident_ptr(inode, lbn).unwrap_or(Ptr::HOLE);
            chosen.has(lbn) || !ptr.is_on_disk() || ptr.len != len
        };
        self.collect_blocks(core, inode, self.settings.eager_indirect, &wanted, items);
    }

    /// Notes what is still dirty after a log write of some files: a file of which blocks were left,
    /// and indirect blocks that wait for a checkpoint.
    pub(crate) fn note_some_taken(&self, core: &Core, chosen: &[Chosen]) {
        for Chosen { inode, blocks } in chosen {
            if blocks.is_some() && inode.frames.has_dirty_data() {
                core.mark_inode_dirty(inode);
            }
        }
        let block = u64::from(self.sb.geometry.block_size);
        let maps = |inode: &Rc<Inode>| inode.frames.dirty_indirect_count() as u64;
        let deferred: u64 = self.checkpoints.deferred().iter().map(maps).sum();
        let of_ifile = self.ifile.inode.frames.counts().1 as u64;
        self.checkpoints.set_deferred_bytes((deferred + of_ifile) * block);
    }
}
