//! Why a volume takes no more changes, and who has to hear of it.
//!
//! Contract: a volume stops once and for good, for the first reason that there is. Every event that is
//! waited for until room, a flush or a log write comes is notified then: a wait without an end is a
//! mount that cannot be unmounted.

use std::cell::RefCell;
use std::rc::Rc;

use twin_rt::Event;

use crate::FsError;

/// Hears why a volume stopped taking changes.
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
        let listener = self.listener.borrow_mut().take();
        if let Some(listener) = listener {
            listener(&error);
        }
    }

    pub(crate) fn wakes(&self, event: &Rc<Event>) {
        self.wakes.borrow_mut().push(Rc::clone(event));
    }

    pub(crate) fn tell(&self, listener: impl FnOnce(&FsError) + 'static) {
        match self.why() {
            Some(error) => listener(&error),
            None => *self.listener.borrow_mut() = Some(Box::new(listener)),
        }
    }

    pub(crate) fn why(&self) -> Option<FsError> {
        self.why.borrow().clone()
    }

    /// What an operation that wants to change the volume is told.
    pub(crate) fn check(&self) -> Result<(), FsError> {
        match &*self.why.borrow() {
            Some(FsError::Io(error)) => Err(FsError::Io(error.clone())),
            Some(_) => Err(FsError::ReadOnly),
            None => Ok(()),
        }
    }
}
