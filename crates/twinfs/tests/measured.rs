//! `twinfs compare --on DIR`: a workload measured in a directory, which needs no rights.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

const WORKLOAD: [&str; 4] = ["-w", "zipf:writes=300,file-bytes=1048576", "--with", "size=64M"];

fn said(args: &[&str]) -> (bool, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_twinfs"))
        .arg("compare")
        .args(WORKLOAD)
        .args(args)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (out.status.success(), text(out.stdout), text(out.stderr))
}

fn place(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("on-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// The rows of a result, in whatever it is wrapped.
fn rows(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(rows) => rows.iter().collect(),
        Value::Object(fields) => fields.values().filter_map(Value::as_array).flatten().collect(),
        _ => Vec::new(),
    }
}

#[test]
fn a_directory_has_as_many_runs_as_were_wanted_and_a_row_with_the_names_of_simulated_ones() {
    let dir = place("json");
    let path = dir.to_str().unwrap();
    let (ok, out, err) = said(&["--on", path, "--runs", "3", "--json", "lfs", "ffs"]);
    assert!(ok, "{err}");
    let value: Value = serde_json::from_str(&out).unwrap();
    let all = rows(&value);
    let measured: Vec<_> = all.iter().filter(|row| row["measured"] == true).collect();
    let simulated = all.iter().find(|row| row["config"] == "lfs").unwrap();
    let [row] = measured[..] else { panic!("one place: {out}") };
    assert_eq!((row["on"].as_str(), &row["ops"]), (Some(path), &simulated["ops"]));
    let finish = row["spreads"][0]["values"].as_array().unwrap();
    assert_eq!((row["spreads"][0]["measure"].as_str(), finish.len()), (Some("finish"), 3));
    assert!(
        row["finish_s"].as_f64().unwrap() > 0.0 && row["latency"]["p99_us"].as_f64().unwrap() > 0.0
    );
    let left = std::fs::read_dir(&dir).unwrap().count();
    assert_eq!(left, 0, "what was made is removed");
}

#[test]
fn the_verdict_is_on_what_was_measured_before_it_is_on_what_was_simulated() {
    let (one, other) = (place("one"), place("other"));
    let places = format!("{},{}", one.display(), other.display());
    let (ok, out, err) = said(&["--on", &places, "--runs", "2", "lfs", "ffs"]);
    assert!(ok, "{err}");
    let at = |word: &str| out.find(word).unwrap_or_else(|| panic!("no {word}: {out}"));
    assert!(at("Measured on this machine (medians of 2 runs in turn") < at("Simulated: "), "{out}");
    assert!(at("measured on") > at("configuration"), "the table of what was measured: {out}");
}

#[test]
fn runs_without_places_are_refused() {
    let (ok, _, err) = said(&["--runs", "2", "lfs"]);
    assert!(!ok && err.contains("--on"), "{err}");
}
