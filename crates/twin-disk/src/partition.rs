//! A part of a device as a device of its own.
//!
//! Contract: addresses count from the start of the part. A flush is one of the whole device, because
//! a device knows no parts, and so is the number of requests under way. A request that leaves the part
//! fails as it would at the end of a device; an error of the device names the place on the device.

use std::cell::RefCell;
use std::future::ready;
use std::rc::Rc;

use twin_rt::BoxFuture;

use crate::{BlockDevice, DeviceInfo, Io, IoErrorKind, IoKind, Pending, ServiceBounds};

/// A range of bytes of a device.
pub struct Partition {
    device: Rc<dyn BlockDevice>,
    start: u64,
    info: RefCell<DeviceInfo>,
}

impl Partition {
    /// The `size` bytes from byte `start` on, under a name of its own.
    ///
    /// # Errors
    /// A sentence, if the range is not on the device, or does not consist of whole sectors.
    pub fn new(
        device: Rc<dyn BlockDevice>,
        start: u64,
        size: u64,
        name: &str,
    ) -> Result<Partition, String> {
        let whole = device.info();
        let sector = u64::from(whole.sector);
        if size == 0 || !start.is_multiple_of(sector) || !size.is_multiple_of(sector) {
            return Err(format!(
                "{name}: a part of a disk is some whole sectors of {sector} bytes"
            ));
        }
        if start.checked_add(size).is_none_or(|end| end > whole.size) {
            return Err(format!(
                "{name}: {size} bytes from byte {start} on do not fit a disk of {} bytes",
                whole.size
            ));
        }
        let info = DeviceInfo { size, name: name.into(), ..whole };
        Ok(Partition { device, start, info: RefCell::new(info) })
    }
}

impl BlockDevice for Partition {
    fn info(&self) -> DeviceInfo {
        self.info.borrow().clone()
    }

    fn submit(&self, io: Io) -> Pending {
        if let Err(error) = self.info.borrow().check(&io) {
            return Pending::ready(Err(error));
        }
        let at = if io.kind == IoKind::Flush { io.at } else { io.at + self.start };
        self.device.submit(Io { at, ..io })
    }

    fn in_flight(&self) -> usize {
        self.device.in_flight()
    }

    fn bounds(&self) -> Option<ServiceBounds> {
        self.device.bounds()
    }

    /// A part becomes larger as far as there is room behind it, by whole sectors.
    fn grow(&self, to: Option<u64>) -> BoxFuture<'_, Result<u64, IoErrorKind>> {
        let (whole, mut info) = (self.device.info(), self.info.borrow_mut());
        let size = to.unwrap_or(0).max(info.size);
        if !size.is_multiple_of(info.sector.into()) || size > whole.size - self.start {
            let why = format!("there are {} bytes on its disk", whole.size - self.start);
            return Box::pin(ready(Err(IoErrorKind::Other(why))));
        }
        info.size = size;
        Box::pin(ready(Ok(size)))
    }
}

#[cfg(test)]
mod tests {
    use twin_rt::{ClockOnly, Rt};

    use super::*;
    use crate::{Block, Bytes, Class, MemDisk, Origin};

    #[test]
    fn a_part_reads_what_it_has_written_and_its_neighbour_does_not() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk: Rc<dyn BlockDevice> = Rc::new(MemDisk::new(1 << 20));
        let part = |start, size| Partition::new(Rc::clone(&disk), start, size, "part").unwrap();
        let (low, high) = (part(0, 1 << 19), part(1 << 19, 1 << 19));
        let data = vec![Block::Bytes(Bytes::copy_of(&[7; 512]))];
        let write = high.submit(Io::write(1024, data.clone(), Class::Data, Origin::User));
        rt.block_on(write).unwrap().unwrap();
        let read = |device: &dyn BlockDevice, at| {
            let read = device.submit(Io::read(at, 512, Class::Data, Origin::User));
            bytes(&rt.block_on(read).unwrap().unwrap())
        };
        assert_eq!(read(&high, 1024), [7; 512]);
        assert_eq!(read(&low, 1024), [0; 512]);
        assert_eq!(read(&*disk, (1 << 19) + 1024), [7; 512]);
        let beyond = low.submit(Io::read(1 << 19, 512, Class::Data, Origin::User));
        assert!(rt.block_on(beyond).unwrap().is_err());
    }

    fn bytes(blocks: &[Block]) -> Vec<u8> {
        crate::gather(blocks, 0, 512).to_bytes().to_vec()
    }

    #[test]
    fn a_part_that_is_not_on_the_disk_is_refused() {
        let disk: Rc<dyn BlockDevice> = Rc::new(MemDisk::new(1 << 20));
        for (start, size) in
            [(0, (1 << 20) + 512), (512, 1 << 20), (1, 512), (0, 0), (u64::MAX - 511, 512)]
        {
            assert!(
                Partition::new(Rc::clone(&disk), start, size, "part").is_err(),
                "{start} {size}"
            );
        }
    }
}
