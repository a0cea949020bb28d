//! Waits with epoll and executes device requests on helper threads, for hosts without io_uring.
//!
//! The threads receive only jobs, which are plain data: they share no state with the core.
#![allow(clippy::disallowed_methods)] // Starting threads is what this file is for.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use super::{Timeout, Wake};
use crate::device::{Job, Step, Transfer};
use crate::signals::Deaf;

/// The number of helper threads: enough that a flush does not delay reads, few enough to be cheap.
const THREADS: usize = 4;
/// The key of our own descriptor; no watch has it.
const OWN: u64 = u64::MAX;

#[derive(Default)]
struct Queues {
    jobs: VecDeque<(u64, Job)>,
    done: Vec<(u64, Step)>,
    stop: bool,
}

struct Shared {
    queues: Mutex<Queues>,
    more: Condvar,
    bell: OwnedFd,
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Threads {
    epoll: OwnedFd,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Jobs handed out and not yet reported.
    jobs: usize,
    glances: u32,
}

impl Threads {
    pub(crate) fn start() -> io::Result<Threads> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(OWN), epoll::EventFlags::IN)?;
        let shared = Arc::new(Shared { queues: Mutex::default(), more: Condvar::new(), bell });
        Ok(Threads { epoll, shared, threads: Vec::new(), jobs: 0, glances: 0 })
    }

    pub(crate) fn watch(&mut self, key: u64, fd: BorrowedFd<'_>) -> io::Result<()> {
        let data = epoll::EventData::new_u64(key);
        Ok(epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN)?)
    }

    pub(crate) fn unwatch(&mut self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    pub(crate) fn step(&mut self, key: u64, transfer: &mut Transfer) {
        // Threads start with the first work, because a process may still fork before that. They may
        // start before anybody listens for signals, which must not end a helper then.
        let _deaf = (self.threads.len() < THREADS).then(Deaf::begin);
        while self.threads.len() < THREADS {
            let shared = Arc::clone(&self.shared);
            self.threads.push(std::thread::spawn(move || help(&shared)));
        }
        self.jobs += 1;
        self.shared.queues().jobs.push_back((key, transfer.take_job()));
        self.shared.more.notify_one();
    }

    pub(crate) fn wait(&mut self, timeout: Timeout, found: &mut Vec<Wake>) -> io::Result<()> {
        // A look costs a system call here. Without work of our own, only one in sixteen is made.
        self.glances = self.glances.wrapping_add(1);
        let skip = matches!(timeout, Timeout::None) && !self.glances.is_multiple_of(16);
        if skip && self.jobs == 0 {
            return Ok(());
        }
        let mut events = [const { epoll_event() }; 16];
        let timeout = timeout.duration().map(|span| Timespec {
            tv_sec: span.as_secs() as i64,
            tv_nsec: i64::from(span.subsec_nanos()),
        });
        let count = match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        for event in &events[..count] {
            match event.data.u64() {
                OWN => {
                    let mut count = [0u8; 8];
                    let _ = rustix::io::read(&self.shared.bell, &mut count);
                    let done = std::mem::take(&mut self.shared.queues().done);
                    self.jobs -= done.len();
                    found.extend(done.into_iter().map(|(key, step)| Wake::Stepped(key, step)));
                }
                key => found.push(Wake::Readable(key)),
            }
        }
        Ok(())
    }
}

const fn epoll_event() -> epoll::Event {
    epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }
}

fn help(shared: &Shared) {
    loop {
        let mut queues = shared.queues();
        let (key, job) = loop {
            if let Some(next) = queues.jobs.pop_front() {
                break next;
            }
            if queues.stop {
                return;
            }
            queues = shared.more.wait(queues).unwrap_or_else(PoisonError::into_inner);
        };
        drop(queues);
        let step = job.run();
        let first = {
            let mut queues = shared.queues();
            queues.done.push((key, step));
            queues.done.len() == 1
        };
        if first {
            let _ = rustix::io::write(&shared.bell, &1u64.to_ne_bytes());
        }
    }
}

impl Drop for Threads {
    /// Lets the helpers finish the submitted requests.
    fn drop(&mut self) {
        self.shared.queues().stop = true;
        self.shared.more.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
