//! The inodes in memory, by number.
//!
//! Contract: an inode is in the table at most once. It stays while a task uses it or while it or
//! one of its blocks is dirty; an idle inode stays as long as the limit on their number allows.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use twin_cache::Cache;
use twin_rt::FixedMap;

use super::inode::Inode;
use crate::Ino;

/// The most inodes that are considered for eviction whenever one is added.
const SWEEP: usize = 8;

/// The entries that inodes which have left may have in the clock, beside one for each that is there.
const LEFT: usize = 256;

/// The inodes in memory. See the module.
#[derive(Default)]
pub(crate) struct InodeTable {
    by_number: RefCell<FixedMap<Ino, Rc<Inode>>>,
    /// The order in which inodes are considered for eviction, each with the turn in which it came. An
    /// inode that leaves otherwise, because its file is removed, leaves its entry behind: the turn says that
    /// a later inode of the same number is another one. The clock is cleared of such entries before
    /// they are more than half of it, so that files which come and go take no memory.
    clock: RefCell<VecDeque<(Ino, u32)>>,
    last_turn: Cell<u32>,
}

impl InodeTable {
    pub(crate) fn get(&self, ino: Ino) -> Option<Rc<Inode>> {
        self.by_number.borrow().get(&ino).cloned()
    }

    /// Adds an inode, unless the table has one with its number, and returns the one in the table.
    /// Evicts idle inodes if there are more than `most`.
    pub(crate) fn add(&self, inode: Rc<Inode>, cache: &Cache, most: usize) -> Rc<Inode> {
        if let Some(there) = self.get(inode.ino) {
            return there;
        }
        self.last_turn.set(self.last_turn.get().wrapping_add(1));
        inode.turn.set(self.last_turn.get());
        self.by_number.borrow_mut().insert(inode.ino, Rc::clone(&inode));
        self.clock.borrow_mut().push_back((inode.ino, inode.turn.get()));
        self.evict(cache, most);
        if self.clock.borrow().len() > 2 * self.len() + LEFT {
            self.clear_clock();
        }
        inode
    }

    /// The inode of an entry of the clock, if it is still there.
    fn of_turn(&self, (ino, turn): (Ino, u32)) -> Option<Rc<Inode>> {
        self.get(ino).filter(|inode| inode.turn.get() == turn)
    }

    /// Removes the entries of inodes that have left.
    fn clear_clock(&self) {
        self.clock.borrow_mut().retain(|entry| self.of_turn(*entry).is_some());
    }

    pub(crate) fn remove(&self, ino: Ino) {
        self.by_number.borrow_mut().remove(&ino);
    }

    /// Evicts idle inodes in a bounded second-chance sweep, until there are no more than `most`.
    fn evict(&self, cache: &Cache, most: usize) {
        for _ in 0..SWEEP {
            if self.len() <= most {
                return;
            }
            let Some(entry) = self.clock.borrow_mut().pop_front() else { return };
            let Some(inode) = self.of_turn(entry) else { continue };
            if is_idle(&inode) && !inode.frames.has_dirty() && cache.release(&inode.frames) {
                self.remove(inode.ino);
            } else {
                self.clock.borrow_mut().push_back(entry);
            }
        }
    }

    /// Drops every clean block and every idle inode.
    pub(crate) fn drop_idle(&self, cache: &Cache) {
        let mut inodes: Vec<_> = self.by_number.borrow().values().cloned().collect();
        inodes.sort_by_key(|inode| inode.ino);
        for inode in inodes {
            if cache.release(&inode.frames) && is_idle(&inode) {
                self.remove(inode.ino);
            }
        }
        self.clear_clock();
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.borrow().len()
    }
}

/// True if an inode is clean and only the table and the caller have a reference to it.
fn is_idle(inode: &Rc<Inode>) -> bool {
    Rc::strong_count(inode) == 2 && !inode.is_dirty()
}

#[cfg(test)]
mod tests {
    use twin_cache::{Capacity, replacement};

    use super::*;
    use crate::dinode::Dinode;
    use crate::geometry::Geometry;
    use crate::{Timestamp, mode};

    fn inode(ino: Ino) -> Rc<Inode> {
        let geometry = Geometry::modern(4096, 512);
        Inode::new(Dinode::new(&geometry, ino, 1, mode::REGULAR, Timestamp::default()))
    }

    fn cache() -> Cache {
        let policy = replacement::REGISTRY.get("lru").unwrap().make(Capacity::frames(256));
        Cache::new(1 << 20, 4096, policy)
    }

    #[test]
    fn files_that_come_and_go_take_no_memory() {
        let (table, cache) = (InodeTable::default(), cache());
        (2..102).for_each(|ino| drop(table.add(inode(ino), &cache, 1000)));
        for _ in 0..100_000 {
            table.add(inode(500), &cache, 1000);
            table.remove(500);
        }
        assert_eq!(table.len(), 100);
        assert!(table.clock.borrow().len() <= 2 * table.len() + LEFT + 1);
    }

    #[test]
    fn an_inode_is_evicted_in_its_own_turn_and_not_in_that_of_an_earlier_one_of_its_number() {
        let (table, cache) = (InodeTable::default(), cache());
        table.add(inode(2), &cache, 3);
        table.remove(2);
        (3..5).for_each(|ino| drop(table.add(inode(ino), &cache, 3)));
        table.add(inode(2), &cache, 3);
        table.add(inode(5), &cache, 3);
        let there = (2..6).filter(|ino| table.get(*ino).is_some());
        assert_eq!(there.collect::<Vec<_>>(), [2, 4, 5]);
    }
}
