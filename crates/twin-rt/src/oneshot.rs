//! A channel for one value, from one task or device to another, on one thread.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

enum Slot<T> {
    Empty,
    Waiting(Waker),
    Full(T),
    Gone,
}

/// The end that sends the value. If it is dropped without sending, the receiver waits for ever, as
/// for a device that has lost power. A sender that can fail must send an error instead.
pub struct Sender<T>(Rc<RefCell<Slot<T>>>);

/// The end that waits for the value. It may be awaited once.
pub struct Receiver<T>(Rc<RefCell<Slot<T>>>);

/// A connected pair of sender and receiver.
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Rc::new(RefCell::new(Slot::Empty));
    (Sender(Rc::clone(&slot)), Receiver(slot))
}

impl<T> Sender<T> {
    /// Sends the value and wakes the receiver. If the receiver was dropped, the value is dropped
    /// too.
    pub fn send(self, value: T) {
        let old = {
            let mut slot = self.0.borrow_mut();
            if matches!(*slot, Slot::Gone) {
                return;
            }
            std::mem::replace(&mut *slot, Slot::Full(value))
        };
        if let Slot::Waiting(waker) = old {
            waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// A receiver that already has its value.
    pub fn ready(value: T) -> Self {
        Receiver(Rc::new(RefCell::new(Slot::Full(value))))
    }
}

impl<T> Future for Receiver<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut slot = self.0.borrow_mut();
        match std::mem::replace(&mut *slot, Slot::Gone) {
            Slot::Full(value) => Poll::Ready(value),
            Slot::Empty | Slot::Waiting(_) => {
                *slot = Slot::Waiting(cx.waker().clone());
                Poll::Pending
            }
            Slot::Gone => panic!("a oneshot receiver was awaited again after it had its value"),
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        *self.0.borrow_mut() = Slot::Gone;
    }
}
