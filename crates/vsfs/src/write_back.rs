//! Write-back: how changes reach the disk.
//!
//! Contract: only one write-back runs at a time. It takes everything that is dirty, or some files with
//! the bitmaps and inodes, in one step without waiting, and sends it in the order of places, which guarantees nothing: a crash in the
//! middle may leave any of it. Two writes of one block are never under way together, because there
//! is only one write-back.

use std::cell::Cell;
use std::rc::Rc;

use twin_cache::{FileFrames, Frame};
use twin_disk::{Block, Buf, Class, Io, Origin};
use twin_fs::{Chosen, Core, FsError, Inode, Result, Written};
use twin_rt::{RwLock, join_all};

use crate::format::Superblock;
use crate::inodes::Inodes;
use crate::space::Space;

/// The state of write-back. See the module.
#[derive(Default)]
pub(crate) struct WriteBack {
    /// Held by the write-back that is under way, so that there is only one.
    one: RwLock,
    written: Cell<Written>,
}

/// A block on its way to its place.
struct BlockWrite {
    place: u64,
    block: Block,
    class: Class,
    /// The frame from which it was taken. It stays in memory until the disk has the block.
    frame: Option<Rc<Frame>>,
}

impl WriteBack {
    /// The amounts written so far.
    pub(crate) fn written(&self) -> Written {
        self.written.get()
    }

    /// True if some change is not on the disk.
    pub(crate) fn has_dirty(&self, core: &Core, inodes: &Inodes, space: &Space) -> bool {
        core.dirty_inode_count() > 0
            || core.cache.dirty_bytes() > 0
            || inodes.is_dirty()
            || space.is_dirty()
    }

    /// Writes all that is dirty, or the `chosen` files with all bitmaps and inodes, and waits until the
    /// device has it.
    ///
    /// # Errors
    /// If the device fails: the volume takes no changes from then on.
    pub(crate) async fn write(
        &self,
        core: &Rc<Core>,
        inodes: &Inodes,
        space: &Space,
        chosen: Option<&[Chosen]>,
    ) -> Result<()> {
        let _one = self.one.write().await;
        core.check_writable()?;
        // The place of a block is in the indirect blocks above it. They are read and held before
        // the step that takes blocks, because that step must not wait.
        let mut pins = Vec::new();
        for inode in core.dirty_inodes() {
            for frame in inode.frames.dirty_frames() {
                core.pin_parents(&inode, frame.lbn(), &mut pins).await?;
            }
        }
        let pieces = self.take(core, inodes, space, chosen)?;
        send(core, pieces).await
    }

    /// Takes what is to be written, as it is now. All of it counts as clean from here on.
    fn take(
        &self,
        core: &Core,
        inodes: &Inodes,
        space: &Space,
        chosen: Option<&[Chosen]>,
    ) -> Result<Vec<BlockWrite>> {
        if chosen.is_none() {
            core.forget_dirty();
        }
        let mut pieces = Vec::new();
        for inode in core.dirty_inodes() {
            let choice = chosen.map(|all| all.iter().find(|c| c.inode.ino == inode.ino));
            if choice.is_some_and(|choice| choice.is_none()) {
                continue;
            }
            for frame in inode.frames.dirty_frames() {
                // Indirect blocks go with any block: they may lead to it.
                let is_wanted = choice.flatten().is_none_or(|c| c.has(frame.lbn()));
                if is_wanted || frame.lbn() < 0 {
                    pieces.extend(take_block(core, &inode, &frame, inodes.superblock())?);
                }
            }
            if inode.is_dirty() {
                inodes.put(core, &inode);
            }
            // A block that became dirty while others were read may have to wait for the next
            // write-back.
            if !inode.frames.has_dirty() {
                core.mark_inode_clean(&inode);
            }
        }
        let table = inodes.table();
        for frame in table.dirty_frames() {
            pieces.push(take_frame(core, table, &frame, frame.lbn() as u64, Class::Meta));
        }
        for (place, bytes) in inodes.take_dirty().into_iter().chain(space.take_dirty()) {
            let block = Block::Bytes(Buf::copy_of(&bytes).freeze());
            pieces.push(BlockWrite { place, block, class: Class::Meta, frame: None });
        }
        let mut written = self.written.get();
        for piece in &pieces {
            let bytes = piece.block.len() as u64;
            written.bytes += bytes;
            match piece.class {
                Class::Data => {
                    written.data_bytes += bytes;
                    written.new_data_bytes += bytes;
                }
                _ => written.meta_bytes += bytes,
            }
        }
        self.written.set(written);
        Ok(pieces)
    }
}

/// Takes a dirty block of a file, if its place is known in memory.
fn take_block(
    core: &Core,
    inode: &Inode,
    frame: &Rc<Frame>,
    sb: &Superblock,
) -> Result<Option<BlockWrite>> {
    let Some(ptr) = core.resident_ptr(inode, frame.lbn()) else { return Ok(None) };
    if !sb.is_data(ptr.addr) {
        // Only a damaged indirect block leads there. Writing would destroy the volume's own
        // structures.
        let (ino, lbn) = (inode.ino, frame.lbn());
        let what = format!("block {lbn} of inode {ino} lies among the volume's own blocks");
        core.poison(FsError::inconsistent(what));
        return core.check_writable().map(|()| None);
    }
    Ok(Some(take_frame(core, &inode.frames, frame, ptr.addr, inode.class(frame.lbn()))))
}

fn take_frame(
    core: &Core,
    file: &FileFrames,
    frame: &Rc<Frame>,
    place: u64,
    class: Class,
) -> BlockWrite {
    core.cache.mark_sent(file, frame);
    BlockWrite { place, block: frame.block(), class, frame: Some(Rc::clone(frame)) }
}

/// Sends blocks to their places, adjacent ones with one request.
async fn send(core: &Core, mut pieces: Vec<BlockWrite>) -> Result<()> {
    pieces.sort_by_key(|piece| piece.place);
    let block_size = u64::from(core.geometry.block_size);
    let most = (u64::from(core.info.max_io) / block_size).max(1) as usize;
    let mut runs: Vec<Vec<BlockWrite>> = Vec::new();
    for piece in pieces {
        match runs.last_mut() {
            Some(run) if run[0].place + run.len() as u64 == piece.place && run.len() < most => {
                run.push(piece);
            }
            _ => runs.push(vec![piece]),
        }
    }
    let writes = runs.into_iter().map(|run| async move {
        let class = match run.iter().all(|piece| piece.class == run[0].class) {
            true => run[0].class,
            false => Class::Mixed,
        };
        let blocks = run.iter().map(|piece| piece.block.clone()).collect();
        let io = Io::write(run[0].place * block_size, blocks, class, Origin::WriteBack);
        let result = core.device.submit(io).await;
        run.iter().filter_map(|p| p.frame.as_ref()).for_each(|f| core.cache.mark_written(f));
        if let Err(error) = result {
            core.poison(FsError::Io(error));
        }
    });
    join_all(writes.collect::<Vec<_>>()).await;
    core.check_writable()
}
