//! The host's side of a disk: the driver and its adapter.
//!
//! Contract: a request larger than the adapter can move in one transfer goes to the disk as several
//! requests, in order and all at once, and completes when all of them have. Each transfer first
//! costs the processor the preparation of a request, by the deadline of the request; for this reason requests are split here and
//! not in the disk. [`info`](BlockDevice::info) reports the largest transfer.

use std::rc::Rc;

use twin_disk::{BlockDevice, DeviceInfo, Io, IoKind, Pending, ServiceBounds, all_parts, pending};
use twin_fs::{Cpu, Work};
use twin_rt::Rt;

/// A device behind a driver that splits requests and uses processor time.
pub struct HostAdapter<D> {
    rt: Rt,
    inner: Rc<D>,
    cpu: Cpu,
}

impl<D: BlockDevice> HostAdapter<D> {
    /// A driver for `inner` whose work runs on `cpu`.
    pub fn new(rt: &Rt, inner: D, cpu: Cpu) -> HostAdapter<D> {
        HostAdapter { rt: rt.clone(), inner: Rc::new(inner), cpu }
    }
}

impl<D: BlockDevice> BlockDevice for HostAdapter<D> {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn submit(&self, io: Io) -> Pending {
        if !matches!(io.kind, IoKind::Read | IoKind::Write) {
            return self.inner.submit(io);
        }
        let (completion, ticket) = pending();
        let (inner, cpu, due) = (Rc::clone(&self.inner), self.cpu.clone(), io.deadline);
        let driver = async move {
            let mut under_way = Vec::new();
            for part in io.parts(inner.info().max_io) {
                cpu.charge(Work::Request(part.len)).await;
                under_way.push(inner.submit(part));
            }
            completion.done(all_parts(under_way).await);
        };
        match due.filter(|_| self.rt.knows_deadlines()) {
            None => self.rt.run_or_spawn("driver", driver),
            due => {
                let rt = self.rt.clone();
                self.rt.run_or_spawn("driver", async move { rt.by(due, driver).await });
            }
        }
        ticket
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn bounds(&self) -> Option<ServiceBounds> {
        self.inner.bounds()
    }

    fn drops_dead(&self) -> bool {
        self.inner.drops_dead()
    }

    fn drop_dead(&self, at: u64, len: u64) {
        self.inner.drop_dead(at, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::Bus;
    use crate::{SimDisk, model};
    use twin_disk::{Block, Class, Origin};
    use twin_rt::ClockOnly;

    #[test]
    fn a_request_larger_than_a_transfer_becomes_several_with_the_same_bytes() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let model =
            model::REGISTRY.get("instant").unwrap().build(&model::Options::default()).unwrap();
        let disk = SimDisk::builder(&rt, model).bus(Bus::new(1 << 20, 64 << 10)).start();
        let adapter = HostAdapter::new(&rt, disk.clone(), Cpu::none());
        let bytes: Vec<u8> = (0..150_000u32).map(|i| i as u8).collect();
        let bytes = &bytes[..292 * 512];
        let blocks = bytes.chunks(10_000).map(|c| Block::Bytes(twin_disk::Bytes::copy_of(c)));
        let write = Io::write(4096, blocks.collect(), Class::Data, Origin::User);
        rt.block_on(adapter.submit(write)).unwrap().unwrap();
        assert_eq!(disk.stats().writes.requests, 3);
        let read = Io::read(4096, bytes.len() as u64, Class::Data, Origin::User);
        let read = rt.block_on(adapter.submit(read)).unwrap().unwrap();
        let got = twin_disk::gather(&read, 0, bytes.len()).to_bytes();
        assert_eq!(&got[..], bytes);
        assert_eq!(disk.stats().reads.requests, 3);
    }
}
