//! Nothing turns planted faults on by itself.
//!
//! Code does not know at build time in which world it runs: differences are passed in as values. The compiler
//! refuses conditions that nobody declared (`unexpected_cfgs`), and crates may declare one feature, this one:
//! deliberate faults must not be in the program that users get, however they build it, so no dependency turns
//! it on. The harness may pass it on, to whoever builds the fault campaign and names it.

use super::{Finding, Rule};
use crate::tree::{HARNESS, Project};

/// The feature that builds faults in, for tests to find.
pub(super) const PLANTED: &str = "planted-faults";

pub(super) const RULE: Rule =
    Rule { name: "cfg", about: "no build has planted faults in it that does not name them", check };

/// Places in manifests that turn planted faults on by themselves: cargo builds what a workspace has in
/// common once, with the features of all, so that one dependency in the harness would have the faults in
/// the program that `cargo build --workspace` makes.
fn check(project: &Project) -> Vec<Finding> {
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
    use super::*;
    use crate::tree::testing::files;

    #[test]
    fn planted_faults_are_in_no_build_that_does_not_name_them() {
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
}
