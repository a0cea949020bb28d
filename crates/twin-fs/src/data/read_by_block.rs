//! Reading block by block, as the kernels of the papers did.
//!
//! Contract: the result is the same as that of `read.rs`. The device requests differ in time and
//! size, and the cost to the processor differs.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Origin};

use crate::core::Core;
use crate::inodes::Inode;
use crate::reading::{Nearby, ReadAdvice, ReadPolicy, ReadPolicyInput};
use crate::{FsError, Result, Work};

/// Reads bytes `off..end`, which are in the file, block by block. The caller holds the inode's
/// lock.
pub(super) async fn read_by_block(
    core: &Rc<Core>,
    policy: &dyn ReadPolicy,
    inode: &Rc<Inode>,
    off: u64,
    end: u64,
) -> Result<Vec<Block>> {
    let block = u64::from(core.geometry.block_size);
    let mut out = Vec::with_capacity((end.div_ceil(block) - off / block) as usize);
    for lbn in off / block..end.div_ceil(block) {
        let start = off.max(lbn * block) - lbn * block;
        let n = (end.min((lbn + 1) * block) - lbn * block - start) as usize;
        let frame = read_one(core, policy, inode, lbn).await?;
        core.cpu.charge(Work::Block).await;
        core.cpu.charge(Work::Copy(n as u64)).await;
        out.push(match frame {
            Some(frame) => frame.with(|b| b.slice(start as usize, n)),
            None if inode.d.borrow().is_damaged() => return Err(FsError::lost(inode.ino, lbn)),
            None => Block::Zero(n as u32),
        });
    }
    Ok(out)
}

/// The frame of a block, `None` for a hole. If it is not in memory it is read together with the
/// neighbours that the policy names, and the policy's read-ahead is started.
async fn read_one(
    core: &Rc<Core>,
    policy: &dyn ReadPolicy,
    inode: &Rc<Inode>,
    lbn: u64,
) -> Result<Option<Rc<Frame>>> {
    let cached = core.cache.peek(&inode.frames, lbn as Lbn).is_some();
    let run = if cached { 1 } else { run_on_disk(core, inode, lbn).await? };
    let mut seen = inode.ahead.get();
    let block = u64::from(core.geometry.block_size);
    let size = inode.d.borrow().size;
    let view = ReadPolicyInput {
        lbn,
        last: seen.last_block,
        cached,
        run,
        next_missing: next_missing(core, inode, lbn),
        direct: core.geometry.direct as u64,
        transfer: transfer_bytes(core) / block,
        whole: (size / block, !size.is_multiple_of(block)),
        memory: seen.memory,
    };
    let advice = policy.advise(view, &Around { core, inode });
    (seen.last_block, seen.memory) = (Some(lbn), advice.memory);
    inode.ahead.set(seen);
    let want = lbn + if cached { 1 } else { advice.now.clamp(1, run.max(1)) };
    // The first poll issues the reader's own request, so that it reaches the device before the
    // read-ahead does; then both are under way.
    let mut now = pin!(core.blocks(inode, lbn, want, Origin::User));
    let early = poll_fn(|cx| match now.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    })
    .await;
    if advice.ahead > 0 && !inode.frames.is_apart() {
        start_read_ahead(core, inode, advice);
    }
    let frames = match early {
        Some(done) => done?,
        None => now.await?,
    };
    Ok(frames.into_iter().find(|f| f.lbn() == lbn as Lbn))
}

/// The blocks of a file, as far as their addresses are in memory.
struct Around<'a> {
    core: &'a Core,
    inode: &'a Inode,
}

impl Nearby for Around<'_> {
    fn is_resident(&self, lbn: u64) -> bool {
        self.core.cache.peek(&self.inode.frames, lbn as Lbn).is_some()
    }

    fn run(&self, lbn: u64) -> u64 {
        let geometry = &self.core.geometry;
        let at = |lbn: u64| {
            let ptr = self.core.resident_ptr(self.inode, lbn as Lbn)?;
            ptr.is_on_disk().then_some((ptr.addr, u64::from(ptr.len / geometry.frag_size)))
        };
        let most = transfer_bytes(self.core) / u64::from(geometry.block_size);
        let blocks = geometry.blocks_for(self.inode.d.borrow().size);
        let end = blocks.min(lbn.saturating_add(most));
        let (mut run, mut next) = (0, None);
        for at in (lbn..end).map_while(at) {
            if next.is_some_and(|next| next != at.0) {
                break;
            }
            (run, next) = (run + 1, Some(at.0 + at.1));
        }
        run
    }
}

/// The number of blocks from this one on that are adjacent on disk and not in memory, at least 1
/// and at most one transfer.
async fn run_on_disk(core: &Core, inode: &Inode, lbn: u64) -> Result<u64> {
    let geometry = &core.geometry;
    let first = core.ptr(inode, lbn as Lbn).await?;
    if !first.is_on_disk() {
        return Ok(1);
    }
    let most = transfer_bytes(core) / u64::from(geometry.block_size);
    let blocks = geometry.blocks_for(inode.d.borrow().size);
    let mut next = first.addr + u64::from(first.len / geometry.frag_size);
    let mut run = 1;
    while run < most && lbn + run < blocks {
        let at = (lbn + run) as Lbn;
        let there = core.cache.peek(&inode.frames, at).is_some();
        let Some(ptr) = core.resident_ptr(inode, at).filter(|p| p.addr == next) else { break };
        if there {
            break;
        }
        next += u64::from(ptr.len / geometry.frag_size);
        run += 1;
    }
    Ok(run)
}

/// The most bytes that one request reads.
fn transfer_bytes(core: &Core) -> u64 {
    let limit = match core.settings.cluster_bytes {
        0 => u32::MAX,
        bytes => bytes,
    };
    u64::from(core.info.max_io.min(limit))
}

/// The first block after this one that is not in memory, at most two transfers away.
fn next_missing(core: &Core, inode: &Inode, lbn: u64) -> u64 {
    let most = 2 * transfer_bytes(core) / u64::from(core.geometry.block_size);
    let missing = |at: &u64| core.cache.peek(&inode.frames, *at as Lbn).is_none();
    (lbn + 1..lbn + 1 + most).find(missing).unwrap_or(lbn + 1 + most)
}

/// Starts a task that reads a run of blocks, without waiting for it.
fn start_read_ahead(core: &Rc<Core>, inode: &Rc<Inode>, advice: ReadAdvice) {
    let first = advice.ahead_from;
    let blocks = core.geometry.blocks_for(inode.d.borrow().size);
    if first >= blocks || core.cache.peek(&inode.frames, first as Lbn).is_some() {
        return;
    }
    let (shared, inode) = (Rc::clone(core), Rc::clone(inode));
    core.rt.spawn("read-ahead", async move {
        let _shared = inode.lock.read().await;
        if first >= shared.geometry.blocks_for(inode.d.borrow().size) {
            return;
        }
        // A failed read-ahead is no error; the read of these blocks will report it.
        let Ok(run) = run_on_disk(&shared, &inode, first).await else { return };
        let end = first + run.min(advice.ahead);
        let _ = shared.blocks(&inode, first, end, Origin::ReadAhead).await;
    });
}
