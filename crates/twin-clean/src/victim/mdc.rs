//! MDC, minimum declining cost: the segment whose cost of cleaning falls least by waiting.
//!
//! Lomet and Luo, "Efficiently Reclaiming Space in a Log Structured Store", ICDE 2021. Cleaning
//! a segment costs per block gained the more the fuller it is; that cost falls with every update
//! of one of its blocks. The policy takes the least ((B-A)/A)^2 / (C * (now - up2)): B the size,
//! A the free space, C the live blocks, up2 the time of the last update but one, from which the
//! frequency of updates is guessed. A block carries up2 with it: written by a user it gets the
//! middle between its old up2 and now, moved it keeps it; a segment's is the mean.

use super::{Candidates, VictimPolicy};
use crate::facts::Needs;

pub(super) struct Mdc;

impl VictimPolicy for Mdc {
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        let now = candidates.view.now as f64;
        candidates.best(|segment| {
            let u = segment.utilization();
            let since = (now - segment.penultimate_at()).max(1.0);
            -(u / (1.0 - u)).powi(2) / (f64::from(segment.live_blocks).max(1.0) * since)
        })
    }

    fn needs(&self) -> Needs {
        Needs { updates: true, ..Needs::default() }
    }
}
