//! One memory for the caches of several volumes.
//!
//! Contract: the shares of all members together are never more than the memory. A member that needs a
//! frame when its share is full takes unused memory first, also that which another member has a
//! share of and does not use, then from the member that holds most for
//! the use that it makes of it: resident bytes for each lookup of late. One list of all frames by last
//! use, as a host's kernel has, would hold what was used within a common age, that is in proportion
//! to use; the members keep their own replacement policies, whatever these are. What is dirty or held
//! cannot be taken. Lookups count half as much after each [`HALF_LIFE`] lookups of all members.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The number of lookups of all members after which older ones count half.
const HALF_LIFE: u64 = 1 << 16;

/// Memory moves between members in pieces of this many bytes, so that not every insertion asks.
const PIECE: u64 = 64 << 10;

/// A cache that shares a memory.
pub trait Sharer {
    /// It is now the member `number` of a memory, and has a share of it for a start.
    fn joined(&self, memory: &Rc<Memory>, number: usize, share_bytes: u64);
    /// The bytes that it holds.
    fn resident_bytes(&self) -> u64;
    /// Those of them that are dirty.
    fn dirty_bytes(&self) -> u64;
    /// The bytes that it may hold.
    fn share_bytes(&self) -> u64;
    /// The bytes of a frame, the least that it needs.
    fn frame_bytes(&self) -> u64;
    /// Gives up to `bytes` of its share back. Returns how many it could give.
    fn gives(&self, bytes: u64) -> u64;
}

/// Access to a member's cache; it calls its argument once, or not at all if the volume is gone.
pub type Access = Box<dyn Fn(&mut dyn FnMut(&dyn Sharer))>;

/// A memory that several caches share. See the module.
pub struct Memory {
    bound_bytes: u64,
    unused_bytes: Cell<u64>,
    members: RefCell<Vec<Rc<Member>>>,
    looked: Cell<u64>,
    moved_bytes: Cell<u64>,
}

struct Member {
    access: Access,
    /// Lookups, the older ones weighted less.
    used: Cell<u64>,
}

impl Memory {
    /// A memory of this many bytes, without members.
    pub fn new(bound_bytes: u64) -> Rc<Memory> {
        Rc::new(Memory {
            bound_bytes,
            unused_bytes: Cell::new(bound_bytes),
            members: RefCell::default(),
            looked: Cell::new(0),
            moved_bytes: Cell::new(0),
        })
    }

    /// Makes a cache a member. Its share begins with what it holds now, at least one frame, even if
    /// that is more than is left.
    pub fn join(self: &Rc<Memory>, access: Access) {
        let number = self.members.borrow().len();
        access(&mut |cache| {
            let share = cache.resident_bytes().max(cache.frame_bytes());
            self.unused_bytes.set(self.unused_bytes.get().saturating_sub(share));
            cache.joined(self, number, share);
        });
        self.members.borrow_mut().push(Rc::new(Member { access, used: Cell::new(0) }));
    }

    /// The bytes of the whole memory.
    pub fn bound_bytes(&self) -> u64 {
        self.bound_bytes
    }

    /// Bytes that went from one member to another.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.get()
    }

    /// A member has looked a block up.
    pub(crate) fn looked(&self, number: usize) {
        let members = self.members.borrow();
        let Some(member) = members.get(number) else { return };
        member.used.set(member.used.get() + 1);
        self.looked.set(self.looked.get() + 1);
        if self.looked.get() >= HALF_LIFE {
            self.looked.set(0);
            members.iter().for_each(|member| member.used.set(member.used.get() / 2));
        }
    }

    /// The dirty bytes of all members but this one.
    pub(crate) fn dirty_of_others(&self, number: usize) -> u64 {
        let mut dirty = 0;
        for (_, member) in self.members.borrow().iter().enumerate().filter(|(i, _)| *i != number) {
            (member.access)(&mut |cache| dirty += cache.dirty_bytes());
        }
        dirty
    }

    /// The member `number`, which holds `resident` bytes, needs more. Returns what it gets, which may
    /// be nothing: then it is itself the one to give up frames.
    pub(crate) fn more(&self, number: usize, resident: u64) -> u64 {
        let unused = self.unused_bytes.get().min(PIECE);
        if unused > 0 {
            self.unused_bytes.set(self.unused_bytes.get() - unused);
            return unused;
        }
        let members: Vec<Rc<Member>> = self.members.borrow().iter().cloned().collect();
        let Some(own) = members.get(number) else { return 0 };
        let weight = |resident: u64, member: &Member| resident / (member.used.get() + 1);
        // Unused parts of shares, and the weight.
        let mut others: Vec<(u64, u64, usize)> = Vec::new();
        for (i, member) in members.iter().enumerate().filter(|(i, _)| *i != number) {
            (member.access)(&mut |cache| {
                let holds = cache.resident_bytes();
                let unused = cache.share_bytes().saturating_sub(holds) / PIECE;
                others.push((unused, weight(holds, member), i));
            });
        }
        others.sort_unstable_by_key(|&(unused, weight, i)| std::cmp::Reverse((unused, weight, i)));
        let own = weight(resident, own);
        let may = |&(unused, weight, _): &(u64, u64, usize)| unused > 0 || weight > own;
        for (.., i) in others.into_iter().filter(may) {
            let mut given = 0;
            (members[i].access)(&mut |cache| given = cache.gives(PIECE));
            if given > 0 {
                self.moved_bytes.set(self.moved_bytes.get() + given);
                return given;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, FileFrames, replacement};
    use twin_disk::Block;

    const FRAME: u64 = 4096;

    struct Volume {
        cache: Rc<Cache>,
        file: Rc<FileFrames>,
    }

    /// Members of a memory of so many pieces.
    fn volumes(count: usize, pieces: u64) -> (Rc<Memory>, Vec<Volume>) {
        let memory = Memory::new(pieces * PIECE);
        let all = (0..count).map(|_| {
            let policy = replacement::REGISTRY.default_entry().make(crate::Capacity::frames(64));
            let cache = Rc::new(Cache::new(1 << 40, FRAME, policy));
            let inner = Rc::clone(&cache);
            memory.join(Box::new(move |f| f(&*inner)));
            Volume { cache, file: FileFrames::new(1) }
        });
        let all = all.collect();
        (memory, all)
    }

    impl Volume {
        fn touch(&self, lbn: i64) {
            if self.cache.get(&self.file, lbn).is_none() {
                self.cache.insert(&self.file, lbn, Some(Block::Zero(4096)));
            }
        }

        fn frames(&self) -> u64 {
            self.cache.resident_bytes() / FRAME
        }
    }

    const A_PIECE: i64 = (PIECE / FRAME) as i64;

    #[test]
    fn a_volume_alone_may_fill_the_memory() {
        let (memory, all) = volumes(3, 4);
        (0..10 * A_PIECE).for_each(|lbn| all[1].touch(lbn));
        assert!(all[1].cache.resident_bytes() <= memory.bound_bytes());
        assert!(all[1].frames() as i64 >= 4 * A_PIECE - 4, "{}", all[1].frames());
    }

    #[test]
    fn memory_goes_to_the_volume_that_uses_it_and_stays_within_its_bound() {
        let (memory, all) = volumes(2, 8);
        (0..8 * A_PIECE).for_each(|lbn| all[0].touch(lbn));
        assert_eq!(all[1].frames(), 0);
        // Three of four lookups are the second's.
        for i in 0..100_000 {
            all[1].touch(i % (20 * A_PIECE));
            if i % 3 == 0 {
                all[0].touch(i % (20 * A_PIECE));
            }
            let all: u64 = all.iter().map(|v| v.cache.resident_bytes()).sum();
            assert!(all <= memory.bound_bytes());
        }
        let share = all[1].frames() as f64 / (all[0].frames() + all[1].frames()) as f64;
        assert!((0.6..0.9).contains(&share), "{share}");
        assert!(memory.moved_bytes() > 0);
    }

    #[test]
    fn what_a_volume_has_a_share_of_and_does_not_use_goes_to_another() {
        let (memory, all) = volumes(2, 8);
        (0..8 * A_PIECE).for_each(|lbn| all[0].touch(lbn));
        all[0].cache.remove_range(&all[0].file, 0..8 * A_PIECE);
        (0..20 * A_PIECE).for_each(|lbn| all[1].touch(lbn));
        assert!(all[1].frames() as i64 >= 7 * A_PIECE, "{}", all[1].frames());
        assert!(all[1].cache.resident_bytes() <= memory.bound_bytes());
    }

    #[test]
    fn what_is_dirty_is_not_taken_and_is_known_to_the_others() {
        let (memory, all) = volumes(2, 2);
        for lbn in 0..A_PIECE {
            all[0].touch(lbn);
            let frame = all[0].cache.peek(&all[0].file, lbn).unwrap();
            all[0].cache.mark_dirty(&all[0].file, &frame);
        }
        (0..100 * A_PIECE).for_each(|lbn| all[1].touch(lbn));
        assert_eq!(all[0].frames() as i64, A_PIECE);
        assert_eq!(all[1].cache.capacity_bytes(), memory.bound_bytes() - PIECE);
        assert!(all[1].cache.resident_bytes() <= PIECE + FRAME);
    }
}
