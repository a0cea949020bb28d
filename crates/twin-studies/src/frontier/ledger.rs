//! What clients have written and recovery may not give back.
//!
//! Contract: the ledger holds the latest content of every block that changed, as clients would read
//! it, from its change until two power failures in a row have left it. Deleted data leaves the ledger:
//! nobody misses it. Directories and other metadata do not count.

use std::collections::BTreeMap;

use twin_cache::Lbn;
use twin_disk::{Block, Bytes, Class, gather};
use twin_fs::{Core, FsError, Op, Reply, Request, Volume};

/// So many recoveries in a row must give a block back before it counts as safe. One is not enough:
/// what a disk has reported and not flushed survives some power failures.
const RECOVERIES: u8 = 2;

struct Held {
    content: Block,
    recovered: u8,
}

/// See the module.
#[derive(Default)]
pub(super) struct Ledger {
    blocks: BTreeMap<(u64, Lbn), Held>,
    /// Files whose content is in their inode.
    small: BTreeMap<u64, Held>,
}

impl Ledger {
    /// Notes what changed since the last call.
    pub(super) fn note_changes(&mut self, core: &Core) {
        for (ino, lbn) in core.cache.take_changes() {
            let inode = core.cached_inode(ino).filter(|_| lbn >= 0);
            let Some(inode) = inode.filter(|inode| inode.class(lbn) == Class::Data) else {
                continue;
            };
            if let Some(frame) = core.cache.peek(&inode.frames, lbn) {
                self.blocks.insert((ino, lbn), Held { content: frame.block(), recovered: 0 });
            }
        }
        for inode in core.dirty_inodes() {
            let d = inode.d.borrow();
            if d.is_inline() && inode.class(0) == Class::Data {
                let content = Block::Bytes(Bytes::copy_of(&d.inline));
                let same = self.small.get(&inode.ino).is_some_and(|held| held.content == content);
                if !same {
                    self.small.insert(inode.ino, Held { content, recovered: 0 });
                }
            }
        }
    }

    /// Compares with a recovered volume. Returns the bytes that are lost.
    pub(super) async fn compare(
        &mut self,
        core: &Core,
        recovered: &Volume,
    ) -> Result<u64, FsError> {
        let mut lost = 0;
        let block = u64::from(core.geometry.block_size);
        let size_of = |ino| core.cached_inode(ino).map(|inode| inode.d.borrow().size);
        let mut gone = Vec::new();
        for (&(ino, lbn), held) in &mut self.blocks {
            let from = lbn as u64 * block;
            let Some(size) = size_of(ino).filter(|size| *size > from) else {
                gone.push((ino, lbn));
                continue;
            };
            let len = (size - from).min(block);
            lost += held.compare(recovered, ino, from, len).await?;
        }
        gone.iter().for_each(|key| drop(self.blocks.remove(key)));
        self.blocks.retain(|_, held| held.recovered < RECOVERIES);
        let mut gone = Vec::new();
        for (&ino, held) in &mut self.small {
            let is_there = core.cached_inode(ino).is_some_and(|i| i.d.borrow().is_inline());
            match is_there {
                true => {
                    let len = held.content.len() as u64;
                    lost += held.compare(recovered, ino, 0, len).await?;
                }
                false => gone.push(ino),
            }
        }
        gone.iter().for_each(|ino| drop(self.small.remove(ino)));
        self.small.retain(|_, held| held.recovered < RECOVERIES);
        Ok(lost)
    }
}

impl Held {
    /// The bytes of a piece of content that the recovered volume lacks: all of them or none.
    async fn compare(
        &mut self,
        recovered: &Volume,
        ino: u64,
        off: u64,
        len: u64,
    ) -> Result<u64, FsError> {
        if len == 0 {
            return Ok(0);
        }
        let request = Request::root(u64::MAX, Op::Read { ino, off, len: len as u32 });
        let is_there = match recovered.execute(request).await {
            Ok(Reply::Data(pieces)) => {
                let read: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
                read == len && {
                    let is = gather(&pieces, 0, len as usize);
                    let want = self.content.slice(0, len as usize);
                    is == want || is.to_bytes() == want.to_bytes()
                }
            }
            Ok(_) => false,
            // The file is not there, or its number leads to something else.
            Err(FsError::Io(error)) => return Err(FsError::Io(error)),
            Err(_) => false,
        };
        self.recovered = if is_there { self.recovered + 1 } else { 0 };
        Ok(if is_there { 0 } else { len })
    }
}
