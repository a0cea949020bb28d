//! Clusters as McVoy and Kleiman read them ("Extent-like Performance from a UNIX File System",
//! USENIX 1991, section 4): a sequential reader, and the start of a file counts as sequential,
//! gets the whole run of blocks that follow each other on disk, and the next run is asked for
//! when the reader enters one.

use super::{ReadAdvice, ReadPolicy, ReadView};

/// Longer than any transfer: the run on disk is the limit.
const ALL: u64 = u64::MAX >> 1;

pub(super) struct Clusters;

impl ReadPolicy for Clusters {
    fn advise(&self, view: ReadView) -> ReadAdvice {
        let follows = |last| view.lbn == last || view.lbn == last + 1;
        let sequential = view.lbn == 0 || view.last.is_some_and(follows);
        if !sequential {
            return ReadAdvice { now: 1, memory: 0, ..ReadAdvice::default() };
        }
        if view.cached {
            // At the first block of the run that was asked for ahead, ask for the next one.
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
