//! Multi-log: logs for update frequencies, found by promotion and demotion.
//!
//! Stoica and Ailamaki, "Improving Flash Write Performance by Using Update Frequency", VLDB 2013,
//! as in SepBIT's code. A block that the cleaner finds alive goes to the next colder log; a new
//! coldest log is begun once the last one fills a segment. A block that a user writes sooner than
//! its log expects goes to the next hotter log with probability (expected - distance) / expected; a
//! log expects its number of live blocks times the mean utilization of its victims, divided by 2.

use twin_rt::Rng;

use super::Placement;
use crate::inputs::{CleanerWrite, LogView, NO_SEGMENT, SegmentInfo, Setting, UserWrite};

#[derive(Clone, Copy, Default)]
struct Level {
    live: u64,
    collected: u64,
    collected_dead: u64,
}

pub(super) struct MultiLog {
    levels: Vec<Level>,
    coldest: usize,
    rng: Rng,
}

/// The level in the word of a block, whose low half is the moment of the last user write.
fn level_of(word: u64) -> usize {
    (word >> 32) as usize
}

fn with_level(word: u64, level: usize) -> u64 {
    (word & 0xffff_ffff) | (level as u64) << 32
}

impl MultiLog {
    pub(super) fn new(setting: &Setting) -> MultiLog {
        MultiLog {
            levels: vec![Level::default(); usize::from(setting.open_segments.max(1))],
            coldest: 0,
            rng: Rng::stream(setting.seed, "promotion and demotion"),
        }
    }

    fn expected_distance(&self, level: usize) -> f64 {
        let Level { live, collected, collected_dead } = self.levels[level];
        if collected == 0 {
            return 0.0;
        }
        live as f64 * (1.0 - collected_dead as f64 / collected as f64) / 2.0
    }
}

impl Placement for MultiLog {
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        let mut level = 0;
        if write.old_segment != NO_SEGMENT {
            level = level_of(*word);
            let old_class = view.segments[write.old_segment as usize].class;
            self.levels[usize::from(old_class)].live -= 1;
            let distance = f64::from((view.now as u32).wrapping_sub(*word as u32));
            let expected = self.expected_distance(level);
            let chance = (expected - distance) / expected;
            if level > 0 && chance > 0.0 && self.rng.chance(chance) {
                level -= 1;
            }
        }
        self.levels[level].live += 1;
        *word = with_level(u64::from(view.now as u32), level);
        level as u8
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        let mut level = level_of(*word);
        if level < self.coldest {
            level += 1;
        } else if level + 1 < self.levels.len()
            && self.levels[level].live >= u64::from(view.segment_blocks)
        {
            level += 1;
            self.coldest = level;
        }
        self.levels[level].live += 1;
        *word = with_level(*word, level);
        level as u8
    }

    fn trimmed(&mut self, _: u32, old_segment: u32, _: &mut u64, view: &LogView<'_>) {
        let class = view.segments[old_segment as usize].class;
        self.levels[usize::from(class)].live -= 1;
    }

    fn collected(&mut self, segment: &SegmentInfo, _: &LogView<'_>) {
        let level = &mut self.levels[usize::from(segment.class)];
        level.live -= u64::from(segment.live_blocks);
        level.collected += u64::from(segment.written_blocks);
        level.collected_dead += u64::from(segment.written_blocks - segment.live_blocks);
    }
}
