//! Places in runs of free blocks, for the policies of [`crate::allocation`] that ask for a run.
//!
//! Contract: as for [`Space`]. A file's next block goes behind its last one if that place is free.
//! Otherwise a run is looked for: in the group of the last block or of the inode, then as `search`
//! leads, in each group the shortest run that is long enough. If there is none, the longest run of
//! all is begun. Runs end at the ends of groups, which begin with their own structures.

use crate::allocation::{Fit, Gather, Tail};
use crate::format::Superblock;
use crate::group::Group;
use crate::preference::PlacementRequest;
use crate::search::search;

use super::Space;

impl Space {
    /// The length of the run that the policy looks for, in blocks; `None` if it takes what comes
    /// first.
    pub(super) fn run_for(&self, wanted: &PlacementRequest) -> Option<u64> {
        let run = self.allocation.run(wanted.lbn, wanted.rest)?;
        Some(if wanted.is_map { 1 } else { run.max(1) })
    }

    /// See [`crate::allocation::Allocation::gather`].
    pub(crate) fn gather(&self) -> Gather {
        self.allocation.gather()
    }

    /// Takes a block or a piece of one: behind the block before it, or at the beginning of a run of
    /// `run` free blocks.
    pub(super) fn take_of_run(
        &mut self,
        sb: &Superblock,
        wanted: &PlacementRequest,
        run: u64,
        frags: u32,
    ) -> Option<u64> {
        let is_whole = frags == self.per_block;
        let behind = self.behind(sb, wanted);
        if is_whole || self.allocation.tail() == Tail::Behind {
            let free = behind.filter(|_| !wanted.is_map);
            let free = free.filter(|&(g, at)| self.groups[g as usize].is_free(at, frags));
            if let Some((group, at)) = free {
                self.stats.preferred += 1;
                return Some(self.occupy(sb, group, at, frags));
            }
        }
        let home = behind.map_or(wanted.home, |(group, _)| group);
        if !is_whole {
            return self.take_piece(sb, home, frags);
        }
        let avoid = behind.filter(|_| wanted.is_map);
        let (group, block) = self.find_run(sb, home, run, avoid)?;
        let stats = &mut self.stats;
        *(if group == home { &mut stats.same_group } else { &mut stats.quadratic }) += 1;
        Some(self.occupy(sb, group, block * self.per_block, frags))
    }

    /// Takes adjacent fragments, as many as asked for, from the beginning of a block on: behind the
    /// block before them, or in a run.
    pub(super) fn take_run(
        &mut self,
        sb: &Superblock,
        wanted: &PlacementRequest,
        frags: u32,
    ) -> Option<u64> {
        let behind = self.behind(sb, wanted);
        let free = behind.filter(|&(g, at)| self.groups[g as usize].is_free(at, frags));
        let found = free.or_else(|| {
            let home = behind.map_or(wanted.home, |(group, _)| group);
            let blocks = frags.div_ceil(self.per_block);
            let found = search(self.groups.len() as u32, home, |g, _| {
                self.run_in(&self.groups[g as usize], blocks, None).map(|at| (g, at))
            });
            found.map(|((group, block), _)| (group, block * self.per_block))
        });
        let (group, at) = found?;
        self.stats.gathered += 1;
        Some(self.occupy(sb, group, at, frags))
    }

    /// The place behind the data block before the wanted one, if both are in one group.
    fn behind(&self, sb: &Superblock, wanted: &PlacementRequest) -> Option<(u32, u32)> {
        let (group, at) = sb.locate(wanted.prior).filter(|_| wanted.prior > 0)?;
        Some((group, at + self.per_block))
    }

    /// The run in a group that the policy takes: its first block.
    fn run_in(&self, group: &Group, blocks: u32, avoid: Option<u32>) -> Option<u32> {
        match self.allocation.fit() {
            Fit::Shortest => group.shortest_run(blocks, avoid).map(|(block, _)| block),
            Fit::Next => group.next_run(blocks, avoid),
        }
    }

    fn occupy(&mut self, sb: &Superblock, group: u32, at: u32, frags: u32) -> u64 {
        let group_at = &mut self.groups[group as usize];
        group_at.mark_used(at, frags);
        if self.allocation.fit() == Fit::Next && frags >= self.per_block {
            group_at.rotor = (at + frags - 1) / self.per_block;
        }
        self.maps_dirty = true;
        sb.group_start(group) + u64::from(at)
    }

    /// Takes a piece of a block: of one that is broken already, or of the shortest run.
    fn take_piece(&mut self, sb: &Superblock, home: u32, frags: u32) -> Option<u64> {
        let (groups, per_block) = (&mut self.groups, self.per_block);
        let found = search(groups.len() as u32, home, |g, _| {
            let group = &mut groups[g as usize];
            if let Some(at) = group.alloc_loose(None, frags) {
                return Some((g, at));
            }
            let at = group.shortest_run(1, None)?.0 * per_block;
            group.mark_used(at, frags);
            Some((g, at))
        });
        let ((group, at), _) = found?;
        self.stats.same_group += 1;
        self.maps_dirty = true;
        Some(sb.group_start(group) + u64::from(at))
    }

    /// A run of `blocks` free blocks, or the longest that there is: its group and its first block.
    fn find_run(
        &self,
        sb: &Superblock,
        home: u32,
        blocks: u64,
        avoid: Option<(u32, u32)>,
    ) -> Option<(u32, u32)> {
        let most = (sb.group_frags - sb.group_data_start()) / self.per_block;
        let blocks = blocks.min(most.into()) as u32;
        let found = search(self.groups.len() as u32, home, |g, _| {
            let avoid = avoid.filter(|&(group, _)| group == g).map(|(_, at)| at / self.per_block);
            self.run_in(&self.groups[g as usize], blocks, avoid).map(|block| (g, block))
        });
        if let Some((found, _)) = found {
            return Some(found);
        }
        let mut best = None;
        let mut most = 0;
        for group in &self.groups {
            if let Some((block, len)) = group.longer_run(most) {
                (best, most) = (Some((group.index, block)), len);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Group;
    use crate::ordering::Reuse;

    fn sample(policy: &str) -> (Superblock, Space) {
        let sb = crate::MkfsOptions::classic([7; 16]).superblock(64 << 20, 512).unwrap();
        let groups = (0..sb.groups).map(|g| Group::empty(&sb, g)).collect();
        let policy = crate::allocation::REGISTRY.get(policy).unwrap().make();
        let space = Space::new(&sb, groups, policy, Reuse::AtOnce);
        (sb, space)
    }

    /// Group 1 with these blocks of its data free, and no others in any group.
    fn only_free(sb: &Superblock, space: &mut Space, free: &[std::ops::Range<u32>]) {
        let data = sb.group_data_start();
        for group in &mut space.groups {
            group.mark_used(data, group.frags() - data);
        }
        for range in free {
            let at = data + range.start * 8;
            space.groups[1].mark_free(at, (range.end - range.start) * 8);
        }
    }

    fn block(sb: &Superblock, addr: Option<u64>) -> Option<(u32, u32)> {
        let (group, at) = sb.locate(addr?)?;
        Some((group, (at - sb.group_data_start()) / 8))
    }

    fn wanted(home: u32, lbn: u64, prior: u64, rest: u64) -> PlacementRequest {
        PlacementRequest { prior, rest, ..PlacementRequest::sample(home, lbn) }
    }

    #[test]
    fn a_file_gets_the_shortest_run_that_takes_it_and_goes_on_in_it() {
        let (sb, mut space) = sample("cluster");
        only_free(&sb, &mut space, &[2..4, 10..30, 40..45]);
        let mut prior = 0;
        for lbn in 0..4 {
            let addr = space.take(&sb, &wanted(0, lbn, prior, 4 - lbn), 8);
            assert_eq!(block(&sb, addr), Some((1, 40 + lbn as u32)), "block {lbn}");
            prior = addr.unwrap();
        }
        // What is left of that run is the best place for one block.
        assert_eq!(block(&sb, space.take(&sb, &wanted(0, 0, 0, 1), 8)), Some((1, 44)));
        // No run is long enough: the longest is begun.
        assert_eq!(block(&sb, space.take(&sb, &wanted(0, 0, 0, 50), 8)), Some((1, 10)));
    }

    #[test]
    fn an_indirect_block_leaves_the_place_behind_the_data_free() {
        let (sb, mut space) = sample("cluster");
        only_free(&sb, &mut space, std::slice::from_ref(&(10..13)));
        let first = space.take(&sb, &wanted(1, 11, 0, 2), 8).unwrap();
        let map = PlacementRequest { is_map: true, indirect: true, ..wanted(1, 12, first, 1) };
        assert_eq!(block(&sb, space.take(&sb, &map, 8)), Some((1, 12)));
        assert_eq!(block(&sb, space.take(&sb, &wanted(1, 12, first, 1), 8)), Some((1, 11)));
    }

    #[test]
    fn fragments_go_behind_their_block_if_the_policy_says_so() {
        for (policy, expected) in [("cluster", 2), ("tail-behind", 41)] {
            let (sb, mut space) = sample(policy);
            only_free(&sb, &mut space, &[2..3, 40..45]);
            let first = space.take(&sb, &wanted(1, 0, 0, 2), 8).unwrap();
            assert_eq!(block(&sb, Some(first)), Some((1, 40)));
            let tail = space.take(&sb, &wanted(1, 1, first, 1), 3);
            assert_eq!(block(&sb, tail), Some((1, expected)), "{policy}");
        }
    }

    #[test]
    fn the_next_run_lies_behind_the_last_one() {
        let (sb, mut space) = sample("next-run");
        only_free(&sb, &mut space, &[2..4, 10..30, 40..42]);
        let first = block(&sb, space.take(&sb, &wanted(1, 0, 0, 3), 8));
        assert_eq!(first, Some((1, 10)));
        // Two blocks would fit better at 2 and at 40.
        assert_eq!(block(&sb, space.take(&sb, &wanted(1, 0, 0, 2), 8)), Some((1, 11)));
    }

    #[test]
    fn a_whole_file_moves_with_its_fragment() {
        let (sb, mut space) = sample("whole-file");
        only_free(&sb, &mut space, &[2..4, 40..45]);
        assert_eq!(block(&sb, space.take_run(&sb, &wanted(1, 0, 0, 3), 8 + 8 + 1)), Some((1, 40)));
        assert!(space.take_run(&sb, &wanted(1, 0, 0, 4), 4 * 8).is_none(), "there is none");
        // The rest of the broken block serves a piece.
        let piece = space.take(&sb, &wanted(1, 0, 0, 1), 7);
        assert_eq!(block(&sb, piece), Some((1, 42)));
    }
}
