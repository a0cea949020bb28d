//! The layers of twin-fs correspond to its folders: no file names a layer above its own.
//!
//! Modules that are in no layer (the vocabulary of operations, errors, permissions, sizes) may be
//! named everywhere. The compiler refuses calls upwards that need no name: a layer has no value of
//! those above.

use super::{Finding, Rule};
use crate::rust::Rust;
use crate::tree::Project;

pub(super) const RULE: Rule =
    Rule { name: "layers", about: "in twin-fs each layer uses only those below", check };

/// The layers by their modules, the lowest first.
const LAYERS: &[&[&str]] = &[
    &["inodes"],
    &["core"],
    &["layout"],
    &["data"],
    &["orphans"],
    &["dir"],
    &["scrub"],
    &["ops", "write_back"],
    &["volume"],
];

fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in project.rust() {
        let inside = file.path.strip_prefix("crates/twin-fs/src/").filter(|_| !file.is_test());
        let own = inside.and_then(|path| layer_of(path.split(['/', '.']).next()?));
        let Some(own) = own else { continue };
        findings.extend(above(rust, own).into_iter().map(|name| {
            let what = format!("names {name}, a layer above: let that layer call this one");
            Finding::new(&file.path, 0, what)
        }));
    }
    findings
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The modules above a layer that a file names.
fn above(rust: &Rust, own: usize) -> Vec<String> {
    let paths = rust.paths().into_iter().filter(|path| !path.in_test);
    let named = paths.filter_map(|path| match path.segments.as_slice() {
        [root, module, ..] if root == "crate" => Some(module.clone()),
        _ => None,
    });
    named.filter(|module| layer_of(module).is_some_and(|layer| layer > own)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::SourceFile;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let project = Project { files: vec![SourceFile::new(path, text)], packages: Vec::new() };
        check(&project).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_layer_that_names_one_above_is_found() {
        let text = "use crate::dir::Hit; fn f() { crate::ops::run() }";
        let found = findings("crates/twin-fs/src/data/write.rs", text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(findings("crates/twin-fs/src/core.rs", "use crate::layout::Layout;").len(), 1);
    }

    #[test]
    fn layers_below_the_vocabulary_other_crates_and_tests_pass() {
        let text = "use crate::{core::Core, Op}; use crate::perm; #[cfg(test)] mod t { use crate::volume::V; }";
        assert_eq!(findings("crates/twin-fs/src/ops/file.rs", text), [""; 0]);
        assert_eq!(findings("crates/twin-fs/src/perm.rs", "use crate::ops::X;"), [""; 0]);
        assert_eq!(findings("crates/twin-lfs/src/data.rs", "use crate::ops::X;"), [""; 0]);
    }
}
