//! Rows as a Parquet file, by the crate `parquet`.
//!
//! Contract: columns are those of comma-separated values, under the same names and in the same order. A column whose
//! values are all whole numbers is INT64, one of numbers DOUBLE, of truth values BOOLEAN, any other text in UTF-8; all may
//! be null, and a member that a row lacks is. A column without any value is of nulls. Pages are not compressed, because
//! every reader reads such. The rows are gone through twice, and those of one row group are held.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;

use crate::rows::{Columns, Each, text_of};

/// The name of the schema in the file.
const SCHEMA_NAME: &str = "rows";
/// The most rows of a group.
const GROUP: usize = 1 << 16;

/// What all values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// There are none.
    Nothing,
    Whole,
    Number,
    Truth,
    Text,
}

/// A column: its name, and what its values are.
struct Column<'a> {
    name: &'a str,
    kind: Kind,
}

/// The rows as the bytes of a file.
///
/// # Errors
/// If a name cannot be that of a column.
pub(crate) fn file(each: Each<'_>) -> Result<Vec<u8>, ParquetError> {
    let (mut columns, mut kinds) = (Columns::default(), Vec::new());
    each(&mut |row| {
        let cells = columns.cells(row);
        kinds.resize(cells.len(), Kind::Nothing);
        let known = cells.iter().zip(&mut kinds).filter(|(value, _)| !value.is_null());
        known.for_each(|(value, kind)| *kind = kind.with(value));
    });
    let names = columns.names().to_vec();
    let described = names.iter().zip(&kinds);
    let described: Vec<Column<'_>> = described.map(|(name, &kind)| Column { name, kind }).collect();
    let fields = described.iter().map(Column::field).collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder(SCHEMA_NAME).with_fields(fields).build()?;
    let created = concat!("twinfs ", env!("CARGO_PKG_VERSION")).to_string();
    let properties = WriterProperties::builder().set_created_by(created).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut held: Vec<Vec<Value>> = Vec::new();
    let mut outcome = Ok(());
    each(&mut |row| {
        held.push(columns.cells(row));
        if held.len() == GROUP && outcome.is_ok() {
            outcome = write_group(&mut writer, &described, &held);
            held.clear();
        }
    });
    outcome?;
    if !held.is_empty() {
        write_group(&mut writer, &described, &held)?;
    }
    writer.into_inner()
}

fn write_group(
    writer: &mut SerializedFileWriter<Vec<u8>>,
    columns: &[Column<'_>],
    rows: &[Vec<Value>],
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    let mut at = 0;
    while let Some(mut to) = group.next_column()? {
        if let Some(column) = columns.get(at) {
            let values = rows.iter().map(|row| row.get(at).filter(|value| !value.is_null()));
            let values: Vec<Option<&Value>> = values.collect();
            column.write(&values, to.untyped())?;
        }
        to.close()?;
        at += 1;
    }
    group.close()?;
    Ok(())
}

impl Column<'_> {
    fn field(&self) -> Result<Arc<Type>, ParquetError> {
        let (physical, logical) = match self.kind {
            Kind::Nothing => (Physical::INT32, Some(LogicalType::Unknown)),
            Kind::Whole => (Physical::INT64, None),
            Kind::Number => (Physical::DOUBLE, None),
            Kind::Truth => (Physical::BOOLEAN, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(self.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        Ok(Arc::new(field.build()?))
    }

    fn write(
        &self,
        values: &[Option<&Value>],
        to: &mut ColumnWriter<'_>,
    ) -> Result<(), ParquetError> {
        let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
        let there = || values.iter().flatten();
        let levels = Some(&levels[..]);
        match to {
            ColumnWriter::BoolColumnWriter(to) => {
                let all: Vec<bool> = there().filter_map(|value| value.as_bool()).collect();
                to.write_batch(&all, levels, None)?
            }
            ColumnWriter::Int32ColumnWriter(to) => to.write_batch(&[], levels, None)?,
            ColumnWriter::Int64ColumnWriter(to) => {
                let all: Vec<i64> = there().filter_map(|value| value.as_i64()).collect();
                to.write_batch(&all, levels, None)?
            }
            ColumnWriter::DoubleColumnWriter(to) => {
                let all: Vec<f64> = there().filter_map(|value| value.as_f64()).collect();
                to.write_batch(&all, levels, None)?
            }
            ColumnWriter::ByteArrayColumnWriter(to) => {
                let text = |value: &&Value| ByteArray::from(text_of(value).as_str());
                let all: Vec<ByteArray> = there().map(text).collect();
                to.write_batch(&all, levels, None)?
            }
            // No field has another type.
            _ => 0,
        };
        Ok(())
    }
}

impl Kind {
    /// That of values with one more.
    fn with(self, value: &Value) -> Kind {
        let own = match value {
            Value::Bool(_) => Kind::Truth,
            Value::Number(number) if number.as_i64().is_some() => Kind::Whole,
            Value::Number(_) => Kind::Number,
            _ => Kind::Text,
        };
        match (self, own) {
            (Kind::Nothing, own) => own,
            (before, own) if before == own => own,
            (Kind::Whole | Kind::Number, Kind::Whole | Kind::Number) => Kind::Number,
            _ => Kind::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use serde_json::json;

    /// The rows of a file, in words, and its columns.
    fn read(rows: &[Value]) -> (Vec<String>, Vec<(String, Physical)>) {
        let bytes: bytes::Bytes = file(&|visit| rows.iter().for_each(visit)).unwrap().into();
        let reader = SerializedFileReader::new(bytes).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr();
        let columns = schema.columns().iter();
        let columns = columns.map(|column| (column.name().to_owned(), column.physical_type()));
        let columns = columns.collect();
        let rows = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string());
        (rows.collect(), columns)
    }

    #[test]
    fn columns_have_the_types_of_their_values_and_what_is_missing_is_null() {
        let (rows, columns) = read(&[
            json!({ "config": "lfs", "seed": 1, "finish_s": 2, "latency": { "p99_us": 1.5 }, "ok": true }),
            json!({ "config": "ffs", "seed": 2, "finish_s": 2.5, "error": null, "more": "x" }),
        ]);
        let expected = [
            ("config", Physical::BYTE_ARRAY),
            ("seed", Physical::INT64),
            ("finish_s", Physical::DOUBLE),
            ("latency_p99_us", Physical::DOUBLE),
            ("ok", Physical::BOOLEAN),
            ("error", Physical::INT32),
            ("more", Physical::BYTE_ARRAY),
        ];
        assert_eq!(columns, expected.map(|(name, kind)| (name.to_owned(), kind)));
        assert!(
            rows[0].contains("config: \"lfs\"") && rows[0].contains("finish_s: 2.0"),
            "{rows:?}"
        );
        assert!(rows[1].contains("ok: null") && rows[1].contains("more: \"x\""), "{rows:?}");
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn values_of_several_kinds_are_text_as_in_comma_separated_values() {
        let (rows, _) = read(&[json!({ "a": 1 }), json!({ "a": "b" }), json!({ "a": false })]);
        assert!(rows[0].contains("\"1\"") && rows[2].contains("\"false\""), "{rows:?}");
        let large = json!({ "a": u64::MAX });
        assert_eq!(read(&[large]).1[0].1, Physical::DOUBLE);
    }

    #[test]
    fn no_rows_are_a_file_too() {
        assert!(file(&|_| ()).unwrap().starts_with(b"PAR1"));
    }

    #[test]
    fn rows_of_several_groups_are_all_there_and_a_column_may_begin_late() {
        let rows: Vec<Value> = (0..GROUP + 2).map(|n| json!({ "a": n })).collect();
        let rows: Vec<Value> = rows.into_iter().chain([json!({ "a": 1, "late": "x" })]).collect();
        let (read, columns) = read(&rows);
        assert_eq!((read.len(), columns.len()), (GROUP + 3, 2));
        assert!(read[GROUP].contains(&format!("a: {GROUP}, late: null")), "{}", read[GROUP]);
        assert!(read[GROUP + 2].contains("late: \"x\""), "{}", read[GROUP + 2]);
    }
}
