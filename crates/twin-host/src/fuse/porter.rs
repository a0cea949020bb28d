//! Sends notices to the kernel, on a thread of its own.
//!
//! For a notice about an inode, the kernel takes the inode, and may drop the last reference to it.
//! It then waits until all data that it collected for the inode is written, which means that it
//! waits for us. Therefore the thread of the core, which answers writes, sends no notices, with one
//! exception: about an inode whose file a client holds open, because it waits for our answer. The
//! thread of this module sends all others, and waits for nothing but the kernel. If the daemon dies
//! while it waits, the mount's [`Deputy`](super::Deputy) ends the wait.
// This file starts a thread, which sleeps in real time.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::abi;
use super::reply::Answer;

/// A task for the porter.
pub(super) enum Job {
    /// Makes the attributes of these nodes out of date, in the background: other jobs go first.
    Sweep(Vec<u64>),
    /// Makes the attributes of these nodes out of date at once, and reports it.
    First(Vec<u64>, Sender<()>),
    /// Makes the attributes of a node out of date. The kernel was just sent an answer about it,
    /// which it may not have processed yet.
    After(u64),
    /// Sends an answer with attributes of a node that must stay out of date. The kernel ignores
    /// attributes in an answer that is older than a notice.
    Answer { node: u64, packet: Vec<u8> },
    /// Like `After`, once the kernel must have processed the answer.
    Later(u64),
    /// Drops the pages that the kernel has of a node, whose file does not take them.
    Drop(u64),
    /// There are nodes in the list of [`Porter::tell_soon`].
    Soon,
}

/// A node whose notice is due at some time.
struct Due {
    at: Instant,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    /// A node, and how often the kernel may still not know it.
    Node(u64, u32),
    /// The list of [`Porter::tell_soon`].
    Soon,
}

/// How often, and at which interval, to check whether the kernel knows a new node.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_micros(50);
/// After this time the kernel must have processed an answer.
const SURE: Duration = Duration::from_millis(2);
/// How long a caller waits for an immediate notice.
const AT_ONCE: Duration = Duration::from_millis(20);
/// The number of nodes of a sweep that are notified before other jobs are looked at.
const BATCH: usize = 32;

/// When and how many nodes are notified of those whose attributes went out of date by the way.
const SOON: Duration = Duration::from_secs(1);
const MOST_SOON: usize = 64;

/// A channel to the thread that sends notices. The thread ends when this is dropped.
pub(super) struct Porter {
    jobs: Sender<Job>,
    soon: Arc<Mutex<Vec<u64>>>,
}

impl Porter {
    /// Starts a porter for `/dev/fuse`.
    ///
    /// # Errors
    /// If the host refuses a thread or a descriptor.
    pub(super) fn start(fd: &OwnedFd) -> io::Result<Porter> {
        let fd = rustix::io::dup(fd)?;
        let (sender, jobs) = channel();
        let soon: Arc<Mutex<Vec<u64>>> = Arc::default();
        let list = Arc::clone(&soon);
        let work =
            move || Work { fd, sweep: Vec::new(), due: VecDeque::new(), soon: list }.run(&jobs);
        std::thread::Builder::new().name("porter".into()).spawn(work)?;
        Ok(Porter { jobs: sender, soon })
    }

    /// Makes the attributes of a node out of date after a second. Of many nodes, only some are treated
    /// so. The thread is woken once for all of a second.
    pub(super) fn tell_soon(&self, node: u64) {
        let mut soon = self.soon.lock().unwrap_or_else(PoisonError::into_inner);
        if soon.len() < MOST_SOON {
            soon.push(node);
        }
        if soon.len() == 1 {
            self.tell(Job::Soon);
        }
    }

    /// Notifies the kernel of these nodes now, and waits for that, but not for long: if the kernel
    /// waits for us in turn, we must go on.
    pub(super) fn tell_now(&self, nodes: Vec<u64>) {
        let (told, wait) = channel();
        self.tell(Job::First(nodes, told));
        let _ = wait.recv_timeout(AT_ONCE);
    }

    /// Queues a job. Jobs run in order, except that sweeps come last.
    pub(super) fn tell(&self, job: Job) {
        // The thread outlives this sender, so sending cannot fail.
        let _ = self.jobs.send(job);
    }
}

struct Work {
    fd: OwnedFd,
    sweep: Vec<u64>,
    due: VecDeque<Due>,
    soon: Arc<Mutex<Vec<u64>>>,
}

impl Work {
    fn run(&mut self, jobs: &Receiver<Job>) {
        loop {
            let job = if !self.sweep.is_empty() {
                match jobs.try_recv() {
                    Ok(job) => Some(job),
                    Err(TryRecvError::Empty) => None,
                    Err(TryRecvError::Disconnected) => return,
                }
            } else if let Some(due) = self.due.front() {
                match jobs.recv_timeout(due.at.saturating_duration_since(Instant::now())) {
                    Ok(job) => Some(job),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            } else {
                match jobs.recv() {
                    Ok(job) => Some(job),
                    Err(_) => return,
                }
            };
            if let Some(job) = job {
                self.act(job);
            } else {
                let rest = self.sweep.len().saturating_sub(BATCH);
                for node in self.sweep.split_off(rest) {
                    let _ = tell_stale(&self.fd, node, -1);
                }
            }
            self.act_on_due();
        }
    }

    fn act(&mut self, job: Job) {
        match job {
            Job::Sweep(nodes) => self.sweep = nodes,
            Job::First(nodes, told) => {
                for node in nodes {
                    let _ = tell_stale(&self.fd, node, -1);
                }
                let _ = told.send(());
            }
            Job::After(node) => self.after(node, TRIES),
            Job::Later(node) => self.again(What::Node(node, 0), SURE),
            Job::Drop(node) => drop(tell_stale(&self.fd, node, 0)),
            Job::Soon => self.again(What::Soon, SOON),
            Job::Answer { node, packet } => {
                let _ = tell_stale(&self.fd, node, -1);
                // A client that gave up does not need its answer.
                let _ = rustix::io::write(&self.fd, &packet);
            }
        }
    }

    fn after(&mut self, node: u64, tries: u32) {
        match tell_stale(&self.fd, node, -1) {
            // The kernel does not know the node yet.
            Err(Errno::NOENT) if tries > 0 => self.again(What::Node(node, tries - 1), PAUSE),
            Err(_) => {}
            // The kernel may process the answer only now and then trust it, so one more notice
            // follows.
            Ok(()) if tries > 0 => self.again(What::Node(node, 0), SURE),
            Ok(()) => {}
        }
    }

    fn again(&mut self, what: What, pause: Duration) {
        let due = Due { at: Instant::now() + pause, what };
        let place = self.due.partition_point(|other| other.at <= due.at);
        self.due.insert(place, due);
    }

    fn act_on_due(&mut self) {
        while let Some(due) = self.due.front()
            && due.at <= Instant::now()
        {
            let what = due.what;
            self.due.pop_front();
            match what {
                What::Node(node, tries) => self.after(node, tries),
                What::Soon => {
                    let nodes = {
                        let mut soon = self.soon.lock().unwrap_or_else(PoisonError::into_inner);
                        std::mem::take(&mut *soon)
                    };
                    for node in nodes {
                        let _ = tell_stale(&self.fd, node, -1);
                    }
                }
            }
        }
    }
}

/// Makes the kernel's attributes of an inode out of date. If `offset` is not negative, the kernel
/// also writes out and drops its cached data from there on.
pub(super) fn tell_stale(fd: &OwnedFd, node: u64, offset: i64) -> Result<(), Errno> {
    let mut notice = Answer::new(Vec::new());
    notice.push(&abi::NotifyInvalInodeOut { ino: node, off: offset, len: 0 });
    notice.finish_notice(abi::NOTIFY_INVAL_INODE);
    rustix::io::write(fd, &notice.head).map(|_| ())
}
