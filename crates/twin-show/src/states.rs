//! The states that a volume keeps, and what differs between two of them: `twinfs snapshot list` and `diff`.

use serde_json::{Value, json};
use twin_fs::snapshots::{Change, Difference};
use twin_rt::SECS;
use twin_settings::value::bytes_for_people;

use crate::dump::utc;

/// The states of a volume in lines for people, of the answer of a mount to the question for them.
pub fn in_words(answer: &Value) -> String {
    let mut text = String::from("kind      made (UTC)           live        name\n");
    for row in answer["states"].as_array().into_iter().flatten() {
        let word = |field: &str| row[field].as_str().unwrap_or_default();
        let number = |field: &str| row[field].as_u64().unwrap_or_default();
        let made = match word("kind") {
            "head" => "-".into(),
            _ => utc((number("made_ns") / SECS) as i64, 0)[..19].to_owned(),
        };
        let live = bytes_for_people(number("live_bytes"));
        text += &format!("{:<9} {:<20} {live:<11} {}\n", word("kind"), made, word("name"));
    }
    let held = bytes_for_people(answer["held_bytes"].as_u64().unwrap_or_default());
    text + &format!("held for snapshots and branches, beside what is live in the head: {held}")
}

/// What differs, a row and a line for people each.
pub fn differences(found: &[Difference]) -> (Vec<Value>, String) {
    if found.is_empty() {
        return (Vec::new(), "nothing differs".into());
    }
    let both = found.iter().map(|difference| {
        let path = String::from_utf8_lossy(&difference.path);
        let change = match difference.change {
            Change::Added => "added",
            Change::Removed => "removed",
            Change::Changed => "changed",
        };
        (json!({ "change": change, "path": path }), format!("{change:<8} {path}"))
    });
    let (rows, lines): (Vec<Value>, Vec<String>) = both.unzip();
    (rows, lines.join("\n"))
}
