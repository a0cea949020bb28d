//! The rooms of the house, drawn from the imports of the code: `cargo xtask rooms`.
//!
//! Contract: a crate stands in one room of [`ROOMS`], and its shipped code names crates of its own room and
//! of rooms below only. ARCHITECTURE.md shows the drawing behind [`MARK`], equal to what the code says;
//! `cargo xtask tidy --write` draws it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{Finding, Rule};
use crate::tree::{HARNESS, Project, SourceFile};

/// The rooms with their crates, the highest first.
const ROOMS: &[(&str, &[&str])] = &[
    ("tests", &["twin-fuzz", "twin-proof", "twin-model"]),
    ("program", &["twinfs", "twin-wasm", "twinfs-crashlab"]),
    ("mounts", &["twin-real", "twin-mount"]),
    (
        "studies",
        &[
            "twin-papers",
            "twin-experiment",
            "twin-advise",
            "twin-arena",
            "twin-studies",
            "twin-top",
            "twin-bench",
            "twin-ageing",
            "twin-gather",
            "twin-crashlab",
            "twin-lessons",
        ],
    ),
    (
        "lab",
        &["twin-server", "twin-verdict", "twin-flight", "twin-lab", "twin-observe", "twin-remote"],
    ),
    ("report", &["twin-cli", "twin-show", "twin-report"]),
    (
        "worlds",
        &[
            "twin-age",
            "twin-host",
            "twin-sim",
            "twin-send",
            "twin-nfs",
            "twin-generate",
            "twin-trace",
        ],
    ),
    (
        "core",
        &[
            "vsfs",
            "twin-ffs",
            "twin-lfs",
            "twin-clean",
            "twin-check",
            "twin-fs",
            "twin-cache",
            "twin-bucket",
            "twin-disk",
            "twin-settings",
            "twin-rt",
            "twin-policy",
        ],
    ),
];

/// The document with the drawing, and the line before it.
pub(crate) const MAP: &str = "ARCHITECTURE.md";
const MARK: &str = "<!-- cargo xtask rooms -->";

pub(super) const RULE: Rule = Rule {
    name: "rooms",
    about: "each room uses only those below it, as ARCHITECTURE.md draws them",
    check,
};

/// The crates that the shipped code of each crate names.
type Uses<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn check(project: &Project) -> Vec<Finding> {
    let uses = uses(project);
    let mut findings = Vec::new();
    for (&krate, used) in &uses {
        let Some(room) = room_of(krate) else {
            findings.push(Finding::new(krate, 0, "stands in no room: give it one in ROOMS"));
            continue;
        };
        for below in used.iter().filter(|below| room_of(below).is_some_and(|there| there < room)) {
            let what = format!("names {below}, of a room above: move what both need down");
            findings.push(Finding::new(krate, 0, what));
        }
    }
    let map = project.files.iter().find(|file| file.path == MAP);
    if let Some(map) = map
        && rewritten(project).is_some_and(|drawn| drawn != map.text)
    {
        findings.push(Finding::new(MAP, 0, "draws other rooms than the code: tidy --write"));
    }
    findings
}

fn room_of(krate: &str) -> Option<usize> {
    ROOMS.iter().position(|(_, crates)| crates.contains(&krate))
}

/// The text of the document with the present drawing; `None` if it has none.
pub(crate) fn rewritten(project: &Project) -> Option<String> {
    let map = &project.files.iter().find(|file| file.path == MAP)?.text;
    let (before, rest) = map.split_once(MARK)?;
    let (_, after) = rest.split_once("```\n")?.1.split_once("```\n")?;
    Some(format!("{before}{MARK}\n```\n{}```\n{after}", drawing(project)))
}

/// A line for each crate: its room, its name, and the crates that it names and reaches through no other.
pub(crate) fn drawing(project: &Project) -> String {
    let uses = uses(project);
    let mut drawn = String::new();
    for (room, crates) in ROOMS {
        let mut title = *room;
        for krate in crates.iter().filter(|krate| uses.contains_key(*krate)) {
            let used = &uses[krate];
            let through = |one: &&&str| {
                used.iter().any(|other| other != *one && reached(&uses, other).contains(**one))
            };
            let direct: Vec<&str> = used.iter().filter(|one| !through(one)).copied().collect();
            let line = format!("{title:<9}{krate:<16}{}", direct.join(", "));
            let _ = writeln!(drawn, "{}", line.trim_end());
            title = "";
        }
    }
    drawn
}

fn reached<'a>(uses: &Uses<'a>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(krate) = open.pop() {
        open.extend(uses.get(krate).into_iter().flatten().filter(|next| seen.insert(**next)));
    }
    seen
}

fn uses(project: &Project) -> Uses<'_> {
    let shipped = |(file, _): &(&SourceFile, _)| {
        let harness = file.krate().is_some_and(|krate| HARNESS.contains(&krate));
        file.path.contains("/src/") && (harness || !file.is_test())
    };
    let crates: BTreeSet<&str> =
        project.rust().filter(shipped).filter_map(|(file, _)| file.krate()).collect();
    let mut uses: Uses<'_> = crates
        .iter()
        .filter(|krate| **krate != "xtask")
        .map(|krate| (*krate, BTreeSet::new()))
        .collect();
    for (file, rust) in project.rust().filter(shipped) {
        let Some(used) = file.krate().and_then(|krate| uses.get_mut(krate)) else { continue };
        let own = file.krate().unwrap_or_default();
        for path in rust.paths().into_iter().filter(|path| !path.in_test && path.segments.len() > 1)
        {
            let name = path.segments[0].replace('_', "-");
            used.extend(crates.get(name.as_str()).filter(|named| **named != own));
        }
    }
    uses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::files;

    const FS: (&str, &str) =
        ("crates/twin-fs/src/lib.rs", "use twin_cache::C; fn f() -> twin_rt::Rt { todo() }");
    const CACHE: (&str, &str) =
        ("crates/twin-cache/src/lib.rs", "use twin_rt::Rt; #[cfg(test)] mod t { use twin_fs::F; }");
    const RT: (&str, &str) = ("crates/twin-rt/src/lib.rs", "");

    #[test]
    fn rooms_are_drawn_from_imports_without_what_is_reached_through_others() {
        let drawn = drawing(&files(&[FS, CACHE, RT]));
        let lines = ["core     twin-fs         twin-cache", "         twin-cache      twin-rt"];
        assert_eq!(drawn, format!("{}\n         twin-rt\n", lines.join("\n")));
    }

    #[test]
    fn an_arrow_back_and_a_crate_without_a_room_are_found() {
        let back = ("crates/twin-rt/src/lib.rs", "fn f() { twin_lab::run() }");
        let lab = ("crates/twin-lab/src/lib.rs", "");
        let new = ("crates/twin-new/src/lib.rs", "");
        let found: Vec<_> = check(&files(&[back, lab, new])).into_iter().map(|f| f.path).collect();
        assert_eq!(found, ["twin-new", "twin-rt"]);
        assert_eq!(check(&files(&[FS, CACHE, RT])), []);
    }

    #[test]
    fn the_map_shows_what_the_code_says() {
        let map = format!("# A\n{MARK}\n```\nold\n```\nmore\n```\nb\n```\n");
        let project = files(&[(MAP, &map), RT]);
        assert_eq!(check(&project).len(), 1);
        let drawn = rewritten(&project).unwrap();
        assert_eq!(drawn, format!("# A\n{MARK}\n```\ncore     twin-rt\n```\nmore\n```\nb\n```\n"));
        assert_eq!(check(&files(&[(MAP, &drawn), RT])), []);
    }
}
