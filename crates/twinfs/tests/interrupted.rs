//! A command that is interrupted prints what it has, marked as partial, and goes on with `--resume`.

// Signals are sent and answered in real time.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::signal_after;

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

/// The answer of a command that is interrupted between its first part and its last. How much time of a processor
/// that takes depends on the machine and the build: an interrupt that came too early is tried later, one that
/// came too late earlier.
fn cut_between(run: impl Fn(Duration) -> Output, all: usize) -> Value {
    let mut wait = Duration::from_millis(50);
    for _ in 0..60 {
        let cut = run(wait);
        let ended = match cut.status.code() {
            Some(0) => all,
            Some(130) if cut.stdout.is_empty() => 0,
            Some(130) => answer(&cut)["rows"].as_array().unwrap().len(),
            code => panic!("{code:?}: {}", String::from_utf8_lossy(&cut.stderr)),
        };
        match ended {
            0 => wait = wait * 3 / 2,
            ended if ended < all => return answer(&cut),
            _ => wait = wait * 4 / 5,
        }
    }
    panic!("no interrupt between the first run and the last, at last after {wait:?}")
}

fn answer(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap()
}

/// The output of the command when it is interrupted after so much time of a processor.
fn interrupted(state: &PathBuf, after: Duration) -> Output {
    interrupt(twinfs(state), after)
}

fn interrupt(mut command: Command, after: Duration) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    signal_after(&mut child, Signal::INT, after);
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
    let cut = cut_between(|wait| interrupted(&state, wait), all);
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

/// Many parts of about a hundredth of the whole, so that most interrupts come between two of them.
#[test]
fn an_interrupted_comparison_and_study_of_caches_print_what_has_ended() {
    let trace = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("interrupted.csv");
    let line = |n: u64| format!("{n},R,{},4096,{n}\n", (n * n * 7919 % 50_021) << 12);
    std::fs::write(&trace, (0..300_000).map(line).collect::<String>()).unwrap();
    let names: Vec<String> = (1..=60).map(|n| format!("lfs:size=64M,cache={n}M")).collect();
    let mut compare = vec!["compare", "-w", "zipf:writes=3000,file-bytes=8M"];
    compare.extend(names.iter().map(String::as_str));
    let cache = ["cache", trace.to_str().unwrap(), "--policies", "lru,clock,sieve,arc,2q,lirs"];
    for (command, all) in [(&compare[..], 60), (&cache[..], 66)] {
        let run = |wait| {
            let mut twinfs = Command::new(env!("CARGO_BIN_EXE_twinfs"));
            twinfs.args(command).args(["--format", "json"]).stdin(Stdio::null());
            interrupt(twinfs, wait)
        };
        let cut = cut_between(run, all);
        let why = cut["partial"].as_str().unwrap();
        assert!(why.starts_with("interrupted after") && why.contains(&format!("of {all} runs")));
        let rows = cut["rows"].as_array().unwrap();
        assert!(rows.iter().all(|row| row["is_partial"] == true), "{cut}");
    }
}
