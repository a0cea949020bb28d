//! Snapshots and branches, for layouts that can keep states of the volume.
//!
//! Contract: a *snapshot* is a state that stays as it was, a *branch* one that may become the *head*, which is the
//! state that operations change. Each has a name, and no two have the same. Making and deleting them takes effect at
//! one instant, also after a power failure.

use std::rc::Rc;

use twin_rt::{BoxFuture, Time};

use crate::Result;
use crate::core::Core;

/// What a state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// What operations change.
    Head,
    /// A state that stays as it was.
    Snapshot,
    /// A state that may become the head.
    Branch,
}

/// A state of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: StateKind,
    /// When the state was that of the head; of the head, now.
    pub time: Time,
    /// Bytes of all its blocks, whether others need them too or not.
    pub live_bytes: u64,
}

/// The states of a volume and what they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct States {
    /// The head, then the others in the order in which they were made.
    pub states: Vec<State>,
    /// Bytes that nobody can have because snapshots and branches need what is beside them.
    pub held_bytes: u64,
}

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The present state, as a snapshot.
    Snapshot,
    /// The present state, as a branch.
    Branch,
    /// A state that is kept already, as a branch.
    BranchOf(String),
}

/// Which state becomes the head of a volume that is not mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadChange {
    /// The state of this name; it stays what it is, and the present head is given up.
    Rollback(String),
    /// This branch. The present head becomes a branch under its name.
    Switch(String),
}

/// How a path differs between two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Only the second state has it.
    Added,
    /// Only the first state has it.
    Removed,
    /// It is the same file, or of the same kind, with other content or attributes.
    Changed,
}

/// A path that differs between two states.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The path from the root, with a slash before each name.
    pub path: Vec<u8>,
    /// How it differs.
    pub change: Change,
}

/// A layout that keeps states.
pub trait SnapshotView {
    /// All states.
    fn states(&self, core: &Core) -> States;

    /// Keeps a state under a name.
    ///
    /// # Errors
    /// `Exists` if the name is taken, `NotFound` if there is no state to make a branch of, `NoSpace` if what would be
    /// held leaves too little room, `Invalid` for a name that cannot be one.
    fn keep<'a>(
        &'a self,
        core: &'a Rc<Core>,
        name: &'a str,
        what: Keep,
    ) -> BoxFuture<'a, Result<()>>;

    /// Deletes states. The space that only they used is free when it returns.
    ///
    /// # Errors
    /// `NotFound` if there is no such state, `Busy` if it is the head or is being read; then none is deleted.
    fn delete<'a>(&'a self, core: &'a Rc<Core>, names: &'a [String]) -> BoxFuture<'a, Result<()>>;
}
