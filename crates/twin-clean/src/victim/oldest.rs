//! Oldest first: the segment that was sealed first, as in a circular log.

use super::{Candidates, VictimPolicy};

pub(super) struct Oldest;

impl VictimPolicy for Oldest {
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        candidates.best(|segment| -(segment.sealed_at as f64))
    }
}
