//! The content that would survive a power failure, kept up to date while a disk runs.

use std::collections::VecDeque;

use twin_disk::Block;

use crate::Platter;
use crate::faults::UnstableWrite;

/// The durable content, and the completed writes that are not yet part of it.
pub(super) struct Durability {
    stable: Platter,
    write_cache: bool,
    /// Completed writes that no flush covers yet: number of the completion, address, blocks.
    unstable_writes: VecDeque<(u64, u64, Vec<Block>)>,
}

impl Durability {
    pub(super) fn new(start: Platter, write_cache: bool) -> Durability {
        Durability { stable: start, write_cache, unstable_writes: VecDeque::new() }
    }

    /// The completion with this number stored `blocks` at `at`.
    pub(super) fn written(&mut self, number: u64, at: u64, blocks: Vec<Block>) {
        if self.write_cache {
            self.unstable_writes.push_back((number, at, blocks));
        } else {
            self.stable.write(at, &blocks);
        }
    }

    /// A flush has completed that covers all completions before number `covered`; `now` is the
    /// current content of the disk.
    pub(super) fn flushed(&mut self, covered: u64, now: &Platter) {
        if self.unstable_writes.back().is_none_or(|(number, ..)| *number < covered) {
            // Everything is durable: a snapshot costs less than writing the blocks again.
            self.unstable_writes.clear();
            self.stable = now.clone();
            return;
        }
        while let Some((number, at, blocks)) = self.unstable_writes.front()
            && *number < covered
        {
            self.stable.write(*at, blocks);
            self.unstable_writes.pop_front();
        }
    }

    pub(super) fn stable(&self) -> &Platter {
        &self.stable
    }

    /// The durable content, for faults that damage the medium.
    pub(super) fn stable_mut(&mut self) -> &mut Platter {
        &mut self.stable
    }

    pub(super) fn unstable_writes(&self) -> impl Iterator<Item = UnstableWrite> + '_ {
        self.unstable_writes.iter().map(|(_, at, blocks)| unstable_write(*at, blocks, true))
    }
}

/// A completed write as an entry of a crash state.
pub(super) fn unstable_write(at: u64, blocks: &[Block], reported: bool) -> UnstableWrite {
    let len = blocks.iter().map(|b| b.len() as u64).sum();
    UnstableWrite { at, len, reported, blocks: blocks.into() }
}
