//! Signals for programs without a runtime: a function that is called.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};

use crate::signals::{block_and_open, is_ignored, long_files_are_errors, usual_children};

/// From now on SIGINT, SIGTERM and, unless `nohup` asked to ignore it, SIGHUP call `handler` with their
/// number, each on a thread of its own,
/// and do nothing else: what ends the program is the handler's business. Processes that are started
/// later do not get these signals either. Call this before any other thread is started.
///
/// # Errors
/// If the host refuses a descriptor or a thread.
pub fn on_interrupt(handler: impl Fn(i32) + Send + Sync + 'static) -> io::Result<()> {
    usual_children();
    long_files_are_errors();
    let mut signals = vec![libc::SIGTERM, libc::SIGINT];
    signals.extend(Some(libc::SIGHUP).filter(|&signal| !is_ignored(signal)));
    let fd = block_and_open(&signals)?;
    let handler = Arc::new(handler);
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        loop {
            let _ = poll(&mut [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)], None);
            if rustix::io::read(&fd, &mut info).is_ok() {
                // The number is the first field, ssi_signo.
                let [a, b, c, d, ..] = info;
                let (number, handler) = (i32::from_ne_bytes([a, b, c, d]), Arc::clone(&handler));
                let call = move || handler(number);
                if std::thread::Builder::new().spawn(call).is_err() {
                    // Nothing else can be done for who wants the program to end.
                    std::process::exit(128 + number);
                }
            }
        }
    })?;
    Ok(())
}
