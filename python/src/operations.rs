//! The operations of workloads, one row after the other.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use twin_trace::Paths;

/// The operations of a workload in order, each a dict with the columns of the format `path-operations` and `failed`.
// Sources are not for several threads.
#[pyclass(unsendable, module = "twinfs._twinfs")]
pub(crate) struct Operations(Paths);

#[pymethods]
impl Operations {
    /// A trace in any format that twinfs reads, or the text of a generator.
    #[new]
    #[pyo3(signature = (workload, format = None, seed = 1))]
    fn new(workload: &str, format: Option<&str>, seed: u64) -> PyResult<Operations> {
        let source = twinfs::operations(workload, format, seed);
        let source = source.map_err(|failure| PyValueError::new_err(failure.why))?;
        Ok(Operations(Paths::new(source)))
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let next =
            self.0.next_operation().map_err(|error| PyValueError::new_err(error.to_string()))?;
        let Some(of) = next else { return Ok(None) };
        let row = PyDict::new(py);
        row.set_item("op", of.op)?;
        row.set_item("path", of.path)?;
        row.set_item("to", of.to)?;
        row.set_item("offset", of.offset)?;
        row.set_item("length", of.length)?;
        row.set_item("at_s", of.at_ns as f64 / 1e9)?;
        row.set_item("client", of.client)?;
        row.set_item("failed", of.failed)?;
        Ok(Some(row))
    }

    /// How many operations so far have no row: lookups, attributes other than lengths, extended attributes.
    #[getter]
    fn left_out(&self) -> u64 {
        self.0.left_out()
    }
}
