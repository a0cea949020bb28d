//! An ordered map and an ordered set of the logical blocks of a file, fast for adjacent blocks.
//!
//! Contract: they behave like a `BTreeMap` and a `BTreeSet`, but neighbouring blocks share one
//! entry of the tree. Therefore a lookup, an insertion and a removal in a large file cost a short
//! search and a bit count, and a whole range can be removed without a search for each block.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::Lbn;

/// The binary logarithm of the number of blocks in a chunk: 64, one for each bit of a word.
const BITS: u32 = 6;
const MASK: Lbn = (1 << BITS) - 1;

fn chunk_of(lbn: Lbn) -> Lbn {
    lbn >> BITS
}

fn bit_of(lbn: Lbn) -> u64 {
    1 << (lbn & MASK)
}

/// The bits of the blocks of a chunk that lie in a range.
fn bits_in(chunk: Lbn, range: &Range<Lbn>) -> u64 {
    let base = chunk << BITS;
    // `base` cannot overflow, because the ends of the number range are borders of chunks too.
    let from = range.start.max(base) - base;
    let to = range.end.min(base.saturating_add(MASK + 1)).saturating_sub(base);
    if to <= from {
        return 0;
    }
    let below = |n: Lbn| if n > MASK { u64::MAX } else { (1u64 << n) - 1 };
    below(to) & !below(from)
}

/// The chunks that a range touches.
fn chunks(range: &Range<Lbn>) -> Range<Lbn> {
    let end = if range.end == Lbn::MIN { Lbn::MIN } else { chunk_of(range.end - 1) + 1 };
    chunk_of(range.start)..end.max(chunk_of(range.start))
}

/// The numbers of the bits that are set, in ascending order.
fn bits(mut word: u64) -> impl Iterator<Item = Lbn> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        (word != 0).then(|| {
            word &= word - 1;
            Lbn::from(bit)
        })
    })
}

/// The blocks of a chunk that are in the map (bits in `used`), and their items in the same order.
struct Chunk<T> {
    used: u64,
    items: Vec<T>,
}

impl<T> Chunk<T> {
    /// The index in `items` of the item of a bit, or the one that it would have.
    fn place(&self, bit: u64) -> usize {
        (self.used & (bit - 1)).count_ones() as usize
    }

    fn with_bits(&self, base: Lbn) -> impl Iterator<Item = (Lbn, &T)> {
        bits(self.used).map(move |bit| base + bit).zip(&self.items)
    }
}

/// An ordered map from logical blocks.
pub(crate) struct ByBlock<T> {
    chunks: BTreeMap<Lbn, Chunk<T>>,
    len: usize,
}

impl<T> Default for ByBlock<T> {
    fn default() -> Self {
        ByBlock { chunks: BTreeMap::new(), len: 0 }
    }
}

impl<T> ByBlock<T> {
    #[inline]
    pub(crate) fn get(&self, lbn: Lbn) -> Option<&T> {
        let chunk = self.chunks.get(&chunk_of(lbn))?;
        let bit = bit_of(lbn);
        if chunk.used & bit == 0 {
            return None;
        }
        chunk.items.get(chunk.place(bit))
    }

    /// Inserts an item and returns the one that the block had before.
    pub(crate) fn insert(&mut self, lbn: Lbn, item: T) -> Option<T> {
        let empty = || Chunk { used: 0, items: Vec::with_capacity(1) };
        let chunk = self.chunks.entry(chunk_of(lbn)).or_insert_with(empty);
        let bit = bit_of(lbn);
        let place = chunk.place(bit);
        if chunk.used & bit != 0 {
            return Some(std::mem::replace(&mut chunk.items[place], item));
        }
        chunk.used |= bit;
        chunk.items.insert(place, item);
        self.len += 1;
        None
    }

    pub(crate) fn remove(&mut self, lbn: Lbn) -> Option<T> {
        let (number, bit) = (chunk_of(lbn), bit_of(lbn));
        let chunk = self.chunks.get_mut(&number)?;
        if chunk.used & bit == 0 {
            return None;
        }
        let item = chunk.items.remove(chunk.place(bit));
        chunk.used &= !bit;
        if chunk.used == 0 {
            self.chunks.remove(&number);
        }
        self.len -= 1;
        Some(item)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All items, in ascending order of their blocks.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.chunks.values().flat_map(|chunk| &chunk.items)
    }

    /// The blocks of a range that are in the map, with their items, in ascending order.
    pub(crate) fn range(&self, range: Range<Lbn>) -> impl Iterator<Item = (Lbn, &T)> {
        let touched = self.chunks.range(chunks(&range));
        touched
            .flat_map(|(&number, chunk)| chunk.with_bits(number << BITS))
            .skip_while({
                let start = range.start;
                move |&(lbn, _)| lbn < start
            })
            .take_while(move |&(lbn, _)| lbn < range.end)
    }

    /// Removes a range and returns its items, in ascending order of their blocks.
    pub(crate) fn take_range(&mut self, range: Range<Lbn>) -> Vec<T> {
        let numbers: Vec<Lbn> = self.chunks.range(chunks(&range)).map(|(&n, _)| n).collect();
        let mut taken = Vec::new();
        for number in numbers {
            let Some(chunk) = self.chunks.get_mut(&number) else { continue };
            let gone = chunk.used & bits_in(number, &range);
            if gone == chunk.used {
                taken.extend(self.chunks.remove(&number).into_iter().flat_map(|c| c.items));
            } else if gone != 0 {
                let first = chunk.place(1 << gone.trailing_zeros());
                taken.extend(chunk.items.drain(first..first + gone.count_ones() as usize));
                chunk.used &= !gone;
            }
        }
        self.len -= taken.len();
        taken
    }
}

/// An ordered set of logical blocks.
#[derive(Default)]
pub(crate) struct BlockSet {
    chunks: BTreeMap<Lbn, u64>,
    len: usize,
}

impl BlockSet {
    pub(crate) fn insert(&mut self, lbn: Lbn) {
        let word = self.chunks.entry(chunk_of(lbn)).or_default();
        self.len += usize::from(*word & bit_of(lbn) == 0);
        *word |= bit_of(lbn);
    }

    pub(crate) fn remove(&mut self, lbn: Lbn) {
        let Some(word) = self.chunks.get_mut(&chunk_of(lbn)) else { return };
        self.len -= usize::from(*word & bit_of(lbn) != 0);
        *word &= !bit_of(lbn);
        if *word == 0 {
            self.chunks.remove(&chunk_of(lbn));
        }
    }

    pub(crate) fn remove_range(&mut self, range: &Range<Lbn>) {
        let numbers: Vec<Lbn> = self.chunks.range(chunks(range)).map(|(&n, _)| n).collect();
        for number in numbers {
            let Some(word) = self.chunks.get_mut(&number) else { continue };
            let gone = *word & bits_in(number, range);
            self.len -= gone.count_ones() as usize;
            *word &= !gone;
            if *word == 0 {
                self.chunks.remove(&number);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The blocks of the set, in ascending order.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Lbn> {
        let chunks = self.chunks.iter();
        chunks.flat_map(|(&number, &word)| bits(word).map(move |bit| (number << BITS) + bit))
    }

    /// The number of blocks before number 0 in the set.
    pub(crate) fn len_below_0(&self) -> usize {
        self.chunks.range(..0).map(|(_, word)| word.count_ones() as usize).sum()
    }

    /// True if a block from number 0 on is in the set.
    pub(crate) fn has_data(&self) -> bool {
        self.chunks.last_key_value().is_some_and(|(&number, _)| number >= chunk_of(0))
    }

    /// The items that a map has for the blocks of this set, in ascending order of the blocks.
    pub(crate) fn of<'a, T>(&self, map: &'a ByBlock<T>) -> Vec<&'a T> {
        let mut found = Vec::with_capacity(self.len);
        for (number, &word) in &self.chunks {
            let Some(chunk) = map.chunks.get(number) else { continue };
            if word == chunk.used {
                found.extend(&chunk.items);
            } else {
                let places = bits(word & chunk.used).map(|bit| chunk.place(1 << bit));
                found.extend(places.map(|place| &chunk.items[place]));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use twin_rt::Rng;

    /// Numbers near the borders of chunks, on both sides of 0, and at both ends of the number
    /// range.
    fn number(rng: &mut Rng) -> Lbn {
        match rng.below(12) {
            0 => Lbn::MIN + rng.below(70) as Lbn,
            1 => Lbn::MAX - rng.below(70) as Lbn,
            _ => rng.below(400) as Lbn - 150,
        }
    }

    #[test]
    fn it_is_as_an_ordered_map() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let (mut map, mut set) = (ByBlock::default(), BlockSet::default());
            let (mut want, mut marked) = (BTreeMap::new(), BTreeSet::new());
            for step in 0..300 {
                let (lbn, other) = (number(&mut rng), number(&mut rng));
                match rng.below(12) {
                    0..=4 => assert_eq!(map.insert(lbn, step), want.insert(lbn, step)),
                    5 | 6 => {
                        assert_eq!(map.remove(lbn), want.remove(&lbn), "seed {seed}");
                        set.remove(lbn);
                        marked.remove(&lbn);
                    }
                    7..=9 if want.contains_key(&lbn) => {
                        set.insert(lbn);
                        marked.insert(lbn);
                    }
                    10 => {
                        let range = lbn.min(other)..lbn.max(other);
                        let gone: Vec<_> =
                            want.range(range.clone()).map(|(&l, &v)| (l, v)).collect();
                        let seen: Vec<_> = map.range(range.clone()).map(|(l, &v)| (l, v)).collect();
                        assert_eq!(seen, gone, "seed {seed}");
                        let taken = map.take_range(range.clone());
                        assert_eq!(taken, gone.iter().map(|g| g.1).collect::<Vec<_>>());
                        set.remove_range(&range);
                        want.retain(|l, _| !range.contains(l));
                        marked.retain(|l| !range.contains(l));
                    }
                    _ => assert_eq!(map.get(lbn), want.get(&lbn), "seed {seed}"),
                }
                assert_eq!((map.len(), map.is_empty()), (want.len(), want.is_empty()));
                assert_eq!((set.len(), set.is_empty()), (marked.len(), marked.is_empty()));
            }
            assert!(map.values().eq(want.values()), "seed {seed}");
            assert!(set.of(&map).into_iter().eq(marked.iter().map(|l| &want[l])), "seed {seed}");
            assert!(set.blocks().eq(marked.iter().copied()), "seed {seed}");
            assert_eq!(set.len_below_0(), marked.range(..0).count(), "seed {seed}");
        }
    }
}
