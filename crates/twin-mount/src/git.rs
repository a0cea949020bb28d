//! The history of a git repository, as the history of its files.
//!
//! Contract: each commit along first parents is a pull: the files that differ from the commit before are made,
//! made anew, or removed, with their sizes, at the time of the commit. The result is text in the format
//! `checkouts` ([`twin_trace::readers`]), in which names are numbers. The program `git` reads the
//! repository, and nothing in it is changed. Submodules are left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The mode of a submodule in a tree.
const SUBMODULE: &str = "160000";

/// What a commit changes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Commit {
    author_s: u64,
    commit_s: u64,
    changes: Vec<Change>,
}

/// A file that a commit makes, changes or removes.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    /// Its content; `None` if it is removed.
    blob: Option<String>,
    is_new: bool,
    path: Vec<u8>,
}

/// One commit in the log.
const COMMIT: &str = "--format=%x01%H %at %ct";

/// The history of the repository at or above a directory, in the format `checkouts`: all of it, or the last
/// `pulls` commits, after a checkout of what was there before them.
///
/// # Errors
/// If there is no git, or what it says of the directory.
pub fn history(dir: &Path, pulls: Option<u32>) -> Result<Vec<u8>, String> {
    let mut commits = match pulls {
        None => Vec::new(),
        Some(pulls) => checkout(dir, &format!("HEAD~{pulls}"))?,
    };
    let last = format!("--max-count={}", pulls.map_or(-1, i64::from));
    let log = ["log", "--root", "--first-parent", "--reverse", "-m", "--raw", "-z", "--no-abbrev"];
    let format = ["--no-renames", &last, COMMIT, "HEAD"];
    let log = git(dir, &[&log[..], &format].concat())?;
    commits.extend(parse(&log)?);
    if commits.iter().all(|commit| commit.changes.is_empty()) {
        return Err(format!("{}: there is no commit with files in this repository", dir.display()));
    }
    let format = "--batch-check=%(objectname) %(objectsize)";
    let sizes = git(dir, &["cat-file", "--batch-all-objects", "--unordered", format])?;
    Ok(text(&commits, &sizes_of(&sizes)))
}

/// A checkout of a commit as a commit that makes all its files; none if there is no such commit.
fn checkout(dir: &Path, commit: &str) -> Result<Vec<Commit>, String> {
    if git(dir, &["rev-parse", "--verify", "--quiet", commit]).is_err() {
        return Ok(Vec::new());
    }
    let mut commits = parse(&git(dir, &["log", "--max-count=1", "-z", COMMIT, commit])?)?;
    let tree = git(dir, &["ls-tree", "-r", "-z", "--full-tree", commit])?;
    if let Some(commit) = commits.last_mut() {
        commit.changes = files_of(&tree);
    }
    Ok(commits)
}

/// The files in the output of `git ls-tree`.
fn files_of(tree: &[u8]) -> Vec<Change> {
    let files = tree.split(|&byte| byte == 0).filter_map(|entry| {
        let tab = entry.iter().position(|&byte| byte == b'\t')?;
        let words = String::from_utf8_lossy(&entry[..tab]).into_owned();
        let [mode, _, blob] = words.split(' ').collect::<Vec<_>>()[..] else { return None };
        let path = entry[tab + 1..].to_vec();
        (mode != SUBMODULE).then(|| Change { blob: Some(blob.into()), is_new: true, path })
    });
    files.collect()
}

/// What git prints.
fn git(dir: &Path, args: &[&str]) -> Result<Vec<u8>, String> {
    let told = |why: &dyn std::fmt::Display| format!("{}: git {}: {why}", dir.display(), args[0]);
    let mut command = Command::new("git");
    command.arg("-C").arg(dir).args(args).stdin(Stdio::null());
    let output = command.output().map_err(|error| told(&error))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(told(&String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// The commits in the output of `git log`.
fn parse(log: &[u8]) -> Result<Vec<Commit>, String> {
    let mut commits: Vec<Commit> = Vec::new();
    let mut parts = log.split(|&byte| byte == 0).map(|part| match part {
        [b'\n', part @ ..] => part,
        part => part,
    });
    let odd = || "git log printed something that is not understood".to_string();
    while let Some(part) = parts.next() {
        let words = String::from_utf8_lossy(part).into_owned();
        let words: Vec<&str> = words.split_whitespace().collect();
        match part.first() {
            None => {}
            Some(1) => {
                let [_, author, commit] = words[..] else { return Err(odd()) };
                let seconds = |text: &str| text.parse().map_err(|_| odd());
                commits.push(Commit {
                    author_s: seconds(author)?,
                    commit_s: seconds(commit)?,
                    changes: Vec::new(),
                });
            }
            Some(b':') => {
                let [before, after, _, blob, status] = words[..] else { return Err(odd()) };
                let path = parts.next().ok_or_else(odd)?.to_vec();
                if before.trim_start_matches(':') == SUBMODULE || after == SUBMODULE {
                    continue;
                }
                let blob = (status != "D").then(|| blob.to_string());
                let commit = commits.last_mut().ok_or_else(odd)?;
                commit.changes.push(Change { blob, is_new: status == "A", path });
            }
            Some(_) => return Err(odd()),
        }
    }
    Ok(commits)
}

/// Sizes by blob. One that the repository lacks has none.
fn sizes_of(text: &[u8]) -> BTreeMap<String, u64> {
    let text = String::from_utf8_lossy(text);
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(blob, size)| Some((blob.to_string(), size.parse().ok()?))).collect()
}

/// The history as text.
fn text(commits: &[Commit], sizes: &BTreeMap<String, u64>) -> Vec<u8> {
    let mut text =
        String::from("commit,author_time,commit_time,op,file,dir,depth,size_bytes,ext\n");
    let (mut files, mut dirs) = (BTreeMap::new(), BTreeMap::new());
    let number = |of: &mut BTreeMap<Vec<u8>, usize>, name: &[u8]| {
        let next = of.len() + 1;
        *of.entry(name.to_vec()).or_insert(next)
    };
    for (nth, Commit { author_s, commit_s, changes }) in commits.iter().enumerate() {
        for Change { blob, is_new, path } in changes {
            let slash = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            let file = number(&mut files, path);
            let dir = number(&mut dirs, &path[..slash]);
            let depth = path.iter().filter(|&&byte| byte == b'/').count();
            let (op, size) = match blob {
                None => ("D", String::new()),
                Some(blob) => {
                    let size = sizes.get(blob).map_or(String::new(), u64::to_string);
                    (if *is_new { "A" } else { "M" }, size)
                }
            };
            // Nothing can go wrong in memory.
            let _ = writeln!(
                text,
                "{},{author_s},{commit_s},{op},{file},{dir},{depth},{size},",
                nth + 1
            );
        }
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_becomes_a_history_with_the_sizes_of_its_files() {
        let log = "\u{1}c1 10 11\0\n:000000 100644 0 b1 A\0a/x\0:000000 160000 0 s1 A\0sub\0\
                   \u{1}c2 20 21\0\n:100644 100644 b1 b2 M\0a/x\0:000000 100644 0 b1 A\0y z\0\
                   \u{1}c3 30 31\0\n:100644 000000 b2 0 D\0a/x\0";
        let commits = parse(log.as_bytes()).unwrap();
        let history = text(&commits, &sizes_of(b"b1 7\nb2 9\nb3 missing\n"));
        let lines: Vec<&str> = std::str::from_utf8(&history).unwrap().lines().skip(1).collect();
        let expected =
            ["1,10,11,A,1,1,1,7,", "2,20,21,M,1,1,1,9,", "2,20,21,A,2,2,0,7,", "3,30,31,D,1,1,1,,"];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_tree_becomes_files_without_submodules() {
        let tree = b"100644 blob b1\ta/x y\x00160000 commit s1\tsub\x00100755 blob b2\tz\x00";
        let file = |blob: &str, path: &[u8]| Change {
            blob: Some(blob.into()),
            is_new: true,
            path: path.to_vec(),
        };
        assert_eq!(files_of(tree), [file("b1", b"a/x y"), file("b2", b"z")]);
    }

    #[test]
    fn what_git_does_not_print_is_an_error() {
        for log in ["x\0", ":1 2 3\0p\0", "\u{1}c1 ten 11\0", ":1 2 3 4 A\0p\0"] {
            assert!(parse(log.as_bytes()).is_err(), "{log:?}");
        }
    }
}
