//! Forwarding: pointers that are newer than the inode or indirect block which holds them on the
//! device.
//!
//! A block that moves changes a pointer, and with it the block or inode that *holds* the pointer,
//! and so on up. A layout that moves blocks for reasons of its own (a cleaner) can spare itself
//! that: it leaves the holder as it lies on the device and notes here where the block went.
//!
//! Contract: what is in memory is always up to date. An entry counts for one form of its holder,
//! told by its place and checksum, and for no other: whoever loads a holder applies what is noted
//! of the form that it found. When a holder is written, or ceases to be, its entries are dropped.

use std::cell::RefCell;
use std::collections::BTreeMap;

use twin_cache::Lbn;

use crate::Ino;
use crate::shape::{Parent, Ptr, Shape};

/// What holds pointers to blocks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// The inode.
    Inode,
    /// An indirect block.
    Indirect(Lbn),
}

impl Holder {
    /// What holds the pointer to a block, and the pointer's index there.
    pub fn of(shape: &Shape, lbn: Lbn) -> (Holder, usize) {
        match shape.parent(lbn) {
            Parent::Inode(slot) => (Holder::Inode, slot),
            Parent::Indirect(up, index) => (Holder::Indirect(up), index),
        }
    }
}

/// A form of a holder on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Its place: of an indirect block, its first fragment; of an inode, whatever the layout
    /// counts inodes in.
    pub at: u64,
    /// Its checksum.
    pub crc: u32,
}

#[derive(Clone, Debug)]
struct Noted {
    form: Form,
    /// Ascending by index.
    ptrs: Vec<(u32, Ptr)>,
}

#[derive(Clone, Debug, Default)]
struct Table {
    holders: BTreeMap<(Ino, Holder), Noted>,
    count: usize,
}

/// All forwarded pointers of a volume.
#[derive(Clone, Debug, Default)]
pub struct Forwards(RefCell<Table>);

impl Forwards {
    /// Notes that pointer `index` of a holder that lies on the device in this form is `ptr` now.
    /// What was noted of other forms of it is forgotten.
    pub fn add(&self, ino: Ino, holder: Holder, form: Form, index: usize, ptr: Ptr) {
        let table = &mut *self.0.borrow_mut();
        let noted =
            table.holders.entry((ino, holder)).or_insert_with(|| Noted { form, ptrs: Vec::new() });
        if noted.form != form {
            table.count -= noted.ptrs.len();
            *noted = Noted { form, ptrs: Vec::new() };
        }
        match noted.ptrs.binary_search_by_key(&(index as u32), |&(index, _)| index) {
            Ok(there) => noted.ptrs[there].1 = ptr,
            Err(place) => {
                noted.ptrs.insert(place, (index as u32, ptr));
                table.count += 1;
            }
        }
    }

    /// Tells `set` of each pointer that is newer than this form of a holder.
    pub fn apply(&self, ino: Ino, holder: Holder, form: Form, mut set: impl FnMut(usize, Ptr)) {
        let table = self.0.borrow();
        if let Some(noted) = table.holders.get(&(ino, holder)).filter(|noted| noted.form == form) {
            noted.ptrs.iter().for_each(|&(index, ptr)| set(index as usize, ptr));
        }
    }

    /// A holder was written, or is no more.
    pub fn drop_holder(&self, ino: Ino, holder: Holder) {
        let table = &mut *self.0.borrow_mut();
        if let Some(noted) = table.holders.remove(&(ino, holder)) {
            table.count -= noted.ptrs.len();
        }
    }

    /// True if something is noted of a holder.
    pub fn has(&self, ino: Ino, holder: Holder) -> bool {
        let table = self.0.borrow();
        !table.holders.is_empty() && table.holders.contains_key(&(ino, holder))
    }

    /// Forwarded pointers.
    pub fn len(&self) -> usize {
        self.0.borrow().count
    }

    /// True if no pointer is forwarded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDER: Holder = Holder::Indirect(-13);

    fn ptr(addr: u64) -> Ptr {
        Ptr { addr, len: 4096, crc: 7 }
    }

    fn form(at: u64) -> Form {
        Form { at, crc: 1 }
    }

    fn seen(forwards: &Forwards, at: u64) -> Vec<(usize, u64)> {
        let mut seen = Vec::new();
        forwards.apply(5, HOLDER, form(at), |index, ptr| seen.push((index, ptr.addr)));
        seen
    }

    #[test]
    fn the_latest_pointer_counts() {
        let forwards = Forwards::default();
        forwards.add(5, HOLDER, form(100), 3, ptr(10));
        forwards.add(5, HOLDER, form(100), 1, ptr(11));
        forwards.add(5, HOLDER, form(100), 3, ptr(12));
        assert_eq!(seen(&forwards, 100), [(1, 11), (3, 12)]);
        assert_eq!(forwards.len(), 2);
    }

    #[test]
    fn another_form_of_the_holder_is_left_alone() {
        let forwards = Forwards::default();
        forwards.add(5, HOLDER, form(100), 3, ptr(10));
        assert_eq!(seen(&forwards, 101), []);
        forwards.add(5, HOLDER, form(101), 4, ptr(11));
        assert_eq!((seen(&forwards, 100), seen(&forwards, 101)), (vec![], vec![(4, 11)]));
        assert_eq!(forwards.len(), 1);
    }

    #[test]
    fn a_holder_that_was_written_has_none() {
        let forwards = Forwards::default();
        forwards.add(5, HOLDER, form(100), 3, ptr(10));
        assert!(forwards.has(5, HOLDER) && !forwards.has(5, Holder::Inode));
        forwards.drop_holder(5, HOLDER);
        assert!(forwards.is_empty() && seen(&forwards, 100).is_empty());
    }
}
