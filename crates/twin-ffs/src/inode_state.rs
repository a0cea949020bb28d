//! The state that this layout attaches to an inode in memory.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_cache::Frame;
use twin_fs::Inode;

/// The state of one inode. See the module.
#[derive(Default)]
pub(crate) struct InodeState {
    /// The block of the table that contains the inode. It stays in memory with the inode, so that
    /// the inode can be stored there without waiting.
    table_block: RefCell<Option<Rc<Frame>>>,
    /// The number of the transaction that has its latest changes.
    written_in: Cell<u64>,
}

impl InodeState {
    /// That of an inode.
    pub(crate) fn of(inode: &Inode) -> &InodeState {
        inode.layout_state()
    }

    pub(crate) fn table_block(&self) -> Option<Rc<Frame>> {
        self.table_block.borrow().clone()
    }

    pub(crate) fn set_table_block(&self, frame: Rc<Frame>) {
        *self.table_block.borrow_mut() = Some(frame);
    }

    /// Removes the block, which need not stay because the inode is about to be freed.
    pub(crate) fn take_table_block(&self) -> Option<Rc<Frame>> {
        self.table_block.borrow_mut().take()
    }

    pub(crate) fn written_in(&self) -> u64 {
        self.written_in.get()
    }

    pub(crate) fn set_written_in(&self, transaction: u64) {
        self.written_in.set(transaction);
    }
}
