//! MiDAS: a hot group and a chain of further groups, whose number and sizes follow a model.
//!
//! Oh, Park, Shin, Kang, Kim, Lim, Kim, Park and Lee, "MiDAS: Minimizing Write Amplification in
//! Log-Structured Systems through Adaptive Group Number and Size Configuration", FAST 2024, with
//! details from the published code. Users write to the hot group (class 0) or to group 1; blocks
//! that are alive when a segment is cleaned go to the next group, those of the last group to the
//! same group. All groups but the last are queues of a configured size. A block is hot if its
//! counter (0 to 3) is full: the counter rises if the old copy in group 1 died younger than the
//! segments of the hot group live on average, falls if not, and falls when the block is moved. Each
//! epoch of four volumes of writes, the update intervals of 1% of the blocks give the survival of
//! blocks ([`model`]), and a greedy search finds the groups of least predicted cost; they are used
//! if that is less than the measured cost. A group whose valid ratio departs from the prediction by
//! more than 0.1 is merged with all groups after it. In this implementation the longest intervals
//! are cut at an epoch, the hot share of the traffic is the measured one, and the last group is
//! predicted as first-in-first-out under uniform writes.
//!
//! The policy names the victims itself: the oldest segment of the first group that is too large, or
//! otherwise the segment with the most garbage in the last group.

mod model;

use super::Placement;
use crate::inputs::{
    CleanerWrite, LogView, NO_SEGMENT, SegmentInfo, SegmentState, Setting, UserWrite,
};
use crate::victim::Candidates;
use model::{Groups, Hot, Survival};

/// One block in this many is sampled.
const SAMPLE: u32 = 100;
/// An epoch, in volumes of writes.
const EPOCH_VOLUMES: u64 = 4;
const HOT_COUNT: u64 = 3;
/// The largest accepted difference between a valid ratio and its prediction.
const IRREGULAR: f64 = 0.1;

#[derive(Clone, Copy, Default)]
struct Seen {
    segments: u64,
    live: u64,
    written: u64,
}

pub(super) struct Midas {
    groups: Groups,
    /// Maximum number of groups, the hot one included.
    most: usize,
    /// The class that was the last one before the groups were changed, and when they were changed:
    /// segments of it count as segments of the last group now.
    former_last: (u8, u64),
    survival: Survival,
    epoch_at: u64,
    /// Blocks that were moved, and that users wrote, since the epoch began.
    moved: u64,
    written: u64,
    hot_written: u64,
    /// Mean lifetime of segments of the hot group, in user writes: the window of the filter.
    window: f64,
    hot_lives: (f64, u64),
    /// By group, since the epoch began.
    collected: Vec<Seen>,
    segment_blocks: u64,
    garbage_share: f64,
}

/// The word of a block: the low half holds the moment of the last user write (of sampled blocks),
/// the high half the counter.
fn counter(word: u64) -> u64 {
    word >> 32
}

fn with_counter(word: u64, count: u64) -> u64 {
    (word & 0xffff_ffff) | count << 32
}

impl Midas {
    pub(super) fn new(setting: &Setting) -> Midas {
        let most = usize::from(setting.open_segments.max(2));
        Midas {
            groups: Groups::default(),
            most,
            former_last: (u8::MAX, 0),
            survival: Survival::new(u64::from(setting.segment_blocks)),
            epoch_at: EPOCH_VOLUMES * u64::from(setting.blocks),
            moved: 0,
            written: 0,
            hot_written: 0,
            window: f64::from(setting.blocks),
            hot_lives: (0.0, 0),
            collected: vec![Seen::default(); most],
            segment_blocks: u64::from(setting.segment_blocks),
            garbage_share: setting.garbage_share,
        }
    }

    fn last(&self) -> u8 {
        self.groups.sizes.len() as u8 + 1
    }

    fn group_of(&self, segment: &SegmentInfo) -> u8 {
        let (class, since) = self.former_last;
        let joined = segment.class >= class && segment.opened_at < since;
        if joined { self.last() } else { segment.class.min(self.last()) }
    }

    fn change_to(&mut self, groups: Groups, now: u64) {
        if groups.sizes.len() != self.groups.sizes.len() {
            self.former_last = (self.last().min(groups.sizes.len() as u8 + 1), now);
        }
        self.groups = groups;
    }

    fn end_epoch(&mut self, view: &LogView<'_>) {
        self.epoch_at = view.now + EPOCH_VOLUMES * view.live_blocks.max(self.segment_blocks);
        self.survival.finish();
        let hot = Hot {
            traffic: self.hot_written as f64 / self.written.max(1) as f64,
            valid: valid_ratio(self.collected[0]).unwrap_or(0.0),
        };
        let live = view.live_blocks as f64 / self.segment_blocks as f64;
        let room = live / (1.0 - self.garbage_share);
        let measured = (self.written + self.moved) as f64 / self.written.max(1) as f64;
        let found = self.survival.best_groups(hot, live, room, self.most - 1);
        if let Some(found) = found.filter(|found| found.predicted < measured) {
            self.change_to(found, view.now);
        } else {
            self.merge_irregular(view.now);
        }
        if self.hot_lives.1 > 0 {
            let mean = self.hot_lives.0 / self.hot_lives.1 as f64;
            self.window = (self.window + mean) / 2.0;
            self.hot_lives = (0.0, 0);
        }
        (self.moved, self.written, self.hot_written) = (0, 0, 0);
        self.collected.fill(Seen::default());
    }

    /// Ends the chain at the first group that departs from its prediction.
    fn merge_irregular(&mut self, now: u64) {
        let wrong = (1..self.groups.valid.len()).find(|&group| {
            let predicted = self.groups.valid[group];
            valid_ratio(self.collected[group]).is_some_and(|v| (v - predicted).abs() > IRREGULAR)
        });
        if let Some(group) = wrong.filter(|&group| group <= self.groups.sizes.len()) {
            let mut groups = self.groups.clone();
            groups.sizes.truncate(group - 1);
            groups.valid.truncate(group);
            self.change_to(groups, now);
        }
    }
}

fn valid_ratio(seen: Seen) -> Option<f64> {
    (seen.segments > 0).then(|| seen.live as f64 / seen.written as f64)
}

impl Placement for Midas {
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        if view.now >= self.epoch_at {
            self.end_epoch(view);
        }
        let mut count = counter(*word);
        if write.old_segment != NO_SEGMENT {
            let old = &view.segments[write.old_segment as usize];
            if self.group_of(old) == 1 {
                let is_young = (view.now - old.opened_at) as f64 <= self.window;
                count = if is_young { (count + 1).min(HOT_COUNT) } else { count.saturating_sub(1) };
            }
        }
        if write.block.is_multiple_of(SAMPLE) {
            let is_first = write.old_segment == NO_SEGMENT;
            let last_at = (!is_first).then_some(*word as u32);
            self.survival.written(last_at, view.now);
            *word = u64::from(view.now as u32);
        }
        *word = with_counter(*word, count);
        self.written += 1;
        let is_hot = count == HOT_COUNT;
        self.hot_written += u64::from(is_hot);
        u8::from(!is_hot)
    }

    fn cleaner_write(&mut self, write: &CleanerWrite, word: &mut u64, view: &LogView<'_>) -> u8 {
        self.moved += 1;
        let group = self.group_of(&view.segments[write.victim as usize]);
        if group <= 1 {
            let down = if group == 0 { 2 } else { 1 };
            *word = with_counter(*word, counter(*word).saturating_sub(down));
        }
        (group + 1).min(self.last())
    }

    fn collected(&mut self, segment: &SegmentInfo, view: &LogView<'_>) {
        let group = self.group_of(segment);
        let seen = &mut self.collected[usize::from(group).min(self.most - 1)];
        seen.segments += 1;
        seen.live += u64::from(segment.live_blocks);
        seen.written += u64::from(segment.written_blocks);
        if group == 0 {
            self.hot_lives.0 += (view.now - segment.opened_at) as f64;
            self.hot_lives.1 += 1;
        }
    }

    fn victim(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        let sealed = || {
            (0u32..).zip(candidates.view.segments).filter(|(_, s)| s.state == SegmentState::Sealed)
        };
        for (group, &size) in (1u8..).zip(&self.groups.sizes) {
            let members = || sealed().filter(|(_, s)| self.group_of(s) == group);
            if members().count() as f64 > size {
                return members().min_by_key(|(_, s)| s.serial).map(|(number, _)| number);
            }
        }
        // In the hot group, blocks that are no longer hot would stay for ever.
        let hot = candidates.iter().filter(|(_, s)| self.group_of(s) == 0);
        let old = hot.filter(|(_, s)| (candidates.view.now - s.opened_at) as f64 > self.window);
        let last = candidates.iter().filter(|(_, s)| self.group_of(s) == self.last());
        let most_garbage = |a: &(u32, &SegmentInfo), b: &(u32, &SegmentInfo)| {
            b.1.utilization().total_cmp(&a.1.utilization()).then(b.0.cmp(&a.0))
        };
        old.chain(last).max_by(most_garbage).map(|(number, _)| number)
    }
}
