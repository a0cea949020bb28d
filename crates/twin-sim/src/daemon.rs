//! A daemon that serves a mount, as a part: what its requests take more than the same work in a loop.
//!
//! Contract: a request of a kind that the daemon has not served for a while finds its code and data in no cache of
//! the processor, and a write that leaves a block filled in part needs memory of its own, which the kernel has to
//! clear first. Both occupy the core's processor before the request is executed. How much is measured on the machine
//! (`twinfs calibrate`); without figures nothing is added.

use std::cell::Cell;

use twin_fs::quota::Quota;
use twin_fs::{Cpu, Data, FileSystem, FsError, Ino, LookupEntry, Op, Peeked, Reply, Request, Room};
use twin_rt::{Nanos, Rt, Time};

/// What a request takes longer when none of its kind was served for so long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cold {
    /// How long.
    pub idle_ns: Nanos,
    /// Looking up a name.
    pub lookup_ns: Nanos,
    /// Making, removing or renaming a name.
    pub create_ns: Nanos,
    /// Writing.
    pub write_ns: Nanos,
    /// Everything else but a sync, whose time is the device's.
    pub attr_ns: Nanos,
}

/// The additional times of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonCosts {
    /// After idle times, in ascending order; none before the first, and no more than after the last.
    pub cold: Vec<Cold>,
    /// Of a write that leaves a block filled in part.
    pub part_ns: Nanos,
    /// Bytes of a block.
    pub block: u64,
}

/// Kinds of requests that share code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lookup,
    Create,
    Write,
    Attr,
}

impl Kind {
    /// The kind of a request; `None` for those that are not charged.
    fn of(op: &Op) -> Option<Kind> {
        Some(match op {
            Op::Lookup { .. } => Kind::Lookup,
            Op::Create { .. }
            | Op::MakeNode { .. }
            | Op::MakeDir { .. }
            | Op::Symlink { .. }
            | Op::Link { .. }
            | Op::Unlink { .. }
            | Op::RemoveDir { .. }
            | Op::Rename { .. } => Kind::Create,
            Op::Write { .. } | Op::WriteBack { .. } | Op::Append { .. } => Kind::Write,
            // The kernel opens and closes by itself, and forgets without waiting.
            Op::Open { .. } | Op::Release { .. } | Op::Forget { .. } => return None,
            Op::Fsync { .. } | Op::Sync => return None,
            _ => Kind::Attr,
        })
    }
}

impl Cold {
    fn of(&self, kind: Kind) -> Nanos {
        match kind {
            Kind::Lookup => self.lookup_ns,
            Kind::Create => self.create_ns,
            Kind::Write => self.write_ns,
            Kind::Attr => self.attr_ns,
        }
    }
}

impl DaemonCosts {
    /// What a request of this kind takes longer after none for so long: interpolated.
    fn cold(&self, kind: Kind, idle: Nanos) -> Nanos {
        let above = self.cold.partition_point(|cold| cold.idle_ns <= idle);
        let below = above.checked_sub(1).map_or(Cold::default(), |at| self.cold[at]);
        let Some(above) = self.cold.get(above) else { return below.of(kind) };
        let share = (idle - below.idle_ns) as f64 / (above.idle_ns - below.idle_ns).max(1) as f64;
        let (from, to) = (below.of(kind) as f64, above.of(kind) as f64);
        (from + (to - from) * share) as Nanos
    }

    /// What a request takes longer for a block that it fills in part.
    fn part(&self, op: &Op) -> Nanos {
        let Some((_, off, data)) = op.written() else { return 0 };
        let end = off.saturating_add(Data::len(data));
        let in_part = self.block > 0 && !end.is_multiple_of(self.block);
        if in_part { self.part_ns } else { 0 }
    }
}

/// A file system that a daemon serves.
pub struct Daemon<F> {
    inner: F,
    rt: Rt,
    cpu: Cpu,
    costs: DaemonCosts,
    /// When the last request of each kind ended.
    served: [Cell<Option<Time>>; 4],
}

impl<F> Daemon<F> {
    /// Has a daemon serve `inner`, whose work runs on `cpu`.
    pub fn new(rt: &Rt, inner: F, cpu: Cpu, costs: DaemonCosts) -> Daemon<F> {
        Daemon { inner, rt: rt.clone(), cpu, costs, served: Default::default() }
    }

    fn longer(&self, op: &Op) -> Nanos {
        let Some(kind) = Kind::of(op) else { return 0 };
        // The first of its kind is as cold as can be.
        let idle = self.served[kind as usize].get().map_or(Nanos::MAX, |at| self.rt.now() - at);
        self.costs.cold(kind, idle) + self.costs.part(op)
    }
}

impl<F: FileSystem> FileSystem for Daemon<F> {
    async fn execute(&self, request: Request) -> Result<Reply, FsError> {
        let kind = Kind::of(&request.op);
        let longer = self.longer(&request.op);
        if longer > 0 {
            self.cpu.occupy(longer).await;
        }
        let result = self.inner.execute(request).await;
        if let Some(kind) = kind {
            self.served[kind as usize].set(Some(self.rt.now()));
        }
        result
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

    fn due(&self, op: &Op) -> Option<Time> {
        self.inner.due(op)
    }

    fn held(&self) -> Vec<Ino> {
        self.inner.held()
    }

    fn peek(&self, dir: Ino, name: &[u8]) -> Peeked {
        self.inner.peek(dir, name)
    }

    fn known(&self, ino: Ino) -> Option<LookupEntry> {
        self.inner.known(ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use twin_rt::ClockOnly;

    struct Answers;

    impl FileSystem for Answers {
        async fn execute(&self, _: Request) -> Result<Reply, FsError> {
            Ok(Reply::Done)
        }
    }

    fn daemon(rt: &Rt, costs: DaemonCosts) -> Rc<Daemon<Answers>> {
        let free = crate::cpu::REGISTRY.get("free").unwrap().build();
        let cpu = Cpu::modelled(rt.clone(), free, 1);
        Rc::new(Daemon::new(rt, Answers, cpu, costs))
    }

    fn costs() -> DaemonCosts {
        let cold = |idle_ns, us: u64| Cold {
            idle_ns,
            lookup_ns: us * 1000,
            create_ns: 3000 * us,
            write_ns: 2000 * us,
            attr_ns: 1000 * us,
        };
        let cold = vec![cold(100_000, 2), cold(1_000_000, 10)];
        DaemonCosts { cold, part_ns: 5000, block: 4096 }
    }

    /// The time that a request takes after a pause.
    fn took(rt: &Rt, fs: &Rc<Daemon<Answers>>, pause: Nanos, op: Op) -> Nanos {
        let (rt, fs) = (rt.clone(), Rc::clone(fs));
        let waiting = rt.clone();
        rt.block_on(async move {
            waiting.sleep(pause).await;
            let begun = waiting.now();
            let _ = fs.execute(Request::root(1, op)).await;
            waiting.now() - begun
        })
        .unwrap()
    }

    fn lookup() -> Op {
        Op::Lookup { dir: 1, name: (*b"a").into() }
    }

    #[test]
    fn a_kind_that_was_not_served_for_a_while_takes_longer() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let fs = daemon(&rt, costs());
        assert_eq!(took(&rt, &fs, 0, lookup()), 10_000, "the first is cold");
        assert_eq!(took(&rt, &fs, 1000, lookup()), 20, "1 us of 100 us");
        assert_eq!(took(&rt, &fs, 100_000, lookup()), 2000);
        assert_eq!(took(&rt, &fs, 550_000, lookup()), 6000);
        assert_eq!(took(&rt, &fs, 90_000_000, lookup()), 10_000, "no more than after the longest");
        assert_eq!(took(&rt, &fs, 0, Op::GetAttr { ino: 1 }), 10_000, "another kind is cold");
        assert_eq!(took(&rt, &fs, 90_000_000, Op::Sync), 0, "a sync is the device's");
    }

    #[test]
    fn a_write_that_leaves_a_block_in_part_takes_longer() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let fs = daemon(&rt, DaemonCosts { cold: Vec::new(), ..costs() });
        let write = |off, len| Op::Write { ino: 2, off, data: Data::Synthetic(len) };
        assert_eq!(took(&rt, &fs, 0, write(0, 4096)), 0);
        assert_eq!(took(&rt, &fs, 0, write(4096, 2000)), 5000);
        assert_eq!(took(&rt, &fs, 0, write(0, 8192)), 0);
        let none = daemon(&rt, DaemonCosts::default());
        assert_eq!(took(&rt, &none, 90_000_000, write(1, 5)), 0, "nothing without figures");
    }
}
