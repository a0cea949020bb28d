//! Greedy: the segment with the most garbage, that is the fewest blocks to move now.
//!
//! Optimal where all blocks are equally likely to be overwritten (Yang, Misra and Rubenstein,
//! 2015). Named in Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured
//! File System", SOSP 1991, section 3.5.

use super::{Candidates, VictimPolicy};

pub(super) struct Greedy;

impl VictimPolicy for Greedy {
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        candidates.best(|segment| -segment.utilization())
    }
}
