//! Below twin-host no code asks the host for time, threads, files, sockets or its environment.

use super::house::{BELOW_HOST, layouts};
use super::{Finding, Rule};
use crate::rust::Path;
use crate::tree::Project;

/// Forbidden names, and their replacements.
const BANNED: &[(&str, &str)] = &[
    ("std::time::Instant", "time comes from twin_rt::Rt::now"),
    ("std::time::SystemTime", "time comes from twin_rt::Rt::now"),
    ("std::thread", "use twin_rt::Rt::spawn: the core is one thread"),
    ("std::fs", "devices are behind twin_disk::BlockDevice; callers pass readers and writers"),
    ("std::net", "front ends are in twin-host"),
    ("std::env", "settings are passed in"),
    ("std::process", "errors are returned; only the program ends"),
    ("std::os", "descriptors are in twin-host"),
    ("std::collections::HashMap", "its order is random: use twin_rt::FixedMap"),
    ("std::collections::HashSet", "its order is random: use twin_rt::FixedSet"),
    ("std::collections::hash_map::HashMap", "its order is random: use twin_rt::FixedMap"),
    ("std::collections::hash_set::HashSet", "its order is random: use twin_rt::FixedSet"),
    ("std::collections::hash_map::RandomState", "its seed is random: use twin_rt::FixedHasher"),
    ("std::hash::RandomState", "its seed is random: use twin_rt::FixedHasher"),
    ("tokio", "use twin_rt"),
    ("libc", "system calls are in twin-host"),
    ("rustix", "system calls are in twin-host"),
    ("io_uring", "system calls are in twin-host"),
];

/// Output macros, which have no place in a simulation.
const BANNED_MACROS: &[&str] = &["println", "eprintln", "print", "eprint"];

/// Names that tests beside a crate may use all the same: they read example files.
const TESTS_MAY: &[&str] = &["std::fs", "std::env"];

/// The file that makes the hash maps of fixed order from those of std.
const HASH: &str = "crates/twin-rt/src/hash.rs";

pub(super) const RULE: Rule = Rule {
    name: "world",
    about: "below twin-host, nothing names clocks, threads, files, sockets, the environment or \
            hash maps of random order",
    check,
};

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    let layouts = layouts(project);
    for (file, rust) in project.rust() {
        let below = file
            .krate()
            .is_some_and(|krate| BELOW_HOST.contains(&krate) || layouts.contains(krate));
        // Examples are programs: they take arguments, read the clock and print.
        if !below || file.path.contains("/examples/") {
            continue;
        }
        for path in rust.paths() {
            let Some((banned, instead)) = BANNED.iter().find(|(name, _)| names(&path, name)) else {
                continue;
            };
            let maps = file.path == HASH && banned.starts_with("std::collections");
            if maps || (file.path.contains("/tests/") && TESTS_MAY.contains(banned)) {
                continue;
            }
            findings.push(Finding::new(&file.path, path.line, format!("{banned}: {instead}")));
        }
        for (index, token) in rust.tokens.iter().enumerate() {
            let printing = token.ident().is_some_and(|name| BANNED_MACROS.contains(&name));
            if printing && rust.at(index + 1).punct('!') && !token.in_test && !file.is_test() {
                let what = "prints: give the text to the caller";
                findings.push(Finding::new(&file.path, token.line, what));
            }
        }
    }
    findings
}

/// Whether a path is a forbidden name, or imports a module through which such a name is reachable.
fn names(path: &Path, banned: &str) -> bool {
    let banned: Vec<&str> = banned.split("::").collect();
    let shared = path.segments.iter().zip(&banned).take_while(|(a, b)| a == b).count();
    shared == banned.len() || (path.imported && shared == path.segments.len() && shared > 0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::lines;
    use super::*;

    const CORE: &str = "crates/twin-fs/src/a.rs";

    #[test]
    fn clocks_threads_files_and_maps_are_found_however_they_are_named() {
        for text in [
            "use std::time::Instant;",
            "use std::{time::SystemTime, rc::Rc};",
            "use std::time;",
            "use std::time as clock;",
            "use std::time::*;",
            "use std::collections::{BTreeMap, HashMap};",
            "fn f() { std::thread::spawn(|| ()); }",
            "fn f() -> std::fs::File { todo() }",
            "fn f() { let _ = std::env::var(\"A\"); }",
            "type A = std::net::TcpStream;",
            "use tokio::sync::Mutex;",
            "fn f() { libc::fork(); }",
            "#[cfg(test)] mod t { use std::time::Instant; }",
            "fn f() { println!(\"a\"); }",
        ] {
            assert_eq!(lines(&RULE, CORE, text), [1], "{text}");
        }
    }

    #[test]
    fn durations_ordered_maps_and_one_s_own_names_are_not() {
        for text in [
            "use std::time::Duration;",
            "use std::collections::{BTreeMap, hash_map::Entry};",
            "use crate::fs::File; // std::fs",
            "fn f(env: u8) -> u8 { env }",
            "#[test] fn f() { println!(\"seed\"); }",
        ] {
            assert!(lines(&RULE, CORE, text).is_empty(), "{text}");
        }
    }

    #[test]
    fn the_host_files_of_tests_and_the_file_of_fixed_maps_are_excepted() {
        let maps = "use std::collections::HashMap;";
        let test = "crates/twin-fs/tests/a.rs";
        assert!(lines(&RULE, test, "use std::fs;").is_empty());
        assert_eq!(lines(&RULE, test, "use std::time::Instant;"), [1]);
        assert!(lines(&RULE, "crates/twin-host/src/a.rs", "use std::fs;").is_empty());
        assert!(lines(&RULE, HASH, maps).is_empty());
        assert_eq!(lines(&RULE, HASH, "use std::fs;"), [1]);
    }
}
