//! The state after each request, to which a volume may return after a crash.

use std::cell::OnceCell;

use super::dump::node_diff;
use super::{Compare, Dump, DumpNode, ModelFs, diff};

/// The state of a history that matches a tree found after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// The tree is that of this state, the newest one that matches.
    At(usize),
    /// The tree matches no state.
    Nowhere {
        /// The nearest state, by the number of different paths.
        nearest: usize,
        /// The first difference to it, in words.
        difference: String,
    },
}

/// The states of a model over a run: state 0 before the first request, state n after the n-th.
/// Keeping one costs a map of shared inodes; trees are taken when first asked for.
#[derive(Debug)]
pub struct History {
    states: Vec<HistoryState>,
}

#[derive(Debug)]
struct HistoryState {
    model: ModelFs,
    dump: OnceCell<Dump>,
}

impl HistoryState {
    fn dump(&self) -> &Dump {
        self.dump.get_or_init(|| self.model.dump())
    }
}

impl History {
    /// A history that begins with this state.
    pub fn new(model: &ModelFs) -> History {
        let mut history = History { states: Vec::new() };
        history.push(model);
        history
    }

    /// Adds the state after one more request.
    pub fn push(&mut self, model: &ModelFs) {
        self.states.push(HistoryState { model: model.clone(), dump: OnceCell::new() });
    }

    /// The number of the newest state.
    pub fn newest(&self) -> usize {
        self.states.len() - 1
    }

    /// A state.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn state(&self, n: usize) -> &ModelFs {
        &self.states[n].model
    }

    /// The tree of a state.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn dump(&self, n: usize) -> &Dump {
        self.states[n].dump()
    }

    /// Finds the newest state, not older than `oldest`, whose tree is the one given: what a
    /// volume that keeps the order of operations must come back to, with `oldest` the state at
    /// the last acknowledged sync.
    pub fn find(&self, tree: &Dump, oldest: usize, compare: &Compare) -> Match {
        let names = ["model", "volume"];
        let mut nearest = (usize::MAX, oldest);
        for n in (oldest..self.states.len()).rev() {
            let dump = self.dump(n);
            if diff(dump, tree, names, compare).is_none() {
                return Match::At(n);
            }
            nearest = nearest.min((differences(dump, tree, compare), n));
        }
        let nearest = nearest.1;
        let difference = diff(self.dump(nearest), tree, names, compare).unwrap_or_default();
        Match::Nowhere { nearest, difference }
    }

    /// The newest state, not older than `oldest`, in which `path` led to this node, or to
    /// nothing: for volumes that keep the order of operations only within a file.
    pub fn find_node(
        &self,
        path: &[u8],
        node: Option<&DumpNode>,
        oldest: usize,
        compare: &Compare,
    ) -> Option<usize> {
        (oldest..self.states.len()).rev().find(|n| match (self.dump(*n).nodes.get(path), node) {
            (None, None) => true,
            (Some(a), Some(b)) => node_diff(a, b, ["model", "volume"], compare).is_none(),
            _ => false,
        })
    }
}

/// The number of paths whose nodes differ.
fn differences(a: &Dump, b: &Dump, compare: &Compare) -> usize {
    let in_a = a.nodes.iter().filter(|(path, node)| match b.nodes.get(*path) {
        Some(other) => node_diff(node, other, ["", ""], compare).is_some(),
        None => true,
    });
    in_a.count() + b.nodes.keys().filter(|path| !a.nodes.contains_key(*path)).count()
}
