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
