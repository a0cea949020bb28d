//! A set of numbers that are mostly adjacent: segments that are clean, which on a large volume are nearly all.
//!
//! Contract: pure bookkeeping; memory goes with the number of ranges.

use std::collections::BTreeMap;

/// A set of numbers, kept as ranges that neither overlap nor touch.
#[derive(Default)]
pub(super) struct Ranges {
    /// The end of each range (not in it), by its start.
    ends: BTreeMap<u32, u32>,
    count: u32,
}

impl Ranges {
    /// The set of numbers, which are in ascending order.
    pub(super) fn of(numbers: impl Iterator<Item = u32>) -> Ranges {
        let mut ranges = Ranges::default();
        let mut open: Option<(u32, u32)> = None;
        for number in numbers {
            open = match open {
                Some((start, end)) if end == number => Some((start, number + 1)),
                before => {
                    ranges.ends.extend(before);
                    Some((number, number + 1))
                }
            };
            ranges.count += 1;
        }
        ranges.ends.extend(open);
        ranges
    }

    /// How many numbers are in the set.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The range with a number.
    fn around(&self, number: u32) -> Option<(u32, u32)> {
        let (&start, &end) = self.ends.range(..=number).next_back()?;
        (number < end).then_some((start, end))
    }

    pub(super) fn insert(&mut self, number: u32) {
        if self.around(number).is_some() {
            return;
        }
        let end = self.ends.remove(&(number + 1)).unwrap_or(number + 1);
        let before = number.checked_sub(1).and_then(|last| self.around(last));
        self.ends.insert(before.map_or(number, |(start, _)| start), end);
        self.count += 1;
    }

    /// Adds numbers that are larger than all in the set.
    pub(super) fn append(&mut self, numbers: std::ops::Range<u32>) {
        let Some(start) = self.ends.last_key_value().map(|(&start, _)| start) else {
            *self = Ranges::of(numbers);
            return;
        };
        self.count += numbers.len() as u32;
        if self.ends[&start] == numbers.start {
            self.ends.insert(start, numbers.end);
        } else if !numbers.is_empty() {
            self.ends.insert(numbers.start, numbers.end);
        }
    }

    pub(super) fn remove(&mut self, number: u32) {
        let Some((start, end)) = self.around(number) else { return };
        if start == number {
            self.ends.remove(&start);
        } else {
            self.ends.insert(start, number);
        }
        if number + 1 < end {
            self.ends.insert(number + 1, end);
        }
        self.count -= 1;
    }

    /// The numbers from `first` on, in order.
    pub(super) fn from(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let within = self.around(first).map(|(_, end)| first..end);
        let after = within.as_ref().map_or(first, |range| range.end);
        within
            .into_iter()
            .chain(self.ends.range(after..).map(|(&start, &end)| start..end))
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use twin_rt::Rng;

    use super::*;

    #[test]
    fn it_holds_what_a_plain_set_holds() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut plain: BTreeSet<u32> = (0..100).filter(|_| rng.chance(0.6)).collect();
            let mut ranges = Ranges::of(plain.iter().copied());
            for _ in 0..500 {
                let number = rng.below(100) as u32;
                if rng.chance(0.5) {
                    plain.insert(number);
                    ranges.insert(number);
                } else {
                    plain.remove(&number);
                    ranges.remove(number);
                }
                let first = rng.below(101) as u32;
                assert!(ranges.from(first).eq(plain.range(first..).copied()), "seed {seed}");
                assert_eq!(ranges.count() as usize, plain.len());
            }
            let mut touch = ranges.ends.iter().zip(ranges.ends.iter().skip(1));
            assert!(touch.all(|((_, end), (next, _))| end < next), "seed {seed}");
        }
    }

    #[test]
    fn what_is_appended_is_there_as_if_it_had_always_been() {
        for (before, more) in [(0..5, 5..9), (0..5, 6..9), (0..0, 3..9), (0..5, 5..5)] {
            let mut ranges = Ranges::of(before.clone());
            ranges.append(more.clone());
            let all = Ranges::of(before.chain(more));
            assert_eq!((ranges.ends, ranges.count), (all.ends, all.count));
        }
    }

    #[test]
    fn what_is_adjacent_takes_the_room_of_one() {
        let mut ranges = Ranges::of(0..1 << 20);
        ranges.remove(1 << 19);
        ranges.remove(0);
        assert_eq!((ranges.ends.len(), ranges.count()), (2, (1 << 20) - 2));
    }
}
