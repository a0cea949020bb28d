//! The program `twinfs-reproduce`: wrong command lines, files that it does not overwrite, and its end by a signal.

// Signals are sent and answered in real time.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The program only must end: a machine that is busy with other tests may take any time.
const SOON: Duration = Duration::from_secs(60);

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twinfs-reproduce"));
    command.args(args).stdin(Stdio::null()).env("XDG_STATE_HOME", state());
    command
}

/// Where what is interrupted is kept.
fn state() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("reproduce-state")
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn a_wrong_command_line_is_an_error_and_exits_with_2() {
    let lines: [(&[&str], &str); 7] = [
        (&["--loads", "sprite-191"], "did you mean \"sprite-1991\""),
        (&["--fit", "all"], "one load"),
        (&["--loads", "--quick"], "--quick"),
        (&["--with", "no-skew"], "did you mean \"no-skews\""),
        (&["efs-tabl"], "did you mean \"efs-table\""),
        (&["small-create", "--cells"], "--cells"),
        (&["--wrong", "--format", "csv"], "--format json"),
    ];
    for (args, word) in lines {
        let out = program(args).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", said(&out));
        assert!(said(&out).contains(word), "{args:?}: {}", said(&out));
    }
}

#[test]
fn the_claims_are_listed() {
    let out = program(&["--list"]).output().unwrap();
    let list = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(list.lines().count(), twin_papers::claims().len(), "{list}");
}

#[test]
fn a_load_says_in_every_form_what_it_was_given_and_what_was_held_out() {
    for form in ["table", "json", "csv"] {
        let out = program(&["--loads", "news", "--format", form]).output().unwrap();
        assert!(out.status.success(), "{}", said(&out));
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        for word in ["mean of an article", "given", "held out"] {
            assert!(text.contains(word), "{form}: {text}");
        }
    }
    let out = program(&["--fit", "news"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert!(said(&out).contains("--loads news"), "{}", said(&out));
}

#[test]
fn a_kept_answer_gives_the_table_of_what_does_not_hold_without_a_run() {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reproduce-kept.json");
    let row = |what: &str, ours: f64| {
        format!(
            r#"{{"claim":"small-create","what":"create: {what}","kind":"paper","ours":{ours}}}"#
        )
    };
    let rows = [row("BSD-LFS / FFS-m8r2", 17.26), row("BSD-LFS / FFS-m1r2", 10.0)].join(",");
    std::fs::write(&kept, format!(r#"{{"command":"reproduce","rows":[{rows}]}}"#)).unwrap();
    let out = program(&["--failures", "--of", kept.to_str().unwrap()]).output().unwrap();
    let table = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(table.lines().count(), 3, "{table}");
    let first = "| LvC 2, fig. 1 | create: BSD-LFS / FFS-m8r2 | 10 (within 20%) | 17.3 | by 4.4BSD";
    assert!(table.lines().nth(2).unwrap().starts_with(first), "{table}");
    std::fs::write(&kept, "[]").unwrap();
    let out = program(&["--failures", "--of", kept.to_str().unwrap()]).output().unwrap();
    assert!(!out.status.success() && said(&out).contains("--format json"), "{}", said(&out));
    std::fs::remove_file(kept).unwrap();
}

/// A page was written over whatever had its name, when the minutes of work were done.
#[test]
fn results_are_not_written_over_what_is_no_page() {
    let letter = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("reproduce-letter");
    std::fs::write(&letter, "Dear Sir").unwrap();
    let out = program(&["efs-table", "--html", letter.to_str().unwrap()]).output().unwrap();
    assert!(!out.status.success() && said(&out).contains("is no HTML page"), "{}", said(&out));
    assert_eq!(std::fs::read_to_string(&letter).unwrap(), "Dear Sir");
    std::fs::remove_file(letter).unwrap();
}

#[test]
fn a_signal_ends_it() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut command = program(&[]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself: not a test");
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
        let sent = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(sent.elapsed() < SOON, "it goes on after {signal:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}

/// The number of runs after which the program was interrupted, and what it printed.
fn interrupted(args: &[&str], after: Duration) -> (u64, String) {
    let child = program(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    let schema = serde_json::from_str(twin_report::schema::SCHEMA_TEXT).unwrap();
    assert_eq!(twin_report::schema::problems(&schema, &answer), [""; 0]);
    let why = answer["partial"].as_str().unwrap();
    let count = why.split_once("after ").unwrap().1.split(' ').next().unwrap();
    (count.parse().unwrap(), text)
}

#[test]
fn interrupted_work_is_taken_up_by_the_same_command_alone() {
    let _ = std::fs::remove_dir_all(state());
    let none = program(&["efs-small", "--resume"]).output().unwrap();
    assert!(!none.status.success() && said(&none).contains("nothing to resume"), "{}", said(&none));
    let line = ["efs-small", "efs-table", "--json"];
    // Twice as long each time, since a run takes any time on a machine that is busy with others.
    let (first, text) = (0..10)
        .map(|doubled| interrupted(&line, Duration::from_secs(1 << doubled)))
        .find(|(count, _)| *count > 0)
        .expect("a run ends within eight minutes");
    assert!(text.contains("--resume goes on from here"), "{text}");
    let again = [&line[..], &["--resume"]].concat();
    let (second, _) = interrupted(&again, Duration::from_millis(600));
    assert!(second >= first, "{second} runs where {first} were known");
    let other = program(&["efs-table", "--json", "--resume"]).output().unwrap();
    assert!(said(&other).contains("nothing to resume"), "{}", said(&other));
}
