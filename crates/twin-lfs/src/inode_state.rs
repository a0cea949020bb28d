//! What the log keeps with an inode in memory.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_fs::dinode::Dinode;
use twin_fs::geometry::{Geometry, Parent};
use twin_fs::{Ino, Inode};

/// What this layout keeps with an inode in memory.
#[derive(Default)]
pub(crate) struct InodeState {
    /// The block of the inode map with its entry, which stays in memory with it, so that the entry
    /// can be changed without waiting.
    map_block: RefCell<Option<Rc<Frame>>>,
    /// Indirect blocks that lost a pointer since they were last written. The next log write has
    /// them: no summary says that a block is gone, so they must not wait for a checkpoint.
    lost_pointers: RefCell<BTreeSet<Lbn>>,
    /// The number of the log write that has its latest changes.
    written_in: Cell<u64>,
    /// The link count and the hidden file of attributes in its form on the device, if they are known.
    links_on_disk: Cell<Option<(u32, Ino)>>,
    /// True if the file lost blocks or the end of one since it was last written whole.
    was_cut: Cell<bool>,
}

impl InodeState {
    /// That of an inode.
    pub(crate) fn of(inode: &Inode) -> &InodeState {
        inode.layout_state()
    }

    pub(crate) fn map_block(&self) -> Option<Rc<Frame>> {
        self.map_block.borrow().clone()
    }

    pub(crate) fn set_map_block(&self, frame: Rc<Frame>) {
        *self.map_block.borrow_mut() = Some(frame);
    }

    /// Its number is about to be freed: the map block need not stay.
    pub(crate) fn take_map_block(&self) -> Option<Rc<Frame>> {
        self.map_block.borrow_mut().take()
    }

    /// Notes the form of the inode that the device has, or will have when the log write under way has
    /// reached it.
    pub(crate) fn set_links_on_disk(&self, d: &Dinode) {
        self.links_on_disk.set(Some((d.nlink, d.xattr_ino)));
    }

    /// True if the inode has the links and the hidden file that it has on the device.
    pub(crate) fn has_links_of_disk(&self, d: &Dinode) -> bool {
        self.links_on_disk.get() == Some((d.nlink, d.xattr_ino))
    }

    /// The file lost blocks or the end of one.
    pub(crate) fn note_cut(&self) {
        self.was_cut.set(true);
    }

    /// All of the file is written.
    pub(crate) fn forget_cut(&self) {
        self.was_cut.set(false);
    }

    pub(crate) fn was_cut(&self) -> bool {
        self.was_cut.get()
    }

    /// The pointer to a block was cleared.
    pub(crate) fn block_freed(&self, geometry: &Geometry, lbn: Lbn) {
        self.note_cut();
        let mut lost = self.lost_pointers.borrow_mut();
        lost.remove(&lbn);
        if let Parent::Indirect(up, _) = geometry.parent(lbn) {
            lost.insert(up);
        }
    }

    /// True if an indirect block has lost a pointer that it has on the device.
    pub(crate) fn has_lost_pointers(&self, lbn: Lbn) -> bool {
        self.lost_pointers.borrow().contains(&lbn)
    }

    /// A log write takes the block.
    pub(crate) fn block_written(&self, lbn: Lbn, log_write: u64) {
        self.lost_pointers.borrow_mut().remove(&lbn);
        self.written_in.set(log_write);
    }

    /// The number of the log write that has its latest changes.
    pub(crate) fn written_in(&self) -> u64 {
        self.written_in.get()
    }

    pub(crate) fn set_written_in(&self, log_write: u64) {
        self.written_in.set(log_write);
    }
}
