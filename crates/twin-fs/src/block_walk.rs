//! The order in which the blocks of a file are walked, for a checker and a dump that read a device themselves.
//!
//! Contract: data blocks come in ascending order, an indirect block before the blocks that it maps. The caller reads
//! indirect blocks, decides which ones to descend into, and has to notice pointers that form a circle.

use twin_cache::Lbn;
use twin_disk::Bytes;

use crate::dinode::Dinode;
use crate::geometry::{Geometry, Ptr};

/// A mapped block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number in the file; negative for an indirect block.
    pub lbn: Lbn,
    /// Its place. Where pointers have no lengths, the length follows from the size of the file.
    pub ptr: Ptr,
}

/// A walk over the blocks of a file that are not holes.
pub struct BlockWalk {
    ptrs: Vec<Ptr>,
    slot: usize,
    /// The indirect blocks above the present one, with their contents and the next index in each.
    stack: Vec<(Lbn, Bytes, usize)>,
}

impl BlockWalk {
    /// A walk that begins at the first block of a file.
    pub fn new(d: &Dinode) -> BlockWalk {
        BlockWalk { ptrs: d.ptrs.clone(), slot: 0, stack: Vec::new() }
    }

    /// The next block that is not a hole, with its pointer as it is stored.
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
                return Some(Step { lbn, ptr });
            }
        }
    }

    /// Continues with the blocks that an indirect block maps.
    pub fn descend(&mut self, lbn: Lbn, content: Bytes) {
        self.stack.push((lbn, content, 0));
    }
}
