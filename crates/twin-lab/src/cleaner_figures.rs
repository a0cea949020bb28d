//! The figures of a log's cleaner, of simulated runs and of mounts alike.
//!
//! Contract: the log counts ([`CleanerCounts`]); this file gives the counts their names in answers.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use twin_fs::{CleanedCounts, CleanerCounts, TimeCounts, Volume};

/// What the cleaner has done and why, the idle times of the device, and the waits for room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanerFigures(pub CleanerCounts);

impl CleanerFigures {
    /// Those of a volume since it was opened; `None` if it has no cleaner.
    pub fn of(volume: &Volume) -> Option<CleanerFigures> {
        Some(CleanerFigures(volume.layout().views().log?.cleaner()))
    }

    /// What was counted since `before`; the longest times are those of all.
    pub(crate) fn since(&self, before: &CleanerFigures) -> CleanerFigures {
        CleanerFigures(self.0.since(&before.0))
    }

    /// The figures under their names in answers.
    pub fn as_json(&self) -> Value {
        let CleanerCounts { background, demand, by_hand, idle, waits } = self.0;
        let cleaned = |CleanedCounts { segments, moved_bytes }| json!({ "segments": segments, "moved_bytes": moved_bytes });
        let times = |TimeCounts { count, total_ns, longest_ns }| json!({ "count": count, "total_ns": total_ns, "longest_ns": longest_ns });
        let mut idle_times = times(idle.all);
        idle_times["of_two_s"] = idle.of_two_s.into();
        idle_times["of_four_s"] = idle.of_four_s.into();
        json!({
            "background": cleaned(background),
            "demand": cleaned(demand),
            "by_hand": cleaned(by_hand),
            "idle_times": idle_times,
            "waits": times(waits),
        })
    }
}

impl Serialize for CleanerFigures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_json().serialize(serializer)
    }
}
