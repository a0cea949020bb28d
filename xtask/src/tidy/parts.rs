//! Each part of a layout keeps its state private, so that no other file can change it.
//!
//! State that changes through a shared reference (`Cell`, `RefCell`) must be private to the file of
//! its struct. The compiler then refuses access from other files; this rule refuses fields that are
//! not private.

use super::house::layouts;
use super::{Finding, Rule};
use crate::rust::{Kind, Rust};
use crate::tree::Project;

pub(super) const RULE: Rule = Rule {
    name: "parts",
    about: "in a layout, a field that changes behind a shared reference is private to its file",
    check,
};

/// Files that still have such fields. A file without them must leave the list.
const STILL: &[&str] = &[];

/// Types that make a field changeable through a shared reference.
const CELLS: &[&str] = &["Cell", "RefCell"];

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    let layouts = layouts(project);
    for (file, rust) in project.rust() {
        if file.is_test() || !file.krate().is_some_and(|krate| layouts.contains(krate)) {
            continue;
        }
        for (name, line) in open_state(rust) {
            let what = format!("the field {name} can be changed from other files: make it private");
            findings.push(Finding::new(&file.path, line, what));
        }
    }
    super::except(findings, STILL, project)
}

/// The fields of structs that have both a visibility and a cell: name and line.
fn open_state(rust: &Rust) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for at in 0..rust.tokens.len() {
        if !rust.at(at).is("struct") || rust.at(at).in_test {
            continue;
        }
        let body = (at + 1..rust.tokens.len()).find(|&i| {
            rust.at(i).punct(';') || matches!(rust.at(i).kind, Kind::Open('{' | '(', _))
        });
        if let Some(open) = body
            && let Kind::Open('{', close) = rust.at(open).kind
        {
            found.extend(fields(rust, open + 1, close).into_iter().filter_map(|(start, end)| {
                let words = &rust.tokens[start..end];
                let colon = words.iter().position(|word| word.punct(':'))?;
                let open = words[..colon].iter().any(|word| word.is("pub"));
                let cell = words[colon..]
                    .iter()
                    .any(|word| word.ident().is_some_and(|name| CELLS.contains(&name)));
                let name = words[colon.checked_sub(1)?].ident()?;
                (open && cell).then_some((name, rust.at(start).line))
            }));
        }
    }
    found
}

/// The first and last token of each field of a struct.
fn fields(rust: &Rust, start: usize, close: usize) -> Vec<(usize, usize)> {
    let (mut fields, mut begin, mut depth, mut at) = (Vec::new(), start, 0_i32, start);
    while at < close {
        match rust.at(at).kind {
            Kind::Open(_, end) => at = end,
            Kind::Punct('<') => depth += 1,
            Kind::Punct('>') => depth -= 1,
            Kind::Punct(',') if depth == 0 => {
                fields.push((begin, at));
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    fields.push((begin, close));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::house::REGISTRY;
    use crate::tree::testing::files;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let project = files(&[(path, text), (REGISTRY, "&[twin_lfs::LFS, twin_ffs::FFS]")]);
        check(&project).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn state_that_other_files_can_change_is_found() {
        let text = "struct A {\n a: Cell<u64>,\n pub(crate) b: RefCell<BTreeMap<u64, u8>>,\n \
                    pub c: Rc<Cell<u8>>,\n pub d: u64 }";
        let found = findings("crates/twin-lfs/src/a.rs", text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("field b") && found[1].contains("field c"), "{found:?}");
    }

    #[test]
    fn private_state_plain_data_other_crates_and_tests_pass() {
        let text = "struct A { a: Cell<u64>, pub b: u64 } struct B(pub Cell<u8>); struct C;";
        assert_eq!(findings("crates/twin-lfs/src/a.rs", text), [""; 0]);
        let open = "struct A { pub a: Cell<u64> }";
        assert_eq!(findings("crates/twin-fs/src/a.rs", open), [""; 0]);
        let test = "#[cfg(test)] mod t { struct A { pub a: Cell<u64> } }";
        assert_eq!(findings("crates/twin-ffs/src/a.rs", test), [""; 0]);
    }
}
