//! Sockets of TCP, watched through one epoll descriptor.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rustix::event::{Timespec, epoll};
use twin_nfs::Peer;
use twin_nfs::front::{Accepted, Came, Socket, Sockets, Went};

use crate::host::{Host, Source, Watch};

/// The most bytes that one read takes.
const READ_BYTES: usize = 256 << 10;
/// Keys of listeners in epoll are from here on.
const LISTENERS: u64 = 1 << 63;
/// Events that one look brings.
const LOOK: usize = 32;

/// The events that epoll has reported, one event of the run at a time. Its cells are borrowed for
/// single moves only.
struct Gate {
    epoll: Rc<OwnedFd>,
    /// Sockets with events that have not been handled, in turn.
    ready: RefCell<VecDeque<Socket>>,
    /// The event that is handled next.
    current: Cell<Option<Socket>>,
    waker: Cell<Option<Waker>>,
}

impl Source for Gate {
    fn take_event(&self) -> bool {
        if self.current.get().is_none() {
            let mut ready = self.ready.take();
            if ready.is_empty() {
                self.look(&mut ready);
            }
            self.current.set(ready.pop_front());
            self.ready.replace(ready);
        }
        // Without an event the waker stays, for the next.
        let waker = self.current.get().and_then(|_| self.waker.take());
        waker.is_some_and(|waker| {
            waker.wake();
            true
        })
    }
}

impl Gate {
    /// Asks epoll which sockets have events.
    fn look(&self, ready: &mut VecDeque<Socket>) {
        let none = || epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        };
        let mut events: [epoll::Event; LOOK] = std::array::from_fn(|_| none());
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = epoll::wait(&*self.epoll, &mut events[..], Some(&now)).unwrap_or(0);
        ready.extend(events[..count].iter().map(|event| {
            let (flags, key) = (event.flags, event.data.u64());
            match key {
                LISTENERS.. => Socket::Incoming,
                // The kernel reports these whatever is watched for, and again and again.
                _ if flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP) => {
                    Socket::Broken(key)
                }
                _ => Socket::Ready(key),
            }
        }));
    }
}

/// The TCP sockets of a front; the module explains how they are watched.
pub(super) struct TcpSockets {
    gate: Rc<Gate>,
    _watch: Watch,
    listeners: Vec<TcpListener>,
    streams: BTreeMap<u64, TcpStream>,
    next_key: u64,
    buffer: Vec<u8>,
}

impl TcpSockets {
    /// Takes over `listeners`, which are bound and listen.
    pub(super) fn open(host: &Host, listeners: Vec<TcpListener>) -> io::Result<TcpSockets> {
        let epoll = Rc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        for (n, listener) in listeners.iter().enumerate() {
            let data = epoll::EventData::new_u64(LISTENERS + n as u64);
            epoll::add(&*epoll, listener, data, epoll::EventFlags::IN)?;
        }
        let (ready, current, waker) = Default::default();
        let gate = Rc::new(Gate { epoll: Rc::clone(&epoll), ready, current, waker });
        let watch = host.watch(epoll, Rc::clone(&gate) as Rc<dyn Source>)?;
        let (streams, buffer) = (BTreeMap::new(), vec![0; READ_BYTES]);
        Ok(TcpSockets { gate, _watch: watch, listeners, streams, next_key: 0, buffer })
    }

    /// Takes an accepted connection in.
    fn admit(&mut self, stream: TcpStream, peer: Peer) -> io::Result<Accepted> {
        stream.set_nonblocking(true)?;
        // A reply must not wait for the next one.
        stream.set_nodelay(true)?;
        let key = self.next_key;
        let data = epoll::EventData::new_u64(key);
        epoll::add(&*self.gate.epoll, stream.as_fd(), data, epoll::EventFlags::empty())?;
        self.next_key += 1;
        self.streams.insert(key, stream);
        Ok(Accepted::One(key, peer))
    }
}

/// True for errors of one connection that was to be accepted, after which the next may be.
fn is_of_one(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Interrupted | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    )
}

impl Sockets for TcpSockets {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Socket> {
        if let Some(event) = self.gate.current.take() {
            return Poll::Ready(event);
        }
        self.gate.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    fn accept(&mut self) -> Accepted {
        for n in 0..self.listeners.len() {
            loop {
                match self.listeners[n].accept() {
                    Ok((stream, from)) => {
                        let peer = Peer { address: from.ip().into(), port: from.port() };
                        if let Ok(accepted) = self.admit(stream, peer) {
                            return accepted;
                        }
                    }
                    Err(error) if is_of_one(&error) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // Without a descriptor or memory the connection stays in the queue and is
                    // reported again and again.
                    Err(_) => return Accepted::Failed,
                }
            }
        }
        Accepted::Nobody
    }

    fn read(&mut self, key: u64, most: usize) -> Came<'_> {
        let Some(mut stream) = self.streams.get(&key) else { return Came::Nothing };
        let most = most.min(self.buffer.len());
        match stream.read(&mut self.buffer[..most]) {
            Ok(0) => Came::Ended,
            Ok(len) => Came::Bytes(&self.buffer[..len]),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Came::Nothing,
                _ => Came::Broken,
            },
        }
    }

    fn write(&mut self, key: u64, pieces: &[&[u8]]) -> Went {
        let Some(mut stream) = self.streams.get(&key) else { return Went::Full };
        let pieces: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        loop {
            return match stream.write_vectored(&pieces) {
                Ok(0) => Went::Broken,
                Ok(len) => Went::Bytes(len),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => continue,
                    ErrorKind::WouldBlock => Went::Full,
                    _ => Went::Broken,
                },
            };
        }
    }

    fn watch(&mut self, key: u64, read: bool, write: bool) {
        let Some(stream) = self.streams.get(&key) else { return };
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, read);
        flags.set(epoll::EventFlags::OUT, write);
        let data = epoll::EventData::new_u64(key);
        // The entry exists already, so this takes no memory and cannot fail.
        let _ = epoll::modify(&*self.gate.epoll, stream.as_fd(), data, flags);
    }

    fn shutdown(&mut self, key: u64) {
        if let Some(stream) = self.streams.get(&key) {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    fn close(&mut self, key: u64) {
        if let Some(stream) = self.streams.remove(&key) {
            let _ = epoll::delete(&*self.gate.epoll, stream.as_fd());
        }
    }

    fn listen(&mut self, on: bool) {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, on);
        for (n, listener) in self.listeners.iter().enumerate() {
            let data = epoll::EventData::new_u64(LISTENERS + n as u64);
            let _ = epoll::modify(&*self.gate.epoll, listener, data, flags);
        }
    }

    fn end_listening(&mut self) {
        self.listeners.clear();
    }
}
