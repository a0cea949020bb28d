//! Metadata ordering: what reaches the disk in which order, and what that promises of a crash.
//!
//! A policy says what an operation waits for before it replies, and when space that a file gave
//! up may be used again; `flush.rs` and `commit.rs` act. Adding one: a file here, a line in
//! [`registry`].

mod asynchronous;
mod journal;
mod synchronous;

/// What a change needs before its operation replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: it is written some time later.
    Nothing,
    /// The inodes, then the directories that got names, then those that lost some, each durable
    /// before the next.
    InOrder,
}

/// When the space of a freed block may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// At once.
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
    /// What a truncation waits for, and a write that got new indirect blocks.
    fn maps(&self) -> Wait;
    /// When freed space may be used again.
    fn reuse(&self) -> Reuse;
    /// Directories may be written in the background, whenever they are dirty.
    fn writes_directories_behind(&self) -> bool;
}

/// A policy by name.
pub struct Entry {
    /// What settings call it.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// What is kept in a crash, for people.
    pub promise: &'static str,
    /// How the superblock names it.
    pub number: u32,
    journal: bool,
    make: fn() -> Box<dyn Ordering>,
}

impl Entry {
    /// True if metadata goes to a journal first.
    pub fn journals(&self) -> bool {
        self.journal
    }

    /// The policy.
    pub fn build(&self) -> Box<dyn Ordering> {
        (self.make)()
    }
}

/// All policies; the first is the default.
pub fn registry() -> &'static [Entry] {
    &[
        Entry {
            name: "journal",
            about: "metadata goes to a journal first and is replayed at the next start",
            promise: "all that fsync or sync acknowledged; names and maps as they were at one \
                      instant no earlier",
            number: 1,
            journal: true,
            make: || Box::new(journal::Journal),
        },
        Entry {
            name: "sync",
            about: "inodes and directories are written in order while the client waits, as in \
                    4.4BSD",
            promise: "every name that an operation acknowledged, and the data that fsync \
                      acknowledged; the next start repairs the maps",
            number: 2,
            journal: false,
            make: || Box::new(synchronous::Synchronous),
        },
        Entry {
            name: "async",
            about: "metadata is written whenever it suits (scenario d of the 1994 comparison)",
            promise: "what an undisturbed sync made durable and nothing has changed since; the \
                      next start repairs the rest and may lose names and files",
            number: 3,
            journal: false,
            make: || Box::new(asynchronous::Asynchronous),
        },
    ]
}

/// The policy called `name`.
pub fn by_name(name: &str) -> Option<&'static Entry> {
    registry().iter().find(|e| e.name == name)
}

/// The policy that a mount follows: the volume's own. While a `repair` gives names to files it is one
/// that keeps the order, unless there is a journal: a power failure on the way must not cost names
/// that the first one had left.
pub(crate) fn for_mount(number: u32, repair: bool) -> Option<&'static Entry> {
    let own = by_number(number)?;
    if own.journals() || !repair {
        return Some(own);
    }
    registry().iter().find(|e| !e.journals() && e.build().names() == Wait::InOrder)
}

/// The policy that a superblock means by `number`.
pub fn by_number(number: u32) -> Option<&'static Entry> {
    registry().iter().find(|e| e.number == number)
}
