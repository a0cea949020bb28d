//! A persistent B+-tree of extents: cloning the root is a snapshot, and writing to one copy
//! copies only the path to what changes.
//!
//! Invariants: extents are sorted and do not overlap; every entry of an inner node carries the
//! exact start of the first extent below it; no node but the root is empty.

use std::sync::Arc;

use super::extent::Extent;

/// Most extents in a leaf and children in an inner node.
const FULL: usize = 48;
/// What a full node is divided into: above half, because logs are written in order.
const PART: usize = 36;

#[derive(Clone, Debug)]
pub(super) enum Node {
    Leaf(Vec<Extent>),
    Inner(Vec<Child>),
}

#[derive(Clone, Debug)]
pub(super) struct Child {
    start: u64,
    node: Arc<Node>,
}

/// What became of an attempt to replace a range within one leaf.
enum Replaced {
    /// Done; these nodes were split off to the right.
    Here(Vec<Child>),
    /// The range reaches into the next leaf: nothing was done.
    Spreads,
}

impl Node {
    pub(super) fn empty() -> Arc<Node> {
        Arc::new(Node::Leaf(Vec::new()))
    }

    fn start(&self) -> u64 {
        match self {
            Node::Leaf(extents) => extents.first().map_or(0, |e| e.start),
            Node::Inner(children) => children.first().map_or(0, |c| c.start),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Node::Leaf(extents) => extents.is_empty(),
            Node::Inner(children) => children.is_empty(),
        }
    }

    /// Calls `f` for every extent that has a byte in `from..to`, in order.
    pub(super) fn visit(&self, from: u64, to: u64, f: &mut impl FnMut(&Extent)) {
        match self {
            Node::Leaf(extents) => {
                let first = extents.partition_point(|e| e.end() <= from);
                extents[first..].iter().take_while(|e| e.start < to).for_each(f);
            }
            Node::Inner(children) => {
                let first = child_of(children, from);
                for child in children[first..].iter().take_while(|c| c.start < to) {
                    child.node.visit(from, to, f);
                }
            }
        }
    }

    /// Calls `f` for every node.
    pub(super) fn visit_nodes(&self, f: &mut impl FnMut(&Node)) {
        f(self);
        if let Node::Inner(children) = self {
            children.iter().for_each(|c| c.node.visit_nodes(f));
        }
    }
}

/// The child that an extent with a byte at `at` would be in.
fn child_of(children: &[Child], at: u64) -> usize {
    children.partition_point(|c| c.start <= at).saturating_sub(1)
}

/// Replaces whatever lies in `from..to` by `new`, which is sorted and lies inside it. Leaves
/// `new` empty.
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
        let mut children = vec![Child { start: root.start(), node: Arc::clone(root) }];
        children.extend(split);
        *root = Arc::new(Node::Inner(children));
    }
    collapse(root);
}

/// Takes away levels that have one child only, and children that have become empty.
fn collapse(root: &mut Arc<Node>) {
    loop {
        let only = match &**root {
            Node::Inner(children) if children.is_empty() => Node::empty(),
            Node::Inner(children) if children.len() == 1 => Arc::clone(&children[0].node),
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
        Node::Leaf(extents) => {
            splice(extents, from, to, new);
            Replaced::Here(parts(extents, |e| e.start, Node::Leaf))
        }
        Node::Inner(children) => {
            let at = child_of(children, from);
            let next_start = children.get(at + 1).map_or(next_start, |c| c.start);
            let split = match replace_in_leaf(&mut children[at].node, from, to, next_start, new) {
                Replaced::Here(split) => split,
                Replaced::Spreads => return Replaced::Spreads,
            };
            if children[at].node.is_empty() {
                children.remove(at);
            } else {
                children[at].start = children[at].node.start();
                if !split.is_empty() {
                    children.splice(at + 1..at + 1, split);
                }
            }
            Replaced::Here(parts(children, |c| c.start, Node::Inner))
        }
    }
}

/// Cuts a node's entries, if too many, into nodes; keeps the first part and gives the others.
fn parts<T>(
    entries: &mut Vec<T>,
    start: impl Fn(&T) -> u64,
    node: impl Fn(Vec<T>) -> Node,
) -> Vec<Child> {
    let mut out = Vec::new();
    if entries.len() > FULL {
        let mut rest = entries.split_off(PART);
        while rest.len() > FULL {
            let tail = rest.split_off(PART);
            out.push(Child { start: start(&rest[0]), node: Arc::new(node(rest)) });
            rest = tail;
        }
        out.push(Child { start: start(&rest[0]), node: Arc::new(node(rest)) });
    }
    out
}

/// Replaces `from..to` in a sorted list of extents, cutting those that reach out of the range
/// and joining neighbours that continue each other.
fn splice(extents: &mut Vec<Extent>, from: u64, to: u64, new: &mut Vec<Extent>) {
    let low = extents.partition_point(|e| e.end() <= from);
    let high = low + extents[low..].partition_point(|e| e.start < to);
    let right = extents[low..high].last().filter(|e| e.end() > to).map(|e| e.cut(to, e.end()));
    let mut keep = low;
    if low < high && extents[low].start < from {
        extents[low] = extents[low].cut(extents[low].start, from);
        keep = low + 1;
    }
    if keep > 0 && new.first().is_some_and(|first| extents[keep - 1].join(first)) {
        new.remove(0);
    }
    if let Some(right) = right {
        new.push(right);
    }
    if new.len() == 1 && high > keep {
        // One for one: the common case of an overwritten block, without moving the others.
        extents[keep] = new.swap_remove(0);
        extents.drain(keep + 1..high);
    } else {
        extents.splice(keep..high.max(keep), new.drain(..));
    }
}

/// Removes `from..to` from a subtree; entries of it that become empty go.
fn remove(node: &mut Arc<Node>, from: u64, to: u64, next_start: u64) {
    match Arc::make_mut(node) {
        Node::Leaf(extents) => splice(extents, from, to, &mut Vec::new()),
        Node::Inner(children) => {
            let first = child_of(children, from);
            let end = first + children[first..].partition_point(|c| c.start < to);
            for i in first..end {
                let next = children.get(i + 1).map_or(next_start, |c| c.start);
                if children[i].start >= from && next <= to {
                    children[i].node = Node::empty();
                } else {
                    remove(&mut children[i].node, from, to, next);
                    children[i].start = children[i].node.start();
                }
            }
            children.retain(|c| !c.node.is_empty());
        }
    }
}
