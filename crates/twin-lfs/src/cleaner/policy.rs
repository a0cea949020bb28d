//! Victim policies: which segment to clean first.
//!
//! A policy gives each segment a priority; the highest is cleaned. Adding one: a type here (or in
//! a file of its own), a line in [`registry`].

use twin_rt::{Nanos, SECS};

/// What a policy may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Bytes that would have to be moved.
    pub live_bytes: u32,
    /// Bytes of the segment.
    pub size: u32,
    /// Time since its youngest block was written.
    pub age_ns: Nanos,
}

impl Candidate {
    /// The live share of the segment, 0 to 1 (Rosenblum and Ousterhout's u).
    pub fn utilization(&self) -> f64 {
        f64::from(self.live_bytes) / f64::from(self.size)
    }
}

/// Ranks segments.
pub trait VictimPolicy {
    /// Higher is cleaned first.
    fn priority(&self, candidate: &Candidate) -> f64;
}

/// The segment with the least live data.
struct Greedy;

impl VictimPolicy for Greedy {
    fn priority(&self, candidate: &Candidate) -> f64 {
        -candidate.utilization()
    }
}

/// Benefit over cost, (1 - u) * age / (1 + u): Rosenblum and Ousterhout, "The Design and
/// Implementation of a Log-Structured File System", 1992, section 3.6.
struct CostBenefit;

impl VictimPolicy for CostBenefit {
    fn priority(&self, candidate: &Candidate) -> f64 {
        let u = candidate.utilization();
        // A second's age at least, so that fresh segments are told apart by what they hold.
        let age = (candidate.age_ns.max(SECS) as f64) / SECS as f64;
        (1.0 - u) * age / (1.0 + u)
    }
}

/// A policy by name.
pub struct Entry {
    /// What settings call it.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    make: fn() -> Box<dyn VictimPolicy>,
}

/// All policies; the first is the default.
pub fn registry() -> &'static [Entry] {
    &[
        Entry {
            name: "cost-benefit",
            about: "free space gained times age, over the cost (Rosenblum and Ousterhout, 1992)",
            make: || Box::new(CostBenefit),
        },
        Entry {
            name: "greedy",
            about: "the segment with the least live data",
            make: || Box::new(Greedy),
        },
    ]
}

/// The policy called `name`.
pub fn by_name(name: &str) -> Option<Box<dyn VictimPolicy>> {
    registry().iter().find(|e| e.name == name).map(|e| (e.make)())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(live_bytes: u32, age_ns: Nanos) -> Candidate {
        Candidate { live_bytes, size: 1 << 20, age_ns }
    }

    #[test]
    fn greedy_looks_at_nothing_but_live_bytes() {
        let greedy = by_name("greedy").unwrap();
        assert!(greedy.priority(&segment(10, 0)) > greedy.priority(&segment(20, 100 * SECS)));
    }

    #[test]
    fn cost_benefit_takes_an_old_full_segment_before_a_young_empty_one() {
        let policy = by_name("cost-benefit").unwrap();
        let (old, young) = (segment(700_000, 1000 * SECS), segment(100_000, 2 * SECS));
        assert!(policy.priority(&old) > policy.priority(&young));
    }
}
