//! The status of a log, as a mount writes it to a file for `twinfs top`, and as a picture.
//!
//! [`Status::of`] reads it from an open volume; the file is its JSON form.

use serde::{Deserialize, Serialize};
use twin_clean::inputs::{SegmentInfo, SegmentState};
use twin_fs::{SegmentPhase, SegmentStatus, Volume, write_cost};

use crate::log_at_end::LogAtEnd;
use crate::segment_map::{Look, map};

/// The status of a log at a moment. Amounts are bytes and times nanoseconds, unless their names say
/// otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The time of the status.
    pub at_ns: u64,
    /// Bytes written to the log since it was mounted.
    pub log_bytes: u64,
    /// Of these, file contents that users wrote: no metadata, nothing that the cleaner moved.
    pub new_data_bytes: u64,
    /// Of these, bytes moved by the cleaner.
    pub moved_bytes: u64,
    /// Bytes that the cleaner read.
    pub cleaner_read_bytes: u64,
    /// Write cost since the mount: bytes to and from the disk for each byte of new data; `None`
    /// without new data.
    pub write_cost: Option<f64>,
    /// Number of cleaned segments.
    pub cleaned_segments: u64,
    /// Number of checkpoints.
    pub checkpoints: u64,
    /// Number of operations that waited for the cleaner.
    pub space_waits: u64,
    /// The sum of their waits.
    pub space_wait_ns: u64,
    /// The longest of their waits.
    pub longest_space_wait_ns: u64,
    /// Bytes reserved or live.
    pub used_bytes: u64,
    /// The largest value that `used_bytes` may have.
    pub limit_bytes: u64,
    /// Number of clean segments.
    pub clean_segments: u32,
    /// Number of clean segments below which the cleaner works under any policy.
    pub low_water_segments: u32,
    /// Number of device requests in flight.
    pub queue: usize,
    /// Time since the last user request to the device ended; `None` while one is in flight.
    pub idle_ns: Option<u64>,
    /// Bytes that are dirty in memory.
    pub dirty_bytes: u64,
    /// Fragments that users have written, as the log counts time.
    pub now: u64,
    /// Number of live fragments.
    pub live: u64,
    /// Segments: state (one of `_`, `o`, `s`, `*`), class, fragments live and written, time sealed.
    pub segments: Vec<(char, u8, u32, u32, u64)>,
}

/// A segment as [`Status::segments`] lists it.
fn short(segment: SegmentStatus) -> (char, u8, u32, u32, u64) {
    let state = match segment.phase {
        SegmentPhase::Clean => '_',
        SegmentPhase::Open => 'o',
        SegmentPhase::Sealed => 's',
        SegmentPhase::Cleaning => '*',
    };
    (state, segment.class, segment.live, segment.written, segment.sealed_at)
}

/// The log of an open volume, by how full its segments are; `None` if it has no log.
pub(crate) fn log_at_end(volume: &Volume) -> Option<LogAtEnd> {
    let mut log = LogAtEnd::default();
    let view = volume.layout().views().log?;
    view.each_segment(&mut |segment| log.add(&segment_info(&short(segment))));
    Some(log)
}

impl Status {
    /// The status of the log of an open volume; `None` if it has no log.
    pub fn of(volume: &Volume) -> Option<Status> {
        let log = volume.layout().views().log?.status(volume.core());
        let core = volume.core();
        Some(Status {
            at_ns: core.rt.now().0,
            log_bytes: log.log_bytes,
            new_data_bytes: log.new_data_bytes,
            moved_bytes: log.moved_bytes,
            cleaner_read_bytes: log.cleaner_read_bytes,
            write_cost: log.write_cost,
            cleaned_segments: log.cleaned_segments,
            checkpoints: log.checkpoints,
            space_waits: log.space_waits,
            space_wait_ns: log.space_wait_ns,
            longest_space_wait_ns: log.longest_space_wait_ns,
            used_bytes: log.used_bytes,
            limit_bytes: log.limit_bytes,
            clean_segments: log.clean_segments,
            low_water_segments: log.low_water_segments,
            queue: core.device.in_flight(),
            idle_ns: log.idle_ns,
            dirty_bytes: core.cache.dirty_bytes(),
            now: log.now,
            live: log.live,
            segments: log.segments.into_iter().map(short).collect(),
        })
    }

    /// Write cost since `before`: bytes to and from the disk for each byte of new data; `None` if
    /// there is no new data.
    fn cost_since(&self, before: &Status) -> Option<f64> {
        let log = self.log_bytes.saturating_sub(before.log_bytes);
        let new = self.new_data_bytes.saturating_sub(before.new_data_bytes);
        let read = self.cleaner_read_bytes.saturating_sub(before.cleaner_read_bytes);
        write_cost(log, read, new)
    }

    /// The segments in the form that policies see.
    pub fn info(&self) -> impl Iterator<Item = SegmentInfo> {
        self.segments.iter().map(segment_info)
    }

    /// A picture, with the differences to `before`.
    pub fn frame(&self, before: &Status, look: Look) -> String {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let told = |cost: Option<f64>| cost.map_or("-".into(), |cost| format!("{cost:.2}"));
        let (cost, lately) = (told(self.write_cost), told(self.cost_since(before)));
        let idle =
            self.idle_ns.map_or("busy".into(), |ns| format!("idle {:.1} s", ns as f64 / 1e9));
        let info: Vec<SegmentInfo> = self.info().collect();
        format!(
            "{:.1} of {:.1} MiB used ({:.1}%), {:.1} MiB dirty in memory; device {idle}, {} requests\n\
             {:.1} MiB written to the log, {:.1} moved; write cost {cost}, lately {lately}\n\
             {} segments clean (cleaned below {}); {} cleaned, {} checkpoints; \
             {} waited, {:.1} ms at most\n{}",
            mib(self.used_bytes),
            mib(self.limit_bytes),
            self.used_bytes as f64 * 100.0 / self.limit_bytes.max(1) as f64,
            mib(self.dirty_bytes),
            self.queue,
            mib(self.log_bytes),
            mib(self.moved_bytes),
            self.clean_segments,
            self.low_water_segments,
            self.cleaned_segments,
            self.checkpoints,
            self.space_waits,
            self.longest_space_wait_ns as f64 / 1e6,
            map(&info, self.now, self.live, look)
        )
    }
}

fn segment_info(
    &(state, class, live_blocks, written_blocks, sealed_at): &(char, u8, u32, u32, u64),
) -> SegmentInfo {
    let state = match state {
        'o' => SegmentState::Open,
        's' => SegmentState::Sealed,
        '*' => SegmentState::Cleaning,
        _ => SegmentState::Free,
    };
    SegmentInfo { state, class, live_blocks, written_blocks, sealed_at, ..SegmentInfo::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_survives_its_file_and_has_every_segment_in_its_picture() {
        let segments = vec![('s', 0, 50, 100, 7), ('o', 2, 3, 10, 0), ('_', 0, 0, 0, 0)];
        let status = Status {
            log_bytes: 3 << 20,
            new_data_bytes: 2 << 20,
            moved_bytes: 1 << 20,
            cleaner_read_bytes: 2 << 20,
            idle_ns: Some(1_500_000_000),
            segments,
            ..Status::default()
        };
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
        let frame = status.frame(&Status::default(), Look { columns: 80, ..Look::default() });
        assert!(frame.contains("\n5c_\n") && frame.contains("idle 1.5 s"), "{frame}");
        assert!(frame.contains("lately 2.50"), "{frame}");
    }
}
