//! A metadata journal in ordered mode: a transaction is everything that changed up to an instant
//! between two steps, and the data of new blocks is durable before it counts (Tweedie,
//! "Journaling the Linux ext2fs Filesystem", LinuxExpo 1998).

use super::{Ordering, Reuse, Wait};

pub(super) struct Journal;

impl Ordering for Journal {
    fn names(&self) -> Wait {
        Wait::Nothing
    }

    fn maps(&self) -> Wait {
        Wait::Nothing
    }

    fn reuse(&self) -> Reuse {
        Reuse::AfterCommit
    }

    fn writes_directories_behind(&self) -> bool {
        true
    }
}
