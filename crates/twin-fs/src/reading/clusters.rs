//! Clusters as McVoy and Kleiman read them ("Extent-like Performance from a UNIX File System",
//! USENIX 1991, section 4). For a sequential reader the whole run of blocks that are adjacent on
//! disk is read, and the next run is requested when the reader enters one. A read of the first
//! block of a file counts as sequential.

use super::{Nearby, ReadAdvice, ReadPolicy, ReadPolicyInput};

/// More blocks than any transfer has, so that only the run on disk limits the read.
const ALL: u64 = u64::MAX >> 1;

pub(super) struct Clusters;

impl ReadPolicy for Clusters {
    fn advise(&self, view: ReadPolicyInput, _: &dyn Nearby) -> ReadAdvice {
        let follows = |last| view.lbn == last || view.lbn == last + 1;
        let sequential = view.lbn == 0 || view.last.is_some_and(follows);
        if !sequential {
            return ReadAdvice { now: 1, memory: 0, ..ReadAdvice::default() };
        }
        if view.cached {
            // The reader enters the run that was requested ahead, so the next one is requested.
            let (ahead_from, enters) = (view.next_missing, view.lbn == view.memory);
            return match enters {
                true => ReadAdvice { now: 1, ahead_from, ahead: ALL, memory: ahead_from },
                false => ReadAdvice { now: 1, memory: view.memory, ..ReadAdvice::default() },
            };
        }
        let behind = view.lbn + view.run;
        ReadAdvice { now: view.run, ahead_from: behind, ahead: ALL, memory: behind }
    }
}
