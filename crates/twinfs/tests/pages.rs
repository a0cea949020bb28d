//! The pages of `bench` and `volume`, and `compare` with several seeds, as a user runs them.

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

#[test]
fn several_seeds_give_the_median_and_every_run_and_equal_seeds_equal_bytes() {
    let args =
        ["compare", "lfs:size=64M,cache=2M", "-w", "zipf:writes=2000,file-bytes=8M", "--json"];
    let seeds = |n| twinfs(&[&args[..], &["--seeds", n]].concat());
    let three = seeds("3");
    assert_eq!(three, seeds("3"));
    let runs: serde_json::Value = serde_json::from_str(&three).unwrap();
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
    let mut first = all[0].clone();
    first["rank"] = 1.into();
    first["trusted"] = one[0]["trusted"].clone();
    assert!(one[0]["trusted"]["factor"].as_f64() > Some(1.0));
    assert_eq!(one[0], first);
    assert!(one[0]["seeds"].is_null());
}
