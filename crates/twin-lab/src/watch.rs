//! Observing a simulated run without changing it.
//!
//! Contract: a [`Watcher`] is called from within the clock, when no task can run and before time
//! advances: no task, no timer and no event is added, so a watched run has the same digest and the
//! same figures as an unwatched one. An unwatched run has no cost for it.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;

use twin_fs::{SpaceMap, Volume};
use twin_rt::{ClockOnly, Driver, Nanos, Order, Rt, Time};
use twin_sim::Served;
use twin_sim::bus::Span;
use twin_trace::Verb;
use twin_trace::replay::Listener;

use crate::below::Below;
use crate::figures::{LogFigures, Moment};
use crate::log_at_end::LogAtEnd;
use crate::status::{Status, log_at_end};

/// The view of a run that a watcher has.
pub trait World {
    /// The current time.
    fn now(&self) -> Time;
    /// What has been done since the watch began.
    fn moment(&self) -> Moment;
    /// How full the regions of the volume are.
    fn space_map(&self) -> SpaceMap;
    /// The status of the log; `None` if the layout has no log.
    fn status(&self) -> Option<Status>;
    /// The segments of the log by how full they are; `None` if the layout has no log.
    fn log_at_end(&self) -> Option<LogAtEnd> {
        self.status().map(|status| LogAtEnd::of(status.info()))
    }
    /// The segment that contains a byte of the device, and the position in it.
    fn segment_at(&self, byte: u64) -> Option<(u32, u64)>;
    /// The volume and what is below it, if this is a running simulation.
    fn inside(&self) -> Option<(&Volume, &Below)> {
        None
    }
}

/// An observer of the measured part of a run, without its preparation.
pub trait Watcher: 'static {
    /// The measured part begins.
    fn begin(&mut self, _: &dyn World) {}

    /// The disk begins to serve a request.
    fn served(&mut self, _: &Served) {}

    /// A bus between host and disk has been given to a device that waited so long for it.
    fn bus_given(&mut self, _wait_ns: Nanos, _span: Span) {}

    /// An operation has ended.
    fn ended(&mut self, _verb: Verb, _latency_ns: Nanos) {}

    /// There is no event before `next`. [`ControlFlow::Break`] ends the run immediately.
    fn look(&mut self, world: &dyn World, next: Time) -> ControlFlow<()>;

    /// The measured part has ended.
    fn end(&mut self, _: &dyn World) {}
}

/// The connection of a watcher with the clock of a run and its volume.
#[derive(Clone)]
pub struct WatchedRun(Rc<Inner>);

struct Inner {
    watcher: Rc<RefCell<dyn Watcher>>,
    world: RefCell<Option<Rc<dyn World>>>,
    stopped: Cell<bool>,
}

impl WatchedRun {
    /// A run that this watcher will watch.
    pub fn new(watcher: Rc<RefCell<dyn Watcher>>) -> WatchedRun {
        WatchedRun(Rc::new(Inner { watcher, world: RefCell::default(), stopped: Cell::new(false) }))
    }

    /// A runtime whose clock calls the watcher.
    pub fn runtime(&self, seed: u64, order: Order) -> Rt {
        let run = self.clone();
        watched_runtime(seed, order, move |next| {
            run.look(next);
            !run.is_stopped()
        })
    }

    /// Tells the watcher of operations that have ended, while it watches.
    pub(crate) fn listener(&self) -> Listener {
        let run = self.clone();
        Rc::new(move |verb, latency_ns| {
            if run.0.world.borrow().is_some() {
                run.0.watcher.borrow_mut().ended(verb, latency_ns);
            }
        })
    }

    /// The watch begins.
    pub fn begin(&self, below: &Below, volume: &Volume) {
        let world: Rc<dyn World> = Rc::new(Watched::since_now(below, volume));
        let disk = &below.disk;
        self.0.watcher.borrow_mut().begin(&*world);
        *self.0.world.borrow_mut() = Some(world);
        let run = self.clone();
        disk.observe(Rc::new(move |served| {
            if run.0.world.borrow().is_some() {
                run.0.watcher.borrow_mut().served(served);
            }
        }));
        if let Some(bus) = disk.bus() {
            let run = self.clone();
            bus.observe(Rc::new(move |wait_ns, span| {
                if run.0.world.borrow().is_some() {
                    run.0.watcher.borrow_mut().bus_given(wait_ns, span);
                }
            }));
        }
    }

    /// The watch ends normally.
    pub fn end(&self) {
        if let Some(world) = self.leave() {
            self.0.watcher.borrow_mut().end(&*world);
        }
    }

    /// Ends the watch in any case, so that the volume can be dropped.
    pub fn leave(&self) -> Option<Rc<dyn World>> {
        self.0.world.borrow_mut().take()
    }

    /// True if the watcher has ended the run.
    pub(crate) fn is_stopped(&self) -> bool {
        self.0.stopped.get()
    }

    fn look(&self, next: Time) {
        let world = self.0.world.borrow().clone();
        if let Some(world) = world {
            let flow = self.0.watcher.borrow_mut().look(&*world, next);
            self.0.stopped.set(flow.is_break());
        }
    }
}

/// A runtime whose clock calls `look` before time advances, with the time of the next event; the run
/// ends when that returns false.
pub fn watched_runtime(seed: u64, order: Order, look: impl FnMut(Time) -> bool + 'static) -> Rt {
    let (clock, now, look) = (ClockOnly::default(), Time(0), Box::new(look));
    Rt::with_order(WatchedClock { clock, now, look }, seed, order)
}

/// The simulator's clock, with a call before time advances.
struct WatchedClock {
    clock: ClockOnly,
    now: Time,
    look: Box<dyn FnMut(Time) -> bool>,
}

impl Driver for WatchedClock {
    fn start(&mut self) -> Time {
        self.now = self.clock.start();
        self.now
    }

    fn park(&mut self, deadline: Option<Time>) -> Option<Time> {
        let next = self.clock.park(deadline)?;
        let goes_on = next <= self.now || (self.look)(next);
        self.now = self.now.max(next);
        goes_on.then_some(next)
    }
}

struct Watched {
    volume: Volume,
    below: Below,
    /// All sums when the watch began.
    before: Moment,
}

impl Watched {
    fn since_now(below: &Below, volume: &Volume) -> Watched {
        Watched { volume: volume.clone(), below: below.clone(), before: total(volume) }
    }
}

/// The sums since the volume was opened.
fn total(volume: &Volume) -> Moment {
    let core = volume.core();
    let cache = core.cache.stats();
    Moment {
        operations: core.operations(),
        dirty_bytes: core.cache.dirty_bytes(),
        lookups: cache.hits + cache.misses,
        hits: cache.hits,
        log: LogFigures::of(volume),
    }
}

impl World for Watched {
    fn now(&self) -> Time {
        self.volume.core().rt.now()
    }

    fn moment(&self) -> Moment {
        let (now, before) = (total(&self.volume), &self.before);
        Moment {
            operations: now.operations - before.operations,
            dirty_bytes: now.dirty_bytes,
            lookups: now.lookups - before.lookups,
            hits: now.hits - before.hits,
            log: now.log.since(&before.log),
        }
    }

    fn space_map(&self) -> SpaceMap {
        self.volume.layout().space_map(self.volume.core())
    }

    fn status(&self) -> Option<Status> {
        Status::of(&self.volume)
    }

    fn log_at_end(&self) -> Option<LogAtEnd> {
        log_at_end(&self.volume)
    }

    fn segment_at(&self, byte: u64) -> Option<(u32, u64)> {
        self.volume.layout().views().log?.segment_at(byte)
    }

    fn inside(&self) -> Option<(&Volume, &Below)> {
        Some((&self.volume, &self.below))
    }
}
