//! Calls of hooks, and what becomes of their exceptions.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use twin_settings::outside::report_fault;

/// The first exception of a hook, for the call whose command fails with it.
static EXCEPTION: Mutex<Option<PyErr>> = Mutex::new(None);

fn exception() -> std::sync::MutexGuard<'static, Option<PyErr>> {
    EXCEPTION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The exception of a hook since the last time.
pub(crate) fn take_exception() -> Option<PyErr> {
    exception().take()
}

/// Keeps what Python knows of this thread for as long as a policy lives, so that a hook has only to take the lock:
/// to make that anew for each hook costs ten times as much.
struct Pinned(ffi::PyGILState_STATE);

impl Pinned {
    fn new(_attached: Python<'_>) -> Pinned {
        // SAFETY: this thread is attached, so Python counts one user of its state more, and the lock stays as it is.
        Pinned(unsafe { ffi::PyGILState_Ensure() })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let state = self.0;
        // SAFETY: policies stay on the thread that made them, so this is the state that `new` counted; and the thread
        // is attached again, as it was then.
        Python::attach(|_| unsafe { ffi::PyGILState_Release(state) });
    }
}

/// An object with hooks.
pub(super) struct Hooks {
    // Dropped before `pinned`, whose thread it needs.
    object: Option<Py<PyAny>>,
    policy: String,
    has_failed: Cell<bool>,
    _pinned: Pinned,
}

/// One of its hooks; none if the class does not have it.
pub(super) struct Hook(Option<Py<PyAny>>);

impl Hooks {
    /// A new object of a class, made with these arguments.
    pub(super) fn make<'py>(
        policy: &str,
        class: &Py<PyAny>,
        py: Python<'py>,
        arguments: impl PyCallArgs<'py>,
    ) -> Hooks {
        let has_failed = Cell::new(false);
        let hooks =
            Hooks { object: None, policy: policy.into(), has_failed, _pinned: Pinned::new(py) };
        match class.bind(py).call1(arguments) {
            Ok(object) => Hooks { object: Some(object.unbind()), ..hooks },
            Err(error) => {
                hooks.fail(py, error);
                hooks
            }
        }
    }

    /// A hook of the object.
    pub(super) fn hook(&self, py: Python<'_>, name: &str) -> Hook {
        let object = self.object.as_ref().map(|object| object.bind(py));
        Hook(object.and_then(|object| object.getattr(name).ok()).map(Bound::unbind))
    }

    /// A hook that it must have.
    pub(super) fn needed(&self, py: Python<'_>, name: &str) -> Hook {
        let hook = self.hook(py, name);
        if hook.0.is_none() && self.object.is_some() {
            self.fail(py, PyValueError::new_err(format!("the class has no method {name}()")));
        }
        hook
    }

    /// True once a hook has failed: none is called any more.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.get()
    }

    /// Notes that a hook failed.
    pub(super) fn fail(&self, py: Python<'_>, error: PyErr) {
        if !self.has_failed.replace(true)
            && report_fault(&format!("policy {}: {}", self.policy, error.value(py)))
        {
            *exception() = Some(error);
        }
    }

    /// Notes that an answer makes no sense.
    pub(super) fn nonsense(&self, py: Python<'_>, why: String) {
        self.fail(py, PyValueError::new_err(format!("policy {}: {why}", self.policy)));
    }

    /// Calls a hook; `None` if there is none, or it failed.
    pub(super) fn call<'py>(
        &self,
        py: Python<'py>,
        hook: &Hook,
        arguments: impl PyCallArgs<'py>,
    ) -> Option<Bound<'py, PyAny>> {
        let method = hook.0.as_ref().filter(|_| !self.has_failed())?;
        match method.bind(py).call1(arguments) {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.fail(py, error);
                None
            }
        }
    }

    /// Seconds that a hook wants to wait, as nanoseconds, which are more than none: time must go on.
    pub(super) fn wait_ns(&self, py: Python<'_>, what: &str, wait_s: f64) -> Option<u64> {
        if wait_s.is_nan() {
            self.nonsense(py, format!("{what}() returned a time that is no number"));
            return None;
        }
        Some((wait_s.clamp(1e-3, 1e6) * 1e9) as u64)
    }

    /// The value of an answer, which is of this type, or `None` if the answer is None.
    pub(super) fn value<'py, T: FromPyObjectOwned<'py>>(
        &self,
        answer: Bound<'py, PyAny>,
        what: &str,
    ) -> Option<T> {
        if answer.is_none() {
            return None;
        }
        match answer.extract::<T>() {
            Ok(value) => Some(value),
            Err(_) => {
                self.nonsense(answer.py(), format!("{what}() returned {answer}"));
                None
            }
        }
    }
}

impl Hook {
    /// Whether the class has it.
    pub(super) fn is_there(&self) -> bool {
        self.0.is_some()
    }
}
