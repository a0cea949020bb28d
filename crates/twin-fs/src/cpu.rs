//! The work of the processor, named so that a simulation can charge time for it.
//!
//! On a host the work takes its own time, and [`Cpu::none`] charges nothing.

use std::rc::Rc;

use twin_rt::{Budget, Nanos, Rt};

/// A piece of work that the core is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The fixed part of an operation: system call, lookup of the inode, locks.
    Op(OpKind),
    /// Copying this many bytes between client and cache.
    Copy(u64),
    /// Handling one block in the cache: the lookup, the replacement list, the block map.
    Block,
    /// Preparing one device request of this many bytes.
    Request(u64),
}

/// Classes of operations that differ in their cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// A name is looked up.
    Lookup,
    /// Making a name and an inode.
    Create,
    /// A name is removed.
    Remove,
    /// Moving or linking a name.
    Rename,
    /// A file is opened or closed.
    Open,
    /// Data is read.
    Read,
    /// Data is written.
    Write,
    /// Reading or changing attributes.
    Attr,
    /// A directory is listed.
    ReadDir,
    /// fsync and sync, apart from their writes.
    Sync,
    /// Any other operation.
    Other,
}

/// The model of a processor: how long each kind of work takes.
pub trait CpuModel {
    /// The time that the work takes on one processor.
    fn cost_ns(&self, work: Work) -> Nanos;

    /// The time of a client program's computing that takes `on_reference` on the machine for which
    /// such times are given, a SparcStation II.
    fn program_ns(&self, on_reference: Nanos) -> Nanos {
        on_reference
    }
}

/// The processors of the simulated host. A real host needs no model.
#[derive(Clone)]
pub struct Cpu(Option<Rc<Processors>>);

struct Processors {
    rt: Rt,
    model: Box<dyn CpuModel>,
    free: Budget,
    busy_ns: std::cell::Cell<Nanos>,
}

impl Cpu {
    /// No model, for a host: nothing is charged.
    pub fn none() -> Cpu {
        Cpu(None)
    }

    /// `count` processors on which work takes the time given by `model`, and for which it waits in the order of the
    /// runtime's tasks. Work that has begun is not interrupted.
    pub fn modelled(rt: Rt, model: Box<dyn CpuModel>, count: u64) -> Cpu {
        let free = Budget::of_processors(count, &rt);
        Cpu(Some(Rc::new(Processors { rt, model, free, busy_ns: Default::default() })))
    }

    /// Occupies a processor for the work. Waits in a simulation, never on a host.
    pub async fn charge(&self, work: Work) {
        if let Some(cpus) = &self.0 {
            self.occupy(cpus.model.cost_ns(work)).await;
        }
    }

    /// Occupies a processor for the computing of a client program, which takes `on_reference` on a
    /// SparcStation II. Does nothing on a host.
    pub async fn compute(&self, on_reference: Nanos) {
        if let Some(cpus) = &self.0 {
            self.occupy(cpus.model.program_ns(on_reference)).await;
        }
    }

    /// Occupies a processor for `cost`. Does nothing on a host.
    pub async fn occupy(&self, cost: Nanos) {
        let Some(cpus) = &self.0 else { return };
        if cost > 0 {
            let _one = cpus.free.take(1).await;
            cpus.busy_ns.set(cpus.busy_ns.get() + cost);
            cpus.rt.sleep(cost).await;
        }
    }

    /// The processor time charged so far, summed over all processors.
    pub fn busy_ns(&self) -> Nanos {
        self.0.as_ref().map_or(0, |cpus| cpus.busy_ns.get())
    }
}
