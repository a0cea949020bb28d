//! SFS: blocks are grouped by hotness, write count over age.
//!
//! Min, Kim, Cho, Lee and Eom, "SFS: Random Write Considered Harmful in Solid State Drives", FAST
//! 2012, section 3.2. At each cleaning the hotness of all full segments is clustered by three
//! rounds of one-dimensional k-means, which start from the previous centres; a block goes to the
//! nearest centre. A block without an old copy counts as hottest.

use super::Placement;
use crate::inputs::{
    CleanerWrite, LogView, NO_SEGMENT, Needs, SegmentInfo, SegmentState, Setting, UserWrite,
};

/// Rounds of clustering at each cleaning.
const ROUNDS: usize = 3;

pub(super) struct Sfs {
    /// Centres of hotness, hottest first.
    centres: Vec<f64>,
}

/// The hotness from the word of a block: the moment of the last user write (low half) and the
/// number of user writes.
fn hotness(word: u64, now: u64) -> f64 {
    let age = (now as u32).wrapping_sub(word as u32).max(1);
    (word >> 32) as f64 / f64::from(age)
}

impl Sfs {
    pub(super) fn new(setting: &Setting) -> Sfs {
        Sfs { centres: vec![0.0; usize::from(setting.open_segments.max(1))] }
    }

    fn nearest(&self, hotness: f64) -> usize {
        let mut best = (f64::INFINITY, 0);
        for (at, centre) in self.centres.iter().enumerate().rev() {
            let distance = (centre - hotness).abs();
            if distance < best.0 {
                best = (distance, at);
            }
        }
        best.1
    }
}

impl Placement for Sfs {
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        let is_new = write.old_segment == NO_SEGMENT;
        let hotness = if is_new { f64::INFINITY } else { hotness(*word, view.now) };
        let writes = if is_new { 1 } else { ((*word >> 32) + 1).min(u64::from(u32::MAX)) };
        *word = writes << 32 | u64::from(view.now as u32);
        self.nearest(hotness) as u8
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        self.nearest(hotness(*word, view.now)) as u8
    }

    fn collected(&mut self, _: &SegmentInfo, view: &LogView<'_>) {
        let full =
            view.segments.iter().filter(|s| s.state == SegmentState::Sealed && s.live_blocks > 0);
        let found: Vec<f64> = full.map(|segment| segment.hotness(view.now)).collect();
        if found.len() <= self.centres.len() {
            for (at, centre) in self.centres.iter_mut().enumerate() {
                *centre = found.get(at % found.len().max(1)).copied().unwrap_or(0.0);
            }
        } else {
            for _ in 0..ROUNDS {
                let mut groups = vec![(0.0, 0u32); self.centres.len()];
                for &hotness in &found {
                    let group = &mut groups[self.nearest(hotness)];
                    *group = (group.0 + hotness, group.1 + 1);
                }
                for (centre, (sum, count)) in self.centres.iter_mut().zip(groups) {
                    *centre = if count == 0 { 0.0 } else { sum / f64::from(count) };
                }
            }
        }
        self.centres.sort_by(|a, b| b.total_cmp(a));
    }

    fn needs(&self) -> Needs {
        Needs { heat: true, ..Needs::default() }
    }
}
