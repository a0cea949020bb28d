//! No file declares itself unfinished.

use super::{Finding, Rule};
use crate::tree::Project;

const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];
const WORDS: &[&str] =
    &[concat!("FIX", "ME"), concat!("X", "XX"), concat!("TO", "DO"), concat!("HA", "CK")];

pub(super) const RULE: Rule = Rule {
    name: "unfinished",
    about: "no code is marked as unfinished; missing features are listed in the documents",
    check,
};

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in project.rust() {
        for (index, token) in rust.tokens.iter().enumerate() {
            let name = token.ident().unwrap_or_default();
            if MACROS.contains(&name) && rust.at(index + 1).punct('!') {
                findings.push(Finding::new(&file.path, token.line, format!("{name}!")));
            }
        }
    }
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
    fn markers_and_macros_are_found() {
        for marker in WORDS {
            let text = format!("fn f() {{}}\n// {marker}: later");
            assert_eq!(lines(&RULE, "crates/a/src/a.rs", &text), [2]);
        }
        for name in MACROS {
            let text = format!("fn f() {{ {name}!() }}");
            assert_eq!(lines(&RULE, "crates/a/src/a.rs", &text), [1]);
        }
    }

    #[test]
    fn ordinary_words_are_not() {
        let text = "// A hacker's delight, todo-free.\nfn todo() { assert!(mastodon!()) }";
        assert!(lines(&RULE, "crates/a/src/a.rs", text).is_empty());
    }
}
