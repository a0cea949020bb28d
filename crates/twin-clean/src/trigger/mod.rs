//! Trigger policies: the moments at which the cleaner works.
//!
//! A policy is a file here and a line in [`REGISTRY`]. It is called whenever something has changed
//! (a request came, the device became idle, the time came that the policy named) and returns a
//! [`TriggerDecision`]. It sees time and clean segments, no device and no log, so that a mounted
//! log, a simulated one and a study can use it alike. Independently of the policy, the log cleans
//! when writers could not go on otherwise: that is cleaning on demand, which a policy should avoid.
//!
//! Times are nanoseconds of any clock, always the same one.

mod adaptive;
mod enough;
mod idle;
mod on_demand;
mod threshold;

use twin_settings::{Registry, RegistryEntry};

/// What a policy decides from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerInput {
    /// The current time, on any clock.
    pub now_ns: u64,
    /// Since when the device has had no user requests; `None` while it has some.
    pub idle_since_ns: Option<u64>,
    /// Number of clean segments.
    pub clean_segments: u32,
    /// Number of segments of the log.
    pub segments: u32,
    /// Number of clean segments below which writers wait.
    pub reserve_segments: u32,
    /// Estimated duration of cleaning one more segment.
    pub step_ns: u64,
}

/// The answer of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerDecision {
    /// Clean one segment now, then ask again.
    Now,
    /// Do not clean before this moment unless something changes; then ask again.
    At(u64),
    /// Do not clean until something changes.
    Wait,
}

/// Decides when the cleaner works.
pub trait TriggerPolicy {
    /// Whether to clean a segment now, if one is worth cleaning.
    fn decide(&mut self, input: &TriggerInput) -> TriggerDecision;

    /// A user's request has ended an idle time of this length.
    fn idle_ended(&mut self, _idle_ns: u64) {}
}

/// Makes a policy. It may hold what it needs for that.
pub type Maker = &'static (dyn Fn() -> Box<dyn TriggerPolicy> + Send + Sync);

/// What is known of a policy beside its name and its rule.
pub struct TriggerSpec {
    /// The publication of the rule.
    pub source: &'static str,
    make: Maker,
}

impl TriggerSpec {
    /// A policy from outside, to be [added](Registry::add) to the [registry](REGISTRY). It is kept until the
    /// program ends.
    pub fn from_outside(
        source: &str,
        make: impl Fn() -> Box<dyn TriggerPolicy> + Send + Sync + 'static,
    ) -> TriggerSpec {
        TriggerSpec { source: String::from(source).leak(), make: Box::leak(Box::new(make)) }
    }

    /// A new policy of this kind.
    pub fn make(&self) -> Box<dyn TriggerPolicy> {
        (self.make)()
    }
}

/// The default of a file system.
pub const OF_FILE_SYSTEMS: &str = "on-demand";

/// A policy in the registry.
pub type WhenEntry = RegistryEntry<TriggerSpec>;

/// All policies. What is said about an entry is its rule.
pub static REGISTRY: Registry<TriggerSpec> = Registry::with_default(
    "policy of when to clean",
    "idle",
    &[
        RegistryEntry::new(
            "idle",
            "after two seconds without user requests to the device",
            TriggerSpec {
                source: "Blackwell, Harris and Seltzer, USENIX 1995",
                make: &|| Box::new(idle::Idle),
            },
        ),
        RegistryEntry::new(
            "adaptive",
            "after the shortest idle time that was followed, 19 times in 20, by enough more \
                   for a segment",
            TriggerSpec {
                source: "ours, after Golding et al., \"Idleness is not sloth\", USENIX 1995",
                make: &|| Box::new(adaptive::Adaptive::default()),
            },
        ),
        RegistryEntry::new(
            "threshold",
            "begins when few segments are clean, ends when twice as many are",
            TriggerSpec {
                source: "Rosenblum and Ousterhout, SOSP 1991, section 3.4",
                make: &|| Box::new(threshold::Threshold::default()),
            },
        ),
        RegistryEntry::new(
            "enough",
            "after two idle seconds, until as much is clean as the largest busy time lately used",
            TriggerSpec {
                source: "ours: the rule of idle, with an end",
                make: &|| Box::new(enough::Enough::default()),
            },
        ),
        RegistryEntry::new(
            OF_FILE_SYSTEMS,
            "only when writers cannot go on otherwise",
            TriggerSpec {
                source: "the baseline of the other policies",
                make: &|| Box::new(on_demand::OnDemand),
            },
        ),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const SECOND: u64 = 1_000_000_000;

    /// A device that has been idle for `idle_ns`, with this many clean segments of 100.
    pub(super) fn input(idle_ns: Option<u64>, clean_segments: u32) -> TriggerInput {
        TriggerInput {
            now_ns: 1000 * SECOND,
            idle_since_ns: idle_ns.map(|idle| 1000 * SECOND - idle),
            clean_segments,
            segments: 100,
            reserve_segments: 4,
            step_ns: SECOND,
        }
    }

    #[test]
    fn a_busy_device_is_left_alone_while_there_is_room() {
        for entry in &REGISTRY {
            assert_eq!(
                entry.make().decide(&input(None, 50)),
                TriggerDecision::Wait,
                "{}",
                entry.name
            );
        }
    }

    #[test]
    fn registry_names_each_policy_once_and_says_its_rule_and_source() {
        let mut names: Vec<_> = REGISTRY.iter().map(|entry| entry.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), REGISTRY.len());
        for entry in &REGISTRY {
            assert!(!entry.about.is_empty() && !entry.source.is_empty());
            assert!(REGISTRY.get(entry.name).is_ok());
        }
    }
}
