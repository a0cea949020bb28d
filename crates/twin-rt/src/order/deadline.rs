//! The earliest deadline first, and those with one before those without.
//!
//! Contract: the one that arrived first is passed over at most [`MOST_PASSED`] times in a row. So one behind `n` others
//! goes on after at most `(n + 1) * (MOST_PASSED + 1)` choices, whatever arrives meanwhile, and work without deadlines
//! gets at least one choice of nine. (Liu and Layland, "Scheduling algorithms for multiprogramming in a hard-real-time
//! environment", JACM 1973, section 7; here without preemption.)

use super::Waiting;

/// How many times in a row others may go before the first.
const MOST_PASSED: u32 = 8;

pub(super) fn earliest(waiting: Waiting<'_>) -> usize {
    if waiting.passed >= MOST_PASSED {
        return 0;
    }
    // Of equal deadlines, and of those without, the first is taken.
    let keyed = waiting.deadlines.enumerate().filter_map(|(place, due)| Some((due?, place)));
    keyed.min().map_or(0, |(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::TaskOrder;
    use crate::{Rng, Time};

    fn place(waiting: &[Option<u64>], passed: &mut u32) -> usize {
        let deadlines = waiting.iter().map(|due| due.map(Time));
        TaskOrder(earliest).choose(deadlines, passed)
    }

    #[test]
    fn the_earliest_deadline_goes_before_later_ones_and_before_none() {
        let passed = &mut 0;
        assert_eq!(place(&[None, Some(9), Some(4), None], passed), 2);
        assert_eq!(place(&[Some(4), Some(4)], passed), 0, "of equal ones the first");
        assert_eq!(place(&[None, None], passed), 0, "without deadlines as they arrived");
    }

    #[test]
    fn nothing_that_waits_is_passed_over_for_ever() {
        for seed in 0..200 {
            let mut rng = Rng::stream(seed, "deadline");
            // What waits: its number of arrival, its deadline, how many were before it, and choices since.
            let mut waiting: Vec<(u64, Option<u64>, u64, u64)> = Vec::new();
            let (mut arrived, mut passed) = (0, 0);
            for _ in 0..2000 {
                for _ in 0..=rng.below(3) {
                    let due = rng.chance(0.7).then(|| rng.below(1000));
                    if waiting.len() < 50 {
                        waiting.push((arrived, due, waiting.len() as u64, 0));
                        arrived += 1;
                    }
                }
                let deadlines: Vec<Option<u64>> = waiting.iter().map(|one| one.1).collect();
                waiting.remove(place(&deadlines, &mut passed));
                for (number, _, before, choices) in &mut waiting {
                    *choices += 1;
                    let bound = (*before + 1) * u64::from(MOST_PASSED + 1);
                    assert!(*choices <= bound, "seed {seed}: {number} waits for {choices} choices");
                }
            }
        }
    }
}
