//! Signals as events of the core's thread.
#![allow(unsafe_code)] // Signal masks and signalfd have no safe wrapper here.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::host::{Host, Source, Watch};

/// The signals that stop a daemon. Listening blocks their usual effect for this thread and all
/// threads that it starts later, so it must come before any thread.
pub struct Signals {
    queue: Rc<Queue>,
    _watch: Watch,
}

struct Queue {
    fd: Rc<OwnedFd>,
    came: RefCell<VecDeque<i32>>,
    waker: RefCell<Option<Waker>>,
}

impl Source for Queue {
    fn take_event(&self) -> bool {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.fd, &mut info) {
            Ok(len) if len == info.len() => {}
            _ => return false,
        }
        // The number is the first field, ssi_signo.
        let [a, b, c, d, ..] = info;
        self.came.borrow_mut().push_back(i32::from_ne_bytes([a, b, c, d]));
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
        true
    }
}

impl Signals {
    /// SIGTERM, SIGINT and SIGHUP.
    ///
    /// # Errors
    /// If the host refuses a descriptor.
    pub fn listen_for_stop(host: &Host) -> io::Result<Signals> {
        Signals::listen(host, &[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
    }

    /// Listens for these signals.
    ///
    /// # Errors
    /// If one is not a signal, or the host refuses a descriptor.
    pub fn listen(host: &Host, signals: &[i32]) -> io::Result<Signals> {
        let fd = Rc::new(block_and_open(signals)?);
        let queue =
            Queue { fd: Rc::clone(&fd), came: RefCell::default(), waker: RefCell::default() };
        let queue = Rc::new(queue);
        let watch = host.watch(fd, Rc::clone(&queue) as Rc<dyn Source>)?;
        Ok(Signals { queue, _watch: watch })
    }

    /// Waits for the next signal and returns its number.
    pub async fn next(&self) -> i32 {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The number of the next signal, if one has arrived; otherwise wakes this task when one does.
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<i32> {
        if let Some(signal) = self.queue.came.borrow_mut().pop_front() {
            return Poll::Ready(signal);
        }
        *self.queue.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

pub(crate) fn block_and_open(signals: &[i32]) -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initializes the set; the other calls get it initialized and live, and
    // accept a null pointer for the mask that is not asked for.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            if libc::sigaddset(set.as_mut_ptr(), signal) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let set = set.assume_init();
        let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        if blocked != 0 {
            return Err(io::Error::from_raw_os_error(blocked));
        }
        let fd = libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // The descriptor was just opened and has no other owner.
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostOptions;
    use rustix::process::{Signal, getpid};

    #[test]
    fn a_signal_wakes_the_task_that_listens() {
        let host = Host::start(HostOptions::default()).unwrap();
        let signals = Signals::listen(&host, &[libc::SIGUSR2]).unwrap();
        // To this thread alone: others of the test runner do not block it.
        // SAFETY: the arguments are this process, this thread and a valid signal.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_tgkill,
                getpid().as_raw_nonzero().get(),
                libc::gettid(),
                libc::SIGUSR2,
            )
        };
        assert_eq!(sent, 0);
        assert_eq!(host.rt().block_on(signals.next()), Ok(Signal::USR2.as_raw()));
    }
}
