//! Every file opens with its purpose.

use super::{Finding, Rule};
use crate::tree::Project;

pub(super) const RULE: Rule = Rule {
    name: "openings",
    about: "every .rs file opens with its contract in //!; a lib.rs names purpose and main types",
    check,
};

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &project.files {
        match &file.rust {
            None => continue,
            Some(Err(error)) => findings.push(Finding::new(&file.path, 0, error.clone())),
            Some(Ok(_)) => {}
        }
        let opening: Vec<&str> =
            file.text.lines().take_while(|line| line.starts_with("//!")).collect();
        if opening.is_empty() {
            if !file.is_test() {
                let what = "opens without //!: state the purpose of the file and its contract";
                findings.push(Finding::new(&file.path, 1, what));
            }
        } else if file.path.ends_with("/src/lib.rs") {
            // One paragraph for the purpose, and at least one type at which to start.
            let linked = opening.iter().any(|line| line.contains("[`"));
            if opening.get(1).map(|line| line.trim()) != Some("//!") && !parted(&opening) || !linked
            {
                let what = "says too little: purpose, then main types and where to start";
                findings.push(Finding::new(&file.path, 1, what));
            }
        }
    }
    findings
}

/// Whether there is more than one paragraph.
fn parted(opening: &[&str]) -> bool {
    opening.iter().any(|line| line.trim() == "//!")
}

#[cfg(test)]
mod tests {
    use super::super::testing::lines;
    use super::*;

    #[test]
    fn a_file_without_a_word_is_found_and_a_test_s_is_not() {
        assert_eq!(lines(&RULE, "crates/a/src/b.rs", "use a::b;\n//! late"), [1]);
        assert!(lines(&RULE, "crates/a/src/b.rs", "//! Counts.\nuse a::b;").is_empty());
        assert!(lines(&RULE, "crates/a/src/b/tests.rs", "use a::b;").is_empty());
    }

    #[test]
    fn a_crate_that_names_no_purpose_or_no_type_is_found() {
        let at = "crates/a/src/lib.rs";
        assert_eq!(lines(&RULE, at, "//! Things."), [1]);
        assert_eq!(lines(&RULE, at, "//! Things.\n//!\n//! And more."), [1]);
        assert!(lines(&RULE, at, "//! Things.\n//!\n//! Start at [`A`].").is_empty());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_found() {
        assert_eq!(lines(&RULE, "crates/a/src/b.rs", "//! B.\nfn f( {"), [0]);
    }
}
