//! LIRS: Jiang and Zhang, "LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy to
//! Improve Buffer Cache Performance", SIGMETRICS 2002, section 3.3. Blocks with a small distance between
//! their last two uses (LIR) have most of the cache; the others (HIR) a hundredth, as a queue from which
//! victims are taken. The stack has the LIR blocks and all that were used since the oldest of these, in
//! the cache or not. A HIR block that is used while it is in the stack becomes LIR, and the LIR block at
//! the bottom of the stack HIR.
//!
//! The paper leaves open how many blocks the stack may remember: here they and the others in the stack
//! weigh at most twice the cache.
//!
//! Rules of libCacheSim for objects: a use of a HIR block outside the stack makes LIR blocks HIR until this
//! block would fit among them, although it stays HIR; and an object that is larger than the queue is not
//! admitted.

use super::entries::Entries;
use super::{Capacity, Item, Removal, Replacement, list::Lists};

/// The share of the cache for HIR blocks.
const HIR_SHARE: f64 = 0.01;
/// The weight of the stack, as a multiple of the cache.
const STACK: u64 = 2;

/// The only list in each of the lists here.
const ALL: usize = 0;

pub(super) struct Lirs {
    by_paper: bool,
    stack_max: u64,
    lir_max: u64,
    hir_max: u64,
    lir_weight: u64,
    /// The blocks; true if one is LIR.
    entries: Entries<bool>,
    /// The stack S; its top is the youngest.
    stack: Lists<1>,
    /// The HIR blocks in frames (Q); the oldest is the next victim.
    queue: Lists<1>,
    /// The blocks of the stack that are in no frame, the first that left the cache first.
    gone: Lists<1>,
    leaving: Vec<u32>,
}

impl Lirs {
    pub(super) fn new(capacity: Capacity) -> Lirs {
        let hir_max = capacity.share(HIR_SHARE).max(1);
        Lirs {
            by_paper: capacity.by_paper(),
            stack_max: STACK * capacity.units,
            lir_max: capacity.units.saturating_sub(hir_max),
            hir_max,
            lir_weight: 0,
            entries: Entries::default(),
            stack: Lists::default(),
            queue: Lists::default(),
            gone: Lists::default(),
            leaving: Vec::new(),
        }
    }

    fn is_in_stack(&self, number: u32) -> bool {
        self.stack.list_of(number).is_some()
    }

    /// Puts a block on top of the stack.
    fn stack_up(&mut self, number: u32) {
        self.stack.remove(number);
        self.stack.push(ALL, number, self.entries[number].item.weight);
    }

    /// Puts a HIR block at the end of the queue, if it can be evicted.
    fn queue_up(&mut self, number: u32) {
        self.queue.remove(number);
        if !self.entries[number].is_dirty {
            self.queue.push(ALL, number, self.entries[number].item.weight);
        }
    }

    /// Takes a block that is HIR out of the stack.
    fn unstack(&mut self, number: u32) {
        self.stack.remove(number);
        self.gone.remove(number);
        if self.entries[number].slot.is_none() {
            self.entries.forget(number);
        }
    }

    /// Stack pruning: the block at the bottom is LIR.
    fn prune(&mut self) {
        while let Some(bottom) = self.stack.oldest(ALL)
            && !self.entries[bottom].state
            && self.stack.youngest(ALL) != Some(bottom)
        {
            self.unstack(bottom);
        }
    }

    fn limit_stack(&mut self) {
        while self.stack.weight(ALL) > self.stack_max
            && let Some(oldest) = self.gone.oldest(ALL)
        {
            self.unstack(oldest);
        }
    }

    /// A block leaves its frame.
    fn evict(&mut self, number: u32) {
        self.queue.remove(number);
        if self.is_in_stack(number) {
            self.entries.bury(number);
            self.gone.push(ALL, number, self.entries[number].item.weight);
        } else {
            self.entries.forget(number);
        }
    }

    /// Evicts from the queue until a weight fits: for objects, which may need more than one.
    fn make_room_in_queue(&mut self, weight: u64) {
        while self.queue.weight(ALL) + weight > self.hir_max
            && let Some(number) = self.queue.oldest(ALL)
        {
            self.leaving.extend(self.entries[number].slot);
            self.evict(number);
        }
    }

    /// Makes LIR blocks HIR, from the bottom of the stack, until a weight fits among them.
    fn make_room_for_lir(&mut self, weight: u64) {
        while self.lir_weight + weight > self.lir_max
            && let Some(bottom) = self.stack.oldest(ALL)
            && self.entries[bottom].state
        {
            let own = self.entries.weight(bottom);
            self.lir_weight -= own;
            self.entries[bottom].state = false;
            self.stack.remove(bottom);
            if self.by_paper {
                self.queue_up(bottom);
            } else if own <= self.hir_max {
                self.make_room_in_queue(own);
                self.queue_up(bottom);
            } else {
                self.leaving.extend(self.entries[bottom].slot);
                self.entries.forget(bottom);
            }
            self.prune();
        }
    }

    /// A block becomes LIR, at the top of the stack, unless it alone is too large for that.
    fn make_lir(&mut self, number: u32) {
        self.stack_up(number);
        let weight = self.entries.weight(number);
        if weight > self.lir_max {
            self.queue_up(number);
            return;
        }
        self.queue.remove(number);
        self.make_room_for_lir(weight);
        self.entries[number].state = true;
        self.lir_weight += weight;
    }

    /// Any block in a frame that can be evicted, from the bottom of the stack. Those in use go to its top.
    fn any_lir(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        for _ in 0..self.stack.len(ALL) {
            let bottom = self.stack.oldest(ALL)?;
            let entry = &self.entries[bottom];
            if let Some(slot) = entry.slot.filter(|_| !entry.is_dirty)
                && usable(slot)
            {
                return Some(slot);
            }
            self.stack_up(bottom);
            self.prune();
        }
        None
    }

    /// Forgets a block altogether.
    fn remove(&mut self, number: u32) {
        if self.entries[number].state {
            self.lir_weight -= self.entries.weight(number);
            self.entries[number].state = false;
        }
        self.queue.remove(number);
        self.stack.remove(number);
        self.entries.forget(number);
        self.prune();
    }
}

impl Replacement for Lirs {
    fn resized(&mut self, capacity: Capacity) {
        self.hir_max = capacity.share(HIR_SHARE).max(1);
        self.lir_max = capacity.units.saturating_sub(self.hir_max);
        self.stack_max = STACK * capacity.units;
    }

    fn missed(&mut self, item: Item) -> bool {
        if self.by_paper {
            return true;
        }
        let weight = u64::from(item.weight);
        if let Some(ghost) = self.entries.ghost(item.key) {
            self.stack_up(ghost);
            self.make_room_for_lir(weight);
            self.gone.remove(ghost);
            return true;
        }
        if weight > self.hir_max || weight > self.lir_max {
            return false;
        }
        if self.lir_weight + weight > self.lir_max {
            self.make_room_in_queue(weight);
        }
        true
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        if let Some(ghost) = self.entries.ghost(item.key) {
            self.gone.remove(ghost);
            self.entries.revive(ghost, slot);
            self.make_lir(ghost);
        } else {
            let is_lir = self.lir_weight + u64::from(item.weight) <= self.lir_max;
            let number = self.entries.add(slot, item, is_lir);
            self.stack_up(number);
            if is_lir {
                self.lir_weight += u64::from(item.weight);
            } else {
                self.queue_up(number);
            }
        }
        self.limit_stack();
    }

    fn cleaned(&mut self, slot: u32, _: Item) {
        let Some(number) = self.entries.of_slot(slot) else { return };
        self.entries[number].is_dirty = false;
        if !self.entries[number].state {
            self.queue_up(number);
        }
    }

    fn touched(&mut self, slot: u32) {
        let Some(number) = self.entries.of_slot(slot) else { return };
        if self.entries[number].state {
            self.stack_up(number);
            self.prune();
        } else if self.is_in_stack(number) {
            self.make_lir(number);
        } else {
            self.queue_up(number);
            if !self.by_paper {
                self.make_room_for_lir(self.entries.weight(number));
            }
            self.stack_up(number);
        }
        self.limit_stack();
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        let Some(number) = self.entries.of_slot(slot) else { return };
        match why {
            Removal::Dirtied => {
                self.entries[number].is_dirty = true;
                self.queue.remove(number);
            }
            Removal::Evicted if !self.entries[number].state => self.evict(number),
            Removal::Evicted | Removal::Dropped => self.remove(number),
        }
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let entries = &self.entries;
        let mut can_go = |number: u32| entries[number].slot.is_some_and(&mut *usable);
        let found = self.queue.oldest_usable(ALL, &mut can_go);
        match found {
            Some(number) => self.entries[number].slot,
            None => self.any_lir(usable),
        }
    }

    fn leaving(&mut self) -> Option<u32> {
        self.leaving.pop()
    }
}
