//! The allowed dependencies between crates, and the required fields of each manifest.

use std::collections::BTreeSet;

use super::cfg::PLANTED;
use super::{Finding, Rule};
use crate::tree::{HARNESS, Package, Project};

/// The direct dependencies that each crate may have; those of its dependencies are allowed too.
/// ARCHITECTURE.md explains the table; a crate is added when its first code arrives. A layout has
/// no row unless it needs more than [`OF_LAYOUTS`]: the registry shows which crates are layouts.
const HOUSE: &[(&str, &[&str])] = &[
    ("twin-rt", &["twin-settings"]),
    ("twin-settings", &[]),
    ("twin-report", &[]),
    ("twin-disk", &["twin-rt", "twin-settings"]),
    ("twin-bucket", &["twin-disk", "twin-cache"]),
    ("twin-clean", &["twin-rt", "twin-settings"]),
    ("twin-cache", &["twin-disk"]),
    ("twin-fs", &["twin-cache"]),
    ("twin-check", &["twin-fs"]),
    ("twin-lfs", &["twin-check", "twin-clean"]),
    ("twin-trace", &["twin-fs"]),
    ("twin-generate", &["twin-trace"]),
    ("twin-gather", &["twin-trace", "twin-nfs", "twin-report"]),
    ("twin-model", &["twin-fs"]),
    ("twin-sim", &["twin-fs", "twin-bucket"]),
    ("twin-nfs", &["twin-fs"]),
    ("twin-policy", &[]),
    ("twin-host", &["twin-trace", "twin-nfs", "twin-clean", "twin-policy"]),
    ("twin-age", &["twin-trace"]),
    ("twin-observe", &["twin-sim", "twin-trace", "twin-report"]),
    ("twin-remote", &["twin-sim", "twin-nfs"]),
    ("twin-lab", &["twin-observe", "twin-remote", "twin-generate", "twin-host"]),
    ("twin-verdict", &["twin-lab"]),
    ("twin-server", &["twin-verdict"]),
    ("twin-studies", &["twin-lab"]),
    ("twin-flight", &["twin-lab"]),
    ("twin-ageing", &["twin-verdict", "twin-age"]),
    ("twin-bench", &["twin-ageing"]),
    ("twin-lessons", &["twin-sim", "twin-nfs"]),
    ("twin-wasm", &["twin-lessons"]),
    ("twin-experiment", &["twin-verdict"]),
    ("twin-advise", &["twin-verdict"]),
    ("twin-arena", &["twin-verdict", "twin-studies"]),
    ("twin-top", &["twin-lab", "twin-cli"]),
    ("twin-cli", &["twin-host", "twin-report"]),
    ("twin-papers", &["twin-bench", "twin-ageing", "twin-server", "twin-cli"]),
    ("twin-proof", &["twin-send", "twin-ageing", "twin-flight", "twin-model", "twin-bucket"]),
    ("twin-crashlab", &["twin-fs", "twin-report"]),
    ("twin-send", &["twin-fs"]),
    ("twin-show", &["twin-fs"]),
    ("twin-mount", &["twin-ageing", "twin-flight", "twin-gather", "twin-crashlab"]),
    ("twin-real", &["twin-mount", "twin-bench"]),
    (
        "twinfs",
        &[
            "twin-real",
            "twin-server",
            "twin-send",
            "twin-show",
            "twin-top",
            "twin-cli",
            "twin-experiment",
            "twin-advise",
            "twin-arena",
            "twin-lessons",
            "twinfs-crashlab",
        ],
    ),
    ("twinfs-crashlab", &[]),
    ("twin-fuzz", &["twin-send", "twin-lab", "twin-model", "twin-gather"]),
    ("twin-py", &["twin-lab"]),
    ("xtask", &[]),
];

/// The crates that run in both worlds or in the simulated one, none of which may access the host.
/// The [layouts] belong to them.
pub(super) const BELOW_HOST: &[&str] = &[
    "twin-rt",
    "twin-settings",
    "twin-report",
    "twin-disk",
    "twin-bucket",
    "twin-clean",
    "twin-cache",
    "twin-fs",
    "twin-check",
    "twin-trace",
    "twin-generate",
    "twin-age",
    "twin-gather",
    "twin-nfs",
    "twin-model",
    "twin-send",
    "twin-show",
    "twin-sim",
    "twin-observe",
    "twin-remote",
    "twin-lessons",
];

/// The registry of layouts. A crate with an entry there is a layout.
pub(super) const REGISTRY: &str = "crates/twin-lab/src/layouts.rs";

/// The dependencies that a layout may have unless the table says otherwise, and the crates that may
/// use all layouts.
const OF_LAYOUTS: &[&str] = &["twin-check"];
const USES_LAYOUTS: &[&str] = &["twin-lab", "twin-lessons"];

/// The layouts of the lessons, which run where the registry cannot be linked.
const LESSONS: &str = "crates/twin-lessons/src/volume/layouts.rs";

/// The licence of every crate of the project.
const LICENCE: &str = "Apache-2.0 OR MIT";

pub(super) const USES: Rule = Rule {
    name: "house",
    about: "a crate uses only crates below it; twin-sim and twin-host never use each other; only \
            the registry names layouts",
    check: uses,
};

pub(super) const FIELDS: Rule = Rule {
    name: "manifests",
    about: "crates have licence, description and the workspace's lints, no features but planted \
            faults, and are in ARCHITECTURE.md; Cargo.lock is there",
    check: fields,
};

fn uses(project: &Project) -> Vec<Finding> {
    let members: Vec<&Package> = project.packages.iter().filter(|p| p.member).collect();
    let layouts = layouts(project);
    let mut findings = Vec::new();
    for package in &members {
        let Some(allowed) = allowed(&package.name, &layouts) else {
            let what =
                "is not in the table of crates: give it a place in HOUSE and ARCHITECTURE.md";
            findings.push(Finding::new(&package.name, 0, what));
            continue;
        };
        // Tests may use the harness; shipped code must not.
        let judged = package.dev_dependencies.iter();
        let judged = judged.filter(|used| !HARNESS.contains(&used.as_str()));
        for used in package.dependencies.iter().chain(judged) {
            let ours = members.iter().any(|member| member.name == *used);
            if ours && *used != package.name && !allowed.contains(used.as_str()) {
                let list = allowed.iter().copied().collect::<Vec<_>>().join(", ");
                let what = format!("may not use {used}; it may use: {list}");
                findings.push(Finding::new(&package.name, 0, what));
            }
        }
    }
    findings.extend(named_outside(project, &layouts));
    findings
}

/// Places in shipped code that name a layout, outside of its own crate and the registry: what a
/// program needs of a layout is behind its entry.
fn named_outside(project: &Project, layouts: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in project.rust() {
        let own = file.krate().is_some_and(|krate| layouts.contains(krate));
        let inside = file.path.contains("/src/") && file.path != REGISTRY && file.path != LESSONS;
        if own || !inside || file.is_test() {
            continue;
        }
        for path in rust.paths().into_iter().filter(|path| !path.in_test) {
            let first = path.segments.first().map(|name| name.replace('_', "-"));
            if first.is_some_and(|name| path.segments.len() > 1 && layouts.contains(&name)) {
                let what = format!("names {}: ask the layout's entry", path.segments.join("::"));
                findings.push(Finding::new(&file.path, path.line, what));
            }
        }
    }
    findings
}

/// The crates with an entry in the registry of layouts, where each appears as `twin_lfs::LFS`.
pub(crate) fn layouts(project: &Project) -> BTreeSet<String> {
    let registry = project.rust().find(|(file, _)| file.path == REGISTRY);
    let paths = registry.into_iter().flat_map(|(_, rust)| rust.paths());
    let entries = paths.filter_map(|path| match path.segments.as_slice() {
        [krate, entry] if entry.chars().all(|c| c.is_ascii_uppercase()) => Some(krate.clone()),
        _ => None,
    });
    entries.map(|krate| krate.replace('_', "-")).collect()
}

/// All crates that a crate may use, directly or indirectly; `None` if neither the table nor the
/// registry of layouts has it.
fn allowed<'a>(name: &str, layouts: &'a BTreeSet<String>) -> Option<BTreeSet<&'a str>> {
    let row = HOUSE.iter().find(|(krate, _)| *krate == name).map(|(_, direct)| *direct);
    let direct = row.or_else(|| layouts.contains(name).then_some(OF_LAYOUTS))?;
    let of_registry = layouts.iter().filter(|_| USES_LAYOUTS.contains(&name)).map(String::as_str);
    let mut all = BTreeSet::new();
    for below in direct.iter().copied().chain(of_registry) {
        all.insert(below);
        all.extend(allowed(below, layouts)?);
    }
    Some(all)
}

fn fields(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut say = |name: &str, what: &str| findings.push(Finding::new(name, 0, what));
    let map = project.files.iter().find(|file| file.path == "ARCHITECTURE.md");
    for package in project.packages.iter().filter(|package| package.member) {
        if package.license.as_deref() != Some(LICENCE) {
            say(&package.name, "needs `license.workspace = true`");
        }
        if package.description.as_deref().is_none_or(|text| text.len() < 10) {
            say(&package.name, "needs a `description` of a line");
        }
        if package.features.iter().any(|feature| feature != PLANTED) {
            say(&package.name, "has features: a difference is a value that is passed in");
        }
        if map.is_some_and(|map| !map.text.contains(&format!("`{}`", package.name))) {
            say(&package.name, "is missing in the map of ARCHITECTURE.md");
        }
    }
    let manifests = project.files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
    for manifest in manifests.filter(|file| file.krate().is_some()) {
        if !manifest.text.contains("[lints]\nworkspace = true") {
            say(&manifest.path, "needs `[lints] workspace = true`");
        }
    }
    if !project.has("Cargo.lock") {
        say("Cargo.lock", "is missing: builds are to be the same everywhere");
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::{files, packages};

    fn package(name: &str, uses: &[&str]) -> Package {
        Package {
            name: name.into(),
            license: Some(LICENCE.into()),
            description: Some("a description".into()),
            member: true,
            dependencies: uses.iter().map(|&name| name.into()).collect(),
            ..Package::default()
        }
    }

    #[test]
    fn a_crate_may_use_what_is_below_it_however_far() {
        let all = ["twin-lab", "twin-host", "twin-lfs", "twin-rt", "serde"];
        let mut project = files(&[(REGISTRY, "&[twin_lfs::LFS, twin_ffs::FFS]")]);
        project.packages.extend([
            package("twin-rt", &["serde"]),
            package("twin-lfs", &["twin-rt"]),
            package("twin-host", &["twin-trace", "twin-rt"]),
            package("twinfs", &all),
            package("twin-lab", &["twin-lfs"]),
        ]);
        assert_eq!(uses(&project), []);
    }

    #[test]
    fn what_is_shipped_may_not_use_the_harness() {
        let mut lfs = package("twin-lfs", &["twin-fs"]);
        lfs.dev_dependencies = vec!["twin-model".into()];
        let all = [package("twin-model", &[]), package("twin-fs", &[])];
        assert_eq!(uses(&packages(&[lfs.clone(), all[0].clone(), all[1].clone()])), []);
        lfs.dependencies.push("twin-model".into());
        assert_eq!(uses(&packages(&[lfs, all[0].clone(), all[1].clone()])).len(), 1);
    }

    #[test]
    fn shipped_code_names_no_layout_but_in_the_registry() {
        let text = "use twin_lfs::Lfs; #[cfg(test)] mod tests { use twin_ffs::Ffs; }";
        for (path, found) in [
            ("crates/twin-lab/src/status.rs", 1),
            ("crates/twin-lfs/src/status.rs", 0),
            ("crates/twin-lab/tests/status.rs", 0),
            ("crates/twin-proof/src/lib.rs", 0),
        ] {
            let project = files(&[(REGISTRY, "&[twin_lfs::LFS, twin_ffs::FFS]"), (path, text)]);
            assert_eq!(uses(&project).len(), found, "{path}");
        }
    }

    #[test]
    fn using_upwards_and_strangers_are_found() {
        let project = packages(&[
            package("twin-rt", &["twin-disk"]),
            package("twin-disk", &[]),
            package("twin-new", &[]),
        ]);
        let found: Vec<_> = uses(&project).into_iter().map(|f| f.path).collect();
        assert_eq!(found, ["twin-rt", "twin-new"]);
    }

    #[test]
    fn the_simulator_and_the_host_never_use_each_other() {
        let mut project = files(&[(REGISTRY, "&[twin_lfs::LFS, twin_ffs::FFS]")]);
        let both = [package("twin-sim", &["twin-host"]), package("twin-host", &["twin-sim"])];
        project.packages.extend(both);
        assert_eq!(uses(&project).len(), 2);
        let layouts = BTreeSet::from(["twin-ffs".to_string()]);
        assert!(!allowed("twin-sim", &layouts).unwrap().contains("twin-host"));
        assert!(!allowed("twin-host", &layouts).unwrap().contains("twin-sim"));
    }

    #[test]
    fn the_table_holds_every_crate_below_the_host_and_closes() {
        let layouts = ["twin-lfs", "twin-ffs"].map(String::from).into();
        for krate in BELOW_HOST {
            assert!(!allowed(krate, &layouts).unwrap().contains("twin-host"), "{krate}");
        }
        let fs = allowed("twin-fs", &layouts).unwrap();
        assert_eq!(fs, BTreeSet::from(["twin-rt", "twin-settings", "twin-disk", "twin-cache"]));
        let (python, lab) =
            (allowed("twin-py", &layouts).unwrap(), allowed("twin-lab", &layouts).unwrap());
        assert!(python.contains("twin-lab") && python.is_superset(&lab) && lab.contains("twin-rt"));
    }

    #[test]
    fn a_crate_in_the_registry_of_layouts_is_a_layout_without_a_row_in_the_table() {
        let text =
            "use twin_fs::LayoutKind; const ALL: &[&dyn LayoutKind] = &[twin_ffs::FFS, a_b::NEW];";
        let mut project = files(&[(REGISTRY, text)]);
        project.packages =
            vec![package("a-b", &["twin-fs", "twin-clean"]), package("twin-fs", &[])];
        project.packages.push(package("twin-clean", &[]));
        project.packages.push(package("twin-lab", &["a-b"]));
        assert_eq!(layouts(&project), BTreeSet::from(["a-b", "twin-ffs"].map(String::from)));
        let found = uses(&project);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().contains("may not use twin-clean"), "{found:?}");
    }

    #[test]
    fn manifests_without_licence_description_or_lints_are_found() {
        let mut project = files(&[
            ("Cargo.lock", ""),
            ("ARCHITECTURE.md", "`twin-disk`"),
            ("crates/twin-rt/Cargo.toml", "[lints]\nworkspace = false"),
        ]);
        let bare = Package { features: vec!["sim".into()], ..package("twin-rt", &[]) };
        let bare = Package { license: None, description: None, ..bare };
        project.packages = vec![bare, package("twin-disk", &[])];
        assert_eq!(fields(&project).len(), 5);
        project.files.remove(0);
        assert_eq!(fields(&project).len(), 6);
    }
}
