//! What each model of persistence leaves of small histories, every state of them.

use std::collections::{BTreeMap, BTreeSet};

use twin_crashlab::history::{Event, What};
use twin_crashlab::model::model;
use twin_crashlab::tree::{Meta, ROOT};
use twin_crashlab::{Budget, History, Outcome, Search, Space, State, Tree};
use twin_fs::mode;

/// A history in words: `create a`, `write a 0 text`, `truncate a 0`, `rename a b`, `close a`, `fsync a` (`.` for the
/// root), `ack label`.
fn history(lines: &[&str]) -> History {
    let (mut ids, mut sizes) = (BTreeMap::from([(".", ROOT)]), BTreeMap::new());
    let mut events = Vec::new();
    for (since, line) in lines.iter().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let name = |at: usize| words[at].as_bytes().into();
        let next = ids.len() as u64;
        let what = match words[0] {
            "create" => {
                let meta = Meta { mode: mode::REGULAR | 0o644, uid: 0, gid: 0, rdev: 0 };
                ids.insert(words[1], next);
                What::Make { dir: ROOT, name: name(1), id: next, meta, target: None }
            }
            "write" => {
                let (id, off): (u64, u64) = (ids[words[1]], words[2].parse().unwrap());
                let size = sizes.entry(id).or_insert(0u64);
                let was = *size;
                *size = was.max(off + words[3].len() as u64);
                What::Write { id, off, bytes: words[3].as_bytes().into(), was }
            }
            "truncate" => {
                let (id, size) = (ids[words[1]], words[2].parse().unwrap());
                let was = sizes.insert(id, size).unwrap_or(0);
                What::Resize { id, size, was }
            }
            "rename" => {
                let id = ids.remove(words[1]).unwrap();
                let replaced = ids.insert(words[2], id);
                let (name, to_name) = (name(1), name(2));
                What::Rename {
                    dir: ROOT,
                    name,
                    to_dir: ROOT,
                    to_name,
                    id,
                    replaced,
                    exchange: false,
                }
            }
            "close" => What::Close { id: ids[words[1]] },
            "fsync" => What::Fsync { id: ids[words[1]], data_only: false, since },
            "ack" => What::Ack { label: words[1].into() },
            other => panic!("{other}"),
        };
        events.push(Event { what, path: words[1].into() });
    }
    History { events, ..History::default() }
}

/// What a name holds in a tree, with `0` for a zero.
fn text(tree: &Tree, name: &str) -> String {
    match tree.find(ROOT, name.as_bytes()) {
        None => "none".into(),
        Some(id) => String::from_utf8(tree.bytes(id)).unwrap().replace('\0', "0"),
    }
}

/// What a name can hold after a failure at the end, over all states.
fn left(lines: &[&str], like: &str, of: impl Fn(&Tree) -> String) -> BTreeSet<String> {
    let space = Space::of(history(lines), model(like).unwrap());
    assert!(space.len() <= 16);
    let mut found = BTreeSet::new();
    for mask in 0..1u32 << space.len() {
        let missing = (0..space.len()).filter(|part| mask >> part & 1 == 1).collect();
        let state = State { upto: space.len(), missing, torn: None };
        if space.moment(&state) == Some(space.history.events.len()) {
            found.insert(of(&space.tree(&state)));
        }
    }
    found
}

fn contents(lines: &[&str], like: &str, name: &str) -> BTreeSet<String> {
    left(lines, like, |tree| text(tree, name))
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn an_fsync_of_one_file_makes_the_earlier_names_of_others_certain_where_there_is_a_journal() {
    let lines = ["create a", "create b", "write b 0 x", "fsync b"];
    for like in ["ext4", "xfs"] {
        assert_eq!(contents(&lines, like, "a"), set(&[""]), "{like}");
        assert_eq!(contents(&lines, like, "b"), set(&["x"]), "{like}");
    }
    assert_eq!(contents(&lines, "posix", "a"), set(&["", "none"]));
    assert_eq!(contents(&lines, "posix", "b"), set(&["x", "none"]));
    let synced = [&lines[..], &["fsync ."]].concat();
    assert_eq!(contents(&synced, "posix", "b"), set(&["x"]));
}

#[test]
fn a_name_that_is_there_has_all_earlier_names_beside_it_where_there_is_a_journal() {
    let lines = ["create a", "create b"];
    let both = |tree: &Tree| format!("{} {}", text(tree, "a"), text(tree, "b"));
    for like in ["ext4", "xfs"] {
        assert_eq!(left(&lines, like, both), set(&["none none", " none", " "]), "{like}");
    }
    assert_eq!(left(&lines, "posix", both), set(&["none none", " none", "none ", " "]));
}

#[test]
fn appending_to_an_end_that_is_on_the_disk_may_leave_zeros_on_ext4_and_not_on_xfs() {
    let lines = ["create a", "write a 0 ab", "fsync a", "write a 2 cd"];
    assert_eq!(contents(&lines, "ext4", "a"), set(&["ab", "ab00", "abcd"]));
    assert_eq!(contents(&lines, "xfs", "a"), set(&["ab", "abcd"]));
}

#[test]
fn a_file_that_was_emptied_and_closed_has_its_data_before_the_next_name_on_ext4_alone() {
    let lines = [
        "create a",
        "write a 0 old",
        "fsync a",
        "truncate a 0",
        "write a 0 new",
        "close a",
        "create b",
    ];
    let with_b = |tree: &Tree| match text(tree, "b").as_str() {
        "none" => "-".into(),
        _ => text(tree, "a"),
    };
    assert_eq!(left(&lines, "ext4", with_b), set(&["-", "new"]));
    assert_eq!(left(&lines, "xfs", with_b), set(&["-", "", "new"]));
    // Between the two it is empty everywhere.
    assert!(contents(&lines, "ext4", "a").contains(""));
}

#[test]
fn blocks_that_are_there_are_overwritten_one_by_one() {
    let (old, new) = ("o".repeat(8192), "n".repeat(8192));
    let (first, second) = (format!("write a 0 {old}"), format!("write a 0 {new}"));
    let lines = ["create a", &first, "fsync a", &second];
    let ends = |tree: &Tree| {
        let text = text(tree, "a");
        format!("{}{}", &text[..1], &text[8191..])
    };
    for like in ["ext4", "xfs"] {
        assert_eq!(left(&lines, like, ends), set(&["oo", "on", "no", "nn"]), "{like}");
    }
}

#[test]
fn new_blocks_come_in_order_on_ext4_and_with_gaps_on_xfs() {
    let write = format!("write a 0 {}", "n".repeat(12288));
    let lines = ["create a", &write];
    let blocks = |tree: &Tree| text(tree, "a").bytes().step_by(4096).map(char::from).collect();
    let none = "n"; // of "none"
    assert_eq!(left(&lines, "ext4", blocks), set(&["", none, "nn", "nnn"]));
    let xfs = left(&lines, "xfs", blocks);
    assert!(xfs.is_superset(&set(&["0n", "n0n", "00n", "nnn"])), "{xfs:?}");
}

/// The verdict of a search, with the reasons.
fn reasons(lines: &[&str], like: &str, check: impl Fn(&Tree, &[String]) -> bool) -> Vec<String> {
    let space = Space::of(history(lines), model(like).unwrap());
    let mut search = Search::new(space, Budget { states: 1000, seed: 1 });
    let outcome = |tree: &Tree, acked: &[String]| match check(tree, acked) {
        true => Outcome::Passed,
        false => Outcome::Failed { how: "exit 1".into(), said: String::new() },
    };
    while let Some(trial) = search.next_trial() {
        let said = outcome(&trial.tree, &trial.acked);
        search.judge(trial, said);
    }
    assert_eq!(search.findings().cut, None);
    let classes = search.classes(100, &mut |trial| outcome(&trial.tree, &trial.acked));
    classes.into_iter().map(|class| class.why).collect()
}

#[test]
fn a_search_names_the_one_sync_that_is_missing() {
    let lines = [
        "create a",
        "write a 0 x",
        "fsync a",
        "fsync .",
        "ack a",
        "create b",
        "write b 0 x",
        "fsync .",
        "ack b",
    ];
    let check = |tree: &Tree, acked: &[String]| acked.iter().all(|name| text(tree, name) == "x");
    for like in ["ext4", "xfs", "posix"] {
        let reasons = reasons(&lines, like, check);
        assert!(!reasons.is_empty(), "{like}");
        for why in reasons {
            assert!(
                why.starts_with("no fsync of b between `append b: 1 bytes at 0` and"),
                "{like}: {why}"
            );
        }
    }
}

#[test]
fn a_program_that_syncs_all_that_it_promises_has_no_state_that_fails() {
    let lines = ["create a", "write a 0 x", "fsync a", "fsync .", "ack a", "truncate a 0"];
    let lost = |tree: &Tree, acked: &[String]| acked.iter().all(|name| text(tree, name) != "none");
    for like in ["ext4", "xfs", "posix"] {
        assert!(reasons(&lines, like, lost).is_empty(), "{like}");
    }
}

/// A moment is a number of operations, a sync, or the end; acknowledgements are no operations.
#[test]
fn a_history_ends_at_its_moment() {
    let all = history(&["create a", "ack 1", "fsync a", "create b", "ack 2", "fsync b"]);
    let events = |moment: &str| all.until(moment).map(|history| history.events.len());
    assert_eq!(events("0"), Ok(0));
    assert_eq!((events("1"), events("2")), (Ok(2), Ok(3)));
    assert_eq!((events("fsync 1"), events("fsync 2")), (Ok(2), Ok(5)));
    assert_eq!((events("4"), events("end")), (Ok(6), Ok(6)));
    assert!(events("5").unwrap_err().contains("has 4"));
    assert!(events("fsync 3").unwrap_err().contains("has 2"));
    assert!(events("tomorrow").is_err());
}

/// States of one moment have what was certain then, and leave the rest open.
#[test]
fn states_at_the_end_leave_out_what_only_an_earlier_failure_leaves() {
    let all = history(&["create a", "fsync a", "create b"]);
    let mut search =
        Search::new(Space::of(all, model("ext4").unwrap()), Budget { states: 100, seed: 1 });
    search.only_at_the_end();
    let mut seen = BTreeSet::new();
    while let Some(trial) = search.next_trial() {
        seen.insert((text(&trial.tree, "a"), text(&trial.tree, "b")));
        search.judge(trial, Outcome::Passed);
    }
    let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
    assert_eq!(seen, BTreeSet::from([pair("", ""), pair("", "none")]));
}

/// Whoever looks at the recoveries of states and runs out of time has seen some from all over the search.
#[test]
fn a_beginning_of_the_states_that_passed_is_from_all_over_the_search() {
    let lines = ["create a", "write a 0 x", "create b", "write b 0 x", "create c", "write c 0 x"];
    let mut search = Search::new(
        Space::of(history(&lines), model("posix").unwrap()),
        Budget { states: 1000, seed: 1 },
    );
    let mut tried = Vec::new();
    while let Some(trial) = search.next_trial() {
        tried.push(trial.state.to_string());
        search.judge(trial, Outcome::Passed);
    }
    let chosen = search.passed(16);
    assert!((9..=16).contains(&chosen.len()), "{} of {}", chosen.len(), tried.len());
    let place = |state: &State| tried.iter().position(|name| *name == state.to_string()).unwrap();
    let mut first: Vec<usize> =
        chosen.iter().take(4).map(|state| place(state) * 4 / tried.len()).collect();
    first.sort_unstable();
    assert_eq!(first, [0, 1, 2, 3]);
}
