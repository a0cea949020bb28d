//! Benchmarks: streams of operations, and the targets that run them.
//!
//! A [`Benchmark`] is a description: for each of its users a [`Script`], a stream of [`Act`]s with
//! phases. It runs on a simulated volume under virtual time ([`simulated`]) or on a directory of
//! the host with real system calls ([`directory`]), which may be a mount of ours or of any other
//! file system. [`run`] lets several targets take turns.
//!
//! The phases are those of the papers: Rosenblum and Ousterhout 1992 (small and large files),
//! Seltzer et al. 1995 (files by size, TPC-B), Howard et al. 1988 (Andrew).

mod andrew;
pub mod directory;
mod files;
mod large;
mod meeting;
mod meta;
mod pairs;
mod parse;
mod report;
mod run;
pub mod simulated;
mod tpcb;

pub use parse::{help, parse, sweep_sizes};
pub use report::{ratios, report, verdicts};
pub use run::{Place, Row, Target, count, run};

/// The content of a file: a function of these two and the offset, so that readers can check it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The number of the file.
    pub file: u64,
    /// The number of rewrites so far.
    pub generation: u64,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, to be read.
    Read,
    /// An existing file, to be written without truncation.
    Write,
    /// A new file; the name must be free.
    Create,
}

/// One operation of a benchmark. Paths are relative to the top directory, with `/` between their
/// parts; an open file is known by its slot.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The docs of the variants name the fields.
pub enum Act {
    /// Begins a phase: its time counts from here.
    Begin(&'static str),
    /// Ends the phase, with the amount that it moved.
    End { amount: f64, unit: &'static str },
    /// Creates a directory.
    MakeDir(String),
    /// Removes an empty directory.
    RemoveDir(String),
    /// Stats a file, which has this many bytes.
    Stat { path: String, size: u64 },
    /// Removes a file.
    Unlink(String),
    /// Renames a file.
    Rename { from: String, to: String },
    /// Adds a name to a file.
    Link { from: String, to: String },
    /// Makes a symbolic link.
    Symlink { path: String, target: String },
    /// Lists a directory, which has this many names.
    List { path: String, names: u64 },
    /// Opens a file.
    Open { slot: usize, path: String, how: OpenMode },
    /// Writes `content` from offset `off` on.
    Write { slot: usize, off: u64, len: u64, content: Content },
    /// Reads `content` from offset `off` on, and checks it.
    Read { slot: usize, off: u64, len: u64, content: Content },
    /// Makes a file durable; `data_only`: with fdatasync, where it exists.
    Fsync { slot: usize, data_only: bool },
    /// Closes a file.
    Close { slot: usize },
    /// Makes everything durable.
    SyncAll,
    /// Empties the caches, after making everything durable.
    Cold,
    /// Empties the caches of the kernel alone, not those of a file system's daemon.
    ColdKernel,
    /// The program computes for this time on a SparcStation II. Directories leave it out.
    Compute { ns: u64 },
    /// The program does nothing for this time.
    Pause { ns: u64 },
}

impl Act {
    /// Empties caches: only those of the kernel, or all.
    pub(crate) fn cold(kernel_only: bool) -> Act {
        if kernel_only { Act::ColdKernel } else { Act::Cold }
    }
}

/// The operations of one user.
pub type Script = Box<dyn Iterator<Item = Act> + Send>;

/// A description of a benchmark.
pub trait Benchmark: Sync + Send {
    /// The name with its settings: `sizes:size=8K`.
    fn label(&self) -> String;
    /// The scripts of all users, which run concurrently.
    fn users(&self) -> Vec<Script>;
    /// The largest amount of data, in bytes, that it has on disk at a time.
    fn bytes(&self) -> u64;
}

/// The measurements of a phase.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Phase {
    /// The name of the phase.
    pub phase: &'static str,
    /// The amount that it moved.
    pub amount: f64,
    /// The unit of the rate.
    pub unit: &'static str,
    /// Seconds from the first user's beginning to the last user's end.
    pub seconds: f64,
    /// Share of the time that the processor was busy; simulated targets only.
    pub cpu_share: Option<f64>,
    /// Share of the time that the disk was busy; simulated targets only.
    pub disk_share: Option<f64>,
    /// Log writes, or commits of a journal; simulated targets only.
    pub log_writes: Option<f64>,
    /// Bytes that the layout wrote; simulated targets only.
    pub written_bytes: Option<f64>,
    /// Mean seconds in which the disk served a read, without its wait; simulated targets only.
    pub read_s: Option<f64>,
    /// Seconds in which the disk served writes, without their waits; simulated targets only.
    pub write_service_s: Option<f64>,
}

impl Phase {
    /// All measurements, in an order of their own.
    pub fn numbers(&self) -> [Option<f64>; 8] {
        [
            Some(self.amount),
            Some(self.seconds),
            self.cpu_share,
            self.disk_share,
            self.log_writes,
            self.written_bytes,
            self.read_s,
            self.write_service_s,
        ]
    }

    /// A phase with the [`numbers`](Self::numbers) of one.
    pub fn of_numbers(
        phase: &'static str,
        unit: &'static str,
        numbers: [Option<f64>; 8],
    ) -> Option<Phase> {
        let [
            amount,
            seconds,
            cpu_share,
            disk_share,
            log_writes,
            written_bytes,
            read_s,
            write_service_s,
        ] = numbers;
        Some(Phase {
            cpu_share,
            disk_share,
            log_writes,
            written_bytes,
            read_s,
            write_service_s,
            ..Phase::of(phase, amount?, unit, seconds?)
        })
    }

    /// A phase with only these measurements.
    pub fn of(phase: &'static str, amount: f64, unit: &'static str, seconds: f64) -> Phase {
        Phase {
            phase,
            amount,
            unit,
            seconds,
            cpu_share: None,
            disk_share: None,
            log_writes: None,
            written_bytes: None,
            read_s: None,
            write_service_s: None,
        }
    }

    /// The amount moved per second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.amount / self.seconds } else { 0.0 }
    }
}

/// The beginnings and ends of phases of all users, recorded as they happen.
#[derive(Default)]
pub(crate) struct Spans(Vec<Span>);

#[derive(Clone, Debug)]
struct Span {
    user: usize,
    phase: &'static str,
    begin: Mark,
    end: Option<(Mark, f64, &'static str)>,
}

/// Readings of the clocks, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) time_s: f64,
    pub(crate) cpu_s: Option<f64>,
    pub(crate) disk_s: Option<f64>,
    pub(crate) log_writes: Option<f64>,
    pub(crate) written_bytes: Option<f64>,
    pub(crate) reads: Option<f64>,
    pub(crate) read_service_s: Option<f64>,
    pub(crate) write_service_s: Option<f64>,
}

impl Spans {
    pub(crate) fn begin(&mut self, user: usize, phase: &'static str, begin: Mark) {
        self.0.push(Span { user, phase, begin, end: None });
    }

    pub(crate) fn end(&mut self, user: usize, mark: Mark, amount: f64, unit: &'static str) {
        let open = self.0.iter_mut().rev().find(|s| s.user == user && s.end.is_none());
        if let Some(span) = open {
            span.end = Some((mark, amount, unit));
        }
    }

    /// The phases in the order in which they first began: each from the first user's beginning to
    /// the last user's end.
    pub(crate) fn phases(self) -> Vec<Phase> {
        let mut phases: Vec<(Phase, Mark, Mark)> = Vec::new();
        for span in self.0 {
            let Some((end, amount, unit)) = span.end else { continue };
            match phases.iter_mut().find(|(p, ..)| p.phase == span.phase) {
                Some((phase, first, last)) => {
                    phase.amount += amount;
                    if span.begin.time_s < first.time_s {
                        *first = span.begin;
                    }
                    if end.time_s > last.time_s {
                        *last = end;
                    }
                }
                None => {
                    let phase = Phase::of(span.phase, amount, unit, 0.0);
                    phases.push((phase, span.begin, end));
                }
            }
        }
        let finish = |(mut phase, first, last): (Phase, Mark, Mark)| {
            phase.seconds = last.time_s - first.time_s;
            let share = |a: Option<f64>, b: Option<f64>| Some((b? - a?) / phase.seconds.max(1e-9));
            phase.cpu_share = share(first.cpu_s, last.cpu_s);
            phase.disk_share = share(first.disk_s, last.disk_s);
            let count = |a: Option<f64>, b: Option<f64>| Some(b? - a?);
            phase.log_writes = count(first.log_writes, last.log_writes);
            phase.written_bytes = count(first.written_bytes, last.written_bytes);
            let reads = count(first.reads, last.reads).filter(|reads| *reads > 0.0);
            let read_s = count(first.read_service_s, last.read_service_s);
            phase.read_s = reads.and_then(|reads| Some(read_s? / reads));
            phase.write_service_s = count(first.write_service_s, last.write_service_s);
            phase
        };
        phases.into_iter().map(finish).collect()
    }
}

/// Why a benchmark ended early.
#[derive(Clone, Debug)]
pub struct BenchFailure(pub String);

impl BenchFailure {
    /// The run was interrupted.
    pub(crate) fn interrupted() -> BenchFailure {
        BenchFailure("interrupted".into())
    }
}

impl std::fmt::Display for BenchFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BenchFailure {}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time_s: f64) -> Mark {
        Mark { time_s, ..Mark::default() }
    }

    #[test]
    fn a_phase_of_several_users_lasts_from_the_first_beginning_to_the_last_end() {
        let mut spans = Spans::default();
        spans.begin(0, "copy", at(1.0));
        spans.begin(1, "copy", at(2.0));
        spans.end(0, at(4.0), 5.0, "files/s");
        spans.end(1, at(6.0), 5.0, "files/s");
        let phases = spans.phases();
        assert_eq!(phases.len(), 1);
        assert_eq!((phases[0].seconds, phases[0].rate()), (5.0, 2.0));
    }
}
