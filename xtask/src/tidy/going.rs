//! What is on its way out, with how much of it is still there: [`LIST`].
//!
//! Contract: a line has a kind, a number, a word, and what to say or do instead. The number may only fall.
//! Rules find what is above it, and ask for the lower number where less is left, which
//! `cargo xtask tidy --write` enters.

use super::Finding;
use crate::tree::Project;

/// The list.
pub(crate) const LIST: &str = "xtask/going.txt";

/// The kinds of lines: those of [`super::words`], and circles.
pub(super) const KINDS: &[&str] = &["name", "part", "text", CIRCLES];
/// The kind of a line with a number of circles in a crate: see [`super::circles`].
pub(super) const CIRCLES: &str = "circles";

/// One line of the list.
pub(super) struct Entry<'a> {
    /// Its line, from 1.
    pub(super) line: usize,
    pub(super) kind: &'a str,
    pub(super) left: usize,
    pub(super) word: &'a str,
    pub(super) instead: &'a str,
}

/// The lines of the list.
pub(super) fn all(project: &Project) -> impl Iterator<Item = Entry<'_>> {
    let list = project.files.iter().find(|file| file.path == LIST);
    list.into_iter().flat_map(|list| entries(&list.text).flatten())
}

/// Lines that are none.
pub(super) fn misspelt(project: &Project) -> Vec<Finding> {
    let list = project.files.iter().find(|file| file.path == LIST);
    let lines = list.into_iter().flat_map(|list| entries(&list.text).filter_map(Result::err));
    let what = format!("a line is: {} NUMBER WORD: what to say instead", KINDS.join("|"));
    lines.map(|line| Finding::new(LIST, line, what.as_str())).collect()
}

impl Entry<'_> {
    /// That less is left than the list has.
    pub(super) fn less(&self, found: usize) -> Finding {
        let what = format!("{} {:?}: only {found} are left: tidy --write", self.kind, self.word);
        Finding::new(LIST, self.line, what)
    }
}

/// The list with the numbers that `count` gives, where these are lower.
pub(super) fn rewritten(project: &Project, count: impl Fn(&Entry<'_>) -> usize) -> Option<String> {
    let list = project.files.iter().find(|file| file.path == LIST)?;
    let mut lines: Vec<String> = list.text.lines().map(String::from).collect();
    for entry in entries(&list.text).flatten() {
        let left = count(&entry).min(entry.left);
        lines[entry.line - 1] =
            format!("{} {left:>3} {}: {}", entry.kind, entry.word, entry.instead);
    }
    Some(lines.join("\n") + "\n")
}

/// The entries of the list, or the numbers of lines that are none.
fn entries(text: &str) -> impl Iterator<Item = Result<Entry<'_>, usize>> {
    let lines =
        text.lines().zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(text, line)| {
        let (head, instead) = text.split_once(": ").ok_or(line)?;
        let (kind, rest) = head.split_once(' ').ok_or(line)?;
        let (left, word) = rest.trim_start().split_once(' ').ok_or(line)?;
        let left = left.parse().map_err(|_| line)?;
        let known = KINDS.contains(&kind);
        known.then_some(Entry { line, kind, left, word, instead }).ok_or(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::files;

    #[test]
    fn numbers_fall_and_do_not_rise() {
        let project = files(&[(LIST, "# words\npart 5 told: known\n\ntext 1 gone by: away\n")]);
        let written = rewritten(&project, |_| 2).unwrap();
        assert_eq!(written, "# words\npart   2 told: known\n\ntext   1 gone by: away\n");
    }

    #[test]
    fn a_line_that_is_none_is_found() {
        let list = "told\nverb 1 told: known\npart many told: known\npart 1 told: known";
        let lines: Vec<usize> = misspelt(&files(&[(LIST, list)])).iter().map(|f| f.line).collect();
        assert_eq!(lines, [1, 2, 3]);
    }
}
