//! No file declares itself unfinished. Macros that say so are refused by clippy.

use super::{Finding, Rule};
use crate::tree::Project;

const WORDS: &[&str] =
    &[concat!("FIX", "ME"), concat!("X", "XX"), concat!("TO", "DO"), concat!("HA", "CK")];

pub(super) const RULE: Rule = Rule {
    name: "unfinished",
    about: "no code is marked as unfinished; missing features are listed in the documents",
    check,
};

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    let code =
        |path: &str| [".rs", ".py", ".sh", ".toml", ".yml"].iter().any(|e| path.ends_with(e));
    for file in project.files.iter().filter(|file| code(&file.path)) {
        for (index, line) in file.text.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(word) = words.find(|word| WORDS.contains(word)) {
                findings.push(Finding::new(&file.path, index + 1, word));
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
    fn markers_are_found() {
        for marker in WORDS {
            let text = format!("fn f() {{}}\n// {marker}: later");
            assert_eq!(lines(&RULE, "crates/a/src/a.rs", &text), [2]);
        }
    }

    #[test]
    fn ordinary_words_are_not() {
        let text = "// A hacker's delight, todo-free.\nfn todo() { assert!(mastodon!()) }";
        assert!(lines(&RULE, "crates/a/src/a.rs", text).is_empty());
    }
}
