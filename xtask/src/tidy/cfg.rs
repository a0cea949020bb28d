//! Code does not know at build time in which world it runs: differences are passed in as values.
//!
//! One feature is allowed, [`PLANTED`]: deliberate faults must not be in the program that users get,
//! however they build it, so no dependency turns it on. The harness may pass it on, to whoever builds
//! the fault campaign and names it.

use super::{Finding, Rule};
use crate::rust::{Kind, Rust};
use crate::tree::{HARNESS, Project};

/// Conditions that code may depend on.
const ALLOWED: &[&str] = &[
    "test",
    "doc",
    "not",
    "any",
    "all",
    "unix",
    "target_os",
    "target_env",
    "target_arch",
    "target_pointer_width",
    "target_endian",
    "miri",
];

/// The feature that builds faults in, for tests to find.
pub(super) const PLANTED: &str = "planted-faults";

pub(super) const RULE: Rule = Rule {
    name: "cfg",
    about: "no cfg(sim) and no features, but planted faults, which nothing turns on by itself: a simulator is a value",
    check,
};

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = planted_elsewhere(project);
    for (file, rust) in project.rust() {
        for (index, token) in rust.tokens.iter().enumerate() {
            let conditions = match token.ident() {
                Some("cfg" | "cfg_attr") => index + 1,
                _ => continue,
            };
            let in_macro = rust.at(conditions).punct('!');
            let open = conditions + usize::from(in_macro);
            let Kind::Open('(', close) = rust.at(open).kind else { continue };
            let attribute = matches!(rust.at(index.wrapping_sub(1)).kind, Kind::Open('[', _));
            if !in_macro && !attribute {
                continue;
            }
            let mut depth = 0;
            for (place, condition) in rust.tokens.iter().enumerate().take(close).skip(open + 1) {
                match &condition.kind {
                    Kind::Open(..) => depth += 1,
                    Kind::Close(_) => depth -= 1,
                    // The attributes of a cfg_attr follow its condition.
                    Kind::Punct(',') if depth == 0 => break,
                    Kind::Ident(name)
                        if !ALLOWED.contains(&name.as_str()) && !is_planted(rust, place) =>
                    {
                        let what = format!("depends on {name}: pass a value in");
                        findings.push(Finding::new(&file.path, condition.line, what));
                    }
                    _ => {}
                }
            }
        }
    }
    findings
}

/// True if the condition at `place` is the feature that builds planted faults in.
fn is_planted(rust: &Rust, place: usize) -> bool {
    rust.at(place).is("feature")
        && rust.at(place + 1).punct('=')
        && matches!(&rust.at(place + 2).kind, Kind::Str(name) if name == PLANTED)
}

/// Places in manifests that turn planted faults on by themselves: cargo builds what a workspace has in
/// common once, with the features of all, so that one dependency in the harness would have the faults in
/// the program that `cargo build --workspace` makes.
fn planted_elsewhere(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in project.files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        let harness = file.krate().is_some_and(|krate| HARNESS.contains(&krate));
        // The feature's own list in the table of features, on one line or several.
        let mut inside = false;
        for (line, number) in file.text.lines().zip(1..) {
            let text = line.split('#').next().unwrap_or_default().trim();
            let begins = text.starts_with(&format!("{PLANTED} = ["));
            inside |= begins && harness;
            let declared = text == format!("{PLANTED} = []");
            if text.contains(PLANTED) && !inside && !declared {
                let what = format!("turns {PLANTED} on: only a build that names it may have them");
                findings.push(Finding::new(&file.path, number, what));
            }
            inside &= !text.ends_with(']');
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::testing::lines;
    use super::*;
    use crate::tree::testing::files;

    #[test]
    fn planted_faults_are_in_no_build_that_does_not_name_them() {
        let text = "#[cfg(feature = \"planted-faults\")] fn a() {}";
        assert!(lines(&RULE, "crates/a/src/a.rs", text).is_empty());
        let on = "[dependencies]\na = { workspace = true, features = [\"planted-faults\"] }";
        let passed = "[features]\nplanted-faults = [ # of the campaign\n\"a/planted-faults\",\n]";
        for (path, text, found) in [
            ("crates/twin-lab/Cargo.toml", on, 1),
            ("crates/twin-proof/Cargo.toml", on, 1),
            ("crates/twin-proof/Cargo.toml", passed, 0),
            ("crates/twin-lab/Cargo.toml", passed, 2),
            ("crates/twin-proof/Cargo.toml", &format!("{passed}\n{on}"), 1),
            ("crates/a/Cargo.toml", "[features]\nplanted-faults = []", 0),
            ("crates/a/Cargo.toml", "[features]\ndefault = [\"planted-faults\"]", 1),
        ] {
            assert_eq!(check(&files(&[(path, text)])).len(), found, "{path}: {text}");
        }
    }

    #[test]
    fn worlds_and_features_are_found() {
        for text in [
            "#[cfg(sim)] fn a() {}",
            "#![cfg(not(sim))]",
            "#[cfg(feature = \"fast\")] fn a() {}",
            "fn a() { if cfg!(debug_assertions) {} }",
            "#[cfg_attr(feature = \"x\", derive(Debug))] struct A;",
        ] {
            assert_eq!(lines(&RULE, "crates/a/src/a.rs", text), [1], "{text}");
        }
    }

    #[test]
    fn tests_and_targets_are_not() {
        for text in [
            "#[cfg(test)] mod t;",
            "#[cfg(all(test, target_os = \"linux\"))] mod t;",
            "#[cfg_attr(test, derive(Debug))] struct A;",
            "fn cfg(sim: u8) { cfg(sim) }",
        ] {
            assert!(lines(&RULE, "crates/a/src/a.rs", text).is_empty(), "{text}");
        }
    }
}
