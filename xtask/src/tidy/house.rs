//! Which crate may use which, and what every crate's manifest says.

use std::collections::BTreeSet;

use super::{Finding, Rule};
use crate::tree::{Package, Project};

/// Who may use whom directly. What these may use, they may use too. ARCHITECTURE.md explains the
/// table; a crate comes in when its first code arrives.
const HOUSE: &[(&str, &[&str])] = &[
    ("twin-rt", &[]),
    ("twin-settings", &[]),
    ("twin-disk", &["twin-rt", "twin-settings"]),
    ("twin-clean", &["twin-rt", "twin-settings"]),
    ("twin-cache", &["twin-disk"]),
    ("twin-fs", &["twin-cache"]),
    ("twin-lfs", &["twin-fs", "twin-clean"]),
    ("twin-ffs", &["twin-fs"]),
    ("twin-trace", &["twin-fs"]),
    ("twin-sim", &["twin-lfs", "twin-ffs", "twin-trace"]),
    ("twin-host", &["twin-lfs", "twin-ffs", "twin-trace"]),
    ("twin-lab", &["twin-sim", "twin-host"]),
    ("twinfs", &["twin-lab"]),
    ("twin-fuzz", &["twin-lab"]),
    ("twin-py", &["twin-lab"]),
    ("xtask", &[]),
];

/// The crates that run in both worlds or in the simulated one: nothing in them may ask the host.
pub(super) const BELOW_HOST: &[&str] = &[
    "twin-rt",
    "twin-settings",
    "twin-disk",
    "twin-clean",
    "twin-cache",
    "twin-fs",
    "twin-lfs",
    "twin-ffs",
    "twin-trace",
    "twin-sim",
];

/// The licence of every crate of the project.
const LICENCE: &str = "Apache-2.0 OR MIT";

pub(super) const USES: Rule = Rule {
    name: "house",
    about: "a crate uses only what stands below it; twin-sim and twin-host never meet",
    check: uses,
};

pub(super) const FIELDS: Rule = Rule {
    name: "manifests",
    about: "crates have licence, description and the workspace's lints, no features, and are in \
            ARCHITECTURE.md; Cargo.lock is there",
    check: fields,
};

fn uses(project: &Project) -> Vec<Finding> {
    let members: Vec<&Package> = project.packages.iter().filter(|p| p.member).collect();
    let mut findings = Vec::new();
    for package in &members {
        let Some(allowed) = allowed(&package.name) else {
            let what =
                "is not in the table of crates: give it a place in HOUSE and ARCHITECTURE.md";
            findings.push(Finding::new(&package.name, 0, what));
            continue;
        };
        for used in &package.dependencies {
            let ours = members.iter().any(|member| member.name == *used);
            if ours && *used != package.name && !allowed.contains(used.as_str()) {
                let list = allowed.iter().copied().collect::<Vec<_>>().join(", ");
                let what = format!("may not use {used}; it may use: {list}");
                findings.push(Finding::new(&package.name, 0, what));
            }
        }
    }
    findings
}

/// What a crate may use, directly and through others; none if the table does not hold it.
fn allowed(name: &str) -> Option<BTreeSet<&'static str>> {
    let (_, direct) = HOUSE.iter().find(|(krate, _)| *krate == name)?;
    let mut all = BTreeSet::new();
    for &below in *direct {
        all.insert(below);
        all.extend(allowed(below)?);
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
        if !package.features.is_empty() {
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
        let project = packages(&[
            package("twin-rt", &["serde"]),
            package("twin-lfs", &["twin-rt"]),
            package("twin-host", &["twin-lfs", "twin-rt"]),
            package("twinfs", &all),
            package("twin-lab", &["twin-host"]),
        ]);
        assert_eq!(uses(&project), []);
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
        let project =
            packages(&[package("twin-sim", &["twin-host"]), package("twin-host", &["twin-sim"])]);
        assert_eq!(uses(&project).len(), 2);
        assert!(!allowed("twin-sim").unwrap().contains(&"twin-host"));
        assert!(!allowed("twin-host").unwrap().contains(&"twin-sim"));
    }

    #[test]
    fn the_table_holds_every_crate_below_the_host_and_closes() {
        for krate in BELOW_HOST {
            assert!(!allowed(krate).unwrap().contains(&"twin-host"), "{krate}");
        }
        let fs = allowed("twin-fs").unwrap();
        assert_eq!(fs, BTreeSet::from(["twin-rt", "twin-settings", "twin-disk", "twin-cache"]));
        assert_eq!(allowed("twin-py").unwrap().len(), 12);
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
