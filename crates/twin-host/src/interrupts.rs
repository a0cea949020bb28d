//! Signals for programs without a runtime: a flag that is set.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};

use crate::signals::block_and_open;

/// The status of a program that ended by SIGINT, by convention of shells.
const INTERRUPTED: i32 = 130;

/// From now on SIGINT, SIGTERM and SIGHUP set the flag, and the program should then end by itself.
/// The second signal ends it at once. Call this before any other thread is started.
///
/// # Errors
/// If the host refuses a descriptor or a thread.
pub fn note_interrupts() -> io::Result<Arc<AtomicBool>> {
    let fd = block_and_open(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])?;
    let flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        loop {
            let _ = poll(&mut [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)], None);
            if rustix::io::read(&fd, &mut info).is_ok() && raised.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED);
            }
        }
    })?;
    Ok(flag)
}
