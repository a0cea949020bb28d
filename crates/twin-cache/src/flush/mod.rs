//! Flush policies: when dirty frames are written back.
//!
//! A policy looks at how much is dirty and how old it is, and advises; write-back acts. Adding
//! one: a file here, a line in [`registry`].

mod delayed;
mod segment;

use twin_rt::{Nanos, Time};

/// What a flush policy may look at.
#[derive(Clone, Copy, Debug)]
pub struct FlushState {
    /// Bytes that wait to be written.
    pub dirty_bytes: u64,
    /// When the oldest of them became dirty; `None` if nothing is dirty.
    pub oldest: Option<Time>,
    /// Bytes that the cache may hold.
    pub capacity_bytes: u64,
    /// The unit that the layout likes to write: a segment, a cluster.
    pub unit_bytes: u64,
}

/// What a policy advises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushAdvice {
    /// Write back what became dirty at or before this instant.
    Flush(Time),
    /// Ask again at this instant, or when the state changes.
    WaitUntil(Time),
    /// Ask again when the state changes.
    Wait,
}

/// Decides when to write back.
pub trait FlushPolicy {
    /// The advice for this state.
    fn advise(&mut self, now: Time, state: FlushState) -> FlushAdvice;
    /// Dirty bytes at which it advises to flush, however young they are.
    fn start_bytes(&self, state: FlushState) -> u64;
}

/// A policy by name.
pub struct Entry {
    /// What settings call it.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// The age at which it flushes unless told otherwise.
    pub age_ns: Nanos,
    make: fn(Nanos) -> Box<dyn FlushPolicy>,
}

/// All policies; the first is the default.
pub fn registry() -> &'static [Entry] {
    &[
        Entry {
            name: "segment",
            about: "as soon as eight units of the layout (segments) are dirty, or data is 5 s old",
            age_ns: 5 * twin_rt::SECS,
            make: |age_ns| Box::new(segment::Segment { age_ns }),
        },
        Entry {
            name: "delayed",
            about: "what is 30 s old, or when a quarter of the cache is dirty (the UNIX update daemon)",
            age_ns: 30 * twin_rt::SECS,
            make: |age_ns| Box::new(delayed::Delayed { age_ns }),
        },
    ]
}

/// The policy called `name`, with its age limit (`None`: the policy's own).
pub fn by_name(name: &str, age_ns: Option<Nanos>) -> Option<Box<dyn FlushPolicy>> {
    let entry = registry().iter().find(|e| e.name == name)?;
    Some((entry.make)(age_ns.unwrap_or(entry.age_ns)))
}
