//! The forms of results, and `compare` with several seeds, as a user runs them.

use std::path::PathBuf;
use std::process::Command;

fn twinfs(args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_twinfs")).args(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// The page that a command writes, which needs nothing from outside.
fn page_of(name: &str, args: &[&str]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-page.html"));
    twinfs(&[args, &["--html", path.to_str().unwrap()]].concat());
    let page = std::fs::read_to_string(&path).unwrap();
    for outside in ["http://", "https://", "src=", "@import", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
    page
}

#[test]
fn bench_writes_a_page_with_a_chart_for_each_benchmark() {
    let args =
        ["bench", "--config", "lfs:size=256M", "--config", "ffs:size=256M", "small:files=100"];
    let page = page_of("bench", &[&args[..], &["large:mb=1"]].concat());
    assert_eq!(page.matches("<svg viewBox=\"0 0 440").count(), 2);
    assert!(page.contains("is the fastest in") && page.contains("Settings that differ"));
}

#[test]
fn volume_writes_a_page_with_a_chart_for_each_workload() {
    let args = ["--blocks", "2000", "--volumes", "3", "--placement", "none,twin", "--seed", "1,2"];
    let page = page_of("volume", &[&["volume", "--exponent", "0.2,0.9"], &args[..]].concat());
    assert_eq!(page.matches("<svg viewBox=\"0 0 440").count(), 3, "and a curve over the exponents");
    assert!(page.contains("writes the least: "));
}

/// Short runs of commands that print results; `IMAGE` and `TRACE` are made before.
const COMMANDS: [&[&str]; 13] = [
    &["presets"],
    &["compare", "lfs:size=64M", "ffs:size=64M", "-w", "zipf:writes=500,file-bytes=8M"],
    &[
        "frontier",
        "--config",
        "lfs:size=64M",
        "-w",
        "zipf:writes=200,file-bytes=1M",
        "--policies",
        "delayed",
        "--ages",
        "5s",
        "--instants",
        "1",
    ],
    &["volume", "--blocks", "500", "--volumes", "2", "--placement", "none", "--seed", "1"],
    &["cache", "TRACE", "--policies", "lru", "--sizes", "1M"],
    &["bench", "--sim", "lfs:size=64M", "small:files=20"],
    &["replay", "TRACE", "--config", "lfs:size=64M"],
    &["convert", "TRACE"],
    &["check", "IMAGE"],
    &["stat", "IMAGE"],
    &["dump", "IMAGE", "inodes"],
    &["layout", "IMAGE"],
    &["clean", "IMAGE"],
];

#[test]
fn every_command_has_the_four_forms() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (image, trace) = (dir.join("forms.img"), dir.join("forms.tw"));
    let (image, trace) = (image.to_str().unwrap(), trace.to_str().unwrap());
    let _ = (std::fs::remove_file(image), std::fs::remove_file(trace));
    twinfs(&["mkfs", "--size", "64M", image]);
    twinfs(&["convert", "-w", "zipf:writes=300,file-bytes=1M", "-o", trace]);
    for command in COMMANDS {
        let command: Vec<&str> = command
            .iter()
            .map(|word| match *word {
                "IMAGE" => image,
                "TRACE" => trace,
                word => word,
            })
            .collect();
        let form = |name: &str| twinfs(&[&command[..], &["--format", name]].concat());
        let json: serde_json::Value = serde_json::from_str(&form("json")).unwrap();
        assert!(json.is_array() || json.is_object(), "{command:?}");
        let csv = form("csv");
        let names = csv.lines().next().unwrap_or_default();
        assert!(names.contains(',') && csv.lines().count() > 1, "{command:?}: {csv}");
        let page = form("html");
        assert!(page.starts_with("<!doctype html") && page.contains("<h1>"), "{command:?}");
        assert!(!page.contains("NaN") && !page.contains("<script"), "{command:?}");
        let table = form("table");
        assert!(!table.is_empty() && !table.starts_with(['[', '{', '<']), "{command:?}");
        assert_eq!(page_of("forms", &command), page, "{command:?}: a file has the same page");
    }
}

#[test]
fn several_seeds_give_the_median_and_every_run_and_equal_seeds_equal_bytes() {
    let args =
        ["compare", "lfs:size=64M,cache=2M", "-w", "zipf:writes=2000,file-bytes=8M", "--json"];
    let seeds = |n| twinfs(&[&args[..], &["--seeds", n]].concat());
    let three = seeds("3");
    assert_eq!(three, seeds("3"));
    let runs: serde_json::Value = serde_json::from_str(&three).unwrap();
    let runs = &runs["rows"];
    let (run, all) = (&runs[0], runs[0]["seeds"].as_array().unwrap());
    assert_eq!(all.len(), 3);
    let times: Vec<f64> = all.iter().map(|run| run["finish_s"].as_f64().unwrap()).collect();
    let mut sorted = times.clone();
    sorted.sort_by(f64::total_cmp);
    assert!(sorted[0] < sorted[2], "the seeds differ: {times:?}");
    assert_eq!(run["finish_s"].as_f64(), Some(sorted[1]));
    assert_eq!(run["spreads"][0]["measure"], "finish");
    assert_eq!(run["spreads"][0]["min"].as_f64(), Some(sorted[0]));
    // The first of them is the run of a single seed.
    let one: serde_json::Value = serde_json::from_str(&seeds("1")).unwrap();
    let one = &one["rows"];
    let mut first = all[0].clone();
    first["rank"] = 1.into();
    first["by"] = "finish".into();
    first["trusted"] = one[0]["trusted"].clone();
    assert!(one[0]["trusted"]["factor"].as_f64() > Some(1.0));
    assert_eq!(one[0], first);
    assert!(one[0]["seeds"].is_null());
}
