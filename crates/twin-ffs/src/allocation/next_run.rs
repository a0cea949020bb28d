//! As `whole-file`, with the next run that is long enough instead of the shortest one: files that are
//! made together lie in one direction of the disk and close to each other, at the price of long runs.

use super::{Allocation, Fit, Gather, Tail, whole_file::WholeFile};

pub(super) struct NextRun;

impl Allocation for NextRun {
    fn run(&self, placed: u64, rest: u64) -> Option<u64> {
        WholeFile.run(placed, rest)
    }

    fn fit(&self) -> Fit {
        Fit::Next
    }

    fn gather(&self) -> Gather {
        WholeFile.gather()
    }

    fn tail(&self) -> Tail {
        WholeFile.tail()
    }
}
