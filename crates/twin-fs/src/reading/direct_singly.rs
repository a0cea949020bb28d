//! BSD-LFS as "A Comparison of Logging and Clustering" measured it in 1994. Its table shows about
//! the same time for each of a file's first twelve blocks, and the bandwidth of clusters beyond
//! them. Therefore direct blocks are read one by one, without read-ahead, and all others as
//! clusters.

use super::clusters::Clusters;
use super::{Nearby, ReadAdvice, ReadPolicy, ReadPolicyInput};

pub(super) struct DirectSingly;

impl ReadPolicy for DirectSingly {
    fn advise(&self, view: ReadPolicyInput, nearby: &dyn Nearby) -> ReadAdvice {
        if view.lbn < view.direct {
            return ReadAdvice { now: 1, ..ReadAdvice::default() };
        }
        Clusters.advise(view, nearby)
    }
}
