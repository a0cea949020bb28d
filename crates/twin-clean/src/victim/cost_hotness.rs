//! Cost-hotness: like cost-benefit, but a segment is not cleaned while its blocks are hot.
//!
//! Min, Kim, Cho, Lee and Eom, "SFS: Random Write Considered Harmful in Solid State Drives", FAST
//! 2012, section 3.3: the largest (1-u) / (u * hotness), where hotness is the write counts of the
//! live blocks over their ages.

use super::{Candidates, VictimPolicy};
use crate::inputs::Needs;

pub(super) struct CostHotness;

impl VictimPolicy for CostHotness {
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        let now = candidates.view.now;
        candidates.best(|segment| {
            let u = segment.utilization();
            if u == 0.0 { f64::INFINITY } else { (1.0 - u) / (u * segment.hotness(now)) }
        })
    }

    fn needs(&self) -> Needs {
        Needs { heat: true, ..Needs::default() }
    }
}
