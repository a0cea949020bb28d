//! A walk over the blocks of a file along its pointers.

use std::collections::BTreeSet;

use twin_cache::Lbn;
use twin_disk::Bytes;
use twin_fs::dinode::Dinode;
use twin_fs::geometry::{Geometry, Ptr};
use twin_fs::{BlockWalk, Ino, Step};

/// Gives the mapped blocks of a file: data blocks in ascending order, an indirect block before the
/// blocks that it maps. The caller reads the indirect blocks and decides which ones to descend
/// into.
pub struct Walk {
    /// The number of the file that is walked.
    pub ino: Ino,
    size: u64,
    blocks: BlockWalk,
    /// Places of the indirect blocks that the walk has descended into.
    met: BTreeSet<u64>,
}

impl Walk {
    /// A walk that begins at the first block of a file.
    pub fn new(d: &Dinode) -> Walk {
        Walk { ino: d.ino, size: d.size, blocks: BlockWalk::new(d), met: BTreeSet::new() }
    }

    /// The next block that is not a hole.
    pub fn next(&mut self, geometry: &Geometry) -> Option<Step> {
        let Step { lbn, ptr } = self.blocks.next(geometry)?;
        Some(Step { lbn, ptr: with_length(geometry, lbn, self.size, ptr) })
    }

    /// True if this walk has descended into an indirect block at this place. Without this test an
    /// indirect block that leads to itself would look like a billion blocks.
    pub fn has_met(&self, addr: u64) -> bool {
        self.met.contains(&addr)
    }

    /// Continues with the blocks that an indirect block maps.
    pub fn descend(&mut self, step: Step, content: Bytes) {
        if step.ptr.is_on_disk() {
            self.met.insert(step.ptr.addr);
        }
        self.blocks.descend(step.lbn, content);
    }
}

/// A pointer with its length, which follows from the size of the file where pointers have none.
pub(crate) fn with_length(geometry: &Geometry, lbn: Lbn, size: u64, ptr: Ptr) -> Ptr {
    match geometry.has_checksums() || !ptr.is_on_disk() {
        true => ptr,
        false => Ptr { len: geometry.len_on_disk(lbn, size), ..ptr },
    }
}
