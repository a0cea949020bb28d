//! Looking at a simulated run while it goes on, without changing it.
//!
//! Contract: a [`Watcher`] looks when nothing can run before time moves on, from within the clock
//! itself: no task, no timer and no event is added, so a watched run has the same digest and the
//! same figures as one that nobody watches. What nobody watches costs nothing.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;

use twin_fs::OpenVolume;
use twin_rt::{ClockOnly, Driver, Rt, Time};
use twin_sim::{Served, SimDisk};

use crate::figures::LogFigures;
use crate::status::Status;

/// What a watcher sees of a run.
pub trait World {
    /// The current time.
    fn now(&self) -> Time;
    /// What the layout has written since the watch began.
    fn written(&self) -> LogFigures;
    /// What the log is doing; none if the layout has no log.
    fn status(&self) -> Option<Status>;
    /// The segment that a byte of the device lies in, and where in it.
    fn segment_at(&self, byte: u64) -> Option<(u32, u64)>;
}

/// Someone who looks at a run: at the part that is measured, not at what is made before.
pub trait Watcher: 'static {
    /// It begins.
    fn begin(&mut self, _: &dyn World) {}

    /// The disk turns to a request.
    fn served(&mut self, _: &Served) {}

    /// Nothing more happens before `next`. [`ControlFlow::Break`] ends the run then and there.
    fn look(&mut self, world: &dyn World, next: Time) -> ControlFlow<()>;

    /// It has ended.
    fn end(&mut self, _: &dyn World) {}
}

/// Where a watcher sits: between the clock of a run and its volume.
#[derive(Clone)]
pub(crate) struct Seat(Rc<Inner>);

struct Inner {
    watcher: Rc<RefCell<dyn Watcher>>,
    world: RefCell<Option<Rc<dyn World>>>,
    stopped: Cell<bool>,
}

impl Seat {
    pub(crate) fn new(watcher: Rc<RefCell<dyn Watcher>>) -> Seat {
        Seat(Rc::new(Inner { watcher, world: RefCell::default(), stopped: Cell::new(false) }))
    }

    /// A runtime whose clock lets the watcher look.
    pub(crate) fn runtime(&self) -> Rt {
        Rt::new(WatchedClock { clock: ClockOnly::default(), now: Time(0), seat: self.clone() }, 1)
    }

    /// The watch begins.
    pub(crate) fn begin(&self, disk: &SimDisk, volume: &OpenVolume) {
        let before = LogFigures::of(volume);
        let world: Rc<dyn World> = Rc::new(Watched { volume: volume.clone(), before });
        self.0.watcher.borrow_mut().begin(&*world);
        *self.0.world.borrow_mut() = Some(world);
        let seat = self.clone();
        disk.observe(Rc::new(move |served| {
            if seat.0.world.borrow().is_some() {
                seat.0.watcher.borrow_mut().served(served);
            }
        }));
    }

    /// The watch ends as it should.
    pub(crate) fn end(&self) {
        if let Some(world) = self.leave() {
            self.0.watcher.borrow_mut().end(&*world);
        }
    }

    /// The watch ends, whatever has happened: the volume may go.
    pub(crate) fn leave(&self) -> Option<Rc<dyn World>> {
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

/// The simulator's clock with a watcher: it looks before time moves on.
struct WatchedClock {
    clock: ClockOnly,
    now: Time,
    seat: Seat,
}

impl Driver for WatchedClock {
    fn start(&mut self) -> Time {
        self.now = self.clock.start();
        self.now
    }

    fn park(&mut self, deadline: Option<Time>) -> Option<Time> {
        let next = self.clock.park(deadline)?;
        if next > self.now {
            self.seat.look(next);
        }
        self.now = self.now.max(next);
        (!self.seat.is_stopped()).then_some(next)
    }
}

struct Watched {
    volume: OpenVolume,
    before: LogFigures,
}

impl World for Watched {
    fn now(&self) -> Time {
        self.volume.core().rt.now()
    }

    fn written(&self) -> LogFigures {
        LogFigures::of(&self.volume).since(&self.before)
    }

    fn status(&self) -> Option<Status> {
        Status::of(&self.volume)
    }

    fn segment_at(&self, byte: u64) -> Option<(u32, u64)> {
        self.volume.segment_at(byte)
    }
}
