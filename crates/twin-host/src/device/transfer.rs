//! A device request that is being executed, with the part that is left after each step of the
//! kernel.
//!
//! The kernel may do less than it was asked (because of a signal, or of more pieces than one call
//! takes). Another step then does the rest.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use twin_disk::queue::Waiting;
use twin_disk::{
    Block, Buf, BufPool, Bytes, Class, Completion, Io, IoError, IoErrorKind, IoKind, IoResult,
    Origin,
};
use twin_rt::Time;

use super::DeviceState;
use super::ahead::Waiter;
use super::gather::{Alignment, gather};

/// The most pieces that one system call takes (IOV_MAX).
const MAX_PIECES: usize = 1024;

/// The result of one step: the number of bytes, or the error number.
pub(crate) enum Step {
    /// The kernel executed the step itself.
    Kernel(Result<u32, i32>),
    /// A helper thread executed the step and returns the job.
    Helper(Job, Result<usize, Errno>),
}

/// The data of a step, which may cross threads.
pub(crate) struct Job {
    fd: Arc<OwnedFd>,
    kind: IoKind,
    at: u64,
    len: u64,
    done: u64,
    /// The data of a write.
    pieces: Vec<Bytes>,
    /// The destination of a read.
    buf: Option<Buf>,
    buffers: BufPool,
}

pub(crate) struct Transfer {
    device: Rc<DeviceState>,
    whose: ResultOwner,
    op: IoKind,
    at: u64,
    len: u64,
    origin: Origin,
    deadline: Option<Time>,
    /// `None` while a helper thread works on it.
    job: Option<Job>,
    /// The list that the kernel reads during a step. It must stay in place until the step ends.
    iovecs: Vec<libc::iovec>,
}

/// A transfer that waits in its device's queue: the number of the device, and a number there.
pub(crate) type WaitingName = (u32, u32);

/// The receiver of the result of a transfer.
pub(super) enum ResultOwner {
    /// The request of this number.
    One(u64, Completion),
    /// All requests that wait for the window of this number.
    Window(u64),
}

/// The consequences of the end of a transfer.
pub(crate) enum Ending {
    One(Finished),
    /// These requests have their results, and these transfers must be started.
    Many(Vec<Finished>, Vec<Transfer>),
}

/// A request that has its result and for which a task waits.
pub(crate) struct Finished {
    /// The number of its device.
    pub(crate) device: u32,
    /// The number of the transfer on its device.
    pub(crate) id: u64,
    pub(crate) completion: Completion,
    pub(crate) result: IoResult,
}

impl Transfer {
    pub(super) fn new(device: Rc<DeviceState>, whose: ResultOwner, io: Io) -> Transfer {
        let (op, at, len, origin, deadline) = (io.kind, io.at, io.len, io.origin, io.deadline);
        let alignment =
            Alignment { sector: device.sector as usize, memory_align: device.memory_align };
        let job = Job {
            fd: Arc::clone(&device.fd),
            kind: op,
            at,
            len,
            done: 0,
            pieces: gather(io.blocks, alignment, &device.buffers),
            buf: None,
            buffers: device.buffers.clone(),
        };
        let (job, iovecs) = (Some(job), Vec::new());
        Transfer { device, whose, op, at, len, origin, deadline, job, iovecs }
    }

    fn job(&self) -> &Job {
        match &self.job {
            Some(job) => job,
            None => unreachable!("a transfer is looked at only between its steps"),
        }
    }

    /// `None` if it is to be started now; otherwise the name under which its host keeps it until
    /// [`end`](Self::end) of another names it.
    pub(crate) fn has_to_wait(&self, now: impl FnOnce() -> Time) -> Option<WaitingName> {
        let id = self.device.queue.admit(self, now)?;
        Some((self.device.number, id))
    }

    /// The transfer as its device's queue sees it.
    pub(super) fn waiting(&self, id: u32, seq: u64, arrived: Time) -> Waiting {
        let &Transfer { op: kind, at, len, origin, deadline, .. } = self;
        Waiting { id, seq, kind, at, len, origin, arrived, deadline }
    }

    pub(crate) fn kind(&self) -> IoKind {
        self.op
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.job().fd.as_fd()
    }

    /// The offset on the device at which the next step begins.
    pub(crate) fn position(&self) -> u64 {
        self.at + self.job().done
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.len - self.job().done
    }

    /// The memory of the next step, for the kernel. Valid until the transfer ends or this is called
    /// again.
    pub(crate) fn iovecs(&mut self) -> &[libc::iovec] {
        let Some(job) = &mut self.job else { unreachable!("asked between steps") };
        self.iovecs.clear();
        match job.kind {
            IoKind::Read => {
                let rest = job.rest_of_buf();
                let (base, len) = (rest.as_mut_ptr().cast(), rest.len());
                self.iovecs.push(libc::iovec { iov_base: base, iov_len: len });
            }
            _ => {
                for piece in job.rest_of_pieces() {
                    let (base, len) = (piece.as_ptr().cast_mut().cast(), piece.len());
                    let full = self.iovecs.len() == MAX_PIECES;
                    match self.iovecs.last_mut() {
                        // Adjacent slices of one buffer are joined into one entry.
                        Some(last) if last.iov_base.wrapping_byte_add(last.iov_len) == base => {
                            last.iov_len += len;
                        }
                        _ if full => break,
                        _ => self.iovecs.push(libc::iovec { iov_base: base, iov_len: len }),
                    }
                }
            }
        }
        &self.iovecs
    }

    /// Gives the job to a helper thread, which must return it with the result of the step.
    pub(crate) fn take_job(&mut self) -> Job {
        match self.job.take() {
            Some(job) => job,
            None => unreachable!("a transfer has one step at a time"),
        }
    }

    /// Takes the result of a step. Returns `None` if there is more to do.
    pub(crate) fn advance(&mut self, step: Step) -> Option<IoResult> {
        let result = match step {
            Step::Kernel(result) => result.map(|n| n as usize).map_err(Errno::from_raw_os_error),
            Step::Helper(job, result) => {
                self.job = Some(job);
                result
            }
        };
        match result {
            Err(Errno::INTR | Errno::AGAIN) => None,
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV)
                if self.op == IoKind::Discard =>
            {
                self.device.no_discard.set(true);
                Some(Ok(Vec::new()))
            }
            Err(errno) => Some(self.error(error_kind(errno))),
            // Flushed data is not there if its place on the device is gone.
            Ok(_) if self.op == IoKind::Flush => match self.device.extent.check() {
                Some(kind) => Some(self.error(kind)),
                None => Some(Ok(Vec::new())),
            },
            Ok(_) if matches!(self.op, IoKind::Flush | IoKind::Discard) => Some(Ok(Vec::new())),
            Ok(count) => self.moved(count as u64),
        }
    }

    fn moved(&mut self, count: u64) -> Option<IoResult> {
        let sector = u64::from(self.device.sector);
        let (op, len) = (self.op, self.len);
        let Some(job) = &mut self.job else { unreachable!("given back above") };
        let whole =
            if job.done + count >= len { len } else { (job.done + count) / sector * sector };
        if whole <= job.done {
            let what = match op {
                IoKind::Read => "the file ends before its size: was it cut meanwhile?",
                _ => "the host wrote nothing",
            };
            return Some(self.error(IoErrorKind::Other(what.into())));
        }
        job.done = whole;
        if whole < len {
            return None;
        }
        Some(Ok(job
            .buf
            .take()
            .map(|buf| Block::Bytes(buf.compact().freeze()))
            .into_iter()
            .collect()))
    }

    fn error(&self, kind: IoErrorKind) -> IoResult {
        Err(IoError { op: self.op, at: self.at, len: self.len, kind })
    }

    /// Ends the transfer. No step may be under way. Returns the name too of the transfer that waited
    /// for this end and is to be started now.
    pub(crate) fn end(
        self,
        result: IoResult,
        now: impl FnOnce() -> Time,
    ) -> (Ending, Option<WaitingName>) {
        let number = self.device.number;
        let next = self.device.queue.ended(self.op, now).map(|id| (number, id));
        (self.ending(result), next)
    }

    fn ending(self, result: IoResult) -> Ending {
        if self.op != IoKind::Read {
            // Windows that were read during this write may have the old or the new content.
            self.device.ahead.borrow_mut().forget(self.at, self.len);
        }
        let number = match self.whose {
            ResultOwner::One(id, completion) => {
                return Ending::One(self.device.finished(id, completion, result));
            }
            ResultOwner::Window(number) => number,
        };
        let blocks = result.as_deref().ok();
        let ended = self.device.ahead.borrow_mut().done(number, blocks);
        let (mut finished, mut again) = (Vec::new(), Vec::new());
        for (bytes, waiter) in ended {
            match bytes {
                Some(bytes) => {
                    let result = Ok(vec![Block::Bytes(bytes)]);
                    finished.push(self.device.finished(waiter.id, waiter.completion, result));
                }
                None => again.push(Transfer::read(&self.device, waiter)),
            }
        }
        Ending::Many(finished, again)
    }

    /// A transfer that reads for a waiting task.
    pub(super) fn read(device: &Rc<DeviceState>, waiter: Waiter) -> Transfer {
        let io = Io::read(waiter.at, waiter.len, Class::Data, Origin::User);
        Transfer::new(Rc::clone(device), ResultOwner::One(waiter.id, waiter.completion), io)
    }
}

impl Job {
    fn rest_of_buf(&mut self) -> &mut [u8] {
        let len = self.len as usize;
        &mut self.buf.get_or_insert_with(|| self.buffers.take(len))[self.done as usize..]
    }

    fn rest_of_pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut skip = self.done as usize;
        self.pieces.iter().filter_map(move |piece| {
            let rest = piece.get(skip..).filter(|rest| !rest.is_empty());
            skip = skip.saturating_sub(piece.len());
            rest
        })
    }

    /// Takes one step, blocking the thread.
    pub(crate) fn run(mut self) -> Step {
        let fd = Arc::clone(&self.fd);
        let at = self.at + self.done;
        let result = match self.kind {
            IoKind::Read => {
                let rest = self.rest_of_buf();
                rustix::io::preadv(&fd, &mut [IoSliceMut::new(rest)], at)
            }
            IoKind::Write => {
                let pieces: Vec<_> =
                    self.rest_of_pieces().take(MAX_PIECES).map(IoSlice::new).collect();
                rustix::io::pwritev(&fd, &pieces, at)
            }
            IoKind::Flush => rustix::fs::fdatasync(&fd).map(|()| 0),
            IoKind::Discard => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&fd, mode, at, self.len).map(|()| 0)
            }
        };
        Step::Helper(self, result)
    }
}

fn error_kind(errno: Errno) -> IoErrorKind {
    match errno {
        Errno::NOSPC | Errno::DQUOT => IoErrorKind::NoSpace,
        Errno::IO | Errno::NODATA | Errno::REMOTEIO | Errno::ILSEQ => IoErrorKind::Medium,
        Errno::NODEV | Errno::NXIO | Errno::SHUTDOWN | Errno::NOMEDIUM => IoErrorKind::Gone,
        other => IoErrorKind::Other(std::io::Error::from(other).to_string()),
    }
}
