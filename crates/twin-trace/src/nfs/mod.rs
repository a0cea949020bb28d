//! Operations of an NFS server, and streams of them like those of Blackwell, Harris and Seltzer
//! ("Heuristic Cleaning Algorithms in Log-Structured File Systems", USENIX 1995).
//!
//! The traces of that paper (Attic, Cellar, Maytag) are not available; only a table of their totals
//! is published, [`SERVERS`]. A [`Stream`] is fitted to these totals: its counts of reads, writes
//! and so on are the published ones, over the published time. Nothing is published about which
//! files were used when; that part is fitted to other results or assumed, as `generate` says.
//! Reports that show results of such a stream must say so. [`look_ahead`] and [`Lossy`] are how the
//! paper's tracer saw the requests.

mod capture;
mod generate;

pub use capture::{LookAhead, Lossy, look_ahead};
pub use generate::{Pauses, Stream};

use twin_rt::Nanos;

/// Bytes of a data block: the most that an NFS (version 2) request moves.
pub const BLOCK_BYTES: u32 = 8192;

/// A file or directory, by number. Directories come first.
pub type NodeId = u32;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads the inode of a file.
    GetAttr(NodeId),
    /// Reads a directory, or searches it for a name.
    ReadDir(NodeId),
    /// Reads a data block, by number.
    Read(NodeId, u32),
    /// Writes this many bytes to a data block; the file grows to this block if it was
    /// shorter.
    Write(NodeId, u32, u32),
    /// Changes the inode of a file.
    SetAttr(NodeId),
    /// Truncates the file to zero length, which is also an inode update.
    Truncate(NodeId),
    /// Creates a file in a directory.
    Create {
        /// The directory that gets the file.
        dir: NodeId,
        /// The file: a new number, or that of a file that was removed.
        node: NodeId,
    },
    /// Removes a file from a directory.
    Remove {
        /// The directory that loses the file.
        dir: NodeId,
        /// The file that is removed.
        node: NodeId,
    },
    /// Changes a name in a directory.
    Rename(NodeId),
}

/// A request and its arrival time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NfsOp {
    /// The time since the beginning.
    pub at: Nanos,
    /// The client that sent it.
    pub client: u16,
    /// The kind of the request, with its files.
    pub kind: Kind,
}

/// The published totals of a server's trace (Heuristic Cleaning, table 2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Totals {
    /// The name of the server in the paper.
    pub name: &'static str,
    /// Number of all requests.
    pub requests: u64,
    /// Number of requests that read data.
    pub data_reads: u64,
    /// Number of requests that write data.
    pub data_writes: u64,
    /// Directory reads: lookup, readdir.
    pub directory_reads: u64,
    /// Directory modifications: create, mkdir, rm, rename, rmdir.
    pub directory_changes: u64,
    /// Number of requests that change an inode.
    pub inode_updates: u64,
    /// Length of the trace.
    pub seconds: u64,
    /// Size of the file system.
    pub file_system_bytes: u64,
    /// The share of it that holds data.
    pub utilization: f64,
    /// Gigabytes read from the cache, read from disk, and written.
    pub volumes_gb: [f64; 3],
    /// The mean pause between sessions, in seconds (not published: fitted to the idle times of
    /// section 5.1).
    pub pause_seconds: f64,
    /// The shape of the distribution of pauses (not published: fitted to the idle times of section
    /// 5.1). 1: without memory; the higher, the more regular.
    pub regularity: u32,
}

const DAY: u64 = 86_400;
const GB: u64 = 1 << 30;

/// The three servers. The decimal points of the scanned table are read as in "4.0M" where it has
/// "40M", because the parts would not add up otherwise. Cellar's length is that of the table; the
/// text has 12 days.
pub const SERVERS: [Totals; 3] = [
    Totals {
        name: "attic",
        requests: 4_000_000,
        data_reads: 835_000,
        data_writes: 349_000,
        directory_reads: 1_900_000,
        directory_changes: 43_000,
        inode_updates: 427_000,
        seconds: 9 * DAY,
        file_system_bytes: 4 * GB,
        utilization: 0.9,
        volumes_gb: [20.3, 7.1, 3.4],
        pause_seconds: 60.0,
        regularity: 1,
    },
    Totals {
        name: "cellar",
        requests: 1_500_000,
        data_reads: 177_000,
        data_writes: 194_000,
        directory_reads: 900_000,
        directory_changes: 13_000,
        inode_updates: 215_000,
        seconds: 16 * DAY,
        file_system_bytes: GB,
        utilization: 0.9,
        volumes_gb: [8.9, 1.1, 1.5],
        pause_seconds: 66.0,
        regularity: 1,
    },
    Totals {
        name: "maytag",
        requests: 7_500_000,
        data_reads: 495_000,
        data_writes: 330_000,
        directory_reads: 2_300_000,
        directory_changes: 410_000,
        inode_updates: 764_000,
        seconds: 5 * DAY / 2,
        file_system_bytes: 8 * GB,
        utilization: 0.9,
        volumes_gb: [36.6, 3.4, 5.5],
        pause_seconds: 9.0,
        regularity: 12,
    },
];

/// The totals of the server called `name`.
pub fn server(name: &str) -> Option<&'static Totals> {
    SERVERS.iter().find(|server| server.name == name)
}

impl Totals {
    /// The same rates for a shorter time on a smaller file system: for tests.
    #[must_use]
    pub fn scaled(&self, part: f64) -> Totals {
        let scale = |count: u64| ((count as f64 * part) as u64).max(1);
        Totals {
            requests: scale(self.requests),
            data_reads: scale(self.data_reads),
            data_writes: scale(self.data_writes),
            directory_reads: scale(self.directory_reads),
            directory_changes: scale(self.directory_changes),
            inode_updates: scale(self.inode_updates),
            seconds: scale(self.seconds),
            file_system_bytes: scale(self.file_system_bytes),
            volumes_gb: self.volumes_gb.map(|gb| gb * part),
            ..*self
        }
    }
}
