//! Files of a crate do not use each other in a circle, so that each can be read after those that it
//! uses.
//!
//! File A uses file B if a path in A leads to a name in B, also through a re-export, or if A calls
//! a method on `self` that only B defines, for a type whose methods are spread over several files.
//! Declaring a module or passing its names on (`pub use`) is no use. A module and the modules inside it may use
//! each other and count as one towards others: what uses a module's child is used by no part of the module. A
//! crate may still have the circles that xtask/going.txt counts; their number may only fall.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Rule, going};
use crate::rust::{Kind, Path, Rust};
use crate::tree::Project;

pub(super) const RULE: Rule = Rule {
    name: "circles",
    about: "the files of a crate do not use each other in a circle",
    check,
};

/// Maximum number of re-exports of a name that the search follows.
const REEXPORTS: usize = 8;

/// The files of one crate.
struct Krate<'a> {
    /// By module path: the file's path and its tokens.
    files: BTreeMap<Vec<String>, (&'a str, &'a Rust)>,
    /// By module path: the imports of the file.
    imports: BTreeMap<Vec<String>, Vec<Path>>,
    /// Methods that exactly one file defines, of types whose methods are in several files.
    methods: BTreeMap<String, Vec<String>>,
}

/// The modules that each module uses.
type Uses = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

fn check(project: &Project) -> Vec<Finding> {
    let names: BTreeSet<&str> = project.files.iter().filter_map(|file| file.krate()).collect();
    let mut findings = Vec::new();
    for name in names {
        let found = check_crate(&Krate::read(project, name));
        let entry = going::all(project).find(|e| e.kind == going::CIRCLES && e.word == name);
        match entry {
            Some(entry) if found.len() < entry.left => findings.push(entry.less(found.len())),
            Some(entry) if found.len() == entry.left => {}
            _ => findings.extend(found),
        }
    }
    findings
}

/// The number of circles in a crate.
pub(super) fn number(project: &Project, krate: &str) -> usize {
    check_crate(&Krate::read(project, krate)).len()
}

fn check_crate(krate: &Krate<'_>) -> Vec<Finding> {
    let finding = |circle: &Vec<Vec<String>>| {
        let path = |module: &Vec<String>| krate.files.get(module).map_or("", |(path, _)| path);
        let files: Vec<&str> = circle.iter().map(path).collect();
        let what = format!(
            "uses {} and is used by it, directly or not, each with what is inside: move what both need to a \
             file of its own",
            files[1..].join(", ")
        );
        Finding::new(files[0], 0, what)
    };
    circles(&collapsed(&krate.uses())).iter().map(finding).collect()
}

/// What modules use beside themselves: each with all that is inside it stands beside its siblings.
fn collapsed(uses: &Uses) -> Uses {
    let mut all = Uses::new();
    for (from, used) in uses {
        for to in used {
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            if common < from.len() && common < to.len() {
                let [from, to] = [from, to].map(|module| module[..=common].to_vec());
                all.entry(from).or_default().insert(to.clone());
                all.entry(to).or_default();
            }
        }
    }
    all
}

impl<'a> Krate<'a> {
    fn read(project: &'a Project, name: &str) -> Krate<'a> {
        let mut files = BTreeMap::new();
        for (file, rust) in project.rust() {
            if file.krate() == Some(name)
                && !file.is_test()
                && let Some(module) = module_of(&file.path)
            {
                files.insert(module, (file.path.as_str(), rust));
            }
        }
        let imports = files.iter().map(|(module, (_, rust))| {
            let imported = rust.paths().into_iter().filter(|path| path.imported && !path.in_test);
            (module.clone(), imported.collect())
        });
        let imports = imports.collect();
        let methods = spread_methods(&files);
        Krate { files, imports, methods }
    }

    fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (module, (_, rust)) in &self.files {
            let paths = rust.paths().into_iter().filter(|path| !path.in_test && !path.reexported);
            let named = paths.filter_map(|path| self.resolve(module, &path.segments, REEXPORTS));
            let called = self.called(rust);
            let used: BTreeSet<Vec<String>> =
                named.chain(called).filter(|other| other != module).collect();
            uses.insert(module.clone(), used);
        }
        uses
    }

    /// The module that defines what a path in `module` names, if it is in this crate.
    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<Vec<String>> {
        let absolute = self.absolute(module, path)?;
        let known = (0..=absolute.len()).rev().find(|&n| self.files.contains_key(&absolute[..n]));
        let (found, rest) = absolute.split_at(known?);
        let Some(name) = rest.first() else { return Some(found.to_vec()) };
        let import = self.imports.get(found)?.iter().find(|import| {
            import.segments.last() == Some(name) && depth > 0 && import.segments.len() > 1
        });
        match import {
            Some(import) => self.resolve(found, &import.segments, depth - 1),
            None => Some(found.to_vec()),
        }
    }

    /// A path in `module` from the root of the crate; `None` if it leads out of it.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let first = path.first()?;
        let mut base = module.to_vec();
        let mut rest = path;
        match first.as_str() {
            "crate" => {
                base.clear();
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|word| word == "super") {
                    base.pop()?;
                    rest = &rest[1..];
                }
            }
            // A module beside or below, or a name that is not a module.
            _ => {
                let below: Vec<String> = base.iter().chain([first]).cloned().collect();
                if !self.files.contains_key(&below) {
                    return None;
                }
            }
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }

    /// The modules whose methods are called on `self`.
    fn called(&self, rust: &Rust) -> Vec<Vec<String>> {
        let calls = (0..rust.tokens.len()).filter(|&at| {
            rust.at(at).is("self") && rust.at(at + 1).punct('.') && !rust.at(at).in_test
        });
        let name = |at: usize| match rust.at(at + 3).kind {
            Kind::Open('(', _) => rust.at(at + 2).ident(),
            _ => None,
        };
        calls.filter_map(|at| self.methods.get(name(at)?).cloned()).collect()
    }
}

/// The module path of a file: `a/b` for `crates/x/src/a/b.rs` and `crates/x/src/a/b/mod.rs`.
fn module_of(path: &str) -> Option<Vec<String>> {
    let (_, inside) = path.split_once("/src/")?;
    let inside = inside.strip_suffix(".rs")?;
    let mut parts: Vec<String> = inside.split('/').map(String::from).collect();
    if parts.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        parts.pop();
    }
    Some(parts)
}

/// Methods that exactly one file defines, of types whose methods are in several files.
fn spread_methods(files: &BTreeMap<Vec<String>, (&str, &Rust)>) -> BTreeMap<String, Vec<String>> {
    let mut homes: BTreeMap<&str, BTreeSet<&Vec<String>>> = BTreeMap::new();
    let mut defined: BTreeMap<&str, BTreeMap<&str, BTreeSet<&Vec<String>>>> = BTreeMap::new();
    for (module, (_, rust)) in files {
        for (of, names) in inherent_impls(rust) {
            homes.entry(of).or_default().insert(module);
            for name in names {
                defined.entry(of).or_default().entry(name).or_default().insert(module);
            }
        }
    }
    let mut methods: BTreeMap<String, Option<Vec<String>>> = BTreeMap::new();
    for (of, names) in defined {
        let spread = homes[of].len() > 1;
        for (name, modules) in names {
            let home = modules.first().filter(|_| spread && modules.len() == 1);
            let home = home.map(|module| (*module).clone());
            // The same name on two types: the call does not show which one is meant.
            methods.entry(name.into()).and_modify(|known| *known = None).or_insert(home);
        }
    }
    methods.into_iter().filter_map(|(name, home)| Some((name, home?))).collect()
}

/// The inherent `impl` blocks of a file: the type, and the functions in the block.
fn inherent_impls(rust: &Rust) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    for at in 0..rust.tokens.len() {
        if !rust.at(at).is("impl") || rust.at(at).in_test {
            continue;
        }
        let Some((head, close)) = (at + 1..rust.tokens.len()).find_map(|i| match rust.at(i).kind {
            Kind::Open('{', close) => Some((i, close)),
            _ => None,
        }) else {
            continue;
        };
        let words = &rust.tokens[at + 1..head];
        if words.iter().any(|word| word.is("for")) {
            continue;
        }
        let Some(of) = type_name(words) else { continue };
        let functions = (head..close).filter(|&i| rust.at(i).is("fn"));
        found.push((of, functions.filter_map(|i| rust.at(i + 1).ident()).collect()));
    }
    found
}

/// The type of an `impl`: the first name outside of angle brackets.
fn type_name(words: &[crate::rust::Token]) -> Option<&str> {
    let mut depth = 0;
    for word in words {
        match word.kind {
            Kind::Punct('<') => depth += 1,
            Kind::Punct('>') => depth -= 1,
            _ if depth == 0 => match word.ident() {
                Some(name) => return Some(name),
                None => continue,
            },
            _ => {}
        }
    }
    None
}

/// Sets of modules that use each other in a circle.
fn circles(uses: &Uses) -> Vec<Vec<Vec<String>>> {
    let reach = |from: &Vec<String>| {
        let mut seen: BTreeSet<&Vec<String>> = BTreeSet::new();
        let mut open: Vec<&Vec<String>> = vec![from];
        while let Some(module) = open.pop() {
            for next in uses.get(module).into_iter().flatten() {
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&Vec<String>, _> = uses.keys().map(|from| (from, reach(from))).collect();
    let mut circles = BTreeSet::new();
    for (from, to) in &reached {
        if to.contains(from) {
            let both =
                to.iter().filter(|other| reached.get(**other).is_some_and(|r| r.contains(from)));
            circles.insert(both.map(|module| (*module).clone()).collect::<Vec<_>>());
        }
    }
    circles.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::SourceFile;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| SourceFile::new(path, text)).collect();
        let project = Project { files, packages: Vec::new() };
        check(&project).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn files_that_use_each_other_are_found_also_through_a_third_and_a_re_export() {
        let found = findings(&[
            ("crates/x/src/lib.rs", "mod a; mod b; mod c; pub use c::C;"),
            ("crates/x/src/a.rs", "use crate::b::B; pub struct A(B);"),
            ("crates/x/src/b.rs", "use crate::C; pub struct B(C);"),
            ("crates/x/src/c.rs", "pub struct C(Box<super::a::A>);"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("b.rs") && found[0].contains("c.rs"));
    }

    #[test]
    fn a_module_counts_with_its_children_towards_others() {
        let through_a_child = [
            ("crates/x/src/lib.rs", "mod a; mod b;"),
            ("crates/x/src/a/mod.rs", "mod c; use crate::b::B; pub struct A(B);"),
            ("crates/x/src/a/c.rs", "pub struct C;"),
            ("crates/x/src/b.rs", "pub struct B(crate::a::c::C);"),
        ];
        assert_eq!(findings(&through_a_child).len(), 1);
        let known = |number| {
            let line = format!("circles {number} x: part them");
            findings(&[&through_a_child[..], &[(going::LIST, line.as_str())]].concat())
        };
        assert_eq!(known(1), [""; 0]);
        assert!(known(2)[0].contains("only 1 are left"));
        assert_eq!(known(0).len(), 1);
    }

    #[test]
    fn methods_of_one_type_in_two_files_that_call_each_other_are_a_circle() {
        let found = findings(&[
            ("crates/x/src/lib.rs", "mod t; mod a; mod b;"),
            ("crates/x/src/t.rs", "pub struct T;"),
            ("crates/x/src/a.rs", "use crate::t::T; impl T { fn one(&self) { self.two() } }"),
            ("crates/x/src/b.rs", "use crate::t::T; impl T { fn two(&self) { self.one() } }"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn a_module_its_children_and_tests_may_use_each_other() {
        let found = findings(&[
            ("crates/x/src/lib.rs", "mod a; mod b;"),
            ("crates/x/src/a/mod.rs", "mod c; pub trait P {} pub fn all() { c::C; }"),
            ("crates/x/src/a/c.rs", "use super::P; pub struct C; impl P for C {}"),
            ("crates/x/src/b.rs", "use crate::a::all; #[cfg(test)] mod t {}"),
            ("crates/x/src/a/tests.rs", "use crate::b;"),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
