//! Doubly linked lists of slot numbers that need no allocation for each element.

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    prev: u32,
    next: u32,
    listed: bool,
}

/// A list of slots, the oldest first. It contains a slot at most once.
pub(super) struct List {
    links: Vec<Link>,
    first: u32,
    last: u32,
    len: usize,
}

impl Default for List {
    fn default() -> Self {
        List { links: Vec::new(), first: NONE, last: NONE, len: 0 }
    }
}

impl List {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn contains(&self, slot: u32) -> bool {
        self.links.get(slot as usize).is_some_and(|l| l.listed)
    }

    /// Adds a slot as the youngest.
    pub(super) fn push(&mut self, slot: u32) {
        let i = slot as usize;
        if self.links.len() <= i {
            self.links.resize(i + 1, Link { prev: NONE, next: NONE, listed: false });
        }
        debug_assert!(!self.links[i].listed, "slot {slot} listed twice");
        self.links[i] = Link { prev: self.last, next: NONE, listed: true };
        match self.last {
            NONE => self.first = slot,
            last => self.links[last as usize].next = slot,
        }
        self.last = slot;
        self.len += 1;
    }

    /// Removes a slot; returns false if it was not in the list.
    pub(super) fn remove(&mut self, slot: u32) -> bool {
        if !self.contains(slot) {
            return false;
        }
        let Link { prev, next, .. } = self.links[slot as usize];
        match prev {
            NONE => self.first = next,
            prev => self.links[prev as usize].next = next,
        }
        match next {
            NONE => self.last = prev,
            next => self.links[next as usize].prev = prev,
        }
        self.links[slot as usize].listed = false;
        self.len -= 1;
        true
    }

    /// The oldest slot that is `usable`. The slots before it, which are in use, become the
    /// youngest; otherwise every search would look at a frame again that is held for long.
    pub(super) fn oldest_usable(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        for _ in 0..self.len {
            let slot = self.first;
            if usable(slot) {
                return Some(slot);
            }
            self.remove(slot);
            self.push(slot);
        }
        None
    }

    /// The slots from the oldest to the youngest.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.first;
        std::iter::from_fn(move || {
            let slot = at;
            (slot != NONE).then(|| {
                at = self.links[slot as usize].next;
                slot
            })
        })
    }
}
