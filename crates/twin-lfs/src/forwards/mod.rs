//! Forwarded blocks: the cleaner's way to move a block and leave what points to it where it is.
//!
//! A moved block changes its indirect block or inode, which would move too, and leave a hole where
//! it was. On a nearly full volume whose blocks each have an indirect block of their own, that
//! fills more than the cleaner gains. So the summary of the cleaner's log write says beside each
//! such block in which form its holder stays on the device; memory knows the new place from
//! [`Forwards`]; and the segment is marked in the usage table, so that its summaries are read when
//! the volume is opened ([`load_forwards`]). The next time the holder is written, for whatever
//! reason, it has the new pointer, and its form is another one: the summary says nothing any more.
//!
//! Contract: what is in memory is always up to date. An entry counts for one form of its holder,
//! told by its place and checksum, and for no other: what loads a holder applies what is noted of
//! the form that it found. When a holder is written, or ceases to be, its entries are dropped.
//! Which blocks are forwarded is the cleaner's choice.

mod load;

use std::cell::RefCell;
use std::collections::BTreeMap;

use twin_cache::{Frame, Lbn};
use twin_fs::geometry::{Geometry, Parent, Ptr};
use twin_fs::{BlockMapHook, Core, Ino, Inode};

use crate::format::HolderVersion;
use crate::inode_state::InodeState;

pub(crate) use load::load_forwards;

/// Bytes of memory that a forwarded pointer may take.
const BYTES_EACH: u64 = 64;

/// What holds pointers to blocks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    Inode,
    Indirect(Lbn),
}

impl Holder {
    /// What holds the pointer to a block, and the pointer's index there.
    pub(crate) fn of(geometry: &Geometry, lbn: Lbn) -> (Holder, usize) {
        match geometry.parent(lbn) {
            Parent::Inode(slot) => (Holder::Inode, slot),
            Parent::Indirect(up, index) => (Holder::Indirect(up), index),
        }
    }
}

#[derive(Clone, Debug)]
struct ForwardedPointers {
    form: HolderVersion,
    /// The pointers, in ascending order of their index.
    ptrs: Vec<(u32, Ptr)>,
}

#[derive(Clone, Debug, Default)]
struct ForwardTable {
    holders: BTreeMap<(Ino, Holder), ForwardedPointers>,
    count: usize,
}

/// All forwarded pointers of a volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forwards(RefCell<ForwardTable>);

impl Forwards {
    /// Notes that pointer `index` of a holder that lies on the device in this form is `ptr` now.
    /// What was noted of other forms of it is forgotten.
    pub(crate) fn add(
        &self,
        ino: Ino,
        holder: Holder,
        form: HolderVersion,
        index: usize,
        ptr: Ptr,
    ) {
        let table = &mut *self.0.borrow_mut();
        let noted = table
            .holders
            .entry((ino, holder))
            .or_insert_with(|| ForwardedPointers { form, ptrs: Vec::new() });
        if noted.form != form {
            table.count -= noted.ptrs.len();
            *noted = ForwardedPointers { form, ptrs: Vec::new() };
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
    pub(crate) fn apply(
        &self,
        ino: Ino,
        holder: Holder,
        form: HolderVersion,
        mut set: impl FnMut(usize, Ptr),
    ) {
        let table = self.0.borrow();
        if let Some(noted) = table.holders.get(&(ino, holder)).filter(|noted| noted.form == form) {
            noted.ptrs.iter().for_each(|&(index, ptr)| set(index as usize, ptr));
        }
    }

    /// A holder was written, or is no more.
    pub(crate) fn drop_holder(&self, ino: Ino, holder: Holder) {
        let table = &mut *self.0.borrow_mut();
        if let Some(noted) = table.holders.remove(&(ino, holder)) {
            table.count -= noted.ptrs.len();
        }
    }

    /// True if something is noted of a holder.
    pub(crate) fn has(&self, ino: Ino, holder: Holder) -> bool {
        let table = self.0.borrow();
        !table.holders.is_empty() && table.holders.contains_key(&(ino, holder))
    }

    /// Brings an indirect block up to date that lies in memory as `ptr` leads to it.
    pub(crate) fn bring_up_to_date(&self, core: &Core, inode: &Inode, frame: &Frame, ptr: Ptr) {
        let (holder, form) =
            (Holder::Indirect(frame.lbn()), HolderVersion { at: ptr.addr, crc: ptr.crc });
        if self.has(inode.ino, holder) {
            self.apply(inode.ino, holder, form, |index, ptr| {
                frame.change(|block| core.geometry.set_ptr(block.bytes_mut(), index, ptr));
            });
        }
    }

    /// True if this many more pointers may be forwarded: their table stays within a sixteenth of
    /// what the cache may take.
    pub(crate) fn has_room_for(&self, core: &Core, count: usize) -> bool {
        let bytes = (self.len() + count) as u64 * BYTES_EACH;
        bytes <= core.settings.cache_bytes / 16
    }

    /// The number of forwarded pointers.
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().count
    }

    /// True if no pointer is forwarded.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl BlockMapHook for Forwards {
    fn loaded(&self, core: &Core, inode: &Inode, frame: &Frame, ptr: Ptr) {
        self.bring_up_to_date(core, inode, frame, ptr);
    }

    fn freed(&self, core: &Core, inode: &Inode, lbn: Lbn) {
        self.drop_holder(inode.ino, Holder::Indirect(lbn));
        InodeState::of(inode).block_freed(&core.geometry, lbn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDER: Holder = Holder::Indirect(-13);

    fn ptr(addr: u64) -> Ptr {
        Ptr { addr, len: 4096, crc: 7 }
    }

    fn form(at: u64) -> HolderVersion {
        HolderVersion { at, crc: 1 }
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
