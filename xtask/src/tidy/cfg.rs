//! No build knows which world it is in: what differs is passed in as a value.

use super::{Finding, Rule};
use crate::rust::Kind;
use crate::tree::Project;

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

pub(super) const RULE: Rule = Rule {
    name: "cfg",
    about: "no cfg(sim) and no features: a simulator is a value that is passed in",
    check,
};

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
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
            for condition in &rust.tokens[open + 1..close] {
                match &condition.kind {
                    Kind::Open(..) => depth += 1,
                    Kind::Close(_) => depth -= 1,
                    // Behind the condition of a cfg_attr stand attributes.
                    Kind::Punct(',') if depth == 0 => break,
                    Kind::Ident(name) if !ALLOWED.contains(&name.as_str()) => {
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

#[cfg(test)]
mod tests {
    use super::super::testing::lines;
    use super::*;

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
