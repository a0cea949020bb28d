//! Relative links in Markdown lead to existing files and headings.

use super::{Finding, Rule};
use crate::tree::Project;

pub(super) const RULE: Rule =
    Rule { name: "links", about: "relative links in *.md lead to files and headings", check };

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in project.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, target) in links(&file.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((&target, ""));
            let there = if path.is_empty() {
                Some(file.path.clone())
            } else {
                resolve(&file.path, path).filter(|there| project.has(there))
            };
            let Some(there) = there else {
                findings.push(Finding::new(&file.path, line, format!("{target}: no such file")));
                continue;
            };
            let text = project.files.iter().find(|f| f.path == there && there.ends_with(".md"));
            if let (false, Some(text)) = (heading.is_empty(), text)
                && !headings(&text.text).iter().any(|h| h == heading)
            {
                findings.push(Finding::new(&file.path, line, format!("{target}: no such heading")));
            }
        }
    }
    findings
}

/// Lines outside of fenced code, with numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// Targets of `[text](target)` and `[name]: target`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Code spans contain no links.
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (at, _) in plain.match_indices("](") {
            let rest = &plain[at + 2..];
            let end = rest.find([')', ' ']).unwrap_or(rest.len());
            found.push((number, rest[..end].to_string()));
        }
        if let Some((_, target)) = plain.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
            found.push((number, target.split(' ').next().unwrap_or_default().to_string()));
        }
    }
    found
}

/// A path relative to a file's folder; `None` if it leads out of the repository.
fn resolve(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a file's headings, in the form that forges generate.
fn headings(text: &str) -> Vec<String> {
    prose(text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept =
                title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::files;

    #[test]
    fn dead_links_are_found() {
        let text = "[a](gone.md)\n[b](#gone)\n[c](../out.md)\n[d]: also-gone.md\n[e](docs/b.md#no)";
        let project = files(&[("README.md", text), ("docs/b.md", "# Yes")]);
        let found: Vec<_> = check(&project).iter().map(|f| f.line).collect();
        assert_eq!(found, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn living_links_and_those_in_code_are_not() {
        let text = "# Start here, now\n[a](docs/b.md) [b](docs/) [c](#start-here-now) \
                    [d](docs/b.md#the-end) [e](https://x.y/z) `[f](no.md)`\n\
                    ```\n[g](no.md)\n```\n";
        let project =
            files(&[("README.md", text), ("docs/b.md", "## The `end`\n[r](../README.md)")]);
        assert_eq!(check(&project), []);
    }
}
