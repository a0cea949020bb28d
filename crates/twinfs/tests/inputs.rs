//! Traces that are empty, cut off or damaged: each command says how much of them is good, and what it
//! advises works.

use std::path::PathBuf;
use std::process::{Command, Output};

use twin_trace::{Header, Kind, Traits, Writer};

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/libgit2-build.tw");

fn twinfs(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_twinfs")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.into()).unwrap()
}

/// A file of this test's own.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("inputs-{name}"));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// The number before " operations" in a message.
fn operations(said: &str) -> u64 {
    let (front, _) = said.split_once(" operations").unwrap_or_else(|| panic!("{said}"));
    front.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_trace_that_was_cut_off_is_used_up_to_there_and_is_no_success() {
    let whole = std::fs::read(TRACE).unwrap();
    let path = file("cut.tw", &whole[..whole.len() / 3]);
    let path = path.to_str().unwrap();
    for args in [&["replay", path, "--json"][..], &["compare", "-t", path, "lfs", "--json"]] {
        let out = twinfs(args);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("cut off"), "{said}");
        let rows: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(rows[0]["ops"].as_u64(), Some(operations(&said)), "{args:?}: {said}");
    }
    let path = file("no-frame.tw", &whole[..300]);
    let out = twinfs(&["compare", "-t", path.to_str().unwrap(), "lfs"]);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(1), String::new()));
    assert!(text(&out.stderr).contains("No operation is left"), "{}", text(&out.stderr));
}

#[test]
fn of_a_damaged_trace_the_good_part_can_be_had_as_advised() {
    let mut bytes = std::fs::read(TRACE).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 0xff;
    let path = file("damaged.tw", &bytes);
    let out = twinfs(&["replay", path.to_str().unwrap()]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1));
    let (_, advice) = said.split_once("`head -c ").unwrap_or_else(|| panic!("{said}"));
    let good: usize = advice.split(' ').next().unwrap().parse().unwrap();
    let rest = file("good.tw", &bytes[..good]);
    let out = twinfs(&["replay", rest.to_str().unwrap(), "--json"]);
    let rows: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(rows[0]["ops"].as_u64(), Some(operations(&said)), "{said}");
}

#[test]
fn a_trace_without_operations_is_said_to_be_one() {
    let header = Header {
        kind: Kind::Operations,
        start: twin_rt::Time(0),
        seed: 1,
        traits: Traits::default(),
        text: "nothing was done".into(),
    };
    let empty = Writer::new(Vec::new(), &header).unwrap().finish().unwrap();
    let path = file("empty.tw", &empty);
    let path = path.to_str().unwrap();
    for args in [&["compare", "-t", path][..], &["replay", path], &["top", "--plain", "-t", path]] {
        let out = twinfs(args);
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), text(&out.stdout)), (Some(1), String::new()), "{args:?}");
        assert!(said.contains("holds no operation") && said.contains("empty.tw"), "{said}");
    }
}
