//! What would survive a power failure: kept up to date while a disk runs.

use std::collections::VecDeque;

use twin_disk::Block;

use crate::Platter;
use crate::faults::Doubt;

/// The durable content, and the completed writes that are not yet part of it.
pub(super) struct Durability {
    stable: Platter,
    write_cache: bool,
    /// Completed writes not covered by a flush, with the number of their completion.
    doubts: VecDeque<(u64, u64, Vec<Block>)>,
}

impl Durability {
    pub(super) fn new(start: Platter, write_cache: bool) -> Durability {
        Durability { stable: start, write_cache, doubts: VecDeque::new() }
    }

    /// Completion number `number` stored these blocks at `at`.
    pub(super) fn written(&mut self, number: u64, at: u64, blocks: Vec<Block>) {
        if self.write_cache {
            self.doubts.push_back((number, at, blocks));
        } else {
            self.stable.write(at, &blocks);
        }
    }

    /// A flush has completed that covers all completions before number `covered`; `now` is the
    /// disk's content.
    pub(super) fn flushed(&mut self, covered: u64, now: &Platter) {
        if self.doubts.back().is_none_or(|(number, ..)| *number < covered) {
            // Everything is durable: a snapshot is cheaper than writing it all again.
            self.doubts.clear();
            self.stable = now.clone();
            return;
        }
        while let Some((number, at, blocks)) = self.doubts.front()
            && *number < covered
        {
            self.stable.write(*at, blocks);
            self.doubts.pop_front();
        }
    }

    pub(super) fn stable(&self) -> &Platter {
        &self.stable
    }

    /// For damage to the medium.
    pub(super) fn stable_mut(&mut self) -> &mut Platter {
        &mut self.stable
    }

    pub(super) fn doubts(&self) -> impl Iterator<Item = Doubt> + '_ {
        self.doubts.iter().map(|(_, at, blocks)| doubt(*at, blocks, true))
    }
}

/// A write as it stands in a crash state.
pub(super) fn doubt(at: u64, blocks: &[Block], reported: bool) -> Doubt {
    let len = blocks.iter().map(|b| b.len() as u64).sum();
    Doubt { at, len, reported, blocks: blocks.into() }
}
