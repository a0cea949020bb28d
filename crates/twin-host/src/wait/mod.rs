//! The one place where the core's thread sleeps, and the path of device requests to the kernel.
//!
//! Two engines do the same work: [`Uring`] waits and submits with one system call; [`Threads`]
//! waits with epoll and gives device requests to a few helper threads, for hosts that refuse
//! io_uring (containers often do). Neither delivers events: they only report what has become
//! possible.

mod threads;
mod uring;

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use twin_rt::Nanos;

use crate::device::{Step, Transfer};

use threads::Threads;
use uring::Uring;

/// The result of a wait.
pub(crate) enum Wake {
    /// The watched descriptor under this key may have something to read.
    Readable(u64),
    /// A step of the transfer under this key has ended.
    Stepped(u64, Step),
}

/// How long to wait.
#[derive(Clone, Copy)]
pub(crate) enum Timeout {
    /// Do not wait: report what has happened already.
    None,
    /// Wait at most this many nanoseconds.
    For(Nanos),
    /// Wait until something happens.
    Forever,
}

pub(crate) enum Engine {
    Uring(Box<Uring>),
    Threads(Box<Threads>),
}

impl Engine {
    /// Starts io_uring, if it is wanted and the kernel supports it; otherwise helper threads.
    pub(crate) fn start(want_uring: bool) -> io::Result<Engine> {
        if want_uring && let Ok(ring) = Uring::start() {
            return Ok(Engine::Uring(Box::new(ring)));
        }
        Ok(Engine::Threads(Box::new(Threads::start()?)))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Engine::Uring(_) => "io_uring",
            Engine::Threads(_) => "threads",
        }
    }

    /// Begins to watch a descriptor, which must stay open until `unwatch`. Nothing is reported
    /// before it is armed.
    pub(crate) fn watch(&mut self, key: u64, fd: BorrowedFd<'_>) -> io::Result<()> {
        match self {
            Engine::Uring(_) => Ok(()),
            Engine::Threads(threads) => threads.watch(key, fd),
        }
    }

    /// Requests one report when the descriptor is readable.
    pub(crate) fn arm(&mut self, key: u64, fd: RawFd) {
        match self {
            Engine::Uring(ring) => ring.arm(key, fd),
            // epoll is level-triggered: it reports as long as the descriptor is readable.
            Engine::Threads(_) => {}
        }
    }

    /// Stops watching `fd`, which was watched under `key`.
    pub(crate) fn unwatch(&mut self, key: u64, fd: BorrowedFd<'_>) {
        match self {
            Engine::Uring(ring) => ring.disarm(key),
            Engine::Threads(threads) => threads.unwatch(fd),
        }
    }

    /// Starts the next step of a transfer. The transfer must stay in place, unchanged, until the
    /// step is reported, because the kernel uses its memory.
    pub(crate) fn step(&mut self, key: u64, transfer: &mut Transfer) {
        match self {
            Engine::Uring(ring) => ring.step(key, transfer),
            Engine::Threads(threads) => threads.step(key, transfer),
        }
    }

    /// Waits, and adds the results to `found`. There may be none.
    ///
    /// # Errors
    /// Only if the kernel refuses to wait at all.
    pub(crate) fn wait(&mut self, timeout: Timeout, found: &mut Vec<Wake>) -> io::Result<()> {
        match self {
            Engine::Uring(ring) => ring.wait(timeout, found),
            Engine::Threads(threads) => threads.wait(timeout, found),
        }
    }
}

impl Timeout {
    fn duration(self) -> Option<Duration> {
        match self {
            Timeout::None => Some(Duration::ZERO),
            Timeout::For(span) => Some(Duration::from_nanos(span)),
            Timeout::Forever => None,
        }
    }
}
