//! Operations in flight: futures in reusable slots, each with its own waker.
//!
//! Starting an operation allocates nothing once its slot exists, and polls the operation at once:
//! an operation that need not wait is finished within [`Flights::start`].

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Slots that were woken, and the waker of their owner. Wakers must be `Send` by their contract,
/// hence the mutex; all of this runs on one thread.
#[derive(Default)]
struct Woken {
    slots: VecDeque<u32>,
    waiter: Option<Waker>,
}

struct SlotWake {
    slot: u32,
    queued: AtomicBool,
    woken: Arc<Mutex<Woken>>,
}

fn lock(woken: &Mutex<Woken>) -> MutexGuard<'_, Woken> {
    woken.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wake for SlotWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let waiter = {
            let mut woken = lock(&self.woken);
            woken.slots.push_back(self.slot);
            woken.waiter.take()
        };
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

struct Slot<Fut> {
    future: Pin<Box<Option<Fut>>>,
    wake: Arc<SlotWake>,
    waker: Waker,
    /// The owner's index of the operation.
    op: u32,
}

/// The operations that are being executed, each with its future.
pub(super) struct Flights<Fut> {
    slots: Vec<Slot<Fut>>,
    free: Vec<u32>,
    woken: Arc<Mutex<Woken>>,
}

impl<Fut: Future> Flights<Fut> {
    pub(super) fn new() -> Self {
        Flights { slots: Vec::new(), free: Vec::new(), woken: Arc::default() }
    }

    /// Number of operations in flight.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Starts an operation; returns its result if it ended at once.
    #[inline]
    pub(super) fn start(&mut self, op: u32, begin: impl FnOnce() -> Fut) -> Option<Fut::Output> {
        let index = self.free.pop().unwrap_or_else(|| self.new_slot());
        let slot = &mut self.slots[index as usize];
        slot.op = op;
        slot.future.set(Some(begin()));
        self.poll(index).map(|(_, output)| output)
    }

    fn new_slot(&mut self) -> u32 {
        let slot = self.slots.len() as u32;
        let (queued, woken) = (AtomicBool::new(false), Arc::clone(&self.woken));
        let wake = Arc::new(SlotWake { slot, queued, woken });
        let waker = Waker::from(Arc::clone(&wake));
        self.slots.push(Slot { future: Box::pin(None), wake, waker, op: 0 });
        slot
    }

    fn poll(&mut self, index: u32) -> Option<(u32, Fut::Output)> {
        let slot = &mut self.slots[index as usize];
        // A slot may have been woken for an earlier operation that has ended since.
        let future = slot.future.as_mut().as_pin_mut()?;
        match future.poll(&mut Context::from_waker(&slot.waker)) {
            Poll::Pending => None,
            Poll::Ready(output) => {
                slot.future.set(None);
                self.free.push(index);
                Some((slot.op, output))
            }
        }
    }

    /// Polls operations that were woken until one of them ends; returns its index and its result.
    /// `None` if no woken operation is left; `waker` is then woken when there is one again.
    pub(super) fn next_done(&mut self, waker: Option<&Waker>) -> Option<(u32, Fut::Output)> {
        loop {
            let index = {
                let mut woken = lock(&self.woken);
                match woken.slots.pop_front() {
                    Some(index) => index,
                    None => {
                        woken.waiter = waker.cloned();
                        return None;
                    }
                }
            };
            self.slots[index as usize].wake.queued.store(false, Ordering::Release);
            if let Some(done) = self.poll(index) {
                return Some(done);
            }
        }
    }
}
