//! `unsafe` occurs only in twin-host, in the interface of modules, which is the other side of a border of its, and in
//! the border to browsers. That every block there states why it is sound is held by clippy
//! (`undocumented_unsafe_blocks`), and that nobody else has any by the compiler (`unsafe_code`); this rule
//! keeps others from allowing it to themselves.

use super::{Finding, Rule};
use crate::tree::Project;

/// The only crate that calls the kernel.
const HOST: &str = "twin-host";
/// What modules contain, and what twin-host knows of them.
const INTERFACE: &str = "twin-policy";

/// The border between the lessons and a browser.
const BROWSER: &str = "twin-wasm";

pub(super) const RULE: Rule =
    Rule { name: "unsafe", about: "only twin-host allows itself unsafe code", check };

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    let allowed = [Some(HOST), Some(INTERFACE), Some(BROWSER)];
    for (file, rust) in project.rust().filter(|(file, _)| !allowed.contains(&file.krate())) {
        for (index, token) in rust.tokens.iter().enumerate() {
            let before = rust.at(index.wrapping_sub(2));
            if token.is("unsafe_code") && (before.is("allow") || before.is("expect")) {
                let what = format!("unsafe code outside {HOST}");
                findings.push(Finding::new(&file.path, token.line, what));
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
    fn unsafe_outside_the_host_is_found() {
        let file = "crates/twin-fs/src/a.rs";
        assert_eq!(lines(&RULE, file, "#![allow(unsafe_code)]"), [1]);
        assert!(lines(&RULE, file, "#![deny(unsafe_code)]").is_empty());
        assert!(lines(&RULE, "crates/twin-host/src/a.rs", "#![allow(unsafe_code)]").is_empty());
    }
}
