//! Flush policies: when dirty frames are written back.
//!
//! A policy looks at the amount and the age of dirty data and gives advice; write-back acts. A new
//! policy needs a file here and a line in [`REGISTRY`].

mod buffers;
mod delayed;
mod segment;

use twin_rt::{Nanos, Time};
use twin_settings::{Registry, RegistryEntry};

/// The input of a flush policy.
#[derive(Clone, Copy, Debug)]
pub struct FlushState {
    /// The number of dirty bytes.
    pub dirty_bytes: u64,
    /// Dirty bytes of data blocks, in whole frames.
    pub data_bytes: u64,
    /// Bytes of a frame of the cache.
    pub frame_bytes: u64,
    /// The time when the oldest of them became dirty; `None` if nothing is dirty.
    pub oldest: Option<Time>,
    /// The capacity of the cache, in bytes.
    pub capacity_bytes: u64,
    /// The number of bytes that the layout prefers to write at once: a segment or a cluster.
    pub unit_bytes: u64,
}

/// The advice of a flush policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushAdvice {
    /// Write back all dirty data.
    Flush,
    /// Ask the policy again at this time, or when the state changes.
    WaitUntil(Time),
    /// Ask the policy again when the state changes.
    Wait,
}

/// Decides when to write back.
pub trait FlushPolicy {
    /// The advice for this state.
    fn advise(&mut self, now: Time, state: FlushState) -> FlushAdvice;
    /// The number of dirty bytes from which on the policy advises a flush, whatever their age.
    fn start_bytes(&self, state: FlushState) -> u64;
}

/// A flush policy in the registry.
pub struct Kind {
    /// The default age limit: data of this age is written back.
    pub age_ns: Nanos,
    make: fn(Nanos) -> Box<dyn FlushPolicy>,
}

impl Kind {
    /// Makes the policy with this age limit; `None` means the default one.
    pub fn make(&self, age_ns: Option<Nanos>) -> Box<dyn FlushPolicy> {
        (self.make)(age_ns.unwrap_or(self.age_ns))
    }
}

/// All policies; the first is the default.
pub static REGISTRY: Registry<Kind> = Registry::new(
    "flush policy",
    &[
        RegistryEntry::new(
            "segment",
            "as soon as eight units of the layout (segments) are dirty, or data is 5 s old",
            Kind {
                age_ns: 5 * twin_rt::SECS,
                make: |age_ns| Box::new(segment::Segment { age_ns }),
            },
        ),
        RegistryEntry::new(
            "delayed",
            "as soon as data is 30 s old, or when a quarter of the cache is dirty (the UNIX update daemon)",
            Kind {
                age_ns: 30 * twin_rt::SECS,
                make: |age_ns| Box::new(delayed::Delayed { age_ns }),
            },
        ),
        RegistryEntry::new(
            "buffers",
            "as soon as data is 30 s old, or when a quarter of the buffers less ten are dirty, with a buffer for each 4 KB of the cache (4.4BSD-LFS)",
            Kind {
                age_ns: 30 * twin_rt::SECS,
                make: |age_ns| Box::new(buffers::Buffers { age_ns }),
            },
        ),
    ],
);
