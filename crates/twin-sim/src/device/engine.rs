//! The machine inside a [`SimDisk`](super::SimDisk): takes requests, moves them through the host's
//! queue, the drive's own ([`Commands`]), bus and model, and completes them.
//!
//! A request that is submitted to an idle device starts immediately. The disk's task runs once for
//! each completion, at the time of that completion, and does nothing but call [`Engine::turn`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use twin_disk::{
    Block, Completion, DeviceInfo, Io, IoError, IoErrorKind, IoKind, IoResult, Pending, pending,
};
use twin_rt::{Event, Nanos, Rt, Time};

use super::commands::Commands;
use super::durability::{Durability, unstable_write};
use super::{Observer, Served};
use crate::bus::Bus;
use crate::faults::{CrashState, FaultPlan, Faults, Verdict, WriteLog};
use crate::model::{Access, DeviceModel, Service, Supply, Wear};
use crate::planted::PlantedFault;
use crate::queue::{Scheduler, SchedulerInput, Waiting};
use crate::{DiskStats, Platter};

/// The components of an engine.
pub(super) struct EngineParts {
    pub(super) model: Box<dyn DeviceModel>,
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) bus: Option<Bus>,
    pub(super) platter: Platter,
    pub(super) plan: FaultPlan,
    pub(super) crashable: bool,
    pub(super) log: Option<WriteLog>,
    pub(super) power: Rc<Event>,
    pub(super) planted: PlantedFault,
}

/// A request between submission and completion.
struct Request {
    io: Io,
    completion: Completion,
    arrived: Time,
    parts: crate::TimeBreakdown,
    verdict: Verdict,
    /// When the medium has finished it, once the request is in service.
    done: Time,
    /// For a flush: how many writes had completed when it was submitted.
    covered: u64,
    /// Its number in the write log, or without a log its number in the order of submission.
    logged: u64,
}

/// What a request waits for at a certain time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// A planned fault strikes.
    Fault,
    /// A read requests the bus.
    Bus,
    /// The request completes.
    Finish,
}

pub(super) struct Engine {
    model: Box<dyn DeviceModel>,
    depth: usize,
    queue_depth: usize,
    scheduler: Box<dyn Scheduler>,
    /// What a drive that orders commands itself has taken from the scheduler.
    commands: Commands,
    bus: Option<Bus>,
    requests: Vec<Option<Request>>,
    free: Vec<u32>,
    /// Flushes and discards, which are not scheduled.
    control: VecDeque<u32>,
    /// Number of requests in service.
    serving: usize,
    seq: u64,
    head_at: u64,
    events: BinaryHeap<Reverse<(Time, u64, Stage, u32)>>,
    event_seq: u64,
    waker: Option<Waker>,
    /// The earliest time at which the task will be woken.
    armed: Option<Time>,
    platter: Platter,
    /// The content that the platter would have without faults.
    truth: Option<Platter>,
    faults: Option<Box<Faults>>,
    durability: Option<Durability>,
    /// Writes completed.
    completions: u64,
    log: Option<WriteLog>,
    /// Called for every request that the device begins to serve.
    pub(super) observer: Option<Observer>,
    stats: DiskStats,
    power: Rc<Event>,
    planted: PlantedFault,
}

impl Engine {
    pub(super) fn new(parts: EngineParts) -> Engine {
        let spec = parts.model.spec();
        if let Some(log) = &parts.log {
            log.begin(parts.platter.clone(), spec.sector, spec.write_cache);
        }
        let faults = (!parts.plan.0.is_empty()).then(|| Box::new(Faults::new(parts.plan)));
        let mut events = BinaryHeap::new();
        let mut event_seq = 0;
        for at in faults.iter().flat_map(|f| f.times()) {
            events.push(Reverse((at, event_seq, Stage::Fault, 0)));
            event_seq += 1;
        }
        Engine {
            depth: spec.depth as usize,
            queue_depth: spec.queue_depth as usize,
            model: parts.model,
            scheduler: parts.scheduler,
            commands: Commands::default(),
            bus: parts.bus,
            requests: Vec::new(),
            free: Vec::new(),
            control: VecDeque::new(),
            serving: 0,
            seq: 0,
            head_at: 0,
            events,
            event_seq,
            waker: None,
            armed: None,
            truth: faults.is_some().then(|| parts.platter.clone()),
            faults,
            durability: parts
                .crashable
                .then(|| Durability::new(parts.platter.clone(), spec.write_cache)),
            platter: parts.platter,
            completions: 0,
            log: parts.log,
            observer: None,
            stats: DiskStats::with_fault(parts.planted),
            power: parts.power,
            planted: parts.planted,
        }
    }

    pub(super) fn stats(&self, now: Time) -> DiskStats {
        self.stats.until(now)
    }

    pub(super) fn reset_stats(&mut self, now: Time) {
        self.stats.reset(now);
    }

    /// A request is going to be served in parts.
    pub(super) fn splits(&mut self, io: &Io) {
        self.stats.count_whole(io.kind, io.len);
    }

    pub(super) fn mechanics_ns(&self) -> Option<Nanos> {
        self.model.mechanics_ns()
    }

    pub(super) fn wear(&self) -> Option<Wear> {
        self.model.wear()
    }

    pub(super) fn platter(&self) -> &Platter {
        &self.platter
    }

    pub(super) fn intended(&self) -> &Platter {
        self.truth.as_ref().unwrap_or(&self.platter)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.stats.in_flight() as usize
    }

    pub(super) fn is_powered_off(&self) -> bool {
        self.faults.as_ref().is_some_and(|f| f.dark)
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    pub(super) fn crash_state(&self) -> Option<CrashState> {
        let durability = self.durability.as_ref()?;
        let mut unstable_writes: Vec<_> = durability.unstable_writes().collect();
        let mut under_way: Vec<_> = self.requests.iter().flatten().collect();
        under_way.retain(|r| matches!(r.io.kind, IoKind::Write | IoKind::Discard));
        under_way.sort_by_key(|r| r.logged);
        unstable_writes
            .extend(under_way.iter().map(|r| unstable_write(r.io.at, &r.io.blocks, false)));
        let sector = self.model.spec().sector;
        Some(CrashState { base: durability.stable().clone(), sector, unstable_writes })
    }

    pub(super) fn submit(&mut self, rt: &Rt, info: &DeviceInfo, mut io: Io) -> Pending {
        if let Err(error) = accept(info, &io) {
            return Pending::ready(Err(error));
        }
        if self.faults.as_ref().is_some_and(|f| f.gone && !f.dark) {
            return Pending::ready(Err(error(&io, IoErrorKind::Gone)));
        }
        let (completion, pending) = pending();
        if self.is_powered_off() {
            return pending; // Its completion is dropped, so it never completes.
        }
        let now = rt.now();
        if io.kind == IoKind::Discard {
            // From here on a discard is a write of zeros.
            io.blocks = Platter::new(io.len).read(0, io.len);
        }
        self.seq += 1;
        let (kind, at, len, origin, seq) = (io.kind, io.at, io.len, io.origin, self.seq);
        self.stats.arrive(now, origin);
        let logged = match (&self.log, kind) {
            (Some(log), IoKind::Write | IoKind::Discard) => log.write(now, at, &io.blocks),
            (Some(log), IoKind::Flush) => log.flush(now),
            _ => seq,
        };
        let id = self.insert(Request {
            io,
            completion,
            arrived: now,
            parts: crate::TimeBreakdown::default(),
            verdict: Verdict::Serve,
            done: now,
            covered: self.completions,
            logged,
        });
        match kind {
            IoKind::Flush | IoKind::Discard => self.control.push_back(id),
            _ if self.serving < self.depth && self.waiting() == 0 => {
                self.start(now, id);
            }
            _ => self.scheduler.push(Waiting { id, seq, kind, at, len, origin, arrived: now }),
        }
        self.dispatch(now);
        self.arm(rt);
        pending
    }

    fn insert(&mut self, request: Request) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.requests[id as usize] = Some(request);
                id
            }
            None => {
                self.requests.push(Some(request));
                self.requests.len() as u32 - 1
            }
        }
    }

    /// Does everything that is due, and arranges to be woken for the next event.
    pub(super) fn turn(&mut self, rt: &Rt, waker: &Waker) {
        if !self.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
        let now = rt.now();
        self.armed = self.armed.filter(|&at| at > now);
        while let Some(&Reverse((at, _, stage, id))) = self.events.peek()
            && at <= now
            && !self.is_powered_off()
        {
            self.events.pop();
            match stage {
                Stage::Fault => self.tick(now),
                Stage::Bus => self.take_bus(now, id),
                Stage::Finish => self.finish(now, id),
            }
        }
        self.dispatch(now);
        self.arm(rt);
    }

    /// Makes sure that the task is woken in time for the next event.
    fn arm(&mut self, rt: &Rt) {
        let (Some(Reverse((at, ..))), Some(waker)) = (self.events.peek(), &self.waker) else {
            return;
        };
        if self.is_powered_off() || self.armed.is_some_and(|armed| armed <= *at) {
            return;
        }
        if *at <= rt.now() {
            waker.wake_by_ref();
        } else {
            // Polling a sleep arms a timer with this waker; the timer outlives the future.
            let sleep = pin!(rt.sleep_until(*at));
            let _ = sleep.poll(&mut Context::from_waker(waker));
        }
        self.armed = Some(*at);
    }

    fn schedule(&mut self, at: Time, stage: Stage, id: u32) {
        self.events.push(Reverse((at, self.event_seq, stage, id)));
        self.event_seq += 1;
    }

    /// Reads and writes that have not been started.
    fn waiting(&self) -> usize {
        self.scheduler.len() + self.commands.len()
    }

    /// Starts requests while the device has room for them.
    fn dispatch(&mut self, now: Time) {
        while !self.is_powered_off() {
            self.hand_over(now);
            if self.serving >= self.depth {
                return;
            }
            let next = match self.control.pop_front() {
                Some(id) => Some(id),
                None => self.choose(now).map(|w| w.id),
            };
            let Some(id) = next else { return };
            self.start(now, id);
        }
    }

    /// Whether the drive orders its commands itself.
    fn drive_orders(&self) -> bool {
        self.queue_depth > self.depth
    }

    /// Gives the drive the commands that it has room for, if it orders them itself.
    fn hand_over(&mut self, now: Time) {
        while self.drive_orders() && self.serving + self.commands.len() < self.queue_depth {
            let view = SchedulerInput { now, head_at: self.head_at, model: &*self.model };
            let Some(command) = self.scheduler.pop(&view) else { return };
            // The host knows only what it has sent.
            self.head_at = command.at + command.len;
            self.commands.push(now, command);
        }
    }

    /// The read or write to start next.
    fn choose(&mut self, now: Time) -> Option<Waiting> {
        if self.drive_orders() {
            return self.commands.pop(now, &*self.model);
        }
        let view = SchedulerInput { now, head_at: self.head_at, model: &*self.model };
        self.scheduler.pop(&view)
    }

    /// The time of a planned fault has come.
    fn tick(&mut self, now: Time) {
        let Some(faults) = &mut self.faults else { return };
        faults.tick(now);
        let gone = faults.gone;
        self.rot();
        if self.is_powered_off() {
            self.power.notify();
        } else if gone {
            self.fail_all(now);
        }
    }

    /// Flips bits that have just rotted: on the medium, not in the fault-free content.
    fn rot(&mut self) {
        let Some(faults) = &mut self.faults else { return };
        for (at, bit) in faults.rotten.drain(..) {
            let flip = |platter: &mut Platter| {
                if at < platter.size() {
                    let mut byte = platter.read(at, 1);
                    byte[0].bytes_mut()[0] ^= 1 << (bit % 8);
                    platter.write(at, &byte);
                }
            };
            flip(&mut self.platter);
            if let Some(durability) = &mut self.durability {
                flip(durability.stable_mut());
            }
        }
    }

    /// The device is gone: all requests in flight fail.
    fn fail_all(&mut self, now: Time) {
        while self.scheduler.pop(&SchedulerInput { now, head_at: 0, model: &*self.model }).is_some()
        {
        }
        self.commands.clear();
        self.control.clear();
        self.events.clear();
        for id in 0..self.requests.len() as u32 {
            if let Some(request) = &mut self.requests[id as usize] {
                request.verdict = Verdict::Fail(IoErrorKind::Gone);
                self.serving += 1; // `finish` subtracts it again.
                self.finish(now, id);
            }
        }
        self.serving = 0;
    }

    /// Gives the request to the device model.
    fn start(&mut self, now: Time, id: u32) {
        let Some(request) = &mut self.requests[id as usize] else { return };
        self.serving += 1;
        let io = &request.io;
        if let Some(faults) = &mut self.faults {
            request.verdict = faults.begin(now, io, self.platter.size());
            let (dark, gone) = (faults.dark, faults.gone);
            self.rot();
            if dark {
                return self.power.notify();
            }
            if gone {
                return self.fail_all(now);
            }
        }
        let Some(request) = &mut self.requests[id as usize] else { return };
        let io = &request.io;
        let supply = match &self.bus {
            Some(bus) if io.kind == IoKind::Write => {
                let span = bus.transfer(now, io.len);
                let sector = bus.ns_for(u64::from(self.model.spec().sector).min(io.len));
                Supply { first: span.start + sector, last: span.end }
            }
            _ => Supply::at_once(now),
        };
        let access = Access { kind: io.kind, at: io.at, len: io.len };
        let service = self.model.serve(now, &access, supply);
        request.done = service.done;
        request.parts = service.parts;
        let waited = now - request.arrived;
        match self.planted.is(PlantedFault::WaitingIsService) {
            true => request.parts.overhead_ns += waited,
            false => request.parts.queue_ns += waited,
        }
        if let Some(observer) = &self.observer {
            let (origin, parts, done) = (request.io.origin, request.parts, service.done);
            let Access { kind, at, len } = access;
            observer(&Served { kind, at, len, origin, begun: now, done, parts });
        }
        if !self.drive_orders() && matches!(access.kind, IoKind::Read | IoKind::Write) {
            self.head_at = access.at + access.len;
        }
        match access.kind {
            IoKind::Read => {
                let (at, stage) = self.after_read(&access, &service);
                self.schedule(at, stage, id);
            }
            _ => self.schedule(service.done, Stage::Finish, id),
        }
    }

    /// The event that a read waits for while the medium serves it. With a bus this is the start of
    /// the transfer: if the bus is faster than the medium, as late as lets both finish together.
    fn after_read(&self, access: &Access, service: &Service) -> (Time, Stage) {
        let Some(bus) = &self.bus else { return (service.done, Stage::Finish) };
        let sector = u64::from(self.model.spec().sector).min(access.len);
        let latest = service.done + bus.ns_for(sector);
        let wanted = Time(latest.0.saturating_sub(bus.ns_for(access.len)));
        (service.first.max(wanted), Stage::Bus)
    }

    fn take_bus(&mut self, now: Time, id: u32) {
        let (Some(request), Some(bus)) = (&mut self.requests[id as usize], &self.bus) else {
            return;
        };
        let end = bus.transfer(now, request.io.len).end.max(request.done);
        request.parts.bus_ns += end - request.done;
        self.schedule(end, Stage::Finish, id);
    }

    fn finish(&mut self, now: Time, id: u32) {
        let Some(mut request) = self.requests[id as usize].take() else { return };
        self.free.push(id);
        self.serving -= 1;
        let result = self.effect(now, &mut request);
        let Request { io, parts, .. } = &request;
        let done = result.is_ok().then_some((io.len, parts));
        self.stats.leave(now, io.kind, io.origin, done);
        request.completion.done(result);
    }

    /// Applies a completed request to the content.
    fn effect(&mut self, now: Time, request: &mut Request) -> IoResult {
        let verdict = std::mem::replace(&mut request.verdict, Verdict::Serve);
        let io = &mut request.io;
        let stored = match &verdict {
            Verdict::Serve => Some(io.at),
            Verdict::Elsewhere(at) => Some(*at),
            Verdict::Pretend | Verdict::Fail(_) => None,
        };
        let result = match (verdict, io.kind) {
            (Verdict::Fail(kind), _) => Err(error(io, kind)),
            (_, IoKind::Read) => Ok(self.platter.read(io.at, io.len)),
            _ => Ok(Vec::new()),
        };
        match io.kind {
            IoKind::Read => {}
            IoKind::Write | IoKind::Discard => {
                if let (Some(truth), Ok(_)) = (&mut self.truth, &result) {
                    truth.write(io.at, &io.blocks);
                }
                let blocks = std::mem::take(&mut io.blocks);
                self.store(now, request.logged, stored, blocks, request.io.len);
            }
            IoKind::Flush => {
                if stored.is_some() {
                    if let Some(durability) = &mut self.durability {
                        durability.flushed(request.covered, &self.platter);
                    }
                    if let Some(log) = &self.log {
                        log.flushed(now, request.logged);
                    }
                }
            }
        }
        result
    }

    /// A write has completed; `stored` is the address at which it was stored, if it was.
    fn store(&mut self, now: Time, logged: u64, stored: Option<u64>, blocks: Vec<Block>, len: u64) {
        if let Some(log) = &self.log {
            log.written(now, logged, stored);
        }
        let number = self.completions;
        self.completions += 1;
        let Some(at) = stored else { return };
        self.platter.write(at, &blocks);
        if let Some(faults) = &mut self.faults {
            faults.written(at, len);
        }
        if let Some(durability) = &mut self.durability {
            durability.written(number, at, blocks);
        }
    }
}

/// Refuses requests that the device cannot serve.
pub(super) fn accept(info: &DeviceInfo, io: &Io) -> Result<(), IoError> {
    info.check(io)?;
    let given: u64 = io.blocks.iter().map(|b| b.len() as u64).sum();
    if io.kind == IoKind::Write && given != io.len {
        let text = format!("the request's blocks have {given} bytes");
        return Err(error(io, IoErrorKind::Other(text)));
    }
    Ok(())
}

fn error(io: &Io, kind: IoErrorKind) -> IoError {
    IoError { op: io.kind, at: io.at, len: io.len, kind }
}
