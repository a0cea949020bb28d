//! A disk in memory that completes every request at once. It is for unit tests, and is the simplest
//! example of a device.

use std::cell::{Cell, RefCell};
use std::future::ready;

use twin_rt::BoxFuture;

use crate::{Block, BlockDevice, Buf, DeviceInfo, Io, IoErrorKind, IoKind, Pending};

/// A disk of bytes in memory, without latency. It expands stamps when they are written, so the
/// checksums of stamps do not match when they are read back; use it with real bytes.
pub struct MemDisk {
    bytes: RefCell<Vec<u8>>,
    sector: u32,
    writes: Cell<u64>,
    reads: Cell<u64>,
}

impl MemDisk {
    /// A disk of `size` zero bytes, with sectors of 512 bytes.
    pub fn new(size: u64) -> MemDisk {
        MemDisk::from_bytes(vec![0; size as usize])
    }

    /// A disk with this content, with sectors of 512 bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> MemDisk {
        MemDisk {
            bytes: RefCell::new(bytes),
            sector: 512,
            writes: Cell::new(0),
            reads: Cell::new(0),
        }
    }

    /// A copy of the whole content.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes.borrow().clone()
    }

    /// The number of reads and the number of writes so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.reads.get(), self.writes.get())
    }
}

impl BlockDevice for MemDisk {
    fn info(&self) -> DeviceInfo {
        let size = self.bytes.borrow().len() as u64;
        DeviceInfo { size, sector: self.sector, max_io: 1 << 30, name: "memory".into() }
    }

    fn submit(&self, io: Io) -> Pending {
        if let Err(error) = self.info().check(&io) {
            return Pending::ready(Err(error));
        }
        let at = io.at as usize;
        let mut bytes = self.bytes.borrow_mut();
        match io.kind {
            IoKind::Read => {
                self.reads.set(self.reads.get() + 1);
                let buf = Buf::copy_of(&bytes[at..at + io.len as usize]);
                Pending::ready(Ok(vec![Block::Bytes(buf.freeze())]))
            }
            IoKind::Write => {
                self.writes.set(self.writes.get() + 1);
                let mut pos = at;
                for block in &io.blocks {
                    block.copy_to(&mut bytes[pos..pos + block.len()]);
                    pos += block.len();
                }
                Pending::ready(Ok(Vec::new()))
            }
            IoKind::Flush => Pending::ready(Ok(Vec::new())),
            IoKind::Discard => {
                bytes[at..at + io.len as usize].fill(0);
                Pending::ready(Ok(Vec::new()))
            }
        }
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn grow(&self, to: Option<u64>) -> BoxFuture<'_, Result<u64, IoErrorKind>> {
        let mut bytes = self.bytes.borrow_mut();
        let size = to.map_or(bytes.len(), |to| bytes.len().max(to as usize));
        bytes.resize(size, 0);
        Box::pin(ready(Ok(size as u64)))
    }
}
