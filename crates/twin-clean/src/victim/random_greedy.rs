//! Random greedy: greedy in a random sample of the candidates, a fifth of them here.
//!
//! Li, Lee and Lui, "Stochastic Modeling of Large-Scale Solid-State Storage Systems", SIGMETRICS
//! 2013. The share of a fifth, and at least two candidates, are taken from SepBIT's code.

use twin_rt::Rng;

use super::d_choices::most_garbage_of;
use super::{Candidates, VictimPolicy};
use crate::inputs::Setting;

pub(super) struct RandomGreedy {
    rng: Rng,
    numbers: Vec<u32>,
}

impl RandomGreedy {
    pub(super) fn new(setting: &Setting) -> RandomGreedy {
        RandomGreedy {
            rng: Rng::stream(setting.seed, "random greedy victims"),
            numbers: Vec::new(),
        }
    }
}

impl VictimPolicy for RandomGreedy {
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        self.numbers.clear();
        self.numbers.extend(candidates.iter().map(|(number, _)| number));
        let count = self.numbers.len().div_ceil(5).max(2);
        most_garbage_of(&mut self.rng, &mut self.numbers, count, candidates)
    }
}
