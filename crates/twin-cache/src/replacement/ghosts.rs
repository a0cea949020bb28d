//! What a policy remembers of blocks that are no longer in the cache.
//!
//! Contract: a block is found, added and forgotten in constant time. The blocks of a study, which are numbers
//! without gaps ([`crate::study`]), are found without a hash.

use twin_rt::FixedMap;

use super::list::Lists;
use super::{Item, Key};

/// The value for a block that is not remembered.
const NOWHERE: u32 = u32::MAX;

/// The most bytes that the table takes for each remembered block, beyond [`TABLE_MIN`]. It has the blocks of file 0,
/// four bytes each: no file system has a file 0, and studies put their blocks there.
const TABLE_SHARE: usize = 64;
/// The number of blocks of file 0 that the table may have in any case.
const TABLE_MIN: usize = 1 << 20;

/// The numbers of remembered blocks, by block.
///
/// A miss under ARC asks four times for a number, each time far away in memory; a table without a hash takes one
/// access for it, a hash table two or three.
#[derive(Default)]
struct Numbers {
    table: Vec<u32>,
    /// The blocks that are not in the table, which may have grown past them since.
    others: FixedMap<Key, u32>,
}

impl Numbers {
    /// The place of a block in a table that is long enough.
    fn place((file, block): Key) -> Option<usize> {
        usize::try_from(block).ok().filter(|_| file == 0)
    }

    fn get(&self, key: Key) -> Option<u32> {
        let entry = Self::place(key).and_then(|place| self.table.get(place));
        match entry.filter(|number| **number != NOWHERE) {
            Some(number) => Some(*number),
            None if self.others.is_empty() => None,
            None => self.others.get(&key).copied(),
        }
    }

    fn remove(&mut self, key: Key) -> Option<u32> {
        let entry = Self::place(key).and_then(|place| self.table.get_mut(place));
        match entry.filter(|number| **number != NOWHERE) {
            Some(number) => Some(std::mem::replace(number, NOWHERE)),
            None if self.others.is_empty() => None,
            None => self.others.remove(&key),
        }
    }

    /// Adds a block that has no number, as one of `known` blocks.
    fn insert(&mut self, key: Key, number: u32, known: usize) {
        let most = TABLE_MIN.max(known.saturating_mul(TABLE_SHARE / size_of::<u32>()));
        let Some(place) = Self::place(key).filter(|place| *place < most) else {
            self.others.insert(key, number);
            return;
        };
        if self.table.len() <= place {
            self.table.resize(place + 1, NOWHERE);
        }
        self.table[place] = number;
    }
}

/// `N` lists of blocks that are in no frame, the oldest first, each block in at most one of them, with
/// a note.
pub(super) struct Ghosts<const N: usize, T = ()> {
    numbers: Numbers,
    /// The blocks by number; numbers are used again.
    known: Vec<(Key, T)>,
    free: Vec<u32>,
    lists: Lists<N>,
}

impl<const N: usize, T> Default for Ghosts<N, T> {
    fn default() -> Self {
        Ghosts {
            numbers: Numbers::default(),
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
        self.lists.list_of(self.numbers.get(key)?)
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
        self.numbers.insert(item.key, number, self.known.len());
        self.lists.push(list, number, item.weight);
    }

    /// Forgets a block; returns the list that it was in, and the note.
    pub(super) fn remove(&mut self, key: Key) -> Option<(usize, T)> {
        let number = self.numbers.remove(key)?;
        self.free.push(number);
        Some((self.lists.remove(number)?, self.known[number as usize].1))
    }

    /// Forgets the oldest block of a list; returns false if there is none.
    pub(super) fn forget_oldest(&mut self, list: usize) -> bool {
        let Some(number) = self.lists.oldest(list) else { return false };
        self.remove(self.known[number as usize].0).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use twin_rt::Rng;

    use super::*;

    #[test]
    fn blocks_are_found_in_and_beside_the_table() {
        let far = (TABLE_MIN as i64) + 7;
        let keys = [(0, 0), (0, 5), (0, far), (0, -3), (1, 5), (u64::MAX, i64::MAX), (0, i64::MAX)];
        let mut rng = Rng::new(1);
        let (mut ghosts, mut want) = (Ghosts::<2>::default(), BTreeMap::new());
        for _ in 0..2_000 {
            let (key, list) = (keys[rng.below(7) as usize], rng.below(2) as usize);
            if rng.below(3) == 0 {
                assert_eq!(ghosts.remove(key).map(|(list, ())| list), want.remove(&key));
            } else {
                ghosts.push(list, Item { key, weight: 1 }, ());
                want.insert(key, list);
            }
            for key in keys {
                assert_eq!(ghosts.list_of(key), want.get(&key).copied(), "{key:?}");
            }
        }
    }

    #[test]
    fn a_block_keeps_its_number_when_the_table_grows_past_it() {
        let mut ghosts = Ghosts::<1>::default();
        let far = TABLE_MIN as i64 + 7;
        ghosts.push(0, Item { key: (0, far), weight: 1 }, ());
        // The more blocks are known, the longer the table may be: now it grows past that block.
        for block in 0..=far / 8 {
            ghosts.push(0, Item { key: (0, block), weight: 1 }, ());
        }
        ghosts.push(0, Item { key: (0, far + 1), weight: 1 }, ());
        assert_eq!(ghosts.list_of((0, far)), Some(0));
        assert!(ghosts.remove((0, far)).is_some());
        assert_eq!((ghosts.list_of((0, far)), ghosts.list_of((0, far + 1))), (None, Some(0)));
    }
}
