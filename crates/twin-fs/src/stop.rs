//! The state of a volume that takes no more changes, and who is told of it.
//!
//! Contract: a volume stops once and for good; the first reason counts. Every event on which a task
//! waits for room, a flush or a log write is notified then. None of these comes any more, and a
//! task that waits for ever keeps a mount from being unmounted.

use std::cell::RefCell;
use std::rc::Rc;

use twin_rt::Event;

use crate::FsError;

/// A function that is called with the reason when the volume stops.
type Listener = Box<dyn FnOnce(&FsError)>;

/// Whether a volume has stopped. See the module.
#[derive(Default)]
pub(crate) struct Stop {
    why: RefCell<Option<FsError>>,
    wakes: RefCell<Vec<Rc<Event>>>,
    listener: RefCell<Option<Listener>>,
}

impl Stop {
    pub(crate) fn stop(&self, error: FsError) {
        if self.why.borrow().is_some() {
            return;
        }
        *self.why.borrow_mut() = Some(error.clone());
        self.wakes.borrow().iter().for_each(|event| event.notify());
        // The borrow ends before the call, because the listener may ask the volume why it stopped.
        let listener = self.listener.borrow_mut().take();
        if let Some(listener) = listener {
            listener(&error);
        }
    }

    pub(crate) fn wakes(&self, event: &Rc<Event>) {
        self.wakes.borrow_mut().push(Rc::clone(event));
    }

    pub(crate) fn on_stop(&self, listener: impl FnOnce(&FsError) + 'static) {
        match self.why() {
            Some(error) => listener(&error),
            None => *self.listener.borrow_mut() = Some(Box::new(listener)),
        }
    }

    pub(crate) fn why(&self) -> Option<FsError> {
        self.why.borrow().clone()
    }

    /// The error for an operation that wants to change a stopped volume. The error of the device is
    /// passed on; every other reason becomes `ReadOnly`.
    pub(crate) fn check(&self) -> Result<(), FsError> {
        match &*self.why.borrow() {
            Some(FsError::Io(error)) => Err(FsError::Io(error.clone())),
            Some(_) => Err(FsError::ReadOnly),
            None => Ok(()),
        }
    }
}
