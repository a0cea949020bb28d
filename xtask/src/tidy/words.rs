//! Words that mean nothing to an engineer who has not read the code stay out of it.
//!
//! The list is [`going::LIST`]. Kinds of its lines are:
//!
//! - `name`: what the code defines with exactly this name, and files called so;
//! - `part`: what it defines with this word in the name (`told_places`, `Told`), and files;
//! - `text`: these words in comments, documents and messages.

use std::collections::BTreeMap;

use super::going::{self, Entry};
use super::{Finding, Rule};
use crate::rust::Rust;
use crate::tree::{Project, SourceFile};

/// The number of places that are named when there are more than the list has.
const NAMED: usize = 12;

/// The keywords before a name that is defined.
const DEFINING: &[&str] =
    &["struct", "enum", "union", "trait", "type", "fn", "mod", "const", "static", "macro_rules"];

pub(super) const RULE: Rule =
    Rule { name: "words", about: "what xtask/going.txt lists is not used anew", check };

type Places = Vec<(String, usize)>;

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = going::misspelt(project);
    let names = names(project);
    for entry in going::all(project).filter(|entry| entry.kind != going::CIRCLES) {
        let places = places(project, &names, &entry);
        let (found, left) = (places.len(), entry.left);
        if found > left {
            findings.extend(places.into_iter().take(NAMED).map(|(path, line)| {
                let (word, instead) = (entry.word, entry.instead);
                let what = format!("{word:?}, {found} times where {left} are left: {instead}");
                Finding::new(&path, line, what)
            }));
        } else if found < left {
            findings.push(entry.less(found));
        }
    }
    findings
}

/// How often each of these words is there.
pub(super) fn counts(project: &Project) -> impl Fn(&Entry<'_>) -> usize {
    let names = names(project);
    move |entry| places(project, &names, entry).len()
}

/// What the code defines, and its files, by name.
fn names(project: &Project) -> BTreeMap<String, Places> {
    let mut names: BTreeMap<String, Places> = BTreeMap::new();
    for (file, rust) in project.rust() {
        let stem = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        names.entry(stem.into()).or_default().push((file.path.clone(), 0));
        for (name, line) in defined(rust) {
            names.entry(name.into()).or_default().push((file.path.clone(), line));
        }
    }
    names
}

fn defined(rust: &Rust) -> impl Iterator<Item = (&str, usize)> {
    rust.tokens.iter().enumerate().filter_map(|(at, token)| {
        let defines = token.ident().is_some_and(|word| DEFINING.contains(&word));
        let name = at + 1 + usize::from(rust.at(at + 1).punct('!'));
        // A module in a file of its own counts once, as the file.
        let elsewhere = token.is("mod") && rust.at(name + 1).punct(';');
        rust.at(name).ident().filter(|_| defines && !elsewhere).map(|name| (name, token.line))
    })
}

fn places(project: &Project, names: &BTreeMap<String, Places>, word: &Entry<'_>) -> Places {
    let with = |is: &dyn Fn(&str) -> bool| {
        names.iter().filter(|(name, _)| is(name)).flat_map(|(_, places)| places.clone()).collect()
    };
    match word.kind {
        "name" => with(&|name| name == word.word),
        "part" => with(&|name| parts(name).any(|part| part.eq_ignore_ascii_case(word.word))),
        _ => project.files.iter().flat_map(|file| said(file, word.word)).collect(),
    }
}

/// The words of a name: `told`, `Places` of `told_Places`; `Told`, `Places` of `ToldPlaces`.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split('_').flat_map(|part| {
        let mut starts: Vec<usize> =
            part.match_indices(char::is_uppercase).map(|(at, _)| at).collect();
        starts.retain(|&at| at > 0);
        let ends = starts.clone().into_iter().chain([part.len()]);
        [0].into_iter()
            .chain(starts)
            .zip(ends)
            .map(|(from, to)| &part[from..to])
            .collect::<Vec<_>>()
    })
}

/// The lines of a file that say these words, whole and in any case.
fn said(file: &SourceFile, words: &str) -> Places {
    let read = [".rs", ".md", ".py"].iter().any(|end| file.path.ends_with(end));
    if !read || file.path.ends_with("/words.rs") {
        return Vec::new();
    }
    let whole = |line: &str, at: usize| {
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !letter(line[..at].chars().next_back()) && !letter(line[at + words.len()..].chars().next())
    };
    let says = |line: &str| {
        let line = line.to_ascii_lowercase();
        line.match_indices(words).any(|(at, _)| whole(&line, at))
    };
    let lines = file.text.lines().zip(1..).filter(|(line, _)| says(line));
    lines.map(|(_, line)| (file.path.clone(), line)).collect()
}

#[cfg(test)]
mod tests {
    use super::going::LIST;
    use super::*;
    use crate::tree::testing::files;

    const TEXT: &str = "//! So many times.\nstruct ToldRun;\nfn ask() { told(); }\nfn told_of() {}";

    fn found(list: &str) -> Vec<(String, usize)> {
        let project = files(&[(LIST, list), ("crates/a/src/asked.rs", TEXT)]);
        check(&project).into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    #[test]
    fn what_is_there_more_often_than_the_list_has_is_named() {
        let file = |lines: &[usize]| -> Vec<(String, usize)> {
            lines.iter().map(|&line| ("crates/a/src/asked.rs".into(), line)).collect()
        };
        assert_eq!(found("part 1 told: known"), file(&[2, 4]));
        assert_eq!(found("name 0 asked: options"), file(&[0]));
        assert_eq!(found("text 0 so many: a number"), file(&[1]));
        assert_eq!(found("# told\n\npart 2 told: known\nname 0 told: known"), []);
    }

    #[test]
    fn what_is_there_less_often_asks_for_the_lower_number() {
        let list = "part 5 told: known\ntext 0 gone: away\n";
        assert_eq!(found(list), [(LIST.into(), 1)]);
        let project = files(&[(LIST, list), ("crates/a/src/asked.rs", TEXT)]);
        let written = going::rewritten(&project, counts(&project)).unwrap();
        assert_eq!(found(&written), []);
    }

    #[test]
    fn names_have_parts() {
        let all = |name| parts(name).collect::<Vec<_>>().join(" ");
        assert_eq!(all("ToldRun"), "Told Run");
        assert_eq!(all("tell_places"), "tell places");
        assert_eq!(all("a"), "a");
    }
}
