//! What a run measured. The names of the fields are those of the JSON output.

use serde::Serialize;
use twin_fs::OpenVolume;
use twin_trace::Histogram;

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Operations.
    pub count: u64,
    /// The mean.
    pub mean_us: f64,
    /// Half are at most this.
    pub p50_us: f64,
    /// 90 of 100 are at most this.
    pub p90_us: f64,
    /// 99 of 100 are at most this.
    pub p99_us: f64,
    /// 999 of 1,000 are at most this.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Latency {
    /// The figures of a histogram in nanoseconds.
    pub fn of(histogram: &Histogram) -> Latency {
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |q| us(histogram.quantile(q));
        Latency {
            count: histogram.count(),
            mean_us: histogram.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: us(histogram.max()),
        }
    }
}

/// Operations of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerbFigures {
    /// Which.
    pub verb: &'static str,
    /// How many failed.
    pub errors: u64,
    /// How long they took.
    pub latency: Latency,
}

/// What the layout wrote. For a layout without a log, what it wrote in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LogFigures {
    /// Bytes moved to and from the disk for each byte of new data and metadata.
    pub write_cost: f64,
    /// Bytes written, to the log if there is one.
    pub log_bytes: u64,
    /// Of these, file data and directories.
    pub data_bytes: u64,
    /// Of these, indirect blocks, inodes, maps.
    pub meta_bytes: u64,
    /// Of these, moved by the cleaner.
    pub moved_bytes: u64,
    /// Segments cleaned.
    pub cleaned_segments: u64,
    /// Bytes that the cleaner read.
    pub cleaner_read_bytes: u64,
    /// Log writes; commits of a journal.
    pub log_writes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
}

impl LogFigures {
    /// What a volume has written since it was opened.
    pub(crate) fn of(volume: &OpenVolume) -> LogFigures {
        let written = volume.written();
        LogFigures {
            write_cost: 0.0,
            log_bytes: written.bytes,
            data_bytes: written.data_bytes,
            meta_bytes: written.meta_bytes,
            moved_bytes: written.moved_bytes,
            cleaned_segments: written.cleaned_segments,
            cleaner_read_bytes: written.cleaner_read_bytes,
            log_writes: written.batches,
            checkpoints: written.checkpoints,
        }
    }

    /// What was written since `before`, with its write cost (Rosenblum and Ousterhout 1991, section
    /// 3.4).
    pub fn since(&self, before: &LogFigures) -> LogFigures {
        let mut since = LogFigures {
            write_cost: 1.0,
            log_bytes: self.log_bytes - before.log_bytes,
            data_bytes: self.data_bytes - before.data_bytes,
            meta_bytes: self.meta_bytes - before.meta_bytes,
            moved_bytes: self.moved_bytes - before.moved_bytes,
            cleaned_segments: self.cleaned_segments - before.cleaned_segments,
            cleaner_read_bytes: self.cleaner_read_bytes - before.cleaner_read_bytes,
            log_writes: self.log_writes - before.log_writes,
            checkpoints: self.checkpoints - before.checkpoints,
        };
        let new = since.log_bytes.saturating_sub(since.moved_bytes);
        if new > 0 {
            since.write_cost = (since.log_bytes + since.cleaner_read_bytes) as f64 / new as f64;
        }
        since
    }
}

/// What the disk did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DiskFigures {
    /// Requests to read.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Requests to write.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Seconds during which it had something to do.
    pub busy_s: f64,
    /// Where the time of its requests went: name and seconds, waiting included.
    pub time_s: Vec<(&'static str, f64)>,
}

/// What a run measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The configuration.
    pub config: String,
    /// The disk model.
    pub disk: String,
    /// Operations executed.
    pub ops: u64,
    /// Simulated seconds from the first operation to the end of the last.
    pub span_s: f64,
    /// Operations a simulated second.
    pub ops_per_s: f64,
    /// Bytes that clients read.
    pub read_bytes: u64,
    /// Bytes that clients wrote.
    pub written_bytes: u64,
    /// Operations that ended otherwise than in the trace.
    pub diverged: u64,
    /// Operations that succeeded in the trace and failed here, or could not be tried. With any, the
    /// other figures are of another workload.
    pub failed: u64,
    /// Its place among the configurations compared, by throughput: 1 is the fastest. None if
    /// operations failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// Latency of all operations.
    pub latency: Latency,
    /// The same by kind.
    pub verbs: Vec<VerbFigures>,
    /// Share of block look-ups that the cache served.
    pub cache_hit_share: f64,
    /// Simulated seconds of processor time.
    pub cpu_s: f64,
    /// The log.
    pub log: LogFigures,
    /// The disk.
    pub disk_use: DiskFigures,
    /// Fingerprint of all disk requests: equal for equal runs.
    pub digest: String,
    /// Real seconds that the simulation took.
    pub real_s: f64,
    /// What the trace lacks, if it was cut off when it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}
