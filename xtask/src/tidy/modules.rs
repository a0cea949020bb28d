//! No test is left out by mistake: where the tests from outside of a crate are one program, `tests/main.rs`
//! names every file and folder of code beside it, or the manifest does, as a program of its own. The compiler
//! reads what is named, and says nothing of the rest.

use std::collections::BTreeSet;

use super::{Finding, Rule};
use crate::tree::Project;

pub(super) const RULE: Rule = Rule {
    name: "modules of tests",
    about: "tests/main.rs of a crate or its manifest names every file of tests beside it",
    check,
};

const MAIN: &str = "/tests/main.rs";

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for main in project.files.iter().filter(|file| file.path.ends_with(MAIN)) {
        let folder = &main.path[..main.path.len() - "main.rs".len()];
        let mut named: BTreeSet<&str> = main.text.lines().filter_map(module).collect();
        let manifest = format!("{}Cargo.toml", folder.trim_end_matches("tests/"));
        let manifest = project.files.iter().find(|file| file.path == manifest);
        named.extend(manifest.iter().flat_map(|file| file.text.lines().filter_map(program)));
        let beside = project.files.iter().filter_map(|file| {
            let rest = file.path.strip_prefix(folder)?.strip_suffix(".rs")?;
            match rest.split_once('/') {
                Some((name, "mod")) => Some((file, name)),
                Some(_) => None,
                None => Some((file, rest)),
            }
        });
        for (file, name) in beside.filter(|(_, name)| *name != "main" && !named.contains(name)) {
            let what = format!("is not compiled: add `mod {name};` to {}", main.path);
            findings.push(Finding::new(&file.path, 0, what));
        }
    }
    findings
}

fn module(line: &str) -> Option<&str> {
    line.trim().strip_prefix("mod ")?.strip_suffix(';')
}

fn program(line: &str) -> Option<&str> {
    line.strip_prefix("name = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::files;

    #[test]
    fn a_file_and_a_folder_that_nobody_names_are_found() {
        let project = files(&[
            ("crates/a/Cargo.toml", "[[test]]\nname = \"alone\""),
            ("crates/a/tests/alone.rs", ""),
            ("crates/a/tests/main.rs", "mod one;\nmod folder;"),
            ("crates/a/tests/one.rs", ""),
            ("crates/a/tests/two.rs", ""),
            ("crates/a/tests/folder/mod.rs", "mod part;"),
            ("crates/a/tests/folder/part.rs", ""),
            ("crates/a/tests/other/mod.rs", ""),
            // Each file is a program of its own.
            ("crates/b/tests/one.rs", ""),
        ]);
        let found: Vec<String> = check(&project).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["crates/a/tests/two.rs", "crates/a/tests/other/mod.rs"]);
    }
}
