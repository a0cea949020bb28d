//! The log itself: the place of each block, and the accounts of each segment.
//!
//! All arrays are dense: a place is segment and slot in 32 bits, and a slot is live if the place of
//! the block that it names is this slot.

use super::VolumeGeometry;
use crate::inputs::{Heat, LogView, NO_SEGMENT, Needs, SegmentInfo, SegmentState};

/// The place of a block that holds nothing.
pub(super) const NOWHERE: u32 = u32::MAX;

pub(super) struct Log {
    /// User writes so far.
    pub(super) now: u64,
    pub(super) live_blocks: u64,
    /// For each block, the place of its live copy.
    pub(super) place: Vec<u32>,
    pub(super) segments: Vec<SegmentInfo>,
    pub(super) garbage_share: f64,
    segment_blocks: u32,
    /// Number of bits of a place that hold the slot.
    slot_bits: u32,
    /// For each place, the block that was written there.
    blocks: Vec<u32>,
    /// For each class, the open segment.
    open: Vec<u32>,
    free: Vec<u32>,
    /// Blocks in the log, live or not.
    occupied_blocks: u64,
    opened: u64,
    words: Vec<u64>,
    needs: Needs,
    /// For each block, if a policy needs heat: number of user writes and the moment of the last.
    heats: Vec<Heat>,
}

impl Log {
    pub(super) fn new(geometry: &VolumeGeometry, needs: Needs) -> Log {
        let blocks = geometry.blocks as usize;
        Log {
            now: 0,
            live_blocks: 0,
            place: vec![NOWHERE; blocks],
            segments: Vec::new(),
            garbage_share: geometry.garbage_share,
            segment_blocks: geometry.segment_blocks,
            slot_bits: geometry.segment_blocks.next_power_of_two().trailing_zeros(),
            blocks: Vec::new(),
            open: vec![NO_SEGMENT; usize::from(geometry.open_segments)],
            free: Vec::new(),
            occupied_blocks: 0,
            opened: 0,
            words: vec![0; blocks],
            needs,
            heats: if needs.heat { vec![Heat::default(); blocks] } else { Vec::new() },
        }
    }

    pub(super) fn segment_of(&self, place: u32) -> u32 {
        place >> self.slot_bits
    }

    pub(super) fn word(&self, block: u32) -> u64 {
        self.words[block as usize]
    }

    pub(super) fn view(&self) -> LogView<'_> {
        LogView {
            now: self.now,
            live_blocks: self.live_blocks,
            segment_blocks: self.segment_blocks,
            segments: &self.segments,
            open: &self.open,
        }
    }

    pub(super) fn view_and_word(&mut self, block: u32) -> (LogView<'_>, &mut u64) {
        let view = LogView {
            now: self.now,
            live_blocks: self.live_blocks,
            segment_blocks: self.segment_blocks,
            segments: &self.segments,
            open: &self.open,
        };
        (view, &mut self.words[block as usize])
    }

    pub(super) fn is_above_threshold(&self) -> bool {
        let garbage = self.occupied_blocks - self.live_blocks;
        garbage as f64 > self.garbage_share * self.occupied_blocks as f64
    }

    /// Turns the live copy of a block, which is in this segment, into garbage.
    pub(super) fn kill(&mut self, segment: u32, block: u32) {
        let info = &mut self.segments[segment as usize];
        info.live_blocks -= 1;
        if self.needs.heat {
            let heat = self.heats[block as usize];
            info.heat.writes -= heat.writes;
            info.heat.last_at -= heat.last_at;
        }
    }

    /// Records a user write in the heat of the block.
    pub(super) fn heat_up(&mut self, block: u32) {
        if self.needs.heat {
            let heat = &mut self.heats[block as usize];
            *heat = Heat { writes: heat.writes + 1, last_at: self.now };
        }
    }

    /// The estimated time of the last update but one of a block that is overwritten now: halfway
    /// from that of its segment to now (see the MDC policy).
    pub(super) fn updated(&self, old_segment: u32) -> f64 {
        let old = self.segments.get(old_segment as usize);
        old.map_or(0.0, |old| (old.penultimate_at() + self.now as f64) / 2.0)
    }

    /// Writes a block to the open segment of a class; returns the segment's number if it is now
    /// full.
    pub(super) fn append(
        &mut self,
        class: u8,
        block: u32,
        youngest_at: u64,
        penultimate: f64,
    ) -> Option<u32> {
        let mut number = self.open[usize::from(class)];
        if number == NO_SEGMENT {
            number = self.open_segment(class);
        }
        let info = &mut self.segments[number as usize];
        let place = (number << self.slot_bits) | info.written_blocks;
        info.written_blocks += 1;
        info.live_blocks += 1;
        info.youngest_at = info.youngest_at.max(youngest_at);
        if self.needs.heat {
            let heat = self.heats[block as usize];
            info.heat.writes += heat.writes;
            info.heat.last_at += heat.last_at;
        }
        info.penultimate_sum += penultimate;
        self.place[block as usize] = place;
        self.blocks[place as usize] = block;
        self.occupied_blocks += 1;
        self.seal_if_full(class, number)
    }

    /// Writes as many of these blocks as the open segment of a class can take. Returns their
    /// number, and the segment's number if it is now full. Updates neither heat nor update times.
    pub(super) fn append_run(
        &mut self,
        class: u8,
        run: &[(u32, u32)],
        youngest_at: u64,
    ) -> (usize, Option<u32>) {
        let mut number = self.open[usize::from(class)];
        if number == NO_SEGMENT {
            number = self.open_segment(class);
        }
        let info = &mut self.segments[number as usize];
        let taken = run.len().min((info.size_blocks - info.written_blocks) as usize);
        let first = (number << self.slot_bits) | info.written_blocks;
        info.written_blocks += taken as u32;
        info.live_blocks += taken as u32;
        info.youngest_at = info.youngest_at.max(youngest_at);
        self.occupied_blocks += taken as u64;
        let slots = &mut self.blocks[first as usize..first as usize + taken];
        for ((slot, place), &(block, _)) in slots.iter_mut().zip(first..).zip(run) {
            self.place[block as usize] = place;
            *slot = block;
        }
        (taken, self.seal_if_full(class, number))
    }

    fn seal_if_full(&mut self, class: u8, number: u32) -> Option<u32> {
        let info = &mut self.segments[number as usize];
        if info.written_blocks < info.size_blocks {
            return None;
        }
        info.state = SegmentState::Sealed;
        info.sealed_at = self.now;
        self.open[usize::from(class)] = NO_SEGMENT;
        Some(number)
    }

    fn open_segment(&mut self, class: u8) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.segments.push(SegmentInfo::default());
            self.blocks.resize(self.segments.len() << self.slot_bits, NOWHERE);
            self.segments.len() as u32 - 1
        });
        self.segments[number as usize] = SegmentInfo {
            state: SegmentState::Open,
            class,
            size_blocks: self.segment_blocks,
            opened_at: self.now,
            serial: self.opened,
            ..SegmentInfo::default()
        };
        self.opened += 1;
        self.open[usize::from(class)] = number;
        number
    }

    /// Begins to clean a segment: adds its live blocks to `moving`.
    pub(super) fn begin_cleaning(&mut self, victim: u32, moving: &mut Vec<(u32, u32)>) {
        let info = &mut self.segments[victim as usize];
        info.state = SegmentState::Cleaning;
        let (first, written) = (victim << self.slot_bits, info.written_blocks as usize);
        let blocks = &self.blocks[first as usize..first as usize + written];
        // Without a branch, because live blocks cannot be predicted: each block is stored, and
        // counted if live.
        let mut count = moving.len();
        moving.resize(count + written, (0, 0));
        for (place, &block) in (first..).zip(blocks) {
            moving[count] = (block, victim);
            count += usize::from(self.place[block as usize] == place);
        }
        moving.truncate(count);
    }

    /// Finishes cleaning a segment, which is empty then.
    pub(super) fn free(&mut self, victim: u32) {
        let info = &mut self.segments[victim as usize];
        self.occupied_blocks -= u64::from(info.written_blocks);
        *info = SegmentInfo::default();
        self.free.push(victim);
    }
}
