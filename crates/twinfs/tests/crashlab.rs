//! `twinfs crashlab` as a user runs it: verdicts, exit statuses, and what is left behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Place, text, twinfs};
use serde_json::Value;

/// Whether the lab can mount here; says so if not.
fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        eprintln!("skipped: the crash lab is tested as root with /dev/fuse");
    }
    can
}

fn has_python() -> bool {
    let has = Command::new("python3")
        .args(["-c", "import sqlite3"])
        .output()
        .is_ok_and(|out| out.status.success());
    if !has {
        eprintln!("skipped: there is no python3 with sqlite3");
    }
    has
}

fn example(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/crashlab").join(name)
}

/// Runs the lab; its status and its object in JSON.
fn lab(args: &[&str]) -> (Option<i32>, Value) {
    let out = twinfs(&[&["crashlab", "--json", "--size", "64M", "--jobs", "2"], args].concat());
    let found = serde_json::from_slice(&out.stdout);
    let found = found.unwrap_or_else(|error| panic!("{error}: {}", text(&out.stderr)));
    (out.status.code(), found)
}

/// A check that wants a word in a file of each label.
const WORD: &str =
    "while read -r name; do grep -q word \"$name\" || exit 1; done <\"$CRASHLAB_ACKED\"";

#[test]
fn what_was_acknowledged_without_a_sync_is_lost_and_the_report_names_the_sync() {
    if !can_mount() {
        return;
    }
    let command = format!("echo word > f && {} ack f", env!("CARGO_BIN_EXE_twinfs"));
    for like in ["ext4", "xfs", "posix", "strict"] {
        let (status, found) = lab(&["--like", like, "--check", WORD, "--", "sh", "-c", &command]);
        assert_eq!((status, &found["verdict"]), (Some(1), &"lost".into()), "{found}");
        let whys =
            found["classes"].as_array().unwrap().iter().map(|class| class["why"].as_str().unwrap());
        assert!(
            whys.into_iter().any(|why| why.starts_with("no fsync of f between")),
            "{like}: {found}"
        );
        assert_eq!(found["check_sees_total_loss"], true);
    }
}

#[test]
fn what_was_synced_survives_on_every_model_and_layout_and_nothing_is_left_mounted() {
    if !can_mount() {
        return;
    }
    // Files of a new directory: their names too, which POSIX gives a sync of their own.
    let command = "mkdir d && echo word > d/f && sync d/f d . && echo d/f >> $CRASHLAB_ACK";
    for like in ["ext4", "xfs", "posix"] {
        let (status, found) = lab(&["--like", like, "--check", WORD, "--", "sh", "-c", command]);
        assert_eq!((status, &found["verdict"]), (Some(0), &"survived".into()), "{found}");
    }
    for layout in ["lfs", "ffs", "vsfs"] {
        let args =
            ["--like", "strict", "--layout", layout, "--check", WORD, "--", "sh", "-c", command];
        let (status, found) = lab(&args);
        assert_eq!((status, &found["verdict"]), (Some(0), &"survived".into()), "{found}");
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("twinfs-crashlab"), "{mounts}");
}

#[test]
fn a_name_that_was_not_synced_is_lost_on_posix_alone() {
    if !can_mount() {
        return;
    }
    let command = "echo word > f && sync f && echo f >> $CRASHLAB_ACK";
    let (status, _) = lab(&["--like", "ext4", "--check", WORD, "--", "sh", "-c", command]);
    assert_eq!(status, Some(0));
    let (status, found) = lab(&["--like", "posix", "--check", WORD, "--", "sh", "-c", command]);
    assert_eq!(status, Some(1));
    let why = found["classes"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("no fsync of the volume's directory between `create f`"), "{why}");
}

#[test]
fn without_acknowledgements_syncs_and_the_exit_count() {
    if !can_mount() {
        return;
    }
    let check = "grep -q . \"$CRASHLAB_ACKED\" || exit 0; grep -q '^exit 0' \"$CRASHLAB_ACKED\" || \
                 grep -q '^fsync 1 f' \"$CRASHLAB_ACKED\" && grep -q word f";
    let (status, found) = lab(&["--check", check, "--", "sh", "-c", "echo word > f && sync f"]);
    assert_eq!(status, Some(0), "{found}");
    let (status, found) = lab(&["--check", check, "--", "sh", "-c", "echo word > f"]);
    assert_eq!(status, Some(1), "{found}");
    assert_eq!(found["classes"][0]["acknowledged"], serde_json::json!(["exit 0"]));
}

/// Such a failure is one of the check's own demand, and the report says so.
#[test]
fn a_state_that_fails_before_anything_was_acknowledged_has_a_note() {
    if !can_mount() {
        return;
    }
    let command = format!(
        "echo word > f && sync f && {} ack f && echo word > g",
        env!("CARGO_BIN_EXE_twinfs")
    );
    let noted = |check: &str| {
        let (status, found) = lab(&["--check", check, "--", "sh", "-c", &command]);
        let notes = found["notes"].as_array().unwrap();
        (
            status,
            notes.iter().any(|note| note.as_str().unwrap().contains("nothing was acknowledged")),
        )
    };
    assert_eq!(noted("test -s f"), (Some(1), true));
    assert_eq!(noted("test ! -s \"$CRASHLAB_ACKED\" || test -s f"), (Some(0), false));
    assert_eq!(noted("test ! -s \"$CRASHLAB_ACKED\" || test -s g"), (Some(1), false));
}

#[test]
fn a_wrong_command_or_check_is_not_measured_and_says_why() {
    if !can_mount() {
        return;
    }
    let cases: [(&[&str], &str); 4] = [
        (&["--check", "true", "--", "false"], "the command failed: exit 1"),
        (&["--check", "true", "--", "/no/such/program"], "the command cannot be started"),
        (&["--check", "false", "--", "true"], "the check fails although no power failed: exit 1"),
        (&["--setup", "exit 9", "--check", "true", "--", "true"], "the setup failed: exit 9"),
    ];
    for (args, why) in cases {
        let (status, found) = lab(args);
        assert_eq!((status, &found["verdict"]), (Some(3), &"not measured".into()), "{found}");
        assert!(found["why"].as_str().unwrap().contains(why), "{found}");
    }
    let said = |out: Output| text(&out.stderr);
    let out = twinfs(&["ack", "x"]);
    assert!(!out.status.success() && said(out).contains("CRASHLAB_ACK is not set"));
    let out = twinfs(&["crashlab", "--check", "true", "--state", "7-9", "--", "true"]);
    assert!(out.status.code() == Some(2) && said(out).contains("is no state"));
}

#[test]
fn a_state_of_a_report_is_repeated_from_the_history_that_was_kept() {
    if !can_mount() {
        return;
    }
    let place = Place::new("crashlab-kept");
    let kept = place.path("kept");
    let command = "echo word > f && echo f >> $CRASHLAB_ACK";
    let (_, found) = lab(&["--keep", &kept, "--check", WORD, "--", "sh", "-c", command]);
    let class = &found["classes"][0];
    let state = class["state"].as_str().unwrap();
    assert!(
        class["repeat"].as_str().unwrap().contains(&format!("--from {kept} --state {state}")),
        "{class}"
    );
    let (status, again) = lab(&["--from", &kept, "--state", state, "--check", WORD]);
    assert_eq!((status, &again["states_tried"]), (Some(1), &1.into()));
    assert_eq!(again["classes"][0]["why"], class["why"]);
    let (status, whole) = lab(&["--from", &kept, "--state", "2", "--check", WORD]);
    assert_eq!(status, Some(0), "{whole}");
}

#[test]
fn a_recovery_that_a_second_failure_interrupts_is_looked_at_with_depth_2() {
    if !can_mount() {
        return;
    }
    // The journal is removed before what it repairs is on the disk.
    let command = "echo word > journal && sync journal . && echo word > f && sync f . && rm journal && sync . && \
                   echo f >> $CRASHLAB_ACK && echo word > journal && sync journal . && echo more >> f";
    let check = "if test -s journal; then rm journal; sync .; echo word > f; sync f .; fi; \
                 test ! -s \"$CRASHLAB_ACKED\" || grep -q word f";
    let args = ["--check", check, "--", "sh", "-c", command];
    let (status, found) = lab(&args);
    assert_eq!(status, Some(0), "{found}");
    let (status, found) = lab(&[&["--depth", "2"], &args[..]].concat());
    assert_eq!(status, Some(1), "{found}");
    assert!(found["second"]["states_failed"].as_u64().unwrap() > 0, "{found}");
    assert_eq!(found["classes"][0]["second_failure"], true);
    let state = found["classes"][0]["state"].as_str().unwrap();
    let (status, again) = lab(&[&["--state", state], &args[..]].concat());
    assert_eq!(status, Some(1), "{again}");
}

#[test]
fn shelve_loses_what_it_synced_and_sqlite_keeps_what_it_committed() {
    if !can_mount() || !has_python() {
        return;
    }
    let run = |name: &str, args: &[&str], run: &[&str]| {
        let file = example(name);
        let file = file.to_str().unwrap();
        let check = format!("python3 {file} check");
        lab(&[args, &["--check", &check, "--", "python3", file, "run"], run].concat())
    };
    let (status, found) = run("shelve_sync.py", &["--states", "60"], &[]);
    assert_eq!((status, &found["verdict"]), (Some(1), &"lost".into()), "{found}");
    assert!(
        found["classes"][0]["why"].as_str().unwrap().starts_with("no fsync of shelf."),
        "{found}"
    );
    let (status, found) = run("sqlite.py", &["--states", "60"], &["wal"]);
    assert_eq!((status, &found["verdict"]), (Some(0), &"survived".into()), "{found}");
}
