//! Finding data and holes in a file.

use std::rc::Rc;

use twin_cache::Lbn;

use crate::core::Core;
use crate::geometry::Parent;
use crate::inodes::Inode;
use crate::{FsError, Result, SeekFor};

/// The first data block after the hole at `lbn` that may exist, judged by the indirect blocks that
/// are in memory.
pub(super) fn next_mapped(core: &Core, inode: &Inode, lbn: u64) -> u64 {
    let geometry = &core.geometry;
    let mut at = lbn as Lbn;
    let mut next = lbn + 1;
    while let Parent::Indirect(up, _) = geometry.parent(at)
        && core.resident_ptr(inode, up).is_some_and(|p| p.is_hole())
    {
        next = geometry.first_data(up) + geometry.span(up);
        at = up;
    }
    next
}

/// `lseek` for data or a hole, in units of blocks. It takes the inode's lock, shared.
pub(crate) async fn seek(core: &Core, inode: &Rc<Inode>, off: u64, what: SeekFor) -> Result<u64> {
    let _shared = inode.lock.read().await;
    let (size, all_data) = {
        let d = inode.d.borrow();
        // Who copies a damaged file must meet what is lost, and not take it for a hole.
        (d.size, d.is_inline() || d.is_damaged())
    };
    if off >= size {
        return Err(FsError::NoSuchOffset);
    }
    if all_data {
        return Ok(if what == SeekFor::Data { off } else { size });
    }
    let block = u64::from(core.geometry.block_size);
    let mut lbn = off / block;
    while lbn * block < size {
        let is_hole = core.ptr(inode, lbn as Lbn).await?.is_hole();
        if is_hole == (what == SeekFor::Hole) {
            return Ok(off.max(lbn * block));
        }
        lbn = if is_hole { next_mapped(core, inode, lbn) } else { lbn + 1 };
    }
    if what == SeekFor::Hole { Ok(size) } else { Err(FsError::NoSuchOffset) }
}
