//! Reports of commands as objects of Python.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use serde_json::Value;
use twin_report::Form;
use twin_report::rows::{self, Flat};

use crate::arrow;

/// What a command found: its answer in every form in which the command line writes it.
#[pyclass(frozen, module = "twinfs._twinfs")]
pub(crate) struct Report(pub(crate) twin_report::Report);

#[pymethods]
impl Report {
    /// What was measured.
    #[getter]
    fn title(&self) -> &str {
        self.0.title()
    }

    /// The answer in one to three sentences; empty if nothing was judged.
    #[getter]
    fn verdict(&self) -> &str {
        self.0.verdict_text()
    }

    /// Why it is not the whole answer; None if it is.
    #[getter]
    fn partial(&self) -> Option<&str> {
        self.0.missing()
    }

    /// As `--format json` prints it.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.write(Form::Json))
    }

    /// As `--format csv` prints it.
    fn csv(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.write(Form::Csv))
    }

    /// The page of `--html`.
    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.write(Form::Html))
    }

    /// The first part of the page, for documents that hold several.
    fn html_part(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.first_part())
    }

    /// As a terminal of `width` columns shows it.
    #[pyo3(signature = (width = None))]
    fn text(&self, py: Python<'_>, width: Option<u16>) -> String {
        py.detach(|| self.0.write(Form::Terminal(width)))
    }

    /// The rows.
    fn rows(&self) -> Rows {
        Rows(self.0.flat())
    }

    /// The report of a command that found nothing to report.
    #[staticmethod]
    fn empty(title: String) -> Report {
        Report(twin_report::Report::new(title))
    }
}

/// Rows as columns of single values.
#[pyclass(frozen, module = "twinfs._twinfs")]
pub(crate) struct Rows(Flat);

#[pymethods]
impl Rows {
    /// The rows of a text in JSON, an array of objects.
    #[staticmethod]
    fn of_json(text: &str) -> PyResult<Rows> {
        let rows: Vec<Value> =
            serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Rows(rows::flat(&rows)))
    }

    fn __len__(&self) -> usize {
        self.0.rows.len()
    }

    /// The values of each column, in the order of rows; None where a row has none.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (at, name) in self.0.names.iter().enumerate() {
            let cells = self.0.rows.iter().map(|row| object(py, &row[at]));
            columns.set_item(name, PyList::new(py, cells.collect::<PyResult<Vec<_>>>()?)?)?;
        }
        Ok(columns)
    }

    /// The rows, as the stream of Arrow's C interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Who wants other types converts what it gets, as the interface allows.
        let _ = requested_schema;
        arrow::stream(py, &self.0)
    }
}

/// A single value as an object.
fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Bool(flag) => flag.into_bound_py_any(py),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => whole.into_bound_py_any(py),
            (_, Some(whole)) => whole.into_bound_py_any(py),
            _ => number.as_f64().into_bound_py_any(py),
        },
        Value::String(text) => text.into_bound_py_any(py),
        Value::Null => Ok(py.None().into_bound(py)),
        other => other.to_string().into_bound_py_any(py),
    }
}
