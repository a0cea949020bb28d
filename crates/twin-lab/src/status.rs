//! What a log is doing, as a mount writes it into a file for `twinfs top`, and as a picture.
//!
//! [`Status::of`] looks at an open volume; the file is its JSON.

use serde::{Deserialize, Serialize};
use twin_clean::facts::{SegmentFacts, State};
use twin_fs::OpenVolume;
use twin_lfs::{Lfs, LfsStats};

use crate::segment_map::{Look, map};

/// A log at a moment. Amounts are bytes and times nanoseconds, unless their names say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// When.
    pub at_ns: u64,
    /// Bytes written to the log since it was mounted.
    pub log_bytes: u64,
    /// Of these, moved by the cleaner.
    pub moved_bytes: u64,
    /// Bytes that the cleaner read.
    pub cleaner_read_bytes: u64,
    /// Write cost since the mount: bytes to and from the disk for each byte of new data.
    pub write_cost: f64,
    /// Segments cleaned.
    pub cleaned_segments: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Operations that waited for the cleaner, and for how long.
    pub space_waits: u64,
    /// All together.
    pub space_wait_ns: u64,
    /// The longest.
    pub longest_space_wait_ns: u64,
    /// Bytes promised or live, and the most that this may become.
    pub used_bytes: u64,
    /// The most.
    pub limit_bytes: u64,
    /// Segments that can be filled.
    pub clean_segments: u32,
    /// Clean segments below which the cleaner works whatever its policy.
    pub low_water_segments: u32,
    /// Requests of the device under way.
    pub queue: usize,
    /// Since users asked something of the device; none while it works.
    pub idle_ns: Option<u64>,
    /// Bytes that are dirty in memory.
    pub dirty_bytes: u64,
    /// Fragments that users have written, as the log counts time.
    pub now: u64,
    /// Fragments that are live.
    pub live: u64,
    /// Segments: state (one of `_`, `o`, `s`, `*`), class, fragments live and written, time sealed.
    pub segments: Vec<(char, u8, u32, u32, u64)>,
}

impl Status {
    /// What the log of an open volume is doing; none if it has no log.
    pub fn of(volume: &OpenVolume) -> Option<Status> {
        let volume = volume.of_layout::<Lfs>()?;
        let (core, lfs) = (&volume.core, &volume.layout);
        let LfsStats { space_waits, space_wait_ns, longest_space_wait_ns, .. } = lfs.stats();
        let stats = lfs.stats();
        let (used_bytes, limit_bytes) = lfs.space();
        let frag = u64::from(lfs.superblock().shape.frag_size);
        let segment = |facts: &SegmentFacts| {
            let state = match facts.state {
                State::Free => '_',
                State::Open => 'o',
                State::Sealed => 's',
                State::Cleaning => '*',
            };
            (state, facts.class, facts.live_blocks, facts.written_blocks, facts.sealed_at)
        };
        Some(lfs.with_segments(|segments| Status {
            at_ns: core.rt.now().0,
            log_bytes: stats.log_bytes,
            moved_bytes: stats.moved_bytes,
            cleaner_read_bytes: stats.cleaner_read_bytes,
            write_cost: stats.write_cost(),
            cleaned_segments: stats.cleaned_segments,
            checkpoints: stats.checkpoints,
            space_waits,
            space_wait_ns,
            longest_space_wait_ns,
            used_bytes,
            limit_bytes,
            clean_segments: segments.clean_count(),
            low_water_segments: lfs.low_water(),
            queue: core.device.in_flight(),
            idle_ns: lfs.idle_ns(core),
            dirty_bytes: core.cache.dirty_bytes(),
            now: segments.now(),
            live: segments.live_bytes() / frag,
            segments: segments.facts().iter().map(segment).collect(),
        }))
    }

    /// What was written since `before`: bytes to and from the disk for each byte of new data; none
    /// if nothing was.
    fn cost_since(&self, before: &Status) -> Option<f64> {
        let log = self.log_bytes.saturating_sub(before.log_bytes);
        let new = log.saturating_sub(self.moved_bytes.saturating_sub(before.moved_bytes));
        let read = self.cleaner_read_bytes.saturating_sub(before.cleaner_read_bytes);
        (new > 0).then(|| (log + read) as f64 / new as f64)
    }

    /// The segments as policies see them.
    pub fn facts(&self) -> impl Iterator<Item = SegmentFacts> {
        self.segments.iter().map(facts)
    }

    /// A picture, with what happened since `before`.
    pub fn frame(&self, before: &Status, look: Look) -> String {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let lately = self.cost_since(before).map_or("-".into(), |cost| format!("{cost:.2}"));
        let idle =
            self.idle_ns.map_or("busy".into(), |ns| format!("idle {:.1} s", ns as f64 / 1e9));
        let facts: Vec<SegmentFacts> = self.facts().collect();
        format!(
            "{:.1} of {:.1} MiB used ({:.1}%), {:.1} MiB dirty in memory; device {idle}, {} requests\n\
             {:.1} MiB written to the log, {:.1} moved; write cost {:.2}, lately {lately}\n\
             {} segments clean (cleaned below {}); {} cleaned, {} checkpoints; \
             {} waited, {:.1} ms at most\n{}",
            mib(self.used_bytes),
            mib(self.limit_bytes),
            self.used_bytes as f64 * 100.0 / self.limit_bytes.max(1) as f64,
            mib(self.dirty_bytes),
            self.queue,
            mib(self.log_bytes),
            mib(self.moved_bytes),
            self.write_cost,
            self.clean_segments,
            self.low_water_segments,
            self.cleaned_segments,
            self.checkpoints,
            self.space_waits,
            self.longest_space_wait_ns as f64 / 1e6,
            map(&facts, self.now, self.live, look)
        )
    }
}

fn facts(
    &(state, class, live_blocks, written_blocks, sealed_at): &(char, u8, u32, u32, u64),
) -> SegmentFacts {
    let state = match state {
        'o' => State::Open,
        's' => State::Sealed,
        '*' => State::Cleaning,
        _ => State::Free,
    };
    SegmentFacts { state, class, live_blocks, written_blocks, sealed_at, ..SegmentFacts::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_survives_its_file_and_has_every_segment_in_its_picture() {
        let segments = vec![('s', 0, 50, 100, 7), ('o', 2, 3, 10, 0), ('_', 0, 0, 0, 0)];
        let status = Status {
            log_bytes: 3 << 20,
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
