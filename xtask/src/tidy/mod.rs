//! `cargo xtask tidy`: the invariants that can be seen in the source.
//!
//! A rule is one file here and one line in [`RULES`]. It is a pure function from a [`Project`] to
//! [`Finding`]s, and has a test in which it fires. A rule's own source spells what it forbids in
//! pieces, so that the rule does not fire on itself.

mod cfg;
mod circles;
mod errno;
mod globals;
mod going;
mod guards;
mod house;
mod layers;
mod licences;
mod links;
mod modules;
mod openings;
mod parts;
mod places;
mod policies;
mod rooms;
mod size;
mod unfinished;
mod unsafety;
mod words;
mod world;

use std::fmt;

pub(crate) use house::layouts;
pub(crate) use rooms::drawing;

use crate::totals::Totals;
use crate::tree::Project;

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The file; for packages, the package name.
    pub(crate) path: String,
    /// The line; 0 for the whole file.
    pub(crate) line: usize,
    /// The violation and the remedy.
    pub(crate) what: String,
}

/// A rule with its name.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// The rule in one sentence.
    pub(crate) about: &'static str,
    pub(crate) check: fn(&Project) -> Vec<Finding>,
}

/// All rules, in the order of their output.
pub(crate) const RULES: &[Rule] = &[
    house::USES,
    house::FIELDS,
    layers::RULE,
    licences::RULE,
    world::RULE,
    cfg::RULE,
    circles::RULE,
    globals::RULE,
    guards::RULE,
    unsafety::RULE,
    errno::RULE,
    policies::NAMES,
    policies::PURE,
    unfinished::RULE,
    size::RULE,
    openings::RULE,
    parts::RULE,
    rooms::RULE,
    words::RULE,
    places::RULE,
    links::RULE,
    modules::RULE,
];

/// Removes the findings in the files of `still`, and reports files of `still` without findings.
fn except(mut findings: Vec<Finding>, still: &[&str], project: &Project) -> Vec<Finding> {
    for path in still {
        let before = findings.len();
        findings.retain(|finding| finding.path != *path);
        // Tests of rules have small projects, which lack the files of this one.
        if findings.len() == before && project.files.iter().any(|file| file.path == *path) {
            let what = "breaks this rule no more: take it out of the rule's list";
            findings.push(Finding::new(path, 0, what));
        }
    }
    findings
}

/// Checks all rules, prints the findings, and returns the totals.
pub(crate) fn run(project: &Project) -> Totals {
    let mut failed = 0;
    for rule in RULES {
        let mut findings = (rule.check)(project);
        findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
        if findings.is_empty() {
            continue;
        }
        failed += 1;
        println!("\ntidy: {}: {}", rule.name, rule.about);
        for finding in findings {
            println!("  {finding}");
        }
    }
    Totals { passed: RULES.len() - failed, failed, skipped: 0 }
}

/// Enters in the tree what rules hold equal to the code: the drawing of the rooms, and what is left of words.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write(root: &std::path::Path, project: &Project) -> Result<(), String> {
    let words = words::counts(project);
    let count = |entry: &going::Entry<'_>| match entry.kind {
        going::CIRCLES => circles::number(project, entry.word),
        _ => words(entry),
    };
    let list = going::rewritten(project, count);
    for (path, text) in [(rooms::MAP, rooms::rewritten(project)), (going::LIST, list)] {
        let text = text.ok_or(format!("{path}: has nothing to rewrite"))?;
        std::fs::write(root.join(path), text).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: path.into(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

#[cfg(test)]
mod testing {
    use super::*;
    use crate::tree::testing::files;

    /// The lines on which a rule fires in a file.
    pub(super) fn lines(rule: &Rule, path: &str, text: &str) -> Vec<usize> {
        (rule.check)(&files(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rules_are_unique() {
        let mut names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
    }

    #[test]
    fn a_finding_names_file_and_line() {
        assert_eq!(Finding::new("a.rs", 3, "no").to_string(), "a.rs:3: no");
        assert_eq!(Finding::new("a.rs", 0, "no").to_string(), "a.rs: no");
    }
}
