//! There are no globals: two volumes, or two runs, in one process must not influence each other.

use super::{Finding, Rule};
use crate::rust::{Kind, Rust};
use crate::tree::Project;

/// Names that create a global.
const GLOBAL: &[&str] = &["OnceLock", "LazyLock", "thread_local", "lazy_static", "once_cell"];

/// Types that make a `static` mutable.
const CHANGING: &[&str] =
    &["Cell", "RefCell", "UnsafeCell", "OnceCell", "LazyCell", "Mutex", "RwLock"];

/// Globals that cannot influence a run: path, and the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "crates/twin-settings/src/registry.rs",
        "components that were added: a name means the same for ever once it means something",
    ),
    (
        "crates/twin-settings/src/outside.rs",
        "how the process loads modules: set once, at its start, and in effect for names that are paths only",
    ),
    (
        "crates/twin-host/src/modules/mod.rs",
        "libraries that are loaded, as they are: in the process as a whole, and for ever",
    ),
    (
        "crates/twin-host/src/modules/fault.rs",
        "where a daemon says that a policy failed: decides nothing",
    ),
    (
        "crates/twin-policy/src/twinfs/mod.rs",
        "the words of a panic, in a module: told on the thread where it was, at once",
    ),
    (
        "crates/twin-host/src/notes.rs",
        "to whom a thread says its lines: of the thread alone, and no run hears of it",
    ),
    (
        "crates/twin-mount/src/media.rs",
        "media that the program knows: registered by its main function, and in effect for names with their scheme only",
    ),
    (
        "crates/twin-host/src/own.rs",
        "the file that starts this program again, as the host has it: one for the process",
    ),
    (
        "crates/twin-cli/src/call.rs",
        "the call that a thread carries out: of the thread alone, and no run hears of it",
    ),
    (
        "python/src/policy/hooks.rs",
        "the exception of a hook, which the call of the command raises: decides nothing",
    ),
    (
        "crates/twin-host/src/zeros.rs",
        "one constant, the zeros that are written from, made when first asked for: always equal",
    ),
    (
        "crates/twin-fuzz/src/images.rs",
        "volumes that inputs are applied to, each made once: always equal",
    ),
    ("crates/twin-fuzz/src/packets.rs", "empty volumes, each made once: always equal"),
];

pub(super) const RULE: Rule = Rule {
    name: "globals",
    about: "no static mut, thread_local, OnceLock or other state outside values",
    check,
};

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in project.rust() {
        if EXCEPTIONS.iter().any(|(path, _)| *path == file.path) {
            continue;
        }
        for (index, token) in rust.tokens.iter().enumerate() {
            let Some(name) = token.ident() else { continue };
            let found = GLOBAL.contains(&name) || (name == "static" && changes(rust, index));
            if found {
                let what = format!("{name}: keep it in a value that is passed on");
                findings.push(Finding::new(&file.path, token.line, what));
            }
        }
    }
    findings
}

/// Whether the `static` at an index is one that can change: `static mut`, or of a type with
/// interior mutability.
fn changes(rust: &Rust, index: usize) -> bool {
    let lifetime = index > 0 && rust.at(index - 1).punct('\'');
    if lifetime {
        return false;
    }
    let behind = rust.tokens[index + 1..].iter();
    let mut item = behind.take_while(|token| !matches!(token.kind, Kind::Punct('=' | ';')));
    rust.at(index + 1).is("mut")
        || item.any(|token| {
            token.ident().is_some_and(|name| CHANGING.contains(&name) || name.starts_with("Atomic"))
        })
}

#[cfg(test)]
mod tests {
    use super::super::testing::lines;
    use super::*;

    #[test]
    fn every_kind_of_global_is_found() {
        for text in [
            "static mut A: u8 = 0;",
            "static A: Mutex<u8> = Mutex::new(0);",
            "pub static A: AtomicU64 = AtomicU64::new(0);",
            "static A: std::sync::OnceLock<u8> = f();",
            "thread_local! { }",
            "fn f() { static A: LazyLock<u8> = g(); }",
        ] {
            assert_eq!(lines(&RULE, "crates/a/src/a.rs", text)[0], 1, "{text}");
        }
    }

    #[test]
    fn constants_and_lifetimes_are_not() {
        for text in
            ["static A: &[u8] = &[];", "fn f(a: &'static Cell<u8>) {}", "struct A(RefCell<u8>);"]
        {
            assert!(lines(&RULE, "crates/a/src/a.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn exceptions_give_their_reason() {
        assert!(EXCEPTIONS.iter().all(|(_, reason)| reason.len() > 20));
    }
}
