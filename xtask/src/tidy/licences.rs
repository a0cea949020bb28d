//! The licences of dependencies must allow shipping under Apache-2.0 OR MIT.

use super::{Finding, Rule};
use crate::tree::Project;

/// Allowed SPDX names. A final `-` stands for any ending (BSD-2-Clause, BSD-3-Clause).
const ALLOWED: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "BSD-",
    "0BSD",
    "Zlib",
    "Unicode-",
    "ISC",
    "Unlicense",
    "CC0-1.0",
    "BSL-1.0",
    "bzip2-1.0.6",
];

/// The one allowed exception, which only adds rights.
const ALLOWED_EXCEPTION: &str = "LLVM-exception";

pub(super) const RULE: Rule = Rule {
    name: "licences",
    about: "dependencies are licensed so that the whole may be Apache-2.0 OR MIT",
    check,
};

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in project.packages.iter().filter(|package| !package.member) {
        let fine = package.license.as_deref().is_some_and(allows);
        if !fine {
            let name = format!("{} {}", package.name, package.version);
            let licence = package.license.as_deref().unwrap_or("no licence field");
            findings.push(Finding::new(&name, 0, format!("{licence} is not on the list")));
        }
    }
    findings
}

/// Whether an SPDX expression can be satisfied with allowed licences only. `/` is an old form of
/// OR.
fn allows(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let verdict = either(&mut words);
    verdict && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn either(words: &mut Words<'_>) -> bool {
    let mut verdict = both(words);
    while words.next_if_eq(&"OR").is_some() {
        verdict |= both(words);
    }
    verdict
}

fn both(words: &mut Words<'_>) -> bool {
    let mut verdict = one(words);
    while words.next_if_eq(&"AND").is_some() {
        verdict &= one(words);
    }
    verdict
}

fn one(words: &mut Words<'_>) -> bool {
    let verdict = match words.next() {
        Some("(") => {
            let verdict = either(words);
            verdict && words.next() == Some(")")
        }
        Some(name) => ALLOWED.iter().any(|&allowed| match allowed.strip_suffix('-') {
            Some(_) => name.starts_with(allowed),
            None => name == allowed,
        }),
        None => false,
    };
    match words.next_if_eq(&"WITH") {
        Some(_) => verdict && words.next() == Some(ALLOWED_EXCEPTION),
        None => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Package;
    use crate::tree::testing::packages;

    #[test]
    fn expressions_are_judged_by_what_can_be_chosen() {
        for fine in [
            "MIT",
            "Apache-2.0 OR GPL-2.0",
            "MIT/Apache-2.0",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "BSD-3-Clause",
        ] {
            assert!(allows(fine), "{fine}");
        }
        for bad in ["GPL-2.0", "MIT AND GPL-2.0", "MIT WITH odd-exception", "", "(MIT", "MIT MIT"] {
            assert!(!allows(bad), "{bad}");
        }
    }

    #[test]
    fn a_dependency_with_another_licence_or_none_is_found() {
        let with = |name: &str, license: Option<&str>| Package {
            name: name.into(),
            license: license.map(Into::into),
            ..Package::default()
        };
        let project =
            packages(&[with("a", Some("MIT")), with("b", Some("AGPL-3.0")), with("c", None)]);
        let found: Vec<_> = check(&project).into_iter().map(|f| f.path).collect();
        assert_eq!(found, ["b ", "c "]);
    }
}
