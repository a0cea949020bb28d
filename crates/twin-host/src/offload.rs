//! Runs work that would block the core's thread on a thread of its own.
#![allow(clippy::disallowed_methods)] // Starting a thread is what this file is for.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use twin_rt::{Sender, oneshot};

use crate::host::{Host, Source};

struct Shared<T> {
    value: Mutex<Option<T>>,
    bell: Arc<OwnedFd>,
}

struct Waiting<T> {
    shared: Arc<Shared<T>>,
    sender: RefCell<Option<Sender<T>>>,
}

impl<T> Source for Waiting<T> {
    fn take_event(&self) -> bool {
        let value = self.shared.value.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(value) = value else { return false };
        if let Some(sender) = self.sender.borrow_mut().take() {
            sender.send(value);
        }
        true
    }
}

/// Runs `work` on a thread of its own; await the result. For calls that may take long or that this
/// same process may have to serve, for example unmounting. The work runs even if the result is not
/// awaited.
///
/// # Errors
/// If the host refuses a thread or a descriptor.
pub fn offload<T, W>(host: &Host, work: W) -> io::Result<impl Future<Output = T> + use<T, W>>
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let shared = Arc::new(Shared { value: Mutex::new(None), bell: Arc::new(bell) });
    let (sender, receiver) = oneshot();
    let sender = RefCell::new(Some(sender));
    let watched = Rc::new(rustix::io::dup(&shared.bell)?);
    let watch = host.watch(watched, Rc::new(Waiting { shared: Arc::clone(&shared), sender }))?;
    std::thread::Builder::new().name("offload".into()).spawn(move || {
        let value = work();
        *shared.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        let _ = rustix::io::write(&*shared.bell, &1u64.to_ne_bytes());
    })?;
    Ok(async move {
        let value = receiver.await;
        drop(watch);
        value
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostOptions;

    #[test]
    fn the_result_of_offloaded_work_comes_back() {
        for io_uring in [true, false] {
            let host = Host::start(HostOptions { io_uring, ..HostOptions::default() }).unwrap();
            let work = || {
                std::thread::sleep(std::time::Duration::from_millis(5));
                42
            };
            let answer = offload(&host, work).unwrap();
            assert_eq!(host.rt().block_on(answer), Ok(42));
        }
    }
}
