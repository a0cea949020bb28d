//! A walk over the blocks of a file along its pointers.

use std::collections::BTreeSet;

use twin_cache::Lbn;
use twin_disk::Bytes;
use twin_fs::Ino;
use twin_fs::dinode::Dinode;
use twin_fs::geometry::{Geometry, Ptr};

/// A mapped block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number in the file; negative for an indirect block.
    pub lbn: Lbn,
    /// Its place. Where pointers have no lengths, the length follows from the size of the file.
    pub ptr: Ptr,
}

/// Gives the mapped blocks of a file: data blocks in ascending order, an indirect block before the
/// blocks that it maps. The caller reads the indirect blocks and decides which ones to descend
/// into.
pub struct Walk {
    /// The number of the file that is walked.
    pub ino: Ino,
    size: u64,
    ptrs: Vec<Ptr>,
    slot: usize,
    /// The indirect blocks above the present one, with their contents and the next index in each.
    stack: Vec<(Lbn, Bytes, usize)>,
    /// Places of the indirect blocks that the walk has descended into.
    met: BTreeSet<u64>,
}

impl Walk {
    /// A walk that begins at the first block of a file.
    pub fn new(d: &Dinode) -> Walk {
        let ptrs = d.ptrs.clone();
        Walk { ino: d.ino, size: d.size, ptrs, slot: 0, stack: Vec::new(), met: BTreeSet::new() }
    }

    /// The next block that is not a hole.
    pub fn next(&mut self, geometry: &Geometry) -> Option<Step> {
        loop {
            let (lbn, ptr) = match self.stack.last_mut() {
                Some((_, _, index)) if *index as u64 == geometry.per_block() => {
                    self.stack.pop();
                    continue;
                }
                Some((lbn, content, index)) => {
                    *index += 1;
                    (geometry.child(*lbn, *index - 1), geometry.get_ptr(content, *index - 1))
                }
                None => {
                    let ptr = *self.ptrs.get(self.slot)?;
                    self.slot += 1;
                    (geometry.inode_child(self.slot - 1), ptr)
                }
            };
            if !ptr.is_hole() {
                return Some(Step { lbn, ptr: with_length(geometry, lbn, self.size, ptr) });
            }
        }
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
        self.stack.push((step.lbn, content, 0));
    }
}

/// A pointer with its length, which follows from the size of the file where pointers have none.
pub(crate) fn with_length(geometry: &Geometry, lbn: Lbn, size: u64, ptr: Ptr) -> Ptr {
    match geometry.has_checksums() || !ptr.is_on_disk() {
        true => ptr,
        false => Ptr { len: geometry.len_on_disk(lbn, size), ..ptr },
    }
}
