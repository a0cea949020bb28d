//! The log itself: where each block lies, and the accounts of each segment.
//!
//! Dense arrays throughout: a block's place is segment and slot in 32 bits, and a slot is live if
//! the block that it names lies there.

use super::Shape;
use crate::facts::{Heat, NO_SEGMENT, Needs, SegmentFacts, State, View};

/// The place of a block that holds nothing.
pub(super) const NOWHERE: u32 = u32::MAX;

pub(super) struct Log {
    /// User writes so far.
    pub(super) now: u64,
    pub(super) live_blocks: u64,
    /// By block: the place of its live copy.
    pub(super) place: Vec<u32>,
    pub(super) segments: Vec<SegmentFacts>,
    pub(super) garbage_share: f64,
    segment_blocks: u32,
    /// Bits of a place that number the slot.
    slot_bits: u32,
    /// By place: the block that was written there.
    blocks: Vec<u32>,
    /// By class.
    open: Vec<u32>,
    free: Vec<u32>,
    /// Blocks in the log, live or not.
    occupied_blocks: u64,
    opened: u64,
    words: Vec<u64>,
    needs: Needs,
    /// By block, if a policy needs heat: user writes and the moment of the last.
    heats: Vec<Heat>,
}

impl Log {
    pub(super) fn new(shape: &Shape, needs: Needs) -> Log {
        let blocks = shape.blocks as usize;
        Log {
            now: 0,
            live_blocks: 0,
            place: vec![NOWHERE; blocks],
            segments: Vec::new(),
            garbage_share: shape.garbage_share,
            segment_blocks: shape.segment_blocks,
            slot_bits: shape.segment_blocks.next_power_of_two().trailing_zeros(),
            blocks: Vec::new(),
            open: vec![NO_SEGMENT; usize::from(shape.open_segments)],
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

    pub(super) fn view(&self) -> View<'_> {
        View {
            now: self.now,
            live_blocks: self.live_blocks,
            segment_blocks: self.segment_blocks,
            segments: &self.segments,
            open: &self.open,
        }
    }

    pub(super) fn view_and_word(&mut self, block: u32) -> (View<'_>, &mut u64) {
        let view = View {
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

    /// The live copy of a block, which is in this segment, becomes garbage.
    pub(super) fn kill(&mut self, segment: u32, block: u32) {
        let facts = &mut self.segments[segment as usize];
        facts.live_blocks -= 1;
        if self.needs.heat {
            let heat = self.heats[block as usize];
            facts.heat.writes -= heat.writes;
            facts.heat.last_at -= heat.last_at;
        }
    }

    /// A user writes a block: it gets hotter.
    pub(super) fn heat_up(&mut self, block: u32) {
        if self.needs.heat {
            let heat = &mut self.heats[block as usize];
            *heat = Heat { writes: heat.writes + 1, last_at: self.now };
        }
    }

    /// The time of the last update but one that a block carries when it is overwritten now:
    /// halfway from its segment's to now (see the MDC policy).
    pub(super) fn updated(&self, old_segment: u32) -> f64 {
        let old = self.segments.get(old_segment as usize);
        old.map_or(0.0, |old| (old.penultimate_at() + self.now as f64) / 2.0)
    }

    /// Writes a block to the open segment of a class. If that fills the segment: its number.
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
        let facts = &mut self.segments[number as usize];
        let place = (number << self.slot_bits) | facts.written_blocks;
        facts.written_blocks += 1;
        facts.live_blocks += 1;
        facts.youngest_at = facts.youngest_at.max(youngest_at);
        if self.needs.heat {
            let heat = self.heats[block as usize];
            facts.heat.writes += heat.writes;
            facts.heat.last_at += heat.last_at;
        }
        facts.penultimate_sum += penultimate;
        self.place[block as usize] = place;
        self.blocks[place as usize] = block;
        self.occupied_blocks += 1;
        self.seal_if_full(class, number)
    }

    /// Writes as many of these blocks as the open segment of a class takes, and says how many; if
    /// that fills the segment: its number. Keeps neither heat nor times of updates.
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
        let facts = &mut self.segments[number as usize];
        let taken = run.len().min((facts.size_blocks - facts.written_blocks) as usize);
        let first = (number << self.slot_bits) | facts.written_blocks;
        facts.written_blocks += taken as u32;
        facts.live_blocks += taken as u32;
        facts.youngest_at = facts.youngest_at.max(youngest_at);
        self.occupied_blocks += taken as u64;
        let slots = &mut self.blocks[first as usize..first as usize + taken];
        for ((slot, place), &(block, _)) in slots.iter_mut().zip(first..).zip(run) {
            self.place[block as usize] = place;
            *slot = block;
        }
        (taken, self.seal_if_full(class, number))
    }

    fn seal_if_full(&mut self, class: u8, number: u32) -> Option<u32> {
        let facts = &mut self.segments[number as usize];
        if facts.written_blocks < facts.size_blocks {
            return None;
        }
        facts.state = State::Sealed;
        facts.sealed_at = self.now;
        self.open[usize::from(class)] = NO_SEGMENT;
        Some(number)
    }

    fn open_segment(&mut self, class: u8) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.segments.push(SegmentFacts::default());
            self.blocks.resize(self.segments.len() << self.slot_bits, NOWHERE);
            self.segments.len() as u32 - 1
        });
        self.segments[number as usize] = SegmentFacts {
            state: State::Open,
            class,
            size_blocks: self.segment_blocks,
            opened_at: self.now,
            serial: self.opened,
            ..SegmentFacts::default()
        };
        self.opened += 1;
        self.open[usize::from(class)] = number;
        number
    }

    /// Starts to clean a segment: what is live in it is added to `moving`.
    pub(super) fn take_out(&mut self, victim: u32, moving: &mut Vec<(u32, u32)>) {
        let facts = &mut self.segments[victim as usize];
        facts.state = State::Cleaning;
        let (first, written) = (victim << self.slot_bits, facts.written_blocks as usize);
        let blocks = &self.blocks[first as usize..first as usize + written];
        // Whether a block is live cannot be guessed: each is written down, and counted if it is.
        let mut count = moving.len();
        moving.resize(count + written, (0, 0));
        for (place, &block) in (first..).zip(blocks) {
            moving[count] = (block, victim);
            count += usize::from(self.place[block as usize] == place);
        }
        moving.truncate(count);
    }

    /// Ends to clean a segment: nothing in it is needed any more.
    pub(super) fn free(&mut self, victim: u32) {
        let facts = &mut self.segments[victim as usize];
        self.occupied_blocks -= u64::from(facts.written_blocks);
        *facts = SegmentFacts::default();
        self.free.push(victim);
    }
}
