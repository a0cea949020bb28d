//! The figures of a run of a server. The names of the fields are those of the JSON output.

use serde::Serialize;
use twin_lab::{BusFigures, DiskFigures, Latency, LogFigures, VerbFigures};
use twin_observe::Observed;
use twin_verdict::Fit;

/// The figures of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServerFigures {
    /// All file systems together.
    pub whole: Whole,
    /// By file system.
    pub file_systems: Vec<OfFileSystem>,
    /// By disk.
    pub disks: Vec<OfDisk>,
    /// By bus.
    pub buses: Vec<OfBus>,
    /// By host.
    pub hosts: Vec<OfHost>,
    /// What generated workloads that take the place of something were held against.
    pub fits: Vec<Fit>,
    /// What observers have seen, if there were any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<Observed>,
    /// Fingerprint of all disk requests: equal for equal runs.
    pub digest: String,
}

/// All file systems of a server together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Whole {
    /// Simulated seconds from the first operation to the end of the last.
    pub span_s: f64,
    /// Simulated seconds until all that was written is on the disks.
    pub finish_s: f64,
    /// Operations executed.
    pub ops: u64,
    /// Operations that succeeded in the workload and failed here, or could not be issued.
    pub failed: u64,
    /// Bytes that clients read.
    pub read_bytes: u64,
    /// Bytes that clients wrote.
    pub written_bytes: u64,
    /// Latency of all operations.
    pub latency: Latency,
    /// The same by kind.
    pub verbs: Vec<VerbFigures>,
    /// How much later than they were due operations were issued, of clients that keep to times.
    pub late: Latency,
}

/// A file system of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OfFileSystem {
    /// Its name.
    pub name: String,
    /// Its configuration.
    pub config: String,
    /// Its disk, and its bytes there.
    pub disk: String,
    /// Bytes of the volume.
    pub size: u64,
    /// Operations executed.
    pub ops: u64,
    /// Operations that failed; see [`Whole::failed`].
    pub failed: u64,
    /// Bytes that clients read.
    pub read_bytes: u64,
    /// Bytes that clients wrote.
    pub written_bytes: u64,
    /// Latency of its operations.
    pub latency: Latency,
    /// The same by kind.
    pub verbs: Vec<VerbFigures>,
    /// Share of block look-ups that the cache served.
    pub cache_hit_share: f64,
    /// Bytes of the host's memory that it had at the end.
    pub cache_bytes: u64,
    /// What its layout wrote.
    pub log: LogFigures,
}

/// A disk of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OfDisk {
    /// Its name.
    pub name: String,
    /// Its model.
    pub model: String,
    /// Its bus.
    pub bus: Option<String>,
    /// Share of the time for which it served requests.
    pub utilization: f64,
    /// What it did.
    pub disk_use: DiskFigures,
}

/// A bus of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OfBus {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Share of the time for which it was taken.
    pub utilization: f64,
    /// What it did.
    pub bus_use: BusFigures,
}

/// A host of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OfHost {
    /// Its name.
    pub name: String,
    /// Its processors.
    pub cpu: String,
    /// Simulated seconds of processor time.
    pub cpu_s: f64,
    /// Share of the time for which its processors worked.
    pub utilization: f64,
    /// Bytes for blocks.
    pub cache_bytes: u64,
    /// Of these, bytes that went from one file system to another.
    pub moved_cache_bytes: u64,
}
