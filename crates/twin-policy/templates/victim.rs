//! A victim policy: the most space that is won for each block that is read and written, weighed by age (cost-benefit;
//! Rosenblum and Ousterhout, 1991).

mod twinfs;

use twinfs::log::{Log, Segment, Setting};
use twinfs::victim::Victim;

crate::export!(victim, "NAME", "most (1-u) * age / (1+u)", CostBenefit);

struct CostBenefit;

fn score(segment: &Segment, now: u64) -> f64 {
    let (used, age) = (segment.utilization(), now.saturating_sub(segment.youngest_at) as f64);
    (1.0 - used) * age / (1.0 + used)
}

impl Victim for CostBenefit {
    fn new(_: Setting) -> Self {
        CostBenefit
    }

    fn choose(&mut self, log: &Log) -> Option<u32> {
        let mut best = None;
        for (number, segment) in log.candidates() {
            let score = score(&segment, log.now);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, number));
            }
        }
        best.map(|(_, number)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_garbage_is_better_than_new() {
        let segment = |youngest_at| Segment {
            written_blocks: 100,
            live_blocks: 50,
            youngest_at,
            ..Segment::default()
        };
        assert!(score(&segment(10), 1000) > score(&segment(900), 1000));
    }
}
