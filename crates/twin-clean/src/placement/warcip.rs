//! WARCIP: user writes clustered by rewrite interval, online.
//!
//! Yang, Pei and Yang, "WARCIP: Write Amplification Reduction by Clustering I/O Pages", SYSTOR
//! 2019, as in SepBIT's code. One-dimensional k-means over intervals: a write goes to the nearest
//! centre, which moves to the mean of its open segment. A block that the cleaner moves (class 0) is
//! punished: its age is added to its next interval. After every 256 full segments of users, a
//! cluster that took more than half of the writes is split if a class is free; if no class is free,
//! a cluster that filled less than a segment is removed when its open segment is full.

use super::Placement;
use crate::inputs::{CleanerWrite, LogView, NO_SEGMENT, SegmentInfo, Setting, UserWrite};

const SEALED_BETWEEN_CHANGES: u32 = 256;
const CLEANER: u8 = 0;

#[derive(Clone, Copy)]
struct Cluster {
    centre: f64,
    /// Number of blocks in the open segment.
    blocks: f64,
    /// Writes since the clusters were last changed.
    writes: u64,
    class: u8,
}

pub(super) struct Warcip {
    clusters: Vec<Cluster>,
    free_classes: Vec<u8>,
    ending: Option<u8>,
    sealed: u32,
}

/// The interval from the word of a block: the moment of the last user write (low half) and the
/// punishment.
fn interval(word: u64, now: u64) -> u64 {
    u64::from((now as u32).wrapping_sub(word as u32)) + (word >> 32)
}

impl Warcip {
    pub(super) fn new(setting: &Setting) -> Warcip {
        let classes = 1..setting.open_segments.max(2);
        let cluster = |class| Cluster { centre: 0.0, blocks: 0.0, writes: 0, class };
        Warcip {
            clusters: classes.map(cluster).collect(),
            free_classes: Vec::new(),
            ending: None,
            sealed: 0,
        }
    }

    fn change(&mut self, segment_blocks: u32) {
        let total: u64 = self.clusters.iter().map(|cluster| cluster.writes).sum();
        let large = self.clusters.iter().position(|cluster| cluster.writes > total / 2);
        if let (Some(large), Some(class)) = (large, self.free_classes.pop()) {
            let below = if large == 0 { 0.0 } else { self.clusters[large - 1].centre };
            let centre = (below + self.clusters[large].centre) / 2.0;
            self.clusters.insert(large, Cluster { centre, blocks: 0.0, writes: 0, class });
        } else if self.ending.is_none() && self.clusters.len() > 1 {
            let small = self.clusters.iter().find(|c| c.writes < u64::from(segment_blocks));
            self.ending = small.map(|cluster| cluster.class);
        }
        self.clusters.iter_mut().for_each(|cluster| cluster.writes = 0);
    }
}

impl Placement for Warcip {
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        let is_new = write.old_segment == NO_SEGMENT;
        let interval = if is_new { 0.0 } else { interval(*word, view.now) as f64 };
        *word = u64::from(view.now as u32);
        let mut best = (f64::INFINITY, 0);
        for (at, cluster) in self.clusters.iter().enumerate().rev() {
            let distance = (cluster.centre - interval).abs();
            if distance < best.0 {
                best = (distance, at);
            }
        }
        let cluster = &mut self.clusters[best.1];
        cluster.centre += (interval - cluster.centre) / (cluster.blocks + 1.0);
        cluster.blocks += 1.0;
        cluster.writes += 1;
        cluster.class
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        let age = (view.now as u32).wrapping_sub(*word as u32);
        *word = (*word & 0xffff_ffff) | u64::from(age) << 32;
        CLEANER
    }

    fn sealed(&mut self, segment: &SegmentInfo, view: &LogView<'_>) {
        if segment.class == CLEANER {
            return;
        }
        if self.ending == Some(segment.class) {
            self.ending = None;
            self.clusters.retain(|cluster| cluster.class != segment.class);
            self.free_classes.push(segment.class);
        } else {
            let filled = self.clusters.iter_mut().filter(|c| c.class == segment.class);
            filled.for_each(|cluster| cluster.blocks = 0.0);
        }
        self.sealed += 1;
        if self.sealed == SEALED_BETWEEN_CHANGES {
            self.sealed = 0;
            self.change(view.segment_blocks);
        }
    }
}
