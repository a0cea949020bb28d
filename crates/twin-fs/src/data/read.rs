//! Reading file data, all blocks of an operation at once, with a read-ahead window.

use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Block, Bytes, Origin};

use super::read_by_block::read_by_block;
use crate::core::Core;
use crate::inodes::{Inode, ReadAhead};
use crate::{FsError, Result, Work};

/// Reads `len` bytes at `off`, fewer at the end of the file. It takes the inode's lock, shared.
pub(crate) async fn read(
    core: &Rc<Core>,
    inode: &Rc<Inode>,
    off: u64,
    len: u32,
) -> Result<Vec<Block>> {
    let _shared = inode.lock.read().await;
    let (size, damaged, inline) = {
        let d = inode.d.borrow();
        (d.size, d.is_damaged(), d.is_inline().then(|| Bytes::copy_of(&d.inline)))
    };
    let end = size.min(off.saturating_add(u64::from(len)));
    if off >= end {
        return Ok(Vec::new());
    }
    let len = (end - off) as usize;
    if let Some(bytes) = inline {
        return Ok(vec![Block::Bytes(bytes.slice(off as usize, len))]);
    }
    if let Some(policy) = &core.reading {
        return Box::pin(read_by_block(core, &**policy, inode, off, end)).await;
    }
    let block = u64::from(core.geometry.block_size);
    let (first, last) = (off / block, end.div_ceil(block));
    let sequential = !inode.frames.is_apart() && read_ahead(core, inode, off, end, size);
    let frames = core.blocks(inode, first, last, Origin::User).await?;
    core.cpu.charge(Work::Copy(len as u64)).await;
    let mut frames = frames.into_iter().peekable();
    let mut out = Vec::with_capacity((last - first) as usize);
    for lbn in first..last {
        let start = off.max(lbn * block) - lbn * block;
        let n = (end.min((lbn + 1) * block) - lbn * block - start) as usize;
        match frames.next_if(|f| f.lbn() == lbn as Lbn) {
            Some(frame) => out.push(frame.with(|b| b.slice(start as usize, n))),
            None if damaged => return Err(FsError::lost(inode.ino, lbn)),
            None => match out.last_mut() {
                Some(Block::Zero(zeros)) => *zeros += n as u32,
                _ => out.push(Block::Zero(n as u32)),
            },
        }
    }
    drop(frames);
    if sequential && core.settings.drop_behind {
        let (first, last) = (off.div_ceil(block), if end == size { last } else { end / block });
        core.cache.drop_read(&inode.frames, first as Lbn..last as Lbn);
    }
    Ok(out)
}

/// Starts a read-ahead if the file is being read sequentially, and returns whether it is. The
/// window doubles with each sequential read up to the setting. More is requested as soon as less
/// than half of the window is left.
fn read_ahead(core: &Rc<Core>, inode: &Rc<Inode>, off: u64, end: u64, size: u64) -> bool {
    let max = u64::from(core.settings.read_ahead_bytes);
    let mut ahead = inode.ahead.get();
    if max == 0 || off != ahead.next {
        let asked = if max == 0 { 0 } else { end };
        inode.ahead.set(ReadAhead { next: end, window: 0, asked, ..ahead });
        return false;
    }
    ahead.next = end;
    let block = u64::from(core.geometry.block_size);
    ahead.window = (ahead.window.max(end - off) * 2).clamp(block.min(max), max);
    let want = (end + ahead.window).min(size);
    if ahead.asked < end + ahead.window / 2 && ahead.asked < want {
        let first = ahead.asked.max(end) / block;
        let last = want.div_ceil(block);
        ahead.asked = want;
        let (shared, inode) = (Rc::clone(core), Rc::clone(inode));
        core.rt.spawn("read-ahead", async move {
            let _shared = inode.lock.read().await;
            let size = inode.d.borrow().size;
            let last = last.min(shared.geometry.blocks_for(size));
            if first < last && !inode.d.borrow().is_inline() {
                // A failed read-ahead is no error; the read of these blocks will report it.
                let _ = shared.blocks(&inode, first, last, Origin::ReadAhead).await;
            }
        });
    }
    inode.ahead.set(ahead);
    true
}
