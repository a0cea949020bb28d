//! An inode in memory: its record, its lock, its blocks, and the state that the layers attach to
//! it.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_cache::{FileFrames, Lbn};
use twin_disk::Class;
use twin_rt::{RwLock, Time};

use super::dinode::{Dinode, HIDDEN};
use crate::acl::Acls;
use crate::{Attr, Ino, mode};

/// The state of read-ahead on a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadAhead {
    /// The byte after the last one read.
    pub(crate) next: u64,
    /// The number of bytes to read ahead; 0 until reading looks sequential.
    pub(crate) window: u64,
    /// Everything before this byte has been requested.
    pub(crate) asked: u64,
    /// The block that was read last, if files are read block by block.
    pub(crate) last_block: Option<u64>,
    /// The value that the read policy remembers.
    pub(crate) memory: u64,
}

/// An inode in memory.
pub struct Inode {
    pub ino: Ino,
    /// Operations hold the lock shared while they read content, exclusively while they change
    /// content or names. Of two inodes the one with the smaller number is locked first.
    pub lock: RwLock,
    /// The record of the inode. No borrow of it is held across an `.await`.
    pub d: RefCell<Dinode>,
    /// What is known of its ACLs, which are among its extended attributes. Where these are in a hidden
    /// file, the ACLs are unread until somebody needs them.
    pub(crate) acls: RefCell<Acls>,
    /// The blocks of the inode in memory.
    pub frames: Rc<FileFrames>,
    /// State of the layout.
    layout_state: OnceCell<Box<dyn Any>>,
    /// For directories: the bytes of room in blocks that are known to have some, by logical block.
    pub(crate) room: RefCell<BTreeMap<u64, usize>>,
    pub(crate) ahead: Cell<ReadAhead>,
    /// The position among the dirty inodes, 0 if the inode is clean. Only `DirtyInodes` changes it.
    pub(super) dirty: Cell<u64>,
    /// Since when it has been dirty, and when it last changed. Only `DirtyInodes` changes it.
    pub(super) dirty_times: Cell<(Time, Time)>,
    /// The turn in which it came into the table of inodes. Only `InodeTable` changes it.
    pub(super) turn: Cell<u32>,
}

impl Inode {
    /// An inode in memory, not yet in any table.
    pub fn new(d: Dinode) -> Rc<Inode> {
        Rc::new(Inode {
            ino: d.ino,
            lock: RwLock::new(),
            frames: FileFrames::new(d.ino),
            acls: RefCell::new(acls_of(&d)),
            d: RefCell::new(d),
            layout_state: OnceCell::new(),
            room: RefCell::default(),
            ahead: Cell::default(),
            dirty: Cell::new(0),
            dirty_times: Cell::default(),
            turn: Cell::default(),
        })
    }

    /// The state that the layout attaches to the inode in memory, made at the first call.
    ///
    /// # Panics
    /// If calls for one inode name different types.
    pub fn layout_state<T: Any + Default>(&self) -> &T {
        let state = self.layout_state.get_or_init(|| Box::<T>::default());
        match state.downcast_ref() {
            Some(state) => state,
            None => panic!("a layout keeps states of one type with its inodes"),
        }
    }

    /// Takes a newer record, which a recovery found.
    pub fn renew(&self, d: Dinode) {
        *self.acls.borrow_mut() = acls_of(&d);
        *self.d.borrow_mut() = d;
    }

    /// The attributes that clients see.
    pub fn attr(&self) -> Attr {
        Attr { acl: self.acls.borrow().access.clone(), ..self.d.borrow().attr() }
    }

    /// True if the record on disk is out of date.
    pub fn is_dirty(&self) -> bool {
        self.dirty.get() != 0
    }

    /// Since when the inode has been dirty, and when it last changed; meaningful while it is dirty.
    pub(crate) fn dirty_times(&self) -> (Time, Time) {
        self.dirty_times.get()
    }

    /// Its place in the order in which inodes became dirty; 0 if it is clean.
    pub(crate) fn dirty_turn(&self) -> u64 {
        self.dirty.get()
    }

    /// The class of requests for its block `lbn`: only data blocks of regular files are data.
    pub fn class(&self, lbn: Lbn) -> Class {
        let d = self.d.borrow();
        let meta = lbn < 0 || d.flags & HIDDEN != 0 || d.kind() != mode::REGULAR;
        if meta { Class::Meta } else { Class::Data }
    }
}

/// What a record says of the ACLs of its inode.
fn acls_of(d: &Dinode) -> Acls {
    match (d.xattr_ino, d.xattrs.is_empty()) {
        (0, true) => Acls::default(),
        // Whoever needs the ACLs of a damaged list finds the damage.
        (0, false) => Acls::of(&d.xattrs).unwrap_or_else(Acls::unread),
        _ => Acls::unread(),
    }
}
