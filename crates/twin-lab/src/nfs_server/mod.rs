//! A file server with a log, as Blackwell, Harris and Seltzer simulated it ("Heuristic Cleaning
//! Algorithms in Log-Structured File Systems", USENIX 1995, section 4): which idle times there are,
//! how much of the cleaning fits into them, what accumulates meanwhile, what queues form.
//!
//! The model is the paper's: files and where their blocks lie, a cache of 10 MB, segments of 1 MB,
//! one queue in front of the disk; no contents, no recovery, no metadata beyond directories, inodes
//! and summaries of 512 bytes. What differs: the requests are a stream fitted to the published
//! totals ([`twin_trace::nfs`]), the drives are DSP 3105 (the paper names none), victims are chosen
//! by a policy of [`twin_clean::victim`] and moments by one of [`twin_clean::when`]. A victim has
//! at least [`WORTH`] garbage.
//!
//! Start at [`Study`].

mod cache;
mod device;
mod log;
mod server;
mod start;

use twin_clean::{victim, when};
use twin_trace::nfs::{Stream, Totals};

use log::{Piece, SECTOR, SEGMENT_SECTORS};
use server::Server;

use crate::figures::LogFigures;
use crate::history::History;

/// Sectors of a data block, a directory, an inode.
const BLOCK_SECTORS: u32 = 16;
const DIRECTORY_SECTORS: u32 = 8;
const INODE_SECTORS: u32 = 1;
/// The share of garbage that a victim has at least: below, cleaning gains little and never ends.
pub const WORTH: f64 = 0.1;
/// Segments that are clean at the start, in a hundred: the others are equally full.
const CLEAN_AT_START: f64 = 0.03;

fn data_piece(node: u32, block: u32) -> Piece {
    Piece { node, block, sectors: BLOCK_SECTORS }
}

/// When what was written goes to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteModel {
    /// Each request that changes something is a partial segment on disk before it is answered.
    Sync,
    /// A segment is written when it is full: unsafe, or with memory that survives.
    Async,
}

/// When the cleaner works.
#[derive(Clone, Copy, Debug)]
pub enum Cleaning {
    /// As this policy says, and when there is no clean segment.
    When(&'static when::Entry),
    /// Never: the log has as many segments as it needs. What users would see without a cleaner.
    Never,
}

/// What is studied.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// The server.
    pub totals: Totals,
    /// When writes go to disk.
    pub model: WriteModel,
    /// When the cleaner works.
    pub cleaning: Cleaning,
    /// Which segments it cleans.
    pub victim: &'static victim::Entry,
    /// For the requests.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Idle times of the disk, as users leave it, of at least 1, 2 and 4 seconds.
    pub idle: [u64; 3],
    /// Segments cleaned while users waited for nothing, and because none was clean. Those that
    /// were empty are not counted.
    pub background: u64,
    /// See `background`.
    pub on_demand: u64,
    /// Bytes written by users between one moment of cleaning and the next.
    pub accumulated: Vec<u64>,
    /// Requests of users to the disk.
    pub arrivals: u64,
    /// Of those, how many found its queue empty.
    pub empty: u64,
    /// Requests of the cleaner that requests of users found in the queue, all told.
    pub cleaner_met: u64,
    /// How long users waited for the disk, in nanoseconds, sorted.
    pub waits_ns: Vec<u32>,
    /// Bytes that users' requests wrote to the log, and that the cleaner moved, its summaries
    /// with them.
    pub user_bytes: u64,
    /// See `user_bytes`.
    pub moved_bytes: u64,
    /// Bytes of summaries of what users' requests wrote.
    pub summary_bytes: u64,
    /// Bytes that the cleaner read.
    pub cleaner_read_bytes: u64,
    /// Bytes read from disk for users.
    pub read_bytes: u64,
    /// The share of the disk that was live at the end.
    pub utilization: f64,
    /// Size of the file system.
    pub disk_bytes: u64,
    /// The course of the log.
    pub history: History,
}

impl Outcome {
    /// What was written to the log up to now.
    fn written(&self) -> LogFigures {
        let all = LogFigures {
            log_bytes: self.user_bytes + self.summary_bytes + self.moved_bytes,
            data_bytes: self.user_bytes,
            meta_bytes: self.summary_bytes,
            moved_bytes: self.moved_bytes,
            cleaned_segments: self.background + self.on_demand,
            cleaner_read_bytes: self.cleaner_read_bytes,
            ..LogFigures::default()
        };
        all.since(&LogFigures::default())
    }

    /// Of the idle times of two seconds, those that reached four.
    pub fn predicts(&self) -> f64 {
        self.idle[2] as f64 / self.idle[1] as f64
    }

    /// The share of cleaned segments that was cleaned in the background.
    pub fn background_share(&self) -> f64 {
        let all = self.background + self.on_demand;
        if all == 0 { 1.0 } else { self.background as f64 / all as f64 }
    }

    /// The share of moments of cleaning before which less than this was written.
    pub fn accumulated_below(&self, bytes: u64) -> f64 {
        let below = self.accumulated.iter().filter(|&&written| written < bytes).count();
        below as f64 / self.accumulated.len() as f64
    }

    /// The most that was written between two moments of cleaning, as a share of the disk.
    pub fn accumulated_most(&self) -> f64 {
        self.accumulated.iter().max().map_or(0.0, |&most| most as f64 / self.disk_bytes as f64)
    }

    /// The share of users' requests that found the queue empty.
    pub fn empty_share(&self) -> f64 {
        self.empty as f64 / self.arrivals as f64
    }

    /// Requests of the cleaner in the queue when a user's came, on average.
    pub fn interference(&self) -> f64 {
        self.cleaner_met as f64 / self.arrivals as f64
    }

    /// The wait that this share of users' requests to the disk did not exceed, in seconds.
    pub fn wait(&self, share: f64) -> f64 {
        let at = (self.waits_ns.len() as f64 * share) as usize;
        self.waits_ns
            .get(at.min(self.waits_ns.len().saturating_sub(1)))
            .map_or(0.0, |&ns| f64::from(ns) / 1e9)
    }
}

impl Study {
    /// Does it.
    ///
    /// # Errors
    /// If the files do not fit into the file system, or it is too small to be cleaned.
    pub fn run(&self) -> Result<Outcome, String> {
        let segments = (self.totals.file_system_bytes / SECTOR / u64::from(SEGMENT_SECTORS)) as u32;
        let spans = start::spans(Stream::new(&self.totals, self.seed));
        let stream = Stream::new(&self.totals, self.seed);
        let mut server = Server::new(self, segments)?;
        let used = (f64::from(segments) * (1.0 - CLEAN_AT_START)) as u32;
        if !start::lay_out(&mut server.log, &stream, &spans, used) {
            return Err(format!(
                "the files of {} do not fit into {segments} segments at {}%",
                self.totals.name,
                self.totals.utilization * 100.0
            ));
        }
        server.run(stream)
    }
}

#[cfg(test)]
mod tests;
