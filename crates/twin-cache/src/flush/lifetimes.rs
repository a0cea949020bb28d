//! How long versions of blocks live: a histogram for each class of blocks.
//!
//! The class of a version is how long the version before it lived, since blocks that are rewritten
//! soon are rewritten soon again; the first version that memory knows is classed by its block's
//! number, since short files die younger than long ones (Baker and others, "Measurements of a
//! Distributed File System", 1991, section 4).

use twin_rt::{MILLIS, Nanos};

use crate::Lbn;

/// The lives of bucket `k` are shorter than `SHORTEST_NS << k`.
const SHORTEST_NS: Nanos = 50 * MILLIS;
const BUCKETS: usize = 16;

/// The number of classes of first versions: block 0, 1, 2 to 3, 4 to 7 ...
const FIRST_CLASSES: usize = 8;

/// The number of versions from which on the figures of a class are used.
const ENOUGH: f64 = 16.0;

/// The number of versions after which a class halves its counts.
const MOST: f64 = 4096.0;

/// The class of a version.
pub(super) fn class(lbn: Lbn, last_life_ns: Option<Nanos>) -> usize {
    match last_life_ns {
        None => {
            (u64::BITS - lbn.unsigned_abs().leading_zeros()).min(FIRST_CLASSES as u32 - 1) as usize
        }
        Some(life) => FIRST_CLASSES + bucket(life),
    }
}

fn bucket(life_ns: Nanos) -> usize {
    let times = life_ns / SHORTEST_NS;
    ((u64::BITS - times.leading_zeros()) as usize).min(BUCKETS - 1)
}

/// The end of a bucket.
fn end_ns(bucket: usize) -> Nanos {
    SHORTEST_NS << bucket
}

/// The versions of one class.
#[derive(Clone, Copy, Default)]
struct Class {
    /// The number of deaths, by the length of the life.
    deaths: [f64; BUCKETS],
    /// Versions that were written back and have not been seen to die since.
    survivors: f64,
}

impl Class {
    fn count(&self) -> f64 {
        self.survivors + self.deaths.iter().sum::<f64>()
    }

    fn forget(&mut self) {
        if self.count() > MOST {
            self.survivors /= 2.0;
            self.deaths.iter_mut().for_each(|n| *n /= 2.0);
        }
    }

    /// The age at which it costs least to write a version.
    fn best_age(&self, price_ns: Nanos, most_ns: Nanos) -> Nanos {
        let cost = |deaths: &[f64], age_ns: Nanos| {
            let (mut lost, mut dead) = (0.0, 0.0);
            for (k, n) in deaths.iter().enumerate() {
                lost += n * (end_ns(k) as f64 * 0.75).min(age_ns as f64);
                dead += n;
            }
            lost + (self.count() - dead) * (age_ns + price_ns) as f64
        };
        let mut best = (cost(&[], 0), 0);
        for k in 0..BUCKETS {
            let age_ns = end_ns(k);
            if age_ns > most_ns {
                break;
            }
            let here = cost(&self.deaths[..=k], age_ns);
            if here < best.0 {
                best = (here, age_ns);
            }
        }
        best.1
    }
}

/// What is known of all classes.
pub(super) struct Lifetimes {
    classes: Vec<Class>,
}

impl Lifetimes {
    pub(super) fn new() -> Lifetimes {
        Lifetimes { classes: vec![Class::default(); FIRST_CLASSES + BUCKETS] }
    }

    /// Notes the death of a version; `written` if it counts as a survivor so far.
    pub(super) fn note_death(&mut self, class: usize, life_ns: Nanos, written: bool) {
        let class = &mut self.classes[class];
        class.deaths[bucket(life_ns)] += 1.0;
        if written {
            class.survivors = (class.survivors - 1.0).max(0.0);
        }
        class.forget();
    }

    /// Notes that a version is written back, and so has survived until now.
    pub(super) fn note_written(&mut self, class: usize) {
        let class = &mut self.classes[class];
        class.survivors += 1.0;
        class.forget();
    }

    /// The age at which versions of each class should be written, if a write costs as much as having
    /// the block at risk for `price_ns`. A class of which too little is known gets the price itself
    /// as its age, which never costs more than twice the best.
    pub(super) fn ages(&self, price_ns: Nanos, most_ns: Nanos) -> Vec<Nanos> {
        let age = |class: &Class| match class.count() < ENOUGH {
            true => price_ns,
            false => class.best_age(price_ns, most_ns),
        };
        self.classes.iter().map(age).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_rt::SECS;

    fn after(deaths: &[(Nanos, u32)], survivors: u32) -> Nanos {
        let mut lives = Lifetimes::new();
        for (life, n) in deaths {
            (0..*n).for_each(|_| lives.note_death(0, *life, false));
        }
        (0..survivors).for_each(|_| lives.note_written(0));
        lives.ages(5 * SECS, 40 * SECS)[0]
    }

    #[test]
    fn what_lives_is_written_at_once_and_what_dies_soon_is_waited_for() {
        assert_eq!(after(&[], 100), 0);
        let wait = after(&[(SECS, 95)], 5);
        assert!((SECS..=4 * SECS).contains(&wait), "{wait}");
    }

    #[test]
    fn what_dies_too_late_is_written_at_once() {
        assert_eq!(after(&[(30 * SECS, 90)], 10), 0);
    }

    #[test]
    fn a_class_of_which_nothing_is_known_waits_as_long_as_a_write_costs() {
        assert_eq!(after(&[], 3), 5 * SECS);
    }

    #[test]
    fn a_survivor_that_dies_after_all_is_one_no_more() {
        let mut lives = Lifetimes::new();
        (0..100).for_each(|_| lives.note_written(3));
        (0..100).for_each(|_| lives.note_death(3, SECS, true));
        assert!(lives.ages(5 * SECS, 40 * SECS)[3] >= SECS);
    }

    #[test]
    fn classes_are_within_bounds() {
        let lives = Lifetimes::new();
        for lbn in [-5, 0, 1, 2, 100, Lbn::MAX] {
            for life in [None, Some(0), Some(SECS), Some(Nanos::MAX)] {
                assert!(class(lbn, life) < lives.classes.len());
            }
        }
    }
}
