//! The front end: all connections of a server.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::task::{Poll, Waker};

use rustix::event::{Timespec, epoll};
use twin_disk::Bytes;
use twin_fs::FileSystem;
use twin_nfs::{Peer, Server};
use twin_rt::{MILLIS, Nanos, SECS, Time};

use super::Bounds;
use super::connection::{Came, Connection};
use crate::host::{Host, Source, Watch};

/// Bytes that one read takes.
const READ_BYTES: usize = 256 << 10;
/// Keys of listeners in epoll are from here on.
const LISTENERS: u64 = 1 << 63;
/// The most connections that are accepted in a row.
const ACCEPTS: usize = 16;
/// How often slow and idle connections are looked for.
const SWEEP_NS: Nanos = 5 * SECS;
/// How long an ending server waits for clients to take their last replies and to close.
const LINGER_NS: Nanos = 300 * MILLIS;

/// Counters of the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontStats {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that are open.
    pub open: u64,
    /// Connections that were closed because they were slow, idle, too many, or sent nonsense.
    pub dropped: u64,
}

/// Serves the clients of a [`Server`]. Cheap to clone.
pub struct Front<F>(Rc<Inner<F>>);

impl<F> Clone for Front<F> {
    fn clone(&self) -> Self {
        Front(Rc::clone(&self.0))
    }
}

struct Inner<F> {
    host: Host,
    server: Rc<Server<F>>,
    bounds: Bounds,
    epoll: Rc<OwnedFd>,
    listeners: RefCell<Vec<TcpListener>>,
    connections: RefCell<BTreeMap<u64, Connection>>,
    next_key: Cell<u64>,
    watch: RefCell<Option<Watch>>,
    /// Sockets with events that have not been handled, in turn.
    ready: RefCell<VecDeque<u64>>,
    /// The socket whose event is handled next.
    current: Cell<Option<u64>>,
    waker: RefCell<Option<Waker>>,
    buffer: RefCell<Vec<u8>>,
    /// Bytes of calls that are executed, and of incomplete ones.
    call_bytes: Cell<usize>,
    /// Calls under way.
    calls: Cell<usize>,
    /// Calls that have to wait, by number: the connection, and since when.
    waiting: RefCell<BTreeMap<u64, (u64, Time)>>,
    /// Calls that wait and that nobody expects to end any more.
    given_up: RefCell<BTreeSet<u64>>,
    next_call: Cell<u64>,
    /// Connections that are not read because of the bounds.
    paused: RefCell<VecDeque<u64>>,
    ending: Cell<bool>,
    stats: Cell<FrontStats>,
}

impl<F: FileSystem> Source for Inner<F> {
    fn take_event(&self) -> bool {
        if self.ending.get() {
            return false;
        }
        if self.ready.borrow().is_empty() {
            self.look();
        }
        let Some(key) = self.ready.borrow_mut().pop_front() else { return false };
        self.current.set(Some(key));
        self.wake();
        true
    }
}

impl<F: FileSystem> Front<F> {
    /// A front end over listening sockets.
    ///
    /// # Errors
    /// If the host refuses a descriptor.
    pub fn new(
        host: &Host,
        server: Rc<Server<F>>,
        listeners: Vec<TcpListener>,
        bounds: Bounds,
    ) -> io::Result<Front<F>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (n, listener) in listeners.iter().enumerate() {
            let data = epoll::EventData::new_u64(LISTENERS + n as u64);
            epoll::add(&epoll, listener, data, epoll::EventFlags::IN)?;
        }
        Ok(Front(Rc::new(Inner {
            host: host.clone(),
            server,
            bounds,
            epoll: Rc::new(epoll),
            listeners: RefCell::new(listeners),
            connections: RefCell::default(),
            next_key: Cell::new(0),
            watch: RefCell::default(),
            ready: RefCell::default(),
            current: Cell::new(None),
            waker: RefCell::default(),
            buffer: RefCell::new(vec![0; READ_BYTES]),
            call_bytes: Cell::new(0),
            calls: Cell::new(0),
            waiting: RefCell::default(),
            given_up: RefCell::default(),
            next_call: Cell::new(0),
            paused: RefCell::default(),
            ending: Cell::new(false),
            stats: Cell::default(),
        })))
    }

    /// Serves until [`stop`](Self::stop): then the calls under way are executed and answered, and
    /// the connections closed.
    ///
    /// # Errors
    /// If the sockets cannot be watched.
    pub async fn run(&self) -> io::Result<()> {
        let inner = &self.0;
        let source: Rc<dyn Source> = Rc::clone(inner) as Rc<dyn Source>;
        *inner.watch.borrow_mut() = Some(inner.host.watch(Rc::clone(&inner.epoll), source)?);
        let sweeper = Rc::downgrade(inner);
        let rt = inner.host.rt().clone();
        inner.host.rt().spawn("sweep", async move {
            loop {
                rt.sleep(SWEEP_NS).await;
                match sweeper.upgrade() {
                    Some(inner) if !inner.ending.get() => inner.sweep(),
                    _ => return,
                }
            }
        });
        poll_fn(|cx| {
            if let Some(key) = inner.current.take() {
                inner.handle(key);
            }
            *inner.waker.borrow_mut() = Some(cx.waker().clone());
            if inner.ending.get() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        inner.watch.borrow_mut().take();
        inner.finish().await;
        Ok(())
    }

    /// Ends the serving.
    pub fn stop(&self) {
        self.0.ending.set(true);
        self.0.wake();
    }

    /// The counters so far.
    pub fn stats(&self) -> FrontStats {
        let open = self.0.connections.borrow().len() as u64;
        FrontStats { open, ..self.0.stats.get() }
    }

    /// The time since when the oldest call waits that has to wait.
    pub fn oldest_wait(&self) -> Option<Time> {
        self.0.waiting.borrow().values().next().map(|&(_, since)| since)
    }

    /// Closes the connections of all calls that wait. For a core that does not answer any more.
    pub fn give_up_waiting(&self) {
        let waiting = std::mem::take(&mut *self.0.waiting.borrow_mut());
        self.0.calls.set(self.0.calls.get().saturating_sub(waiting.len()));
        self.0.given_up.borrow_mut().extend(waiting.keys());
        waiting.into_values().for_each(|(key, _)| self.0.drop_connection(key));
        self.0.wake();
    }
}

impl<F: FileSystem> Inner<F> {
    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    fn count(&self, change: impl FnOnce(&mut FrontStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// Asks epoll which sockets have events.
    fn look(&self) {
        let event = || epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        };
        let mut events: [epoll::Event; 32] = std::array::from_fn(|_| event());
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = epoll::wait(&*self.epoll, &mut events[..], Some(&now)).unwrap_or(0);
        self.ready.borrow_mut().extend(events[..count].iter().map(|event| event.data.u64()));
    }

    fn handle(self: &Rc<Self>, key: u64) {
        if key >= LISTENERS {
            return self.accept((key - LISTENERS) as usize);
        }
        self.read(key);
        self.flush(key);
    }

    fn accept(self: &Rc<Self>, listener: usize) {
        for _ in 0..ACCEPTS {
            let accepted = self.listeners.borrow().get(listener).map(TcpListener::accept);
            let Some(Ok((stream, from))) = accepted else { return };
            self.count(|stats| stats.accepted += 1);
            if self.connections.borrow().len() >= self.bounds.connections && !self.drop_idlest() {
                self.count(|stats| stats.dropped += 1);
                continue;
            }
            let peer = Peer { address: from.ip().into(), port: from.port() };
            // A reply must not wait for the next one.
            let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            if ready.is_ok() {
                self.add(stream, peer);
            }
        }
    }

    fn add(&self, stream: TcpStream, peer: Peer) {
        let key = self.next_key.get();
        self.next_key.set(key + 1);
        let data = epoll::EventData::new_u64(key);
        if epoll::add(&*self.epoll, stream.as_fd(), data, epoll::EventFlags::IN).is_ok() {
            let connection = Connection::new(stream, peer, self.host.rt().now());
            self.connections.borrow_mut().insert(key, connection);
        }
    }

    fn read(self: &Rc<Self>, key: u64) {
        let now = self.host.rt().now();
        let mut records = Vec::new();
        let (came, peer, grew) = {
            let mut connections = self.connections.borrow_mut();
            let Some(connection) = connections.get_mut(&key) else { return };
            if connection.ended || !connection.interest.0 {
                return;
            }
            let before = connection.pending();
            let came = connection.read(&mut self.buffer.borrow_mut(), now, &mut records);
            (came, connection.peer, connection.pending() as isize - before as isize)
        };
        self.call_bytes.set(self.call_bytes.get().saturating_add_signed(grew));
        for record in records {
            self.enter(key, peer, record);
        }
        match came {
            Came::Nothing => {}
            Came::Records => self.bound_incomplete(),
            Came::End => {
                let mut connections = self.connections.borrow_mut();
                let Some(connection) = connections.get_mut(&key) else { return };
                connection.ended = true;
                // A connection that has ended would report itself without end.
                connection.interest = (false, false);
                let _ = epoll::delete(&*self.epoll, connection.stream().as_fd());
                if connection.calls == 0 && !connection.has_replies() {
                    drop(connections);
                    self.close(key);
                }
            }
        }
    }

    /// Gives a call to the server and polls it in place.
    fn enter(self: &Rc<Self>, key: u64, peer: Peer, record: Bytes) {
        let call = self.next_call.get();
        self.next_call.set(call + 1);
        let len = record.len();
        self.call_bytes.set(self.call_bytes.get() + len);
        self.calls.set(self.calls.get() + 1);
        if let Some(connection) = self.connections.borrow_mut().get_mut(&key) {
            connection.calls += 1;
        }
        let (inner, before) = (Rc::clone(self), self.calls.get());
        self.host.rt().run_or_spawn("nfs", async move {
            let reply = inner.server.answer(peer, record).await;
            inner.call_bytes.set(inner.call_bytes.get() - len);
            if inner.given_up.borrow_mut().remove(&call) {
                return;
            }
            let waited = inner.waiting.borrow_mut().remove(&call).is_some();
            inner.calls.set(inner.calls.get() - 1);
            inner.done(key, reply, waited);
        });
        if self.calls.get() == before {
            self.waiting.borrow_mut().insert(call, (key, self.host.rt().now()));
        }
    }

    /// Takes the reply to a call.
    fn done(&self, key: u64, reply: Option<Vec<u8>>, waited: bool) {
        let nonsense = {
            let mut connections = self.connections.borrow_mut();
            let Some(connection) = connections.get_mut(&key) else { return self.resume() };
            connection.calls -= 1;
            let nonsense = reply.is_none();
            connection.push(reply.unwrap_or_default());
            nonsense
        };
        if nonsense {
            // Who sends what is no call does not speak this protocol.
            self.drop_connection(key);
        } else if waited {
            self.flush(key);
        }
        self.resume();
        if self.ending.get() && self.calls.get() == 0 {
            self.wake();
        }
    }

    /// Sends what can be sent, and sets what to watch for.
    fn flush(&self, key: u64) {
        let now = self.host.rt().now();
        let mut connections = self.connections.borrow_mut();
        let Some(connection) = connections.get_mut(&key) else { return };
        let sent = connection.flush(now);
        let over = connection.ended && connection.calls == 0 && !connection.has_replies();
        if sent.is_err() || over {
            drop(connections);
            return self.close(key);
        }
        if connection.ended {
            return;
        }
        let full = connection.is_full(&self.bounds)
            || self.call_bytes.get() >= self.bounds.call_bytes && connection.calls > 0;
        let wanted = (!full && !self.ending.get(), connection.has_replies());
        if wanted.0 != connection.interest.0 && full {
            self.paused.borrow_mut().push_back(key);
        }
        if wanted != connection.interest {
            connection.interest = wanted;
            let mut flags = epoll::EventFlags::empty();
            flags.set(epoll::EventFlags::IN, wanted.0);
            flags.set(epoll::EventFlags::OUT, wanted.1);
            let data = epoll::EventData::new_u64(key);
            let _ = epoll::modify(&*self.epoll, connection.stream().as_fd(), data, flags);
        }
    }

    /// Reads connections again that were paused, where the bounds allow it.
    fn resume(&self) {
        let paused = std::mem::take(&mut *self.paused.borrow_mut());
        paused.into_iter().for_each(|key| {
            self.flush(key);
            let still = self
                .connections
                .borrow()
                .get(&key)
                .is_some_and(|c| !c.interest.0 && !c.ended && !self.ending.get());
            let mut paused = self.paused.borrow_mut();
            if still && !paused.contains(&key) {
                paused.push_back(key);
            }
        });
    }

    /// Closes connections with old incomplete calls while all of them take too much memory.
    fn bound_incomplete(&self) {
        while self.call_bytes.get() > self.bounds.call_bytes {
            let oldest = {
                let connections = self.connections.borrow();
                let begun = connections.iter().filter_map(|(&key, c)| Some((c.began?, key)));
                begun.min()
            };
            let Some((_, key)) = oldest else { return };
            self.drop_connection(key);
        }
    }

    /// Closes the connection that has been idle longest. Returns false if none is idle.
    fn drop_idlest(&self) -> bool {
        let idlest = {
            let connections = self.connections.borrow();
            let idle = connections.iter().filter(|(_, c)| c.calls == 0 && !c.has_replies());
            idle.map(|(&key, c)| (c.moved, key)).min()
        };
        idlest.map(|(_, key)| self.drop_connection(key)).is_some()
    }

    fn sweep(&self) {
        let now = self.host.rt().now();
        let bounds = &self.bounds;
        let over: Vec<u64> = {
            let connections = self.connections.borrow();
            let late = connections.iter().filter(|(_, c)| {
                let silent = now.since(c.moved);
                let sending = c.began.is_some_and(|began| now.since(began) > bounds.slow_ns);
                let reading = c.has_replies() && silent > bounds.slow_ns;
                sending || reading || c.calls == 0 && silent > bounds.idle_ns
            });
            late.map(|(&key, _)| key).collect()
        };
        over.into_iter().for_each(|key| self.drop_connection(key));
        // Clients that send nothing more, but read slowly.
        let ended: Vec<u64> = {
            let connections = self.connections.borrow();
            connections.iter().filter(|(_, c)| c.ended).map(|(&key, _)| key).collect()
        };
        ended.into_iter().for_each(|key| self.flush(key));
    }

    /// Closes a connection that breaks the bounds or the protocol.
    fn drop_connection(&self, key: u64) {
        self.count(|stats| stats.dropped += 1);
        self.close(key);
    }

    fn close(&self, key: u64) {
        if let Some(connection) = self.connections.borrow_mut().remove(&key) {
            self.call_bytes.set(self.call_bytes.get().saturating_sub(connection.pending()));
            let _ = epoll::delete(&*self.epoll, connection.stream().as_fd());
        }
    }

    /// Answers what is under way, then closes all connections such that clients get the answers: a
    /// socket that is closed with unread bytes in it takes replies back that the client has not
    /// read.
    async fn finish(self: &Rc<Self>) {
        self.listeners.borrow_mut().clear();
        poll_fn(|cx| {
            *self.waker.borrow_mut() = Some(cx.waker().clone());
            if self.calls.get() == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let deadline = Time(self.host.rt().now().0 + LINGER_NS);
        let mut buffer = vec![0; READ_BYTES];
        let mut told = BTreeSet::new();
        loop {
            let now = self.host.rt().now();
            let mut over = Vec::new();
            for (&key, connection) in self.connections.borrow_mut().iter_mut() {
                let broken = connection.flush(now).is_err();
                if !broken && !connection.has_replies() && told.insert(key) {
                    let _ = connection.stream().shutdown(Shutdown::Write);
                }
                if broken || connection.drain(&mut buffer) {
                    over.push(key);
                }
            }
            over.into_iter().for_each(|key| self.close(key));
            if self.connections.borrow().is_empty() || self.host.rt().now() >= deadline {
                break;
            }
            self.host.rt().sleep(5 * MILLIS).await;
        }
        self.connections.borrow_mut().clear();
    }
}
