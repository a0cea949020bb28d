//! Dumps of structures as JSON.

use std::rc::Rc;

use serde_json::{Map, Value as Json, json};
use twin_disk::BlockDevice;
use twin_fs::dump::{Column, Fields, Problem, Request, Sink, StructureSelector, Value};
use twin_fs::{LayoutKind, Timestamp};
use twin_rt::{ClockOnly, Rt};
use twin_sim::Platter;

use super::setup::still;

/// The parts of a dump.
#[derive(Default)]
pub(crate) struct Parts(pub(crate) Vec<Json>);

impl Parts {
    /// The fields of the part with this name, or the first of a list of parts that has it.
    pub(crate) fn fields(&self, name: &str) -> Option<&Map<String, Json>> {
        self.0.iter().find(|part| part["name"] == name)?["fields"].as_object()
    }

    /// The rows of the table with this name.
    pub(crate) fn rows(&self, name: &str) -> impl Iterator<Item = &Vec<Json>> {
        let rows = self.0.iter().filter(move |part| part["name"] == name);
        rows.filter_map(|part| part["rows"].as_array()).flatten().filter_map(Json::as_array)
    }
}

/// Dumps a structure of what is on a platter.
pub(crate) fn dump(
    layout: &'static dyn LayoutKind,
    platter: &Platter,
    structure: &'static str,
    number: Option<u64>,
    unrecovered: bool,
) -> Result<Parts, String> {
    let rt = Rt::new(ClockOnly::default(), 1);
    let device: Rc<dyn BlockDevice> = Rc::new(still(&rt, platter.clone())?);
    let which = number.map_or(StructureSelector::All, StructureSelector::Number);
    let request = Request { structure, which, unrecovered };
    let mut parts = Parts::default();
    let dumped = rt.block_on(layout.dump(&rt, device, &request, &mut parts));
    rt.crash();
    dumped.map_err(|_| "the dump does not end".to_string())?.map_err(|why| why.to_string())?;
    Ok(parts)
}

impl Sink for Parts {
    fn fields(&mut self, name: &str, about: &str, fields: Fields) {
        self.0.push(json!({"name": name, "about": about, "fields": object(fields)}));
    }

    fn begin(&mut self, name: &str, about: &str, columns: &[Column]) {
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
        self.0.push(json!({"name": name, "about": about, "columns": names, "rows": []}));
    }

    fn row(&mut self, row: Vec<Value>) {
        let row: Json = row.into_iter().map(plain).collect();
        if let Some(rows) = self.0.last_mut().and_then(|part| part["rows"].as_array_mut()) {
            rows.push(row);
        }
    }

    fn end(&mut self) {}

    fn problem(&mut self, problem: Problem) {
        let found = json!({"problem": problem.to_string()});
        // A table may be open: the problem goes before it.
        let place = self.0.len().saturating_sub(1);
        self.0.insert(place, found);
    }
}

fn object(fields: Fields) -> Json {
    Json::Object(fields.into_iter().map(|(name, value)| (name.to_string(), plain(value))).collect())
}

fn plain(value: Value) -> Json {
    match value {
        Value::None => Json::Null,
        Value::Number(n) => json!(n),
        Value::Signed(n) => json!(n),
        Value::Hex(bits) => json!(format!("{bits:x}")),
        Value::Octal(n) => json!(format!("{n:o}")),
        Value::Flag(flag) => json!(flag),
        Value::Text(text) => json!(text),
        Value::Name(name) => json!(String::from_utf8_lossy(&name)),
        Value::Time(Timestamp { secs, nanos }) => json!(format!("{secs}.{nanos:09}")),
        Value::List(list) => list.into_iter().map(object).collect(),
    }
}
