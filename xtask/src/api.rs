//! `cargo xtask nightly api`: the public interface of each crate that is published, held against the list in docs/api.
//!
//! Contract: the lists are those of `cargo public-api`, which reads the documentation of a nightly compiler; without
//! either of the two the part says so and counts as skipped. A difference is a failure that prints the lines which came
//! and went; `--accept` writes the lists anew, so that a change of an interface is seen in the commit that makes it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::cargo::cargo;
use crate::totals::Totals;
use crate::tree::Project;

/// Where the lists are, below the root: one a crate.
const LISTS: &str = "docs/api";
/// What makes a list. Without what every type has: implementations of derived, automatic and blanket traits.
const TOOL: [&str; 2] = ["public-api", "-sss"];

/// Holds all lists against the code, or writes them.
///
/// # Errors
/// If a list cannot be made, read or written.
pub(crate) fn night(root: &Path, words: &[String]) -> Result<Totals, String> {
    let accept = match words {
        [] => false,
        [word] if word == "--accept" => true,
        [word, ..] => return Err(format!("{word}: is not understood")),
    };
    if let Some(missing) = missing(root) {
        println!("skipped: {missing}");
        return Ok(Totals { skipped: 1, ..Totals::default() });
    }
    let mut totals = Totals::default();
    for krate in published(&Project::read(root)?) {
        totals += one(root, &krate, accept)?;
    }
    Ok(totals)
}

/// What is not installed, and how it is.
fn missing(root: &Path) -> Option<&'static str> {
    let runs = |words: &[&str]| cargo(root, words).output().is_ok_and(|out| out.status.success());
    if !runs(&["public-api", "--version"]) {
        return Some("no cargo-public-api: cargo install cargo-public-api --locked");
    }
    // The tool calls the nightly compiler by itself.
    let nightly = Command::new("rustup").args(["run", "nightly", "rustc", "--version"]).output();
    let has_nightly = nightly.is_ok_and(|out| out.status.success());
    (!has_nightly)
        .then_some("no nightly compiler: rustup toolchain install nightly --profile minimal")
}

/// The crates that are published, by name.
fn published(project: &Project) -> Vec<String> {
    let manifests = project.files.iter().filter_map(|file| {
        let krate = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        file.text.lines().any(|line| line == "publish = true").then(|| krate.to_string())
    });
    manifests.collect()
}

fn one(root: &Path, krate: &str, accept: bool) -> Result<Totals, String> {
    let mut command = cargo(root, &TOOL);
    let out = command.args(["-p", krate]).output().map_err(|error| format!("cargo: {error}"))?;
    if !out.status.success() {
        return Err(format!("{krate}: {}", String::from_utf8_lossy(&out.stderr).trim()));
    }
    let now = String::from_utf8(out.stdout).map_err(|error| format!("{krate}: {error}"))?;
    let path = root.join(LISTS).join(format!("{krate}.txt"));
    let place = |error: std::io::Error| format!("{}: {error}", path.display());
    if accept {
        std::fs::create_dir_all(root.join(LISTS)).map_err(place)?;
        std::fs::write(&path, &now).map_err(place)?;
        return Ok(Totals::one(true));
    }
    let before = std::fs::read_to_string(&path).map_err(place)?;
    let changes = changes(&before, &now);
    if changes.is_empty() {
        println!("{krate}: {} items, as in {LISTS}/{krate}.txt", now.lines().count());
    } else {
        println!(
            "{krate}: FAILED: not as in {LISTS}/{krate}.txt (cargo xtask nightly api --accept):"
        );
        changes.iter().for_each(|change| println!("  {change}"));
    }
    Ok(Totals::one(changes.is_empty()))
}

/// The lines that went, with a minus, and those that came, with a plus.
fn changes(before: &str, now: &str) -> Vec<String> {
    let set = |text| str::lines(text).collect::<BTreeSet<_>>();
    let (before, now) = (set(before), set(now));
    let went = before.difference(&now).map(|line| format!("- {line}"));
    let came = now.difference(&before).map(|line| format!("+ {line}"));
    went.chain(came).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_went_and_came_are_listed_and_their_order_means_nothing() {
        let (before, now) = ("pub fn a()\npub fn b()\n", "pub fn b()\npub fn a(u8)\n");
        assert_eq!(changes(before, now), ["- pub fn a()", "+ pub fn a(u8)"]);
        assert_eq!(changes("a\nb", "b\na"), [""; 0]);
    }

    #[test]
    fn the_core_is_published() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let crates = published(&Project::read(root).unwrap());
        assert!(crates.iter().any(|krate| krate == "twin-rt"), "{crates:?}");
        assert!(!crates.iter().any(|krate| krate == "twinfs"), "{crates:?}");
    }
}
