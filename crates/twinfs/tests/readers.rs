//! Traces of other programs, as these programs write them: what is in them is what their own text says.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A log of fio 3.33: two files, a fdatasync after every second write.
const FIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fio-3.33.log");

fn twinfs(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_twinfs")).args(args).output().unwrap()
}

/// The rows of a command that succeeds, and what it says beside them.
fn rows(args: &[&str]) -> (Value, String) {
    let out = twinfs(&[args, &["--json"]].concat());
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(0), "{args:?}: {said}");
    let shown: Value = serde_json::from_slice(&out.stdout).unwrap();
    (shown.get("rows").unwrap_or(&shown).clone(), said)
}

/// A count of `convert`.
fn count(rows: &Value, name: &str) -> u64 {
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name);
    row.map_or(0, |row| row["count"].as_u64().unwrap())
}

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("readers-{name}"))
}

/// The lines of a log of fio with this action.
fn lines_with(log: &str, action: &str) -> u64 {
    log.lines().filter(|line| line.split(' ').nth(2) == Some(action)).count() as u64
}

fn must_convert(log: &Path) {
    let text = std::fs::read_to_string(log).unwrap();
    let (found, said) = rows(&["convert", log.to_str().unwrap()]);
    assert_eq!(count(&found, "write"), lines_with(&text, "write"), "{text}");
    assert_eq!(count(&found, "read"), lines_with(&text, "read"), "{text}");
    let syncs = lines_with(&text, "sync") + lines_with(&text, "datasync");
    assert!(syncs > 0, "{text}");
    assert_eq!(count(&found, "fsync"), syncs, "{text}");
    // Microseconds, which were taken for milliseconds: a log of a second took a quarter of an hour.
    let last = text.lines().last().and_then(|line| line.split(' ').next()).unwrap();
    let last_us: u64 = last.parse().unwrap();
    assert!(count(&found, "seconds") <= last_us / 1_000_000, "{said}");
}

#[test]
fn the_syncs_and_the_times_of_a_log_of_fio_are_kept() {
    must_convert(Path::new(FIO));
}

#[test]
fn a_log_that_fio_has_just_written_is_read_as_it_says() {
    let (data, log) = (scratch("fio-data"), scratch("fio-log"));
    // fio adds to a log that is there.
    let _ = std::fs::remove_file(&log);
    let (file, to) = (data.display(), log.display());
    let args = format!(
        "--name=j --filename={file} --size=256k --rw=randrw --bs=4k --fsync=3 --io_size=128k \
         --write_iolog={to}"
    );
    let done = Command::new("fio").args(args.split_whitespace()).output();
    match done {
        Ok(out) if out.status.success() => must_convert(&log),
        _ => println!("skipped: fio is not installed"),
    }
}

/// Lines that were left out, and assumptions, are told by every command that reads a trace.
#[test]
fn what_is_left_out_and_assumed_is_told_in_words_and_in_json() {
    let path = scratch("rows.csv");
    std::fs::write(&path, "time,op,size,lbn\n0,W,4096,8\n1,peek,4096,16\n2,WS,4096,24\n").unwrap();
    let path = path.to_str().unwrap();
    let commands: [&[&str]; 4] = [
        &["convert", path],
        &["cache", path, "--policies", "lru", "--frames", "4"],
        &["compare", "-t", path, "lfs"],
        &["volume", "--trace", path, "--segment-blocks", "2"],
    ];
    for args in commands {
        let out = twinfs(&[args, &["--json"]].concat());
        let said = String::from_utf8(out.stderr).unwrap();
        let why = "1 of 3 lines left out: 1 with the operation peek (first in line 3)";
        assert!(said.contains(why), "{args:?}: {said}");
        assert!(said.contains("times are in seconds"), "{args:?}: {said}");
        if !out.status.success() {
            // Two blocks are few for a volume.
            assert_eq!(args[0], "volume", "{said}");
            continue;
        }
        let shown: Value = serde_json::from_slice(&out.stdout).unwrap();
        let rows = shown.get("rows").unwrap_or(&shown);
        let all = rows.as_array().unwrap();
        let reading = all.iter().find_map(|row| row.get("reading"));
        let reading = reading.unwrap_or_else(|| panic!("{args:?}: {rows}"));
        assert_eq!(reading["used"], 2, "{args:?}");
        assert_eq!(reading["left_out"][0]["first"], 3, "{args:?}");
    }
}

/// A trace of reads had a verdict on metadata: every read was of a hole.
#[test]
fn reads_of_a_block_trace_reach_the_disk() {
    let path = scratch("reads.csv");
    let line =
        |at: u64| format!("{},usr,0,Read,{},4096,4\n", 1000 + at * 10_000, at * 7919 % 9973 * 4096);
    let text: String = (0..500).map(line).collect();
    std::fs::write(&path, text).unwrap();
    let (found, said) = rows(&["compare", "-t", path.to_str().unwrap(), "lfs", "ffs"]);
    for run in found.as_array().unwrap() {
        assert_eq!(run["read_bytes"], 500 * 4096, "{run}");
        assert_eq!((&run["failed"], &run["diverged"]), (&0.into(), &0.into()));
        assert!(run["disk_use"]["reads"].as_u64() > Some(100), "{run}");
    }
    assert!(said.contains("bytes that are read before they are written"), "{said}");
}
