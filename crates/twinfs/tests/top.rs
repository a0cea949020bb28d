//! `twinfs top` of a simulation and `twinfs compare --html`, as a user runs them.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const SMALL: &str = "lfs:size=32M,cache=1M,segment=256K";
const WRITES: &str = "zipf:writes=6000,file-bytes=16777216";
const ZIPF: [&str; 4] = ["--config", SMALL, "--workload", WRITES];

fn twinfs(args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twinfs"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that does not read it has ended before.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn top(more: &[&str], input: &str) -> String {
    let output = twinfs(&[&["top"], &ZIPF[..], more].concat(), input);
    assert!(output.status.success(), "{more:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Simulated seconds of the pictures.
fn times(text: &str) -> Vec<f64> {
    let heads = text.lines().filter_map(|line| line.strip_prefix("at "));
    heads.map(|head| head.split_once(" s").unwrap().0.parse().unwrap()).collect()
}

#[test]
fn a_simulation_is_shown_at_equal_distances_to_its_end() {
    let text = top(&["--every", "0.03125"], "");
    let times = times(&text);
    assert!(times.len() > 3, "{text}");
    for time in &times[..times.len() - 1] {
        assert_eq!((time / 0.03125).fract(), 0.0, "{times:?}");
    }
    assert!(times.is_sorted());
    assert!(text.lines().last().unwrap().contains("segments cleaned"), "{text}");
    for part in ["write cost", "segments clean (cleaned below", "device ", "tenths live"] {
        assert!(text.matches(part).count() >= times.len(), "{part}: {text}");
    }
}

#[test]
fn every_disk_access_is_shown_in_its_order_and_count_ends_it() {
    let text = top(&["--accesses", "--count", "40"], "");
    let times = times(&text);
    assert_eq!((times.len(), text.matches(": the disk ").count()), (40, 40), "{text}");
    assert!(times.is_sorted(), "{times:?}");
    assert!(text.contains(" KiB at segment ") && text.contains(" for write-back\n"), "{text}");
    assert!(!text.contains("operations in"), "it has not ended");
}

#[test]
fn by_hand_a_line_asks_for_one_picture_or_several() {
    let shown = |input| times(&top(&["--accesses", "--by-hand"], input)).len();
    assert_eq!([shown("q\n"), shown("\nq\n"), shown("5\n\nq\n"), shown("")], [1, 2, 7, 1]);
}

#[test]
fn what_cannot_be_shown_is_refused() {
    for (args, word) in [
        (&["--config", "ffs"][..], "has no log"),
        (&["--config", "lfs", "--workload", "nothing"], "nothing"),
        (&["--trace", "/nowhere.tw"], "/nowhere.tw"),
        (&["--config", "lfs", "--mount", "x"], "--mount"),
        (&["--config", "lfs", "--slow", "0"], "0.000001"),
    ] {
        let output = twinfs(&[&["top"], args].concat(), "");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(word), "{args:?}: {error}");
    }
}

#[test]
fn compare_writes_a_page_with_the_charts_of_each_log() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("top-page.html");
    let page = path.to_str().unwrap();
    let args = ["compare", SMALL, "ffs:size=64M", "--workload", WRITES, "--json"];
    let (plain, with) = (twinfs(&args, ""), twinfs(&[&args[..], &["--html", page]].concat(), ""));
    // Equal runs give the same bytes.
    assert!(with.status.success() && plain.stdout == with.stdout);
    let page = std::fs::read_to_string(&path).unwrap();
    // Once drawn and once as the label of the drawing; the clustered one has no log.
    assert_eq!(page.matches("full segments;").count(), 2);
    assert!(page.contains("cylinder groups, ") && page.contains("Write cost: "));
    assert!(page.contains("class=\"verdict\"") && page.contains("<th class=\"l\">victim</th>"));
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}
