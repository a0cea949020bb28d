//! Rows as Arrow's stream of columns, which pandas, polars, DuckDB and pyarrow read without copying files about.
//!
//! Contract: a column has one type: truth values, whole numbers that fit into 64 bits with a sign, numbers, or text;
//! a column of which rows have several kinds is text, and one without any value has numbers, all of them missing. Names are
//! those of comma-separated values.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::{ArrowError, Field, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde_json::Value;
use twin_report::rows::Flat;

/// The name that the interface gives a capsule with a stream.
const STREAM: &std::ffi::CStr = c"arrow_array_stream";

/// The rows in a capsule, which who takes them empties.
pub(crate) fn stream<'py>(py: Python<'py>, rows: &Flat) -> PyResult<Bound<'py, PyCapsule>> {
    let batch = batch(rows).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let schema = batch.schema();
    let reader = RecordBatchIterator::new([Ok::<_, ArrowError>(batch)], schema);
    // Dropping the capsule releases the stream, unless it was moved out and marked so.
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
}

fn batch(rows: &Flat) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<ArrayRef> = (0..rows.names.len())
        .map(|at| {
            let cells: Vec<&Value> = rows.rows.iter().map(|row| &row[at]).collect();
            column(&cells)
        })
        .collect();
    let field =
        |(name, column): (&String, &ArrayRef)| Field::new(name, column.data_type().clone(), true);
    let fields: Vec<Field> = rows.names.iter().zip(&columns).map(field).collect();
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.rows.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
}

fn column(cells: &[&Value]) -> ArrayRef {
    let all = |is: fn(&Value) -> bool| cells.iter().all(|cell| cell.is_null() || is(cell));
    if all(Value::is_null) {
        return Arc::new(cells.iter().map(|cell| cell.as_f64()).collect::<Float64Array>());
    }
    if all(Value::is_boolean) {
        return Arc::new(cells.iter().map(|cell| cell.as_bool()).collect::<BooleanArray>());
    }
    if all(Value::is_i64) {
        return Arc::new(cells.iter().map(|cell| cell.as_i64()).collect::<Int64Array>());
    }
    if all(Value::is_number) {
        return Arc::new(cells.iter().map(|cell| cell.as_f64()).collect::<Float64Array>());
    }
    let text = |cell: &&Value| match cell {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    Arc::new(cells.iter().map(text).collect::<StringArray>())
}
