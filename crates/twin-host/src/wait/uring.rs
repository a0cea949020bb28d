//! Waiting and device requests through io_uring: one system call submits what is queued and
//! sleeps until something completes.
#![allow(unsafe_code)] // Queue entries point at memory that the kernel reads and writes.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use twin_disk::IoKind;

use super::{Timeout, Wake};
use crate::device::{Step, Transfer};
use crate::slab::KEY_BITS;

/// The capacity of the submission queue. A full queue is submitted at once.
const ENTRIES: u32 = 256;

const TAG_POLL: u64 = 1 << KEY_BITS;
const TAG_STEP: u64 = 2 << KEY_BITS;
const TAG_CANCEL: u64 = 3 << KEY_BITS;
const TAGS: u64 = u64::MAX << KEY_BITS;

pub(crate) struct Uring {
    ring: IoUring,
    /// The number of steps that the kernel has or will get; their memory must stay in place.
    steps: usize,
}

impl Uring {
    pub(crate) fn start() -> io::Result<Uring> {
        let mut ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(ENTRIES)
            // Kernels before 6.1 know none of these flags.
            .or_else(|_| IoUring::builder().build(ENTRIES))?;
        let params = ring.params();
        if !params.is_feature_ext_arg() || !params.is_feature_nodrop() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        // This saves a table lookup in each call. Old kernels refuse it, which does no harm.
        let _ = ring.submitter().register_ring_fd();
        ring.submission().sync();
        Ok(Uring { ring, steps: 0 })
    }

    fn push(&mut self, entry: squeue::Entry) {
        loop {
            // SAFETY: what the entry points at stays valid until its completion is reaped: a
            // poll and a cancellation point at nothing, and `step` asks its caller for it.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            if pushed.is_ok() {
                return;
            }
            // Full: hand it to the kernel. EBUSY (completions must be reaped first) cannot last:
            // the kernel keeps overflowing completions itself (NODROP).
            if let Err(error) = self.ring.submit() {
                let passing = [libc::EINTR, libc::EBUSY, libc::EAGAIN];
                let code = error.raw_os_error().unwrap_or(0);
                assert!(passing.contains(&code), "io_uring refuses requests: {error}");
            }
        }
    }

    pub(crate) fn arm(&mut self, key: u64, fd: RawFd) {
        let poll = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32).build();
        self.push(poll.user_data(TAG_POLL | key));
    }

    pub(crate) fn disarm(&mut self, key: u64) {
        let remove = opcode::PollRemove::new(TAG_POLL | key).build();
        self.push(remove.user_data(TAG_CANCEL));
        // Submitted at once, because an armed poll keeps the file open.
        let _ = self.ring.submit();
    }

    pub(crate) fn step(&mut self, key: u64, transfer: &mut Transfer) {
        let fd = Fd(transfer.fd().as_raw_fd());
        let at = transfer.position();
        let entry = match transfer.kind() {
            IoKind::Read => {
                let iov = transfer.iovecs();
                opcode::Readv::new(fd, iov.as_ptr(), iov.len() as u32).offset(at).build()
            }
            IoKind::Write => {
                let iov = transfer.iovecs();
                opcode::Writev::new(fd, iov.as_ptr(), iov.len() as u32).offset(at).build()
            }
            IoKind::Flush => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
            IoKind::Discard => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                opcode::Fallocate::new(fd, transfer.remaining()).offset(at).mode(mode).build()
            }
        };
        self.steps += 1;
        self.push(entry.user_data(TAG_STEP | key));
    }

    pub(crate) fn wait(&mut self, timeout: Timeout, found: &mut Vec<Wake>) -> io::Result<()> {
        if self.reap(found) {
            // There is a result already: only submit the queue.
            if !self.ring.submission().is_empty() {
                self.enter(Timeout::None)?;
            }
            return Ok(());
        }
        self.enter(timeout)?;
        self.reap(found);
        Ok(())
    }

    fn enter(&mut self, timeout: Timeout) -> io::Result<()> {
        let entered = match timeout {
            Timeout::None => {
                let queue = self.ring.submission();
                let idle = queue.is_empty() && !queue.taskrun() && !queue.cq_overflow();
                drop(queue);
                if idle { Ok(0) } else { self.ring.submit() }
            }
            Timeout::Forever => self.ring.submit_and_wait(1),
            Timeout::For(span) => {
                let (sec, nsec) = (span / twin_rt::SECS, (span % twin_rt::SECS) as u32);
                let span = Timespec::new().sec(sec).nsec(nsec);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&span))
            }
        };
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn reap(&mut self, found: &mut Vec<Wake>) -> bool {
        let before = found.len();
        for entry in self.ring.completion() {
            let key = entry.user_data() & !TAGS;
            match entry.user_data() & TAGS {
                TAG_POLL => found.push(Wake::Readable(key)),
                TAG_STEP => {
                    self.steps -= 1;
                    let result = entry.result();
                    let result = u32::try_from(result).map_err(|_| -result);
                    found.push(Wake::Stepped(key, Step::Kernel(result)));
                }
                _ => {}
            }
        }
        found.len() > before
    }
}

impl Drop for Uring {
    /// Waits for the steps under way, because until they end the kernel may write into their
    /// memory.
    fn drop(&mut self) {
        let mut found = Vec::new();
        while self.steps > 0 {
            if self.wait(Timeout::Forever, &mut found).is_err() {
                // Memory that the kernel may still write to must not be freed, so the process ends.
                std::process::abort();
            }
            found.clear();
        }
    }
}
