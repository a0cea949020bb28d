//! The interface of policies in modules of their own: shared libraries that are built outside this repository and
//! loaded by twinfs where the name of a policy is expected.
//!
//! Main types: [`twinfs::Module`] (what a module exports), and for each kind of policy a trait and a table of hooks:
//! [`twinfs::replacement`], [`twinfs::flush`], [`twinfs::victim`], [`twinfs::placement`], [`twinfs::trigger`],
//! [`twinfs::queue`]. The files of [`twinfs`] are copied into a module as they are ([`interface`]), so that it depends on
//! nothing; the program uses the same files to know what crosses the border. `twinfs new-policy` writes a crate from
//! them and an [`example`] of the kind. Start at [`twinfs`]; docs/policies-outside.md tells how to write a
//! policy.

#![allow(unsafe_code)] // Both sides of a border that the compiler does not guard.

pub mod twinfs;

/// A file that is written for a new module: its path in the crate, and its text.
pub type NewFile = (&'static str, String);

/// The kinds of policies that a module can hold, by their names on the command line, with the modules of the interface
/// that they need and a complete example.
const KINDS: &[(&str, &[&str], &str)] = &[
    ("replacement", &["replacement"], include_str!("../templates/replacement.rs")),
    ("flush", &["flush"], include_str!("../templates/flush.rs")),
    ("victim", &["log", "victim"], include_str!("../templates/victim.rs")),
    ("placement", &["log", "placement"], include_str!("../templates/placement.rs")),
    ("trigger", &["trigger"], include_str!("../templates/trigger.rs")),
    ("queue", &["queue"], include_str!("../templates/queue.rs")),
];

/// A file of the interface: the module's name, its path in a crate, its text.
macro_rules! file {
    ($name:literal) => {
        (
            $name,
            concat!("src/twinfs/", $name, ".rs"),
            include_str!(concat!("twinfs/", $name, ".rs")),
        )
    };
}

/// The files of the interface besides the common one.
const FILES: &[(&str, &str, &str)] = &[
    file!("flush"),
    file!("log"),
    file!("placement"),
    file!("queue"),
    file!("replacement"),
    file!("trigger"),
    file!("victim"),
];

/// The names of the kinds of policies.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(kind, ..)| *kind)
}

/// The files of the interface for a policy of this kind; none if there is no such kind.
pub fn interface(kind: &str) -> Vec<NewFile> {
    let Some((_, needed, _)) = KINDS.iter().find(|(name, ..)| *name == kind) else {
        return Vec::new();
    };
    let is_needed =
        |line: &&str| match line.strip_prefix("pub mod ").and_then(|l| l.strip_suffix(';')) {
            Some(module) => needed.contains(&module),
            None => true,
        };
    let all = include_str!("twinfs/mod.rs");
    let common = all.lines().filter(is_needed).map(|line| format!("{line}\n")).collect();
    let own = FILES.iter().filter(|(name, ..)| needed.contains(name));
    let own = own.map(|(_, path, text)| (*path, String::from(*text)));
    [("src/twinfs/mod.rs", common)].into_iter().chain(own).collect()
}

/// The example of this kind, a complete policy with its tests: the root file of a module.
pub fn example(kind: &str) -> Option<&'static str> {
    KINDS.iter().find(|(name, ..)| *name == kind).map(|(.., text)| *text)
}

/// The files of a new module: a crate called `name` with a policy of this kind, which builds by itself. None if there
/// is no such kind.
pub fn new_module(name: &str, kind: &str) -> Option<Vec<NewFile>> {
    let about = |text: &str| {
        text.replace("NAME", name).replace("KIND", kind).replace("FILE", &file_of(name))
    };
    let root = example(kind)?.replace("\"NAME\"", &format!("{name:?}"));
    let mut files = vec![
        ("Cargo.toml", about(include_str!("../templates/Cargo.toml.txt"))),
        (
            "README.md",
            about(include_str!("../templates/README.md.txt")) + how_to_try(kind, name).as_str(),
        ),
        (".gitignore", "/target\n".into()),
        ("src/lib.rs", root),
    ];
    files.extend(interface(kind));
    Some(files)
}

/// The file that is built from a crate of this name.
pub fn file_of(name: &str) -> String {
    format!("target/release/lib{}.so", name.replace('-', "_"))
}

/// The commands that use a policy of this kind.
fn how_to_try(kind: &str, name: &str) -> String {
    let file = format!("./{}", file_of(name));
    let (study, setting, mount) = match kind {
        "replacement" => (
            format!("twinfs cache TRACE --policies {file},lru,sieve"),
            "replacement",
            format!("twinfs mount IMAGE DIR --replacement {file}"),
        ),
        "flush" => (String::new(), "flush", format!("twinfs mount IMAGE DIR --flush {file}")),
        "victim" => (
            format!("twinfs volume --victim {file}"),
            "victim",
            format!("twinfs mount IMAGE DIR --cleaner victim={file}"),
        ),
        "placement" => (
            format!("twinfs volume --placement {file}"),
            "placement",
            format!("twinfs mount IMAGE DIR --cleaner placement={file}"),
        ),
        "trigger" => {
            (String::new(), "when", format!("twinfs mount IMAGE DIR --cleaner when={file}"))
        }
        _ => (String::new(), "queue", format!("twinfs mount IMAGE DIR --queue {file}")),
    };
    let compare = format!("twinfs compare lfs lfs:{setting}={file}");
    let lines: Vec<String> =
        [study, compare, mount].into_iter().filter(|line| !line.is_empty()).collect();
    format!("\n```\n{}\n```\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_of_the_version_of_this_crate() {
        assert_eq!(twinfs::TWINFS, env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn a_new_module_has_the_files_that_its_kind_needs_and_no_others() {
        for kind in kinds() {
            let files = new_module("my-policy", kind).unwrap();
            let text = |path: &str| files.iter().find(|(p, _)| *p == path).map(|(_, text)| text);
            let root = text("src/lib.rs").unwrap();
            assert!(root.contains("\"my-policy\"") && !root.contains("NAME"), "{root}");
            assert!(text("README.md").unwrap().contains("libmy_policy.so"));
            let common = text("src/twinfs/mod.rs").unwrap();
            for (name, path, _) in FILES {
                let declared = common.contains(&format!("pub mod {name};"));
                assert_eq!(declared, text(path).is_some(), "{kind}: {name}");
            }
            assert!(text(&format!("src/twinfs/{kind}.rs")).is_some());
        }
        assert!(new_module("a", "disk").is_none());
    }
}
