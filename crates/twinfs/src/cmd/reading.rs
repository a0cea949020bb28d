//! What the reader of a trace used, left out and assumed, told in one way by every command.
//!
//! Contract: notes go to standard error, whatever the format of the output, and only where there is
//! something to say. In JSON every object has the same as a member `reading`; comma-separated values,
//! whose columns are those of the results, do not.

use serde_json::{Value, json};
use twin_trace::Reading;

/// Tells it of the input called `name`.
pub(crate) fn tell(name: impl std::fmt::Display, reading: &Reading) {
    for note in reading.notes() {
        twin_host::note!("twinfs: {name}: {note}");
    }
}

/// The same as a value; `None` if there is nothing to say.
fn value(reading: &Reading) -> Option<Value> {
    let left_out = reading.left_out().iter();
    let left_out: Vec<Value> = left_out
        .map(|left| json!({ "why": left.why, "count": left.count, "first": (left.first > 0).then_some(left.first) }))
        .collect();
    let assumed = reading.assumed().iter();
    let assumed: Vec<Value> =
        assumed.map(|assumed| json!({ "what": assumed.what, "count": assumed.count })).collect();
    reading.has_something_to_say().then(|| {
        json!({
            "unit": reading.unit,
            "used": reading.used(),
            "left_out": left_out,
            "assumed": assumed,
        })
    })
}

/// Adds it to an object of a result, if there is something to say.
pub(crate) fn add_to(object: &mut Value, reading: &Reading) {
    if let (Value::Object(members), Some(value)) = (object, value(reading)) {
        members.insert("reading".into(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_says_what_was_left_out_and_nothing_if_nothing_was() {
        let mut reading = Reading::default();
        reading.use_one();
        let mut object = json!({ "policy": "lru" });
        add_to(&mut object, &reading);
        assert_eq!(object, json!({ "policy": "lru" }));
        reading.leave_out(7, "with a wait");
        reading.assume_of(2, "files existed before");
        add_to(&mut object, &reading);
        let reading = json!({
            "unit": "line",
            "used": 1,
            "left_out": [{ "why": "with a wait", "count": 1, "first": 7 }],
            "assumed": [{ "what": "files existed before", "count": 2 }],
        });
        assert_eq!(object, json!({ "policy": "lru", "reading": reading }));
    }
}
