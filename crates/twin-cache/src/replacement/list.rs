//! Doubly linked lists of slot numbers that need no allocation for each element.
//!
//! A [`Pool`] has the links of all slots; a list is its two [`Ends`]. [`Lists`] are a fixed number of
//! lists in one pool, with the weight of each, and [`List`] is a single one. A slot is in at most one
//! list of a pool. Each list has its oldest slot at one end and its youngest at the other.

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    older: u32,
    younger: u32,
    weight: u32,
    /// The list that the slot is in, or was in last.
    list: u8,
    listed: bool,
}

const UNLISTED: Node = Node { older: NONE, younger: NONE, weight: 0, list: 0, listed: false };

/// The two ends of a list.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    oldest: u32,
    youngest: u32,
}

impl Default for Ends {
    fn default() -> Ends {
        Ends { oldest: NONE, youngest: NONE }
    }
}

impl Ends {
    pub(super) fn is_empty(self) -> bool {
        self.oldest == NONE
    }

    pub(super) fn oldest(self) -> Option<u32> {
        some(self.oldest)
    }
}

fn some(slot: u32) -> Option<u32> {
    (slot != NONE).then_some(slot)
}

/// The links of lists whose ends are elsewhere.
#[derive(Default)]
pub(super) struct Pool {
    nodes: Vec<Node>,
}

impl Pool {
    /// True if the slot is in a list.
    pub(super) fn contains(&self, slot: u32) -> bool {
        self.nodes.get(slot as usize).is_some_and(|node| node.listed)
    }

    /// The next younger slot of the list.
    pub(super) fn younger(&self, slot: u32) -> Option<u32> {
        some(self.nodes[slot as usize].younger)
    }

    /// The next older slot of the list.
    pub(super) fn older(&self, slot: u32) -> Option<u32> {
        some(self.nodes[slot as usize].older)
    }

    /// Adds a slot that is in no list as the youngest.
    pub(super) fn push(&mut self, ends: &mut Ends, slot: u32) {
        let i = slot as usize;
        if self.nodes.len() <= i {
            self.nodes.resize(i + 1, UNLISTED);
        }
        debug_assert!(!self.nodes[i].listed, "slot {slot} listed twice");
        let node = &mut self.nodes[i];
        (node.older, node.younger, node.listed) = (ends.youngest, NONE, true);
        match ends.youngest {
            NONE => ends.oldest = slot,
            last => self.nodes[last as usize].younger = slot,
        }
        ends.youngest = slot;
    }

    /// Removes a slot that is in this list.
    pub(super) fn remove(&mut self, ends: &mut Ends, slot: u32) {
        let Node { older, younger, .. } = self.nodes[slot as usize];
        match older {
            NONE => ends.oldest = younger,
            older => self.nodes[older as usize].younger = younger,
        }
        match younger {
            NONE => ends.youngest = older,
            younger => self.nodes[younger as usize].older = older,
        }
        self.nodes[slot as usize].listed = false;
    }

    /// Makes a slot of this list its youngest.
    pub(super) fn renew(&mut self, ends: &mut Ends, slot: u32) {
        if ends.youngest != slot {
            self.remove(ends, slot);
            self.push(ends, slot);
        }
    }

    /// The oldest slot of a list that is `usable`. The slots before it, which are in use, become the
    /// youngest; otherwise every search would look at a frame again that is held for long.
    pub(super) fn oldest_usable(
        &mut self,
        ends: &mut Ends,
        usable: &mut dyn FnMut(u32) -> bool,
    ) -> Option<u32> {
        let last = ends.youngest;
        loop {
            let slot = some(ends.oldest)?;
            if usable(slot) {
                return Some(slot);
            }
            self.renew(ends, slot);
            if slot == last {
                return None;
            }
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Measure {
    len: usize,
    weight: u64,
}

/// `N` lists; a slot is in at most one of them, with a weight.
pub(super) struct Lists<const N: usize> {
    pool: Pool,
    ends: [Ends; N],
    measures: [Measure; N],
}

impl<const N: usize> Default for Lists<N> {
    fn default() -> Self {
        Lists {
            pool: Pool::default(),
            ends: [Ends::default(); N],
            measures: [Measure::default(); N],
        }
    }
}

impl<const N: usize> Lists<N> {
    /// The number of slots in a list.
    pub(super) fn len(&self, list: usize) -> usize {
        self.measures[list].len
    }

    pub(super) fn is_empty(&self, list: usize) -> bool {
        self.ends[list].is_empty()
    }

    /// The weight of all slots in a list.
    pub(super) fn weight(&self, list: usize) -> u64 {
        self.measures[list].weight
    }

    /// The weight of a slot that is or was in a list.
    pub(super) fn weight_of(&self, slot: u32) -> u32 {
        self.pool.nodes[slot as usize].weight
    }

    /// The list that a slot is in.
    pub(super) fn list_of(&self, slot: u32) -> Option<usize> {
        self.pool.contains(slot).then(|| self.last_list(slot))
    }

    /// The list that a slot is in, or was in last.
    pub(super) fn last_list(&self, slot: u32) -> usize {
        self.pool.nodes.get(slot as usize).map_or(0, |node| usize::from(node.list))
    }

    pub(super) fn oldest(&self, list: usize) -> Option<u32> {
        self.ends[list].oldest()
    }

    pub(super) fn youngest(&self, list: usize) -> Option<u32> {
        some(self.ends[list].youngest)
    }

    pub(super) fn younger(&self, slot: u32) -> Option<u32> {
        self.pool.younger(slot)
    }

    /// Adds a slot as the youngest of a list.
    pub(super) fn push(&mut self, list: usize, slot: u32, weight: u32) {
        self.pool.push(&mut self.ends[list], slot);
        let node = &mut self.pool.nodes[slot as usize];
        (node.weight, node.list) = (weight, list as u8);
        self.measures[list].len += 1;
        self.measures[list].weight += u64::from(weight);
    }

    /// Removes a slot and returns the list that it was in.
    pub(super) fn remove(&mut self, slot: u32) -> Option<usize> {
        let list = self.list_of(slot)?;
        self.pool.remove(&mut self.ends[list], slot);
        self.measures[list].len -= 1;
        self.measures[list].weight -= u64::from(self.weight_of(slot));
        Some(list)
    }

    /// Makes a slot the youngest of a list, which need not be the one that it is in.
    pub(super) fn move_to(&mut self, list: usize, slot: u32) {
        if self.list_of(slot) == Some(list) {
            self.pool.renew(&mut self.ends[list], slot);
        } else if self.remove(slot).is_some() {
            self.push(list, slot, self.weight_of(slot));
        }
    }

    /// As [`Pool::oldest_usable`].
    pub(super) fn oldest_usable(
        &mut self,
        list: usize,
        usable: &mut dyn FnMut(u32) -> bool,
    ) -> Option<u32> {
        self.pool.oldest_usable(&mut self.ends[list], usable)
    }

    /// The slots of a list from the oldest to the youngest.
    pub(super) fn iter(&self, list: usize) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.oldest(list), |slot| self.younger(*slot))
    }
}

/// A list of slots. It contains a slot at most once.
#[derive(Default)]
pub(super) struct List {
    pool: Pool,
    ends: Ends,
    len: usize,
}

impl List {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn oldest(&self) -> Option<u32> {
        self.ends.oldest()
    }

    pub(super) fn younger(&self, slot: u32) -> Option<u32> {
        self.pool.younger(slot)
    }

    /// Adds a slot as the youngest.
    pub(super) fn push(&mut self, slot: u32) {
        self.pool.push(&mut self.ends, slot);
        self.len += 1;
    }

    /// Removes a slot; returns false if it was not in the list.
    pub(super) fn remove(&mut self, slot: u32) -> bool {
        let listed = self.pool.contains(slot);
        if listed {
            self.pool.remove(&mut self.ends, slot);
            self.len -= 1;
        }
        listed
    }

    /// Makes a slot the youngest if it is in the list.
    pub(super) fn renew(&mut self, slot: u32) {
        if self.pool.contains(slot) {
            self.pool.renew(&mut self.ends, slot);
        }
    }

    /// As [`Pool::oldest_usable`].
    pub(super) fn oldest_usable(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        self.pool.oldest_usable(&mut self.ends, usable)
    }

    /// The youngest slot that is `usable`; the order does not change.
    pub(super) fn youngest_usable(&self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let mut slots = std::iter::successors(some(self.ends.youngest), |s| self.pool.older(*s));
        slots.find(|slot| usable(*slot))
    }
}
