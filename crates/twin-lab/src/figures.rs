//! The figures that a run measured. The names of the fields are those of the JSON output.

use serde::Serialize;
use twin_fs::{StreamCounts, Volume, write_cost};
use twin_observe::Observed;
use twin_remote::Machines;
use twin_sim::bus::{BusStats, Phase};
use twin_sim::model::Wear;
use twin_trace::replay::{ClientEnd, Deadlines};
use twin_trace::{Histogram, Verb};

use crate::bill::BillFigures;
use crate::cleaner_figures::CleanerFigures;

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Number of operations measured.
    pub count: u64,
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The maximum.
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
    /// The kind of operation.
    pub verb: &'static str,
    /// Number of failed operations.
    pub errors: u64,
    /// Their latency.
    pub latency: Latency,
    /// Their latency when they were recorded, if the workload has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Latency>,
    /// Seconds of the run that passed while they were under way; operations that were so at the same time
    /// share it evenly. With [`Figures::pauses_s`] these seconds of all kinds add up to the span. `None`
    /// where nobody counted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_s: Option<f64>,
    /// The distribution of their latency: pairs of a largest value in microseconds and the number
    /// of operations that took no longer than it but longer than the pair before.
    pub distribution: Vec<(f64, u64)>,
}

impl VerbFigures {
    /// The figures of a histogram in nanoseconds, and of the recorded one, which may be empty.
    pub fn of(
        verb: &'static str,
        errors: u64,
        histogram: &Histogram,
        recorded: &Histogram,
    ) -> VerbFigures {
        let us = |(ns, count): (u64, u64)| (ns as f64 / 1e3, count);
        let distribution = histogram.buckets().into_iter().map(us).collect();
        let recorded = (recorded.count() > 0).then(|| Latency::of(recorded));
        let latency = Latency::of(histogram);
        VerbFigures { verb, errors, latency, recorded, elapsed_s: None, distribution }
    }

    /// Seconds that they took, added up over them.
    pub fn total_s(&self) -> f64 {
        self.latency.count as f64 * self.latency.mean_us / 1e6
    }

    /// True if a client waits for the end of each: a forget has no answer.
    pub fn is_waited_for(&self) -> bool {
        self.verb != Verb::Forget.name()
    }

    /// Seconds that clients waited for operations of all these kinds.
    pub fn waiting_s(all: &[VerbFigures]) -> f64 {
        all.iter().filter(|of| of.is_waited_for()).map(VerbFigures::total_s).sum()
    }
}

/// Streams, and operations with deadlines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DeadlineFigures {
    /// Operations that had to end by a certain time.
    pub due: u64,
    /// Those that ended later.
    pub missed: u64,
    /// How late the latest was, in microseconds.
    pub latest_us: f64,
    /// Streams that the volume admitted.
    pub admitted: u64,
    /// Opens that it refused.
    pub refused: u64,
    /// Reads of admitted streams whose data was not in memory yet.
    pub stalls: u64,
}

impl DeadlineFigures {
    /// Those of a replay and its volume; `None` if the workload has no deadlines.
    pub(crate) fn of(of_replay: &Deadlines, of_volume: StreamCounts) -> Option<DeadlineFigures> {
        (of_replay.due > 0 || of_replay.refused > 0).then(|| DeadlineFigures {
            due: of_replay.due,
            missed: of_replay.missed,
            latest_us: of_replay.late_ns.max() as f64 / 1e3,
            admitted: of_volume.admitted,
            refused: of_replay.refused,
            stalls: of_volume.stalls,
        })
    }
}

/// The writes of the layout. A layout without a log has its writes in place here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LogFigures {
    /// Bytes moved to and from the disk, metadata and cleaning included, for each byte of new data
    /// ([`twin_fs::write_cost`]); `None` without new data.
    pub write_cost: Option<f64>,
    /// Bytes written, to the log if the layout has one.
    pub log_bytes: u64,
    /// Of these, bytes of file data and directories.
    pub data_bytes: u64,
    /// Of these, bytes of indirect blocks, inodes and maps.
    pub meta_bytes: u64,
    /// Of these, file contents that users wrote: neither directories nor other metadata, and
    /// nothing that the cleaner moved. It is the denominator of the write cost.
    pub new_data_bytes: u64,
    /// Of these, bytes moved by the cleaner.
    pub moved_bytes: u64,
    /// Number of cleaned segments.
    pub cleaned_segments: u64,
    /// Bytes that the cleaner read.
    pub cleaner_read_bytes: u64,
    /// Number of operations that waited for the cleaner to make room.
    pub space_waits: u64,
    /// Number of log writes, or of commits of a journal.
    pub log_writes: u64,
    /// Number of checkpoints.
    pub checkpoints: u64,
    /// What the cleaner did, for what reason, and when the device was idle; `None` without a log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleaner: Option<CleanerFigures>,
}

impl LogFigures {
    /// The writes of a volume since it was opened.
    pub fn of(volume: &Volume) -> LogFigures {
        let written = volume.written();
        LogFigures {
            write_cost: None,
            log_bytes: written.bytes,
            data_bytes: written.data_bytes,
            meta_bytes: written.meta_bytes,
            new_data_bytes: written.new_data_bytes,
            moved_bytes: written.moved_bytes,
            cleaned_segments: written.cleaned_segments,
            cleaner_read_bytes: written.cleaner_read_bytes,
            space_waits: written.space_waits,
            log_writes: written.batches,
            checkpoints: written.checkpoints,
            cleaner: CleanerFigures::of(volume),
        }
    }

    /// The writes since `before`, with their write cost.
    pub fn since(&self, before: &LogFigures) -> LogFigures {
        let mut since = LogFigures {
            write_cost: None,
            log_bytes: self.log_bytes - before.log_bytes,
            data_bytes: self.data_bytes - before.data_bytes,
            meta_bytes: self.meta_bytes - before.meta_bytes,
            new_data_bytes: self.new_data_bytes - before.new_data_bytes,
            moved_bytes: self.moved_bytes - before.moved_bytes,
            cleaned_segments: self.cleaned_segments - before.cleaned_segments,
            cleaner_read_bytes: self.cleaner_read_bytes - before.cleaner_read_bytes,
            space_waits: self.space_waits - before.space_waits,
            log_writes: self.log_writes - before.log_writes,
            checkpoints: self.checkpoints - before.checkpoints,
            cleaner: self.cleaner.map(|now| now.since(&before.cleaner.unwrap_or_default())),
        };
        since.write_cost =
            write_cost(since.log_bytes, since.cleaner_read_bytes, since.new_data_bytes);
        since
    }
}

/// What a run has done by a moment of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moment {
    /// Operations that have ended.
    pub operations: u64,
    /// Bytes that are dirty in the cache now.
    pub dirty_bytes: u64,
    /// Look-ups of blocks in the cache.
    pub lookups: u64,
    /// Of these, those that found the block.
    pub hits: u64,
    /// What the layout has written.
    pub log: LogFigures,
}

/// The part of a request's time in which the disk does nothing for it.
pub const WAITING: &str = "queue";

/// The use of the disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DiskFigures {
    /// Number of read requests.
    pub reads: u64,
    /// Bytes read from the disk.
    pub read_bytes: u64,
    /// Number of write requests.
    pub writes: u64,
    /// Bytes written to the disk.
    pub written_bytes: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Seconds of the service of reads, added up over them.
    pub reads_s: f64,
    /// Seconds of the service of writes, added up over them.
    pub writes_s: f64,
    /// Seconds of the service of flushes, added up over them.
    pub flushes_s: f64,
    /// Seconds during which it had requests, waiting or in service.
    pub busy_s: f64,
    /// Seconds of service, added up over requests: all parts of their time but waiting for each
    /// other. More than `busy_s` if the disk serves several at once.
    pub service_s: f64,
    /// Seconds in which the medium worked. Of a mechanical disk: seeks, head switches, rotational
    /// delay and transfer, for requests and for writes that it had reported before, which may be
    /// under way without any request. Of others: transfer, an SSD's cells and link, added up over
    /// requests.
    pub medium_s: f64,
    /// Seconds that requests waited for each other, added up over them. The disk does nothing for
    /// a request in that time.
    pub waiting_s: f64,
    /// The parts of its requests' time, by name in seconds, waiting included.
    pub time_s: Vec<(&'static str, f64)>,
    /// What it programmed and erased; `None` if it does not wear, or its wear is not modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wear: Option<WearFigures>,
    /// What a bucket charges; `None` if the disk is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bill: Option<BillFigures>,
    /// What went through the journal before it; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalFigures>,
}

/// What went through a journal before a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct JournalFigures {
    /// Bytes that were written to it.
    pub written_bytes: u64,
    /// Bytes that it brought to the disk: without what was written again, or discarded, before.
    pub moved_bytes: u64,
    /// Bytes that it still has when everything is durable.
    pub waiting_bytes: u64,
}

/// The room on a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SpaceFigures {
    /// Bytes that files and their metadata may fill.
    pub capacity_bytes: u64,
    /// Of these, the ones in use when the workload began.
    pub used_before_bytes: u64,
    /// In use when all was on the disk.
    pub used_bytes: u64,
}

impl SpaceFigures {
    /// The room on a volume now; what was in use before is not known.
    pub(crate) fn of(volume: &Volume) -> SpaceFigures {
        let stat = volume.stat();
        let block = u64::from(stat.block_size);
        let used_bytes = stat.blocks.saturating_sub(stat.free) * block;
        SpaceFigures { capacity_bytes: stat.blocks * block, used_before_bytes: 0, used_bytes }
    }

    /// The share of its capacity that is in use at the end.
    pub fn full(&self) -> f64 {
        self.used_bytes as f64 / self.capacity_bytes.max(1) as f64
    }
}

/// The use of a bus.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BusFigures {
    /// How often a device had it.
    pub tenancies: u64,
    /// Bytes of data that it moved.
    pub bytes: u64,
    /// Seconds for which it was taken.
    pub busy_s: f64,
    /// How often a device had to wait for it.
    pub waited: u64,
    /// Seconds of these waits, added up.
    pub waiting_s: f64,
    /// The mean wait of a tenancy in microseconds, those that did not wait included.
    pub mean_wait_us: f64,
    /// The longest wait in microseconds.
    pub longest_wait_us: f64,
    /// The seconds for which it was taken, by phase.
    pub phases_s: Vec<(&'static str, f64)>,
}

impl BusFigures {
    /// What a bus has done.
    pub fn of(stats: &BusStats) -> BusFigures {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let phases = Phase::ALL.iter().map(|&phase| (phase.name(), seconds(stats.phase_ns(phase))));
        BusFigures {
            tenancies: stats.tenancies,
            bytes: stats.bytes,
            busy_s: seconds(stats.busy_ns()),
            waited: stats.waited,
            waiting_s: seconds(stats.waited_ns),
            mean_wait_us: stats.mean_wait_ns() / 1e3,
            longest_wait_us: stats.longest_wait_ns as f64 / 1e3,
            phases_s: phases.filter(|(_, s)| *s > 0.0).collect(),
        }
    }
}

/// The use of a network by the clients of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct NetworkFigures {
    /// Calls of the clients.
    pub calls: u64,
    /// Copies that were sent after the first.
    pub resent: u64,
    /// Messages, replies included.
    pub messages: u64,
    /// Bytes of these, headers included.
    pub bytes: u64,
    /// Frames that were lost.
    pub lost_frames: u64,
    /// Connections that broke.
    pub broken: u64,
}

impl NetworkFigures {
    /// What machines and their network have done.
    pub(crate) fn of(machines: &Machines) -> NetworkFigures {
        let (calls, carried) = (machines.calls(), machines.carried());
        NetworkFigures {
            calls: calls.calls,
            resent: calls.resent,
            messages: carried.messages,
            bytes: carried.bytes,
            lost_frames: carried.lost_frames,
            broken: carried.broken,
        }
    }
}

/// The wear of a device with a flash translation layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WearFigures {
    /// Bytes of the pages that it programmed: for the host's writes and to move pages.
    pub programmed_bytes: u64,
    /// Of these, bytes that its own garbage collection moved.
    pub moved_bytes: u64,
    /// Number of erased blocks.
    pub erased_blocks: u64,
    /// Bytes programmed for each byte written to the device; `None` if none was written. It is
    /// below 1 if the device's cache took writes that were overwritten before they were programmed.
    pub amplification: Option<f64>,
}

impl WearFigures {
    /// The wear from `before` on, during which the host wrote so many bytes.
    pub(crate) fn since(now: &Wear, before: &Wear, written_bytes: u64) -> WearFigures {
        let (host, moved) = (now.host - before.host, now.moved - before.moved);
        let programmed_bytes = (host + moved) * now.page_bytes;
        let amplification = programmed_bytes as f64 / written_bytes as f64;
        WearFigures {
            programmed_bytes,
            moved_bytes: moved * now.page_bytes,
            erased_blocks: now.erased - before.erased,
            amplification: (written_bytes > 0).then_some(amplification),
        }
    }
}

/// The median; the mean of the middle two if their number is even. Without figures it is not a number.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// The values of a measure over the seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The name of the measure.
    pub measure: &'static str,
    /// The median; of an even number of values the mean of the middle two.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// All values, by seed.
    pub values: Vec<f64>,
}

impl Spread {
    /// Of these values, of which there is at least one.
    pub fn of(measure: &'static str, values: Vec<f64>) -> Spread {
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Spread { measure, median: median(&values), min, max, values }
    }
}

/// How far simulated times are trusted beside those of other configurations, as twin-verdict says it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Trusted {
    /// Times whose ratio is below this factor are too close to call.
    pub factor: f64,
    /// Where that factor was measured.
    pub source: &'static str,
}

/// How much later than in the recording the clients of a mount ended, in seconds; negative where
/// they ended earlier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lateness {
    /// Number of clients.
    pub clients: usize,
    /// The median; of an even number of clients the later one of the middle two.
    pub median_s: f64,
    /// The client that ended latest in comparison.
    pub max_s: f64,
}

impl Lateness {
    /// The lateness of these clients; `None` if there are none.
    pub(crate) fn of(clients: &[ClientEnd]) -> Option<Lateness> {
        let mut late: Vec<i64> = clients.iter().map(ClientEnd::late_ns).collect();
        late.sort_unstable();
        let seconds = |ns: &i64| *ns as f64 / 1e9;
        let (median_s, max_s) = (seconds(late.get(late.len() / 2)?), seconds(late.last()?));
        Some(Lateness { clients: late.len(), median_s, max_s })
    }
}

/// The figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// The text of the configuration.
    pub config: String,
    /// The name of the disk model.
    pub disk: String,
    /// Number of operations executed.
    pub ops: u64,
    /// Simulated seconds from the first operation to the end of the last.
    pub span_s: f64,
    /// Simulated seconds from the first operation until all that was written is on the disk.
    pub finish_s: f64,
    /// Seconds that clients waited for their operations: the time of all operations but forgets, which have
    /// no answer, added up over operations. More than the run took if several were under way at a time.
    pub waiting_s: f64,
    /// Seconds of the span in which no operation was under way. At a pace that keeps recorded pauses these
    /// are pauses of all clients.
    pub pauses_s: f64,
    /// Operations a simulated second.
    pub ops_per_s: f64,
    /// Bytes that clients read.
    pub read_bytes: u64,
    /// Bytes that clients wrote.
    pub written_bytes: u64,
    /// Bytes written to the disk for each byte that clients wrote; `None` if they wrote none.
    pub write_amplification: Option<f64>,
    /// Operations with another outcome than in the trace: another error, or reads of another length.
    pub diverged: u64,
    /// Operations that succeeded in the trace and failed here, or could not be issued. If there are
    /// any, the other figures belong to a different workload.
    pub failed: u64,
    /// Its place among the compared configurations, by the measure that was asked for: 1 is the
    /// best. Those that are equal or too close to call share a place. `None` if operations failed, or if the run has no
    /// such figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// How far its times are trusted beside those of others; `None` before it is ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted: Option<Trusted>,
    /// How late its clients were, if the workload was recorded on a mount and its pauses are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// Operations with deadlines, if there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadlines: Option<DeadlineFigures>,
    /// Latency of all operations.
    pub latency: Latency,
    /// The same by kind.
    pub verbs: Vec<VerbFigures>,
    /// Share of block look-ups that the cache served.
    pub cache_hit_share: f64,
    /// Simulated seconds of processor time.
    pub cpu_s: f64,
    /// What the layout wrote.
    pub log: LogFigures,
    /// How full the volume got.
    pub space: SpaceFigures,
    /// What the disk did.
    pub disk_use: DiskFigures,
    /// What the bus did, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus_use: Option<BusFigures>,
    /// What clients and network did, if a network is before the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_use: Option<NetworkFigures>,
    /// What the mount was asked, by kind, if a kernel before it answered the rest (`front-end=kernel`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<(&'static str, u64)>,
    /// The values of each measure over several seeds, of which this run is the median; empty if
    /// there was one run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spreads: Vec<Spread>,
    /// What observers have seen, if there were any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<Observed>,
    /// Fingerprint of all disk requests: equal for equal runs.
    pub digest: String,
    /// The missing part of the trace, if it was cut off when it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
