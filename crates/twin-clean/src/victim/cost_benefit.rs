//! Cost-benefit in two forms: space gained times how long it will stay free, over the cost.
//!
//! Rosenblum and Ousterhout (SOSP 1991, section 3.6) rank by (1-u) * age / (1+u): reading costs 1,
//! writing u, and the age of the youngest block predicts how long the remaining blocks will live.
//! SepBIT's published code ranks by (1-u)/u * sqrt(age), with the age since the last block was
//! appended.

use super::{Candidates, VictimPolicy};

/// The formula of Rosenblum and Ousterhout.
pub(super) struct CostBenefit;

impl VictimPolicy for CostBenefit {
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        let now = candidates.view.now;
        candidates.best(|segment| {
            let (u, age) = (segment.utilization(), now - segment.youngest_at + 1);
            (1.0 - u) * age as f64 / (1.0 + u)
        })
    }
}

/// The formula of SepBIT's code.
pub(super) struct CostBenefitSqrt;

impl VictimPolicy for CostBenefitSqrt {
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        let now = candidates.view.now;
        candidates.best(|segment| {
            let u = segment.utilization();
            (1.0 - u) / u * ((now - segment.sealed_at) as f64).sqrt()
        })
    }
}
