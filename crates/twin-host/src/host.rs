//! The runtime in real time: [`Host`], its driver, and the events that a flight recorder receives.
//!
//! Contract: at most one outside event enters the core in one [`Driver::park`]. The tasks that it
//! woke run until none is ready, then the next event enters. Time moves only in `park`. So the
//! order of tasks follows from the order of events, and a driver that delivers the same events in
//! the same order at the same times (see [`FlightLog`]) repeats the run.
//!
//! An event is the completion of a device request, or something that a [`Source`] has (requests of
//! a mount, signals). Completions go first, because a request in the core holds memory and locks.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use twin_disk::{BufPool, IoResult};
use twin_fs::Request;
use twin_rt::{Driver, Nanos, Order, Rt, Time, order};
use twin_settings::Choice;

use crate::clock::{self, Clock};
use crate::device::{Ending, Finished, Transfer, WaitingName};
use crate::guard::{Guard, Pulse};
use crate::idle_poll::{IdlePoll, IdlePolling, IdlePolls};
use crate::modules;
use crate::slab::Slab;
use crate::wait::{Engine, Timeout, Wake};
use crate::words::{Grade, Words};

/// Receives everything that enters the core, in order. Together with the seed and the image, this
/// determines the run.
///
/// A run consists of rounds. In each, [`parked`](Self::parked) gives the time. Then follows one
/// [`completed`](Self::completed), whose waiter is woken before the timers that are due; or any
/// number of [`arrived`](Self::arrived), each polled in place, in order, by the task of the front
/// end, which was woken before the timers that are due; or nothing, if only timers are due. Then
/// the tasks run until none is ready.
pub trait FlightLog {
    /// The run starts at this time.
    fn started(&self, now: Time);
    /// Time has moved to `now`, which is `civil` in civil time.
    fn parked(&self, now: Time, civil: Time);
    /// A request enters the core.
    fn arrived(&self, request: &Request);
    /// The device with this number (from 0, in the order of opening) completes its request with
    /// this number (from 1, in the order of submission).
    fn completed(&self, device: u32, id: u64, result: &IoResult);
}

/// Options of a host.
#[derive(Clone)]
pub struct HostOptions {
    /// The seed of the run.
    pub seed: u64,
    /// The order of tasks that could run.
    pub order: Choice<Order>,
    /// Use io_uring if the kernel supports it; otherwise epoll and helper threads.
    pub io_uring: bool,
    /// How long to look for the next event before sleeping, in nanoseconds. It helps if clients run
    /// on other processors, and costs time if they share this one.
    pub spin_ns: Nanos,
    /// Whether idle processors poll while many events come, so that clients wake quickly.
    pub idle_poll: IdlePoll,
    /// Time moves in the steps of the kernel's coarse clock. Files changed by the core then get the
    /// same times as files changed by a kernel that collects writes, and all of these times have one
    /// order. Measurements in such time are accurate to some milliseconds.
    pub coarse_time: bool,
    /// Receives everything that enters the core.
    pub flight: Option<Rc<dyn FlightLog>>,
    /// The most bytes of large buffers, unused ones and those in use together, beyond which unused
    /// ones are not kept.
    pub buffer_bytes: usize,
}

impl Default for HostOptions {
    fn default() -> Self {
        HostOptions {
            seed: 0,
            order: Choice::first(&order::REGISTRY),
            io_uring: true,
            spin_ns: 0,
            idle_poll: IdlePoll::No,
            coarse_time: false,
            flight: None,
            buffer_bytes: BUFFER_BYTES,
        }
    }
}

/// An outside source of events that wake tasks: a mount, or signals.
pub trait Source {
    /// Takes one event, without waiting, and wakes its task. Returns false if there is none. It is
    /// then called again when its descriptor is readable, or after [`Watch::nudge`].
    fn take_event(&self) -> bool;
}

struct Watched {
    source: Rc<dyn Source>,
    fd: Rc<OwnedFd>,
    /// True if it may have an event: it must be asked before the thread sleeps.
    ready: bool,
    /// True if the engine will report when its descriptor is readable.
    armed: bool,
}

/// The usual limit of large buffers, in bytes.
const BUFFER_BYTES: usize = 64 << 20;

/// The state that the parts of a host share.
pub(crate) struct Core {
    clock: Clock,
    flight: Option<Rc<dyn FlightLog>>,
    spin_ns: Nanos,
    idle_polls: IdlePolls,
    coarse_time: bool,
    /// The time that was marked last.
    marked: Cell<Time>,
    /// The time that files get, and how far civil time is ahead of it. It is not that of timers, which
    /// may be due before the coarse clock has reached them.
    of_files: Cell<(Time, i64)>,
    engine: RefCell<Engine>,
    found: RefCell<Vec<Wake>>,
    transfers: RefCell<Slab<Transfer>>,
    /// Transfers in the queues of their devices.
    waiting: RefCell<BTreeMap<WaitingName, Transfer>>,
    finished: RefCell<VecDeque<Finished>>,
    sources: RefCell<Slab<Watched>>,
    /// Keys of sources that may have an event, in the order in which they will be asked.
    ready: RefCell<VecDeque<u64>>,
    next_device: Cell<u32>,
    /// Large buffers, of packets and of device requests.
    buffers: BufPool,
    /// Device requests that have completed.
    completions: Cell<u64>,
    /// The state that a guard observes.
    pulse: Arc<Pulse>,
}

/// The runtime of a mounted volume: a clock, tasks, and access to devices and clients. Cheap to
/// clone. Create it after any fork, because neither io_uring nor threads survive one.
#[derive(Clone)]
pub struct Host {
    rt: Rt,
    core: Rc<Core>,
}

impl Host {
    /// Starts a runtime on this thread.
    ///
    /// # Errors
    /// If the host refuses the descriptors that waiting needs.
    pub fn start(options: HostOptions) -> io::Result<Host> {
        let core = Rc::new(Core {
            clock: Clock::start(),
            flight: options.flight,
            spin_ns: options.spin_ns,
            idle_polls: IdlePolls::open(options.idle_poll),
            coarse_time: options.coarse_time,
            marked: Cell::new(Time::default()),
            of_files: Cell::default(),
            engine: RefCell::new(Engine::start(options.io_uring)?),
            found: RefCell::default(),
            transfers: RefCell::default(),
            waiting: RefCell::default(),
            finished: RefCell::default(),
            sources: RefCell::default(),
            ready: RefCell::default(),
            next_device: Cell::new(0),
            buffers: BufPool::new(options.buffer_bytes),
            completions: Cell::new(0),
            pulse: Arc::default(),
        });
        let driver = HostDriver(Rc::clone(&core));
        let rt = Rt::with_order(driver, options.seed, options.order.maker);
        Ok(Host { rt, core })
    }

    /// The runtime: clock, tasks, seed, digest.
    pub fn rt(&self) -> &Rt {
        &self.rt
    }

    /// The time now. [`Rt::now`] stands still while tasks run, and may be a coarse clock's.
    pub fn now(&self) -> Time {
        self.core.clock.now()
    }

    /// The way in which device requests reach the kernel: `io_uring` or `threads`.
    pub fn engine(&self) -> &'static str {
        self.core.engine.borrow().name()
    }

    /// How long idle processors polled for this host; `None` if they never do.
    pub fn idle_polling(&self) -> Option<IdlePolling> {
        self.core.idle_polls.until(self.now())
    }

    /// Why idle processors do not poll for this host, although it was told that they should.
    pub(crate) fn idle_polling_refused(&self) -> Option<String> {
        self.core.idle_polls.refused()
    }

    /// The recorder of everything that enters the core. Front ends report arrivals to it.
    pub fn flight(&self) -> Option<&Rc<dyn FlightLog>> {
        self.core.flight.as_ref()
    }

    /// Asks `source` for events whenever `fd` is readable.
    pub fn watch(&self, fd: Rc<OwnedFd>, source: Rc<dyn Source>) -> io::Result<Watch> {
        let watched = Watched { source, fd: Rc::clone(&fd), ready: true, armed: false };
        let key = self.core.sources.borrow_mut().insert(watched);
        if let Err(error) = self.core.engine.borrow_mut().watch(key, fd.as_fd()) {
            self.core.sources.borrow_mut().remove(key);
            return Err(error);
        }
        self.core.ready.borrow_mut().push_back(key);
        Ok(Watch { core: Rc::clone(&self.core), key })
    }

    /// The numbers of device requests that have completed, and that have not.
    pub fn device_requests(&self) -> (u64, usize) {
        let unfinished = self.core.transfers.borrow().len() + self.core.waiting.borrow().len();
        (self.core.completions.get(), unfinished)
    }

    /// Starts a thread that ends the process if this thread computes for too long without an end.
    /// It runs until the guard is dropped.
    pub fn guard(&self, words: &Words) -> io::Result<Guard> {
        modules::say_to(words);
        if let Some(refused) = self.idle_polling_refused() {
            words.say(Grade::Warning, &refused);
        }
        Guard::start(Arc::clone(&self.core.pulse), words)
    }

    /// Tells the guard that closing a volume has come nearer to its end, so that it may take longer. Requests to devices need
    /// not be told.
    pub fn closing_advances(&self) {
        self.core.pulse.advance();
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn buffers(&self) -> BufPool {
        self.core.buffers.clone()
    }

    pub(crate) fn next_device(&self) -> u32 {
        let number = self.core.next_device.get();
        self.core.next_device.set(number + 1);
        number
    }
}

/// Ends the watching of a source when it is dropped.
pub struct Watch {
    core: Rc<Core>,
    key: u64,
}

impl Watch {
    /// Reports that the source has an event that its descriptor does not show.
    pub fn nudge(&self) {
        self.core.set_ready(self.key);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The source may own other watches, which end with it.
        let removed = self.core.sources.borrow_mut().remove(self.key);
        if let Some(watched) = removed {
            self.core.engine.borrow_mut().unwatch(self.key, watched.fd.as_fd());
        }
    }
}

impl Core {
    /// Starts a device request, or lets it wait in its device's queue. It completes as an event of
    /// its own.
    pub(crate) fn begin(&self, transfer: Transfer) {
        match transfer.has_to_wait(|| self.clock.now()) {
            Some(name) => {
                self.waiting.borrow_mut().insert(name, transfer);
            }
            None => self.start(transfer),
        }
    }

    fn start(&self, transfer: Transfer) {
        let mut transfers = self.transfers.borrow_mut();
        let key = transfers.insert(transfer);
        if let Some(transfer) = transfers.get_mut(key) {
            self.engine.borrow_mut().step(key, transfer);
        }
    }

    /// Completes a request that never had to start.
    pub(crate) fn finish(&self, finished: Finished) {
        self.finished.borrow_mut().push_back(finished);
    }

    fn ended(&self, ending: Ending) {
        match ending {
            Ending::One(finished) => self.finish(finished),
            Ending::Many(all, again) => {
                all.into_iter().for_each(|finished| self.finish(finished));
                again.into_iter().for_each(|transfer| self.begin(transfer));
            }
        }
    }

    fn set_ready(&self, key: u64) {
        if let Some(watched) = self.sources.borrow_mut().get_mut(key)
            && !std::mem::replace(&mut watched.ready, true)
        {
            self.ready.borrow_mut().push_back(key);
        }
    }

    /// Waits as long as `timeout` says, and records what has become possible.
    fn look(&self, timeout: Timeout) {
        let mut found = self.found.borrow_mut();
        let sleeps = !matches!(timeout, Timeout::None);
        if sleeps {
            self.pulse.sleeps(true);
        }
        let waited = self.engine.borrow_mut().wait(timeout, &mut found);
        if sleeps {
            self.pulse.sleeps(false);
        }
        if let Err(error) = waited {
            // All arguments are our own, so this is a bug or a kernel without the call.
            panic!("the host refuses to wait: {error}");
        }
        for wake in found.drain(..) {
            match wake {
                Wake::Readable(key) => {
                    if let Some(watched) = self.sources.borrow_mut().get_mut(key) {
                        watched.armed = false;
                    }
                    self.set_ready(key);
                }
                Wake::Stepped(key, step) => {
                    let mut transfers = self.transfers.borrow_mut();
                    let Some(transfer) = transfers.get_mut(key) else { continue };
                    match transfer.advance(step) {
                        None => self.engine.borrow_mut().step(key, transfer),
                        Some(result) => {
                            let Some(ended) = transfers.remove(key) else { continue };
                            drop(transfers);
                            let (ending, next) = ended.end(result, || self.clock.now());
                            self.ended(ending);
                            let next = next.and_then(|n| self.waiting.borrow_mut().remove(&n));
                            if let Some(next) = next {
                                self.start(next);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Sets the time to now, or to `due` if the coarse clock has not reached it yet. A client's
    /// request gets the time that the kernel gives to files now. Elsewhere the coarse clock will do:
    /// what was asked for earlier may have any time since.
    fn mark_time(&self, due: Time, of_client: bool) -> Time {
        let ahead = self.clock.ahead();
        let read = match (self.coarse_time, of_client) {
            (true, true) => self.clock.of_files(ahead),
            (true, false) => self.clock.coarse(),
            (false, _) => self.clock.now(),
        };
        let now = read.max(due).max(self.marked.get());
        self.marked.set(now);
        self.of_files.set((read.max(self.of_files.get().0), ahead));
        if let Some(flight) = &self.flight {
            flight.parked(now, self.civil());
        }
        now
    }

    /// The civil time that files get.
    fn civil(&self) -> Time {
        let (time, ahead) = self.of_files.get();
        clock::civil(time, ahead)
    }

    /// Delivers one event, if there is one, and returns the time at which it entered. With `arm`,
    /// sources without an event will wake the thread later; otherwise they are asked again.
    fn deliver(&self, arm: bool) -> Option<Time> {
        let finished = self.finished.borrow_mut().pop_front();
        if let Some(finished) = finished {
            let now = self.mark_time(Time::default(), false);
            if let Some(flight) = &self.flight {
                flight.completed(finished.device, finished.id, &finished.result);
            }
            self.completions.set(self.completions.get() + 1);
            if finished.result.is_ok() {
                // A volume with gigabytes to write to a slow device is closed for as long as it takes.
                self.pulse.advance();
            }
            finished.completion.done(finished.result);
            return Some(now);
        }
        let ready = self.ready.borrow().len();
        for _ in 0..ready {
            let Some(key) = self.next_ready() else { break };
            let source = self.sources.borrow_mut().get_mut(key).map(|w| Rc::clone(&w.source));
            let Some(source) = source else { continue };
            if source.take_event() {
                self.ready.borrow_mut().push_back(key);
                return Some(self.mark_time(Time::default(), true));
            }
            if !arm {
                self.ready.borrow_mut().push_back(key);
                continue;
            }
            if let Some(watched) = self.sources.borrow_mut().get_mut(key) {
                watched.ready = false;
                if !std::mem::replace(&mut watched.armed, true) {
                    self.engine.borrow_mut().arm(key, watched.fd.as_raw_fd());
                }
            }
        }
        None
    }

    fn next_ready(&self) -> Option<u64> {
        self.ready.borrow_mut().pop_front()
    }

    /// True if an outside event may still happen.
    fn expects_events(&self) -> bool {
        self.sources.borrow().len() > 0 || self.transfers.borrow().len() > 0
    }

    fn park(&self, deadline: Option<Time>) -> Option<Time> {
        self.pulse.beat();
        // Submitted requests must be under way before the thread waits for anything else.
        self.look(Timeout::None);
        let mut spin_until = None;
        loop {
            let now = self.clock.now();
            let spinning = now < *spin_until.get_or_insert(now + self.spin_ns);
            if let Some(entered) = self.deliver(!spinning) {
                self.idle_polls.event(now);
                return Some(entered);
            }
            if let Some(due) = deadline.filter(|&deadline| deadline <= now) {
                return Some(self.mark_time(due, false));
            }
            if deadline.is_none() && !self.expects_events() {
                return None;
            }
            if spinning {
                // Lets a client that shares this processor reach its next request.
                rustix::thread::sched_yield();
                if self.transfers.borrow().len() > 0 {
                    self.look(Timeout::None);
                }
                continue;
            }
            let rest = self.idle_polls.rest(now);
            let deadline = deadline.map(|deadline| deadline.since(now));
            self.look(match rest.into_iter().chain(deadline).min() {
                Some(span) => Timeout::For(span),
                None => Timeout::Forever,
            });
        }
    }
}

/// The time seam of a host. Made by [`Host::start`].
pub struct HostDriver(Rc<Core>);

impl Driver for HostDriver {
    fn start(&mut self) -> Time {
        let clock = &self.0.clock;
        let now = if self.0.coarse_time { clock.coarse() } else { clock.now() };
        self.0.marked.set(now);
        self.0.of_files.set((now, 0));
        if let Some(flight) = &self.0.flight {
            flight.started(now);
        }
        now
    }

    fn park(&mut self, deadline: Option<Time>) -> Option<Time> {
        self.0.park(deadline)
    }

    fn civil(&self, _now: Time) -> Time {
        self.0.civil()
    }
}
