//! Where the log goes on: the position of each stream, and the serial number of the next partial
//! segment.

use std::cell::{Cell, RefCell};

use crate::format::HeadPos;

/// Where each stream of the log goes on.
pub(crate) struct LogPosition {
    heads: RefCell<Vec<HeadPos>>,
    serial: Cell<u64>,
}

impl LogPosition {
    pub(crate) fn new(heads: Vec<HeadPos>, serial: u64) -> LogPosition {
        LogPosition { heads: RefCell::new(heads), serial: Cell::new(serial) }
    }

    /// The positions of all streams.
    pub(crate) fn heads(&self) -> Vec<HeadPos> {
        self.heads.borrow().clone()
    }

    /// The position of one stream.
    pub(crate) fn head(&self, stream: usize) -> HeadPos {
        self.heads.borrow()[stream]
    }

    pub(crate) fn set_head(&self, stream: usize, head: HeadPos) {
        self.heads.borrow_mut()[stream] = head;
    }

    pub(crate) fn streams(&self) -> usize {
        self.heads.borrow().len()
    }

    pub(crate) fn push(&self, head: HeadPos) {
        self.heads.borrow_mut().push(head);
    }

    /// Gives up the last stream.
    pub(crate) fn pop(&self) -> Option<HeadPos> {
        self.heads.borrow_mut().pop()
    }

    /// The serial number of the next partial segment.
    pub(crate) fn serial(&self) -> u64 {
        self.serial.get()
    }

    /// Takes the serial number of the next partial segment.
    pub(crate) fn take_serial(&self) -> u64 {
        self.serial.replace(self.serial.get() + 1)
    }

    /// The next partial segment has this serial number.
    pub(crate) fn set_serial(&self, serial: u64) {
        self.serial.set(serial);
    }
}
