//! Operations under way: a future that does not depend on the layout and whose memory is reused.
//!
//! Contract: [`Execution`] runs a request on a volume. It calls the code of the operation through a
//! pointer that is made together with the volume ([`Runners::new`], in the crate of the layout).
//! Therefore that code, the largest of the project, is compiled once and not in every program that
//! uses a volume. The future of an operation lies in a slot that a later operation reuses: once
//! there are as many slots as operations are under way at a time, an operation allocates nothing
//! here.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use twin_rt::BoxFuture;

use crate::{Reply, Request, Result};

/// The most idle slots to keep; a slot takes a few kilobytes.
const KEPT: usize = 64;

/// Memory for the future of one operation.
trait Slot {
    /// Makes the future for a request. The slot must be empty.
    fn begin(&mut self, request: Request);
    /// Polls the future.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Reply>>;
    /// Drops the future, whether or not it has ended.
    fn clear(&mut self);
}

/// A slot for the futures that `make` makes.
struct Place<M, F> {
    make: M,
    future: Pin<Box<Option<F>>>,
}

impl<M: Fn(Request) -> F, F: Future<Output = Result<Reply>>> Slot for Place<M, F> {
    fn begin(&mut self, request: Request) {
        let future = (self.make)(request);
        self.future.set(Some(future));
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Reply>> {
        match self.future.as_mut().as_pin_mut() {
            Some(future) => future.poll(context),
            None => unreachable!("a slot is polled between its begin and its clear"),
        }
    }

    fn clear(&mut self) {
        self.future.set(None);
    }
}

/// The idle slots of a volume, and the function that makes more.
pub(crate) struct Runners {
    idle: RefCell<Vec<Box<dyn Slot>>>,
    more: Box<dyn Fn() -> Box<dyn Slot>>,
    close: Box<dyn Fn() -> BoxFuture<'static, Result<()>>>,
}

impl Runners {
    /// Runners for the volume that `volume` will lead to once it is made; `run` executes one
    /// request and `close` closes the volume. The functions are type parameters, because with
    /// pointers to functions the future of each operation, some kilobytes, would be copied into its
    /// slot.
    pub(crate) fn new<V: 'static, R, C>(
        volume: &Weak<V>,
        run: impl Fn(Rc<V>, Request) -> R + Copy + 'static,
        close: impl Fn(Rc<V>) -> C + 'static,
    ) -> Runners
    where
        R: Future<Output = Result<Reply>> + 'static,
        C: Future<Output = Result<()>> + 'static,
    {
        let closed = Weak::clone(volume);
        let close = move || -> BoxFuture<'static, Result<()>> { Box::pin(close(held(&closed))) };
        let volume = Weak::clone(volume);
        let more = move || -> Box<dyn Slot> {
            let volume = Weak::clone(&volume);
            let make = move |request| run(held(&volume), request);
            Box::new(Place { make, future: Box::pin(None) })
        };
        Runners { idle: RefCell::default(), more: Box::new(more), close: Box::new(close) }
    }

    /// Closes the volume.
    pub(crate) fn close(&self) -> BoxFuture<'static, Result<()>> {
        (self.close)()
    }

    fn take(&self, request: Request) -> Box<dyn Slot> {
        let idle = self.idle.borrow_mut().pop();
        let mut slot = idle.unwrap_or_else(|| (self.more)());
        slot.begin(request);
        slot
    }

    fn give_back(&self, mut slot: Box<dyn Slot>) {
        slot.clear();
        let mut idle = self.idle.borrow_mut();
        if idle.len() < KEPT {
            idle.push(slot);
        }
    }
}

/// The volume behind a weak reference. The caller of each operation holds the volume, so it exists.
fn held<V>(volume: &Weak<V>) -> Rc<V> {
    match volume.upgrade() {
        Some(volume) => volume,
        None => unreachable!("a volume is held while its functions are called"),
    }
}

/// A request that is being executed. Nothing happens before the first poll.
pub struct Execution<'a> {
    runners: &'a Runners,
    request: Option<Request>,
    slot: Option<Box<dyn Slot>>,
}

impl<'a> Execution<'a> {
    pub(crate) fn new(runners: &'a Runners, request: Request) -> Execution<'a> {
        Execution { runners, request: Some(request), slot: None }
    }
}

impl Future for Execution<'_> {
    type Output = Result<Reply>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Reply>> {
        if let Some(request) = self.request.take() {
            self.slot = Some(self.runners.take(request));
        }
        match &mut self.slot {
            Some(slot) => slot.poll(context),
            None => unreachable!("polled after it was ready"),
        }
    }
}

impl Drop for Execution<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.runners.give_back(slot);
        }
    }
}
