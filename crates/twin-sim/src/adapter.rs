//! The host's side of a disk: the driver and its adapter.
//!
//! Contract: a request larger than the adapter can move in one transfer goes to the disk as
//! several, in order and all at once, and completes when all have. Each transfer first costs the
//! processor what preparing a request costs. [`info`](BlockDevice::info) says how long one transfer
//! may be, so that whoever can choose asks for no more.

use std::rc::Rc;

use twin_disk::{Block, BlockDevice, DeviceInfo, Io, IoKind, Pending, pending};
use twin_fs::{Cpu, Work};
use twin_rt::{Rt, join_all};

/// A device behind a driver that breaks requests up and takes processor time.
pub struct HostAdapter<D> {
    rt: Rt,
    inner: Rc<D>,
    cpu: Cpu,
}

impl<D: BlockDevice> HostAdapter<D> {
    /// A driver for `inner`, which works on `cpu`.
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
        let (inner, cpu) = (Rc::clone(&self.inner), self.cpu.clone());
        self.rt.run_or_spawn("driver", async move {
            let mut under_way = Vec::new();
            for part in transfers(io, inner.info().max_io.into()) {
                cpu.charge(Work::Request).await;
                under_way.push(inner.submit(part));
            }
            let mut all = Vec::new();
            for result in join_all(under_way).await {
                match result {
                    Ok(blocks) => all.extend(blocks),
                    Err(error) => return completion.done(Err(error)),
                }
            }
            completion.done(Ok(all));
        });
        ticket
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
}

/// A request as requests of at most `most` bytes, in order.
fn transfers(io: Io, most: u64) -> Vec<Io> {
    if io.len <= most {
        return vec![io];
    }
    let mut parts = Vec::new();
    let mut rest = io.blocks.into_iter();
    let mut cut: Option<Block> = None;
    let mut at = io.at;
    while at < io.at + io.len {
        let len = most.min(io.at + io.len - at);
        let mut blocks = Vec::new();
        let mut missing = if io.kind == IoKind::Write { len as usize } else { 0 };
        while missing > 0 {
            let Some(block) = cut.take().or_else(|| rest.next()) else { break };
            if block.len() > missing {
                cut = Some(block.slice(missing, block.len() - missing));
                blocks.push(block.slice(0, missing));
                missing = 0;
            } else {
                missing -= block.len();
                blocks.push(block);
            }
        }
        parts.push(Io { kind: io.kind, at, len, blocks, class: io.class, origin: io.origin });
        at += len;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::Bus;
    use crate::{SimDisk, model};
    use twin_disk::{Class, Origin};
    use twin_rt::ClockOnly;

    #[test]
    fn a_request_larger_than_a_transfer_becomes_several_with_the_same_bytes() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let model = model::by_name("instant").unwrap().build(&model::Options::default()).unwrap();
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
