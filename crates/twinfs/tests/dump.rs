//! `twinfs dump` as a user runs it: exit status, standard output and standard error.

use std::path::PathBuf;
use std::process::{Command, Output};

/// An image in a directory of its own, removed at the end.
struct Image {
    dir: PathBuf,
    image: PathBuf,
}

impl Image {
    fn new(name: &str) -> Image {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("dump-{name}"));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let image = dir.join("disk.img");
        let made = twinfs(&["mkfs", "--size", "16M", image.to_str().unwrap()]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Image { dir, image }
    }

    fn dump(&self, args: &[&str]) -> Output {
        let (options, rest) = args.split_at(args.iter().take_while(|a| a.starts_with('-')).count());
        let image = self.image.to_str().unwrap();
        twinfs(&[&["dump"], options, &[image], rest].concat())
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn twinfs(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_twinfs")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.into()).unwrap()
}

#[test]
fn every_structure_of_a_new_volume_is_shown_in_words_and_in_json() {
    let image = Image::new("new");
    for what in [
        &[][..],
        &["superblock"],
        &["checkpoints"],
        &["segments"],
        &["summaries"],
        &["summaries", "0"],
        &["ifile"],
        &["snapshots"],
        &["inodes"],
        &["inode", "2"],
        &["dir", "/"],
        &["file-map", "1"],
    ] {
        let out = image.dump(what);
        assert!(out.status.success(), "{what:?}: {}", text(&out.stderr));
        assert!(text(&out.stdout).lines().count() > 2, "{what:?}");
        let out = image.dump(&[&["--json"], what].concat());
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(json["problems"], serde_json::json!([]), "{what:?}");
    }
    let json = image.dump(&["--json", "dir", "/"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["entries"][1]["name"], "..");
    assert_eq!(json["directory"]["ino"], 2);
}

#[test]
fn what_is_not_there_fails_with_a_reason() {
    let image = Image::new("missing");
    for (args, reason) in [
        (&["inode", "/none"][..], "there is no \"none\" in directory 2"),
        (&["inode"], "which one?"),
        (&["summaries", "77777"], "there is no segment 77777"),
        (&["segments", "3"], "only one of these"),
    ] {
        let out = image.dump(args);
        assert!(!out.status.success(), "{args:?}");
        assert!(text(&out.stderr).contains(reason), "{args:?}: {}", text(&out.stderr));
    }
}

#[test]
fn damage_makes_it_fail_and_go_on() {
    let image = Image::new("damaged");
    let mut bytes = std::fs::read(&image.image).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&image.image, bytes).unwrap();
    let out = image.dump(&["dir", "/"]);
    assert!(!out.status.success());
    assert!(text(&out.stdout).contains(".."));
    assert!(text(&out.stderr).contains("superblock"), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("byte 0"), "{}", text(&out.stderr));
}

/// A JSON object on standard output.
fn json(args: &[&str]) -> serde_json::Value {
    let out = twinfs(args);
    let said = text(&out.stderr);
    assert!(out.status.success(), "{args:?}: {said}");
    serde_json::from_slice(&out.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

#[test]
fn an_aged_volume_of_every_layout_is_sound_and_layout_says_of_it_what_the_simulation_said() {
    for layout in ["lfs", "ffs", "vsfs"] {
        let place = Image::new(&format!("aged-{layout}"));
        let path = |name: &str| place.dir.join(name).to_str().unwrap().to_owned();
        let (one, two, snap) = (path("one.img"), path("two.img"), path("one.snap"));
        let age = |to: &str| {
            let volume = ["age", "--layout", layout, "--profile", "agrawal", "--size", "24M"];
            let how = ["--full", "70%", "--seed", "3", "--turnover", "3", "--json", "-o", to];
            json(&[&volume[..], &how].concat())
        };
        let (said, again) = (age(&one)["rows"][0].take(), age(&two)["rows"][0].take());
        assert_eq!(said["failed"], 0, "{said}");
        assert_eq!(said["layout_score"], again["layout_score"]);
        assert!(
            std::fs::read(&one).unwrap() == std::fs::read(&two).unwrap(),
            "same seed, same bytes"
        );
        let checked = twinfs(&["check", &one]);
        assert!(checked.status.success(), "{layout}: {}", text(&checked.stdout));
        let before = std::fs::read(&one).unwrap();
        let of_image = json(&["layout", &one, "--format", "json"])["details"].take();
        for key in ["layout_score", "layout_score_without_fragments", "dynamic_score", "files"] {
            assert_eq!(of_image[key], said[key], "{layout}: {key}");
        }
        let made = twinfs(&["snapshot", &one, "-o", &snap]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        let of_snapshot = json(&["layout", &snap, "--json"])["details"].take();
        for key in ["layout_score", "dynamic_score", "free", "classes", "used_share"] {
            assert_eq!(of_snapshot[key], of_image[key], "{layout}: {key}");
        }
        assert!(before == std::fs::read(&one).unwrap(), "the source is as it was");
        // A process a file: one layout is enough, the maps are made by the same code for all.
        if layout == "ffs" {
            let score = of_image["layout_score"].as_f64().unwrap();
            assert!((score - score_of_single_maps(&one)).abs() < 1e-9, "{score}");
        }
    }
}

/// The layout score of an image from the map of each single file.
fn score_of_single_maps(image: &str) -> f64 {
    let inodes = json(&["dump", image, "inodes", "--json"]);
    let (mut counted, mut following) = (0, 0);
    for inode in inodes["inodes"].as_array().unwrap().iter().filter(|i| i["kind"] == "file") {
        let map = json(&["dump", image, "file-map", &inode["ino"].to_string(), "--json"]);
        let mut end = None;
        for run in map["map"].as_array().unwrap().iter().filter(|run| run["kind"] == "data") {
            let number = |key: &str| run[key].as_u64().unwrap();
            counted += number("blocks") - u64::from(end.is_none());
            following += number("blocks") - 1 + u64::from(end == Some(number("at")));
            end = Some(number("at") + number("bytes"));
        }
    }
    following as f64 / counted as f64
}

#[test]
fn what_layout_and_snapshot_cannot_read_is_named() {
    let place = Image::new("not-readable");
    let path = |name: &str| place.dir.join(name).to_str().unwrap().to_owned();
    let (snap, cut, letter) = (path("a.snap"), path("cut.snap"), path("letter.txt"));
    let image = place.image.to_str().unwrap();
    assert!(twinfs(&["snapshot", image, "-o", &snap]).status.success());
    let bytes = std::fs::read(&snap).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 9]).unwrap();
    std::fs::write(&letter, "Dear Sir").unwrap();
    for (args, why) in [
        (&["layout", &cut][..], "cut off"),
        (&["layout", &letter], "not a twinfs volume"),
        (&["layout", "/proc/self"], "FIEMAP"),
        (&["layout", "/no such place"], "No such file"),
        (&["snapshot", image, "-o", &snap], "exists already"),
        (&["layout", "--snapshots", "/proc/self/fdinfo"], "no snapshot"),
        (&["age", "--size", "24M", "--profile", "agrawl", "-o", &path("x.img")], "agrawal"),
        (&["age", "--size", "64K", "-o", &path("x.img")], "--size"),
    ] {
        let out = twinfs(args);
        let said = text(&out.stderr);
        assert!(!out.status.success() && said.contains(why), "{args:?}: {said}");
        assert!(!std::path::Path::new(&path("x.img")).exists(), "nothing is left behind");
    }
    // A history with a damaged snapshot is shown without it, and is no success.
    let shown = twinfs(&["layout", "--snapshots", place.dir.to_str().unwrap()]);
    assert_eq!(shown.status.code(), Some(1), "{}", text(&shown.stdout));
    assert!(text(&shown.stdout).contains("a.snap") && text(&shown.stderr).contains("cut.snap"));
    std::fs::remove_file(&cut).unwrap();
    let history = json(&["layout", "--snapshots", place.dir.to_str().unwrap(), "--json"]);
    assert_eq!(history["rows"].as_array().map(Vec::len), Some(1), "{history}");
}
