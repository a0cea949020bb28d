//! `unsafe` occurs only in twin-host, and every block there states why it is sound.

use super::{Finding, Rule};
use crate::rust::Kind;
use crate::tree::Project;

/// The only crate that calls the kernel.
const HOST: &str = "twin-host";

pub(super) const RULE: Rule = Rule {
    name: "unsafe",
    about: "unsafe code is only in twin-host, each block below its argument in a SAFETY comment",
    check,
};

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in project.rust() {
        let host = file.krate() == Some(HOST);
        let lines: Vec<&str> = file.text.lines().collect();
        for (index, token) in rust.tokens.iter().enumerate() {
            let allows = token.is("unsafe_code") && rust.at(index.wrapping_sub(2)).is("allow");
            if !host && (token.is("unsafe") || allows) {
                let what = format!("unsafe code outside {HOST}");
                findings.push(Finding::new(&file.path, token.line, what));
            } else if token.is("unsafe") && needs_argument(&rust.at(index + 1).kind) {
                let line = token.line;
                if !argued(&lines, line) {
                    let what = "needs a `// SAFETY:` comment directly above";
                    findings.push(Finding::new(&file.path, line, what));
                }
            }
        }
    }
    findings
}

/// Blocks and impls assert that a condition holds; `unsafe fn` and types of function pointers only
/// pass the condition on.
fn needs_argument(next: &Kind) -> bool {
    matches!(next, Kind::Open('{', _)) || matches!(next, Kind::Ident(name) if name == "impl")
}

/// Whether a SAFETY comment precedes the statement that contains a line, counted from 1.
fn argued(lines: &[&str], line: usize) -> bool {
    let mut in_comment = false;
    for above in lines[..line - 1].iter().rev().map(|line| line.trim()) {
        let comment = above.starts_with("//");
        if comment && above.contains("SAFETY:") {
            return true;
        }
        // Comments, attributes and the beginning of the same statement may come between.
        let ends_statement = above.is_empty() || above.ends_with([';', '{', '}', ',']);
        if !comment && (in_comment || ends_statement) {
            return false;
        }
        in_comment |= comment;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::testing::lines;
    use super::*;

    #[test]
    fn unsafe_outside_the_host_is_found() {
        let file = "crates/twin-fs/src/a.rs";
        assert_eq!(lines(&RULE, file, "// SAFETY: no\nfn f() { unsafe {} }"), [2]);
        assert_eq!(lines(&RULE, file, "#![allow(unsafe_code)]"), [1]);
        assert!(lines(&RULE, file, "#![deny(unsafe_code)]").is_empty());
    }

    #[test]
    fn blocks_without_an_argument_are_found() {
        let file = "crates/twin-host/src/a.rs";
        let block = "fn f() {\n    unsafe { g() };\n}";
        let other = "fn f() {\n    // SAFETY: a\n    unsafe { g() };\n    unsafe { g() };\n}";
        assert_eq!(lines(&RULE, file, block), [2]);
        assert_eq!(lines(&RULE, file, other), [4]);
        assert_eq!(lines(&RULE, file, "unsafe impl Send for A {}"), [1]);
    }

    #[test]
    fn blocks_with_an_argument_are_not() {
        let file = "crates/twin-host/src/a.rs";
        for text in [
            "fn f() {\n    // SAFETY: a\n    // b\n    unsafe { g() };\n}",
            "fn f() {\n    // SAFETY: a\n    let b =\n        unsafe { g() };\n}",
            "// SAFETY: a\nunsafe impl Send for A {}",
            "unsafe fn f() {}",
            "#![allow(unsafe_code)] // fork",
        ] {
            assert!(lines(&RULE, file, text).is_empty(), "{text}");
        }
    }
}
