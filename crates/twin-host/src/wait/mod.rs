//! The one place where the core's thread sleeps, and the way of device requests to the kernel.
//!
//! Two engines do the same: [`Uring`] waits and submits with one system call; [`Threads`] waits
//! with epoll and hands device requests to a few helper threads, for hosts that refuse io_uring
//! (containers often do). Neither delivers anything: they only say what has become possible.

mod threads;
mod uring;

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use twin_rt::Nanos;

use crate::device::{Step, Transfer};

use threads::Threads;
use uring::Uring;

/// What a wait found.
pub(crate) enum Wake {
    /// The watched descriptor under this key may have something to read.
    Readable(u64),
    /// A step of the transfer under this key has ended.
    Stepped(u64, Step),
}

/// How long to wait.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    /// Only look.
    None,
    /// At most this long.
    For(Nanos),
    /// Until something happens.
    Forever,
}

pub(crate) enum Engine {
    Uring(Box<Uring>),
    Threads(Box<Threads>),
}

impl Engine {
    /// io_uring, if it is wanted and the kernel has it; else helper threads.
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

    /// Begins to watch a descriptor, which must stay open until it is no longer watched. Nothing
    /// is reported before it is armed.
    pub(crate) fn watch(&mut self, key: u64, fd: BorrowedFd<'_>) -> io::Result<()> {
        match self {
            Engine::Uring(_) => Ok(()),
            Engine::Threads(threads) => threads.watch(key, fd),
        }
    }

    /// Asks for one report when the descriptor has something to read.
    pub(crate) fn arm(&mut self, key: u64, fd: RawFd) {
        match self {
            Engine::Uring(ring) => ring.arm(key, fd),
            // Level-triggered: it reports as long as there is something.
            Engine::Threads(_) => {}
        }
    }

    /// Stops watching.
    pub(crate) fn unwatch(&mut self, key: u64, fd: BorrowedFd<'_>) {
        match self {
            Engine::Uring(ring) => ring.disarm(key),
            Engine::Threads(threads) => threads.unwatch(fd),
        }
    }

    /// Starts the next step of a transfer. The transfer must stay in its place, unchanged, until
    /// the step is reported.
    pub(crate) fn step(&mut self, key: u64, transfer: &mut Transfer) {
        match self {
            Engine::Uring(ring) => ring.step(key, transfer),
            Engine::Threads(threads) => threads.step(key, transfer),
        }
    }

    /// Waits, and adds what it found to `found`. May find nothing.
    ///
    /// # Errors
    /// Only if the kernel refuses to wait at all.
    pub(crate) fn wait(&mut self, patience: Patience, found: &mut Vec<Wake>) -> io::Result<()> {
        match self {
            Engine::Uring(ring) => ring.wait(patience, found),
            Engine::Threads(threads) => threads.wait(patience, found),
        }
    }
}

impl Patience {
    fn duration(self) -> Option<Duration> {
        match self {
            Patience::None => Some(Duration::ZERO),
            Patience::For(span) => Some(Duration::from_nanos(span)),
            Patience::Forever => None,
        }
    }
}
