//! The simulated disk: a [`BlockDevice`] made of a model, a queue, a platter and faults.
//!
//! Contract: requests are served in virtual time, in the order that the scheduler chooses, as many
//! at once as the model's depth. A drive whose queue is longer than that takes so many requests
//! from the scheduler and chooses their order itself. A write changes the platter when it completes, and a read returns
//! the content of the platter at its completion. With a write cache, a completed write is in doubt
//! at a power failure until a flush that was submitted after the write's completion has completed;
//! without a cache, completed writes are durable. A request longer than the model's largest
//! transfer is served in parts, each of which counts as a request of its own. The same requests at
//! the same times give the same completions at the same times.

mod commands;
mod durability;
mod engine;

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use twin_disk::queue::{self, Scheduler};
use twin_disk::{
    BlockDevice, DeviceInfo, Io, IoKind, Origin, Pending, ServiceBounds, all_parts, pending,
};
use twin_rt::{Event, Nanos, Rng, Rt, Time};

use crate::bus::Bus;
use crate::faults::{CrashState, FaultPlan, WriteLog};
use crate::model::{DeviceModel, Prices, Wear};
use crate::planted::PlantedFault;
use crate::{DiskStats, Platter, TimeBreakdown};
use engine::{Engine, EngineParts};

/// A request that the device has begun to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Read, write, flush or discard.
    pub kind: IoKind,
    /// First byte on the device.
    pub at: u64,
    /// Length of the request in bytes.
    pub len: u64,
    /// The part of the system for which the request was made.
    pub origin: Origin,
    /// When the device began to serve it.
    pub begun: Time,
    /// When the medium has finished it. With a bus the data may reach the host later.
    pub done: Time,
    /// How its time is divided, the wait in the queue included.
    pub parts: TimeBreakdown,
    /// Reads and writes that wait while it begins, without itself.
    pub waiting: usize,
    /// The cylinders of its first and its last byte; `None` without an arm.
    pub cylinders: Option<(u32, u32)>,
}

/// Called for requests as the device begins to serve them. It must not use the disk.
pub type Observer = Rc<dyn Fn(&Served)>;

/// A disk under virtual time. Cloning gives another handle to the same disk; when the last handle
/// is dropped, requests in flight never complete.
#[derive(Clone)]
pub struct SimDisk(Rc<Inner>);

struct Inner {
    rt: Rt,
    info: DeviceInfo,
    engine: RefCell<Engine>,
    power: Rc<Event>,
}

/// Builds a [`SimDisk`]. Everything has a default: an empty platter, a first-come queue, no bus, no
/// faults.
pub struct Builder {
    rt: Rt,
    name: Option<String>,
    model: Box<dyn DeviceModel>,
    scheduler: Option<Box<dyn Scheduler>>,
    bus: Option<Bus>,
    platter: Option<Platter>,
    faults: FaultPlan,
    crashable: bool,
    log: Option<WriteLog>,
    planted: PlantedFault,
}

impl SimDisk {
    /// A builder for a disk with this model.
    pub fn builder(rt: &Rt, model: Box<dyn DeviceModel>) -> Builder {
        Builder {
            rt: rt.clone(),
            name: None,
            model,
            scheduler: None,
            bus: None,
            platter: None,
            faults: FaultPlan::none(),
            crashable: false,
            log: None,
            planted: PlantedFault::None,
        }
    }

    /// Statistics since the start or the last reset.
    pub fn stats(&self) -> DiskStats {
        self.0.engine.borrow().stats(self.0.rt.now())
    }

    /// Resets the statistics: after a warm-up, or between the phases of a benchmark.
    pub fn reset_stats(&self) {
        self.0.engine.borrow_mut().reset_stats(self.0.rt.now());
    }

    /// How long its mechanics have worked since it was made, in nanoseconds; `None` without
    /// mechanics. Writes that the drive has reported early are part of it.
    pub fn mechanics_ns(&self) -> Option<Nanos> {
        self.0.engine.borrow().mechanics_ns()
    }

    /// The wear of the medium since the disk was made; `None` if the medium does not wear or its
    /// wear is not modelled.
    pub fn wear(&self) -> Option<Wear> {
        self.0.engine.borrow().wear()
    }

    /// What it charges, if it is the service of an object store.
    pub fn prices(&self) -> Option<Prices> {
        self.0.engine.borrow().prices()
    }

    /// The bus between it and the host, if it has one.
    pub fn bus(&self) -> Option<Bus> {
        self.0.engine.borrow().bus()
    }

    /// Calls `observer`, in place of an earlier observer, for every request that the device begins
    /// to serve, in the order of service. The run itself does not change.
    pub fn observe(&self, observer: Observer) {
        self.0.engine.borrow_mut().observer = Some(observer);
    }

    /// Drops from now on what the file system says is [dead](BlockDevice::drop_dead), so that its memory does not grow with
    /// all that was ever written. Only for a run of whose disk nobody looks at more than what requests can see:
    /// what a recovery would find in free space is gone. Nothing happens where the disk keeps more than its
    /// content: if it is crashable, has a plan of faults, or writes a log.
    pub fn keep_no_dead_blocks(&self) {
        self.0.engine.borrow_mut().keep_no_dead_blocks();
    }

    /// Bytes of memory that its content takes.
    pub fn content_heap_bytes(&self) -> usize {
        self.0.engine.borrow().platter().heap_bytes()
    }

    /// A snapshot of its content, completed writes included: the content that it would have after a
    /// clean stop.
    pub fn platter(&self) -> Platter {
        self.0.engine.borrow().platter().clone()
    }

    /// A snapshot of the content that it would have without faults. It equals the platter unless a
    /// fault plan was given.
    pub fn intended(&self) -> Platter {
        self.0.engine.borrow().intended().clone()
    }

    /// What is certain and what is in doubt if the power fails now. Every submitted write that is
    /// not certain is in doubt, also one that still waits in the queue, because a little later it
    /// might have been under way. `None` unless the disk was built as
    /// [crashable](Builder::crashable).
    pub fn crash_state(&self) -> Option<CrashState> {
        self.0.engine.borrow().crash_state()
    }

    /// A content that a restart may find after a power failure now, drawn from `rng`. The caller
    /// then stops the run with [`Rt::crash`]. `None` unless the disk was built as
    /// [crashable](Builder::crashable).
    pub fn power_failure(&self, rng: &mut Rng) -> Option<Platter> {
        Some(self.crash_state()?.random(rng))
    }

    /// True once its fault plan has cut the power: no request completes any more.
    pub fn is_powered_off(&self) -> bool {
        self.0.engine.borrow().is_powered_off()
    }

    /// Waits until its fault plan cuts the power.
    pub async fn power_cut(&self) {
        self.0.power.wait_until(|| self.is_powered_off()).await;
    }
}

impl Builder {
    /// The name in messages; by default that of the model.
    #[must_use]
    pub fn name(mut self, name: &str) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// The order in which waiting requests are served.
    #[must_use]
    pub fn scheduler(mut self, scheduler: Box<dyn Scheduler>) -> Builder {
        self.scheduler = Some(scheduler);
        self
    }

    /// The bus to the host, shared with the other disks that get the same one. It limits the
    /// largest request. Without a bus, data moves in no time.
    #[must_use]
    pub fn bus(mut self, bus: Bus) -> Builder {
        self.bus = Some(bus);
        self
    }

    /// The initial content: an image, or the content of another disk after a crash.
    #[must_use]
    pub fn platter(mut self, platter: Platter) -> Builder {
        self.platter = Some(platter);
        self
    }

    /// The faults that the disk is to show.
    #[must_use]
    pub fn faults(mut self, plan: FaultPlan) -> Builder {
        self.faults = plan;
        self
    }

    /// Keeps track of durable content, for [`SimDisk::crash_state`]. Unflushed writes then take
    /// memory.
    #[must_use]
    pub fn crashable(mut self) -> Builder {
        self.crashable = true;
        self
    }

    /// Records every write and flush in `log`.
    #[must_use]
    pub fn log(mut self, log: &WriteLog) -> Builder {
        self.log = Some(log.clone());
        self
    }

    /// Plants a fault in its accounts, in builds that can have one.
    #[must_use]
    pub fn planted(mut self, fault: PlantedFault) -> Builder {
        self.planted = fault;
        self
    }

    /// Starts the disk.
    ///
    /// # Panics
    /// If the platter is not of the model's size, or the log has a disk already.
    pub fn start(self) -> SimDisk {
        let spec = self.model.spec();
        let platter = self.platter.unwrap_or_else(|| Platter::new(spec.size));
        assert_eq!(platter.size(), spec.size, "the platter must be of the model's size");
        let bus_limit = self.bus.as_ref().map_or(u32::MAX, Bus::largest_transfer);
        let info = DeviceInfo {
            size: spec.size,
            sector: spec.sector,
            max_io: spec.max_io.min(bus_limit),
            name: self.name.unwrap_or_else(|| spec.name.into()),
        };
        let power = Rc::new(Event::new());
        let engine = Engine::new(EngineParts {
            model: self.model,
            scheduler: self.scheduler.unwrap_or_else(|| queue::REGISTRY.default_entry().make()),
            bus: self.bus,
            platter,
            plan: self.faults,
            crashable: self.crashable,
            log: self.log,
            power: Rc::clone(&power),
            planted: self.planted,
        });
        let rt = self.rt;
        let inner = Rc::new(Inner { rt: rt.clone(), info, engine: RefCell::new(engine), power });
        let weak = Rc::downgrade(&inner);
        rt.spawn(
            "disk",
            poll_fn(move |cx| {
                let Some(inner) = weak.upgrade() else { return Poll::Ready(()) };
                inner.engine.borrow_mut().turn(&inner.rt, cx.waker());
                Poll::Pending
            }),
        );
        SimDisk(inner)
    }
}

impl BlockDevice for SimDisk {
    fn info(&self) -> DeviceInfo {
        self.0.info.clone()
    }

    fn submit(&self, io: Io) -> Pending {
        let Inner { rt, info, engine, .. } = &*self.0;
        let most = info.max_io;
        // A request that the disk refuses is refused as a whole.
        if io.len <= most.into() || engine::accept(info, &io).is_err() {
            return engine.borrow_mut().submit(rt, info, io);
        }
        engine.borrow_mut().splits(&io);
        let parts = io.parts(most);
        let under_way: Vec<Pending> =
            parts.into_iter().map(|part| engine.borrow_mut().submit(rt, info, part)).collect();
        if under_way.len() == 1 {
            // Only a discard or a flush is longer than that and still not split.
            return under_way.into_iter().next().unwrap_or_else(|| Pending::ready(Ok(Vec::new())));
        }
        let (completion, whole) = pending();
        rt.run_or_spawn("a request's parts", async move {
            completion.done(all_parts(under_way).await);
        });
        whole
    }

    fn in_flight(&self) -> usize {
        self.0.engine.borrow().in_flight()
    }

    /// The bounds are those of the model. They do not include waits for a bus that other disks use.
    fn bounds(&self) -> Option<ServiceBounds> {
        self.0.engine.borrow().bounds()
    }

    fn drops_dead(&self) -> bool {
        self.0.engine.borrow().drops_dead()
    }

    fn drop_dead(&self, at: u64, len: u64) {
        self.0.engine.borrow_mut().drop_dead(at, len);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Lets the disk's task notice that no handle is left.
        self.engine.borrow().wake();
    }
}

#[cfg(test)]
mod bus_tests;
#[cfg(test)]
mod tests;
