//! Policies written in Python: classes whose objects answer the hooks of a registry's policies.
//!
//! Contract: a class is added to the registry of its kind under a name, which every configuration can use from then
//! on in this process; the simulator makes an object of it for each run. Hooks are called with Python's lock, from the
//! threads of the simulator. An exception ends nothing at once: the first one is kept, the policy does something plain
//! from then on, and the call of the command fails with it at its end. An answer that makes no sense is such an exception.
//!
//! Mounts do not come here: their daemon is a process without Python.

mod cleaning;
mod flush;
mod hooks;
mod queue;
mod replacement;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use twin_settings::SettingsError;

pub(crate) use hooks::take_exception;

/// Adds a class to the registry of a kind of policies.
#[pyfunction]
pub(crate) fn add_policy(
    py: Python<'_>,
    kind: &str,
    name: &str,
    about: &str,
    class: Py<PyAny>,
) -> PyResult<()> {
    let added = match kind {
        "replacement" => replacement::add(name, about, class),
        "victim" => cleaning::add_victim(name, about, class),
        "placement" => cleaning::add_placement(py, name, about, class)?,
        "trigger" => cleaning::add_trigger(name, about, class),
        "flush" => flush::add(name, about, class),
        "queue" => queue::add(name, about, class),
        _ => {
            return Err(PyValueError::new_err(format!(
                "{kind:?}: the kinds of policies are replacement, flush, victim, placement, trigger and queue"
            )));
        }
    };
    added.map_err(|error: SettingsError| PyValueError::new_err(error.to_string()))
}
