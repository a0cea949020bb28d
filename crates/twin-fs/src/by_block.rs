//! Reading and writing block by block, as the kernels of the papers did.
//!
//! Contract: gives the same bytes as the reading and writing of `data.rs`; only when and in which
//! pieces the device is asked differs, and what it costs the processor. A long write is as many
//! steps as it has blocks.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use twin_cache::Lbn;
use twin_disk::{Block, Origin};

use crate::core::Inode;
use crate::layout::Layout;
use crate::reading::{Overwrite, ReadAdvice, ReadPolicy, ReadView};
use crate::{Data, Result, Volume, Work};

impl<L: Layout> Volume<L> {
    /// Reads bytes `off..end`, which are in the file, block by block. The caller holds the lock.
    pub(crate) async fn read_by_block(
        self: &Rc<Self>,
        policy: &dyn ReadPolicy,
        inode: &Rc<Inode>,
        off: u64,
        end: u64,
    ) -> Result<Vec<Block>> {
        let block = u64::from(self.core.shape.block_size);
        let mut out = Vec::with_capacity((end.div_ceil(block) - off / block) as usize);
        for lbn in off / block..end.div_ceil(block) {
            let start = off.max(lbn * block) - lbn * block;
            let n = (end.min((lbn + 1) * block) - lbn * block - start) as usize;
            let frame = self.read_one(policy, inode, lbn).await?;
            self.core.cpu.charge(Work::Block).await;
            self.core.cpu.charge(Work::Copy(n as u64)).await;
            out.push(match frame {
                Some(frame) => frame.with(|b| b.slice(start as usize, n)),
                None => Block::Zero(n as u32),
            });
        }
        Ok(out)
    }

    /// A block in memory, read in the company that the policy wants; `None` for a hole.
    async fn read_one(
        self: &Rc<Self>,
        policy: &dyn ReadPolicy,
        inode: &Rc<Inode>,
        lbn: u64,
    ) -> Result<Option<Rc<twin_cache::Frame>>> {
        let cached = self.core.cache.peek(&inode.frames, lbn as Lbn).is_some();
        let run = if cached { 1 } else { self.run_on_disk(inode, lbn).await? };
        let mut seen = inode.ahead.get();
        let advice = policy.advise(ReadView {
            lbn,
            last: seen.last_block,
            cached,
            run,
            next_missing: self.next_missing(inode, lbn),
            direct: self.core.shape.direct as u64,
            memory: seen.memory,
        });
        (seen.last_block, seen.memory) = (Some(lbn), advice.memory);
        inode.ahead.set(seen);
        let want = lbn + if cached { 1 } else { advice.now.clamp(1, run.max(1)) };
        // The reader's own request goes first, then the one ahead, then both are under way.
        let mut now = pin!(self.core.blocks(inode, lbn, want, Origin::User));
        let early = poll_fn(|cx| match now.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => Poll::Ready(None),
        })
        .await;
        if advice.ahead > 0 {
            self.ask_ahead(inode, advice);
        }
        let frames = match early {
            Some(done) => done?,
            None => now.await?,
        };
        Ok(frames.into_iter().find(|f| f.lbn() == lbn as Lbn))
    }

    /// How many blocks from this one on follow each other on disk and are not in memory, one
    /// transfer at the most. At least 1.
    async fn run_on_disk(&self, inode: &Inode, lbn: u64) -> Result<u64> {
        let (core, shape) = (&self.core, &self.core.shape);
        let first = core.ptr(inode, lbn as Lbn).await?;
        if !first.is_on_disk() {
            return Ok(1);
        }
        let most = self.transfer_bytes() / u64::from(shape.block_size);
        let blocks = shape.blocks_for(inode.d.borrow().size);
        let mut next = first.addr + u64::from(first.len / shape.frag_size);
        let mut run = 1;
        while run < most && lbn + run < blocks {
            let at = (lbn + run) as Lbn;
            let there = core.cache.peek(&inode.frames, at).is_some();
            let Some(ptr) = core.resident_ptr(inode, at).filter(|p| p.addr == next) else { break };
            if there {
                break;
            }
            next += u64::from(ptr.len / shape.frag_size);
            run += 1;
        }
        Ok(run)
    }

    /// Bytes that are read with one request at the most.
    fn transfer_bytes(&self) -> u64 {
        let limit = match self.core.settings.cluster_bytes {
            0 => u32::MAX,
            bytes => bytes,
        };
        u64::from(self.core.info.max_io.min(limit))
    }

    /// The first block behind this one that is not in memory, two transfers on at the most.
    fn next_missing(&self, inode: &Inode, lbn: u64) -> u64 {
        let most = 2 * self.transfer_bytes() / u64::from(self.core.shape.block_size);
        let missing = |at: &u64| self.core.cache.peek(&inode.frames, *at as Lbn).is_none();
        (lbn + 1..lbn + 1 + most).find(missing).unwrap_or(lbn + 1 + most)
    }

    /// Asks for a run of blocks that nobody waits for yet.
    fn ask_ahead(self: &Rc<Self>, inode: &Rc<Inode>, advice: ReadAdvice) {
        let first = advice.ahead_from;
        let blocks = self.core.shape.blocks_for(inode.d.borrow().size);
        if first >= blocks || self.core.cache.peek(&inode.frames, first as Lbn).is_some() {
            return;
        }
        let (volume, inode) = (Rc::clone(self), Rc::clone(inode));
        self.core.rt.spawn("read-ahead", async move {
            let _shared = inode.lock.read().await;
            if first >= volume.core.shape.blocks_for(inode.d.borrow().size) {
                return;
            }
            // A failed read-ahead is no error: the read itself will meet it.
            let Ok(run) = volume.run_on_disk(&inode, first).await else { return };
            let end = first + run.min(advice.ahead);
            let _ = volume.core.blocks(&inode, first, end, Origin::ReadAhead).await;
        });
    }

    /// Writes block by block: each block is admitted, copied and changed before the next.
    pub(crate) async fn write_by_block(
        &self,
        inode: &Rc<Inode>,
        off: u64,
        data: &Data,
        version: u64,
        by: Option<&crate::Cred>,
    ) -> Result<u64> {
        let block = u64::from(self.core.shape.block_size);
        let mut done = 0;
        while done < data.len() {
            let at = off + done;
            let n = (block - at % block).min(data.len() - done);
            self.core.cpu.charge(Work::Block).await;
            self.write(inode, at, &data.part(done, n), version, by).await?;
            done += n;
        }
        Ok(done)
    }

    /// Blocks of `first..last` that a write of `off..end` reads although it needs nothing of them.
    pub(crate) async fn read_before_overwrite(
        &self,
        inode: &Rc<Inode>,
        off: u64,
        end: u64,
        held: &mut Vec<Rc<twin_cache::Frame>>,
    ) -> Result<()> {
        let rule = self.core.settings.overwrite;
        if rule == Overwrite::Needed {
            return Ok(());
        }
        let shape = &self.core.shape;
        let block = u64::from(shape.block_size);
        for lbn in off / block..end.div_ceil(block) {
            let partial = off > lbn * block || end < (lbn + 1) * block;
            let direct = rule == Overwrite::Direct && lbn < shape.direct as u64;
            let there = self.core.ptr(inode, lbn as Lbn).await?.is_on_disk();
            if there && (partial || direct) {
                held.extend(self.core.block(inode, lbn as Lbn, Origin::User).await?);
            }
        }
        Ok(())
    }
}
