//! The results of a replay.

use std::collections::BTreeMap;
use std::fmt;

use twin_rt::Nanos;

use super::oracle::Verdict;
use crate::frame::Ending;
use crate::histogram::Histogram;
use crate::record::{ErrorCode, Verb};

/// Figures of the operations of one kind.
#[derive(Clone, Debug, Default)]
pub struct VerbStats {
    /// Number of operations that ended.
    pub done: u64,
    /// Number of these with an error, whether or not the trace has it too.
    pub errors: u64,
    /// Time from the issue of an operation to its end, in nanoseconds.
    pub latency_ns: Histogram,
    /// The same times in the trace; empty if the trace has no times.
    pub recorded_ns: Histogram,
    /// Their shares of the time that passed: operations under way at the same time share it evenly, so that
    /// the shares of all kinds and [`Report::idle_ns`] add up to the span. Nothing for forgets, for whose end
    /// nobody waits.
    pub elapsed_ns: f64,
}

/// An operation with another outcome than in the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The number of the request in the trace.
    pub number: u64,
    /// The kind of operation.
    pub verb: Verb,
    /// The error in the trace; `None` for success.
    pub recorded: Option<ErrorCode>,
    /// The error in the replay; `None` for success.
    pub replayed: Option<ErrorCode>,
}

/// The end of a client: when its last request was answered, since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientEnd {
    /// The client's number in the trace.
    pub client: u32,
    /// Time in the trace, divided by the speed of the replay, in nanoseconds.
    pub recorded_ns: Nanos,
    /// Time in the replay, in nanoseconds of the run's time.
    pub replayed_ns: Nanos,
}

impl ClientEnd {
    /// How much later than in the trace it ended, in nanoseconds; negative if it ended earlier.
    pub fn late_ns(&self) -> i64 {
        let (replayed, recorded) = (self.replayed_ns as i64, self.recorded_ns as i64);
        replayed.saturating_sub(recorded)
    }
}

/// Operations that had to end by a certain time.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    /// Operations with such a time.
    pub due: u64,
    /// Number of these operations that ended after their time.
    pub missed: u64,
    /// How much later, in nanoseconds.
    pub late_ns: Histogram,
    /// Opens that the volume refused because it could not have kept the deadlines. What the client
    /// would have read from the file was left out.
    pub refused: u64,
}

/// Figures of a replay.
#[derive(Clone, Debug)]
pub struct Report {
    /// Time from the first operation to the end of the last, in nanoseconds of the run's time.
    pub span_ns: Nanos,
    /// Of that, the time in which no operation was under way but forgets: the pauses of clients.
    pub idle_ns: Nanos,
    /// Number of operations issued to the file system.
    pub ops: u64,
    /// The figures by kind of operation, indexed by the verb's code.
    pub verbs: Vec<VerbStats>,
    /// Operations left out because they name an inode that the replay does not have: the operation
    /// that should have created it failed, or the trace lacks its origin.
    pub skipped: u64,
    /// Number of operations with another outcome than in the trace: by verb, error in the trace,
    /// error in the replay.
    pub divergences: BTreeMap<(Verb, Option<ErrorCode>, Option<ErrorCode>), u64>,
    /// The first divergences, one by one.
    pub examples: Vec<Divergence>,
    /// Number of reads that returned another number of bytes than in the trace.
    pub lengths_differ: u64,
    /// Number of names that led to another inode than in the trace.
    pub inodes_differ: u64,
    /// Number of listings that should continue at a cookie that the replay never got.
    pub cookies_lost: u64,
    /// Bytes that reads returned.
    pub read_bytes: u64,
    /// Bytes that writes accepted.
    pub written_bytes: u64,
    /// The delay of each operation's issue after its time in the trace, in nanoseconds; empty
    /// unless the pace follows the times of the trace.
    pub late_ns: Histogram,
    /// Operations that had to end by a certain time, and did or did not; none unless the pace follows
    /// the times of the trace.
    pub deadlines: Deadlines,
    /// The ends of the clients, by client; empty unless the pace follows the times of a recording
    /// of a mount in the order of its processes.
    pub clients: Vec<ClientEnd>,
    /// The largest number of operations in flight at a time.
    pub max_in_flight: usize,
    /// The oracle's verdict on the reads, if it was requested.
    pub verdict: Option<Verdict>,
    /// How the trace ended.
    pub ending: Ending,
}

/// Number of divergences that are kept as examples.
const EXAMPLES: usize = 20;

impl Report {
    pub(super) fn new() -> Report {
        Report {
            span_ns: 0,
            idle_ns: 0,
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
            deadlines: Deadlines::default(),
            clients: Vec::new(),
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

    /// Number of operations with another outcome than in the trace: another error, or, of reads, another
    /// number of bytes. A read of nothing where the trace has bytes is no read of the same workload.
    pub fn diverged_ops(&self) -> u64 {
        self.divergences.values().sum::<u64>() + self.lengths_differ
    }

    /// Number of operations that succeeded in the trace and failed here, or could not be issued
    /// because a file was missing.
    pub fn failed_ops(&self) -> u64 {
        let failed = self
            .divergences
            .iter()
            .filter(|((_, recorded, replayed), _)| recorded.is_none() && replayed.is_some())
            // A refused stream is an answer, which is counted elsewhere.
            .filter(|((_, _, replayed), _)| *replayed != Some(ErrorCode::Refused));
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
