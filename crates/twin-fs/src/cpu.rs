//! What the host's processor does, named so that a simulator can charge time for it.
//!
//! On a host the work itself takes time and [`Cpu::none`] charges nothing.

use std::rc::Rc;

use twin_rt::{Budget, Nanos, Rt};

/// A piece of work that the core is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The fixed part of an operation: system call, lookup of the inode, locks.
    Op(OpKind),
    /// Copying this many bytes between client and cache.
    Copy(u64),
    /// Handling one block in the cache: finding it, linking it, mapping it.
    Block,
    /// Preparing one device request.
    Request,
}

/// Operations by what they cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Finding a name.
    Lookup,
    /// Making a name and an inode.
    Create,
    /// Removing a name.
    Remove,
    /// Moving or linking a name.
    Rename,
    /// Opening, closing.
    Open,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Attributes.
    Attr,
    /// Reading a directory.
    ReadDir,
    /// fsync and sync, apart from their writes.
    Sync,
    /// Anything else.
    Other,
}

/// Says how long a piece of work takes.
pub trait CpuModel {
    /// The time on one processor.
    fn cost_ns(&self, work: Work) -> Nanos;
}

/// The processors of the simulated host, or of a real one, which needs no model.
#[derive(Clone)]
pub struct Cpu(Option<Rc<Processors>>);

struct Processors {
    rt: Rt,
    model: Box<dyn CpuModel>,
    free: Budget,
    busy_ns: std::cell::Cell<Nanos>,
}

impl Cpu {
    /// No model: work takes the time that it takes.
    pub fn none() -> Cpu {
        Cpu(None)
    }

    /// `count` processors whose work takes the time that `model` says.
    pub fn modelled(rt: Rt, model: Box<dyn CpuModel>, count: u64) -> Cpu {
        let free = Budget::new(count);
        Cpu(Some(Rc::new(Processors { rt, model, free, busy_ns: Default::default() })))
    }

    /// Occupies a processor for the work. Waits in a simulation, never on a host.
    pub async fn charge(&self, work: Work) {
        if let Some(cpus) = &self.0 {
            self.occupy(cpus.model.cost_ns(work)).await;
        }
    }

    /// Occupies a processor for this long: what a program computes. Not at all on a host.
    pub async fn occupy(&self, cost: Nanos) {
        let Some(cpus) = &self.0 else { return };
        if cost > 0 {
            let _one = cpus.free.take(1).await;
            cpus.busy_ns.set(cpus.busy_ns.get() + cost);
            cpus.rt.sleep(cost).await;
        }
    }

    /// Processor time charged so far.
    pub fn busy_ns(&self) -> Nanos {
        self.0.as_ref().map_or(0, |cpus| cpus.busy_ns.get())
    }
}
