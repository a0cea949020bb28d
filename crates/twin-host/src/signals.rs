//! Signals as events of the core's thread, and what a daemon makes of all others.
//!
//! Contract: a daemon ends in order at the signals that mean that, and ignores those that mean
//! something to other programs: a mount whose daemon dies of a stray SIGUSR1 is dead for everybody in
//! it. Masks and ignored signals that the shell left behind count for nothing, but for SIGHUP, which
//! `nohup` asks to ignore.
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

/// Signals whose usual effect is to end a program, and that nobody has reason to send to a daemon. A
/// fault of the program itself ends it all the same: the kernel does not let it be ignored.
const STRAY: &[i32] = &[
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGPIPE,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGPOLL,
    libc::SIGPWR,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
    libc::SIGFPE,
    libc::SIGILL,
    // A foreground daemon that is stopped because it writes to its terminal stops all its clients.
    libc::SIGTTIN,
    libc::SIGTTOU,
    #[cfg(target_os = "linux")]
    libc::SIGSTKFLT,
];

/// Signals that mean something at a terminal, which a daemon in the background does not have. For
/// SIGSEGV and SIGBUS the language has a handler, whose message needs somebody who reads it.
const OF_TERMINAL: &[i32] = &[libc::SIGHUP, libc::SIGTSTP, libc::SIGSEGV, libc::SIGBUS];

/// Makes a daemon of this process as far as signals go: call it before any thread is started.
pub fn take_signals(foreground: bool) {
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    let at_terminal = if foreground { &[][..] } else { OF_TERMINAL };
    for signal in STRAY.iter().chain(at_terminal).copied().chain(real_time) {
        dispose(signal, libc::SIG_IGN);
    }
    usual_children();
    let none = empty_set();
    // SAFETY: the set is initialized, and the old mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()) };
}

/// Lets processes that this one starts be waited for, whatever the shell has left behind: children of
/// a process that ignores SIGCHLD leave nothing to wait for.
pub(crate) fn usual_children() {
    dispose(libc::SIGCHLD, libc::SIG_DFL);
}

/// Makes a write past the limit on the size of files an error, and not the end of this process.
pub(crate) fn long_files_are_errors() {
    dispose(libc::SIGXFSZ, libc::SIG_IGN);
}

fn dispose(signal: i32, how: libc::sighandler_t) {
    // SAFETY: neither disposition runs code of ours; a number that is no signal is refused.
    unsafe { libc::signal(signal, how) };
}

pub(crate) fn is_ignored(signal: i32) -> bool {
    let mut there = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the present one, to memory of that type.
    let told = unsafe { libc::sigaction(signal, std::ptr::null(), there.as_mut_ptr()) };
    // SAFETY: it was zeroed, which is a valid value of this type, and perhaps overwritten.
    told == 0 && unsafe { there.assume_init() }.sa_sigaction == libc::SIG_IGN
}

fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initializes the set that the pointer leads to.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// While it lives, threads that are started hear no signals: these are for the core's thread.
pub(crate) struct Deaf(libc::sigset_t);

impl Deaf {
    pub(crate) fn begin() -> Deaf {
        let (mut all, mut before) = (empty_set(), empty_set());
        // SAFETY: both sets are initialized and outlive the calls.
        unsafe {
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        }
        Deaf(before)
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        // SAFETY: the set is initialized, and the old mask is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

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
    /// SIGTERM, SIGINT and SIGQUIT, whose senders want an end, and SIGHUP unless it is ignored.
    pub fn listen_for_stop(host: &Host) -> io::Result<Signals> {
        let mut signals = vec![libc::SIGTERM, libc::SIGINT, libc::SIGQUIT];
        signals.extend(Some(libc::SIGHUP).filter(|&s| !is_ignored(s)));
        Signals::listen(host, &signals)
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
