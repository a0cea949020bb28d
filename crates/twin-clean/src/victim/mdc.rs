//! MDC, minimum declining cost: the segment whose cleaning cost falls least by waiting.
//!
//! Lomet and Luo, "Efficiently Reclaiming Space in a Log Structured Store", ICDE 2021. The fuller a
//! segment is, the more its cleaning costs per block gained; that cost falls with every update of
//! one of its blocks. The policy takes the segment with the least ((B-A)/A)^2 / (C * (now - up2)):
//! B is the size, A the free space, C the number of live blocks, up2 the time of the last update
//! but one, from which the frequency of updates is estimated. Each block has an up2: a user's write
//! sets it to the middle between its old up2 and now, a move keeps it; that of a segment is the
//! mean.

use super::{Candidates, VictimPolicy};
use crate::inputs::Needs;

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
