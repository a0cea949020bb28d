//! Checkpoints: the last one, the bytes written since, and the inodes that wait for the next one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_fs::{Ino, Inode};
use twin_rt::Time;

/// When the last checkpoint was made, and what waits for the next one.
pub(crate) struct Checkpoints {
    /// The number of the last one.
    number: Cell<u64>,
    time: Cell<Time>,
    /// Bytes of the log written since it.
    since_bytes: Cell<u64>,
    /// Inodes with indirect blocks that wait for the next one.
    deferred: RefCell<BTreeMap<Ino, Rc<Inode>>>,
    /// Dirty bytes of the cache that wait for it, as of the last log write.
    deferred_bytes: Cell<u64>,
}

impl Checkpoints {
    pub(crate) fn new(number: u64, now: Time) -> Checkpoints {
        Checkpoints {
            number: Cell::new(number),
            time: Cell::new(now),
            since_bytes: Cell::new(0),
            deferred: RefCell::default(),
            deferred_bytes: Cell::new(0),
        }
    }

    /// The number of the last one.
    pub(crate) fn number(&self) -> u64 {
        self.number.get()
    }

    /// Begins a checkpoint and gives its number.
    pub(crate) fn begin(&self, now: Time) -> u64 {
        self.since_bytes.set(0);
        self.time.set(now);
        self.number.set(self.number.get() + 1);
        self.number.get()
    }

    /// Notes the bytes of a log write.
    pub(crate) fn note_written(&self, bytes: u64) {
        self.since_bytes.set(self.since_bytes.get() + bytes);
    }

    /// Bytes of the log written since the last one.
    pub(crate) fn since_bytes(&self) -> u64 {
        self.since_bytes.get()
    }

    /// The time of the last one.
    pub(crate) fn time(&self) -> Time {
        self.time.get()
    }

    /// Notes an inode whose indirect blocks wait for the next one.
    pub(crate) fn defer(&self, inode: &Rc<Inode>) {
        self.deferred.borrow_mut().insert(inode.ino, Rc::clone(inode));
    }

    /// Forgets an inode that was freed.
    pub(crate) fn forget(&self, ino: Ino) {
        self.deferred.borrow_mut().remove(&ino);
    }

    /// The inodes that wait.
    pub(crate) fn deferred(&self) -> Vec<Rc<Inode>> {
        self.deferred.borrow().values().cloned().collect()
    }

    /// The number of inodes that wait.
    pub(crate) fn deferred_count(&self) -> usize {
        self.deferred.borrow().len()
    }

    /// Takes the inodes that wait, because they are about to be written.
    pub(crate) fn take_deferred(&self) -> Vec<Rc<Inode>> {
        self.deferred.take().into_values().collect()
    }

    /// Dirty bytes of the cache that wait, as of the last log write.
    pub(crate) fn deferred_bytes(&self) -> u64 {
        self.deferred_bytes.get()
    }

    pub(crate) fn set_deferred_bytes(&self, bytes: u64) {
        self.deferred_bytes.set(bytes);
    }
}
