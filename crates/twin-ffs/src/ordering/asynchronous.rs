//! No order at all: everything is written behind. Scenario (d) of Ousterhout et al., "A Comparison
//! of Logging and Clustering" (1994), which tells logging and asynchrony apart.

use super::{Ordering, Reuse, Wait};

pub(super) struct Asynchronous;

impl Ordering for Asynchronous {
    fn names(&self) -> Wait {
        Wait::Nothing
    }

    fn maps(&self) -> Wait {
        Wait::Nothing
    }

    fn reuse(&self) -> Reuse {
        Reuse::AtOnce
    }

    fn writes_directories_behind(&self) -> bool {
        true
    }
}
