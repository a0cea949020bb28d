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

/// The end of a [`promise`] that another thread keeps.
pub struct Promised<T> {
    shared: Arc<Shared<T>>,
    is_kept: bool,
}

impl<T> Promised<T> {
    /// Hands the result over.
    pub fn keep(mut self, value: T) {
        self.hand_over(Ok(value));
    }

    fn hand_over(&mut self, outcome: Outcome<T>) {
        self.is_kept = true;
        *self.shared.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        let _ = rustix::io::write(&*self.shared.bell, &1u64.to_ne_bytes());
    }
}

impl<T> Drop for Promised<T> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.hand_over(Err(WorkPanicked("it gave its promise up".into())));
        }
    }
}

/// A result that another thread will have: what that thread is given, and what the host awaits. A thread that drops
/// its end instead of keeping the promise has panicked.
///
/// # Errors
/// If the host refuses a descriptor.
pub fn promise<T: Send + 'static>(
    host: &Host,
) -> io::Result<(Promised<T>, impl Future<Output = Result<T, WorkPanicked>> + use<T>)> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let shared = Arc::new(Shared { value: Mutex::new(None), bell: Arc::new(bell) });
    let (sender, receiver) = oneshot();
    let sender = Cell::new(Some(sender));
    let watched = Rc::new(rustix::io::dup(&shared.bell)?);
    let watch = host.watch(watched, Rc::new(Waiting { shared: Arc::clone(&shared), sender }))?;
    let result = async move {
        let value = receiver.await;
        drop(watch);
        value
    };
    Ok((Promised { shared, is_kept: false }, result))
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
    let (mut promised, result) = promise(host)?;
    std::thread::Builder::new().name("offload".into()).spawn(move || {
        // Nothing that the work has touched is used after a panic but what it shares with others, and
        // they take locks that were poisoned as they are.
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(value) => promised.keep(value),
            Err(payload) => promised.hand_over(Err(WorkPanicked::of(&*payload))),
        }
    })?;
    Ok(result)
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

    #[test]
    fn a_promise_that_is_given_up_is_an_error() {
        let host = Host::start(HostOptions::default()).unwrap();
        let (promised, result) = promise::<u32>(&host).unwrap();
        std::thread::spawn(move || drop(promised));
        host.rt().block_on(result).unwrap().unwrap_err();
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
