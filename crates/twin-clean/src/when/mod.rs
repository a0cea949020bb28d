//! When policies: at which moments the cleaner works.
//!
//! A policy is a file here and a line in [`registry`]. It is asked whenever something has changed
//! (a request came, the device fell idle, the time came that it named) and answers with
//! [`Answer`]. It knows time and clean segments, no device and no log, so that a mounted log, a
//! simulated one and a study can use it alike. Whatever it says, the log cleans when nobody could
//! write otherwise: that is cleaning on demand, and it is what a policy is to avoid.
//!
//! Times are nanoseconds of any one clock.

mod adaptive;
mod idle;
mod on_demand;
mod threshold;

/// What a policy is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Now.
    pub now_ns: u64,
    /// Since when the device has had nothing to do for users; none while it has.
    pub idle_since_ns: Option<u64>,
    /// Segments that can be written.
    pub clean_segments: u32,
    /// Segments of the log.
    pub segments: u32,
    /// Clean segments without which writers wait.
    pub reserve_segments: u32,
    /// How long it takes to clean one more segment, to the knowledge of the log.
    pub step_ns: u64,
}

/// Whether to clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// One segment, then ask again.
    Now,
    /// Not before this moment, unless something changes: ask again then.
    At(u64),
    /// Not until something changes.
    Wait,
}

/// Decides when the cleaner works.
pub trait WhenPolicy {
    /// Whether to clean a segment now, if there is one that is worth it.
    fn ask(&mut self, moment: &Moment) -> Answer;

    /// A user's request has ended an idle time of this length.
    fn idle_ended(&mut self, _idle_ns: u64) {}
}

/// A policy by name.
pub struct Entry {
    /// What settings call it.
    pub name: &'static str,
    /// Its rule in a line.
    pub rule: &'static str,
    /// Where the rule comes from.
    pub source: &'static str,
    make: fn() -> Box<dyn WhenPolicy>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Entry {
    /// A policy of this kind.
    pub fn make(&self) -> Box<dyn WhenPolicy> {
        (self.make)()
    }
}

/// What a file system has if nothing is said.
pub const OF_FILE_SYSTEMS: &str = "on-demand";

/// All when policies; the first is the default.
pub fn registry() -> &'static [Entry] {
    &[
        Entry {
            name: "idle",
            rule: "when users have left the device alone for two seconds",
            source: "Blackwell, Harris and Seltzer, USENIX 1995",
            make: || Box::new(idle::Idle),
        },
        Entry {
            name: "adaptive",
            rule: "after the shortest idle time that was followed, 19 times in 20, by enough more \
                   for a segment",
            source: "ours, after Golding et al., \"Idleness is not sloth\", USENIX 1995",
            make: || Box::new(adaptive::Adaptive::default()),
        },
        Entry {
            name: "threshold",
            rule: "from the moment when clean segments are few until they are twice as many",
            source: "Rosenblum and Ousterhout, SOSP 1991, section 3.4",
            make: || Box::new(threshold::Threshold::default()),
        },
        Entry {
            name: OF_FILE_SYSTEMS,
            rule: "only when nobody can write otherwise",
            source: "what all others are held against",
            make: || Box::new(on_demand::OnDemand),
        },
    ]
}

/// The policy called `name`.
pub fn by_name(name: &str) -> Option<&'static Entry> {
    registry().iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const SECOND: u64 = 1_000_000_000;

    /// A device that has been idle for `idle_ns`, with this many clean segments of 100.
    pub(super) fn moment(idle_ns: Option<u64>, clean_segments: u32) -> Moment {
        Moment {
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
        for entry in registry() {
            assert_eq!(entry.make().ask(&moment(None, 50)), Answer::Wait, "{}", entry.name);
        }
    }

    #[test]
    fn registry_names_each_policy_once_and_says_its_rule_and_source() {
        let mut names: Vec<_> = registry().iter().map(|entry| entry.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), registry().len());
        for entry in registry() {
            assert!(!entry.rule.is_empty() && !entry.source.is_empty());
            assert!(by_name(entry.name).is_some());
        }
    }
}
