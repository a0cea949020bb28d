//! How full the segments of a log are, counted in bins.

use twin_clean::inputs::{SegmentInfo, SegmentState};

/// Bars of [`LogAtEnd::bins`].
pub const BINS: usize = 20;

/// The segments at the end of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogAtEnd {
    /// The number of full segments by live share, in twentieths; a segment that is completely live
    /// counts in the last.
    pub bins: [u32; BINS],
    /// Number of clean segments.
    pub clean: u32,
    /// Number of open segments.
    pub open: u32,
}

impl LogAtEnd {
    /// Sorts these segments into bins.
    pub fn of(segments: impl Iterator<Item = SegmentInfo>) -> LogAtEnd {
        let mut log = LogAtEnd::default();
        segments.for_each(|info| log.add(&info));
        log
    }

    /// Counts a segment.
    pub(crate) fn add(&mut self, info: &SegmentInfo) {
        match info.state {
            SegmentState::Free => self.clean += 1,
            SegmentState::Open => self.open += 1,
            SegmentState::Sealed | SegmentState::Cleaning => {
                let bin = (info.utilization() * BINS as f64) as usize;
                self.bins[bin.min(BINS - 1)] += 1;
            }
        }
    }

    /// Number of full segments.
    pub fn full(&self) -> u32 {
        self.bins.iter().sum()
    }
}
