//! The kernel between clients and a mount, as a part: what it costs to pass a request to the core.
//!
//! Contract: a request that the kernel would send to a mount takes its transit on both sides, while other
//! clients may use the processors, and occupies the core's processor while it is read, parsed and answered.
//! Requests that never reach a mount of ours (opening and closing, which the kernel does alone) cost
//! nothing, and forgetting costs no client any time. What the kernel keeps is not modelled here: that is
//! [`Kernel`](crate::kernel::Kernel).

use twin_fs::quota::Quota;
use twin_fs::{Cpu, Data, FileSystem, FsError, Ino, Op, Reply, Request, Room};
use twin_rt::{MICROS, Nanos, Rt};

/// The cost of passing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FuseCosts {
    /// Time between the client and the core, there and back.
    pub transit_ns: Nanos,
    /// Time of the core's processor for each request.
    pub serve_ns: Nanos,
    /// Time of the core's processor for each byte of data, in picoseconds.
    pub copy_ps_per_byte: u64,
}

impl Default for FuseCosts {
    /// About 14 us a request, measured on a machine of 2026, of which the core's processor works
    /// for a third; copies at 10 GB/s, assumed.
    fn default() -> Self {
        FuseCosts { transit_ns: 9 * MICROS, serve_ns: 5 * MICROS, copy_ps_per_byte: 100 }
    }
}

/// A file system behind a mount.
pub struct Fuse<F> {
    inner: F,
    rt: Rt,
    cpu: Cpu,
    costs: FuseCosts,
}

impl<F> Fuse<F> {
    /// Puts the kernel before `inner`, whose work runs on `cpu`.
    pub fn new(rt: &Rt, inner: F, cpu: Cpu, costs: FuseCosts) -> Fuse<F> {
        Fuse { inner, rt: rt.clone(), cpu, costs }
    }

    fn copy_ns(&self, bytes: u64) -> Nanos {
        bytes.saturating_mul(self.costs.copy_ps_per_byte) / 1000
    }
}

impl<F: FileSystem> FileSystem for Fuse<F> {
    async fn execute(&self, request: Request) -> Result<Reply, FsError> {
        match self.inner.due(&request.op) {
            None => self.pass(request).await,
            due => Box::pin(self.rt.by(due, self.pass(request))).await,
        }
    }

    fn room(&self) -> Option<Room> {
        self.inner.room()
    }

    fn room_of(&self, ino: Ino) -> Option<u64> {
        self.inner.room_of(ino)
    }

    fn quota_of(&self, ino: Ino) -> Option<Quota> {
        self.inner.quota_of(ino)
    }

    fn held(&self) -> Vec<Ino> {
        self.inner.held()
    }
}

impl<F: FileSystem> Fuse<F> {
    /// Passes a request on, and its answer back.
    async fn pass(&self, request: Request) -> Result<Reply, FsError> {
        if matches!(request.op, Op::Open { .. } | Op::Release { .. } | Op::Forget { .. }) {
            return self.inner.execute(request).await;
        }
        let sent = request.op.written().map_or(0, |(_, _, data)| Data::len(data));
        let (way, serve) = (self.costs.transit_ns / 2, self.costs.serve_ns / 2);
        self.rt.sleep(way).await;
        self.cpu.occupy(serve + self.copy_ns(sent)).await;
        let result = self.inner.execute(request).await;
        let returned = match &result {
            Ok(Reply::Data(blocks)) => blocks.iter().map(|block| block.len() as u64).sum(),
            _ => 0,
        };
        self.cpu.occupy(self.costs.serve_ns - serve + self.copy_ns(returned)).await;
        self.rt.sleep(self.costs.transit_ns - way).await;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use twin_rt::{ClockOnly, Time};

    struct Answers;

    impl FileSystem for Answers {
        async fn execute(&self, _: Request) -> Result<Reply, FsError> {
            Ok(Reply::Done)
        }
    }

    fn mount(rt: &Rt) -> Rc<Fuse<Answers>> {
        let costs = FuseCosts { transit_ns: 9000, serve_ns: 5000, copy_ps_per_byte: 1000 };
        let free = crate::cpu::REGISTRY.get("free").unwrap().build();
        let cpu = Cpu::modelled(rt.clone(), free, 1);
        Rc::new(Fuse::new(rt, Answers, cpu, costs))
    }

    #[test]
    fn a_request_costs_transit_service_and_its_bytes() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let fs = mount(&rt);
        rt.block_on(fs.execute(Request::root(1, Op::StatFs))).unwrap().unwrap();
        assert_eq!(rt.now(), Time(14_000));
        let write = Op::Write { ino: 2, off: 0, data: Data::Synthetic(4096) };
        rt.block_on(fs.execute(Request::root(2, write))).unwrap().unwrap();
        assert_eq!(rt.now(), Time(28_000 + 4096));
    }

    #[test]
    fn opening_and_forgetting_cost_nothing() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let fs = mount(&rt);
        rt.block_on(fs.execute(Request::root(1, Op::Release { ino: 2 }))).unwrap().unwrap();
        rt.block_on(fs.execute(Request::root(2, Op::Forget { ino: 2, count: 1 })))
            .unwrap()
            .unwrap();
        assert_eq!(rt.now(), Time(0));
    }

    #[test]
    fn two_clients_share_the_core_s_processor_and_not_their_ways() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let fs = mount(&rt);
        for id in 1..=2 {
            let fs = Rc::clone(&fs);
            rt.spawn("client", async move {
                let _ = fs.execute(Request::root(id, Op::StatFs)).await;
            });
        }
        let waiting = rt.clone();
        rt.block_on(async move { waiting.sleep(1_000_000).await }).unwrap();
        assert_eq!(fs.cpu.busy_ns(), 10_000);
    }
}
