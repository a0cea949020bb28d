//! CLOCK-Pro: Jiang, Chen and Zhang, "CLOCK-Pro: An Effective Improvement of the CLOCK Replacement",
//! USENIX 2005, section 4. All blocks are on one clock: hot ones, cold ones in frames, and cold ones that
//! left the cache but are in their test period. A cold block that is used in its test period becomes
//! hot. Three hands turn hot blocks cold, take cold blocks for replacement, and end test periods. The
//! number of cold frames (`cold_target`, the paper's mc) grows when a test is passed, and shrinks when a
//! test period ends without a use.
//!
//! Readings of what the paper leaves open: a cold block that is used after its test period begins a new
//! one, and HANDcold has moved on to the next cold block before HANDhot acts for a block that it leaves.
//!
//! Rules of libCacheSim for objects: all frames are for cold objects at first, and a new one is admitted
//! only while the cold ones fit into this share. So nothing is ever replaced once the cache is full.

use super::entries::Entries;
use super::{Capacity, Item, Removal, Replacement, list::Lists};

/// The only list: the clock. HANDhot points at the oldest; what it passes becomes the youngest, at the
/// list's head.
const CLOCK: usize = 0;

#[derive(Clone, Copy, Default)]
struct State {
    is_hot: bool,
    /// A cold block in its test period.
    is_tested: bool,
    is_used: bool,
}

/// The next block in a list that is a ring.
fn after(ring: &Lists<1>, number: u32) -> Option<u32> {
    ring.younger(number).or_else(|| ring.oldest(CLOCK))
}

pub(super) struct ClockPro {
    capacity: Capacity,
    cold_target: u64,
    hot_weight: u64,
    cold_weight: u64,
    gone_weight: u64,
    entries: Entries<State>,
    clock: Lists<1>,
    /// The cold blocks in frames, in the order of the clock, so that HANDcold need not pass the others.
    cold: Lists<1>,
    /// HANDcold, on `cold`; `None` if that is empty.
    cold_hand: Option<u32>,
    /// HANDtest, on the clock; `None` if that is empty.
    test_hand: Option<u32>,
    /// The block for which room is made, if it returns in its test period.
    returning: Option<Item>,
}

impl ClockPro {
    pub(super) fn new(capacity: Capacity) -> ClockPro {
        ClockPro {
            capacity,
            cold_target: if capacity.by_paper() { 1 } else { capacity.units },
            hot_weight: 0,
            cold_weight: 0,
            gone_weight: 0,
            entries: Entries::default(),
            clock: Lists::default(),
            cold: Lists::default(),
            cold_hand: None,
            test_hand: None,
            returning: None,
        }
    }

    /// Puts a block at the list's head, where it may be already.
    fn place_at_head(&mut self, number: u32) {
        self.take_off(number);
        let weight = self.entries[number].item.weight;
        self.clock.push(CLOCK, number, weight);
        self.test_hand = self.test_hand.or(Some(number));
        let entry = &self.entries[number];
        if entry.slot.is_some() && !entry.state.is_hot {
            self.join_cold(number);
        }
    }

    /// Puts a block at the list's head into the list of cold frames. Where there was none, HANDcold waits
    /// for it.
    fn join_cold(&mut self, number: u32) {
        self.cold.push(CLOCK, number, self.entries[number].item.weight);
        self.cold_hand = self.cold_hand.or(Some(number));
    }

    /// Takes a block off the clock; hands that point at it move on.
    fn take_off(&mut self, number: u32) {
        self.leave_cold(number);
        if self.test_hand == Some(number) {
            self.test_hand = after(&self.clock, number).filter(|next| *next != number);
        }
        self.clock.remove(number);
    }

    /// Takes a block out of the list of cold frames.
    fn leave_cold(&mut self, number: u32) {
        if self.cold_hand == Some(number) {
            self.cold_hand = after(&self.cold, number).filter(|next| *next != number);
        }
        self.cold.remove(number);
    }

    /// HANDhot passes a block, which stays where it is on the clock, as do the other hands.
    fn pass(&mut self, number: u32) {
        self.clock.move_to(CLOCK, number);
        self.cold.move_to(CLOCK, number);
    }

    /// Takes a block off the clock and forgets it.
    fn remove(&mut self, number: u32) {
        let weight = self.entries.weight(number);
        let entry = &self.entries[number];
        match (entry.slot, entry.state.is_hot) {
            (None, _) => self.gone_weight -= weight,
            (_, true) => self.hot_weight -= weight,
            (_, false) => self.cold_weight -= weight,
        }
        self.take_off(number);
        self.entries.forget(number);
    }

    /// Ends the test period of a cold block. Returns true if the block is gone from the clock.
    fn end_test(&mut self, number: u32) -> bool {
        if std::mem::take(&mut self.entries[number].state.is_tested) {
            let weight = self.entries.weight(number);
            self.cold_target = self.cold_target.saturating_sub(weight).max(1);
        }
        let is_gone = self.entries[number].slot.is_none();
        if is_gone {
            self.remove(number);
        }
        is_gone
    }

    /// A test was passed.
    fn pass_test(&mut self, weight: u64) {
        self.cold_target = (self.cold_target + weight).min(self.capacity.units);
    }

    /// HANDhot: makes hot blocks cold until there are as many as there should be, and stops at a hot
    /// one.
    fn run_hot(&mut self) {
        for _ in 0..=2 * self.clock.len(CLOCK) {
            let Some(number) = self.clock.oldest(CLOCK) else { return };
            let is_over = self.hot_weight > self.capacity.units.saturating_sub(self.cold_target);
            let state = &mut self.entries[number].state;
            match (state.is_hot, is_over) {
                (true, false) => return,
                (true, true) if std::mem::take(&mut state.is_used) => self.pass(number),
                (true, true) => {
                    *state = State::default();
                    let weight = self.entries.weight(number);
                    self.hot_weight -= weight;
                    self.cold_weight += weight;
                    self.pass(number);
                    self.join_cold(number);
                }
                (false, false) if self.hot_weight == 0 => return,
                (false, _) => {
                    if !self.end_test(number) {
                        self.pass(number);
                    }
                }
            }
        }
    }

    /// HANDtest: ends test periods until there are no more blocks out of the cache than fit into it.
    fn run_test(&mut self) {
        while self.gone_weight > self.capacity.units {
            let Some(number) = self.test_hand else { return };
            self.test_hand = after(&self.clock, number);
            if !self.entries[number].state.is_hot {
                self.end_test(number);
            }
        }
    }

    /// A cold block in a frame was used: it becomes hot if it is in its test period.
    fn used_again(&mut self, number: u32) {
        let weight = self.entries.weight(number);
        let was_tested = self.entries[number].state.is_tested;
        let is_tested = !was_tested;
        self.entries[number].state = State { is_hot: was_tested, is_tested, is_used: false };
        self.place_at_head(number);
        if was_tested {
            self.pass_test(weight);
            self.cold_weight -= weight;
            self.hot_weight += weight;
            self.run_hot();
        }
    }

    /// HANDcold: the cold block that leaves its frame.
    fn run_cold(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        // Each use is passed once, and then the hand goes round once more.
        for _ in 0..=2 * self.cold.len(CLOCK) {
            let number = self.cold_hand?;
            let entry = &self.entries[number];
            if entry.state.is_used && !entry.is_dirty {
                self.used_again(number);
                continue;
            }
            let slot = entry.slot.filter(|_| !entry.is_dirty);
            if let Some(slot) = slot.filter(|slot| usable(*slot)) {
                return Some(slot);
            }
            self.cold_hand = after(&self.cold, number);
        }
        None
    }

    /// Any frame that can be evicted.
    fn any(&self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let can_go = |number: u32| {
            let entry = &self.entries[number];
            entry.slot.filter(|slot| !entry.is_dirty && usable(*slot))
        };
        self.clock.iter(CLOCK).find_map(can_go)
    }
}

impl Replacement for ClockPro {
    fn resized(&mut self, capacity: Capacity) {
        self.capacity = capacity;
        self.cold_target = self.cold_target.min(capacity.units).max(1);
    }

    fn missed(&mut self, item: Item) -> bool {
        let weight = u64::from(item.weight);
        if !self.capacity.by_paper() {
            return self.cold_weight + weight <= self.cold_target;
        }
        self.returning = None;
        if let Some(ghost) = self.entries.ghost(item.key) {
            self.returning = Some(item);
            self.remove(ghost);
            self.pass_test(weight);
        }
        true
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        let is_hot = self.returning.take().is_some_and(|expected| expected.key == item.key);
        let state = State { is_hot, is_tested: !is_hot, is_used: false };
        let number = self.entries.add(slot, item, state);
        self.place_at_head(number);
        let weight = if is_hot { &mut self.hot_weight } else { &mut self.cold_weight };
        *weight += u64::from(item.weight);
        if is_hot {
            self.run_hot();
        }
    }

    fn cleaned(&mut self, slot: u32, _: Item) {
        if let Some(number) = self.entries.of_slot(slot) {
            self.entries[number].is_dirty = false;
        }
    }

    fn touched(&mut self, slot: u32) {
        if let Some(number) = self.entries.of_slot(slot) {
            self.entries[number].state.is_used = true;
        }
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        let Some(number) = self.entries.of_slot(slot) else { return };
        let state = self.entries[number].state;
        match why {
            Removal::Dirtied => self.entries[number].is_dirty = true,
            Removal::Evicted if state.is_tested => {
                let weight = self.entries.weight(number);
                self.cold_weight -= weight;
                self.gone_weight += weight;
                self.leave_cold(number);
                self.entries.bury(number);
                self.run_test();
            }
            Removal::Evicted | Removal::Dropped => self.remove(number),
        }
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        self.run_cold(usable).or_else(|| self.any(usable))
    }
}
