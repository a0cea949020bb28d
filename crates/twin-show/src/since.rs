//! What a mount has done in a time: `twinfs stat --watch`.

use serde_json::{Value, json};
use twin_fs::write_cost;
use twin_settings::value::bytes_for_people;

/// What a mount has done between two answers to the question for its figures, as a row.
pub fn since(before: &Value, now: &Value) -> Value {
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
    let grown = |name: &str| number(now, name).saturating_sub(number(before, name));
    let (written, new) = (grown("written_bytes"), grown("new_data_bytes"));
    let read = grown("cleaner_read_bytes");
    json!({
        "seconds": grown("at_ns") as f64 / 1e9,
        "operations": grown("operations"),
        "device_requests": grown("device_requests"),
        "written_bytes": written,
        "new_data_bytes": new,
        "moved_bytes": grown("moved_bytes"),
        "cleaner_read_bytes": read,
        "write_cost": write_cost(written, read, new),
        "used_bytes": number(now, "used_bytes"),
        "capacity_bytes": number(now, "capacity_bytes"),
        "dirty_bytes": number(now, "dirty_bytes"),
        "device_queue": number(now, "device_queue"),
    })
}

/// The same as a line for people.
pub fn in_words(row: &Value) -> String {
    let seconds = row["seconds"].as_f64().unwrap_or(1.0).max(1e-9);
    let number = |name: &str| row[name].as_u64().unwrap_or_default();
    let rate = |name: &str| number(name) as f64 / seconds;
    let cost = row["write_cost"].as_f64().map_or("-".into(), |cost| format!("{cost:.2}"));
    let full = number("used_bytes") as f64 * 100.0 / number("capacity_bytes").max(1) as f64;
    format!(
        "{:>8.0} operations/s, {:>6.0} requests/s, {:>10}/s written, {:>10}/s new, write cost \
         {cost:>5}, {full:>5.1}% full, {:>10} dirty, {} in the queue",
        rate("operations"),
        rate("device_requests"),
        bytes_for_people(rate("written_bytes") as u64),
        bytes_for_people(rate("new_data_bytes") as u64),
        bytes_for_people(number("dirty_bytes")),
        number("device_queue"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_of_the_time_since_the_line_before() {
        let answer = |at_ns: u64, written: u64, new: u64, read: u64| {
            json!({ "at_ns": at_ns, "operations": at_ns / 1000, "written_bytes": written,
                    "new_data_bytes": new, "cleaner_read_bytes": read, "used_bytes": 50,
                    "capacity_bytes": 200 })
        };
        let row =
            since(&answer(1_000_000_000, 500, 400, 0), &answer(3_000_000_000, 1700, 1000, 300));
        assert_eq!(row["seconds"], 2.0);
        assert_eq!(row["write_cost"], 2.5);
        assert_eq!(row["written_bytes"], 1200);
        let text = in_words(&row);
        assert!(text.contains("1000000 operations/s") && text.contains(" 25.0% full"), "{text}");
        let idle = since(&answer(0, 5, 5, 0), &answer(1, 5, 5, 0));
        assert!(in_words(&idle).contains("write cost     -"), "{}", in_words(&idle));
    }
}
