//! A channel into a running mount: another process asks, the core's thread answers.
//!
//! Contract: the channel is a socket in Linux's abstract namespace, so nothing is left of it when the process
//! that serves it ends, however it ends. Its name is random, so nobody can take it before; a client finds it
//! in the name of a memory file that the process has open, which only its user and the superuser can see. Only
//! processes of the same user and of the superuser are let in (`SO_PEERCRED`), and a client makes sure that the
//! one who answers is the process it means. A request is its length (4 bytes, little-endian) and at most
//! [`REQUEST_MOST`] bytes, an answer likewise with at most [`ANSWER_MOST`]. A connection is a
//! [`Session`]: it answers one request at a time, and is dropped when its client has gone. Whoever sends
//! more than a request, or does not read, is cut off. No more than [`SESSIONS`] are open.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::rc::{Rc, Weak};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::sockopt::socket_peercred;
use twin_rt::{BoxFuture, Event, MILLIS, SECS};

use crate::host::{Host, Source, Watch};

/// The most bytes of a request.
pub const REQUEST_MOST: usize = 4096;
/// The most bytes of an answer.
pub const ANSWER_MOST: usize = 16 << 20;
/// The largest number of connections at the same time; more are refused.
pub const SESSIONS: usize = 8;
/// How long a client may take to read an answer, in nanoseconds.
const SLOW_NS: u64 = 10 * SECS;
/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// The conversation with one client. Dropping it frees everything that it holds for that client.
pub trait Session {
    /// Answers one request of the client.
    fn answer(&self, request: Vec<u8>) -> BoxFuture<'_, Vec<u8>>;
}

/// How long nobody is let in when the host has no descriptor for a connection.
const PAUSE_NS: u64 = 100 * MILLIS;
/// The beginning of the name of the memory file that shows the name of the socket.
const TELLTALE: &str = "twinfs-channel-";

/// The serving end of a channel. The channel ends when it is dropped.
pub struct Channel {
    listening: Rc<Listening>,
    /// The memory file whose name shows the name of the socket.
    _telltale: OwnedFd,
}

struct Listening {
    me: Weak<Listening>,
    host: Host,
    listener: UnixListener,
    make: Box<dyn Fn() -> Rc<dyn Session>>,
    open: Rc<Cell<usize>>,
    /// The watch of the socket; there is none during a pause.
    watch: Cell<Option<Watch>>,
}

/// One connection: the bytes that have come, and whether more may come.
struct Incoming {
    stream: UnixStream,
    bytes: RefCell<Vec<u8>>,
    ended: Cell<bool>,
    came: Event,
}

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("twinfs/{name}"))
}

/// A name that nobody can foresee.
fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The name of the channel of a process. What a process has open is seen by its user and the superuser, and
/// nobody but the process has a say in it: the list of all sockets, which also has the name, can be added to
/// by anyone.
fn name_of(pid: u32) -> io::Result<String> {
    let begins = format!("/memfd:{TELLTALE}");
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        // Others may be closed meanwhile.
        let Ok(target) = fs::read_link(entry?.path()) else { continue };
        let name = target.to_str().and_then(|text| text.strip_prefix(&begins));
        if let Some(name) = name.and_then(|rest| rest.split_whitespace().next()) {
            return Ok(name.to_owned());
        }
    }
    Err(io::Error::new(ErrorKind::NotFound, "it has no channel"))
}

impl Channel {
    /// Opens a channel of this process; `make` makes the session of each client.
    pub fn open(host: &Host, make: impl Fn() -> Rc<dyn Session> + 'static) -> io::Result<Channel> {
        let name = random_name()?;
        let listener = UnixListener::bind_addr(&address(&name)?)?;
        listener.set_nonblocking(true)?;
        let telltale = memfd_create(format!("{TELLTALE}{name}"), MemfdFlags::CLOEXEC)?;
        let make = Box::new(make);
        let listening = Rc::new_cyclic(|me| Listening {
            me: Weak::clone(me),
            host: host.clone(),
            listener,
            make,
            open: Rc::default(),
            watch: Cell::default(),
        });
        listening.watch()?;
        Ok(Channel { listening, _telltale: telltale })
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // The listener owns itself through its watch, so removing the watch drops it.
        self.listening.watch.take();
    }
}

/// True if the process at the other end may ask.
fn is_admitted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    socket_peercred(stream).is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
}

impl Source for Listening {
    fn take_event(&self) -> bool {
        match self.listener.accept() {
            Ok((stream, _)) => {
                let is_welcome = self.open.get() < SESSIONS && is_admitted(&stream);
                if is_welcome && stream.set_nonblocking(true).is_ok() {
                    self.begin(stream);
                }
                true
            }
            Err(error) => {
                let kinds = [ErrorKind::WouldBlock, ErrorKind::Interrupted];
                if !kinds.contains(&error.kind()) {
                    self.pause();
                }
                false
            }
        }
    }
}

impl Listening {
    fn watch(self: &Rc<Self>) -> io::Result<()> {
        let fd = Rc::new(OwnedFd::from(self.listener.try_clone()?));
        let source = Rc::clone(self) as Rc<dyn Source>;
        self.watch.set(Some(self.host.watch(fd, source)?));
        Ok(())
    }

    /// Accepts nobody for a while: a connection for which there is no descriptor stays in the
    /// queue, and would be reported again and again.
    fn pause(&self) {
        self.watch.take();
        let (me, rt) = (Weak::clone(&self.me), self.host.rt().clone());
        self.host.rt().spawn("channel pause", async move {
            loop {
                rt.sleep(PAUSE_NS).await;
                // The listener is gone, or it listens again; if there is no descriptor for that
                // either, it tries later.
                if me.upgrade().is_none_or(|listening| listening.watch().is_ok()) {
                    return;
                }
            }
        });
    }

    fn begin(&self, stream: UnixStream) {
        let Ok(fd) = stream.try_clone() else { return };
        let incoming = Rc::new(Incoming {
            stream,
            bytes: RefCell::default(),
            ended: Cell::default(),
            came: Event::new(),
        });
        let source = Rc::clone(&incoming) as Rc<dyn Source>;
        let Ok(watch) = self.host.watch(Rc::new(fd.into()), source) else { return };
        let (session, host) = ((self.make)(), self.host.clone());
        let open = Rc::clone(&self.open);
        open.set(open.get() + 1);
        self.host.rt().spawn("channel", async move {
            while let Some(request) = incoming.request().await {
                let answer = session.answer(request).await;
                if incoming.send(&host, &answer).await.is_err() {
                    break;
                }
            }
            drop(watch);
            open.set(open.get() - 1);
        });
    }
}

impl Source for Incoming {
    fn take_event(&self) -> bool {
        if self.ended.get() {
            return false;
        }
        let mut buffer = [0; 1024];
        match (&self.stream).read(&mut buffer) {
            Ok(0) => self.ended.set(true),
            Ok(len) => {
                let mut bytes = self.bytes.borrow_mut();
                bytes.extend_from_slice(&buffer[..len]);
                if bytes.len() > 4 + REQUEST_MOST {
                    self.ended.set(true);
                }
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return false;
            }
            Err(_) => self.ended.set(true),
        }
        self.came.notify();
        true
    }
}

impl Incoming {
    /// The next request; `None` at the end of the connection, or if something else has come.
    async fn request(&self) -> Option<Vec<u8>> {
        loop {
            if let Some(request) = self.take()? {
                return Some(request);
            }
            if self.ended.get() {
                return None;
            }
            self.came.wait().await;
        }
    }

    /// The request, if it has come in full; `None` if these bytes can be no request.
    fn take(&self) -> Option<Option<Vec<u8>>> {
        let mut bytes = self.bytes.borrow_mut();
        let Some(len) = bytes.first_chunk() else { return Some(None) };
        let end = 4 + u32::from_le_bytes(*len) as usize;
        match end {
            _ if end > 4 + REQUEST_MOST => None,
            _ if end > bytes.len() => Some(None),
            _ => {
                let request = bytes[4..end].to_vec();
                bytes.drain(..end);
                Some(Some(request))
            }
        }
    }

    async fn send(&self, host: &Host, answer: &[u8]) -> io::Result<()> {
        if answer.len() > ANSWER_MOST {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let mut out = (answer.len() as u32).to_le_bytes().to_vec();
        out.extend_from_slice(answer);
        let mut left = &out[..];
        let begun = host.rt().now();
        while !left.is_empty() {
            match (&self.stream).write(left) {
                Ok(len) => left = &left[len..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.ended.get() || host.rt().now().since(begun) > SLOW_NS {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    host.rt().sleep(MILLIS).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A client's end of a channel. It waits for answers outside of any runtime.
pub struct Asking(UnixStream);

impl Asking {
    /// Connects to the process with this number.
    ///
    /// # Errors
    /// If it has no channel, or is another user's.
    pub fn connect(pid: u32) -> io::Result<Asking> {
        let stream = UnixStream::connect_addr(&address(&name_of(pid)?)?)?;
        let peer = socket_peercred(&stream)?;
        if peer.pid.as_raw_nonzero().get().unsigned_abs() != pid {
            return Err(io::Error::new(
                ErrorKind::PermissionDenied,
                "another process than the mount's answers",
            ));
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Asking(stream))
    }

    /// Sends a request, and waits for its answer.
    ///
    /// # Errors
    /// If the connection breaks, as it does for whoever is not let in, or the answer takes longer than
    /// two minutes.
    pub fn ask(&self, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = &self.0;
        let len = (request.len() as u32).to_le_bytes();
        stream.write_all(&[&len[..], request].concat())?;
        let mut len = [0; 4];
        stream.read_exact(&mut len)?;
        let len = u32::from_le_bytes(len) as usize;
        if len > ANSWER_MOST {
            return Err(io::Error::new(ErrorKind::InvalidData, "the answer has no sense"));
        }
        let mut answer = vec![0; len];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // Clients are threads of their own.
mod tests {
    use super::*;
    use crate::HostOptions;

    struct Reversing(Rc<Cell<i32>>);

    impl Session for Reversing {
        fn answer(&self, mut request: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
            request.reverse();
            Box::pin(async move { request.repeat(if self.0.get() > 0 { 1000 } else { 0 }) })
        }
    }

    impl Drop for Reversing {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }

    fn raw() -> UnixStream {
        UnixStream::connect_addr(&address(&name_of(std::process::id()).unwrap()).unwrap()).unwrap()
    }

    /// True if the server closes the connection, or resets it, without an answer.
    fn is_cut(mut stream: &UnixStream) -> bool {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        match stream.read(&mut [0; 8]) {
            Ok(len) => len == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    /// All in one test, since a process has one channel.
    #[test]
    fn requests_are_answered_and_nonsense_is_cut_off() {
        let host = Host::start(HostOptions::default()).unwrap();
        let open = Rc::new(Cell::new(0));
        let its = Rc::clone(&open);
        let channel = Channel::open(&host, move || {
            its.set(its.get() + 1);
            Rc::new(Reversing(Rc::clone(&its)))
        });
        let _channel = channel.unwrap();
        // Whoever took the name, which was the number of the process, denied the channel.
        let squatter = UnixListener::bind_addr(&address(&std::process::id().to_string()).unwrap());
        squatter.unwrap();
        let clients = || {
            let asking = Asking::connect(std::process::id()).unwrap();
            for text in ["abc", "xy", ""] {
                let expected: String = text.chars().rev().collect();
                let answer = asking.ask(text.as_bytes()).unwrap();
                assert_eq!(answer, expected.repeat(1000).as_bytes());
            }
            assert_eq!(asking.ask(&[7; REQUEST_MOST]).unwrap().len(), REQUEST_MOST * 1000);
            let huge = raw();
            (&huge).write_all(&u32::MAX.to_le_bytes()).unwrap();
            assert!(is_cut(&huge));
            let flood = raw();
            // It is cut off before it has sent everything.
            let _ = (&flood).write_all(&[1; 1 << 20]);
            assert!(is_cut(&flood));
            let cut = raw();
            (&cut).write_all(&[9, 0, 0, 0, 1]).unwrap();
            drop(cut);
            let many: Vec<UnixStream> = (0..20).map(|_| raw()).collect();
            let refused = many.iter().skip(SESSIONS).filter(|stream| is_cut(stream)).count();
            assert!(refused >= 20 - SESSIONS - 1, "{refused}");
            drop(many);
            assert_eq!(asking.ask(b"on").unwrap().len(), 2000, "the first goes on");
        };
        let done = crate::offload(&host, clients).unwrap();
        host.rt().block_on(done).unwrap().unwrap();
        host.rt().block_on(host.rt().sleep(50 * MILLIS)).unwrap();
        assert_eq!(open.get(), 0, "sessions end with their clients");
    }
}
