//! `twinfs arena`: what programs read, what is refused, and tasks as files.

use crate::common::{Place, text, twinfs};
use serde_json::Value;

const TASK: &str = r#"
kind = "replacement"
rivals = ["lru", "fifo"]
score = { device-time = 1, write-cost = 1, at-risk = 1 }
budget = { cpu = 50, cpu-python = 50, call = "1s", memory = "4G" }
[study]
disk = "hp97560"
sizes = [0.1]
go-on = 0.1
seconds = 300
public = [{ workload = "zipf:file-bytes=2M,writes=2000,reads=50%" }]
held-out = [{ trace = "not-there.csv" }]
[simulation]
config = "lfs:size=32M,cache=256K"
go-on = 0.1
seconds = 300
public = [{ workload = "zipf:file-bytes=1M,writes=100,reads=50%" }]
"#;

fn place(name: &str) -> (Place, String) {
    let place = Place::new(name);
    let task = place.path("small.toml");
    std::fs::write(&task, TASK).unwrap();
    (place, task)
}

#[test]
fn a_program_reads_metrics_a_score_and_artifacts_and_notes_what_is_left_out() {
    let (place, task) = place("arena-json");
    let known = place.path("known.json");
    let args = ["arena", &task, "fifo", "--held-out", "--reference", &known, "--format", "json"];
    let out = twinfs(&args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("left out: not-there.csv"), "{}", text(&out.stderr));
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    let score = answer["combined_score"].as_f64().unwrap();
    assert!(score > 0.0 && score <= 1.0);
    assert_eq!(answer["metrics"]["combined_score"], score);
    let of = |stage: &str| answer["metrics"][format!("{stage}_public_score")].as_f64().unwrap();
    assert!((score * score - of("study") * of("simulation")).abs() < 1e-9);
    let metrics = answer["metrics"].as_object().unwrap();
    assert!(metrics.values().all(Value::is_number), "{metrics:?}");
    let artifacts = answer["artifacts"].as_object().unwrap();
    assert!(artifacts.values().all(Value::is_string), "{artifacts:?}");
    // What is kept is used, and changes nothing.
    let kept = std::fs::read(&known).unwrap();
    let again: Value = serde_json::from_slice(&twinfs(&args).stdout).unwrap();
    assert_eq!(
        (&again["rows"], &again["combined_score"]),
        (&answer["rows"], &answer["combined_score"])
    );
    assert_eq!(std::fs::read(&known).unwrap(), kept);
}

#[test]
fn a_policy_that_knows_the_future_has_nothing_and_the_exit_status_says_so() {
    let (_place, task) = place("arena-refused");
    let out = twinfs(&["arena", &task, "belady", "--format", "json"]);
    assert_eq!(out.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(answer["combined_score"], 0.0);
    assert_eq!(answer["artifacts"]["check"], "future");
    assert!(
        answer["verdict"].as_str().unwrap().starts_with("belady is refused: it reads the future")
    );
}

#[test]
fn a_task_that_is_shown_is_one_and_a_wrong_one_is_refused() {
    let (place, _) = place("arena-tasks");
    for task in ["replacement", "flush", "victim"] {
        let shown = twinfs(&["arena", task, "--show"]);
        let file = place.path("shown.toml");
        std::fs::write(&file, &shown.stdout).unwrap();
        assert_eq!(twinfs(&["arena", &file, "--show"]).stdout, shown.stdout);
        assert!(text(&twinfs(&["arena", "--list"]).stdout).lines().any(|line| line == task));
    }
    for (args, words) in [
        (&["arena", "replacment", "lru"][..], "did you mean \"replacement\"?"),
        (&["arena", "replacement", "siefe"], "did you mean \"sieve\"?"),
        (&["arena", "replacement"], "<POLICY>"),
    ] {
        let out = twinfs(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(text(&out.stderr).contains(words), "{}", text(&out.stderr));
    }
}
