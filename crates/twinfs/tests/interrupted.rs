//! A command that is interrupted prints what it has, marked as partial, and goes on with `--resume`.

// Signals are sent and answered in real time.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Runs of a second or so each.
const FRONTIER: [&str; 13] = [
    "frontier",
    "--config",
    "lfs:size=64M",
    "-w",
    "zipf:writes=1000,file-bytes=8M",
    "--policies",
    "delayed,update,watermarks",
    "--ages",
    "1s,2s,5s,20s",
    "--instants",
    "4",
    "--format",
    "json",
];

fn twinfs(state: &PathBuf) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twinfs"));
    command.args(FRONTIER).env("XDG_STATE_HOME", state).stdin(Stdio::null());
    command
}

fn answer(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap()
}

/// The output of the command when it is interrupted after a while.
fn interrupted(state: &PathBuf, after: Duration) -> Output {
    let child = twinfs(state).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(after);
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn an_interrupted_frontier_prints_what_it_has_and_resumed_prints_what_it_would_have() {
    let state = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("interrupted");
    let _ = std::fs::remove_dir_all(&state);
    let nothing = twinfs(&state).arg("--resume").output().unwrap();
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("nothing to resume"));
    let whole = twinfs(&state).output().unwrap();
    assert!(whole.status.success() && answer(&whole)["partial"].is_null());
    let all = answer(&whole)["rows"].as_array().unwrap().len();
    // Machines and builds differ in speed: some waits are tried.
    let waits = [20, 30, 45, 60, 80, 110, 150, 250, 500, 1000, 2000, 4000, 8000];
    let waits = waits.map(Duration::from_millis);
    let cut = waits.into_iter().map(|wait| interrupted(&state, wait)).find(|cut| {
        let some = cut.status.code() == Some(130) && !cut.stdout.is_empty();
        let rows = |cut| answer(cut)["rows"].as_array().unwrap().len();
        some && (1..all).contains(&rows(cut))
    });
    let cut = answer(&cut.expect("an interrupt between the first run and the last"));
    let rows = cut["rows"].as_array().unwrap();
    assert!(rows.len() < all && rows.iter().all(|row| row["is_partial"] == true), "{cut}");
    let why = cut["partial"].as_str().unwrap();
    assert!(why.contains(&format!("after {} of {all} runs", rows.len())), "{why}");
    let resumed = twinfs(&state).arg("--resume").output().unwrap();
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    assert!(resumed.stdout == whole.stdout, "the same bytes as without an interrupt");
    let left = std::fs::read_dir(state.join("twinfs")).unwrap().count();
    assert_eq!(left, 0, "what was kept is forgotten");
}
