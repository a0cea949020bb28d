//! `cargo xtask nightly recipes`: types the recipes of docs/recipes/README.md literally into a copy of the sources, and
//! runs the tests and commands that they promise.
//!
//! Contract: what is typed is the document's own code. A comment before a block of code says where it goes:
//!
//! ```text
//! <!-- file PATH -->               the block is a new file
//! <!-- entry PATH mod NAME; -->    the block goes to the head of the registry in PATH, and the module beside the others
//! <!-- end PATH -->                the block goes to the end of a file
//! <!-- before PATH WORDS -->       the block goes before the first line that begins with WORDS
//! ```
//!
//! Entries go to the head of their lists, where they would become defaults if a default were the first.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::suite::cargo;
use crate::totals::Totals;
use crate::tree;

const DOCUMENT: &str = "docs/recipes/README.md";
/// The crates whose tests go over the registries that the recipes extend.
const TESTED: &[&str] =
    &["twin-cache", "twin-clean", "twin-fs", "twin-ffs", "twin-trace", "twin-observe", "twin-lab"];
/// Commands that use what was added, and words of what they print.
const RUNS: &[(&[&str], &str)] = &[
    (&["cache", "traces/server.tw", "--policies", "lifo,lru", "--sizes", "4M"], "lifo"),
    (
        &[
            "volume",
            "--workload",
            "zipf",
            "--blocks",
            "4096",
            "--victim",
            "longest-sealed",
            "--placement",
            "rewritten",
        ],
        "rewritten",
    ),
    (
        &[
            "compare",
            "-w",
            "mail:messages=20",
            "lfs:size=64M,victim=longest-sealed,when=half,flush=newest",
        ],
        "lfs",
    ),
    (
        &[
            "compare",
            "-w",
            "mail:messages=20",
            "--observe",
            "sizes",
            "ffs:size=64M,alloc=behind,reading=pairs",
        ],
        "size",
    ),
    // A default is what it was.
    (
        &[
            "compare",
            "-w",
            "mail:messages=20",
            "lfs:size=64M,flush=segment,replacement=lru",
            "lfs:size=64M",
        ],
        "are identical",
    ),
];

/// A block of code of the document.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// What the comment says: a verb, a path, and the rest.
    place: String,
    code: String,
}

/// Types all recipes and runs what they promise.
pub(crate) fn run(root: &Path) -> Result<Totals, String> {
    let copy = root.join("target/recipes/tree");
    tree::copy_to(root, &copy)?;
    let text =
        std::fs::read_to_string(root.join(DOCUMENT)).map_err(|e| format!("{DOCUMENT}: {e}"))?;
    for block in blocks(&text) {
        type_in(&copy, &block).map_err(|why| format!("{DOCUMENT}, {}: {why}", block.place))?;
    }
    let target = root.join("target/recipes/build");
    let mut totals = Totals::default();
    let mut step = |command: &mut Command, wanted: &str| {
        let shown = format!("{command:?}");
        let output = command.env("CARGO_TARGET_DIR", &target).output();
        let output = output.map_err(|error| format!("{shown}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let passed = output.status.success() && text.contains(wanted);
        if !passed {
            println!("{shown}: no {wanted:?}, {}", output.status);
            println!("{text}{}", String::from_utf8_lossy(&output.stderr));
        }
        totals += Totals::one(passed);
        Ok::<(), String>(())
    };
    let mut tests = cargo(&copy, &["test", "--profile", "quick", "--lib"]);
    tests.args(TESTED.iter().flat_map(|name| ["-p", name]));
    step(&mut tests, "test result: ok")?;
    step(&mut cargo(&copy, &["build", "--profile", "quick", "-p", "twinfs"]), "")?;
    for (words, wanted) in RUNS {
        step(Command::new(target.join("quick/twinfs")).args(*words).current_dir(&copy), wanted)?;
    }
    Ok(totals)
}

/// The blocks that have a place, in order.
fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let place = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        let Some(place) = place else { continue };
        if lines.next().is_some_and(|line| line.starts_with("```")) {
            let code = lines.by_ref().take_while(|line| !line.starts_with("```"));
            let code = code.flat_map(|line| [line, "\n"]).collect();
            found.push(Block { place: place.into(), code });
        }
    }
    found
}

fn type_in(copy: &Path, block: &Block) -> Result<(), String> {
    let (verb, rest) = block.place.split_once(' ').ok_or("a comment has a verb and a path")?;
    let (path, more) = rest.split_once(' ').unwrap_or((rest, ""));
    let path: PathBuf = copy.join(path);
    let failed = |error: std::io::Error| error.to_string();
    if verb == "file" {
        return std::fs::write(&path, &block.code).map_err(failed);
    }
    let was = std::fs::read_to_string(&path).map_err(failed)?;
    std::fs::write(&path, changed(&was, verb, more, &block.code)?).map_err(failed)
}

/// A file with a block in its place.
fn changed(was: &str, verb: &str, more: &str, code: &str) -> Result<String, String> {
    let insert = |text: &str, at: usize, new: &str| format!("{}{new}{}", &text[..at], &text[at..]);
    let line_with = |text: &str, begins: &str, from: usize| {
        let mut at = 0;
        let place = text.split_inclusive('\n').find_map(|line| {
            let begin = at;
            at += line.len();
            (begin >= from && line.trim_start().starts_with(begins)).then_some(begin)
        });
        place.ok_or_else(|| format!("there is no line that begins with {begins:?}"))
    };
    match verb {
        "end" => Ok(format!("{was}\n{code}")),
        "before" => line_with(was, more, 0).map(|at| insert(was, at, code)),
        "entry" => {
            let registry = was.find("REGISTRY: Registry<").ok_or("there is no registry")?;
            let list = was[registry..].find("&[\n").ok_or("the registry has no list")?;
            let with_entry = insert(was, registry + list + 3, code);
            let module = line_with(&with_entry, "mod ", 0)?;
            Ok(insert(&with_entry, module, &format!("{more}\n")))
        }
        verb => Err(format!("{verb}: there is no such verb")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_with_a_comment_are_typed_and_others_are_read() {
        let text = "<!-- file a/b.rs -->\n```rust\nfn f() {}\n```\nText.\n```\nno place\n```\n";
        let expected = Block { place: "file a/b.rs".into(), code: "fn f() {}\n".into() };
        assert_eq!(blocks(text), [expected]);
    }

    #[test]
    fn an_entry_comes_to_the_head_of_its_registry_and_its_module_beside_the_others() {
        let was = "//! A.\n\nmod x;\n\nstatic REGISTRY: Registry<M> = Registry::new(\n    \"k\",\n    &[\n        x,\n    ],\n);\n";
        let now = changed(was, "entry", "mod y;", "y,\n").unwrap();
        assert!(now.contains("mod y;\nmod x;") && now.contains("&[\ny,\n        x,"), "{now}");
    }

    #[test]
    fn a_place_that_is_not_there_is_an_error() {
        assert!(changed("a\n", "entry", "mod y;", "y").is_err());
        assert!(changed("a\n", "before", "b", "y").unwrap_err().contains("\"b\""));
        assert_eq!(changed("a\n  b\n", "before", "b", "y\n").unwrap(), "a\ny\n  b\n");
    }
}
