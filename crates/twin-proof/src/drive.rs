//! Clients at work on a volume, and the order in which their requests took effect.
//!
//! Contract: every request has one place in the journal: where it took effect. The volume applies
//! a request in one step between two waits, so that is the poll in which
//! [`twin_fs::Core::changes`] moved, or, for a request that changes nothing, its last poll. The
//! few that take several steps by design are marked.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;

use twin_fs::{Ino, Op, Reply, Request, Result, VolumeOf};
use twin_model::generate::Generator;
use twin_rt::{Event, Nanos, Rng, Time, join_all};

use super::oracle::tame;
use super::{AnyWorld, Scenario, Subject};
use twin_sim::faults::WriteLog;

/// A request with its reply, in the order of effect.
#[derive(Clone, Debug)]
pub struct Applied {
    /// What was asked.
    pub request: Request,
    /// What was answered; none if the run ended before.
    pub reply: Option<Result<Reply>>,
    /// When it took effect.
    pub at: Time,
    /// It changed something then.
    pub effect: bool,
    /// Requests that took effect before its last step did, if it had several.
    pub last_step: Option<usize>,
}

/// An fsync or sync that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Requests that had taken effect when it was asked.
    pub issued: usize,
    /// The file; none for all.
    pub ino: Option<Ino>,
    /// Replies that had been given then, its own among them.
    pub replied: usize,
    /// Times are not promised (fdatasync).
    pub data_only: bool,
}

/// A reply, to whatever request.
#[derive(Clone, Copy, Debug)]
pub struct Replied {
    /// The request's place in the order of effect.
    pub place: usize,
    /// Requests that had taken effect when it was answered.
    pub seen: usize,
}

/// What happened in a run.
#[derive(Debug, Default)]
pub struct Journal {
    /// Requests in the order of effect.
    pub order: Vec<Applied>,
    /// What was promised. Mark `n` of a write log stands for the first `n`, or of the replies:
    /// see [`Subject::MARKS_REPLIES`].
    pub acks: Vec<Ack>,
    /// Replies in the order in which they were given.
    pub replies: Vec<Replied>,
    /// The request that waited longest for its reply, and how long.
    pub slowest: Option<(Nanos, Op)>,
}

struct DriverState {
    generator: Generator,
    rng: Rng,
    left: u64,
    in_flight: u32,
    /// A client wants to be alone, or is.
    alone: bool,
}

struct Driver<L: Subject> {
    volume: VolumeOf<L>,
    rt: twin_rt::Rt,
    think_ns: u64,
    state: RefCell<DriverState>,
    notes: Notes<L>,
    changed: Event,
}

/// Notes of what a volume is asked and answers, for however many clients.
pub(super) struct Notes<L: Subject> {
    volume: VolumeOf<L>,
    rt: twin_rt::Rt,
    journal: RefCell<Journal>,
    log: Option<WriteLog>,
}

/// Runs the scenario's clients on an open volume until they have made their requests.
///
/// # Errors
/// If they never end.
pub fn drive<L: Subject>(
    scenario: &Scenario,
    world: &AnyWorld<L>,
    generator: Generator,
    ops: u64,
    log: Option<&WriteLog>,
) -> Result<(Journal, Generator), String> {
    let state = DriverState {
        generator,
        rng: world.rt.rng("clients"),
        left: ops,
        in_flight: 0,
        alone: false,
    };
    let driver = Rc::new(Driver {
        volume: world.volume().clone(),
        rt: world.rt.clone(),
        think_ns: scenario.think_ns,
        state: RefCell::new(state),
        notes: Notes::new(world, log),
        changed: Event::new(),
    });
    let clients = (0..scenario.clients).map(|client| {
        let driver = Rc::clone(&driver);
        world.rt.spawn("client", async move { driver.client(client).await })
    });
    let clients: Vec<_> = clients.collect();
    world.wait("clients", join_all(clients))?;
    let Some(driver) = Rc::into_inner(driver) else { return Err("a client lives on".into()) };
    Ok((driver.notes.journal.into_inner(), driver.state.into_inner().generator))
}

impl<L: Subject> Driver<L> {
    async fn client(&self, client: u32) {
        loop {
            self.think().await;
            let Some(request) = self.next(client).await else { return };
            let alone = needs_to_be_alone(&request.op);
            let reply = self.notes.ask(&request).await;
            let mut state = self.state.borrow_mut();
            state.generator.learn(&request, &reply);
            state.in_flight -= 1;
            if alone {
                state.alone = false;
            }
            drop(state);
            self.changed.notify();
        }
    }

    async fn think(&self) {
        if self.think_ns > 0 {
            let span = {
                let rng = &mut self.state.borrow_mut().rng;
                if rng.chance(0.5) { 0 } else { rng.below(self.think_ns) }
            };
            if span > 0 {
                self.rt.sleep(span).await;
            }
        }
        self.rt.maybe_yield().await;
    }

    /// The client's next request. One that lets go of an inode is made while nothing else is
    /// under way: a front end does not use what it has given back.
    async fn next(&self, client: u32) -> Option<Request> {
        self.changed.wait_until(|| !self.state.borrow().alone).await;
        let request = {
            let mut state = self.state.borrow_mut();
            if state.left == 0 {
                return None;
            }
            state.left -= 1;
            let request = tame(&self.volume.core().geometry, state.generator.next_for(client));
            if !needs_to_be_alone(&request.op) {
                state.in_flight += 1;
                return Some(request);
            }
            state.alone = true;
            request
        };
        self.changed.wait_until(|| self.state.borrow().in_flight == 0).await;
        self.state.borrow_mut().in_flight += 1;
        Some(request)
    }
}

impl<L: Subject> Notes<L> {
    /// Notes about an open volume, and marks in a log of its writes.
    pub(super) fn new(world: &AnyWorld<L>, log: Option<&WriteLog>) -> Notes<L> {
        let (volume, rt) = (world.volume().clone(), world.rt.clone());
        Notes { volume, rt, journal: RefCell::default(), log: log.cloned() }
    }

    /// What was noted.
    pub(super) fn into_journal(self) -> Journal {
        self.journal.into_inner()
    }

    /// The volume.
    pub(super) fn volume(&self) -> &VolumeOf<L> {
        &self.volume
    }

    /// Notes that somebody was promised all changes that have taken effect.
    pub(super) fn promise_all(&self) {
        let mut journal = self.journal.borrow_mut();
        let last = journal.order.iter().rposition(|applied| applied.request.op.changes_volume());
        let (issued, replied) = (last.map_or(0, |last| last + 1), journal.replies.len());
        journal.acks.push(Ack { issued, ino: None, replied, data_only: false });
        if let Some(log) = &self.log {
            log.mark(journal.acks.len() as u64);
        }
    }

    /// Lets time pass.
    pub(super) async fn rest(&self, span: Nanos) {
        self.rt.sleep(span).await;
    }

    /// Executes a request, and notes where it took effect, its reply, and what that promises.
    pub(super) async fn ask(&self, request: &Request) -> Result<Reply> {
        let issued = self.journal.borrow().order.len();
        let (place, reply) = self.execute(request).await;
        let mut journal = self.journal.borrow_mut();
        let seen = journal.order.len();
        journal.replies.push(Replied { place, seen });
        let replied = journal.replies.len();
        let ack = match request.op {
            Op::Fsync { ino, data_only } if reply.is_ok() => Some((Some(ino), data_only)),
            Op::Sync if reply.is_ok() => Some((None, false)),
            _ => None,
        };
        if let Some((ino, data_only)) = ack {
            journal.acks.push(Ack { issued, ino, replied, data_only });
        }
        if let Some(log) = &self.log {
            match L::MARKS_REPLIES {
                true => log.mark(replied as u64),
                false if ack.is_some() => log.mark(journal.acks.len() as u64),
                false => {}
            }
        }
        reply
    }

    /// Executes a request and notes where it took effect: its place and its reply.
    async fn execute(&self, request: &Request) -> (usize, Result<Reply>) {
        let mut future = pin!(self.volume.execute(request.clone()));
        let core = self.volume.core();
        let by_effect = !needs_to_be_alone(&request.op);
        let several = takes_steps(&request.op);
        let mut place = None;
        let began = self.rt.now();
        let reply = std::future::poll_fn(|cx| {
            let before = core.changes();
            let polled = future.as_mut().poll(cx);
            let effect = by_effect && core.changes() != before;
            let mut journal = self.journal.borrow_mut();
            let order = &mut journal.order;
            let begun = place.is_some();
            if place.is_none() && (effect || polled.is_ready()) {
                place = Some(order.len());
                let (request, at) = (request.clone(), self.rt.now());
                order.push(Applied { request, reply: None, at, effect, last_step: None });
            }
            if let Some(place) = place {
                if begun && effect && several {
                    order[place].last_step = Some(order.len());
                }
                if let std::task::Poll::Ready(reply) = &polled {
                    order[place].reply = Some(reply.clone());
                }
            }
            polled
        })
        .await;
        let (took, journal) = (self.rt.now() - began, &mut self.journal.borrow_mut());
        if journal.slowest.as_ref().is_none_or(|(longest, _)| took > *longest) {
            journal.slowest = Some((took, request.op.clone()));
        }
        // It has a place: that of its reply, if it changed nothing.
        (place.unwrap_or_default(), reply)
    }
}

fn needs_to_be_alone(op: &Op) -> bool {
    matches!(op, Op::Forget { .. } | Op::Release { .. })
}

/// Operations on a file that may change it in several steps: see `docs/decisions`.
fn takes_steps(op: &Op) -> bool {
    matches!(op, Op::SetAttr { .. } | Op::Open { .. } | Op::Fallocate { .. })
}
