//! What the log shows of itself while the volume is open.

use std::rc::Rc;

use twin_clean::inputs::{SegmentInfo, SegmentState};
use twin_fs::{
    Cleaned, CleanerCounts, Cleaning, Core, LogStatus, LogView, Region, RegionState, Result,
    SegmentPhase, SegmentStatus, SpaceMap,
};
use twin_rt::BoxFuture;

use crate::lfs::Lfs;

impl LogView for Lfs {
    fn status(&self, core: &Core) -> LogStatus {
        let stats = self.stats();
        let (used_bytes, limit_bytes) = self.space();
        let frag = u64::from(self.sb.geometry.frag_size);
        self.with_segments(|segments| LogStatus {
            log_bytes: stats.log_bytes,
            new_data_bytes: stats.new_data_bytes,
            moved_bytes: stats.moved_bytes,
            cleaner_read_bytes: stats.cleaner_read_bytes,
            write_cost: stats.write_cost(),
            cleaned_segments: stats.cleaned_segments,
            checkpoints: stats.checkpoints,
            space_waits: stats.space_waits,
            space_wait_ns: stats.cleaner.waits.total_ns,
            longest_space_wait_ns: stats.cleaner.waits.longest_ns,
            used_bytes,
            limit_bytes,
            clean_segments: segments.clean_count(),
            low_water_segments: self.low_water(),
            idle_ns: self.idle_ns(core),
            now: segments.now(),
            live: segments.live_bytes() / frag,
            segments: segments.all_info().map(|info| segment(&info)).collect(),
        })
    }

    fn cleaner(&self) -> CleanerCounts {
        self.stats().cleaner
    }

    fn trigger(&self) -> &str {
        &self.settings.trigger
    }

    fn each_segment(&self, f: &mut dyn FnMut(SegmentStatus)) {
        self.with_segments(|segments| segments.all_info().for_each(|info| f(segment(&info))));
    }

    fn segment_at(&self, byte: u64) -> Option<(u32, u64)> {
        let segment = self.sb.segment_of(byte)?;
        Some((segment, byte - self.sb.segment_start(segment)))
    }

    fn clean<'a>(&'a self, core: &'a Rc<Core>, how: Cleaning) -> BoxFuture<'a, Result<Cleaned>> {
        Box::pin(Lfs::clean(self, core, how.segments, how.garbage_share))
    }
}

impl Lfs {
    /// How full the segments are.
    pub(crate) fn map_of_segments(&self) -> SpaceMap {
        let frags = f64::from(self.sb.segment_size / self.sb.geometry.frag_size);
        let region = |info: SegmentInfo| match info.state {
            SegmentState::Free => Region::default(),
            SegmentState::Open => {
                let used = f64::from(info.live_blocks) / frags;
                Region { used, state: RegionState::BeingWritten }
            }
            SegmentState::Sealed | SegmentState::Cleaning => {
                Region { used: f64::from(info.live_blocks) / frags, ..Region::default() }
            }
        };
        let regions = self.with_segments(|segments| segments.all_info().map(region).collect());
        SpaceMap { kind: "segments", regions }
    }
}

fn segment(info: &SegmentInfo) -> SegmentStatus {
    let phase = match info.state {
        SegmentState::Free => SegmentPhase::Clean,
        SegmentState::Open => SegmentPhase::Open,
        SegmentState::Sealed => SegmentPhase::Sealed,
        SegmentState::Cleaning => SegmentPhase::Cleaning,
    };
    SegmentStatus {
        phase,
        class: info.class,
        live: info.live_blocks,
        written: info.written_blocks,
        sealed_at: info.sealed_at,
    }
}
