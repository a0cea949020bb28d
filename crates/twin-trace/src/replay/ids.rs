//! Tables by inode number: arrays where the numbers are dense, hash maps where they are not.

use twin_rt::FixedMap;

/// Number of values that are allocated together: a stray number takes that many.
const CHUNK: usize = 64;
/// Numbers below this one are in arrays however few of them there are.
const LOW: u64 = 65_536;

type Chunk<T> = Option<Box<[T; CHUNK]>>;

/// Values by number. Numbers that were never set have the default value.
///
/// Low numbers are kept in chunks of an array, whose range grows only while at least an eighth of
/// its chunks is used, so that a stray number cannot request much memory. Chunks never move, so the table
/// of a long run has no copy of itself while it grows.
#[derive(Debug)]
pub(super) struct IdMap<T> {
    dense: Vec<Chunk<T>>,
    sparse: FixedMap<u64, T>,
    /// The numbers for which memory was taken: of each chunk an eighth, and all in `sparse`.
    used: u64,
}

impl<T> Default for IdMap<T> {
    fn default() -> Self {
        IdMap { dense: Vec::new(), sparse: FixedMap::default(), used: 0 }
    }
}

impl<T: Copy + Default> IdMap<T> {
    /// The value of a number.
    #[inline]
    pub(super) fn get(&self, id: u64) -> T {
        match self.dense.get(chunk_of(id)) {
            Some(Some(chunk)) => chunk[id as usize % CHUNK],
            Some(None) => T::default(),
            None if self.sparse.is_empty() => T::default(),
            None => self.sparse.get(&id).copied().unwrap_or_default(),
        }
    }

    /// The value of a number, mutable.
    #[inline]
    pub(super) fn at(&mut self, id: u64) -> &mut T {
        let index = chunk_of(id);
        if !matches!(self.dense.get(index), Some(Some(_))) {
            return self.new_slot(id);
        }
        let chunk = self.dense[index].get_or_insert_with(empty);
        &mut chunk[id as usize % CHUNK]
    }

    /// All numbers that may have been set, with their values.
    pub(super) fn into_iter(self) -> impl Iterator<Item = (u64, T)> {
        let chunks = self.dense.into_iter().enumerate();
        let dense = chunks.flat_map(|(index, chunk)| {
            let values = chunk.into_iter().flat_map(|values| *values).enumerate();
            values.map(move |(at, value)| ((index * CHUNK + at) as u64, value))
        });
        dense.chain(self.sparse)
    }

    /// A number that has no place in a chunk yet gets one, or a place beside them.
    #[cold]
    fn new_slot(&mut self, id: u64) -> &mut T {
        let index = chunk_of(id);
        if index >= self.dense.len() {
            if id >= LOW + self.used * 8 {
                let used = &mut self.used;
                return self.sparse.entry(id).or_insert_with(|| {
                    *used += 1;
                    T::default()
                });
            }
            self.widen((index + 1).max(self.dense.len() * 3 / 2));
        }
        let used = &mut self.used;
        let chunk = self.dense[index].get_or_insert_with(|| {
            *used += CHUNK as u64 / 8;
            empty()
        });
        &mut chunk[id as usize % CHUNK]
    }

    /// Takes the numbers of the first `chunks` chunks into arrays.
    fn widen(&mut self, chunks: usize) {
        self.dense.resize_with(chunks, || None);
        let dense = &mut self.dense;
        self.sparse.retain(|&id, value| {
            let Some(chunk) = dense.get_mut(chunk_of(id)) else { return true };
            chunk.get_or_insert_with(empty)[id as usize % CHUNK] = *value;
            false
        });
    }
}

/// The chunk of a number; beyond all chunks if an index cannot hold it.
fn chunk_of(id: u64) -> usize {
    usize::try_from(id / CHUNK as u64).unwrap_or(usize::MAX)
}

fn empty<T: Copy + Default>() -> Box<[T; CHUNK]> {
    Box::new([T::default(); CHUNK])
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
        assert!(map.dense.len() * CHUNK < 4_000_000 && map.sparse.len() > 1000);
    }

    #[test]
    fn stray_numbers_take_little_memory() {
        let mut map: IdMap<u64> = IdMap::default();
        let mut id = 1u64;
        while id < 1 << 62 {
            *map.at(id) = 1;
            id *= 2;
        }
        assert!(map.dense.len() * CHUNK < 200_000);
    }
}
