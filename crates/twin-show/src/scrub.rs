//! What a scrub has found: `twinfs scrub`.

use serde_json::{Value, json};
use twin_settings::value::bytes_for_people;

/// A row for each flaw, and one with the figures of the scrub, each of its kind.
pub fn rows(flaws: &[Value], figures: &Value) -> Vec<Value> {
    let flaws = flaws.iter().map(|flaw| with_kind("flaw", flaw));
    flaws.chain([with_kind("scrub", figures)]).collect()
}

fn with_kind(kind: &str, row: &Value) -> Value {
    let mut all = json!({ "kind": kind });
    if let (Some(all), Some(row)) = (all.as_object_mut(), row.as_object()) {
        all.extend(row.clone());
    }
    all
}

/// The same in lines for people.
pub fn in_words(flaws: &[Value], figures: &Value) -> String {
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
    let mut lines: Vec<String> = flaws.iter().map(flaw_in_words).collect();
    let (read, skipped) = (number(figures, "read_bytes"), number(figures, "skipped"));
    lines.push(format!("{} read, {} inodes", bytes_for_people(read), number(figures, "inodes")));
    let uncompared = number(figures, "uncompared_bytes");
    if uncompared > 0 {
        let size = bytes_for_people(uncompared);
        lines
            .push(format!("{size} could be read; this layout has no checksums to compare it with"));
    }
    if skipped > 0 {
        lines.push(format!("{skipped} things were left out: they were being written"));
    }
    lines.push(match number(figures, "flaws") {
        0 => "no flaw".into(),
        count if count > flaws.len() as u64 => {
            format!("{count} flaws, of which the first {} are shown", flaws.len())
        }
        1 => "1 flaw".into(),
        count => format!("{count} flaws"),
    });
    lines.join("\n")
}

fn flaw_in_words(flaw: &Value) -> String {
    let number = |name: &str| flaw[name].as_u64();
    let whose = match (flaw["path"].as_str(), number("ino")) {
        (Some(path), _) => path.to_owned(),
        (None, Some(ino)) => format!("inode {ino}"),
        (None, None) => "the volume".into(),
    };
    let length = number("length").unwrap_or_default();
    let place = match number("offset") {
        Some(offset) => format!(", bytes {offset} to {}", offset + length.max(1) - 1),
        None => String::new(),
    };
    let what = flaw["what"].as_str().unwrap_or_default();
    let at = number("device_byte").unwrap_or_default();
    format!("{whose}{place}: {what} ({length} bytes at byte {at} of the device)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flaw_is_shown_with_its_path_its_place_and_what_it_is() {
        let mut flaw = json!({
            "path": "/a/b", "ino": 7, "offset": 8192, "length": 4096,
            "what": "block 2 does not match its checksum", "device_byte": 65536,
        });
        let text = "/a/b, bytes 8192 to 12287: block 2 does not match its checksum (4096 bytes at \
                    byte 65536 of the device)";
        assert_eq!(flaw_in_words(&flaw), text);
        flaw["path"] = Value::Null;
        assert!(flaw_in_words(&flaw).starts_with("inode 7, bytes"));
        let structure = json!({ "what": "an old one", "length": 512, "device_byte": 4096 });
        let text = "the volume: an old one (512 bytes at byte 4096 of the device)";
        assert_eq!(flaw_in_words(&structure), text);
    }

    #[test]
    fn flaws_that_are_not_listed_are_counted() {
        let figures = json!({ "read_bytes": 5, "inodes": 2, "skipped": 0, "flaws": 0 });
        assert_eq!(in_words(&[], &figures), "5 bytes read, 2 inodes\nno flaw");
        let many = json!({ "read_bytes": 5, "inodes": 2, "skipped": 1, "flaws": 20_000 });
        assert!(in_words(&[], &many).ends_with("20000 flaws, of which the first 0 are shown"));
    }
}
