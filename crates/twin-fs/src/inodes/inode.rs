//! An inode in memory: its record, its lock, its blocks, and what the layers remember beside it.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_cache::{FileFrames, Lbn};
use twin_disk::Class;
use twin_rt::RwLock;

use super::dinode::{Dinode, HIDDEN};
use crate::{Attr, Ino, mode};

/// Sequential reading, as seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadAhead {
    /// The byte after the last one read.
    pub(crate) next: u64,
    /// Bytes to keep read ahead; 0 until reading looks sequential.
    pub(crate) window: u64,
    /// Everything before this byte has been asked for.
    pub(crate) asked: u64,
    /// The block that was read last, where files are read block by block.
    pub(crate) last_block: Option<u64>,
    /// What the read policy remembers.
    pub(crate) memory: u64,
}

/// An inode in memory.
pub struct Inode {
    /// Its number.
    pub ino: Ino,
    /// Held shared while content is read, exclusively while content or names change.
    pub lock: RwLock,
    /// The inode proper. Changed only between `.await`s.
    pub d: RefCell<Dinode>,
    /// Its blocks in memory.
    pub frames: Rc<FileFrames>,
    /// What the layout keeps with it.
    layout_state: OnceCell<Box<dyn Any>>,
    /// For directories: blocks known to have room, by logical block.
    pub(crate) room: RefCell<BTreeMap<u64, usize>>,
    pub(crate) ahead: Cell<ReadAhead>,
    /// Its position among the dirty inodes, which they alone change; 0 if it is clean.
    pub(super) dirty: Cell<u64>,
}

impl Inode {
    /// An inode in memory, not yet in any table.
    pub fn new(d: Dinode) -> Rc<Inode> {
        Rc::new(Inode {
            ino: d.ino,
            lock: RwLock::new(),
            frames: FileFrames::new(d.ino),
            d: RefCell::new(d),
            layout_state: OnceCell::new(),
            room: RefCell::default(),
            ahead: Cell::default(),
            dirty: Cell::new(0),
        })
    }

    /// What the layout keeps with it in memory, made when it is first asked for. All that ask on a
    /// volume name one type.
    pub fn layout_state<T: Any + Default>(&self) -> &T {
        let state = self.layout_state.get_or_init(|| Box::<T>::default());
        match state.downcast_ref() {
            Some(state) => state,
            None => panic!("a layout keeps states of one type with its inodes"),
        }
    }

    /// Its attributes.
    pub fn attr(&self) -> Attr {
        self.d.borrow().attr()
    }

    /// True if its on-disk form is out of date.
    pub fn is_dirty(&self) -> bool {
        self.dirty.get() != 0
    }

    /// What its blocks are to a device.
    pub fn class(&self, lbn: Lbn) -> Class {
        let d = self.d.borrow();
        let meta = lbn < 0 || d.flags & HIDDEN != 0 || d.kind() != mode::REGULAR;
        if meta { Class::Meta } else { Class::Data }
    }
}
