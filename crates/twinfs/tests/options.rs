//! Options mean something wherever they are taken: what a command would ignore is an error. And
//! comparisons tell what failed, by words and exit status, without losing what did not.

use crate::common::{Place, text, twinfs};

fn must_fail(line: &[&str], word: &str) {
    let out = twinfs(line);
    let said = text(&out.stderr);
    assert!(!out.status.success(), "{line:?} went through");
    assert!(said.contains(word), "{line:?}: {said}");
    assert!(!said.contains("damaged"), "{line:?}: {said}");
}

/// `mount --cleaner` of an FFS, and much else, was taken and ignored.
#[test]
fn what_a_command_would_ignore_is_an_error_that_names_it() {
    let place = Place::new("options-ignored");
    let (lfs, ffs, page) = (place.path("lfs.img"), place.path("ffs.img"), place.path("page.html"));
    for (layout, image) in [("lfs", &lfs), ("ffs", &ffs)] {
        let made = twinfs(&["mkfs", "--layout", layout, "--size", "32M", image]);
        assert!(made.status.success(), "{}", text(&made.stderr));
    }
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/libgit2-build.tw");
    let new = place.path("new.img");
    let lines: &[(&[&str], &str)] = &[
        (&["mkfs", "--size", "32M", "--ordering", "sync", &new], "--ordering"),
        (&["mkfs", "--size", "32M", "--bytes-per-inode", "8K", &new], "--bytes-per-inode"),
        (&["mkfs", "--size", "32M", "--layout", "ffs", "--segment-size", "1M", &new], "--segment"),
        (&["mount", &ffs, "/nowhere", "--cleaner", "when=idle"], "--cleaner"),
        (&["mount", &lfs, "/nowhere", "--log-file", &page], "--log"),
        (&["mount", &lfs, "/nowhere", "--log", "flush"], "--log-file"),
        (&["mount", &lfs, "/nowhere", "--log", "flushes"], "did you mean \"flush\""),
        (&["mount", &lfs, "/nowhere", "--log", "flush", "--log-file", &lfs], "the image itself"),
        (&["mount", &ffs, "/nowhere", "--status", &page], "--status"),
        (&["mount", &lfs, "/nowhere", "-o", "ro", "--journal-file", &page], "read-only"),
        (&["mount", &lfs, "/nowhere", "--take-over"], "volumes in buckets"),
        (&["mount", "s3://b/v", "/nowhere", "-o", "ro", "--journal-file", &page], "read-only"),
        (&["mount", &lfs, "/nowhere", "--contents"], "--record"),
        (&["mount", &lfs, "/nowhere", "--contents", "--flight", &page], "--contents"),
        (&["mount", &lfs, "/nowhere", "--read-only", "--write-through"], "--write-through"),
        (&["mount", &lfs, "/nowhere", "--read-only", "--cleaner", "when=idle"], "--cleaner"),
        (&["check", &ffs, "--data"], "--data"),
        (&["clean", &ffs], "FFS"),
        (&["grow", &ffs], "only a log does"),
        (&["grow", &lfs, "--size", "1M"], "does not become smaller"),
        (&["clean", &lfs, "--cleaner", "when=idle"], "when"),
        (&["clean", &lfs, "--cleaner", "victim=greedy,clean-step=4096"], "clean-step"),
        (&["dump", &ffs, "segments"], "no structure called"),
        (&["dump", &lfs, "segments", "3"], "only one"),
        (&["compare", "--details", "--format", "csv", "lfs"], "--details"),
        (&["stat", &lfs, "--json", "--format", "csv"], "--json"),
        (&["replay", trace, "--verify", "--speed", "2"], "--speed"),
        (&["replay", trace, "--verify", "--pace", "think"], "--pace"),
        (&["replay", trace, "--speed", "2"], "--speed"),
        (&["compare", "-t", trace, "lfs", "--speed", "2"], "--speed"),
        (&["compare", "lfs", "--seed", "2"], "--workload"),
        (&["compare", "lfs", "--trace", trace, "--seed", "2"], "--seed"),
        (&["compare", "lfs", "--list"], "--list"),
        (&["compare", "ffs:victim=greedy"], "victim"),
        (&["compare", "lfs:request-us=9"], "request-us"),
        (&["presets", "lfs", "--list"], "--list"),
        (&["reproduce", "--measured", &page], "--html"),
        (&["reproduce", "--list", "--sensitivity"], "--list"),
        (&["compare", "lfs", "--seeds", "0"], "--seeds"),
        (&["volume", "--workload", "zipf", "--trace-format", "msr"], "--trace-format"),
        (&["volume", "--workload", "hot-cold", "--exponent", "0.5"], "--exponent"),
        (&["top", "--slow", "1"], "--slow"),
        (&["top", "--accesses"], "--accesses"),
        (&["top", "--pace", "think"], "--pace"),
        (&["top", "--count", "3"], "--count"),
        (&["top", "--config", "lfs", "--rate", "9"], "--rate"),
        (&["top", "--config", "lfs", "--victim", "greedy"], "--victim"),
        (&["top", "--config", "lfs", "--seed", "9"], "--seed"),
        (&["top", "--trace", trace, "--blocks", "9"], "--blocks"),
        (&["top", "--mount", &page, "--slow", "1"], "--slow"),
        (&["top", "--mount", &page, "--workload", "zipf"], "--workload"),
    ];
    lines.iter().for_each(|(line, word)| must_fail(line, word));
    assert!(!std::path::Path::new(&page).exists() && !std::path::Path::new(&new).exists());
}

/// `bench --only` without `--peers` was taken and ignored.
#[test]
fn what_a_benchmark_would_ignore_is_an_error_that_names_it() {
    let lines: &[(&[&str], &str)] = &[
        (&["bench", "--config", "lfs", "--only", "lfs"], "--only"),
        (&["bench", "--config", "lfs", "--at", "/tmp"], "--at"),
        (&["bench", "--config", "lfs", "--size", "4G"], "--size"),
        (&["bench", "--config", "lfs", "--runs", "3"], "--runs"),
        (&["bench", "--config", "lfs", "--cold", "true"], "--cold"),
        (&["bench", "--dir", ".", "--log", "queue"], "--log"),
        (&["bench", "--device", ".", "--size", "4G"], "--size"),
        (&["bench", "--device", ".", "--runs", "3"], "--runs"),
        (&["bench", "small", "--device", "."], "--device"),
    ];
    lines.iter().for_each(|(line, word)| must_fail(line, word));
}

#[test]
fn what_a_study_of_caches_would_ignore_is_an_error_and_names_are_suggested() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/libgit2-build.tw");
    let lines: &[(&[&str], &str)] = &[
        (&["cache", trace, "--rules", "paper"], "--objects"),
        (&["cache", trace, "--objects", "--block-size", "8K"], "--block-size"),
        (&["cache", trace, "--objects", "--frames", "8"], "--frames"),
        (&["cache", trace, "--sizes", "1M", "--frames", "8"], "--frames"),
        (&["cache", trace, "--policies", "lru,acr"], "did you mean \"arc\""),
        (&["cache", trace, "--trace-format", "msrr"], "did you mean \"msr\""),
        (&["cache", trace, "--disk", "hp97561"], "did you mean \"hp97560\""),
        (&["mount", trace, "/nowhere", "--replacement", "belady"], "in advance"),
    ];
    lines.iter().for_each(|(line, word)| must_fail(line, word));
}

/// The one whose volume was too small, and did a seventh less of the work, was shown as the fastest
/// with success; one that could not run took the results of the others with it.
#[test]
fn a_configuration_that_fails_is_said_to_and_has_no_rank() {
    let place = Place::new("options-compare");
    let page = place.path("page.html");
    let args = ["compare", "lfs:size=20M", "lfs", "lfs:size=1M", "ffs", "--json"];
    let out = twinfs(&[&args[..], &["--html", &page]].concat());
    assert_eq!(out.status.code(), Some(1));
    let runs: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let find =
        |name: &str| runs["rows"].as_array().unwrap().iter().find(|run| run["config"] == name);
    let small = find("lfs:size=20M").unwrap();
    assert!(small["failed"].as_u64().unwrap() > 1000 && small["rank"].is_null());
    let mut ranks = ["lfs", "ffs"].map(|name| find(name).unwrap()["rank"].as_u64().unwrap());
    ranks.sort_unstable();
    assert_eq!(ranks, [1, 2]);
    assert!(!find("lfs:size=1M").unwrap()["error"].as_str().unwrap().is_empty());
    let said = text(&out.stderr);
    for words in ["lfs:size=20M: ", "operations failed", "cannot run", "lfs:size=1M"] {
        assert!(said.contains(words), "{said}");
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("FAILED operations") && page.contains("lfs:size=1M could not run"));

    let shown = text(&twinfs(&args[..5]).stdout);
    assert!(shown.starts_with("lfs wins by waiting"), "{shown}");
    let place = |name: &str| shown.find(&format!(" {name} ")).unwrap();
    assert!(place("lfs:size=20M") > place("ffs"), "it stands last: {shown}");
    assert!(shown.contains("FAILED") && shown.contains("cannot run"), "{shown}");
    assert!(twinfs(&["compare", "lfs", "ffs"]).status.success());
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/libgit2-build.tw");
    assert!(twinfs(&["replay", trace]).status.success());
    let out = twinfs(&["replay", trace, "--config", "lfs:size=20M"]);
    assert!(!out.status.success() && text(&out.stderr).contains("operations failed"));
}

/// A page was written over whatever had its name, when the minutes of work were done.
#[test]
fn results_are_not_written_over_what_is_no_page() {
    let place = Place::new("options-page");
    let letter = place.path("letter");
    std::fs::write(&letter, "Dear Sir").unwrap();
    let out = twinfs(&["compare", "lfs", "--html", &letter]);
    assert!(!out.status.success());
    assert!(text(&out.stderr).contains("is no HTML page"), "{}", text(&out.stderr));
    assert_eq!(std::fs::read_to_string(&letter).unwrap(), "Dear Sir");
}
