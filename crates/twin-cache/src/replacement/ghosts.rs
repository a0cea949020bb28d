//! What a policy remembers of blocks that are no longer in the cache.

use twin_rt::FixedMap;

use super::list::Lists;
use super::{Item, Key};

/// `N` lists of blocks that are in no frame, the oldest first, each block in at most one of them, with
/// a note.
pub(super) struct Ghosts<const N: usize, T = ()> {
    numbers: FixedMap<Key, u32>,
    /// The blocks by number; numbers are used again.
    known: Vec<(Key, T)>,
    free: Vec<u32>,
    lists: Lists<N>,
}

impl<const N: usize, T> Default for Ghosts<N, T> {
    fn default() -> Self {
        Ghosts {
            numbers: FixedMap::default(),
            known: Vec::new(),
            free: Vec::new(),
            lists: Lists::default(),
        }
    }
}

impl<const N: usize, T: Copy> Ghosts<N, T> {
    pub(super) fn len(&self, list: usize) -> usize {
        self.lists.len(list)
    }

    /// The weight of all blocks in a list.
    pub(super) fn weight(&self, list: usize) -> u64 {
        self.lists.weight(list)
    }

    /// The list that a block is in.
    pub(super) fn list_of(&self, key: Key) -> Option<usize> {
        self.lists.list_of(*self.numbers.get(&key)?)
    }

    /// Adds a block as the youngest; where it was before, it is no longer.
    pub(super) fn push(&mut self, list: usize, item: Item, note: T) {
        self.remove(item.key);
        let known = (item.key, note);
        let number = match self.free.pop() {
            Some(number) => {
                self.known[number as usize] = known;
                number
            }
            None => {
                self.known.push(known);
                self.known.len() as u32 - 1
            }
        };
        self.numbers.insert(item.key, number);
        self.lists.push(list, number, item.weight);
    }

    /// Forgets a block; returns the list that it was in, and the note.
    pub(super) fn remove(&mut self, key: Key) -> Option<(usize, T)> {
        let number = self.numbers.remove(&key)?;
        self.free.push(number);
        Some((self.lists.remove(number)?, self.known[number as usize].1))
    }

    /// Forgets the oldest block of a list; returns false if there is none.
    pub(super) fn forget_oldest(&mut self, list: usize) -> bool {
        let Some(number) = self.lists.oldest(list) else { return false };
        self.remove(self.known[number as usize].0).is_some()
    }
}
