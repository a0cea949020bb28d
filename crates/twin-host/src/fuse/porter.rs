//! What is told to the kernel of its own accord, on a thread of its own.
//!
//! A notice about an inode takes the inode in the kernel, and may be the last to let go of it. The
//! kernel then waits until everything that it had collected of that inode is written, which is to
//! say, for us. So the core's thread, which answers writes, never sends notices; this one does, and
//! waits for nobody but the kernel.
// Starting a thread, and that thread's patience.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::abi;
use super::reply::Answer;

/// What a porter does.
pub(super) enum Job {
    /// Has the kernel ask for the attributes of these nodes again: in the background, what else
    /// there is to do goes first.
    Sweep(Vec<u64>),
    /// The same of these at once, and says so.
    First(Vec<u64>, Sender<()>),
    /// The same of a node of which the kernel has just been sent something that it may not have
    /// looked at yet.
    After(u64),
    /// Sends an answer with a node's attributes that are to stay out of date all the same: the
    /// kernel takes no attributes from an answer that is older than a notice.
    Answer { node: u64, packet: Vec<u8> },
    /// The same as `After`, once the kernel has surely looked at what it was sent.
    Later(u64),
}

/// A node to be told of at some time.
struct Due {
    at: Instant,
    node: u64,
    tries: u32,
}

/// How often, and how long after each other, to look whether the kernel knows a new node by now.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_micros(50);
/// When the kernel has surely looked at an answer.
const SURE: Duration = Duration::from_millis(2);
/// How long to wait for what is told at once.
const AT_ONCE: Duration = Duration::from_millis(20);
/// Nodes of a sweep that are told of before looking for other jobs.
const BATCH: usize = 32;

/// The way to a thread that tells the kernel things. It ends when this is dropped.
pub(super) struct Porter(Sender<Job>);

impl Porter {
    /// Starts one over `/dev/fuse`.
    ///
    /// # Errors
    /// If the host refuses a thread or a descriptor.
    pub(super) fn start(fd: &OwnedFd) -> io::Result<Porter> {
        let fd = rustix::io::dup(fd)?;
        let (sender, jobs) = channel();
        let work = move || Work { fd, sweep: Vec::new(), due: VecDeque::new() }.run(&jobs);
        std::thread::Builder::new().name("porter".into()).spawn(work)?;
        Ok(Porter(sender))
    }

    /// Tells of these nodes now, and waits for that, but not long: should the kernel wait for us
    /// in turn, we go on.
    pub(super) fn tell_now(&self, nodes: Vec<u64>) {
        let (told, wait) = channel();
        self.tell(Job::First(nodes, told));
        let _ = wait.recv_timeout(AT_ONCE);
    }

    /// Has it do something, in order but for sweeps.
    pub(super) fn tell(&self, job: Job) {
        // It ends only after us.
        let _ = self.0.send(job);
    }
}

struct Work {
    fd: OwnedFd,
    sweep: Vec<u64>,
    due: VecDeque<Due>,
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
            Job::Later(node) => self.again(node, SURE, 0),
            Job::Answer { node, packet } => {
                let _ = tell_stale(&self.fd, node, -1);
                // Who gave up waits for nothing.
                let _ = rustix::io::write(&self.fd, &packet);
            }
        }
    }

    fn after(&mut self, node: u64, tries: u32) {
        match tell_stale(&self.fd, node, -1) {
            // The kernel has not come to it.
            Err(Errno::NOENT) if tries > 0 => self.again(node, PAUSE, tries - 1),
            Err(_) => {}
            // It may look at the answer only now, and then believe it.
            Ok(()) if tries > 0 => self.again(node, SURE, 0),
            Ok(()) => {}
        }
    }

    fn again(&mut self, node: u64, pause: Duration, tries: u32) {
        let due = Due { at: Instant::now() + pause, node, tries };
        let place = self.due.partition_point(|other| other.at <= due.at);
        self.due.insert(place, due);
    }

    fn act_on_due(&mut self) {
        while let Some(due) = self.due.front()
            && due.at <= Instant::now()
        {
            let (node, tries) = (due.node, due.tries);
            self.due.pop_front();
            self.after(node, tries);
        }
    }
}

/// Has the kernel ask for an inode's attributes again. From `offset` on, unless that is negative,
/// it also brings what it has collected of the inode's data, and forgets the data.
pub(super) fn tell_stale(fd: &OwnedFd, node: u64, offset: i64) -> Result<(), Errno> {
    let mut notice = Answer::new(Vec::new());
    notice.push(&abi::NotifyInvalInodeOut { ino: node, off: offset, len: 0 });
    notice.finish_notice(abi::NOTIFY_INVAL_INODE);
    rustix::io::write(fd, &notice.head).map(|_| ())
}
