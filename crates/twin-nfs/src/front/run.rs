//! Carries inputs and actions between a machine, a server and sockets.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use twin_rt::{Rt, Time};

use super::{Accepted, Action, Came, Figures, FrontStats, Input, Machine, Socket, Sockets};
use super::{Bounds, Steps, Went};
use crate::server::Server;

/// The most connections that are accepted in a row.
const ACCEPTS: usize = 16;
/// The most reads in a row, for the rest of a record.
const READS: usize = 8;
/// A record that waits for its turn gets it after this many events of sockets.
const EVENTS: usize = 16;

/// Messages of the tasks of calls, and of the owner of a front, to its run.
enum Message {
    Answered(u64, Option<Vec<u8>>),
    Stop,
    GiveUp,
}

/// Messages to the run that it has not taken yet. No cell is borrowed while other code runs.
#[derive(Default)]
struct Inbox {
    messages: RefCell<VecDeque<Message>>,
    waker: RefCell<Option<Waker>>,
}

impl Inbox {
    fn send(&self, message: Message) {
        self.messages.borrow_mut().push_back(message);
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn take(&self) -> Option<Message> {
        self.messages.borrow_mut().pop_front()
    }
}

/// Serves the clients of a [`Server`]. Cheap to clone. The machine belongs to the future of
/// [`run`](Self::run) alone; everybody else leaves word.
#[derive(Clone)]
pub struct Front(Rc<Shared>);

struct Shared {
    rt: Rt,
    server: Rc<Server>,
    inbox: Inbox,
    figures: Cell<Figures>,
}

impl Front {
    /// A front of a server.
    pub fn new(rt: &Rt, server: Rc<Server>) -> Front {
        let (inbox, figures) = Default::default();
        Front(Rc::new(Shared { rt: rt.clone(), server, inbox, figures }))
    }

    /// The machine for this server.
    pub fn machine(&self, bounds: Bounds) -> Machine {
        Machine::new(bounds, self.0.server.longest_list())
    }

    /// Serves until [`stop`](Self::stop): then the calls that are executed are answered, and the connections
    /// closed.
    pub async fn run(&self, sockets: impl Sockets, steps: impl Steps) {
        let shared = &self.0;
        let mut run =
            Run { shared, sockets, steps, timer: None, turn: None, events: 0, eventful: false };
        poll_fn(|cx| run.poll(cx)).await;
    }

    /// Stops serving in order: calls that have begun are answered.
    pub fn stop(&self) {
        self.0.inbox.send(Message::Stop);
    }

    /// Closes the connections of all calls that are executed. For a core that does not answer any more.
    pub fn give_up_waiting(&self) {
        self.0.inbox.send(Message::GiveUp);
    }

    /// How it was when it last rested.
    pub fn figures(&self) -> Figures {
        self.0.figures.get()
    }

    /// The counters so far.
    pub fn stats(&self) -> FrontStats {
        self.figures().stats
    }

    /// The time since which the oldest call is being executed.
    pub fn oldest_wait(&self) -> Option<Time> {
        self.figures().oldest_wait
    }
}

type Sleep = Pin<Box<dyn Future<Output = ()>>>;

/// The state of one run of [`Front`], between its sockets and its machine.
struct Run<'a, S, M> {
    shared: &'a Rc<Shared>,
    sockets: S,
    steps: M,
    timer: Option<(Time, Sleep)>,
    /// Lets outside events in before the next turn.
    turn: Option<Sleep>,
    /// Events since the last turn.
    events: usize,
    /// An event has come since `turn` began to wait.
    eventful: bool,
}

impl<S: Sockets, M: Steps> Run<'_, S, M> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Messages that arrive while the run works are taken before it rests.
        self.shared.inbox.waker.take();
        loop {
            self.work();
            let figures = self.steps.figures();
            self.shared.figures.set(figures);
            if figures.over {
                return Poll::Ready(());
            }
            if !self.wait(figures, cx) {
                break;
            }
        }
        self.shared.inbox.waker.replace(Some(cx.waker().clone()));
        Poll::Pending
    }

    fn handle(&mut self, input: Input<'_>) {
        self.steps.handle(input, self.shared.rt.now());
    }

    /// Takes all messages and performs all actions, until none of either is left.
    fn work(&mut self) {
        loop {
            if let Some(action) = self.steps.next_action() {
                self.act(action);
                continue;
            }
            match self.shared.inbox.take() {
                Some(Message::Answered(call, reply)) => {
                    self.handle(Input::Answered { call, reply })
                }
                Some(Message::Stop) => self.handle(Input::Stop),
                Some(Message::GiveUp) => self.handle(Input::GiveUp),
                None => return,
            }
        }
    }

    /// Takes an event, a deadline or a turn; false if there is none.
    fn wait(&mut self, figures: Figures, cx: &mut Context<'_>) -> bool {
        if figures.has_turns && self.events >= EVENTS {
            (self.turn, self.events) = (None, 0);
            self.handle(Input::Turn);
            return true;
        }
        if let Poll::Ready(event) = self.sockets.poll_event(cx) {
            self.events += 1;
            self.eventful = true;
            self.event(event);
            return true;
        }
        if figures.deadline.is_some_and(|at| at <= self.shared.rt.now()) {
            self.handle(Input::Tick);
            return true;
        }
        if figures.has_turns && self.turns(cx) {
            self.handle(Input::Turn);
            return true;
        }
        self.sleep(figures.deadline, cx);
        false
    }

    /// True if a record has its turn while sockets have no events.
    fn turns(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(turn) = &mut self.turn {
            if turn.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.turn = None;
            if !self.eventful {
                self.events = 0;
                return true;
            }
        }
        self.eventful = false;
        // Lets outside events in first.
        let mut turn: Sleep = Box::pin(self.shared.rt.yield_to_all());
        let _ = turn.as_mut().poll(cx);
        self.turn = Some(turn);
        false
    }

    /// Wakes the task at a deadline. A timer that is earlier stays: it does no harm.
    fn sleep(&mut self, deadline: Option<Time>, cx: &mut Context<'_>) {
        let Some(at) = deadline else { return };
        let now = self.shared.rt.now();
        if self.timer.as_ref().is_none_or(|(armed, _)| *armed > at || *armed <= now) {
            self.timer = Some((at, Box::pin(self.shared.rt.sleep_until(at))));
        }
        if let Some((_, timer)) = &mut self.timer {
            let _ = timer.as_mut().poll(cx);
        }
    }

    fn event(&mut self, event: Socket) {
        match event {
            Socket::Incoming => self.accept(),
            Socket::Broken(key) => self.handle(Input::Broken(key)),
            Socket::Ready(key) => {
                let _ = self.read(key);
                if !self.steps.pieces(key).is_empty() {
                    self.send(key);
                }
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            match self.sockets.accept() {
                Accepted::One(key, peer) => self.handle(Input::Accepted { key, peer }),
                Accepted::Nobody => return,
                Accepted::Failed => return self.handle(Input::AcceptFailed),
            }
        }
    }

    /// Reads once. False if nothing came.
    fn read(&mut self, key: u64) -> bool {
        let room = self.steps.room(key);
        if room == 0 {
            return false;
        }
        let now = self.shared.rt.now();
        let input = match self.sockets.read(key, room) {
            Came::Bytes(bytes) => Input::Came { key, bytes },
            Came::Nothing => return false,
            Came::Ended => Input::Ended(key),
            Came::Broken => Input::Broken(key),
        };
        self.steps.handle(input, now);
        true
    }

    fn send(&mut self, key: u64) {
        loop {
            let pieces = self.steps.pieces(key);
            if pieces.is_empty() {
                return self.handle(Input::Full(key));
            }
            match self.sockets.write(key, &pieces) {
                Went::Bytes(len) => self.handle(Input::Sent { key, len }),
                Went::Full => return self.handle(Input::Full(key)),
                Went::Broken => return self.handle(Input::Broken(key)),
            }
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Send(key) => self.send(key),
            Action::Read(key) => {
                let mut reads = 0..READS;
                while reads.next().is_some() && self.read(key) {}
            }
            Action::Watch { key, read, write } => self.sockets.watch(key, read, write),
            Action::Shutdown(key) => self.sockets.shutdown(key),
            Action::Close(key) => self.sockets.close(key),
            Action::Listen(on) => self.sockets.listen(on),
            Action::EndListening => self.sockets.end_listening(),
            // Polled in place: most calls end without waiting.
            Action::Start { call, peer, record, .. } => {
                let shared = Rc::clone(self.shared);
                self.shared.rt.run_or_spawn("nfs", async move {
                    let reply = shared.server.answer(peer, record).await;
                    shared.inbox.send(Message::Answered(call, reply));
                });
            }
        }
    }
}
