//! 4.4BSD's `cluster_write`. Blocks written one after the other are held back until a cluster is
//! full, which is then written with one request. A writer that continues elsewhere causes the write
//! of the cluster that it leaves (McVoy and Kleiman, "Extent-like Performance from a UNIX File
//! System", USENIX Winter 1991; "The Design and Implementation of the 4.4BSD Operating System",
//! section 8.2). Other blocks stay for the flush, which writes block by block, as `ffs_fsync` did.

use super::{Block, FileState, WriteBehind, WriteBehindAdvice};

pub(super) struct Cluster;

impl WriteBehind for Cluster {
    fn block_written(&self, file: &mut FileState, block: Block) -> WriteBehindAdvice {
        if block.lbn == 0 {
            *file = FileState::default();
        }
        let mut push = WriteBehindAdvice::default();
        let follows = block.lbn == file.last + 1 && block.addr == file.last_addr + block.frags;
        if file.len == 0 || !follows {
            if file.len != 0 && leave(file, &block, &mut push) {
                (file.last, file.last_addr) = (block.lbn, block.addr);
                return push;
            }
            begin(file, &block, &mut push);
        } else if block.lbn == file.start + file.len {
            push.now.push(file.start..block.lbn + 1);
            (file.len, file.start) = (0, block.lbn + 1);
        }
        (file.last, file.last_addr) = (block.lbn, block.addr);
        push
    }

    fn clusters_at_flush(&self) -> bool {
        false
    }
}

/// Ends the cluster that is being filled. Returns true if it continues after its blocks were moved
/// together.
fn leave(file: &mut FileState, block: &Block, push: &mut WriteBehindAdvice) -> bool {
    let filled = file.last - file.start + 1;
    let growing = block.at_end && block.lbn == file.last + 1 && filled < file.len;
    if growing {
        push.gather = Some(file.start..block.lbn + 1);
    } else {
        push.now.push(file.start..file.last + 1);
    }
    growing
}

/// Begins a cluster with a block, with the greatest possible length.
fn begin(file: &mut FileState, block: &Block, push: &mut WriteBehindAdvice) {
    let most = block.most.saturating_sub(1);
    file.len = if block.at_end { most } else { block.following.min(most) };
    if file.len == 0 {
        file.start = block.lbn + 1;
        push.now.push(block.lbn..block.lbn + 1);
    } else {
        file.start = block.lbn;
    }
}
