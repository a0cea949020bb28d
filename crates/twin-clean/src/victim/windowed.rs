//! Windowed greedy: greedy among the segments that were sealed first, 90% of the candidates here.
//!
//! Hu, Eleftheriou, Haas, Iliadis and Pletka, "Write amplification analysis in flash-based solid
//! state drives", SYSTOR 2009; the window of 90% is taken from SepBIT's code.

use super::{Candidates, VictimPolicy};

#[derive(Default)]
pub(super) struct Windowed {
    by_age: Vec<(u64, u32)>,
}

impl VictimPolicy for Windowed {
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        self.by_age.clear();
        self.by_age.extend(candidates.iter().map(|(number, s)| (s.sealed_at, number)));
        let window = (self.by_age.len() * 9).div_ceil(10);
        if window == 0 {
            return None;
        }
        self.by_age.select_nth_unstable(window - 1);
        let least = |a: &&(u64, u32), b: &&(u64, u32)| {
            let utilization = |n: u32| candidates.view.segments[n as usize].utilization();
            utilization(a.1).total_cmp(&utilization(b.1)).then(a.1.cmp(&b.1))
        };
        self.by_age[..window].iter().min_by(least).map(|&(_, number)| number)
    }
}
