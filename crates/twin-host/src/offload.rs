//! Runs work that would block the core's thread on a thread of its own.
#![allow(clippy::disallowed_methods)] // Starting a thread is what this file is for.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use twin_rt::{Sender, oneshot};

use crate::host::{Host, Source};

/// Offloaded work panicked, which is a bug. The task that awaits it gets this error and goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkPanicked(String);

impl fmt::Display for WorkPanicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "work on a thread of its own panicked, which is a bug: {}", self.0)
    }
}

impl std::error::Error for WorkPanicked {}

impl WorkPanicked {
    fn of(payload: &(dyn Any + Send)) -> WorkPanicked {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        WorkPanicked(text.unwrap_or_default())
    }
}

type Outcome<T> = Result<T, WorkPanicked>;

struct Shared<T> {
    value: Mutex<Option<Outcome<T>>>,
    bell: Arc<OwnedFd>,
}

struct Waiting<T> {
    shared: Arc<Shared<T>>,
    sender: Cell<Option<Sender<Outcome<T>>>>,
}

impl<T> Source for Waiting<T> {
    fn take_event(&self) -> bool {
        let value = self.shared.value.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(value) = value else { return false };
        if let Some(sender) = self.sender.take() {
            sender.send(value);
        }
        true
    }
}

/// Runs `work` on a thread of its own; await the result, which is an error if the work panics. For calls that may take long or that this
/// same process may have to serve, for example unmounting. The work runs even if the result is not
/// awaited.
///
/// # Errors
/// If the host refuses a thread or a descriptor.
pub fn offload<T, W>(
    host: &Host,
    work: W,
) -> io::Result<impl Future<Output = Result<T, WorkPanicked>> + use<T, W>>
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let shared = Arc::new(Shared { value: Mutex::new(None), bell: Arc::new(bell) });
    let (sender, receiver) = oneshot();
    let sender = Cell::new(Some(sender));
    let watched = Rc::new(rustix::io::dup(&shared.bell)?);
    let watch = host.watch(watched, Rc::new(Waiting { shared: Arc::clone(&shared), sender }))?;
    std::thread::Builder::new().name("offload".into()).spawn(move || {
        // Nothing that the work has touched is used after a panic but what it shares with others, and
        // they take locks that were poisoned as they are.
        let value = catch_unwind(AssertUnwindSafe(work));
        let value = value.map_err(|payload| WorkPanicked::of(&*payload));
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
            assert_eq!(host.rt().block_on(answer).unwrap(), Ok(42));
        }
    }

    /// Such work never rang, so whoever awaited it waited for ever.
    #[test]
    fn work_that_panics_is_an_error_to_who_awaits_it() {
        let host = Host::start(HostOptions::default()).unwrap();
        let answer = offload(&host, || -> u32 { panic!("a bug in {}", "the work") }).unwrap();
        let told = host.rt().block_on(answer).unwrap().unwrap_err();
        assert_eq!(told, WorkPanicked("a bug in the work".into()));
    }
}
