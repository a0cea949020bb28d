//! Several policies in one cache: files that name a policy of their own have an instance of it beside the
//! volume's.
//!
//! Contract: every frame belongs to one part, that of its file, and only that part's policy hears of it. All
//! parts share the capacity. The part that gives a frame up is the one that holds most for the use that is
//! made of it, clean frames for each lookup of late, as among the members of a shared
//! [`Memory`](crate::Memory); where it has no frame that can go, the next one gives. So a part grows in
//! proportion to its use, up to what it needs, and which of its frames stay is up to its own policy. Lookups
//! count half as much after each [`HALF_LIFE`] lookups of all parts.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Capacity, Item, Removal, Replacement};

/// The number of lookups of all parts after which older ones count half.
const HALF_LIFE: u64 = 1 << 16;

/// The name of the part whose policy is the volume's. No policy has it: a file that names the volume's own
/// policy has an instance beside it.
const OF_VOLUME: &str = "";

/// Binary places of the frames for each lookup.
const FRACTION: u32 = 20;

/// A policy and the frames that it ranks.
struct Part {
    name: &'static str,
    policy: Box<dyn Replacement>,
    /// Number of frames that it ranks.
    frames: u64,
    /// Lookups, the older ones weighted less.
    used: u64,
}

/// Where a frame belongs.
#[derive(Clone, Copy, Default)]
struct Place {
    part: u8,
    is_ranked: bool,
    /// True if the part's policy has not heard of the frame: it came there while it was dirty.
    is_new: bool,
}

struct Inner {
    /// The first is the volume's.
    parts: Vec<Part>,
    places: Vec<Place>,
    looked: u64,
    /// The part of the file whose frame is inserted.
    next: u8,
}

/// See the module. Clones are the same.
#[derive(Clone)]
pub(crate) struct Divided(Rc<RefCell<Inner>>);

impl Inner {
    fn looked(&mut self, part: u8) {
        self.parts[usize::from(part)].used += 1;
        self.looked += 1;
        if self.looked >= HALF_LIFE {
            self.looked = 0;
            self.parts.iter_mut().for_each(|part| part.used /= 2);
        }
    }

    fn place(&mut self, slot: u32) -> &mut Place {
        let at = slot as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, Place::default());
        }
        &mut self.places[at]
    }

    /// A frame is ranked by its part from now on.
    fn ranked(&mut self, slot: u32) -> &mut dyn Replacement {
        let place = self.place(slot);
        let was_ranked = std::mem::replace(&mut place.is_ranked, true);
        let part = usize::from(place.part);
        let part = &mut self.parts[part];
        part.frames += u64::from(!was_ranked);
        &mut *part.policy
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        let place = self.place(slot);
        let was_ranked = std::mem::replace(&mut place.is_ranked, false);
        let is_known = !std::mem::take(&mut place.is_new);
        let part = usize::from(place.part);
        let part = &mut self.parts[part];
        part.frames -= u64::from(was_ranked);
        if is_known {
            part.policy.removed(slot, why);
        }
    }
}

impl Divided {
    /// Puts the policy of a cache, which ranks the frames in these slots, into its first part, and itself in
    /// its place.
    pub(crate) fn over(
        policy: &mut Box<dyn Replacement>,
        ranked: impl Iterator<Item = u32>,
    ) -> Divided {
        let inner = Inner { parts: Vec::new(), places: Vec::new(), looked: 0, next: 0 };
        let divided = Divided(Rc::new(RefCell::new(inner)));
        let whole = std::mem::replace(policy, Box::new(divided.clone()));
        let mut inner = divided.0.borrow_mut();
        let part = Part { name: OF_VOLUME, policy: whole, frames: 0, used: 0 };
        inner.parts.push(part);
        for slot in ranked {
            inner.place(slot).is_ranked = true;
            inner.parts[0].frames += 1;
        }
        drop(inner);
        divided
    }

    /// The number of the part with the policy of this name, which `make` makes if there is none.
    pub(crate) fn part(
        &self,
        name: &'static str,
        make: impl FnOnce() -> Box<dyn Replacement>,
    ) -> u8 {
        let mut inner = self.0.borrow_mut();
        let found = inner.parts.iter().position(|part| part.name == name);
        let at = found.unwrap_or_else(|| {
            inner.parts.push(Part { name, policy: make(), frames: 0, used: 0 });
            inner.parts.len() - 1
        });
        at as u8
    }

    /// The next frame that is missed and inserted is of a file of this part.
    pub(crate) fn next_is_of(&self, part: u8) {
        self.0.borrow_mut().next = part;
    }

    /// Moves a frame to another part.
    pub(crate) fn moves(&self, slot: u32, item: Item, to: u8) {
        let mut inner = self.0.borrow_mut();
        let Place { part, is_ranked, .. } = *inner.place(slot);
        if part == to {
            return;
        }
        inner.removed(slot, Removal::Dropped);
        *inner.place(slot) = Place { part: to, is_ranked: false, is_new: !is_ranked };
        if is_ranked {
            inner.ranked(slot).inserted(slot, item);
        }
    }

    /// The number of clean frames of each part, the volume's first.
    #[cfg(test)]
    pub(crate) fn frames(&self) -> Vec<u64> {
        self.0.borrow().parts.iter().map(|part| part.frames).collect()
    }
}

impl Replacement for Divided {
    fn missed(&mut self, item: Item) -> bool {
        let mut inner = self.0.borrow_mut();
        let part = inner.next;
        inner.looked(part);
        inner.parts[usize::from(part)].policy.missed(item)
    }

    fn inserted(&mut self, slot: u32, item: Item) {
        let mut inner = self.0.borrow_mut();
        let part = inner.next;
        *inner.place(slot) = Place { part, ..Place::default() };
        inner.ranked(slot).inserted(slot, item);
    }

    fn cleaned(&mut self, slot: u32, item: Item) {
        let mut inner = self.0.borrow_mut();
        match std::mem::take(&mut inner.place(slot).is_new) {
            true => inner.ranked(slot).inserted(slot, item),
            false => inner.ranked(slot).cleaned(slot, item),
        }
    }

    fn touched(&mut self, slot: u32) {
        let mut inner = self.0.borrow_mut();
        let part = inner.place(slot).part;
        inner.looked(part);
        inner.parts[usize::from(part)].policy.touched(slot);
    }

    fn removed(&mut self, slot: u32, why: Removal) {
        self.0.borrow_mut().removed(slot, why);
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let mut inner = self.0.borrow_mut();
        let mut order: Vec<(u64, usize)> = inner
            .parts
            .iter()
            .enumerate()
            .filter(|(_, part)| part.frames > 0)
            .map(|(at, part)| ((part.frames << FRACTION) / (part.used + 1), at))
            .collect();
        // Of equals the one with more frames.
        order.sort_by_key(|&(weight, at)| std::cmp::Reverse((weight, inner.parts[at].frames, at)));
        order.into_iter().find_map(|(_, at)| inner.parts[at].policy.victim(usable))
    }

    fn resized(&mut self, capacity: Capacity) {
        self.0.borrow_mut().parts.iter_mut().for_each(|part| part.policy.resized(capacity));
    }
}
