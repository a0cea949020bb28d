//! A device that keeps writes in memory, above another device that is only read.
//!
//! Contract: a read returns what was written last, here or on the device below, which receives only
//! reads. So a volume can be recovered in memory, and be read as it would be after recovery, if its
//! device takes no writes because it is write-protected or its host is full. The memory grows with
//! the number of sectors that are written.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use twin_rt::Rt;

use crate::{
    Block, BlockDevice, Buf, DeviceInfo, Io, IoKind, IoResult, Pending, ServiceBounds, gather,
    pending,
};

/// The contents of the sectors that were written, by the number of the sector.
type Sectors = BTreeMap<u64, Box<[u8]>>;

/// A device with writes in memory: see the module. It expands stamps, so use it with real bytes.
pub struct Overlay {
    below: Rc<dyn BlockDevice>,
    rt: Rt,
    info: DeviceInfo,
    written: Rc<RefCell<Sectors>>,
}

impl Overlay {
    /// An overlay without writes, above the device `below`.
    pub fn new(rt: &Rt, below: Rc<dyn BlockDevice>) -> Overlay {
        let info = below.info();
        Overlay { below, rt: rt.clone(), info, written: Rc::default() }
    }

    /// The number of bytes that were written and are kept in memory.
    pub fn bytes(&self) -> u64 {
        self.written.borrow().len() as u64 * u64::from(self.info.sector)
    }

    fn sectors(&self, io: &Io) -> Range<u64> {
        let sector = u64::from(self.info.sector);
        io.at / sector..(io.at + io.len) / sector
    }

    fn keep(&self, io: &Io) {
        let sector = self.info.sector as usize;
        let bytes = gather(&io.blocks, 0, io.len as usize).to_bytes();
        let mut written = self.written.borrow_mut();
        for (number, part) in self.sectors(io).zip(bytes.chunks_exact(sector)) {
            written.insert(number, part.into());
        }
    }

    /// Reads from the device below and replaces the sectors that were written here, as they are
    /// when that read ends.
    fn read(&self, io: Io) -> Pending {
        let range = self.sectors(&io);
        let (at, sector) = (io.at, self.info.sector as usize);
        if self.written.borrow().range(range.clone()).next().is_none() {
            return self.below.submit(io);
        }
        let (completion, result) = pending();
        let (read, written) = (self.below.submit(io), Rc::clone(&self.written));
        self.rt.spawn("overlay", async move {
            let result: IoResult = read.await.map(|blocks| {
                let len = blocks.iter().map(Block::len).sum();
                let mut buf = Buf::copy_of(&gather(&blocks, 0, len).to_bytes());
                for (&number, bytes) in written.borrow().range(range) {
                    let from = (number * sector as u64 - at) as usize;
                    buf[from..from + sector].copy_from_slice(bytes);
                }
                vec![Block::Bytes(buf.freeze())]
            });
            completion.done(result);
        });
        result
    }
}

impl BlockDevice for Overlay {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn submit(&self, io: Io) -> Pending {
        if let Err(error) = self.info.check(&io) {
            return Pending::ready(Err(error));
        }
        match io.kind {
            IoKind::Read => return self.read(io),
            IoKind::Write => self.keep(&io),
            IoKind::Flush | IoKind::Discard => {}
        }
        Pending::ready(Ok(Vec::new()))
    }

    fn in_flight(&self) -> usize {
        self.below.in_flight()
    }

    fn bounds(&self) -> Option<ServiceBounds> {
        self.below.bounds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, MemDisk, Origin};
    use twin_rt::ClockOnly;

    fn write(at: u64, byte: u8, len: usize) -> Io {
        let block = Block::Bytes(Buf::copy_of(&vec![byte; len]).freeze());
        Io::write(at, vec![block], Class::Meta, Origin::Recovery)
    }

    #[test]
    fn what_was_written_is_read_back_and_the_device_below_is_as_it_was() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk = Rc::new(MemDisk::from_bytes(vec![7; 8192]));
        let overlay = Overlay::new(&rt, Rc::clone(&disk) as Rc<dyn BlockDevice>);
        for io in [write(512, 1, 1024), write(1024, 2, 512), Io::flush(Origin::Recovery)] {
            rt.block_on(overlay.submit(io)).unwrap().unwrap();
        }
        let read = overlay.submit(Io::read(0, 4096, Class::Meta, Origin::Recovery));
        let blocks = rt.block_on(read).unwrap().unwrap();
        let bytes = gather(&blocks, 0, 4096).to_bytes();
        let expected: Vec<u8> =
            [7, 1, 2, 7, 7, 7, 7, 7].iter().flat_map(|&byte| [byte; 512]).collect();
        assert_eq!(bytes[..], expected[..]);
        assert!(disk.to_bytes().iter().all(|&byte| byte == 7));
        assert_eq!((disk.counts().1, overlay.bytes()), (0, 1024));
    }

    #[test]
    fn a_request_outside_the_device_is_refused() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let overlay = Overlay::new(&rt, Rc::new(MemDisk::new(4096)));
        assert!(rt.block_on(overlay.submit(write(4096, 1, 512))).unwrap().is_err());
    }
}
