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

use twin_disk::queue::{Next, Positioning, Scheduler, SchedulerInput, Waiting, Way};
use twin_disk::{
    Block, Completion, DeviceInfo, Io, IoError, IoErrorKind, IoKind, IoResult, Pending,
    ServiceBounds, pending,
};
use twin_rt::{Event, Nanos, Rt, Time};

use super::commands::Commands;
use super::durability::{Durability, unstable_write};
use super::{Observer, Served};
use crate::bus::{Answer, Bus, Span, Tenancy};
use crate::faults::{CrashState, FaultPlan, Faults, Verdict, WriteLog};
use crate::model::{Access, DeviceModel, Prices, Service, Supply, Wear};
use crate::planted::PlantedFault;
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
    /// When the device began with it.
    begun: Time,
    /// The arm's way to it.
    way: Way,
    /// When the medium has finished it, once the request is in service.
    done: Time,
    /// When the bus is free again of its command.
    released: Time,
    /// The purpose for which the request wants the bus, since when, and its ticket while the bus is
    /// taken.
    turn: Option<(Tenancy, Time, Option<u64>)>,
    /// For a flush: how many writes had completed when it was submitted.
    covered: u64,
    /// The number of the request in the write log; without a log, its number in the order of
    /// submission.
    logged: u64,
}

/// What a request waits for at a certain time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// A planned fault strikes.
    Fault,
    /// A command has reached the drive.
    Serve,
    /// The data of a read want the bus.
    Bus,
    /// The end of a write wants the bus.
    Report,
    /// The bus gets free for which it waits.
    Free,
    /// The end of the request's service: then it completes.
    Finish,
}

pub(super) struct Engine {
    model: Box<dyn DeviceModel>,
    depth: usize,
    queue_depth: usize,
    scheduler: Box<dyn Scheduler>,
    /// The commands that a drive has taken from the scheduler and orders itself.
    commands: Commands,
    bus: Option<Bus>,
    /// The drive's rank on the bus.
    rank: u32,
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
    /// What is let go is dropped.
    drops: bool,
    /// The content that the platter would have without faults.
    truth: Option<Platter>,
    faults: Option<Box<Faults>>,
    durability: Option<Durability>,
    /// Number of writes that have completed.
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
            rank: parts.bus.as_ref().map_or(0, Bus::connect),
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
            drops: false,
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

    pub(super) fn bounds(&self) -> Option<ServiceBounds> {
        self.model.bounds()
    }

    pub(super) fn bus(&self) -> Option<Bus> {
        self.bus.clone()
    }

    pub(super) fn keep_no_dead_blocks(&mut self) {
        let keeps_more = self.truth.is_some() || self.durability.is_some() || self.log.is_some();
        self.drops = !keeps_more;
    }

    pub(super) fn drops_dead(&self) -> bool {
        self.drops
    }

    pub(super) fn drop_dead(&mut self, at: u64, len: u64) {
        if self.drops {
            self.platter.discard(at, len);
        }
    }

    pub(super) fn wear(&self) -> Option<Wear> {
        self.model.wear()
    }

    pub(super) fn prices(&self) -> Option<Prices> {
        self.model.prices()
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
            // From here on a discard is treated as a write of zeros.
            io.blocks = Platter::new(io.len).read(0, io.len);
        }
        self.seq += 1;
        let (kind, at, len, origin, seq) = (io.kind, io.at, io.len, io.origin, self.seq);
        let deadline = io.deadline;
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
            begun: now,
            way: Way::Straight,
            done: now,
            released: now,
            turn: None,
            covered: self.completions,
            logged,
        });
        match kind {
            IoKind::Flush | IoKind::Discard => self.control.push_back(id),
            _ if self.serving < self.depth && self.waiting() == 0 => {
                self.start(now, id, Way::Straight);
            }
            _ => {
                let arrived = now;
                self.scheduler.push(Waiting { id, seq, kind, at, len, origin, arrived, deadline });
            }
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
                Stage::Serve => self.arrived(now, id),
                Stage::Bus => {
                    let len = self.requests[id as usize].as_ref().map_or(0, |r| r.io.len);
                    self.ask_bus(now, id, Tenancy::Data(len));
                }
                Stage::Report => self.ask_bus(now, id, Tenancy::Status),
                Stage::Free => self.ask_again(now, id),
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
                Some(id) => Some((id, Way::Straight)),
                None => self.choose(now).map(|next| (next.request.id, next.way)),
            };
            let Some((id, way)) = next else { return };
            self.start(now, id, way);
        }
    }

    /// Whether the drive orders its commands itself.
    fn drive_orders(&self) -> bool {
        self.queue_depth > self.depth
    }

    /// Gives the drive the commands that it has room for, if it orders them itself.
    fn hand_over(&mut self, now: Time) {
        while self.drive_orders() && self.serving + self.commands.len() < self.queue_depth {
            let device = &Mechanics(&*self.model);
            let view = SchedulerInput { now, head_at: self.head_at, device };
            // The host cannot move the arm of such a drive, so the way is left out.
            let Some(Next { request: command, .. }) = self.scheduler.pop(&view) else { return };
            // The host knows only what it has sent.
            self.head_at = command.at + command.len;
            self.commands.push(now, command);
        }
    }

    /// The read or write to start next.
    fn choose(&mut self, now: Time) -> Option<Next> {
        if self.drive_orders() {
            return self.commands.pop(now, &*self.model).map(Next::from);
        }
        let device = &Mechanics(&*self.model);
        self.scheduler.pop(&SchedulerInput { now, head_at: self.head_at, device })
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
        let device = &Mechanics(&*self.model);
        let view = SchedulerInput { now, head_at: 0, device };
        while self.scheduler.pop(&view).is_some() {}
        self.commands.clear();
        self.control.clear();
        self.events.clear();
        for id in 0..self.requests.len() as u32 {
            if let Some(request) = &mut self.requests[id as usize] {
                request.verdict = Verdict::Fail(IoErrorKind::Gone);
                if let (Some((_, _, Some(ticket))), Some(bus)) = (request.turn, &self.bus) {
                    bus.cancel(ticket);
                }
                self.serving += 1; // `finish` subtracts it again.
                self.finish(now, id);
            }
        }
        self.serving = 0;
    }

    /// Begins with a request: over a bus the command, and the data of a write, go to the drive first.
    fn start(&mut self, now: Time, id: u32, way: Way) {
        let Some(request) = &mut self.requests[id as usize] else { return };
        self.serving += 1;
        (request.begun, request.way) = (now, way);
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
        let Some(request) = &self.requests[id as usize] else { return };
        match (&self.bus, request.io.kind) {
            (Some(_), IoKind::Write) => self.ask_bus(now, id, Tenancy::Command(request.io.len)),
            (Some(bus), IoKind::Read) if bus.has_protocol() => {
                self.ask_bus(now, id, Tenancy::Command(0));
            }
            _ => self.serve(now, id, Supply::at_once(now)),
        }
    }

    /// A request wants the bus.
    fn ask_bus(&mut self, now: Time, id: u32, tenancy: Tenancy) {
        let (Some(request), Some(bus)) = (&mut self.requests[id as usize], &self.bus) else {
            return;
        };
        request.turn = Some((tenancy, now, None));
        let answer = bus.ask(now, self.rank, tenancy);
        self.answered(now, id, answer);
    }

    /// The bus for which a request has waited is free.
    fn ask_again(&mut self, now: Time, id: u32) {
        let (Some(request), Some(bus)) = (&self.requests[id as usize], &self.bus) else { return };
        let Some((_, _, Some(ticket))) = request.turn else { return };
        let answer = bus.poll(now, ticket);
        self.answered(now, id, answer);
    }

    /// The bus has answered a request.
    fn answered(&mut self, now: Time, id: u32, answer: Answer) {
        let (Some(request), Some(bus)) = (&mut self.requests[id as usize], &self.bus) else {
            return;
        };
        let Some((tenancy, since, _)) = request.turn else { return };
        let span = match answer {
            Answer::Taken(until, ticket) => {
                request.turn = Some((tenancy, since, Some(ticket)));
                return self.schedule(until, Stage::Free, id);
            }
            Answer::Granted(span) => span,
        };
        request.turn = None;
        match tenancy {
            Tenancy::Command(_) if bus.has_protocol() => {
                request.parts.bus_ns += span.data - since;
                request.released = span.end;
                self.schedule(span.data, Stage::Serve, id);
            }
            // If commands take no time, the drive has the command at once, and positions while data
            // come.
            Tenancy::Command(len) => {
                let supply = self.supply(span, len);
                self.serve(now, id, supply);
            }
            Tenancy::Data(_) | Tenancy::Status => {
                let end = span.end.max(request.done);
                request.parts.bus_ns += end - request.done;
                self.schedule(end, Stage::Finish, id);
            }
        }
    }

    /// When the `len` bytes of a write reach the drive that move in this time.
    fn supply(&self, span: Span, len: u64) -> Supply {
        let Some(bus) = &self.bus else { return Supply::at_once(span.start) };
        let sector = bus.ns_for(u64::from(self.model.spec().sector).min(len));
        Supply { first: span.data + sector, last: span.data + bus.ns_for(len) }
    }

    /// Gives a request to the device model.
    fn serve(&mut self, now: Time, id: u32, supply: Supply) {
        let Some(request) = &mut self.requests[id as usize] else { return };
        let end = self.model.spec().size.saturating_sub(1);
        let stops: &[u64] = match request.way {
            Way::Straight => &[],
            Way::ByTheEnd => &[end],
            Way::ByTheStart => &[0],
            Way::ByEndAndStart => &[end, 0],
        };
        let mut there = now;
        for &stop in stops {
            there += self.model.travel(there, stop);
        }
        let io = &request.io;
        let access = Access { kind: io.kind, at: io.at, len: io.len };
        let service = self.model.serve(there, &access, supply);
        let released = request.released;
        request.done = service.done;
        request.parts += service.parts;
        request.parts.seek_ns += there - now;
        let waited = request.begun - request.arrived;
        match self.planted.is(PlantedFault::WaitingIsService) {
            true => request.parts.overhead_ns += waited,
            false => request.parts.queue_ns += waited,
        }
        if let Some(observer) = &self.observer {
            let (origin, parts, done) = (request.io.origin, request.parts, service.done);
            let Access { kind, at, len } = access;
            let cylinder = |at| self.model.cylinder_of(at);
            let cylinders = cylinder(at).zip(cylinder(at + len.saturating_sub(1)));
            let waiting = self.waiting();
            let begun = now;
            observer(&Served { kind, at, len, origin, begun, done, parts, waiting, cylinders });
        }
        if !self.drive_orders() && matches!(access.kind, IoKind::Read | IoKind::Write) {
            self.head_at = access.at + access.len;
        }
        let reports = self.bus.as_ref().is_some_and(Bus::has_protocol);
        match access.kind {
            IoKind::Read => {
                let (at, stage) = self.after_read(&access, &service);
                self.schedule(at.max(released), stage, id);
            }
            IoKind::Write if reports => {
                self.schedule(service.done.max(released), Stage::Report, id)
            }
            _ => self.schedule(service.done, Stage::Finish, id),
        }
    }

    /// A command has reached the drive over the bus; the data of a write follow it.
    fn arrived(&mut self, now: Time, id: u32) {
        let Some(request) = &self.requests[id as usize] else { return };
        let len = if request.io.kind == IoKind::Write { request.io.len } else { 0 };
        let supply = self.supply(Span { start: now, data: now, end: now }, len);
        self.serve(now, id, supply);
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

/// A device model as queues see it.
struct Mechanics<'a>(&'a dyn DeviceModel);

impl Positioning for Mechanics<'_> {
    fn positioning_ns(&self, now: Time, _head_at: u64, request: &Waiting) -> Nanos {
        let Waiting { kind, at, len, .. } = *request;
        self.0.positioning_ns(now, &Access { kind, at, len })
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
