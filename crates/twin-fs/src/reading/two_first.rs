//! 4.4BSD's `cluster_read` before its overhaul of 12 January 1994 (sys/kern/vfs_cluster.c, versions 8.1 of 10 June
//! 1993 to 8.4 of 4 January 1994). Block 0 counts as sequential, and the first read fetches two blocks. A window then
//! doubles while more blocks are adjacent on disk than it has, and is as long as their run otherwise; a read out of
//! order halves it. What is read ahead begins a window, or half of one, behind the reader, whatever lies between: so
//! a block can be left out that the next one has to wait for.
//!
//! A run ends at the last block whose address is in the inode, as in sys/ufs/ufs/ufs_bmap.c, `ufs_bmaparray`.

use super::{Nearby, ReadAdvice, ReadPolicy, ReadPolicyInput};

pub(super) struct TwoFirst;

/// The file around the reader.
struct Around<'a> {
    view: ReadPolicyInput,
    nearby: &'a dyn Nearby,
}

impl Around<'_> {
    /// Whether the file has bytes behind a block; of the last whole block it has not (`(ioblkno + 1) * size <
    /// filesize`).
    fn goes_on_behind(&self, lbn: u64) -> bool {
        let (whole, part) = self.view.whole;
        lbn + 1 < whole || (lbn + 1 == whole && part)
    }

    /// The blocks behind this one that are adjacent (`num_ra`); none if it is a hole.
    fn adjacent(&self, lbn: u64) -> Option<u64> {
        let run = self.nearby.run(lbn).min(self.view.transfer);
        let to_inode_s_end = match self.view.direct.checked_sub(lbn) {
            Some(left) if left > 0 => left,
            _ => u64::MAX,
        };
        run.min(to_inode_s_end).checked_sub(1)
    }

    /// How many blocks are read with this one, of `run` behind it (`cluster_rbuild`): as far as blocks are whole and
    /// not in memory. The flag says whether there was anything to build.
    fn built(&self, lbn: u64, run: u64) -> (u64, bool) {
        let run = if lbn + run + 1 > self.view.whole.0 { run.saturating_sub(1) } else { run };
        let missing = (1..=run).take_while(|n| !self.nearby.is_resident(lbn + n));
        (missing.count() as u64, run > 0)
    }
}

impl ReadPolicy for TwoFirst {
    fn advise(&self, view: ReadPolicyInput, nearby: &dyn Nearby) -> ReadAdvice {
        let around = Around { view, nearby };
        let window = view.memory.max(1);
        let sequential = view.lbn == 0 || view.last.is_some_and(|last| last + 1 == view.lbn);
        if !sequential {
            let memory = (window >> 1).max(1);
            return ReadAdvice { now: 1, memory, ..ReadAdvice::default() };
        }
        let alone = ReadAdvice { now: 1, memory: window, ..ReadAdvice::default() };
        let from = match view.cached {
            true if view.lbn < window => view.lbn + (window >> 1),
            true => view.lbn + window,
            false => view.lbn,
        };
        let is_there = view.cached && nearby.is_resident(from);
        if is_there || !around.goes_on_behind(from) {
            return alone;
        }
        let Some(adjacent) = around.adjacent(from) else { return alone };
        let (run, window) = match adjacent > window {
            true => (window, (window << 1).min(view.transfer)),
            false => (adjacent, adjacent + 1),
        };
        if view.cached {
            let ahead = match run {
                0 if view.lbn == 0 => 0,
                run => around.built(from, run).0 + 1,
            };
            return ReadAdvice { now: 1, ahead_from: from, ahead, memory: window };
        }
        if run > 0 {
            let (more, built) = around.built(from, run);
            let memory = if built { (window - 1).max(1) } else { window };
            return ReadAdvice { now: more + 1, memory, ..ReadAdvice::default() };
        }
        // The next block lies elsewhere: it is read ahead with all that is adjacent to it.
        let next = from + 1;
        let in_file = view.lbn > 0 && next < view.whole.0;
        let ahead = match around.adjacent(next).filter(|_| in_file) {
            Some(run) => around.built(next, run).0 + 1,
            None => 0,
        };
        ReadAdvice { now: 1, ahead_from: next, ahead, memory: window }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::*;

    /// A file whose blocks lie in runs, each beginning at one of these.
    struct File {
        blocks: u64,
        runs: Vec<u64>,
        memory: RefCell<BTreeSet<u64>>,
    }

    impl Nearby for File {
        fn is_resident(&self, lbn: u64) -> bool {
            self.memory.borrow().contains(&lbn)
        }

        fn run(&self, lbn: u64) -> u64 {
            let end = self.runs.iter().copied().find(|start| *start > lbn).unwrap_or(self.blocks);
            end.min(self.blocks).saturating_sub(lbn)
        }
    }

    /// The requests of a reader of the whole file: the first block, the number of blocks, and whether it waited.
    fn requests(blocks: u64, runs: &[u64]) -> Vec<(u64, u64, bool)> {
        let file = File { blocks, runs: runs.to_vec(), memory: RefCell::default() };
        let (mut memory, mut last, mut made) = (0, None, Vec::new());
        for lbn in 0..blocks {
            let cached = file.is_resident(lbn);
            let view = ReadPolicyInput {
                lbn,
                last,
                cached,
                run: file.run(lbn),
                next_missing: 0,
                direct: 12,
                transfer: 8,
                whole: (blocks, false),
                memory,
            };
            let advice = TwoFirst.advise(view, &file);
            (memory, last) = (advice.memory, Some(lbn));
            let mut make = |from: u64, count: u64, waits| {
                made.push((from, count, waits));
                file.memory.borrow_mut().extend(from..from + count);
            };
            if !cached {
                make(lbn, advice.now, true);
            }
            if advice.ahead > 0 && !file.is_resident(advice.ahead_from) {
                make(advice.ahead_from, advice.ahead, false);
            }
        }
        made
    }

    // Worked out by hand from the source, statement by statement.

    #[test]
    fn a_file_of_two_blocks_takes_one_request() {
        assert_eq!(requests(2, &[]), [(0, 2, true)]);
    }

    #[test]
    fn a_file_of_eight_adjacent_blocks_leaves_its_last_for_a_request_of_its_own() {
        let expected = [(0, 2, true), (2, 2, false), (4, 3, false), (7, 1, true)];
        assert_eq!(requests(8, &[]), expected);
    }

    #[test]
    fn a_block_that_lies_elsewhere_is_requested_ahead() {
        // Blocks 0, then 1 to 3. Block 0 is read alone and requests nothing more; block 1 is not there, and its run is
        // longer than the window.
        assert_eq!(requests(4, &[1]), [(0, 1, true), (1, 2, true), (3, 1, true)]);
    }

    #[test]
    fn a_run_ends_where_the_addresses_in_the_inode_end() {
        let all = requests(16, &[]);
        assert!(all.iter().all(|(from, count, _)| *from >= 12 || from + count <= 12), "{all:?}");
    }
}
