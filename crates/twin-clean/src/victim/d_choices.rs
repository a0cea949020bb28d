//! d-choices: greedy among d segments drawn at random, here 10.
//!
//! Van Houdt, "A mean field model for a class of garbage collection algorithms in flash-based solid
//! state drives", SIGMETRICS 2013. The random sample protects hot segments a little, and needs no
//! order of all segments; with separate logs for users and cleaner the best d is finite.

use twin_rt::Rng;

use super::{Candidates, VictimPolicy};
use crate::inputs::Setting;

const D: usize = 10;

pub(super) struct DChoices {
    rng: Rng,
    numbers: Vec<u32>,
}

impl DChoices {
    pub(super) fn new(setting: &Setting) -> DChoices {
        DChoices { rng: Rng::stream(setting.seed, "d-choices victims"), numbers: Vec::new() }
    }
}

impl VictimPolicy for DChoices {
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        self.numbers.clear();
        self.numbers.extend(candidates.iter().map(|(number, _)| number));
        most_garbage_of(&mut self.rng, &mut self.numbers, D, candidates)
    }
}

/// Draws `count` of the numbers, without repetition, and returns the one with the most garbage.
pub(super) fn most_garbage_of(
    rng: &mut Rng,
    numbers: &mut [u32],
    count: usize,
    candidates: &Candidates<'_>,
) -> Option<u32> {
    let count = count.min(numbers.len());
    for drawn in 0..count {
        let other = rng.range(drawn as u64, numbers.len() as u64) as usize;
        numbers.swap(drawn, other);
    }
    let least = |a: &&u32, b: &&u32| {
        let utilization = |n: u32| candidates.view.segments[n as usize].utilization();
        utilization(**a).total_cmp(&utilization(**b)).then(a.cmp(b))
    };
    numbers[..count].iter().min_by(least).copied()
}
