//! Experiments as files: runs are made once, survive kill -9, fit together from parts, and are compared.

// A process is killed after some real time.
#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::{Place, text, twinfs};
use serde_json::Value;

/// Writes a file and returns its path.
fn write(place: &Place, name: &str, content: &str) -> String {
    std::fs::write(place.0.join(name), content).unwrap();
    place.path(name)
}

/// 2 workloads, 3 configurations, 2 seeds.
const EXPERIMENT: &str = "
workloads = ['mail:messages=20', 'build:files=20']
with = 'size=32M'
seeds = 2
configs = ['ffs']
[[config]]
base = 'lfs'
grid = { cache = ['1M', '4M'] }
";

fn run(args: &[&str]) -> String {
    let out = twinfs(args);
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

fn table(file: &str, store: &str) -> String {
    run(&["run", file, "--store", store, "--format", "csv"])
}

#[test]
fn a_second_call_runs_nothing_and_a_changed_line_what_is_new() {
    let place = Place::new("experiment-again");
    let file = write(&place, "x.toml", EXPERIMENT);
    assert!(run(&["run", &file]).contains("12 runs were made and 0 were there"));
    assert!(run(&["run", &file]).contains("0 runs were made and 12 were there"));
    write(&place, "x.toml", &EXPERIMENT.replace("['1M', '4M']", "['1M', '2M', '4M']"));
    let said = run(&["run", &file]);
    assert!(said.contains("4 runs were made and 12 were there"), "{said}");
    assert!(said.starts_with("mail:messages=20: "), "the verdict comes first: {said}");
}

#[test]
fn runs_that_were_killed_again_and_again_end_in_the_table_of_an_undisturbed_one() {
    let place = Place::new("experiment-killed");
    let file = write(&place, "x.toml", EXPERIMENT);
    let (disturbed, quiet) = (place.path("disturbed"), place.path("quiet"));
    // Each time a little later, so that the kill meets starting, running, writing and the end.
    for wait_ms in [30, 60, 90, 150, 250] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_twinfs"));
        command.args(["run", &file, "--store", &disturbed]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(table(&file, &disturbed), table(&file, &quiet));
}

#[test]
fn parts_from_several_stores_are_the_whole() {
    let place = Place::new("experiment-parts");
    let file = write(&place, "x.toml", EXPERIMENT);
    let (all, whole) = (place.path("all"), place.path("whole"));
    let parts = ["a", "b", "c"].map(|name| place.path(name));
    for (at, part) in parts.iter().enumerate() {
        let shard = format!("{}/3", at + 1);
        run(&["run", &file, "--store", part, "--shard", &shard, "--jobs", "1"]);
    }
    let [a, b, c] = &parts;
    assert!(run(&["merge", a, b, c, "-o", &all]).starts_with("12 results were added"));
    let listed = run(&["run", &file, "--store", &all, "--list", "--format", "csv"]);
    assert_eq!(listed.matches(",done").count(), 12, "{listed}");
    assert_eq!(table(&file, &all), table(&file, &whole));
}

#[test]
fn a_figure_that_grew_and_a_run_that_is_gone_fail_the_comparison() {
    let place = Place::new("experiment-diff");
    let file = write(&place, "x.toml", EXPERIMENT);
    let (old, new) = (place.path("old"), place.path("new"));
    table(&file, &old);
    table(&file, &new);
    let same = run(&["diff", &old, &new]);
    assert!(same.starts_with("None of 6 differs by more than 2%."), "{same}");
    // Each result is a file, which a test can falsify.
    let rows = || walk(&PathBuf::from(&new));
    let falsified = rows().into_iter().next().unwrap();
    let mut row: Value = serde_json::from_slice(&std::fs::read(&falsified).unwrap()).unwrap();
    row["measured"]["written"] = (row["measured"]["written"].as_f64().unwrap() * 4.0).into();
    std::fs::write(&falsified, row.to_string()).unwrap();
    let out = twinfs(&["diff", &old, &new, "--by", "written", "--format", "json"]);
    let pairs: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(1), "{pairs}");
    assert!(pairs["rows"][0]["change"].as_f64().unwrap() > 1.0, "{pairs}");
    let config = row["config"].clone();
    for path in rows() {
        let row: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        if row["config"] == config {
            std::fs::remove_file(path).unwrap();
        }
    }
    let out = twinfs(&["diff", &old, &new]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stdout).contains("have no figure in"), "{}", text(&out.stdout));
}

fn walk(dir: &PathBuf) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

#[test]
fn a_run_that_fails_is_kept_with_its_reason_and_the_others_are_judged() {
    let place = Place::new("experiment-failing");
    let file = write(
        &place,
        "x.toml",
        "workloads = ['build:files=400']\nconfigs = ['ffs:size=64M', 'lfs:size=64M', 'ffs:size=1M']\n",
    );
    for made in ["3 runs were made", "0 runs were made"] {
        let out = twinfs(&["run", &file]);
        let said = text(&out.stdout);
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains(made) && said.contains("1 runs failed"), "{said}");
    }
}

#[test]
fn what_is_wrong_in_the_file_is_said_before_anything_runs() {
    let place = Place::new("experiment-wrong");
    for (content, words) in [
        ("workloads = ['mail']\nconfigs = ['lsf']", "lsf"),
        ("workloads = ['mial']\nconfigs = ['lfs']", "mail"),
        ("workloads = ['nothing.tw']\nconfigs = ['lfs']", "nothing.tw"),
        ("workloads = [", "x.toml"),
    ] {
        let file = write(&place, "x.toml", content);
        let out = twinfs(&["run", &file]);
        assert!(
            !out.status.success() && text(&out.stderr).contains(words),
            "{}",
            text(&out.stderr)
        );
        assert!(!std::path::Path::new(&format!("{file}.runs")).exists());
    }
}
