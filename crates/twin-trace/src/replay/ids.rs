//! Tables by inode number: vectors where the numbers are dense, hash maps where they are not.

use twin_rt::FixedMap;

/// Values by number. Numbers that were never set have the default value.
///
/// Low numbers are kept in a vector that grows only while at least an eighth of it is used (beyond
/// its first 65,536 entries), so that a stray number cannot request much memory.
#[derive(Debug, Default)]
pub(super) struct IdMap<T> {
    dense: Vec<T>,
    sparse: FixedMap<u64, T>,
    touched: u64,
}

impl<T: Copy + Default> IdMap<T> {
    /// The value of a number.
    #[inline]
    pub(super) fn get(&self, id: u64) -> T {
        match self.dense.get(id as usize) {
            Some(value) => *value,
            None if self.sparse.is_empty() => T::default(),
            None => self.sparse.get(&id).copied().unwrap_or_default(),
        }
    }

    /// The value of a number, mutable.
    #[inline]
    pub(super) fn at(&mut self, id: u64) -> &mut T {
        if id < self.dense.len() as u64 {
            return &mut self.dense[id as usize];
        }
        self.new_slot(id)
    }

    /// All numbers that may have been set, with their values.
    pub(super) fn into_iter(self) -> impl Iterator<Item = (u64, T)> {
        let dense = self.dense.into_iter().enumerate().map(|(id, value)| (id as u64, value));
        dense.chain(self.sparse)
    }

    #[cold]
    fn new_slot(&mut self, id: u64) -> &mut T {
        self.touched += 1;
        if id >= 65_536 + self.touched * 8 {
            return self.sparse.entry(id).or_default();
        }
        let len = (id as usize + 1).max(self.dense.len() * 3 / 2);
        let old = self.dense.len() as u64;
        self.dense.resize(len, T::default());
        if !self.sparse.is_empty() {
            let dense = &mut self.dense;
            self.sparse.retain(|&id, value| {
                let moves = (old..len as u64).contains(&id);
                if moves {
                    dense[id as usize] = *value;
                }
                !moves
            });
        }
        &mut self.dense[id as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use twin_rt::Rng;

    #[test]
    fn values_stay_wherever_their_numbers_lie() {
        let (mut map, mut model) = (IdMap::default(), BTreeMap::new());
        let mut rng = Rng::new(1);
        for i in 0..200_000u64 {
            let id = match rng.below(4) {
                0 => rng.next_u64() >> rng.below(64),
                1 => rng.below(1_000_000),
                _ => i,
            };
            *map.at(id) = i;
            model.insert(id, i);
        }
        assert!(model.iter().all(|(&id, &value)| map.get(id) == value));
        assert_eq!(map.get(u64::MAX - 1), 0);
        assert!(map.dense.len() < 4_000_000 && map.sparse.len() > 1000);
    }

    #[test]
    fn stray_numbers_take_little_memory() {
        let mut map: IdMap<u64> = IdMap::default();
        let mut id = 1u64;
        while id < 1 << 62 {
            *map.at(id) = 1;
            id *= 2;
        }
        assert!(map.dense.len() < 200_000);
    }
}
