//! Modelled sockets: a pipe each way between a client and the server.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use twin_nfs::Peer;
use twin_nfs::front::{Accepted, Came, Socket, Sockets, Went};

/// What is said of a run.
#[derive(Default)]
pub(super) struct Told {
    /// The first promise that was broken.
    pub(super) broken: RefCell<Option<String>>,
    pub(super) most_bytes: Cell<u64>,
    pub(super) longest_ns: Cell<u64>,
    pub(super) replies: Cell<u64>,
}

impl Told {
    pub(super) fn breaks(&self, what: String) {
        self.broken.borrow_mut().get_or_insert(what);
    }
}

/// A connection.
#[derive(Default)]
pub(super) struct Pipe {
    pub(super) to_server: VecDeque<u8>,
    pub(super) to_client: VecDeque<u8>,
    /// The client sends nothing more.
    pub(super) finished: bool,
    /// The client is gone.
    pub(super) reset: bool,
    /// The server sends nothing more.
    pub(super) shut: bool,
    /// The server has closed it.
    pub(super) closed: bool,
    accepted: bool,
    watch: (bool, bool),
}

/// The pipes, by key.
#[derive(Default)]
pub(super) struct Net {
    pub(super) pipes: BTreeMap<u64, Pipe>,
    /// Bytes that fit into a pipe.
    pub(super) size: usize,
    next: u64,
    /// The key that was served last.
    last: u64,
    listens: bool,
    /// Nobody listens any more.
    pub(super) over: bool,
    /// No connection can be accepted.
    pub(super) starved: bool,
    waker: Option<Waker>,
}

impl Net {
    pub(super) fn new(size: usize) -> Net {
        Net { size, listens: true, ..Net::default() }
    }

    /// A client connects; `None` if nobody listens.
    pub(super) fn connect(&mut self) -> Option<u64> {
        if self.over {
            return None;
        }
        self.next += 1;
        self.pipes.insert(self.next, Pipe::default());
        self.wake();
        Some(self.next)
    }

    /// Something has changed.
    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Moves bytes of a client into its pipe.
    pub(super) fn send(&mut self, key: u64, out: &mut VecDeque<u8>) {
        let size = self.size;
        let Some(pipe) = self.pipes.get_mut(&key).filter(|pipe| !pipe.closed) else { return };
        let take = out.len().min(size.saturating_sub(pipe.to_server.len()));
        if take > 0 {
            pipe.to_server.extend(out.drain(..take));
            self.wake();
        }
    }

    /// Takes bytes of the server out of a pipe.
    pub(super) fn take(&mut self, key: u64, most: usize) -> Vec<u8> {
        let Some(pipe) = self.pipes.get_mut(&key) else { return Vec::new() };
        let take = most.min(pipe.to_client.len());
        let bytes = pipe.to_client.drain(..take).collect();
        if take > 0 {
            self.wake();
        }
        bytes
    }

    fn event(&self, (&key, pipe): (&u64, &Pipe)) -> Option<Socket> {
        if pipe.closed || !pipe.accepted {
            return None;
        }
        if pipe.reset {
            return Some(Socket::Broken(key));
        }
        let readable = pipe.watch.0 && (!pipe.to_server.is_empty() || pipe.finished);
        let writable = pipe.watch.1 && pipe.to_client.len() < self.size;
        (readable || writable).then_some(Socket::Ready(key))
    }
}

/// The server's side.
pub(super) struct Modelled {
    net: Rc<RefCell<Net>>,
    /// What was read last.
    buffer: Vec<u8>,
}

impl Modelled {
    pub(super) fn new(net: &Rc<RefCell<Net>>) -> Modelled {
        Modelled { net: Rc::clone(net), buffer: Vec::new() }
    }

    fn with<T>(&self, key: u64, other: T, act: impl FnOnce(&mut Pipe) -> T) -> T {
        let mut net = self.net.borrow_mut();
        net.pipes.get_mut(&key).filter(|pipe| !pipe.closed).map_or(other, act)
    }
}

impl Sockets for Modelled {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Socket> {
        let mut net = self.net.borrow_mut();
        // In turn, from behind the one that was served last.
        let (before, after) = (net.pipes.range(..=net.last), net.pipes.range(net.last + 1..));
        let found = after.chain(before).find_map(|pipe| net.event(pipe));
        let incoming = || net.pipes.values().any(|pipe| !pipe.accepted);
        match found {
            None if net.listens && !net.over && incoming() => Poll::Ready(Socket::Incoming),
            Some(Socket::Ready(key) | Socket::Broken(key)) => {
                net.last = key;
                Poll::Ready(found.unwrap_or(Socket::Incoming))
            }
            _ => {
                net.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn accept(&mut self) -> Accepted {
        let mut net = self.net.borrow_mut();
        let starved = net.starved;
        let first = net.pipes.iter_mut().find(|(_, pipe)| !pipe.accepted);
        match first {
            Some(_) if starved => Accepted::Failed,
            Some((&key, pipe)) => {
                pipe.accepted = true;
                Accepted::One(key, Peer::LOCAL_ROOT)
            }
            None => Accepted::Nobody,
        }
    }

    fn read(&mut self, key: u64, most: usize) -> Came<'_> {
        let mut net = self.net.borrow_mut();
        let Some(pipe) = net.pipes.get_mut(&key).filter(|pipe| !pipe.closed) else {
            return Came::Nothing;
        };
        if pipe.reset {
            return Came::Broken;
        }
        let take = most.min(pipe.to_server.len());
        if take == 0 {
            return if pipe.finished { Came::Ended } else { Came::Nothing };
        }
        self.buffer.clear();
        self.buffer.extend(pipe.to_server.drain(..take));
        Came::Bytes(&self.buffer)
    }

    fn write(&mut self, key: u64, pieces: &[&[u8]]) -> Went {
        let size = self.net.borrow().size;
        self.with(key, Went::Full, |pipe| {
            if pipe.reset || pipe.shut {
                return Went::Broken;
            }
            let mut room = size.saturating_sub(pipe.to_client.len());
            let mut sent = 0;
            for piece in pieces {
                let take = piece.len().min(room);
                pipe.to_client.extend(&piece[..take]);
                (room, sent) = (room - take, sent + take);
            }
            if sent == 0 { Went::Full } else { Went::Bytes(sent) }
        })
    }

    fn watch(&mut self, key: u64, read: bool, write: bool) {
        self.with(key, (), |pipe| pipe.watch = (read, write));
    }

    fn shutdown(&mut self, key: u64) {
        self.with(key, (), |pipe| pipe.shut = true);
    }

    fn close(&mut self, key: u64) {
        self.with(key, (), |pipe| pipe.closed = true);
    }

    fn listen(&mut self, on: bool) {
        self.net.borrow_mut().listens = on;
    }

    fn end_listening(&mut self) {
        let mut net = self.net.borrow_mut();
        net.over = true;
        // Who was not accepted is told so.
        net.pipes.values_mut().filter(|pipe| !pipe.accepted).for_each(|pipe| pipe.closed = true);
    }
}
