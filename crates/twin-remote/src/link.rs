//! The way of a call: over the network to the server, and its reply back.
//!
//! Contract: a [`Site`] is the place of a server, which may be down; calls that are with a server when it goes
//! down get no reply. Over TCP the client learns that at once (the connection is gone) and sends its calls
//! again when the server is back; over UDP only its timeouts tell.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use twin_disk::Bytes;
use twin_fs::Cpu;
use twin_nfs::client::{Carrier, Deliver};
use twin_nfs::{Peer, Server};
use twin_rt::{BoxFuture, Event, Nanos, Rt, Time};
use twin_sim::network::{Fate, Network, Proto, Way};

use crate::peer;

/// Bytes of a record's mark.
const MARK: u64 = 4;

/// Answers the calls of clients: a server, or one with something before it.
pub type Answer = Rc<dyn Fn(Peer, Bytes) -> BoxFuture<'static, Option<Vec<u8>>>>;

/// The answers of a server.
pub fn answers(server: Rc<Server>) -> Answer {
    Rc::new(move |peer, record| {
        let server = Rc::clone(&server);
        Box::pin(async move { server.answer(peer, record).await })
    })
}

/// The place of a server. Cheap to clone.
#[derive(Clone)]
pub struct Site(Rc<Place>);

struct Place {
    rt: Rt,
    cpu: Cpu,
    call_ns: Nanos,
    server: RefCell<Option<Answer>>,
    /// The number of times that a server came up or went down.
    life: Cell<u64>,
    changed: Event,
    /// Calls that the server executes, by number, and who waits for them.
    running: RefCell<BTreeMap<u64, Waker>>,
    next: Cell<u64>,
}

impl Site {
    /// A place without a server, whose calls each take time of a processor.
    pub fn new(rt: &Rt, cpu: Cpu, call_ns: Nanos) -> Site {
        let (server, life, changed, running, next) = Default::default();
        Site(Rc::new(Place { rt: rt.clone(), cpu, call_ns, server, life, changed, running, next }))
    }

    /// A server comes up.
    pub fn up(&self, server: Answer) {
        *self.0.server.borrow_mut() = Some(server);
        self.change();
    }

    /// The server goes down: calls that it executes get no reply.
    pub fn down(&self) {
        self.0.server.borrow_mut().take();
        self.change();
    }

    /// The number of times that a server came up or went down.
    pub fn life(&self) -> u64 {
        self.0.life.get()
    }

    fn change(&self) {
        self.0.life.set(self.0.life.get() + 1);
        self.0.changed.notify();
        std::mem::take(&mut *self.0.running.borrow_mut()).into_values().for_each(Waker::wake);
    }

    /// Waits until a server is up.
    async fn is_up(&self) {
        self.0.changed.wait_until(|| self.0.server.borrow().is_some()).await;
    }

    /// The reply to a call, without its mark; `None` if the server is down or goes down before it replies.
    async fn answer(&self, machine: usize, record: Bytes) -> Option<Vec<u8>> {
        let place = &self.0;
        let server = place.server.borrow().clone()?;
        let life = place.life.get();
        // Who waits for the reply may go away; the server executes the call to its end.
        let (cpu, call_ns) = (place.cpu.clone(), place.call_ns);
        let mut work = place.rt.spawn("served", async move {
            cpu.occupy(call_ns).await;
            server(peer(machine), record).await
        });
        let number = place.next.replace(place.next.get() + 1);
        let reply = poll_fn(|cx| {
            if place.life.get() != life {
                return Poll::Ready(None);
            }
            place.running.borrow_mut().insert(number, cx.waker().clone());
            Pin::new(&mut work).poll(cx)
        });
        let reply = reply.await;
        place.running.borrow_mut().remove(&number);
        Some(reply?.split_off(MARK as usize))
    }
}

/// The link of a machine to a server. Cheap to clone.
#[derive(Clone)]
pub struct Link(Rc<Line>);

struct Line {
    rt: Rt,
    network: Rc<RefCell<Network>>,
    site: Site,
    machine: usize,
    /// The number of the connection, and when it is there.
    connection: Cell<(u64, Time)>,
}

impl Link {
    /// The link of a machine.
    pub fn new(rt: &Rt, network: &Rc<RefCell<Network>>, site: &Site, machine: usize) -> Link {
        let (network, connection) = (Rc::clone(network), Cell::new((0, Time(0))));
        Link(Rc::new(Line { rt: rt.clone(), network, site: site.clone(), machine, connection }))
    }
}

impl Carrier for Link {
    fn carry(&self, record: Bytes, deliver: Deliver) {
        let line = Rc::clone(&self.0);
        self.0.rt.spawn("call", async move { line.carry(record, deliver).await });
    }
}

impl Line {
    async fn carry(self: Rc<Self>, record: Bytes, deliver: Deliver) {
        let (number, there) = self.connection.get();
        self.rt.sleep_until(there).await;
        if number != self.connection.get().0 {
            return self.again(deliver).await;
        }
        let Some(arrivals) = self.send(Way::There, record.len() as u64) else {
            return self.again(deliver).await;
        };
        let last = arrivals.len().saturating_sub(1);
        for (nth, at) in arrivals.into_iter().enumerate() {
            let (line, record, deliver) = (Rc::clone(&self), record.clone(), Rc::clone(&deliver));
            let arrive = async move { line.arrive(at, number, record, deliver).await };
            if nth == last {
                arrive.await;
            } else {
                self.rt.spawn("copy", arrive);
            }
        }
    }

    /// A copy of a call arrives, and its reply goes back.
    async fn arrive(self: Rc<Self>, at: Time, number: u64, record: Bytes, deliver: Deliver) {
        self.rt.sleep_until(at).await;
        let is_tcp = self.is_tcp();
        let is_broken = || is_tcp && number != self.connection.get().0;
        if is_broken() {
            return self.again(deliver).await;
        }
        let Some(reply) = self.site.answer(self.machine, record).await else {
            if is_tcp && !is_broken() {
                self.break_at(self.rt.now());
            }
            return if is_tcp {
                self.again(deliver).await
            };
        };
        if is_broken() {
            return self.again(deliver).await;
        }
        let Some(arrivals) = self.send(Way::Back, reply.len() as u64) else {
            return self.again(deliver).await;
        };
        for at in arrivals {
            self.rt.sleep_until(at).await;
            if is_broken() {
                return self.again(deliver).await;
            }
            deliver(Some(reply.clone()));
        }
    }

    fn is_tcp(&self) -> bool {
        self.network.borrow().settings().proto == Proto::Tcp
    }

    /// Sends a message; `None` if its connection broke.
    fn send(&self, way: Way, bytes: u64) -> Option<Vec<Time>> {
        let fate = self.network.borrow_mut().send(self.rt.now(), self.machine, way, bytes + MARK);
        match fate {
            Fate::Arrives(mut times) => {
                times.sort_unstable();
                Some(times)
            }
            Fate::Breaks(there) => {
                self.break_at(there);
                None
            }
        }
    }

    fn break_at(&self, there: Time) {
        self.connection.set((self.connection.get().0 + 1, there));
    }

    /// A call was lost with its connection: the client hears of it when there is a new one.
    async fn again(&self, deliver: Deliver) {
        if !self.is_tcp() {
            return;
        }
        loop {
            self.site.is_up().await;
            let (_, there) = self.connection.get();
            self.rt.sleep_until(there).await;
            if there == self.connection.get().1 {
                return deliver(None);
            }
        }
    }
}
