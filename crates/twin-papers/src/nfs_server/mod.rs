//! A file server with a log, as Blackwell, Harris and Seltzer simulated it ("Heuristic Cleaning
//! Algorithms in Log-Structured File Systems", USENIX 1995, section 4): the lengths of idle times,
//! how much of the cleaning fits into them, how much is written meanwhile, and the queues.
//!
//! The model is that of the paper: files and the places of their blocks, a cache of 10 MB, segments
//! of 1 MB in one log, to whose end the cleaner appends too; no contents, no recovery, no metadata
//! beyond directories, inodes and summaries of 512 bytes. The drives are those of section 5.1, each
//! with its queue. With [`WriteModel::Async`] what the cleaner moves waits for a full segment like
//! everything else: the memory is non-volatile. It differs from the paper's in this: the requests
//! are a stream fitted to the published totals ([`twin_trace::nfs`]), and policies of
//! [`twin_clean::victim`] and [`twin_clean::trigger`] choose victims and moments. A victim has at
//! least [`WORTH`] garbage, and the cleaner stops when `BUSY_LIM` of the segments that could be clean
//! are: the paper does not say when it stops, but estimates the time to make as many clean as users
//! write (5.2).
//!
//! Start at [`Study`].

mod cache;
mod device;
mod log;
mod server;
mod start;

use twin_clean::{trigger, victim};
use twin_trace::nfs::{Lossy, Pauses, Stream, Totals};

use log::{SECTOR, SEGMENT_SECTORS};
use server::Server;

use twin_lab::History;
use twin_lab::{LogFigures, Moment};

/// Sectors of a data block, a directory, and an inode.
const BLOCK_SECTORS: u32 = 16;
const DIRECTORY_SECTORS: u32 = 16;
const INODE_SECTORS: u32 = 1;
/// The least share of garbage in a victim. With less, cleaning gains little and never ends.
pub const WORTH: f64 = 0.05;
/// The share of the segments that could be clean at which the cleaner stops: 4.4BSD's
/// (libexec/lfs_cleanerd/clean.h 8.1, BUSY_LIM).
const BUSY_LIM: f64 = 0.50;
/// Share of segments that are clean at the start; the others are equally full.
const CLEAN_AT_START: f64 = 0.03;

/// When writes reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteModel {
    /// Each request that changes something is a partial segment, on disk before the answer.
    Sync,
    /// A segment is written when it is full: unsafe, unless the memory is non-volatile.
    Async,
}

/// When the cleaner works.
#[derive(Clone, Copy, Debug)]
pub enum Cleaning {
    /// When this policy says so, and when no segment is clean.
    When(&'static trigger::WhenEntry),
    /// Never: the log has as many segments as it needs. Shows the service of users without a
    /// cleaner.
    Never,
}

/// The parameters of a study.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// The published totals of the server.
    pub totals: Totals,
    /// When writes reach the disk.
    pub model: WriteModel,
    /// When the cleaner works.
    pub cleaning: Cleaning,
    /// The victim policy.
    pub victim: &'static victim::VictimEntry,
    /// The seed of the requests.
    pub seed: u64,
    /// The pauses between the requests.
    pub pauses: Pauses,
    /// The share of requests that the tracer lost: see [`Lossy`].
    pub lost: f64,
    /// The cleaner stops when half of the segments that could be clean are; otherwise it goes on while
    /// a segment is worth it.
    pub stops: bool,
}

/// The results of a study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The idle times of the disk, from the view of users, of at least a second, in seconds, sorted.
    pub idle_s: Vec<f32>,
    /// Number of shorter idle times.
    pub idle_short: u64,
    /// Number of idle times in which the cleaner worked, and of those in which it ended with a
    /// segment before a user's request came.
    pub cleaned_periods: u64,
    /// See there.
    pub useful_periods: u64,
    /// Time that the disk worked for the cleaner.
    pub cleaner_busy_ns: u64,
    /// Number of segments cleaned while no user waited. Empty segments are not counted.
    pub background: u64,
    /// Number of segments cleaned because none was clean. Empty segments are not counted.
    pub on_demand: u64,
    /// Bytes written by users between consecutive idle times in which the log was cleaned.
    pub accumulated: Vec<u64>,
    /// Number of users' requests to the disk.
    pub arrivals: u64,
    /// Number of these that found the queue empty.
    pub empty: u64,
    /// Number of users' writes.
    pub writes: u64,
    /// Sum of the cleaner's blocks that users' writes found in the queue, not written yet.
    pub cleaner_blocks_met: u64,
    /// Users' waiting times for the disk, in nanoseconds, sorted.
    pub waits_ns: Vec<u32>,
    /// The part of them before the drive began with the request, sorted.
    pub delays_ns: Vec<u32>,
    /// Bytes that users' requests wrote to the log, summaries included.
    pub user_bytes: u64,
    /// Bytes that the cleaner moved, summaries included.
    pub moved_bytes: u64,
    /// Bytes of summaries in users' writes.
    pub summary_bytes: u64,
    /// Bytes that the cleaner read.
    pub cleaner_read_bytes: u64,
    /// Bytes read from disk for users.
    pub read_bytes: u64,
    /// Bytes that users' reads found in memory.
    pub cached_bytes: u64,
    /// The live share of the disk at the end.
    pub utilization: f64,
    /// Size of the file system.
    pub disk_bytes: u64,
    /// The history of the log.
    pub history: History,
    /// The share of creates whose file a look at the client's next request finds, if that was looked for.
    pub found_ahead: Option<f64>,
}

impl Outcome {
    /// What was done so far: the writes to the log.
    fn moment(&self) -> Moment {
        let all = LogFigures {
            log_bytes: self.user_bytes + self.summary_bytes + self.moved_bytes,
            data_bytes: self.user_bytes,
            meta_bytes: self.summary_bytes,
            new_data_bytes: self.user_bytes,
            moved_bytes: self.moved_bytes,
            cleaned_segments: self.background + self.on_demand,
            cleaner_read_bytes: self.cleaner_read_bytes,
            space_waits: self.on_demand,
            ..LogFigures::default()
        };
        Moment { log: all.since(&LogFigures::default()), ..Moment::default() }
    }

    /// The share of two-second idle times that reached four seconds.
    pub fn predicts(&self) -> f64 {
        self.idle_longer(4.0) as f64 / self.idle_longer(2.0) as f64
    }

    /// The number of idle times of at least so many seconds, from one on.
    pub fn idle_longer(&self, seconds: f32) -> usize {
        self.idle_s.len() - self.idle_s.partition_point(|&s| s < seconds)
    }

    /// The share of idle times with cleaning in which a segment was cleaned before a request came.
    pub fn useful(&self) -> f64 {
        self.useful_periods as f64 / self.cleaned_periods as f64
    }

    /// How often a request of this outcome is delayed longer than one of the other, of all pairs.
    pub fn delayed_longer_than(&self, other: &Outcome) -> f64 {
        let shorter = |ns: u32| other.delays_ns.partition_point(|&theirs| theirs < ns) as f64;
        let pairs: f64 = self.delays_ns.iter().map(|&ns| shorter(ns)).sum();
        pairs / (self.delays_ns.len() as f64 * other.delays_ns.len() as f64)
    }

    /// The share of cleaned segments that was cleaned in the background; not a number if none was.
    pub fn background_share(&self) -> f64 {
        self.background as f64 / (self.background + self.on_demand) as f64
    }

    /// The share of moments of cleaning before which less than `bytes` was written.
    pub fn accumulated_below(&self, bytes: u64) -> f64 {
        let below = self.accumulated.iter().filter(|&&written| written < bytes).count();
        below as f64 / self.accumulated.len() as f64
    }

    /// The largest amount written between two moments of cleaning, as a share of the disk; not a
    /// number if nothing was ever cleaned.
    pub fn accumulated_most(&self) -> f64 {
        self.accumulated.iter().max().map_or(f64::NAN, |&most| most as f64 / self.disk_bytes as f64)
    }

    /// The share of users' requests that found the queue empty.
    pub fn empty_share(&self) -> f64 {
        self.empty as f64 / self.arrivals as f64
    }

    /// Mean number of blocks that the cleaner has still to write when a user's write is queued: "the
    /// average number of cleaner writes in the queue when a user write was added to the queue" (5.1).
    pub fn interference(&self) -> f64 {
        self.cleaner_blocks_met as f64 / self.writes as f64
    }

    /// The wait, in seconds, that this share of users' requests to the disk did not exceed.
    pub fn wait(&self, share: f64) -> f64 {
        let at = (self.waits_ns.len() as f64 * share) as usize;
        self.waits_ns
            .get(at.min(self.waits_ns.len().saturating_sub(1)))
            .map_or(0.0, |&ns| f64::from(ns) / 1e9)
    }
}

/// How often the share is heard, in simulated time.
const SHARE_NS: u64 = 600 * 1_000_000_000;

impl Study {
    /// Runs the study.
    ///
    /// # Errors
    /// If the files do not fit into the file system, or it is too small to be cleaned.
    pub fn run(&self) -> Result<Outcome, String> {
        self.run_sharing(&|_| {})
    }

    /// As [`Study::run`]; `share` hears which share of the time has passed.
    pub(crate) fn run_sharing(&self, share: &dyn Fn(f64)) -> Result<Outcome, String> {
        let segments = (self.totals.file_system_bytes / SECTOR / u64::from(SEGMENT_SECTORS)) as u32;
        let stream = || Stream::new(&self.totals, self.seed).with_pauses(self.pauses);
        let spans = start::spans(stream());
        let stream = stream();
        let mut server = Server::new(self, segments);
        let used = (f64::from(segments) * (1.0 - CLEAN_AT_START)) as u32;
        if !start::lay_out(&mut server.log, &stream, &spans, used) {
            return Err(format!(
                "the files of {} do not fit into {segments} segments at {}%",
                self.totals.name,
                self.totals.utilization * 100.0
            ));
        }
        let (all_ns, mut next_ns) = (self.totals.seconds as f64 * 1e9, 0);
        let requests = Lossy::new(stream, self.lost, self.seed).inspect(|op| {
            if op.at >= next_ns {
                share(op.at as f64 / all_ns);
                next_ns = op.at + SHARE_NS;
            }
        });
        server.run(requests)
    }
}

#[cfg(test)]
mod tests;
