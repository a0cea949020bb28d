//! A small process that does inside a mount what the daemon that serves it must not do itself.
//!
//! Contract: no thread of a daemon calls into the daemon's own mount. Such a thread would wait for an
//! answer that only the daemon gives; if the daemon died meanwhile, the thread would keep it from
//! ending: the kernel lets nobody interrupt that wait, the descriptor of `/dev/fuse` stays open as long
//! as the process has a thread, and only its closing would end the wait. The deputy has no such
//! descriptor. When the daemon dies, the kernel ends the connection, so whatever the deputy waits for
//! fails, and the deputy ends too.
//!
//! This file is the daemon's side: [`Deputy::start`] forks the process, before there is any thread, and
//! [`Deputy::ask`] gives it an [`Errand`]. The deputy's own side is `deputy_work`. Both talk over a
//! socket that keeps messages apart: an [`Order`] with a number, then the [`Said`] with that number, in
//! any order. At most [`MOST_UNDER_WAY`] errands are under way; the others wait here. If the deputy is
//! gone, every errand fails at once with EPIPE.
#![allow(unsafe_code)] // fork has no safe wrapper.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use twin_rt::{Sender, oneshot};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::deputy_work;
use crate::host::{Host, Source, Watch};

/// The most errands that are under way at once: as many as the deputy has threads for them.
pub(super) const MOST_UNDER_WAY: usize = 4;
/// How long the start of the process may take.
const START: Duration = Duration::from_secs(10);
/// The longest message: three paths and a head.
pub(super) const MOST_BYTES: usize = 16 << 10;

/// What a deputy can be asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// To know the mount. It must have ended before anything else is asked for.
    Know(Place),
    /// To open the file that tells the kernel that opens need no request, and to close it again.
    Prime,
    /// To have the kernel write out a file, by its node and generation, and to wait for that.
    WriteOut { node: u64, generation: u32 },
    /// To have the kernel write out all files: when the errand has ended, the daemon has read every
    /// request for that. The number must be another one each time.
    WriteOutAll { number: u64 },
    /// To unmount; if a process uses the mount, to write it out and detach it.
    Unmount,
    /// To detach the mount from the tree.
    Detach,
}

/// Where a mount is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    /// Its device number as `major:minor`, to notice another file system mounted over it.
    pub(super) device: String,
    /// The name, in its root, of the file that the front end answers for itself.
    pub(super) own_file: String,
    /// True if fusermount3 unmounts it.
    pub(super) by_helper: bool,
}

/// The numbers of errands in messages.
pub(super) mod kind {
    pub(in super::super) const KNOW: u32 = 1;
    pub(in super::super) const PRIME: u32 = 2;
    pub(in super::super) const WRITE_OUT: u32 = 3;
    pub(in super::super) const WRITE_OUT_ALL: u32 = 4;
    pub(in super::super) const UNMOUNT: u32 = 5;
    pub(in super::super) const DETACH: u32 = 6;
}

/// The head of a message to the deputy. That of `KNOW` is followed by the texts of the place, each
/// with a zero byte behind it.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Order {
    pub(super) id: u64,
    pub(super) kind: u32,
    /// The generation of a file; for `KNOW`, whether fusermount3 unmounts.
    pub(super) generation: u32,
    /// A node, or the number of `WRITE_OUT_ALL`.
    pub(super) node: u64,
}

/// A message of the deputy: an errand has ended, with an errno or zero. The first one, with the number
/// zero, is followed by the numbers of the deputy's threads, 32 bits each.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Said {
    pub(super) id: u64,
    pub(super) errno: i32,
    pub(super) padding: i32,
}

impl Errand {
    /// The message for this errand.
    pub(super) fn encode(&self, id: u64) -> Vec<u8> {
        let mut order = Order { id, ..Order::default() };
        let mut texts = Vec::new();
        match self {
            Errand::Know(place) => {
                (order.kind, order.generation) = (kind::KNOW, place.by_helper.into());
                for text in [place.dir.as_os_str(), place.device.as_ref(), place.own_file.as_ref()]
                {
                    texts.extend_from_slice(OsStr::as_bytes(text));
                    texts.push(0);
                }
            }
            Errand::Prime => order.kind = kind::PRIME,
            Errand::WriteOut { node, generation } => {
                (order.kind, order.node, order.generation) = (kind::WRITE_OUT, *node, *generation);
            }
            Errand::WriteOutAll { number } => {
                (order.kind, order.node) = (kind::WRITE_OUT_ALL, *number);
            }
            Errand::Unmount => order.kind = kind::UNMOUNT,
            Errand::Detach => order.kind = kind::DETACH,
        }
        let mut message = order.as_bytes().to_vec();
        message.append(&mut texts);
        message
    }

    /// The number and the errand of a message; `None` if it makes no sense.
    pub(super) fn decode(message: &[u8]) -> Option<(u64, Errand)> {
        let (order, rest) = Order::read_from_prefix(message).ok()?;
        let Order { id, kind, generation, node } = order;
        let errand = match kind {
            kind::KNOW => {
                let mut texts = rest.split(|&byte| byte == 0);
                let mut text = || texts.next().map(OsStr::from_bytes);
                let (dir, device, own_file) = (text()?.into(), text()?, text()?);
                let lossy = |text: &OsStr| text.to_string_lossy().into_owned();
                let (device, own_file) = (lossy(device), lossy(own_file));
                Errand::Know(Place { dir, device, own_file, by_helper: generation != 0 })
            }
            kind::PRIME => Errand::Prime,
            kind::WRITE_OUT => Errand::WriteOut { node, generation },
            kind::WRITE_OUT_ALL => Errand::WriteOutAll { number: node },
            kind::UNMOUNT => Errand::Unmount,
            kind::DETACH => Errand::Detach,
            _ => return None,
        };
        Some((id, errand))
    }
}

/// The result of an errand.
pub(super) type Done = Result<(), Errno>;

/// The daemon's side of a deputy. Cheap to clone. The process ends when the last clone is dropped, or
/// when the daemon ends.
#[derive(Clone)]
pub struct Deputy(Rc<Inner>);

struct Inner {
    socket: Rc<OwnedFd>,
    /// The numbers of its threads, which requests of the kernel bear.
    threads: Vec<u32>,
    next_id: Cell<u64>,
    /// Errands that are not sent yet.
    unsent: RefCell<VecDeque<(u64, Vec<u8>)>>,
    under_way: Cell<usize>,
    waiting: RefCell<BTreeMap<u64, Sender<Done>>>,
    gone: Cell<bool>,
    watch: RefCell<Option<Watch>>,
}

impl Deputy {
    /// Starts the process. This process must not have other threads yet, and no locks that belong to
    /// a process; the deputy closes all other descriptors.
    ///
    /// # Errors
    /// If this process has several threads, may not fork, or the deputy does not begin.
    pub fn start() -> io::Result<Deputy> {
        let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        if threads != 1 {
            return Err(io::Error::other(format!("{threads} threads run already")));
        }
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let daemon = rustix::process::getpid();
        // SAFETY: this process has one thread, as checked above, so no lock in the child can be held
        // by a thread that does not exist there.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => deputy_work::live(&theirs, daemon),
            _ => {
                drop(theirs);
                Deputy::hear_first(ours)
            }
        }
    }

    /// Waits for the first message of a deputy.
    fn hear_first(socket: OwnedFd) -> io::Result<Deputy> {
        let limit = rustix::time::Timespec { tv_sec: START.as_secs() as i64, tv_nsec: 0 };
        let ended = || io::Error::other("the process for calls into the mount did not begin");
        if poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&limit))? == 0 {
            return Err(ended());
        }
        let mut message = vec![0; MOST_BYTES];
        let len = rustix::io::read(&socket, &mut message[..])?;
        let (_, rest) = Said::read_from_prefix(&message[..len]).map_err(|_| ended())?;
        let number = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().unwrap_or_default());
        let threads = rest.chunks_exact(4).map(number).collect();
        Ok(Deputy::over(socket, threads)?)
    }

    /// A deputy at the other end of this socket, with these threads.
    pub(super) fn over(socket: OwnedFd, threads: Vec<u32>) -> Result<Deputy, Errno> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Deputy(Rc::new(Inner {
            socket: Rc::new(socket),
            threads,
            next_id: Cell::new(1),
            unsent: RefCell::default(),
            under_way: Cell::new(0),
            waiting: RefCell::default(),
            gone: Cell::new(false),
            watch: RefCell::default(),
        })))
    }

    /// Begins to listen to the deputy. Until then, no errand ends.
    pub(super) fn attend(&self, host: &Host) -> io::Result<()> {
        let source: Rc<dyn Source> = Rc::clone(&self.0) as Rc<dyn Source>;
        let watch = host.watch(Rc::clone(&self.0.socket), source)?;
        *self.0.watch.borrow_mut() = Some(watch);
        Ok(())
    }

    /// True if a request of the kernel comes from the deputy.
    pub(super) fn is_thread(&self, pid: u32) -> bool {
        pid != 0 && self.0.threads.contains(&pid)
    }

    /// Has the deputy do something. It begins at once, whether or not the result is awaited.
    pub(super) fn ask(&self, errand: &Errand) -> impl Future<Output = Done> + use<> {
        let inner = &self.0;
        let (sender, receiver) = oneshot();
        let id = inner.next_id.replace(inner.next_id.get() + 1);
        if inner.gone.get() {
            sender.send(Err(Errno::PIPE));
        } else {
            inner.waiting.borrow_mut().insert(id, sender);
            inner.unsent.borrow_mut().push_back((id, errand.encode(id)));
            inner.send();
        }
        receiver
    }

    /// Has the deputy do something, and waits for it with this thread, but not for long.
    pub(super) fn ask_and_wait(&self, errand: &Errand, limit: Duration) -> Done {
        let inner = &self.0;
        let id = inner.next_id.replace(inner.next_id.get() + 1);
        rustix::io::write(&inner.socket, &errand.encode(id))?;
        let mut message = [0; size_of::<Said>()];
        // Answers to earlier errands come first.
        for _ in 0..=MOST_UNDER_WAY {
            let limit = rustix::time::Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 };
            let mut fds = [PollFd::from_borrowed_fd(inner.socket.as_fd(), PollFlags::IN)];
            if poll(&mut fds, Some(&limit))? == 0 {
                return Err(Errno::TIMEDOUT);
            }
            match rustix::io::read(&inner.socket, &mut message[..])? {
                0 => return Err(Errno::PIPE),
                _ if Said::read_from_bytes(&message).is_ok_and(|said| said.id == id) => {
                    return Ok(());
                }
                _ => {}
            }
        }
        Err(Errno::TIMEDOUT)
    }
}

impl Inner {
    fn send(&self) {
        while self.under_way.get() < MOST_UNDER_WAY {
            let next = self.unsent.borrow_mut().pop_front();
            let Some((id, message)) = next else { return };
            match rustix::io::write(&self.socket, &message) {
                Ok(_) => self.under_way.set(self.under_way.get() + 1),
                Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) if self.under_way.get() > 0 => {
                    // The next answer makes room.
                    return self.unsent.borrow_mut().push_front((id, message));
                }
                Err(_) => return self.has_gone(),
            }
        }
    }

    fn has_gone(&self) {
        self.gone.set(true);
        // A closed socket would report itself readable for ever.
        self.watch.borrow_mut().take();
        self.unsent.borrow_mut().clear();
        for sender in self.waiting.take().into_values() {
            sender.send(Err(Errno::PIPE));
        }
    }
}

impl Source for Inner {
    fn take_event(&self) -> bool {
        if self.gone.get() {
            return false;
        }
        let mut message = [0; size_of::<Said>()];
        match rustix::io::read(&self.socket, &mut message[..]) {
            Err(Errno::AGAIN | Errno::INTR) => return false,
            Ok(len) if len == message.len() => {}
            _ => {
                self.has_gone();
                return true;
            }
        }
        let Ok(Said { id, errno, .. }) = Said::read_from_bytes(&message) else { return true };
        let done = if errno == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(errno)) };
        // The deputy may answer twice: for an errand that took too long, and when that ends.
        let sender = self.waiting.borrow_mut().remove(&id);
        if let Some(sender) = sender {
            self.under_way.set(self.under_way.get().saturating_sub(1));
            sender.send(done);
            self.send();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostOptions;

    #[test]
    fn every_errand_is_read_as_it_was_written() {
        let place = Place {
            dir: "/mnt/a b".into(),
            device: "0:41".into(),
            own_file: ".twinfs-1".into(),
            by_helper: true,
        };
        for errand in [
            Errand::Know(place),
            Errand::Prime,
            Errand::WriteOut { node: u64::MAX - 1, generation: 7 },
            Errand::WriteOutAll { number: 9 },
            Errand::Unmount,
            Errand::Detach,
        ] {
            assert_eq!(Errand::decode(&errand.encode(5)), Some((5, errand)));
        }
        assert_eq!(Errand::decode(&[0; 24]), None);
        assert_eq!(Errand::decode(&[1; 3]), None);
    }

    /// A deputy whose part the test plays.
    fn played(host: &Host) -> (Deputy, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let deputy = Deputy::over(ours, vec![17]).unwrap();
        deputy.attend(host).unwrap();
        (deputy, theirs)
    }

    fn next(socket: &OwnedFd) -> u64 {
        let mut message = [0; 64];
        let len = rustix::io::read(socket, &mut message[..]).unwrap();
        Errand::decode(&message[..len]).unwrap().0
    }

    fn say(socket: &OwnedFd, id: u64, errno: i32) {
        rustix::io::write(socket, Said { id, errno, padding: 0 }.as_bytes()).unwrap();
    }

    #[test]
    fn few_errands_are_under_way_and_the_others_follow() {
        let host = Host::start(HostOptions::default()).unwrap();
        let (deputy, socket) = played(&host);
        let asked: Vec<_> = (0..9).map(|_| deputy.ask(&Errand::Prime)).collect();
        let first: Vec<u64> = (0..MOST_UNDER_WAY).map(|_| next(&socket)).collect();
        rustix::io::ioctl_fionbio(&socket, true).unwrap();
        assert_eq!(rustix::io::read(&socket, &mut [0; 64]), Err(Errno::AGAIN));
        first.iter().rev().for_each(|&id| say(&socket, id, 0));
        host.rt().spawn("deputy", {
            let (host, socket) = (host.clone(), Rc::new(socket));
            async move {
                for _ in MOST_UNDER_WAY..9 {
                    let mut message = [0; 64];
                    while rustix::io::read(&*socket, &mut message[..]) == Err(Errno::AGAIN) {
                        host.rt().sleep(1_000_000).await;
                    }
                    let id = Errand::decode(&message).unwrap().0;
                    say(&socket, id, libc::EBUSY);
                }
            }
        });
        let results = host.rt().block_on(async move {
            let mut results = Vec::new();
            for asked in asked {
                results.push(asked.await);
            }
            results
        });
        let results = results.unwrap();
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), MOST_UNDER_WAY);
        assert_eq!(results[8], Err(Errno::BUSY));
        assert!(deputy.is_thread(17) && !deputy.is_thread(18) && !deputy.is_thread(0));
    }

    #[test]
    fn without_a_deputy_every_errand_fails_and_nothing_waits() {
        let host = Host::start(HostOptions::default()).unwrap();
        let (deputy, socket) = played(&host);
        let asked = deputy.ask(&Errand::Unmount);
        drop(socket);
        assert_eq!(host.rt().block_on(asked), Ok(Err(Errno::PIPE)));
        assert_eq!(host.rt().block_on(deputy.ask(&Errand::Prime)), Ok(Err(Errno::PIPE)));
    }
}
