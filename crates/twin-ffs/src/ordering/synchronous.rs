//! The order of 4.4BSD: an inode is on the disk before a name leads to it, a new name is on the
//! disk before the old one is removed, and a pointer is removed before its block is reused
//! (McKusick, Bostic, Karels and Quarterman, "The Design and Implementation of the 4.4BSD Operating
//! System", section 8.2; McKusick, Joy, Leffler and Fabry 1984). Maps of free space are written
//! behind.
//!
//! Only the operation that changes a directory writes it, so that no block with a new name reaches
//! the disk before its inode.

use super::{Ordering, Reuse, Wait};

pub(super) struct Synchronous;

impl Ordering for Synchronous {
    fn names(&self) -> Wait {
        Wait::InOrder
    }

    fn maps(&self) -> Wait {
        Wait::InOrder
    }

    fn reuse(&self) -> Reuse {
        Reuse::AfterPointer
    }

    fn writes_directories_behind(&self) -> bool {
        false
    }
}
