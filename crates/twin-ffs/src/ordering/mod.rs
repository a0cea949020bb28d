//! Metadata ordering: the order in which changes reach the disk, and what that promises after a
//! crash.
//!
//! A policy says what an operation waits for before it replies, and when space that a file gave
//! up may be used again; `flush.rs` and `commit.rs` act. Adding one: a file here, a line in
//! [`REGISTRY`].

mod asynchronous;
mod journal;
mod synchronous;

use twin_settings::{Registry, RegistryEntry};

/// What a change needs before its operation replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: the change is written some time later.
    Nothing,
    /// The inodes, then the directories that got names, then those that lost some, each durable
    /// before the next.
    InOrder,
}

/// When the space of a freed block may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// As soon as it is free.
    AtOnce,
    /// When no pointer on the disk leads to it.
    AfterPointer,
    /// When the transaction that freed it is durable.
    AfterCommit,
}

/// A metadata ordering. See the module.
pub trait Ordering {
    /// What an operation that changed names waits for.
    fn names(&self) -> Wait;
    /// What a truncation waits for, and a write with new indirect blocks.
    fn maps(&self) -> Wait;
    /// When freed space may be reused.
    fn reuse(&self) -> Reuse;
    /// True if directories may be written in the background whenever they are dirty.
    fn writes_directories_behind(&self) -> bool;
}

/// What is known of a policy.
pub struct OrderingSpec {
    /// What is kept in a crash, for people.
    pub guarantee: &'static str,
    /// What a crash may take although it was synced, in words that complete "a crash may lose".
    pub risk: Option<&'static str>,
    /// How a volume writes, in words that complete "it".
    pub writes: &'static str,
    /// The number in the superblock.
    pub number: u32,
    journal: bool,
    make: fn() -> Box<dyn Ordering>,
}

impl OrderingSpec {
    /// True if metadata goes to a journal first.
    pub fn journals(&self) -> bool {
        self.journal
    }

    /// Makes the policy for a volume.
    pub fn build(&self) -> Box<dyn Ordering> {
        (self.make)()
    }
}

/// A policy in the registry.
pub type OrderingEntry = RegistryEntry<OrderingSpec>;

/// All policies.
pub static REGISTRY: Registry<OrderingSpec> = Registry::with_default(
    "ordering",
    "journal",
    &[
        RegistryEntry::new(
            "journal",
            "metadata goes to a journal first and is replayed at the next start",
            OrderingSpec {
                guarantee: "all that fsync or sync acknowledged; names and maps as they were at one \
                      instant no earlier",
                risk: None,
                writes: "writes blocks to their own places, and changes of metadata to a journal first",
                number: 1,
                journal: true,
                make: || Box::new(journal::Journal),
            },
        ),
        RegistryEntry::new(
            "sync",
            "inodes and directories are written in order while the client waits, as in \
                    4.4BSD",
            OrderingSpec {
                guarantee: "every name that an operation acknowledged, and the data that fsync \
                      acknowledged; the next start repairs the maps",
                risk: None,
                writes: "writes each change of a name to its own place at once, while the client waits",
                number: 2,
                journal: false,
                make: || Box::new(synchronous::Synchronous),
            },
        ),
        RegistryEntry::new(
            "async",
            "metadata is written whenever it suits (scenario d of the 1994 comparison)",
            OrderingSpec {
                guarantee: "what an undisturbed sync made durable and nothing has changed since; the \
                      next start repairs the rest and may lose names and files",
                risk: Some("names and files that were synced"),
                writes: "writes blocks to their own places",
                number: 3,
                journal: false,
                make: || Box::new(asynchronous::Asynchronous),
            },
        ),
    ],
);

/// The policy of a mount, which is that of the volume. During a `repair` that names files, it is
/// one that keeps the order, unless there is a journal: a power failure during the repair must not
/// lose names that survived the first one.
pub(crate) fn for_mount(number: u32, repair: bool) -> Option<&'static OrderingEntry> {
    let own = by_number(number)?;
    if own.journals() || !repair {
        return Some(own);
    }
    REGISTRY.iter().find(|e| !e.journals() && e.build().names() == Wait::InOrder)
}

/// The policy with this number in the superblock.
pub fn by_number(number: u32) -> Option<&'static OrderingEntry> {
    REGISTRY.iter().find(|e| e.number == number)
}
