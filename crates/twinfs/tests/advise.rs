//! `twinfs advise`: what it says can be typed, equal seeds say the same, and what the user fixes is kept.

// A signal is sent after some real time.
#![allow(clippy::disallowed_methods)]

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::{Place, text, twinfs};
use serde_json::Value;

/// Small writes that are synced, on a disk that rotates: short, and with many fsyncs.
const SYNCS: [&str; 9] = [
    "advise",
    "-w",
    "mail:messages=15",
    "--with",
    "size=64M,cache=2M",
    "--budget",
    "60",
    "--no-confirm",
    "--json",
];

fn answer(args: &[&str]) -> Value {
    let out = twinfs(args);
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn configs(answer: &Value) -> Vec<&str> {
    let rows = answer["rows"].as_array().unwrap().iter();
    rows.map(|row| row["config"].as_str().unwrap()).collect()
}

/// The row of the configuration that is advised.
fn advised(answer: &Value) -> &Value {
    let rows = answer["rows"].as_array().unwrap();
    let mut advised = rows.iter().filter(|row| row["advised"] == true);
    let (Some(one), None) = (advised.next(), advised.next()) else { panic!("one: {answer}") };
    one
}

#[test]
fn equal_seeds_say_the_same_and_what_is_fixed_is_kept() {
    let first = answer(&SYNCS);
    assert_eq!(first, answer(&SYNCS), "bit by bit");
    assert!(configs(&first).iter().all(|config| !config.contains("cache=")), "{first}");
    let rows = first["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["cache_bytes"] == 2 << 20), "{first}");
    assert!(rows.iter().all(|row| row["mount"].as_str().unwrap().contains("--cache 2M")));
    let verdict = first["verdict"].as_str().unwrap();
    assert!(verdict.contains("5 seeds that the search did not use"), "{verdict}");
    assert!((1..=3).contains(&verdict.lines().count()), "{verdict}");
    let details = &first["details"];
    assert!(details["runs"].as_u64().unwrap() <= 60, "{details}");
    assert_eq!(details["not_confirmed"], "--no-confirm");
}

#[test]
fn where_names_are_synced_one_by_one_that_ordering_is_not_advised() {
    let only =
        ["--space", "layout=ffs,ordering=sync", "--without", "replacement,alloc,block,flush"];
    let answer = answer(&[&SYNCS[..], &only].concat());
    let verdict = answer["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("Keep the default, ffs"), "{verdict}");
    assert!(!advised(&answer)["config"].as_str().unwrap().contains("sync"), "{answer}");
    assert!(configs(&answer).iter().any(|config| config.contains("ordering=sync")), "{answer}");
}

/// A planted answer: the bytes that a mount writes when it waits half a minute, in place of two seconds, for data
/// that is overwritten all the time.
#[test]
fn a_planted_configuration_is_found_and_its_price_is_said() {
    let place = Place::new("advise-planted");
    let load = place.path("load.toml");
    std::fs::write(&load, OVERWRITTEN).unwrap();
    let args = [
        "advise",
        "-w",
        &load,
        "--by",
        "written",
        "--with",
        "size=64M,layout=lfs",
        "--pace",
        "recorded",
        "--budget",
        "60",
        "--without",
        "replacement,victim,placement",
        "--no-confirm",
        "--json",
    ];
    let answer = answer(&args);
    let verdict = answer["verdict"].as_str().unwrap();
    let best = advised(&answer);
    let config = best["config"].as_str().unwrap();
    assert!(verdict.starts_with("Set lfs:") && config.contains("flush="), "{verdict}");
    assert!(best["default_over_this"].as_f64().unwrap() > 2.0, "{answer}");
    assert!(verdict.contains("a crash loses what the flush policy"), "{verdict}");
    assert!(best["mount"].as_str().unwrap().contains("--flush "), "{best}");
}

/// A file of 256 KiB that is overwritten for forty seconds.
const OVERWRITTEN: &str = include_str!("data/overwritten.toml");

#[test]
fn the_commands_can_be_typed() {
    let place = Place::new("advise-typed");
    let answer = answer(&SYNCS);
    for row in answer["rows"].as_array().unwrap() {
        let _ = std::fs::remove_file(place.0.join("disk.img"));
        let line = row["mkfs"].as_str().unwrap();
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let mut mkfs = Command::new(env!("CARGO_BIN_EXE_twinfs"));
        let out = mkfs.args(&words).current_dir(&place.0).output().unwrap();
        assert!(out.status.success(), "{line}: {}", text(&out.stderr));
    }
}

#[test]
fn what_cannot_be_searched_is_refused_before_anything_runs() {
    for (args, word) in [
        (&["--with", "inodes=5"][..], "no mount can have it"),
        (&["--with", "cahce=5M"], "did you mean"),
        (&["--space", "victim=best"], "greedy"),
        (&["--space", "segment"], "is not key=value"),
        (&["--without", "colour"], "cache"),
        (&["--budget", "7"], "60 runs at least"),
        (&["--budget", "soon"], "is not a time"),
        (&["--by", "speed"], "waiting"),
    ] {
        let out = twinfs(&[&["advise", "-w", "mail:messages=20"], args].concat());
        let said = text(&out.stderr);
        assert!(out.status.code() == Some(2) && said.contains(word), "{args:?}: {said}");
    }
}

/// A recording is not repeated with other seeds: its last part is held back.
#[test]
fn of_a_recording_the_last_part_is_held_back() {
    let place = Place::new("advise-recorded");
    let trace = place.path("work.tw");
    let made = twinfs(&["convert", "-w", "mail:messages=60", "-o", &trace]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let args = ["advise", &trace, "--with", "size=64M", "--budget", "60", "--no-confirm", "--json"];
    let answer = answer(&args);
    let verdict = answer["verdict"].as_str().unwrap();
    let said = "operations, which the search did not see";
    assert!(verdict.contains(said) || verdict.contains("none of"), "{verdict}");
    assert!(answer["details"]["held_out_from"].as_u64().unwrap() > 0, "{answer}");
}

/// What a long search prints when it is interrupted after a while.
fn interrupted(after: Duration) -> Output {
    use rustix::process::{Pid, Signal, kill_process};
    let mut command = Command::new(env!("CARGO_BIN_EXE_twinfs"));
    let words = SYNCS.iter().map(|word| if *word == "60" { "2000" } else { word });
    command.args(words).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(after);
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn an_interrupted_search_prints_the_best_so_far_and_advises_nothing() {
    // Machines and builds differ in speed: some waits are tried.
    let waits = [300, 600, 1200, 2500, 5000, 10_000].map(Duration::from_millis);
    let cut = waits.into_iter().map(interrupted).find_map(|out| {
        let answer: Value = serde_json::from_slice(&out.stdout).ok()?;
        let has_rows = !answer["rows"].as_array()?.is_empty();
        (out.status.code() == Some(130) && has_rows).then_some(answer)
    });
    let cut = cut.expect("an interrupt behind the first run");
    assert!(cut["partial"].as_str().unwrap().starts_with("interrupted after "), "{cut}");
    assert!(cut["verdict"].as_str().unwrap().contains("nothing is advised"), "{cut}");
    let rows = cut["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["advised"] == false && row["is_partial"] == true), "{cut}");
    let schema: Value = serde_json::from_str(twin_report::schema::SCHEMA_TEXT).unwrap();
    assert_eq!(twin_report::schema::problems(&schema, &cut), [""; 0]);
}

/// On real mounts, where root may make them.
#[test]
fn as_root_the_three_are_mounted_and_mounts_have_the_last_word() {
    let can_mount = rustix::process::geteuid().is_root()
        && std::path::Path::new("/dev/fuse").exists()
        && Command::new("losetup").arg("--find").output().is_ok_and(|out| out.status.success());
    if !can_mount {
        println!("skipped: mounts need root, /dev/fuse and a loop device");
        return;
    }
    let args: Vec<&str> = SYNCS.iter().copied().filter(|word| *word != "--no-confirm").collect();
    let answer = answer(&[&args[..], &["--runs", "2"]].concat());
    assert!(answer["details"]["not_confirmed"].is_null(), "{answer}");
    for row in answer["rows"].as_array().unwrap() {
        assert!(row["mounted"].as_f64().unwrap() > 0.0, "{row}");
    }
    let verdict = answer["verdict"].as_str().unwrap();
    assert!(verdict.contains("on mounts"), "{verdict}");
}
