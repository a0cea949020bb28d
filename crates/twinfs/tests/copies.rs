//! Copies of snapshots, as a user makes them: `twinfs age --copy`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use twin_age::{Layout, VolumeMap, snapshot};

/// A directory with a snapshot of an aged FFS volume of 24 MB, removed at the end.
struct Aged(PathBuf);

impl Aged {
    fn new(name: &str) -> Aged {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("copies-{name}"));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let aged = Aged(dir);
        let volume = ["age", "--layout", "ffs", "--profile", "agrawal", "--size", "24M"];
        let how = ["--full", "70%", "--seed", "3", "--turnover", "3", "-o", &aged.path("old.img")];
        good(&[&volume[..], &how].concat());
        good(&["snapshot", "--names", &aged.path("old.img"), "-o", &aged.path("old.snap")]);
        aged
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A copy of the snapshot as an image that checks clean, and its map.
    fn copy(&self, places: &str) -> VolumeMap {
        let image = self.path(&format!("{places}.img"));
        let snap = self.path(&format!("{places}.snap"));
        let from = self.path("old.snap");
        good(&["age", "--copy", &from, "--layout", "ffs", "--places", places, "-o", &image]);
        good(&["check", &image]);
        good(&["snapshot", "--names", &image, "-o", &snap]);
        map(&snap)
    }
}

impl Drop for Aged {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn twinfs(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_twinfs")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.into()).unwrap()
}

fn good(args: &[&str]) -> String {
    let out = twinfs(args);
    assert!(out.status.success(), "{args:?}: {}{}", text(&out.stdout), text(&out.stderr));
    text(&out.stdout)
}

fn map(path: impl AsRef<Path>) -> VolumeMap {
    snapshot::decode(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_copy_with_its_files_in_place_has_the_layout_and_the_free_space_of_the_original() {
    let aged = Aged::new("files");
    let copy = aged.copy("files");
    let original = map(aged.path("old.snap"));
    assert!(original.regular().count() > 100);
    assert_eq!(copy.free, original.free);
    let layout = |image: &str| -> serde_json::Value {
        let text = good(&["layout", &aged.path(image), "--json"]);
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["details"].take()
    };
    let (old, new) = (layout("old.img"), layout("files.img"));
    for key in ["layout_score", "files", "file_bytes", "free", "classes", "used_share"] {
        assert_eq!(new[key], old[key], "{key}");
    }
    // The dynamic score follows the order of names in directories. An aged directory has its later
    // names in the gaps of removed ones, its copy has them one after the other: only the order differs.
    assert_eq!(dynamic_score_by_name(copy), dynamic_score_by_name(original));
}

/// The dynamic score of a reader who sorts the names of each directory.
fn dynamic_score_by_name(mut map: VolumeMap) -> Option<f64> {
    map.names.sort_by(|a, b| a.name.cmp(&b.name));
    Layout::of(&map).dynamic.value()
}

#[test]
fn a_copy_of_the_free_space_is_free_nowhere_else_and_nearly_everywhere_there() {
    let aged = Aged::new("free");
    let (copy, original) = (aged.copy("free"), map(aged.path("old.snap")));
    let (free, there) = (copy.free.unwrap(), original.free.unwrap());
    for range in &free {
        let inside = there.iter().any(|r| r.start <= range.start && range.end <= r.end);
        assert!(inside, "{range:?} is used in the original");
    }
    let bytes =
        |ranges: &[std::ops::Range<u64>]| ranges.iter().map(|r| r.end - r.start).sum::<u64>();
    // The directories of the fillers come on top.
    assert!(bytes(&there) - bytes(&free) < 100_000, "{} of {}", bytes(&free), bytes(&there));
}

#[test]
fn what_cannot_be_copied_is_named_and_leaves_nothing_behind() {
    let aged = Aged::new("refused");
    let snap = aged.path("old.snap");
    let mut foreign = map(&snap);
    foreign.system = "ext4".into();
    let mut unknown = foreign.clone();
    unknown.free = None;
    for (name, map) in [("foreign", &foreign), ("unknown", &unknown)] {
        let bytes = snapshot::encode(map, true).unwrap();
        std::fs::write(aged.path(&format!("{name}.snap")), bytes).unwrap();
    }
    let whole = std::fs::read(&snap).unwrap();
    std::fs::write(aged.path("cut.snap"), &whole[..whole.len() / 2]).unwrap();
    let (foreign, unknown) = (aged.path("foreign.snap"), aged.path("unknown.snap"));
    let (cut, to) = (aged.path("cut.snap"), aged.path("x.img"));
    for (args, why) in [
        (&["--layout", "lfs", "--copy", &snap, "--places", "free"][..], "chooses the places"),
        (&["--layout", "ffs", "--copy", &snap, "--size", "32M"], "made in another way"),
        (&["--layout", "ffs", "--copy", &snap, "--with", "block=4K"], "made in another way"),
        (&["--layout", "ffs", "--copy", &foreign], "only its free space"),
        (&["--layout", "ffs", "--copy", &unknown, "--places", "free"], "what is free"),
        (&["--layout", "ffs", "--copy", &cut], "cut off"),
        (&["--layout", "ffs", "--copy", &snap, "--profile", "meyer"], "--profile"),
    ] {
        let out = twinfs(&[&["age"], args, &["-o", &to]].concat());
        let said = text(&out.stderr);
        assert!(!out.status.success() && said.contains(why), "{args:?}: {said}");
        assert!(!Path::new(&to).exists(), "{args:?} left a file behind");
    }
    // The free space of another file system does fit.
    let out = ["age", "--layout", "ffs", "--copy", &foreign, "--places", "free", "-o", &to];
    good(&out);
    good(&["check", &to]);
}

#[test]
fn simulations_begin_on_copies() {
    let aged = Aged::new("from");
    let snap = aged.path("old.snap");
    let said = good(&[
        "compare",
        "--from",
        &snap,
        "--places",
        "files",
        "-w",
        "small-files:files=500",
        "ffs:frag=4K",
    ]);
    assert!(said.contains("copies of"), "{said}");
}
