//! `twinfs snapshot` of images that are not mounted: what it keeps, prints and refuses.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir =
            std::env::temp_dir().join(format!("twinfs-snapshots-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Place(dir)
    }

    fn run(&self, words: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_twinfs"));
        command.current_dir(&self.0).args(words.split(' ')).output().unwrap()
    }

    fn good(&self, words: &str) -> String {
        let output = self.run(words);
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words}: {why}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Why a command fails, with this exit code.
    fn bad(&self, code: i32, words: &str) -> String {
        let output = self.run(words);
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words}: {why}");
        why
    }

    fn states(&self) -> Vec<(String, String)> {
        let rows: Vec<Value> =
            serde_json::from_str(&self.good("snapshot list v.img --json")).unwrap();
        let word = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
        rows.iter().map(|row| (word(row, "kind"), word(row, "name"))).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn named(states: &[(&str, &str)]) -> Vec<(String, String)> {
    states.iter().map(|(kind, name)| (kind.to_string(), name.to_string())).collect()
}

#[test]
fn states_of_an_image_are_kept_listed_compared_made_the_head_and_deleted() {
    let place = Place::new("states");
    place.good("mkfs --layout lfs --size 32M v.img");
    let kept: Vec<Value> =
        serde_json::from_str(&place.good("snapshot create v.img a --json")).unwrap();
    assert!(kept[0]["took_ns"].as_u64().unwrap() > 0 && kept[0]["kind"] == "snapshot", "{kept:?}");
    place.good("snapshot branch v.img work a");
    place.good("snapshot branch v.img now");
    let all = [("head", "main"), ("snapshot", "a"), ("branch", "work"), ("branch", "now")];
    assert_eq!(place.states(), named(&all));
    assert!(place.good("snapshot list v.img").contains("held for snapshots"));
    assert!(place.good("snapshot diff v.img a").contains("nothing differs"));
    assert_eq!(place.good("snapshot diff v.img a work --json").trim(), "[]");
    place.good("snapshot switch v.img work");
    place.good("snapshot rollback v.img a");
    let all = [("head", "work"), ("snapshot", "a"), ("branch", "now"), ("branch", "main")];
    assert_eq!(place.states(), named(&all));
    let dump = place.good("dump v.img snapshots");
    assert!(dump.contains("work") && dump.contains("main"), "{dump}");
    assert!(place.good("dump v.img segments").contains("pinned by 3"));
    place.good("check --data v.img");
    place.good("snapshot delete v.img a now main");
    assert_eq!(place.states(), named(&[("head", "work")]));
    place.good("check v.img");
}

#[test]
fn what_cannot_be_done_with_a_state_is_said() {
    let place = Place::new("refused");
    place.good("mkfs --layout lfs --size 32M v.img");
    place.good("snapshot create v.img a");
    for (words, word) in [
        ("snapshot create v.img a", "already"),
        ("snapshot create v.img main", "already"),
        ("snapshot create v.img a/b", "no slash"),
        ("snapshot branch v.img b nobody", "no such state"),
        ("snapshot delete v.img nobody", "no snapshot or branch"),
        ("snapshot delete v.img main", "is the head"),
        ("snapshot switch v.img a", "make a branch of it"),
        ("snapshot switch v.img main", "the head already"),
        ("snapshot rollback v.img nobody", "no snapshot or branch"),
        ("snapshot rollback . a", "unmount it"),
        ("snapshot diff v.img a nobody", "no snapshot or branch"),
        ("snapshot list nothing.img", "nothing.img"),
        ("snapshot create . b", "mounted"),
    ] {
        let why = place.bad(1, words);
        assert!(why.contains(word), "{words}: {why}");
    }
    place.bad(2, "snapshot create v.img");
    place.bad(2, "snapshot v.img");
    for layout in ["ffs", "vsfs"] {
        place.good(&format!("mkfs --layout {layout} --size 32M {layout}.img"));
        for words in ["create F s", "branch F s", "list F", "rollback F s", "diff F s"] {
            let why =
                place.bad(1, &format!("snapshot {}", words.replace('F', &format!("{layout}.img"))));
            assert!(why.contains("only a log does"), "{layout}, {words}: {why}");
        }
    }
    place.good("check v.img");
}

#[test]
fn the_map_of_an_image_is_still_written_by_its_option() {
    let place = Place::new("map");
    place.good("mkfs --layout lfs --size 32M v.img");
    place.good("snapshot v.img -o v.snap");
    assert!(place.0.join("v.snap").exists());
}
