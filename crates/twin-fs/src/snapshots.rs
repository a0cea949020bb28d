//! Snapshots and branches: states of the volume that a layout keeps ([`SnapshotView`](crate::SnapshotView)).
//!
//! Contract: a *snapshot* is a state that stays as it was, a *branch* one that may become the *head*, which is the
//! state that operations change. Each has a name, and no two have the same. Making and deleting them takes effect at
//! one instant, also after a power failure.

use twin_rt::{BoxFuture, Time};

use crate::{Ino, Result};

pub use crate::below::{DOT_TWINFS, is_below, is_volatile, leads_below};

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
    /// A number that no other state of the volume has, nor will have; 0 for the head.
    pub id: u64,
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

/// What two states of a volume have in common, as far as their layout sees it without reading the content of files.
pub trait Shared {
    /// True if a number leads to the same inode in both, with the same attributes, content and number of names. False if
    /// that is not known.
    fn is_same_inode<'a>(&'a self, ino: Ino) -> BoxFuture<'a, Result<bool>>;

    /// True if a block of an inode that both have, which is a file there, is the same in both. False if that is not known.
    fn is_same_block<'a>(&'a self, ino: Ino, lbn: u64) -> BoxFuture<'a, Result<bool>>;

    /// Bytes of a block.
    fn block_size(&self) -> u64;
}
