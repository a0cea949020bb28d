//! A persistent B+-tree of extents: cloning the root makes a snapshot, and a write to one copy
//! copies only the path to the changed leaves.
//!
//! Invariants: extents are sorted and do not overlap; a node's keys are the exact starts of its
//! extents, or of the first extents below its children; no node but the root is empty.
//!
//! A node holds its keys separately from its entries: a search then touches a few cache lines of
//! keys and one entry. This search is most of the cost of a simulated request on a large device.

use std::sync::Arc;

use super::extent::Extent;

/// The maximum number of entries in a node.
const FULL: usize = 64;
/// Number of entries of each part when an overfull node is split: above half, because logs are
/// written in order. A leaf that overflowed at its end keeps all that fit.
const PART: usize = 48;
/// The step by which a leaf's room for extents grows.
const ROOM: usize = 16;

/// The keys of a node's entries. Unused places hold the largest number, which is never a key.
#[derive(Clone, Debug)]
struct Keys([u64; FULL]);

impl Keys {
    fn of(keys: impl Iterator<Item = u64>) -> Keys {
        let mut out = Keys([u64::MAX; FULL]);
        out.0.iter_mut().zip(keys).for_each(|(place, key)| *place = key);
        out
    }

    /// How many keys are at most `at`. Looks at the last key of each line of eight, then at the
    /// eight keys of one line: unlike those of a binary search, these loads do not wait for each
    /// other.
    fn up_to(&self, at: u64) -> usize {
        const LINE: usize = 8;
        let count = |keys: &[u64]| keys.iter().map(|&key| usize::from(key <= at)).sum::<usize>();
        let lines = (0..FULL / LINE).map(|i| self.0[i * LINE + LINE - 1]);
        let line = lines.map(|key| usize::from(key <= at)).sum::<usize>();
        // In a full node whose keys are all at most `at` there is no further line to search: the
        // last line is used, and counts whole.
        let first = line.min(FULL / LINE - 1) * LINE;
        first + count(&self.0[first..first + LINE])
    }

    /// Replaces places `from..to` of the `len` keys by `count` keys from `new`.
    fn splice(
        &mut self,
        len: usize,
        (from, to): (usize, usize),
        count: usize,
        new: impl Iterator<Item = u64>,
    ) {
        if from + count != to {
            self.0.copy_within(to..len, from + count);
            let end = len - (to - from) + count;
            self.0[end..len.max(end)].fill(u64::MAX);
        }
        self.0[from..from + count].iter_mut().zip(new).for_each(|(place, key)| *place = key);
    }
}

#[derive(Clone, Debug)]
pub(super) struct Leaf {
    keys: Keys,
    extents: Vec<Extent>,
}

#[derive(Clone, Debug)]
pub(super) struct Inner {
    keys: Keys,
    children: Vec<Arc<Node>>,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Leaf(Leaf),
    Inner(Inner),
}

/// The result of an attempt to replace a range within one leaf.
enum Replaced {
    /// Done; these nodes were split off to the right.
    Here(Vec<Arc<Node>>),
    /// The range reaches into the next leaf: nothing was done.
    Spreads,
}

impl Node {
    pub(super) fn empty() -> Arc<Node> {
        Node::leaf(Vec::new())
    }

    fn leaf(extents: Vec<Extent>) -> Arc<Node> {
        let keys = Keys::of(extents.iter().map(|e| e.start));
        Arc::new(Node::Leaf(Leaf { keys, extents }))
    }

    fn inner(children: Vec<Arc<Node>>) -> Arc<Node> {
        let keys = Keys::of(children.iter().map(|c| c.start()));
        Arc::new(Node::Inner(Inner { keys, children }))
    }

    fn start(&self) -> u64 {
        match self {
            Node::Leaf(leaf) => leaf.keys.0[0],
            Node::Inner(inner) => inner.keys.0[0],
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.extents.is_empty(),
            Node::Inner(inner) => inner.children.is_empty(),
        }
    }

    /// Calls `f` for every extent that has a byte in `from..to`, in order.
    pub(super) fn visit(&self, from: u64, to: u64, f: &mut impl FnMut(&Extent)) {
        match self {
            Node::Leaf(leaf) => {
                let first = leaf.first_behind(from);
                let end = leaf.keys.up_to(to - 1);
                leaf.extents[first..end.max(first)].iter().for_each(f);
            }
            Node::Inner(inner) => {
                let (first, end) = (inner.child_of(from), inner.keys.up_to(to - 1));
                for child in &inner.children[first..end.max(first)] {
                    child.visit(from, to, f);
                }
            }
        }
    }

    /// Calls `f` for every node with the bytes of memory that it uses.
    pub(super) fn visit_sizes(&self, f: &mut impl FnMut(usize)) {
        let counts = 2 * size_of::<usize>();
        match self {
            Node::Leaf(leaf) => {
                let extents = leaf.extents.capacity() * size_of::<Extent>();
                f(size_of::<Node>() + counts + extents);
            }
            Node::Inner(inner) => {
                f(size_of::<Node>() + counts + inner.children.capacity() * size_of::<usize>());
                inner.children.iter().for_each(|c| c.visit_sizes(f));
            }
        }
    }
}

impl Leaf {
    /// The first extent that ends after `at`.
    fn first_behind(&self, at: u64) -> usize {
        let next = self.keys.up_to(at);
        match next.checked_sub(1) {
            Some(i) if self.extents[i].end() > at => i,
            _ => next,
        }
    }

    /// Replaces `from..to`, cutting extents that reach out of the range and joining neighbours that
    /// continue each other. The leaf may become overfull; its keys are then still the old ones.
    /// Returns how many of its extents lie after the replaced range.
    fn splice(&mut self, from: u64, to: u64, new: &mut Vec<Extent>) -> usize {
        let low = self.first_behind(from);
        let Leaf { keys, extents } = self;
        let high = keys.up_to(to - 1).max(low);
        let right = extents[low..high].last().filter(|e| e.end() > to).map(|e| e.cut(to, e.end()));
        let mut keep = low;
        if low < high && extents[low].start < from {
            extents[low] = extents[low].cut(extents[low].start, from);
            keep = low + 1;
        }
        if keep > 0 && new.first().is_some_and(|first| extents[keep - 1].join(first)) {
            new.remove(0);
        }
        new.extend(right);
        let (len, count) = (extents.len(), new.len());
        if len - (high - keep) + count <= FULL {
            keys.splice(len, (keep, high), count, new.iter().map(|e| e.start));
        }
        if count == 1 && high == keep + 1 {
            // The common case of an overwritten block, without moving the others.
            extents[keep] = new.swap_remove(0);
        } else {
            let room = (len - (high - keep) + count).next_multiple_of(ROOM);
            extents.reserve_exact(room.saturating_sub(len));
            extents.splice(keep..high, new.drain(..));
            // What was dropped gives its room back.
            if extents.capacity() > room + ROOM {
                extents.shrink_to(room);
            }
        }
        len - high
    }

    /// Splits an overfull leaf: keeps the first part and returns the others. `behind` is the number
    /// of extents after the place where it grew.
    fn split(&mut self, behind: usize) -> Vec<Arc<Node>> {
        if self.extents.len() <= FULL {
            return Vec::new();
        }
        let first = if behind == 0 { FULL } else { PART };
        let parts = parts(&mut self.extents, first).into_iter().map(Node::leaf).collect();
        self.extents.shrink_to_fit();
        self.keys = Keys::of(self.extents.iter().map(|e| e.start));
        parts
    }
}

impl Inner {
    /// The child that would hold an extent with a byte at `at`.
    fn child_of(&self, at: u64) -> usize {
        self.keys.up_to(at).saturating_sub(1)
    }

    /// The start of the extents after child `i`.
    fn behind(&self, i: usize, next_start: u64) -> u64 {
        if i + 1 < self.children.len() { self.keys.0[i + 1] } else { next_start }
    }

    /// Child `i` has changed, and the nodes `split` were split off it. Returns the nodes that are
    /// split off this node.
    fn changed(&mut self, i: usize, split: Vec<Arc<Node>>) -> Vec<Arc<Node>> {
        if split.is_empty() && !self.children[i].is_empty() {
            self.keys.0[i] = self.children[i].start();
            return Vec::new();
        }
        if self.children[i].is_empty() {
            self.children.remove(i);
        } else {
            self.children.splice(i + 1..i + 1, split);
        }
        let parts = if self.children.len() > FULL {
            parts(&mut self.children, PART).into_iter().map(Node::inner).collect()
        } else {
            Vec::new()
        };
        self.keys = Keys::of(self.children.iter().map(|c| c.start()));
        parts
    }
}

/// Keeps the `first` of too many entries and returns the others, in parts.
fn parts<T>(entries: &mut Vec<T>, first: usize) -> Vec<Vec<T>> {
    let mut out = Vec::new();
    let mut rest = entries.split_off(first);
    while rest.len() > FULL {
        let tail = rest.split_off(PART);
        // `split_off` leaves the remainder with the capacity of the whole.
        rest.shrink_to_fit();
        out.push(std::mem::replace(&mut rest, tail));
    }
    out.push(rest);
    out
}

/// Replaces whatever lies in `from..to` (not empty) by `new`, which is sorted and lies inside it.
/// Leaves `new` empty.
pub(super) fn replace(root: &mut Arc<Node>, from: u64, to: u64, new: &mut Vec<Extent>) {
    let split = match replace_in_leaf(root, from, to, u64::MAX, new) {
        Replaced::Here(split) => split,
        Replaced::Spreads => {
            remove(root, from, to, u64::MAX);
            collapse(root);
            // The range is empty now, so it lies between two neighbours and fits one leaf.
            match replace_in_leaf(root, from, to, u64::MAX, new) {
                Replaced::Here(split) => split,
                Replaced::Spreads => unreachable!("an empty range lies in one leaf"),
            }
        }
    };
    if !split.is_empty() {
        let mut children = vec![Arc::clone(root)];
        children.extend(split);
        // A write of very many pieces splits a leaf into more than one node's worth.
        while children.len() > FULL {
            let mut nodes = vec![Vec::new()];
            for child in children {
                match nodes.last_mut() {
                    Some(last) if last.len() < PART => last.push(child),
                    _ => nodes.push(vec![child]),
                }
            }
            children = nodes.into_iter().map(Node::inner).collect();
        }
        *root = Node::inner(children);
    }
    collapse(root);
}

/// Removes levels that have a single child or none.
fn collapse(root: &mut Arc<Node>) {
    loop {
        let only = match &**root {
            Node::Inner(inner) if inner.children.is_empty() => Node::empty(),
            Node::Inner(inner) if inner.children.len() == 1 => Arc::clone(&inner.children[0]),
            _ => return,
        };
        *root = only;
    }
}

fn replace_in_leaf(
    node: &mut Arc<Node>,
    from: u64,
    to: u64,
    next_start: u64,
    new: &mut Vec<Extent>,
) -> Replaced {
    if to > next_start {
        return Replaced::Spreads;
    }
    match Arc::make_mut(node) {
        Node::Leaf(leaf) => {
            let behind = leaf.splice(from, to, new);
            Replaced::Here(leaf.split(behind))
        }
        Node::Inner(inner) => {
            let at = inner.child_of(from);
            let next_start = inner.behind(at, next_start);
            match replace_in_leaf(&mut inner.children[at], from, to, next_start, new) {
                Replaced::Here(split) => Replaced::Here(inner.changed(at, split)),
                Replaced::Spreads => Replaced::Spreads,
            }
        }
    }
}

/// Removes `from..to` from a subtree, with the entries that become empty.
fn remove(node: &mut Arc<Node>, from: u64, to: u64, next_start: u64) {
    match Arc::make_mut(node) {
        Node::Leaf(leaf) => {
            // The range extends beyond this leaf on at least one side, so no extent is cut in two
            // and the leaf cannot become overfull.
            leaf.splice(from, to, &mut Vec::new());
        }
        Node::Inner(inner) => {
            let first = inner.child_of(from);
            let end = inner.keys.up_to(to - 1).max(first);
            for i in first..end {
                let next = inner.behind(i, next_start);
                if inner.keys.0[i] >= from && next <= to {
                    inner.children[i] = Node::empty();
                } else {
                    remove(&mut inner.children[i], from, to, next);
                }
            }
            inner.children.retain(|c| !c.is_empty());
            inner.keys = Keys::of(inner.children.iter().map(|c| c.start()));
        }
    }
}
