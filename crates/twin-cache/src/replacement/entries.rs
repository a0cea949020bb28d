//! Blocks by number, those in frames and those that are only remembered, for policies that have both in
//! one list.

use twin_rt::FixedMap;

use super::{Item, Key};

const NOWHERE: u32 = u32::MAX;

/// A block in the books of a policy.
pub(super) struct Entry<T> {
    pub(super) item: Item,
    /// The frame that it is in; `None` if it is only remembered.
    pub(super) slot: Option<u32>,
    /// True while the frame is dirty, so that it cannot be evicted.
    pub(super) is_dirty: bool,
    /// What the policy knows of it.
    pub(super) state: T,
}

/// The entries by number; numbers are used again.
pub(super) struct Entries<T> {
    all: Vec<Entry<T>>,
    free: Vec<u32>,
    by_slot: Vec<u32>,
    ghosts: FixedMap<Key, u32>,
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Entries {
            all: Vec::new(),
            free: Vec::new(),
            by_slot: Vec::new(),
            ghosts: FixedMap::default(),
        }
    }
}

impl<T> std::ops::Index<u32> for Entries<T> {
    type Output = Entry<T>;

    fn index(&self, number: u32) -> &Entry<T> {
        &self.all[number as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Entries<T> {
    fn index_mut(&mut self, number: u32) -> &mut Entry<T> {
        &mut self.all[number as usize]
    }
}

impl<T> Entries<T> {
    /// The entry of the block in a frame.
    pub(super) fn of_slot(&self, slot: u32) -> Option<u32> {
        self.by_slot.get(slot as usize).copied().filter(|number| *number != NOWHERE)
    }

    /// The entry of a block that is in no frame.
    pub(super) fn ghost(&self, key: Key) -> Option<u32> {
        self.ghosts.get(&key).copied()
    }

    /// The weight of a block, for sums.
    pub(super) fn weight(&self, number: u32) -> u64 {
        u64::from(self[number].item.weight)
    }

    fn set_slot(&mut self, slot: u32, number: u32) {
        let i = slot as usize;
        if self.by_slot.len() <= i {
            self.by_slot.resize(i + 1, NOWHERE);
        }
        self.by_slot[i] = number;
    }

    /// A new entry for a block in a frame.
    pub(super) fn add(&mut self, slot: u32, item: Item, state: T) -> u32 {
        let entry = Entry { item, slot: Some(slot), is_dirty: false, state };
        let number = match self.free.pop() {
            Some(number) => {
                self.all[number as usize] = entry;
                number
            }
            None => {
                self.all.push(entry);
                self.all.len() as u32 - 1
            }
        };
        self.set_slot(slot, number);
        number
    }

    /// A block that was only remembered is in a frame again.
    pub(super) fn revive(&mut self, number: u32, slot: u32) {
        self.ghosts.remove(&self.all[number as usize].item.key);
        self[number].slot = Some(slot);
        self.set_slot(slot, number);
    }

    /// The block leaves its frame and is remembered.
    pub(super) fn bury(&mut self, number: u32) {
        if let Some(slot) = self[number].slot.take() {
            self.by_slot[slot as usize] = NOWHERE;
            self.ghosts.insert(self[number].item.key, number);
        }
    }

    pub(super) fn forget(&mut self, number: u32) {
        match self[number].slot.take() {
            Some(slot) => self.by_slot[slot as usize] = NOWHERE,
            None => drop(self.ghosts.remove(&self.all[number as usize].item.key)),
        }
        self.free.push(number);
    }
}
