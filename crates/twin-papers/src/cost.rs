//! About how long runs take, which decides which of them begin first and what progress is reported, and nothing else.
//!
//! Contract: estimates are seconds of a processor of the machine on which they were measured. On another they are
//! off by a factor that all of them share, which changes neither the order nor the shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use twin_bench::{Act, Benchmark, Script, parse};

use crate::need::Need;
use crate::studies::{Part, days};
use crate::work::Share;

/// Nanoseconds for an operation of a benchmark, and for a byte that it moves.
const ACT_NS: u64 = 10_000;
const BYTE_NS: f64 = 1.3;

/// Nanoseconds for an operation.
fn of_act(act: &Act) -> u64 {
    match act {
        Act::Write { len, .. } | Act::Read { len, .. } => ACT_NS + (*len as f64 * BYTE_NS) as u64,
        _ => ACT_NS,
    }
}

/// The seconds of a run of benchmarks; 0 if there is no such benchmark, which ends soon.
pub(crate) fn bench(need: &Need) -> f64 {
    let benches = parse(&need.bench).unwrap_or_default();
    let acts = benches.iter().flat_map(|bench| bench.users()).flatten();
    acts.map(|act| of_act(&act)).sum::<u64>() as f64 / 1e9
}

/// The operations of a run that have begun, in estimated time.
#[derive(Clone)]
pub(crate) struct Begun {
    ns: Arc<AtomicU64>,
    all_ns: f64,
    share: Share,
}

impl Begun {
    /// Of a run with this estimate.
    pub(crate) fn of(seconds: f64, share: &Share) -> Begun {
        Begun { ns: Arc::default(), all_ns: seconds * 1e9, share: Arc::clone(share) }
    }

    fn begin(&self, act: &Act) {
        let more = of_act(act);
        let before = self.ns.fetch_add(more, Ordering::Relaxed);
        // Reporting costs more than counting.
        if before / REPORT_NS != (before + more) / REPORT_NS {
            (self.share)(before as f64 / self.all_ns);
        }
    }
}

/// How often a share is reported, in estimated time.
const REPORT_NS: u64 = 20_000_000;

/// A benchmark that counts the operations that have begun.
pub(crate) struct Counted {
    pub(crate) bench: Box<dyn Benchmark>,
    pub(crate) begun: Begun,
}

impl Benchmark for Counted {
    fn label(&self) -> String {
        self.bench.label()
    }

    fn users(&self) -> Vec<Script> {
        let counted = |script: Script| -> Script {
            let begun = self.begun.clone();
            Box::new(script.inspect(move |act| begun.begin(act)))
        };
        self.bench.users().into_iter().map(counted).collect()
    }

    fn bytes(&self) -> u64 {
        self.bench.bytes()
    }
}

/// The seconds of a run of a study.
pub(crate) fn part(part: Part) -> f64 {
    let of = |all: &[f64], at: usize| all.get(at).copied().unwrap_or(1.0);
    match part {
        Part::Server(at) => of(&SERVERS, at),
        Part::Day(at) if days::counts(at) => 18.0,
        Part::Day(_) => 2.2,
        Part::Layout(at) => of(&LAYOUTS, at),
        Part::RealLog(at) => of(&REAL_LOGS, at),
        Part::AgedLog(at) => of(&AGED_LOGS, at),
    }
}

/// Those of the file servers of 1995, in the order of the studies.
const SERVERS: [f64; 13] = [3.6, 3.5, 20.8, 3.1, 1.3, 1.0, 7.6, 1.0, 5.7, 4.1, 55.8, 6.7, 3.2];
/// Those of the file systems of the layout study, in the order of the tables.
const LAYOUTS: [f64; 48] = [
    0.1, 59.0, 0.1, 95.0, 1.8, 3.8, 0.1, 1.4, 1.9, 0.1, 1.8, 2.4, 14.9, 0.1, 7.0, 6.8, //
    5.9, 7.0, 1.3, 2.5, 0.1, 2.6, 2.5, 0.8, 2.3, 3.6, 2.9, 0.1, 2.0, 1.7, 5.3, 0.1, //
    0.1, 3.9, 3.4, 8.3, 4.3, 2.7, 5.1, 3.4, 0.1, 4.8, 3.9, 3.3, 3.9, 3.4, 0.1, 2.2,
];
/// Those of the logs that grow old.
const AGED_LOGS: [f64; 6] = [25.0, 25.0, 8.0, 20.0, 25.0, 10.0];
/// Those of the bare and the real logs.
const REAL_LOGS: [f64; 12] = [1.0, 21.0, 1.0, 17.0, 1.5, 31.5, 1.5, 27.0, 1.0, 13.8, 1.0, 9.3];
