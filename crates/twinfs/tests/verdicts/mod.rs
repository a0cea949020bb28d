//! Verdicts of `compare`: what is said of runs is what their figures say, sentence by sentence.

mod amounts;
mod sentences;
mod session;

use std::path::PathBuf;
use std::process::{Command, Output};

use sentences::Rows;

fn twinfs(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_twinfs")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.into()).unwrap()
}

fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The lines of the verdict and the rows of a comparison.
fn compared(args: &[&str]) -> (Vec<String>, Rows) {
    let out = twinfs(&[&["compare"], args, &["--json"]].concat());
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let lines = answer["verdict"].as_str().unwrap().lines().map(str::to_owned).collect();
    (lines, Rows(answer["rows"].as_array().unwrap().clone()))
}

/// The recording of a session with pauses, in a file of its own.
fn recording(name: &str) -> String {
    let path = place(&format!("verdict-{name}.tw"));
    std::fs::write(&path, session::recording()).unwrap();
    path.to_str().unwrap().into()
}

fn line<'a>(verdict: &'a [String], words: &str) -> &'a str {
    verdict
        .iter()
        .find(|line| line.contains(words))
        .unwrap_or_else(|| panic!("{words}: {verdict:#?}"))
}

#[test]
fn every_sentence_on_the_shipped_example_is_true() {
    let page = place("verdict-shipped.html");
    let (verdict, rows) = compared(&["--html", page.to_str().unwrap()]);
    rows.check(&verdict);
    assert_eq!(rows.0.len(), 5);
    assert!(rows.0.iter().all(|row| row["by"] == "waiting"));
    assert!(line(&verdict, "Why: with ffs").contains("in fsync"), "{verdict:#?}");
    line(&verdict, "ffs wrote to the disk");
    let page = std::fs::read_to_string(page).unwrap();
    let all = "All configurations: size=256M,cache=16M,disk=ssd-tlc (chosen for the trace that comes with";
    assert!(page.contains(all));
    assert!(page.contains("the defaults are size=4G,cache=64M,disk=disk-7200)"));
}

#[test]
fn a_recording_with_pauses_is_judged_by_what_its_clients_waited_for() {
    let trace = recording("pauses");
    let (verdict, rows) = compared(&["-t", &trace, "lfs", "ffs", "ffs-sync"]);
    rows.check(&verdict);
    assert!(rows.0.iter().all(|row| row["by"] == "waiting"));
    let pauses = session::FILES as f64 * session::PAUSE_NS as f64 / 1e9;
    for row in &rows.0 {
        let found = row["pauses_s"].as_f64().unwrap();
        assert!((found / pauses - 1.0).abs() < 0.01, "{found} of {pauses}");
    }
    line(&verdict, "36.0 s are the recorded pauses of its clients");
    let (verdict, rows) = compared(&["-t", &trace, "--pace", "asap", "lfs", "ffs-sync"]);
    rows.check(&verdict[..1]);
    assert!(rows.0.iter().all(|row| row["by"] == "finish"));
    assert!(rows.0.iter().all(|row| row["finish_s"].as_f64().unwrap() < pauses / 2.0));
    line(&verdict, "are left out; `--pace think` keeps them");
}

#[test]
fn what_the_end_does_not_tell_apart_another_measure_does_in_the_next_line() {
    let trace = recording("close");
    let (verdict, rows) = compared(&["-t", &trace, "--by", "finish", "lfs", "ffs"]);
    rows.check(&verdict);
    assert!(verdict[0].starts_with("No winner by finish"), "{verdict:#?}");
    assert!(verdict[1].starts_with("Other measures tell them apart: by "), "{verdict:#?}");
    assert!(!verdict.iter().any(|line| line.contains("a workload with fsyncs")), "{verdict:#?}");
    let (verdict, rows) = compared(&["-t", &trace, "lfs", "lfs:disk=hp-c3323a,cache=8M", "ffs"]);
    rows.check(&verdict);
}

#[test]
fn identical_configurations_are_called_identical() {
    let trace = recording("identical");
    let (verdict, rows) = compared(&["-t", &trace, "lfs", "lfs:cache=64M"]);
    rows.check(&verdict);
    assert_eq!(verdict[0], "lfs and lfs:cache=64M are identical: all their settings are the same.");
    let (verdict, rows) = compared(&["-t", &trace, "lfs:victim=mdc", "lfs:victim=greedy"]);
    rows.check(&verdict);
    assert!(verdict[0].starts_with("victim=mdc and victim=greedy did exactly the same"));
}

#[test]
fn what_if_says_what_changes_the_order_or_that_nothing_does() {
    let trace = recording("what-if");
    let out = twinfs(&["compare", "-t", &trace, "--what-if", "lfs", "ffs-sync"]);
    let said = text(&out.stdout);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(
        said.contains("What if: nothing that was tried changes the order of lfs and ffs-sync."),
        "{said}"
    );
    assert!(said.contains("No change with cache=16M, cache=256M, "), "{said}");
    let out = twinfs(&["compare", "-t", &trace, "--what-if", "lfs"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("--what-if is about the order of two"));
}

#[test]
fn nothing_runs_if_a_configuration_cannot_be_parsed_or_an_option_would_be_ignored() {
    let lines: &[(&[&str], &[&str])] = &[
        (&["lfs", "ext4", "ffs:cahce=3M"], &["ext4", "did you mean \"cache\""]),
        (
            &["--with", "cache=8M", "lfs:cache=3M", "ffs:cache=2M"],
            &["--with cache=8M", "leave it out"],
        ),
        (&["--with", "cahce=8M", "lfs"], &["did you mean \"cache\""]),
        (&["--server", "cut-and-paste", "--aged", "agrawal"], &["--aged"]),
    ];
    for (args, words) in lines {
        let out = twinfs(&[&["compare"], *args].concat());
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(out.stdout.is_empty() && words.iter().all(|word| said.contains(word)), "{said}");
    }
}

#[test]
fn what_all_configurations_have_is_said_with_its_reason() {
    let trace = recording("all");
    let first = |args: &[&str]| text(&twinfs(&[&["compare"], args].concat()).stdout);
    let own = first(&["-t", &trace, "lfs", "lfs:cache=8M"]);
    assert!(own.contains("All configurations: size=4G,disk=disk-7200 (the defaults for"), "{own}");
    let given = first(&["-t", &trace, "--with", "size=1G", "lfs"]);
    assert!(given.contains("All configurations: size=1G.\n"), "{given}");
}

/// The recording of a session of one's own: `TWINFS_RECORDING=work.tw cargo test -p twinfs verdicts:: --
/// --ignored`.
#[test]
#[ignore = "needs a recording in TWINFS_RECORDING"]
fn every_sentence_on_a_recording_of_ones_own_is_true() {
    let trace = std::env::var("TWINFS_RECORDING").unwrap();
    for configs in [&["lfs", "ffs"][..], &["lfs", "lfs:disk=hp97560,cache=8M", "ffs-sync"]] {
        let (verdict, rows) = compared(&[&["-t", &trace], configs].concat());
        rows.check(&verdict);
    }
}
