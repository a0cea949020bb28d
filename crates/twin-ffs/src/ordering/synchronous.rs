//! 4.4BSD's order: an inode is on the disk before a name leads to it, a new name before the old
//! one goes, a pointer is gone before its block is used again (McKusick, Bostic, Karels and
//! Quarterman, "The Design and Implementation of the 4.4BSD Operating System", section 8.2;
//! McKusick, Joy, Leffler and Fabry 1984). Maps of free space are written behind.
//!
//! Directories are written by the operations that change them and by nobody else, so that no
//! block with a new name gets ahead of its inode.

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
