//! Adaptive: the idle time after which a device is likely to stay idle is counted, not assumed.
//!
//! Idle times that have ended are counted by half octaves of their length. A step begins after the
//! shortest idle time w for which at least 19 in 20 of the idle times that reached w also reached w
//! plus the duration of cleaning a segment. The counts decay, so that the policy follows changes of
//! behaviour. For lengths with fewer than [`ENOUGH`] counts it applies Blackwell's rule.

use super::{TriggerDecision, TriggerInput, TriggerPolicy};

/// Half octaves from 2^20 ns (a millisecond) up.
const BUCKETS: usize = 64;
const FIRST_OCTAVE: u32 = 20;
/// The number of counted idle times, faded, that is enough.
const ENOUGH: f64 = 20.0;
/// The factor by which counts decay with each further idle time: about 500 count.
const KEEP: f64 = 0.998;
const LASTS: f64 = 0.95;
const UNTIL_KNOWN_NS: u64 = 2_000_000_000;
const LEAST_NS: u64 = 50_000_000;
const MOST_NS: u64 = 30_000_000_000;

pub(super) struct Adaptive {
    counts: [f64; BUCKETS],
}

impl Default for Adaptive {
    fn default() -> Adaptive {
        Adaptive { counts: [0.0; BUCKETS] }
    }
}

fn bucket(ns: u64) -> usize {
    let octave = ns.max(1).ilog2();
    let upper = octave > 0 && ns >> (octave - 1) & 1 == 1;
    (2 * octave.saturating_sub(FIRST_OCTAVE) as usize + usize::from(upper)).min(BUCKETS - 1)
}

/// The length at which a bucket begins.
fn begins(bucket: usize) -> u64 {
    let octave = 1u64 << (FIRST_OCTAVE as usize + bucket / 2).min(62);
    if bucket.is_multiple_of(2) { octave } else { octave + octave / 2 }
}

impl Adaptive {
    /// Number of idle times that reached this length, to a half octave.
    fn reached(&self, ns: u64) -> f64 {
        self.counts[bucket(ns)..].iter().sum()
    }

    /// The idle time, from `age_ns` on, at which it is safe to begin a step.
    fn wait_ns(&self, age_ns: u64, step_ns: u64) -> u64 {
        let from = age_ns.max(LEAST_NS);
        let later = (0..BUCKETS).map(begins).filter(|wait| (from..=MOST_NS).contains(wait));
        for wait in std::iter::once(from).chain(later) {
            let reached = self.reached(wait);
            if reached < ENOUGH {
                return UNTIL_KNOWN_NS.max(wait);
            }
            if self.reached(wait + step_ns) >= LASTS * reached {
                return wait;
            }
        }
        MOST_NS.max(from)
    }
}

impl TriggerPolicy for Adaptive {
    fn decide(&mut self, input: &TriggerInput) -> TriggerDecision {
        let Some(since) = input.idle_since_ns else { return TriggerDecision::Wait };
        let age_ns = input.now_ns.saturating_sub(since);
        let wait_ns = self.wait_ns(age_ns, input.step_ns);
        if age_ns >= wait_ns { TriggerDecision::Now } else { TriggerDecision::At(since + wait_ns) }
    }

    fn idle_ended(&mut self, idle_ns: u64) {
        if idle_ns < LEAST_NS {
            return;
        }
        self.counts.iter_mut().for_each(|count| *count *= KEEP);
        self.counts[bucket(idle_ns)] += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SECOND, input};
    use super::*;

    #[test]
    fn it_begins_with_two_seconds() {
        let mut policy = Adaptive::default();
        assert_eq!(policy.decide(&input(Some(SECOND), 50)), TriggerDecision::At(1001 * SECOND));
    }

    #[test]
    fn where_idle_times_are_short_or_very_long_it_waits_just_past_the_short_ones() {
        let mut policy = Adaptive::default();
        for _ in 0..200 {
            policy.idle_ended(SECOND / 5);
            policy.idle_ended(600 * SECOND);
        }
        let wait = policy.wait_ns(0, SECOND);
        assert!((SECOND / 5..SECOND).contains(&wait), "{wait}");
    }

    #[test]
    fn a_step_that_would_outlast_the_usual_idle_time_is_not_begun() {
        let mut policy = Adaptive::default();
        for _ in 0..200 {
            policy.idle_ended(3 * SECOND);
            policy.idle_ended(600 * SECOND);
        }
        assert!(policy.wait_ns(0, SECOND) < SECOND, "a step fits");
        assert!(policy.wait_ns(5 * SECOND / 2, SECOND) > 3 * SECOND, "a second one does not");
    }

    #[test]
    fn buckets_begin_where_they_are_looked_for() {
        for at in 0..BUCKETS - 1 {
            assert_eq!(bucket(begins(at)), at);
        }
    }
}
