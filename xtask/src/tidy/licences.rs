//! The licences of dependencies must allow shipping under Apache-2.0 OR MIT.
//!
//! Contract: the list is that of deny.toml, which `cargo deny` holds in continuous integration, with
//! advisories and sources; this rule holds it on machines without that program.

use super::{Finding, Rule};
use crate::tree::Project;

/// The file with the list.
const LIST: &str = "deny.toml";

pub(super) const RULE: Rule = Rule {
    name: "licences",
    about: "dependencies are licensed so that the whole may be Apache-2.0 OR MIT",
    check,
};

fn check(project: &Project) -> Vec<Finding> {
    let list = project.files.iter().find(|file| file.path == LIST);
    let allowed = list.and_then(|list| list.text.split_once("allow = [")?.1.split_once(']'));
    let allowed: Vec<&str> =
        allowed.map_or(Vec::new(), |(list, _)| list.split('"').skip(1).step_by(2).collect());
    let others = project.packages.iter().filter(|package| !package.member);
    let wrong = others.filter(|p| !p.license.as_deref().is_some_and(|text| allows(text, &allowed)));
    let finding = |package: &crate::tree::Package| {
        let name = format!("{} {}", package.name, package.version);
        let licence = package.license.as_deref().unwrap_or("no licence field");
        Finding::new(&name, 0, format!("{licence} is not on the list of {LIST}"))
    };
    wrong.map(finding).collect()
}

/// Whether an SPDX expression can be satisfied with allowed licences only. `/` is an old form of OR. What is
/// nested deeper than choices that all apply is refused: nobody writes it.
fn allows(expression: &str, allowed: &[&str]) -> bool {
    let plain = expression.replace('/', " OR ").replace(['(', ')'], "");
    let one = |name: &str| allowed.contains(&name.trim().trim_end_matches(" WITH LLVM-exception"));
    plain.split(" AND ").all(|choices| choices.split(" OR ").any(one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Package;
    use crate::tree::testing::files;

    #[test]
    fn expressions_are_judged_by_what_can_be_chosen() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"];
        for fine in [
            "MIT",
            "Apache-2.0 OR GPL-2.0",
            "MIT/Apache-2.0",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
        ] {
            assert!(allows(fine, &allowed), "{fine}");
        }
        for bad in ["GPL-2.0", "MIT AND GPL-2.0", "MIT WITH odd-exception", "", "MIT MIT"] {
            assert!(!allows(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn a_dependency_with_another_licence_or_none_is_found() {
        let with = |name: &str, license: Option<&str>| Package {
            name: name.into(),
            license: license.map(Into::into),
            ..Package::default()
        };
        let mut project = files(&[(LIST, "[licenses]\nallow = [\n    \"MIT\",\n]\n")]);
        project.packages =
            vec![with("a", Some("MIT")), with("b", Some("AGPL-3.0")), with("c", None)];
        let found: Vec<_> = check(&project).into_iter().map(|f| f.path).collect();
        assert_eq!(found, ["b ", "c "]);
    }
}
