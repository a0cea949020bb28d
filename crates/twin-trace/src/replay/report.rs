//! What a replay found out.

use std::collections::BTreeMap;
use std::fmt;

use twin_rt::Nanos;

use super::oracle::Verdict;
use crate::frame::Ending;
use crate::histogram::Histogram;
use crate::record::{ErrorCode, Verb};

/// What is known of the operations of one kind.
#[derive(Clone, Debug, Default)]
pub struct VerbStats {
    /// Operations that ended.
    pub done: u64,
    /// Of these, how many with an error, whether the trace has it too or not.
    pub errors: u64,
    /// From the moment when an operation was given to the file system to its end, nanoseconds.
    pub latency_ns: Histogram,
    /// The same as the trace has it; empty if the trace has no times.
    pub recorded_ns: Histogram,
}

/// An operation that ended otherwise than in the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The number of the request in the trace.
    pub number: u64,
    /// What it was.
    pub verb: Verb,
    /// The error in the trace; none means success.
    pub recorded: Option<ErrorCode>,
    /// The error in the replay; none means success.
    pub replayed: Option<ErrorCode>,
}

/// Figures of a replay.
#[derive(Clone, Debug)]
pub struct Report {
    /// From the first operation to the end of the last, nanoseconds of the run's time.
    pub span_ns: Nanos,
    /// Operations given to the file system.
    pub ops: u64,
    /// By kind of operation, at the verb's code.
    pub verbs: Vec<VerbStats>,
    /// Operations left out because they name an inode that the replay does not have: the one
    /// that should have made it failed, or the trace does not say where it comes from.
    pub skipped: u64,
    /// How many operations ended otherwise than in the trace: by verb, error there, error here.
    pub divergences: BTreeMap<(Verb, Option<ErrorCode>, Option<ErrorCode>), u64>,
    /// The first of them.
    pub examples: Vec<Divergence>,
    /// Reads that returned another number of bytes than in the trace.
    pub lengths_differ: u64,
    /// Names that led to another inode than in the trace.
    pub inodes_differ: u64,
    /// Listings that were to go on at a cookie that the replay never had.
    pub cookies_lost: u64,
    /// Bytes that reads returned.
    pub read_bytes: u64,
    /// Bytes that writes took.
    pub written_bytes: u64,
    /// How far behind its time in the trace each operation was given to the file system,
    /// nanoseconds; empty unless the pace follows the times of the trace.
    pub late_ns: Histogram,
    /// The most operations that were under way at a time.
    pub max_in_flight: usize,
    /// What the oracle says of the reads, if it was asked.
    pub verdict: Option<Verdict>,
    /// How the trace ended.
    pub ending: Ending,
}

/// How many divergences are kept one by one.
const EXAMPLES: usize = 20;

impl Report {
    pub(super) fn new() -> Report {
        Report {
            span_ns: 0,
            ops: 0,
            verbs: vec![VerbStats::default(); Verb::ALL.len() + 1],
            skipped: 0,
            divergences: BTreeMap::new(),
            examples: Vec::new(),
            lengths_differ: 0,
            inodes_differ: 0,
            cookies_lost: 0,
            read_bytes: 0,
            written_bytes: 0,
            late_ns: Histogram::new(),
            max_in_flight: 0,
            verdict: None,
            ending: Ending::Closed,
        }
    }

    pub(super) fn diverged(&mut self, divergence: Divergence) {
        let Divergence { verb, recorded, replayed, .. } = divergence;
        *self.divergences.entry((verb, recorded, replayed)).or_insert(0) += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(divergence);
        }
    }

    /// The figures of one kind of operation.
    pub fn verb(&self, verb: Verb) -> &VerbStats {
        &self.verbs[verb as usize]
    }

    /// How many operations ended otherwise than in the trace.
    pub fn diverged_ops(&self) -> u64 {
        self.divergences.values().sum()
    }

    /// How many operations that the trace has as successful failed, or could not be tried because
    /// what they work on was missing.
    pub fn failed_ops(&self) -> u64 {
        let failed = self
            .divergences
            .iter()
            .filter(|((_, recorded, replayed), _)| recorded.is_none() && replayed.is_some());
        failed.map(|(_, count)| count).sum::<u64>() + self.skipped
    }

    /// Latencies of all operations together.
    pub fn latency_ns(&self) -> Histogram {
        let mut all = Histogram::new();
        self.verbs.iter().for_each(|stats| all.merge(&stats.latency_ns));
        all
    }
}

fn or_success(code: Option<ErrorCode>) -> &'static str {
    code.map_or("success", ErrorCode::name)
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (recorded, replayed) = (or_success(self.recorded), or_success(self.replayed));
        let Divergence { number, verb, .. } = self;
        write!(f, "request {number}, {verb}: {recorded} in the trace, {replayed} in the replay")
    }
}
