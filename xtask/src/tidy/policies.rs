//! Policies are named in one place, and do not wait.
//!
//! A registry is a file in which a `RegistryEntry` gets its name from a string (`RegistryEntry::new("lru", ..)`),
//! directly or through a macro. The boxed trait objects that its entries make (`Box<dyn Trait>`) are
//! policies. That two entries of one registry have different names is checked by the compiler
//! (`twin_settings::Registry::new`).

use super::{Finding, Rule};
use crate::rust::{Kind, Rust};
use crate::tree::{Project, SourceFile};

pub(super) const NAMES: Rule = Rule {
    name: "policy-names",
    about: "a policy's name is a string in one place, its registry; all else iterates registries",
    check: names,
};

pub(super) const PURE: Rule = Rule {
    name: "policies",
    about: "policies are synchronous: they rank and advise, the mechanism acts",
    check: pure,
};

/// Strings that may equal names of policies: path, strings, and the reason.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    ("crates/twin-cli/src/mount_helper.rs", &["sync", "async"], "options of mount(8)"),
    ("crates/twinfs/src/cli.rs", &["modern"], "the profile of a volume, not the processor"),
    ("crates/twin-lfs/src/kind.rs", &["modern"], "the profile of a volume, not the processor"),
    ("crates/twin-ffs/src/kind.rs", &["modern"], "the profile of a volume, not the processor"),
    ("crates/twinfs/src/cmd/mkfs.rs", &["block", "segment"], "settings of layouts"),
    ("crates/twin-host/src/extents.rs", &["f2fs"], "a file system of the host"),
    ("crates/twin-ageing/src/layout_report/report.rs", &["blocks"], "the name of a column"),
    ("crates/twin-papers/src/studies/population.rs", &["mail"], "a file system of the paper"),
    ("crates/twin-papers/src/claims/statistics.rs", &["mail"], "a file system of the paper"),
    ("crates/twin-verdict/src/what_if.rs", &["block"], "a setting of layouts"),
    ("crates/twin-lab/src/commands.rs", &["block", "segment"], "settings of layouts"),
    ("crates/twin-lab/src/config/bucket.rs", &["segment"], "a setting of layouts"),
    ("crates/twin-advise/src/knobs.rs", &["block", "segment"], "settings of layouts"),
    ("crates/twin-arena/src/task.rs", &["blocks"], "a key of task files"),
    ("crates/twin-lfs/src/check/map.rs", &["block"], "a kind of damage"),
    ("crates/twin-check/src/duplicates.rs", &["block"], "a kind of damage"),
    ("crates/twin-check/src/finding.rs", &["journal"], "a kind of damage"),
    ("crates/twin-rt/src/events.rs", &["journal"], "a category of events"),
    ("crates/twin-check/src/inodes.rs", &["block"], "a kind of damage"),
    ("crates/twin-trace/src/block/fio.rs", &["sync"], "a word of fio's format"),
    ("crates/twin-trace/src/block/columns/names.rs", &["sync"], "a word of CSV traces"),
    ("crates/twin-trace/src/record.rs", &["sync"], "the name of an operation"),
    ("crates/twin-fs/src/op.rs", &["sync"], "the name of an operation"),
    ("crates/twin-trace/src/readers/strace/data.rs", &["sync"], "the name of a system call"),
    ("crates/twin-trace/src/readers/strace/intake.rs", &["sync"], "the name of a system call"),
    (
        "crates/twin-generate/src/distribution.rs",
        &["uniform", "zipf"],
        "laws of probability, not workloads",
    ),
    ("crates/twin-bench/src/parse.rs", &["scan"], "a phase of a benchmark"),
    ("crates/twin-bench/src/tpcb.rs", &["scan"], "a phase of a benchmark"),
    ("crates/twin-bench/src/files.rs", &["overwrite"], "a phase of a benchmark"),
    ("crates/twin-bench/src/parse.rs", &["random"], "an order of accesses"),
    ("crates/twin-papers/src/claims/list.rs", &["overwrite"], "a phase of a benchmark"),
    ("crates/twin-papers/src/clc.rs", &["overwrite"], "a phase of a benchmark"),
    ("crates/twin-papers/src/pages/html.rs", &["overwrite"], "a phase of a benchmark"),
    ("crates/twin-papers/src/pages/present.rs", &["overwrite"], "a phase of a benchmark"),
    (
        "crates/twin-lab/src/config.rs",
        &["delayed", "ssd-sata", "disk-7200", "c-look", "modern"],
        "presets are experiments, which choose by name as settings do; a test builds each",
    ),
];

/// Files that build components by name, and the reason why they do not repeat the names.
const COMPOSITIONS: &[(&str, &str)] = &[
    (
        "crates/twin-lab/src/config.rs",
        "presets are settings files in code: they choose components as a user would",
    ),
    ("crates/twin-lab/src/presets.rs", "the presets: settings, written as a user would"),
];

/// Folders of such files.
const LESSONS: &[(&str, &str)] = &[
    (
        "crates/twin-lessons/src/exercise/",
        "exercises are about policies by name, as a book is; a test makes a variant of each",
    ),
    ("crates/twin-lessons/src/volume/", "the words of a shell, and the parts of a layout"),
];

/// Registries whose entries are no policies, and the reason why their names may stand elsewhere.
const NO_POLICIES: &[(&str, &str)] = &[
    (
        "crates/twin-bench/src/parse.rs",
        "benchmarks: their phases are called like them, and reproductions choose them as a user would",
    ),
    ("crates/twin-verdict/src/verdict/measure.rs", "measures: fsync is also an operation"),
];

struct Registered<'a> {
    path: &'a str,
    name: &'a str,
}

/// All names in the registries of a file.
fn registered<'a>(file: &'a SourceFile, rust: &'a Rust) -> Vec<Registered<'a>> {
    let mut found = Vec::new();
    if file.is_test() || NO_POLICIES.iter().any(|(path, _)| *path == file.path) {
        return found;
    }
    let macros = entry_macros(rust);
    for (index, token) in rust.tokens.iter().enumerate().filter(|(_, token)| !token.in_test) {
        let next = &rust.at(index + 1).kind;
        let name = match token.ident() {
            Some("RegistryEntry") if rust.at(index + 3).is("new") => Some(index + 5),
            Some(word) if *next == Kind::Punct('!') && macros.contains(&word) => Some(index + 3),
            _ => None,
        };
        if let Some(Kind::Str(name)) = name.map(|at| &rust.at(at).kind) {
            found.push(Registered { path: &file.path, name });
        }
    }
    found
}

/// Macros of a file that make entries from a name: `entry!("lru", ..)`.
fn entry_macros(rust: &Rust) -> Vec<&str> {
    let mut macros = Vec::new();
    for index in 0..rust.tokens.len() {
        let Kind::Open('{', close) = rust.at(index + 3).kind else { continue };
        let body = rust.tokens.get(index + 4..close).unwrap_or_default();
        let names = body.windows(7).any(|t| {
            t[0].is("RegistryEntry") && t[3].is("new") && t[5].punct('$') && t[6].is("name")
        });
        if rust.at(index).is("macro_rules") && names {
            macros.extend(rust.at(index + 2).ident());
        }
    }
    macros
}

fn names(project: &Project) -> Vec<Finding> {
    let registered: Vec<_> =
        project.rust().flat_map(|(file, rust)| registered(file, rust)).collect();
    let mut findings = Vec::new();
    for (file, rust) in project.rust() {
        let composes = COMPOSITIONS.iter().any(|(path, _)| *path == file.path)
            || LESSONS.iter().any(|(folder, _)| file.path.starts_with(folder));
        // Labels of a dump are names of on-disk fields.
        let labels = file.path.contains("/src/dump/") || file.path.ends_with("/src/dump.rs");
        if file.is_test() || file.krate() == Some("xtask") || composes || labels {
            continue;
        }
        for (index, token) in rust.tokens.iter().enumerate().filter(|(_, t)| !t.in_test) {
            let Kind::Str(text) = &token.kind else { continue };
            if names_itself(rust, index) {
                continue;
            }
            let home = registered.iter().find(|entry| entry.name == text);
            let excepted = EXCEPTIONS
                .iter()
                .any(|(path, names, _)| *path == file.path && names.contains(&text.as_str()));
            if let (Some(home), false) = (home, excepted) {
                let what = format!("{text:?} is a policy of {}: iterate its registry", home.path);
                findings.push(Finding::new(&file.path, token.line, what));
            }
        }
    }
    findings
}

/// Types that are made with a name.
const NAMING: &[&str] = &["Key", "Param", "RegistryEntry", "VolumeProperty"];

/// Whether a string is the name of an entry in this registry or in another one
/// (`RegistryEntry::new("lru", ..)`, or the first argument of one of the file's macros), or of a setting
/// (`Key::new("block", ..)`, `Param::new("files", ..)`), or the default that a registry names
/// (`Registry::with_default("disk queue", "fcfs", ..)`, where a wrong name does not compile).
fn names_itself(rust: &Rust, index: usize) -> bool {
    let before = |back: usize| rust.at(index.wrapping_sub(back));
    let field = before(2).is("name") && before(1).punct(':');
    let argument = matches!(before(1).kind, Kind::Open('(', _))
        && before(2).punct('!')
        && before(3).ident().is_some_and(|word| entry_macros(rust).contains(&word));
    let key = matches!(before(1).kind, Kind::Open('(', _))
        && (before(2).is("new") || before(2).is("own"))
        && (3..6).any(|back| before(back).ident().is_some_and(|word| NAMING.contains(&word)));
    let default = before(1).punct(',') && before(4).is("with_default");
    field || argument || key || default
}

fn pure(project: &Project) -> Vec<Finding> {
    let mut traits: Vec<(&str, &str)> = Vec::new();
    for (file, rust) in project.rust() {
        if !registered(file, rust).is_empty() || makes_entries(rust) {
            let krate = file.krate().unwrap_or_default();
            traits.extend(made(rust).into_iter().map(|name| (krate, name)));
        }
    }
    let mut findings = Vec::new();
    for (file, rust) in project.rust() {
        let ours = |name: &str| traits.contains(&(file.krate().unwrap_or_default(), name));
        let implements =
            |index: usize| rust.at(index).ident().is_some_and(ours) && rust.at(index + 1).is("for");
        if file.is_test() || !(0..rust.tokens.len()).any(implements) {
            continue;
        }
        for token in &rust.tokens {
            if (token.is("async") || token.is("await")) && !token.in_test {
                let what = "waits beside a policy: the mechanism waits, in a file of its own";
                findings.push(Finding::new(&file.path, token.line, what));
            }
        }
    }
    findings
}

/// Whether a file has a registry.
fn makes_entries(rust: &Rust) -> bool {
    rust.tokens.windows(4).any(|t| t[0].is("Registry") && t[3].is("new"))
}

/// The traits for which a file makes boxed objects.
fn made(rust: &Rust) -> Vec<&str> {
    let at = |index: usize| rust.at(index);
    (0..rust.tokens.len())
        .filter(|&index| at(index).is("Box") && at(index + 1).punct('<') && at(index + 2).is("dyn"))
        .filter_map(|index| at(index + 3).ident())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::files;

    const REGISTRY: &str = "pub type Maker = fn() -> Box<dyn Policy>;
        pub static REGISTRY: Registry<Maker> =
            Registry::new(\"policy\", &[RegistryEntry::new(\"lru\", \"least\", || Box::new(Lru))]);
        #[test] fn f() { REGISTRY.get(\"lru\"); }";
    const MACRO: &str =
        "macro_rules! disk { ($name:literal) => { RegistryEntry::new($name, \"\", make) } }
        static REGISTRY: Registry<M> = Registry::new(\"disk\", &[disk!(\"fcfs\")]);";

    #[test]
    fn a_name_outside_its_registry_is_found() {
        let project = files(&[
            ("crates/a/src/replacement/mod.rs", REGISTRY),
            ("crates/b/src/queue/mod.rs", MACRO),
            ("crates/c/src/main.rs", "fn f() {\n a(\"lru\");\n b(\"fcfs\");\n c(\"other\"); }"),
        ]);
        let found: Vec<_> = names(&project).into_iter().map(|f| (f.path, f.line)).collect();
        let main = "crates/c/src/main.rs".to_string();
        assert_eq!(found, [(main.clone(), 2), (main, 3)]);
    }

    #[test]
    fn a_name_used_twice_in_its_own_registry_s_file_is_found() {
        let twice = format!("{REGISTRY} fn default() -> &'static str {{ \"lru\" }}");
        assert!(!names(&files(&[("crates/a/src/mod.rs", &twice)])).is_empty());
    }

    #[test]
    fn tests_docs_and_registries_may_name_it() {
        let project = files(&[
            ("crates/a/src/replacement/mod.rs", REGISTRY),
            ("crates/a/src/lib.rs", "//! REGISTRY.get(\"lru\")"),
            ("crates/a/tests/a.rs", "fn f() { REGISTRY.get(\"lru\"); }"),
            ("crates/b/src/a.rs", "const A: Key = Key { name: \"lru\" };"),
        ]);
        assert_eq!(names(&project), []);
    }

    #[test]
    fn a_policy_that_waits_is_found_and_a_mechanism_is_not() {
        let project = files(&[
            ("crates/a/src/replacement/mod.rs", REGISTRY),
            ("crates/a/src/replacement/lru.rs", "impl Policy for Lru {}\nasync fn f() {}"),
            ("crates/a/src/miss.rs", "async fn load() { a().await }"),
        ]);
        let found = pure(&project);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/a/src/replacement/lru.rs", 2));
    }
}
