//! BSD-LFS as A Comparison of Logging and Clustering measured it in 1994: its table shows about
//! the same time for each of a file's first twelve blocks, and the bandwidth of clusters behind
//! them. Direct blocks are read one by one, without reading ahead; all others as clusters.

use super::clusters::Clusters;
use super::{ReadAdvice, ReadPolicy, ReadView};

pub(super) struct DirectSingly;

impl ReadPolicy for DirectSingly {
    fn advise(&self, view: ReadView) -> ReadAdvice {
        if view.lbn < view.direct {
            return ReadAdvice { now: 1, ..ReadAdvice::default() };
        }
        Clusters.advise(view)
    }
}
