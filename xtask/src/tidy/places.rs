//! No file names a machine: a clone works in any place.

use super::{Finding, Rule};
use crate::tree::Project;

/// Root directories that exist on some machines only, without their leading slash.
const ROOTS: &[&str] = &["work", "root", "home", "farm", "Users", "mnt/data"];

pub(super) const RULE: Rule = Rule {
    name: "places",
    about: "no paths of one machine and no private hosts in tracked files",
    check,
};

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &project.files {
        for (index, line) in file.text.lines().enumerate() {
            let found = machine_path(line).or_else(|| private_host(line));
            if let Some(what) = found {
                findings.push(Finding::new(&file.path, index + 1, what));
            }
        }
    }
    findings
}

/// An absolute path below one of the roots.
fn machine_path(line: &str) -> Option<String> {
    for (at, _) in line.match_indices('/') {
        let before = line[..at].chars().next_back();
        let rest = &line[at + 1..];
        let begins = before.is_none_or(|c| {
            !c.is_alphanumeric()
                && !matches!(c, '_' | '.' | '-' | '/' | '}' | ')' | '*' | '>' | '~' | '?')
        });
        let root = ROOTS.iter().find(|root| {
            rest.strip_prefix(**root).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
        });
        if let (true, Some(root)) = (begins, root) {
            return Some(format!("a machine's path below /{root}"));
        }
    }
    None
}

/// An address or name that is valid in one network only.
fn private_host(line: &str) -> Option<String> {
    let mut words = line.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '_')));
    // No name of a host has an underscore; fields of structures do.
    let may_be = |word: &&str| !word.contains('_');
    let word = words.find(|word| may_be(word) && (private_address(word) || private_name(word)))?;
    Some(format!("{word}: a host of one network"))
}

fn private_address(word: &str) -> bool {
    let Ok(address) = word.parse::<std::net::Ipv4Addr>() else { return false };
    address.is_private() || address.is_link_local()
}

fn private_name(word: &str) -> bool {
    let endings = [concat!(".inter", "nal"), concat!(".lo", "cal"), concat!(".la", "n")];
    endings.iter().any(|end| word.len() > end.len() && word.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::super::testing::lines;
    use super::*;

    #[test]
    fn paths_of_machines_are_found() {
        for root in ROOTS {
            for line in [format!("cd /{root}/x"), format!("\"/{root}/x\""), format!("=/{root}/x")] {
                assert_eq!(lines(&RULE, "README.md", &line), [1], "{line}");
            }
        }
    }

    #[test]
    fn other_paths_are_not() {
        for line in ["../work/x", "a/work/x", "/workers/x", "the root/home/x", "https://a.b/home/x"]
        {
            assert!(lines(&RULE, "README.md", line).is_empty(), "{line}");
        }
    }

    #[test]
    fn private_hosts_are_found_and_versions_are_not() {
        let host = format!("http://cache{}:80/", concat!(".inter", "nal"));
        for line in [host.as_str(), concat!("10.", "0.0.7"), concat!("192.", "168.1.1:8080")] {
            assert_eq!(lines(&RULE, "a.toml", line), [1], "{line}");
        }
        for line in ["127.0.0.1", "0.0.0.0", "version 10.0.1", "github.com"] {
            assert!(lines(&RULE, "a.toml", line).is_empty(), "{line}");
        }
    }
}
