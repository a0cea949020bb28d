//! The replay engine.
//!
//! Requests and answers of the workload are events. Each belongs to a *domain*: the client, or the
//! whole workload where the order of the trace must be kept. A domain handles its events in order:
//! a request is issued to the file system without waiting for it, while an answer waits until the
//! operation has ended. So an operation overlaps with others of its domain exactly where it did in
//! the workload. An event that cannot be handled yet blocks its domain, not the others.
//!
//! One task drives the replay. An operation that ends at its first poll costs no allocation and no
//! turn of the executor; the task yields now and then, so that other tasks run.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use twin_fs::{Cred, FileSystem, FsError, Ino, Op, Reply, Request};
use twin_rt::{Nanos, Time};

use super::elapsed::Elapsed;
use super::flights::Flights;
use super::ids::IdMap;
use super::inodes::Translation;
use super::processes::Processes;
use super::report::{Divergence, Report};
use super::tracks::{Got, TrackState, Tracks};
use super::{Order, Pace, ReplayError, Replayer};
use crate::frame::Ending;
use crate::record::{ErrorCode, Outcome, Record, Verb};
use crate::stream::{Source, blank};

/// After this many records without waiting the task lets others run.
const YIELD_EVERY: u32 = 128;
/// The index of operations that correct a divergence and for which no domain waits, and of the domain
/// of a timer that wakes none.
const NOBODY: u32 = u32::MAX;

enum Event {
    Request { track: u32, at_ns: Nanos, request: Request },
    Reply { track: u32, at_ns: Nanos, outcome: Outcome },
}

#[derive(Default)]
struct Domain {
    queue: VecDeque<Event>,
    /// The domain waits for an operation, a time, or a free slot.
    blocked: bool,
    /// The time in the trace and in the replay of the last event.
    last: Option<(Nanos, Time)>,
}

type Sleep = Pin<Box<dyn Future<Output = ()>>>;

struct Engine<'e, 'a, F, I, Fut> {
    replayer: &'e mut Replayer<'a, F>,
    issue: I,
    flights: Flights<Fut>,
    tracks: Tracks,
    domains: Vec<Domain>,
    /// For each client the number of its domain plus one.
    domain_of: IdMap<u32>,
    merged: bool,
    /// The rules for requests of a mounted recording, beside the order of each client.
    processes: Option<Processes>,
    /// Number of events that wait in domains.
    queued: usize,
    runnable: VecDeque<u32>,
    throttled: VecDeque<u32>,
    timers: BinaryHeap<Reverse<(Time, u64, u32)>>,
    timer_seq: u64,
    sleep: Option<(Time, Sleep)>,
    begun: Time,
    ended: Time,
    elapsed: Elapsed,
    first_at_ns: Option<Nanos>,
    /// When the last request is due, at a pace that follows the trace's times.
    horizon: Time,
    /// The horizon for which there is a timer.
    looks_at: Time,
    timed: bool,
    /// Answers have the times by which operations must have ended.
    deadlines: bool,
    /// Domains and inodes of opens that were refused: reads there are left out.
    refused: BTreeSet<(u32, Ino)>,
    report: Report,
}

pub(super) async fn run<F: FileSystem>(
    replayer: &mut Replayer<'_, F>,
    source: &mut impl Source,
) -> Result<Report, ReplayError> {
    let fs = replayer.fs;
    let traits = source.header().traits;
    let order = match replayer.options.order {
        Order::Auto if traits.independent => Order::Client,
        Order::Auto if traits.mounted => Order::Process,
        Order::Auto => Order::Trace,
        order => order,
    };
    let begun = replayer.now();
    let replayer_pace = replayer.options.pace;
    let processes = (order == Order::Process)
        .then(|| Processes::new(std::mem::take(&mut replayer.last_requests), begun));
    let mut engine = Engine {
        issue: move |request| fs.execute(request),
        replayer,
        flights: Flights::new(),
        tracks: Tracks::default(),
        domains: Vec::new(),
        domain_of: IdMap::default(),
        merged: order == Order::Trace,
        processes,
        queued: 0,
        runnable: VecDeque::new(),
        throttled: VecDeque::new(),
        timers: BinaryHeap::new(),
        timer_seq: 0,
        sleep: None,
        begun,
        ended: begun,
        elapsed: Elapsed::new(begun),
        first_at_ns: None,
        horizon: begun,
        looks_at: begun,
        timed: traits.timed,
        deadlines: traits.deadlines && matches!(replayer_pace, Pace::Recorded { .. }),
        refused: BTreeSet::new(),
        report: Report::new(),
    };
    let played = engine.play(source).await;
    engine.drain().await;
    let Engine { mut report, ended, mut elapsed, processes, first_at_ns, .. } = engine;
    report.span_ns = ended.since(begun);
    report.idle_ns = elapsed.idle_ns(ended);
    if let (Some(processes), Some(speed)) = (processes, replayer.options.pace.speed()) {
        report.clients = processes.ends(first_at_ns.unwrap_or(0), begun, speed);
    }
    report.ending = source.ending().unwrap_or(Ending::Closed);
    report.verdict = replayer.oracle.as_mut().map(|oracle| std::mem::take(&mut oracle.verdict));
    played.map(|()| report)
}

impl<'a, F> Replayer<'a, F> {
    fn now(&self) -> Time {
        match &self.options.clock {
            Some(clock) => clock(),
            None => self.rt.now(),
        }
    }
}

impl<F, I, Fut> Engine<'_, '_, F, I, Fut>
where
    I: Fn(Request) -> Fut,
    Fut: Future<Output = Result<Reply, FsError>>,
{
    async fn play(&mut self, source: &mut impl Source) -> Result<(), ReplayError> {
        // Queued records are memory outside the processor's caches, so no more are queued than is
        // useful.
        let alone = self.merged || source.has_one_client();
        let limit = if alone { 1 } else { self.replayer.options.read_ahead.max(1) };
        let (mut since_yield, mut record) = (0, blank());
        loop {
            self.make_progress();
            let ahead = self.is_ahead();
            if self.queued >= limit || ahead {
                if ahead {
                    self.look_at_horizon();
                }
                self.wait().await;
                continue;
            }
            if !source.next_into(&mut record)? {
                return Ok(());
            }
            self.accept(&mut record);
            since_yield += 1;
            if since_yield >= YIELD_EVERY {
                since_yield = 0;
                self.replayer.rt.yield_now().await;
            }
        }
    }

    /// True if the last request is not due yet and no later one can be due before it.
    fn is_ahead(&self) -> bool {
        let recorded = matches!(self.replayer.options.pace, Pace::Recorded { .. });
        recorded && self.queued > 0 && self.horizon > self.replayer.rt.now()
    }

    /// Has the wait end when the last request is due. Its domain may wait for an operation then, and
    /// the requests of other domains that come after it must not.
    fn look_at_horizon(&mut self) {
        if self.looks_at != self.horizon {
            self.looks_at = self.horizon;
            self.timer_seq += 1;
            self.timers.push(Reverse((self.horizon, self.timer_seq, NOBODY)));
        }
    }

    /// Waits for all operations in flight.
    async fn drain(&mut self) {
        loop {
            self.make_progress();
            if self.queued == 0 && self.flights.len() == 0 {
                return;
            }
            self.wait().await;
        }
    }

    /// Handles all events that need not wait.
    fn make_progress(&mut self) {
        if self.flights.len() > 0 {
            while let Some((track, result)) = self.flights.next_done(None) {
                self.complete(track, result);
            }
        }
        loop {
            while let Some(domain) = self.runnable.pop_front() {
                self.advance(domain);
            }
            // A domain that is woken may then wait for something else and not use the slot.
            let room = self.flights.len() < self.replayer.options.max_in_flight.max(1);
            match self.throttled.pop_front() {
                Some(domain) if room => self.unblock(domain),
                Some(domain) => return self.throttled.push_front(domain),
                None => return,
            }
        }
    }

    /// Waits until an operation ends or a time is reached.
    async fn wait(&mut self) {
        std::future::poll_fn(|cx| {
            loop {
                let mut progress = self.poll_timers(cx);
                while let Some((track, result)) = self.flights.next_done(None) {
                    self.complete(track, result);
                    progress = true;
                }
                if progress {
                    return Poll::Ready(());
                }
                if !self.replayer.options.is_alone || !self.replayer.rt.advance_alone() {
                    break;
                }
            }
            match self.flights.next_done(Some(cx.waker())) {
                Some((track, result)) => self.complete(track, result),
                None => return Poll::Pending,
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Makes the domains runnable that are due. Returns true if there is one.
    fn poll_timers(&mut self, cx: &mut Context<'_>) -> bool {
        let mut fired = false;
        while let Some(&Reverse((at, _, domain))) = self.timers.peek() {
            if at <= self.replayer.rt.now() {
                self.timers.pop();
                if domain != NOBODY {
                    self.unblock(domain);
                }
                fired = true;
                continue;
            }
            if self.sleep.as_ref().is_none_or(|(armed, _)| *armed != at) {
                self.sleep = Some((at, Box::pin(self.replayer.rt.sleep_until(at))));
            }
            if let Some((_, sleep)) = &mut self.sleep {
                match sleep.as_mut().poll(cx) {
                    Poll::Pending => return fired,
                    Poll::Ready(()) => self.sleep = None,
                }
            }
        }
        fired
    }

    fn unblock(&mut self, domain: u32) {
        self.domains[domain as usize].blocked = false;
        self.runnable.push_back(domain);
    }

    fn domain(&mut self, client: u32) -> u32 {
        let client = if self.merged { 0 } else { u64::from(client) };
        let domain = self.domain_of.at(client);
        if *domain == 0 {
            self.domains.push(Domain::default());
            *domain = self.domains.len() as u32;
        }
        *domain - 1
    }

    /// Takes a record of the workload and handles it immediately if possible. Records are large, so
    /// this path moves them as little as possible.
    fn accept(&mut self, record: &mut Record) {
        match record {
            Record::Node(_) => {}
            Record::Request { at_ns, request } => {
                let at_ns = *at_ns;
                self.first_at_ns.get_or_insert(at_ns);
                let client = match &self.processes {
                    Some(processes) => processes.chain_of(request),
                    None => request.client,
                };
                let domain = self.domain(client);
                self.horizon = self.due(domain, at_ns).unwrap_or(self.horizon);
                let track = self.tracks.begin(domain, at_ns, request);
                if let Some(processes) = &mut self.processes {
                    processes.request(track, domain, request);
                }
                if !self.is_free(domain) || !self.handle_request(domain, track, at_ns, request) {
                    let request = take(request);
                    self.enqueue(domain, Event::Request { track, at_ns, request });
                }
            }
            Record::Reply { at_ns, id, outcome } => {
                let Some(track) = self.tracks.find(*id) else { return };
                let state = &mut self.tracks[track];
                if std::mem::replace(&mut state.answered, true) {
                    return;
                }
                let domain = state.domain;
                if let Some(processes) = &mut self.processes {
                    processes.answer(track, *at_ns, state.verb, outcome);
                }
                // There is no inode 0.
                if let Outcome::Entry(id @ 1..) = outcome {
                    state.introduces = *id;
                    match state.state {
                        TrackState::Open => self.replayer.inodes.expect(*id, track),
                        _ => self.introduce(track),
                    }
                }
                if !self.is_free(domain) || !self.handle_reply(domain, track, *at_ns, outcome) {
                    let (at_ns, outcome) = (*at_ns, std::mem::replace(outcome, Outcome::Done));
                    self.enqueue(domain, Event::Reply { track, at_ns, outcome });
                }
            }
        }
    }

    /// True if an event of the domain may be handled immediately.
    fn is_free(&self, domain: u32) -> bool {
        let state = &self.domains[domain as usize];
        !state.blocked && state.queue.is_empty()
    }

    fn enqueue(&mut self, domain: u32, event: Event) {
        if let Some(processes) = &mut self.processes {
            processes.set_busy(domain, true);
        }
        self.domains[domain as usize].queue.push_back(event);
        self.queued += 1;
    }

    /// Handles the events of a domain until one blocks it.
    fn advance(&mut self, domain: u32) {
        while !self.domains[domain as usize].blocked {
            let Some(mut event) = self.domains[domain as usize].queue.pop_front() else {
                if let Some(processes) = &mut self.processes {
                    processes.set_busy(domain, false);
                }
                return;
            };
            self.queued -= 1;
            let done = match &mut event {
                Event::Request { track, at_ns, request } => {
                    self.handle_request(domain, *track, *at_ns, request)
                }
                Event::Reply { track, at_ns, outcome } => {
                    self.handle_reply(domain, *track, *at_ns, outcome)
                }
            };
            if !done {
                self.domains[domain as usize].queue.push_front(event);
                self.queued += 1;
            }
        }
    }

    /// Handles an answer, or blocks the domain until the operation has ended. Returns false if it
    /// blocked the domain.
    fn handle_reply(&mut self, domain: u32, track: u32, at_ns: Nanos, outcome: &Outcome) -> bool {
        if self.tracks[track].state == TrackState::Open {
            self.block_on(domain, track);
            return false;
        }
        self.complete_track(track, at_ns, outcome);
        self.handled(domain, at_ns);
        let now = self.replayer.now();
        if let Some(processes) = &mut self.processes {
            processes.handled(track, at_ns, now);
            self.wake(track);
        }
        true
    }

    /// False if the request has to wait for another one, which then blocks the domain.
    fn may_follow(&mut self, domain: u32, track: u32) -> bool {
        let Some(processes) = &mut self.processes else { return true };
        if let Some(other) = processes.next_wait(track) {
            self.block_on(domain, other);
            return false;
        }
        if let Some(base) = processes.base(track) {
            let now = self.replayer.rt.now();
            let other = if base.waited { now } else { processes.handled_at().min(now) };
            let last = &mut self.domains[domain as usize].last;
            *last = Some(match *last {
                Some((at_ns, at)) if base.waited => (at_ns.max(base.at_ns), at.max(now)),
                Some((at_ns, at)) => (at_ns.max(base.at_ns), at),
                None => (base.at_ns, other),
            });
        }
        true
    }

    /// Stores the time of the domain's last event, for think times.
    fn handled(&mut self, domain: u32, at_ns: Nanos) {
        if matches!(self.replayer.options.pace, Pace::Think { .. }) {
            let now = self.replayer.rt.now();
            self.domains[domain as usize].last = Some((at_ns, now));
        }
    }

    fn block_on(&mut self, domain: u32, track: u32) {
        self.tracks[track].waiters.push(domain);
        self.domains[domain as usize].blocked = true;
    }

    /// The time at which a request is due; `None` for immediately.
    fn due(&self, domain: u32, at_ns: Nanos) -> Option<Time> {
        let from_start = (self.first_at_ns.unwrap_or(at_ns), self.begun);
        let ((base_ns, base), speed) = match self.replayer.options.pace {
            Pace::Asap => return None,
            Pace::Recorded { speed } => (from_start, speed),
            Pace::Think { speed } => {
                (self.domains[domain as usize].last.unwrap_or(from_start), speed)
            }
        };
        let span = at_ns.saturating_sub(base_ns);
        // An invalid speed (zero, not a number) leaves the times as they are.
        let scaled = if speed > 0.0 && speed != 1.0 { (span as f64 / speed) as u64 } else { span };
        Some(base + scaled)
    }

    /// Takes a request and issues it to the file system, or blocks the domain and leaves the
    /// request in the queue. Returns false if it blocked the domain.
    fn handle_request(
        &mut self,
        domain: u32,
        track: u32,
        at_ns: Nanos,
        request: &mut Request,
    ) -> bool {
        if !self.may_follow(domain, track) {
            return false;
        }
        let due = self.due(domain, at_ns);
        if let Some(due) = due
            && due > self.replayer.rt.now()
        {
            self.timer_seq += 1;
            self.timers.push(Reverse((due, self.timer_seq, domain)));
            self.domains[domain as usize].blocked = true;
            return false;
        }
        if self.flights.len() >= self.replayer.options.max_in_flight.max(1) {
            self.throttled.push_back(domain);
            self.domains[domain as usize].blocked = true;
            return false;
        }
        match self.replayer.inodes.translate(&mut request.op) {
            // Only an earlier request is waited for, so that there is no deadlock; a trace that
            // requires otherwise is wrong.
            Translation::Wait(other) if self.is_before(other, track) => {
                self.block_on(domain, other);
                return false;
            }
            Translation::Wait(_) | Translation::Missing => {
                self.report.skipped += 1;
                self.skip(track);
            }
            Translation::Done if self.prepare(domain, &mut request.op) => {
                if let (Some(due), Pace::Recorded { .. }) = (due, self.replayer.options.pace) {
                    self.report.late_ns.add(self.replayer.rt.now().since(due));
                }
                self.start(track, request);
            }
            Translation::Done => self.skip(track),
        }
        self.handled(domain, at_ns);
        true
    }

    fn is_before(&self, a: u32, b: u32) -> bool {
        self.tracks[a].number < self.tracks[b].number
    }

    /// Keeps references, opens and cookies consistent. Returns false if nothing has to be done on
    /// the volume.
    fn prepare(&mut self, domain: u32, op: &mut Op) -> bool {
        let inodes = &mut self.replayer.inodes;
        match op {
            Op::Forget { ino, count } => {
                *count = inodes.forget(*ino, *count);
                *count > 0
            }
            Op::Release { ino } => {
                self.refused.remove(&(domain, *ino));
                inodes.release(*ino)
            }
            Op::Read { ino, .. } if self.refused.contains(&(domain, *ino)) => false,
            Op::ReadDir { dir, cookie, .. } if *cookie != 0 => {
                let known = inodes.cookie(*dir, *cookie);
                self.report.cookies_lost += u64::from(known.is_none());
                *cookie = known.unwrap_or(0);
                true
            }
            _ => true,
        }
    }

    fn start(&mut self, track: u32, request: &mut Request) {
        let replayer = &mut *self.replayer;
        request.id = replayer.next_id;
        replayer.next_id += 1;
        if replayer.options.as_root {
            request.cred = Cred { checked: request.cred.checked, ..Cred::root() };
        }
        let issued = replayer.now();
        let state = &mut self.tracks[track];
        state.ino = named(&request.op);
        if let Some(oracle) = &mut replayer.oracle {
            state.ticket = oracle.begin(request.id, &request.op);
        }
        state.issued = issued;
        // A forget has no answer: its client goes on at once.
        state.elapsed = (state.verb != Verb::Forget).then(|| self.elapsed.begin(issued));
        self.report.ops += 1;
        if let Some(processes) = &mut self.processes {
            processes.issued(track);
            self.wake(track);
        }
        let in_flight = self.flights.len() + 1;
        self.report.max_in_flight = self.report.max_in_flight.max(in_flight);
        if let Some(result) = self.flights.start(track, || (self.issue)(take(request))) {
            self.complete(track, result);
        }
    }

    /// Issues an operation that the workload does not contain, to correct a divergence.
    fn even_out(&mut self, op: Op) {
        let id = self.replayer.next_id;
        self.replayer.next_id += 1;
        // Release and forget cannot fail, and nothing depends on when they end.
        drop(self.flights.start(NOBODY, || (self.issue)(Request::root(id, op))));
    }

    fn skip(&mut self, track: u32) {
        self.tracks[track].state = TrackState::Skipped;
        self.release(track);
    }

    /// An operation has ended.
    fn complete(&mut self, track: u32, result: Result<Reply, FsError>) {
        self.ended = self.replayer.now();
        if track != NOBODY {
            self.note(track, &result);
            self.release(track);
        }
    }

    /// The operation has ended: the inode that it created is known from now on, even if its answer
    /// has not been handled yet.
    fn introduce(&mut self, track: u32) {
        let state = &self.tracks[track];
        let (id, entry) = (state.introduces, state.got.entry);
        self.replayer.inodes.resolved(id, track);
        if entry != 0 && self.replayer.inodes.actual(id).is_none() {
            self.replayer.inodes.introduce(id, entry);
        }
    }

    /// Wakes the domains that waited for the operation.
    fn release(&mut self, track: u32) {
        if self.tracks[track].introduces != 0 {
            self.introduce(track);
        }
        if let Some(processes) = &mut self.processes {
            processes.ended(track);
        }
        self.wake(track);
        // No answer will come, unless the trace is unusual.
        let state = &self.tracks[track];
        if state.verb == Verb::Forget && !state.answered {
            self.tracks.retire(track);
        }
    }

    fn wake(&mut self, track: u32) {
        let state = &mut self.tracks[track];
        if !state.waiters.is_empty() {
            let mut waiters = std::mem::take(&mut state.waiters);
            waiters.drain(..).for_each(|domain| self.unblock(domain));
            self.tracks[track].waiters = waiters;
        }
    }

    fn note(&mut self, track: u32, result: &Result<Reply, FsError>) {
        let state = &mut self.tracks[track];
        let inodes = &mut self.replayer.inodes;
        let stats = &mut self.report.verbs[state.verb as usize];
        state.ended = self.ended;
        let latency_ns = self.ended.since(state.issued);
        stats.latency_ns.add(latency_ns);
        if let Some(begun) = state.elapsed.take() {
            stats.elapsed_ns += self.elapsed.end(self.ended, begun);
        }
        if let Some(listener) = &self.replayer.options.listener {
            listener(state.verb, latency_ns);
        }
        stats.done += 1;
        state.state = TrackState::Done;
        let mut got = Got::default();
        match result {
            Err(error) => {
                stats.errors += 1;
                got.error = Some(ErrorCode::of(error));
                if let (FsError::Refused(_), Verb::Open) = (error, state.verb) {
                    self.report.deadlines.refused += 1;
                    self.refused.insert((state.domain, state.ino));
                }
            }
            Ok(Reply::Entry(entry)) => {
                got.entry = entry.attr.ino;
                inodes.hold(got.entry);
                if state.verb == Verb::Create {
                    inodes.opened(got.entry);
                }
            }
            Ok(Reply::Data(blocks)) => {
                got.len = blocks.iter().map(|block| block.len() as u64).sum();
                self.report.read_bytes += got.len;
            }
            Ok(Reply::Written(len)) => {
                got.len = *len;
                self.report.written_bytes += len;
            }
            Ok(Reply::Dir(entries)) => {
                got.next = entries.last().map_or(0, |entry| entry.next);
                let referenced = entries.iter().filter_map(|entry| entry.entry.as_ref());
                got.referenced.extend(referenced.map(|entry| entry.attr.ino));
                got.referenced.iter().for_each(|&ino| inodes.hold(ino));
            }
            Ok(_) if state.verb == Verb::Open => inodes.opened(state.ino),
            Ok(_) => {}
        }
        state.got = got;
        if let Some(oracle) = &mut self.replayer.oracle {
            let ticket = std::mem::take(&mut state.ticket);
            oracle.changed(ticket, result.is_ok());
            match result {
                Ok(Reply::Data(blocks)) => oracle.read(ticket, state.number, blocks),
                Ok(Reply::Entry(entry)) if matches!(state.verb, Verb::Create | Verb::MakeNode) => {
                    oracle.created(entry.attr.ino, entry.attr.size);
                }
                _ => {}
            }
        }
    }

    /// Compares an operation that has ended with its answer in the workload.
    fn complete_track(&mut self, track: u32, at_ns: Nanos, outcome: &Outcome) {
        let state = &mut self.tracks[track];
        let got = std::mem::take(&mut state.got);
        let (verb, number, ino) = (state.verb, state.number, state.ino);
        let done = state.state == TrackState::Done;
        if self.deadlines && done && at_ns > state.at_ns && got.error.is_none() {
            self.note_deadline(track, at_ns);
        }
        let state = &self.tracks[track];
        if self.timed && done {
            let recorded_ns = &mut self.report.verbs[verb as usize].recorded_ns;
            recorded_ns.add(at_ns.saturating_sub(state.at_ns));
        }
        let recorded = outcome.error();
        if done && recorded != got.error {
            self.report.diverged(Divergence { number, verb, recorded, replayed: got.error });
        }
        let same = done && got.error.is_none();
        let inodes = &mut self.replayer.inodes;
        match outcome {
            Outcome::Entry(id) if same && got.entry != 0 => {
                self.report.inodes_differ += u64::from(!inodes.introduce(*id, got.entry));
            }
            Outcome::Data(len) if same => self.report.lengths_differ += u64::from(*len != got.len),
            Outcome::Dir(dir) => {
                if same && got.next != 0 && dir.next != 0 {
                    inodes.stopped(ino, dir.next, got.next);
                }
                if !got.referenced.is_empty() {
                    self.undo_listing(got.referenced, &dir.referenced);
                }
            }
            Outcome::Failed(_) if same => self.undo(verb, ino, got.entry),
            _ => {}
        }
        self.tracks.retire(track);
    }

    /// An operation that had to end by a time of the trace has ended.
    fn note_deadline(&mut self, track: u32, at_ns: Nanos) {
        let state = &self.tracks[track];
        let Some(by) = self.due(state.domain, at_ns) else { return };
        let deadlines = &mut self.report.deadlines;
        deadlines.due += 1;
        if state.ended > by {
            deadlines.missed += 1;
            deadlines.late_ns.add(state.ended.since(by));
        }
    }

    /// An operation succeeded that failed in the workload, so the workload will never return the
    /// references that it got.
    fn undo(&mut self, verb: Verb, ino: Ino, entry: Ino) {
        let opened = match verb {
            Verb::Create => entry,
            Verb::Open => ino,
            _ => 0,
        };
        if opened != 0 && self.replayer.inodes.release(opened) {
            self.even_out(Op::Release { ino: opened });
        }
        self.undo_reference(entry);
    }

    /// A listing returned references that it did not return in the workload.
    fn undo_listing(&mut self, mut got: Vec<Ino>, recorded: &[Ino]) {
        let inodes = &self.replayer.inodes;
        let mut expected: Vec<Ino> = recorded.iter().filter_map(|&id| inodes.actual(id)).collect();
        if got == expected {
            return;
        }
        expected.sort_unstable();
        got.sort_unstable();
        let mut expected = expected.into_iter().peekable();
        for ino in got {
            while expected.next_if(|&other| other < ino).is_some() {}
            if expected.next_if_eq(&ino).is_none() {
                self.undo_reference(ino);
            }
        }
    }

    fn undo_reference(&mut self, ino: Ino) {
        if ino != 0 && self.replayer.inodes.forget(ino, 1) == 1 {
            self.even_out(Op::Forget { ino, count: 1 });
        }
    }
}

/// Moves the request out of its place.
#[inline]
fn take(request: &mut Request) -> Request {
    std::mem::replace(request, Request::root(0, Op::Sync))
}

/// The inode that an operation names, or the directory.
fn named(op: &Op) -> Ino {
    match op {
        Op::Forget { ino, .. } | Op::Release { ino } | Op::Open { ino, .. } => *ino,
        Op::ReadDir { dir, .. } => *dir,
        _ => 0,
    }
}
