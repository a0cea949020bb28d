//! The bare volume: a log of blocks with a cleaner and nothing else.
//!
//! It has as many segments as it needs. After each user write the share of garbage is computed:
//! dead blocks of sealed segments over all blocks in the log. If it exceeds the threshold, one
//! victim is cleaned (as in SepBIT's experiments). [`Totals`] counts every block that is written.
//!
//! Start at [`Volume`]; [`study`] runs one from a description.

mod log;
pub mod study;
pub mod trace;
pub mod workload;

use crate::inputs::{CleanerWrite, MovedBlock, NO_SEGMENT, Needs, Setting, UserWrite};
use crate::placement::Placement;
use crate::victim::{Candidates, VictimPolicy};
use log::{Log, NOWHERE};

/// The sizes of a volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VolumeGeometry {
    /// Number of blocks; block numbers are below it.
    pub blocks: u32,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// The share of garbage, 0 to 1, at which cleaning begins, and the least share in a victim.
    pub garbage_share: f64,
    /// Maximum number of open segments.
    pub open_segments: u8,
}

/// The largest number of blocks of a volume: the places in all its segments are numbered with 32
/// bits.
pub const BLOCKS_MAX: u32 = 1 << 30;

/// Why there can be no volume of some geometry.
#[derive(Clone, Debug, PartialEq)]
pub struct GeometryError(String);

impl std::fmt::Display for GeometryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GeometryError {}

impl VolumeGeometry {
    /// A volume of `blocks` as in SepBIT's experiments: segments of 1% of it, 15% garbage, six
    /// open segments.
    pub fn of_working_set(blocks: u32) -> Result<VolumeGeometry, GeometryError> {
        let segment_blocks = (blocks / 100).max(2);
        VolumeGeometry { blocks, segment_blocks, garbage_share: 0.15, open_segments: 6 }.check()
    }

    /// Returns the geometry if such a volume is possible.
    ///
    /// # Errors
    /// A message about the size that is too small or too large.
    pub fn check(self) -> Result<VolumeGeometry, GeometryError> {
        let no = |what: String| Err(GeometryError(what));
        if self.blocks == 0 || self.blocks > BLOCKS_MAX {
            return no(format!("a volume has 1 to {BLOCKS_MAX} blocks, not {}", self.blocks));
        }
        if self.segment_blocks < 2 || self.segment_blocks > (1 << 24) {
            return no(format!("a segment has 2 to 2^24 blocks, not {}", self.segment_blocks));
        }
        if !(0.01..=0.9).contains(&self.garbage_share) {
            return no(format!(
                "the share of garbage is between 0.01 and 0.9, not {}",
                self.garbage_share
            ));
        }
        if self.open_segments == 0 || self.open_segments > 64 {
            return no(format!("1 to 64 segments can be open, not {}", self.open_segments));
        }
        Ok(self)
    }

    /// Returns the geometry if it gives a placement policy enough open segments.
    ///
    /// # Errors
    /// A message with the policy and its needs.
    pub fn check_for(
        self,
        placement: &crate::placement::PlacementEntry,
    ) -> Result<VolumeGeometry, GeometryError> {
        if placement.classes > self.open_segments {
            return Err(GeometryError(format!(
                "placement {} needs {} open segments, not {}",
                placement.name, placement.classes, self.open_segments
            )));
        }
        self.check()
    }

    /// The setting for which policies are made.
    pub fn setting(&self, seed: u64) -> Setting {
        Setting {
            blocks: self.blocks,
            segment_blocks: self.segment_blocks,
            garbage_share: self.garbage_share,
            open_segments: self.open_segments,
            seed,
        }
    }
}

/// Numbers of blocks written, moved and deleted, and of segments cleaned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Blocks that users wrote.
    pub user_writes: u64,
    /// Blocks that the cleaner moved.
    pub cleaner_writes: u64,
    /// Segments that were cleaned.
    pub victims: u64,
    /// Blocks that users deleted.
    pub trims: u64,
}

impl Totals {
    /// All writes divided by user writes; 1 if there were none.
    pub fn write_amplification(&self) -> f64 {
        if self.user_writes == 0 {
            return 1.0;
        }
        (self.user_writes + self.cleaner_writes) as f64 / self.user_writes as f64
    }

    /// The difference to `earlier`.
    pub fn since(&self, earlier: &Totals) -> Totals {
        Totals {
            user_writes: self.user_writes - earlier.user_writes,
            cleaner_writes: self.cleaner_writes - earlier.cleaner_writes,
            victims: self.victims - earlier.victims,
            trims: self.trims - earlier.trims,
        }
    }
}

/// A log of blocks with its cleaner.
pub struct Volume {
    log: Log,
    placement: Box<dyn Placement>,
    victim: Box<dyn VictimPolicy>,
    needs: Needs,
    batch: u32,
    totals: Totals,
    /// The victims that are being cleaned, and their live blocks.
    victims: Vec<u32>,
    moving: Vec<(u32, u32)>,
}

impl Volume {
    /// An empty volume with these policies.
    pub fn new(
        geometry: &VolumeGeometry,
        placement: Box<dyn Placement>,
        victim: Box<dyn VictimPolicy>,
    ) -> Volume {
        let needs = placement.needs().and(victim.needs());
        let batch = placement.batch_segments().max(1);
        let log = Log::new(geometry, needs);
        let (victims, moving, totals) = (Vec::new(), Vec::new(), Totals::default());
        Volume { log, placement, victim, needs, batch, totals, victims, moving }
    }

    /// Writes a block, and cleans if there is too much garbage.
    ///
    /// # Panics
    /// If the volume has no such block.
    pub fn write(&mut self, block: u32) {
        self.write_known(block, 0);
    }

    /// Writes a block whose next overwrite is known to come `lifetime_writes` user writes later.
    ///
    /// # Panics
    /// If the volume has no such block.
    pub fn write_known(&mut self, block: u32, lifetime_writes: u64) {
        let old = self.log.place[block as usize];
        let old_segment = if old == NOWHERE { NO_SEGMENT } else { self.log.segment_of(old) };
        if old_segment == NO_SEGMENT {
            self.log.live_blocks += 1;
        } else {
            self.log.kill(old_segment, block);
        }
        let kind = Default::default();
        let write = UserWrite { block, old_segment, kind, lifetime_writes };
        let (view, word) = self.log.view_and_word(block);
        let class = self.placement.user_write(&write, word, &view);
        self.log.heat_up(block);
        let penultimate = if self.needs.updates { self.log.updated(old_segment) } else { 0.0 };
        let now = self.log.now;
        self.append(class, block, now, penultimate);
        self.log.now += 1;
        self.totals.user_writes += 1;
        if self.log.is_above_threshold() {
            self.clean();
        }
    }

    /// Announces a request; the writes of its blocks follow.
    pub fn request(&mut self, first_block: u32, blocks: u32) {
        if self.needs.requests {
            let view = self.log.view();
            self.placement.request(first_block, blocks, &view);
        }
    }

    /// Deletes a block; nothing happens if the block holds no data.
    ///
    /// # Panics
    /// If the volume has no such block.
    pub fn trim(&mut self, block: u32) {
        let old = self.log.place[block as usize];
        if old == NOWHERE {
            return;
        }
        let old_segment = self.log.segment_of(old);
        self.log.kill(old_segment, block);
        self.log.place[block as usize] = NOWHERE;
        self.log.live_blocks -= 1;
        self.totals.trims += 1;
        let (view, word) = self.log.view_and_word(block);
        self.placement.trimmed(block, old_segment, word, &view);
    }

    /// The totals so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Blocks that hold user data.
    pub fn live_blocks(&self) -> u64 {
        self.log.live_blocks
    }

    /// The segments of the log.
    pub fn segments(&self) -> &[crate::inputs::SegmentInfo] {
        &self.log.segments
    }

    /// The segment in which a block lies; `None` if the block holds no data.
    pub fn segment_of(&self, block: u32) -> Option<u32> {
        let place = *self.log.place.get(block as usize)?;
        (place != NOWHERE).then(|| self.log.segment_of(place))
    }

    fn append(&mut self, class: u8, block: u32, youngest_at: u64, penultimate: f64) {
        if let Some(sealed) = self.log.append(class, block, youngest_at, penultimate) {
            let view = self.log.view();
            self.placement.sealed(&view.segments[sealed as usize], &view);
        }
    }

    /// Cleans a batch of victims.
    fn clean(&mut self) {
        let mut moving = std::mem::take(&mut self.moving);
        let mut victims = std::mem::take(&mut self.victims);
        for _ in 0..self.batch {
            let view = self.log.view();
            let candidates = Candidates { view, min_garbage_share: self.log.garbage_share };
            let chosen = self.placement.victim(&candidates);
            let Some(victim) = chosen.or_else(|| self.victim.choose(&candidates)) else { break };
            self.placement.collected(&view.segments[victim as usize], &view);
            self.log.begin_cleaning(victim, &mut moving);
            victims.push(victim);
        }
        if self.batch > 1 {
            moving.sort_by_key(|&(block, _)| {
                let (word, number) = (self.log.word(block), block.into());
                self.placement.move_key(&MovedBlock { word, file: 0, number })
            });
        }
        self.move_all(&moving);
        victims.iter().for_each(|&victim| self.log.free(victim));
        self.totals.victims += victims.len() as u64;
        moving.clear();
        victims.clear();
        (self.moving, self.victims) = (moving, victims);
    }

    fn move_all(&mut self, moving: &[(u32, u32)]) {
        self.totals.cleaner_writes += moving.len() as u64;
        for run in moving.chunk_by(|(_, a), (_, b)| a == b) {
            let info = &self.log.segments[run[0].1 as usize];
            match self.placement.class_of_moved(info.class) {
                Some(class) if !self.needs.heat && !self.needs.updates => {
                    self.append_run(class, run, info.youngest_at);
                }
                _ => self.move_each(run),
            }
        }
    }

    /// Moves blocks together to one class.
    fn append_run(&mut self, class: u8, mut run: &[(u32, u32)], youngest_at: u64) {
        while !run.is_empty() {
            let (taken, sealed) = self.log.append_run(class, run, youngest_at);
            if let Some(sealed) = sealed {
                let view = self.log.view();
                self.placement.sealed(&view.segments[sealed as usize], &view);
            }
            run = &run[taken..];
        }
    }

    fn move_each(&mut self, moving: &[(u32, u32)]) {
        for &(block, victim) in moving {
            let info = &self.log.segments[victim as usize];
            let (youngest_at, penultimate) = (info.youngest_at, info.penultimate_at());
            let victim_class = info.class;
            let kind = Default::default();
            let write = CleanerWrite { block, victim, victim_class, kind };
            let (view, word) = self.log.view_and_word(block);
            let class = self.placement.cleaner_write(&write, word, &view);
            self.append(class, block, youngest_at, penultimate);
        }
    }
}

#[cfg(test)]
mod tests;
