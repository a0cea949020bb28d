//! The cost of keeping blocks that die at some rate: optimal stopping for memoryless blocks.
//!
//! Blocks die at rate l; a segment of them is cleaned when a share u is still live; g = 1 - u. Then
//! a live block costs l u/g moves per unit of time, and holds ln(1/u)/g - 1 blocks of garbage on
//! average (the mean utilization of a segment that decays from 1 to u is g / ln(1/u)). If a block
//! of garbage costs p per unit of time, the sum is least where p = l u / (g - u ln(1/u)). The
//! victim policy `twin` applies the same rule from the other side: it cleans the segment with the
//! least value of this expression, so that garbage has the same worth everywhere.

/// Number of steps of u.
const STEPS: usize = 400;

#[derive(Clone, Copy, Debug)]
struct Step {
    /// ln(l/p).
    log_ratio: f64,
    /// Cost per live block, in units of p.
    cost: f64,
    /// Garbage per live block.
    garbage: f64,
}

/// A table over u.
pub(super) struct Model {
    steps: Vec<Step>,
}

impl Model {
    pub(super) fn new() -> Model {
        let step = |at: usize| {
            let u = 1.0 - (at as f64 + 0.5) / STEPS as f64;
            let (g, life) = (1.0 - u, -u.ln());
            let (ratio, garbage) = ((g - u * life) / u, life / g - 1.0);
            Step { log_ratio: ratio.ln(), cost: ratio * u / g + garbage, garbage }
        };
        Model { steps: (0..STEPS).map(step).collect() }
    }

    /// Cost (in prices of garbage) and garbage per live block, for this ratio of death rate to
    /// price.
    pub(super) fn at(&self, ratio: f64) -> (f64, f64) {
        let log_ratio = ratio.max(1e-30).ln();
        let after = self.steps.partition_point(|step| step.log_ratio < log_ratio);
        let after = after.clamp(1, self.steps.len() - 1);
        let (a, b) = (self.steps[after - 1], self.steps[after]);
        let part = ((log_ratio - a.log_ratio) / (b.log_ratio - a.log_ratio)).clamp(0.0, 1.0);
        (a.cost + part * (b.cost - a.cost), a.garbage + part * (b.garbage - a.garbage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_utilization_costs_least() {
        let model = Model::new();
        for ratio in [0.01f64, 0.1, 1.0, 10.0] {
            let cost = |u: f64| ratio * u / (1.0 - u) + -u.ln() / (1.0 - u) - 1.0;
            let least = (1..1000).map(|at| cost(f64::from(at) / 1000.0)).fold(f64::MAX, f64::min);
            let (found, _) = model.at(ratio);
            assert!((found - least).abs() < 0.01 * least, "{ratio}: {found}, {least}");
        }
    }
}
