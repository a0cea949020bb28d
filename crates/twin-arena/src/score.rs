//! What a policy is worth: values of runs, and one number from them.
//!
//! Contract: a policy's cost on some inputs is the mean over them of the logarithms of its values, weighted by the
//! task; its score is the cost of the best policy of the registry on the same inputs against its own, as a factor.
//! So the best of the registry has exactly 1, twice the device time at equal weights of one halves a score, and no
//! unit matters. A value has a floor, below which it counts as that: otherwise a policy with nothing at risk were
//! infinitely good.

use serde::{Deserialize, Serialize};

use crate::task::Weights;

/// What counts as nothing: seconds of the device, write cost, bytes at risk.
const FLOORS: [f64; 3] = [1e-6, 0.01, 65_536.0];

/// What a run of a policy measured, as far as it has that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Values {
    /// Seconds for which the device was busy.
    pub device_s: Option<f64>,
    /// Bytes moved to and from the device for each byte of new data.
    pub write_cost: Option<f64>,
    /// The mean of the dirty bytes that a power failure would take.
    pub at_risk_bytes: Option<f64>,
    /// Accesses that did not find their block.
    pub misses: Option<u64>,
}

impl Values {
    /// What counts, in the order of the weights.
    pub(crate) fn each(&self) -> [Option<f64>; 3] {
        [self.device_s, self.write_cost, self.at_risk_bytes]
    }

    /// The logarithm of what they cost together; 0 if the task weighs none of them.
    fn cost(&self, weights: &Weights) -> f64 {
        let (mut sum, mut weight) = (0.0, 0.0);
        for ((value, share), floor) in self.each().into_iter().zip(weights.each()).zip(FLOORS) {
            if let Some(value) = value {
                sum += share * value.max(floor).ln();
                weight += share;
            }
        }
        if weight > 0.0 { sum / weight } else { 0.0 }
    }
}

/// The cost of values on several inputs.
pub(crate) fn cost(weights: &Weights, values: &[Values]) -> f64 {
    values.iter().map(|one| one.cost(weights)).sum::<f64>() / values.len().max(1) as f64
}

/// The values of a policy of the registry, by input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rival {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Vec<Values>,
}

/// The best of the registry on these inputs.
pub(crate) fn best<'a>(weights: &Weights, rivals: &'a [Rival]) -> Option<(&'a Rival, f64)> {
    let costs = rivals.iter().map(|rival| (rival, cost(weights, &rival.values)));
    costs.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The score of values against the cost of the best.
pub(crate) fn score(weights: &Weights, best: f64, values: &[Values]) -> f64 {
    (best - cost(weights, values)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: Weights = Weights { device_time: 0.5, write_cost: 0.25, at_risk: 0.25 };

    fn values(device_s: f64, write_cost: f64, at_risk: f64) -> Values {
        let (device_s, write_cost) = (Some(device_s), Some(write_cost));
        Values { device_s, write_cost, at_risk_bytes: Some(at_risk), misses: None }
    }

    #[test]
    fn the_best_of_the_registry_has_one_and_a_value_counts_by_its_weight() {
        let rival = |name: &str, of: Values| Rival { name: name.into(), values: vec![of, of] };
        let rivals = [rival("slow", values(2.0, 2.0, 1e6)), rival("fast", values(1.0, 2.0, 1e6))];
        let (found, least) = best(&WEIGHTS, &rivals).unwrap();
        assert_eq!(found.name, "fast");
        let scored = |of: Values| score(&WEIGHTS, least, &[of, of]);
        assert!((scored(values(1.0, 2.0, 1e6)) - 1.0).abs() < 1e-12);
        assert!((scored(values(4.0, 2.0, 1e6)) - 0.5).abs() < 1e-12);
        assert!((scored(values(1.0, 32.0, 1e6)) - 0.5).abs() < 1e-12);
        assert!((scored(values(1.0, 2.0, 1e6 / 4.0)) - 4f64.powf(0.25)).abs() < 1e-9);
    }

    #[test]
    fn what_a_stage_does_not_measure_does_not_count() {
        let only = Values { write_cost: Some(2.0), ..Values::default() };
        let more = Values { write_cost: Some(4.0), ..Values::default() };
        let least = cost(&WEIGHTS, &[only]);
        assert!((score(&WEIGHTS, least, &[more]) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn nothing_at_risk_is_not_infinitely_good() {
        let (none, little) = (values(1.0, 1.0, 0.0), values(1.0, 1.0, 60_000.0));
        assert_eq!(cost(&WEIGHTS, &[none]), cost(&WEIGHTS, &[little]));
    }
}
