//! Memory as the device of a cache.
//!
//! Contract: what is read begins where something was written, and is not longer; it is as it was written, stamps included, which
//! [`MemDisk`](twin_disk::MemDisk) expands. Everything else is zeros.

use std::cell::RefCell;
use std::collections::BTreeMap;

use twin_disk::{Block, BlockDevice, DeviceInfo, Io, IoKind, Pending, cut, total};

/// A device in memory.
pub(crate) struct Shelf {
    size: u64,
    written: RefCell<BTreeMap<u64, Vec<Block>>>,
}

impl Shelf {
    /// One of `size` bytes, and of less memory until they are written.
    pub(crate) fn new(size: u64) -> Shelf {
        Shelf { size: size / 512 * 512, written: RefCell::default() }
    }
}

impl BlockDevice for Shelf {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { size: self.size, sector: 512, max_io: 1 << 30, name: "memory".into() }
    }

    fn submit(&self, io: Io) -> Pending {
        if let Err(error) = self.info().check(&io) {
            return Pending::ready(Err(error));
        }
        Pending::ready(Ok(match io.kind {
            IoKind::Read => {
                let written = self.written.borrow();
                let there = written.get(&io.at).map_or(&[][..], Vec::as_slice);
                let mut blocks = cut(there, 0, io.len.min(total(there)));
                let rest = io.len - total(&blocks);
                if rest > 0 {
                    blocks.push(Block::Zero(rest as u32));
                }
                blocks
            }
            IoKind::Write => {
                self.written.borrow_mut().insert(io.at, io.blocks);
                Vec::new()
            }
            _ => Vec::new(),
        }))
    }

    fn in_flight(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_disk::{Class, Origin};
    use twin_rt::{ClockOnly, Rt};

    #[test]
    fn what_was_written_is_read_as_it_was_and_the_rest_is_zeros() {
        let rt = Rt::new(ClockOnly::default(), 1);
        rt.block_on(async {
            let shelf = Shelf::new(1 << 20);
            let block = Block::Bytes(twin_disk::Buf::copy_of(&[7; 1024]).freeze());
            let write = Io::write(4096, vec![block.clone()], Class::Data, Origin::User);
            shelf.submit(write).await.unwrap();
            let read = async |at, len| {
                shelf.submit(Io::read(at, len, Class::Data, Origin::User)).await.unwrap()
            };
            assert_eq!(read(4096, 1024).await, std::slice::from_ref(&block));
            assert_eq!(read(4096, 512).await, [block.slice(0, 512)]);
            assert_eq!(total(&read(4096, 2048).await), 2048);
            assert_eq!(read(0, 512).await, [Block::Zero(512)]);
        })
        .unwrap();
    }
}
