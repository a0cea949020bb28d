//! The repository in the form that the rules check: its files with their text, and its packages.
//!
//! A [`Project`] is a value: tests of the rules make small ones from strings.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rust::Rust;

/// The files and packages that are checked.
pub(crate) struct Project {
    /// The files that git tracks, and those that it would add.
    pub(crate) files: Vec<SourceFile>,
    /// All packages, members of the workspace and dependencies.
    pub(crate) packages: Vec<Package>,
}

/// One text file.
pub(crate) struct SourceFile {
    /// Relative to the repository's root, with `/` between parts.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The tokens of a Rust file, or the error if it cannot be parsed; `None` for other files.
    pub(crate) rust: Option<Result<Rust, String>>,
}

/// One Cargo package.
#[derive(Clone, Debug, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) description: Option<String>,
    /// Whether it belongs to this workspace.
    pub(crate) member: bool,
    /// Names of its dependencies, including those for its build.
    pub(crate) dependencies: Vec<String>,
    /// Names of the additional dependencies of its tests and examples.
    pub(crate) dev_dependencies: Vec<String>,
    pub(crate) features: Vec<String>,
}

/// The crates that test the others.
pub(crate) const HARNESS: &[&str] = &["twin-model", "twin-proof", "twin-fuzz"];

impl SourceFile {
    pub(crate) fn new(path: &str, text: &str) -> SourceFile {
        let rust = path.ends_with(".rs").then(|| Rust::parse(text));
        SourceFile { path: path.into(), text: text.into(), rust }
    }

    /// The tokens, if it is a Rust file that can be parsed.
    pub(crate) fn tokens(&self) -> Option<&Rust> {
        self.rust.as_ref()?.as_ref().ok()
    }

    /// The crate of the file: `twin-rt` for `crates/twin-rt/src/lib.rs`.
    pub(crate) fn krate(&self) -> Option<&str> {
        let mut parts = self.path.split('/');
        match parts.next()? {
            "crates" => parts.next(),
            "xtask" => Some("xtask"),
            _ => None,
        }
    }

    /// Whether it serves tests, examples and benchmarks only, which includes crates that no shipped
    /// crate links.
    pub(crate) fn is_test(&self) -> bool {
        if self.krate().is_some_and(|krate| HARNESS.contains(&krate)) {
            return true;
        }
        let mut parts = self.path.rsplit('/');
        let file = parts.next().unwrap_or_default();
        file == "tests.rs"
            || file.ends_with("_tests.rs")
            || parts.any(|dir| matches!(dir, "tests" | "examples" | "benches"))
    }
}

impl Project {
    /// Reads the repository at `root`.
    ///
    /// # Errors
    /// A message, if git or cargo fails.
    pub(crate) fn read(root: &Path) -> Result<Project, String> {
        let listed = output(
            Command::new("git")
                .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
                .current_dir(root),
        )?;
        let mut files = Vec::new();
        for path in listed.split('\0').filter(|path| !path.is_empty()) {
            // A file that was deleted but is still in git's index, a link, or a binary file.
            let Ok(bytes) = std::fs::read(root.join(path)) else { continue };
            if let Ok(text) = String::from_utf8(bytes)
                && !text.contains('\0')
            {
                files.push(SourceFile::new(path, &text));
            }
        }
        Ok(Project { files, packages: packages(root)? })
    }

    /// Rust files of crates, with their tokens.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&SourceFile, &Rust)> {
        self.files.iter().filter_map(|file| Some((file, file.tokens()?)))
    }

    /// Whether there is a file or folder with this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty() || self.files.iter().any(|f| f.path == path || f.path.starts_with(&folder))
    }
}

/// The root of the repository from which this program was built.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The output of a command; an error if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let name = format!("{command:?}");
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name}: {}: {}", output.status, said.trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{name}: its output is not text"))
}

fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let text = output(
        Command::new(cargo)
            .args(["metadata", "--locked", "--format-version=1", "--filter-platform", host])
            .current_dir(root),
    )?;
    packages_of(&text)
}

/// Parses the output of `cargo metadata`.
fn packages_of(metadata: &str) -> Result<Vec<Package>, String> {
    let json: serde_json::Value =
        serde_json::from_str(metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().map(str::to_string);
    let members = list(&json["workspace_members"]);
    Ok(list(&json["packages"])
        .iter()
        .map(|package| Package {
            name: text(&package["name"]).unwrap_or_default(),
            version: text(&package["version"]).unwrap_or_default(),
            license: text(&package["license"]),
            description: text(&package["description"]),
            member: members.contains(&package["id"]),
            dependencies: list(&package["dependencies"])
                .iter()
                .filter(|dependency| dependency["kind"] != "dev")
                .filter_map(|dependency| text(&dependency["name"]))
                .collect(),
            dev_dependencies: list(&package["dependencies"])
                .iter()
                .filter(|dependency| dependency["kind"] == "dev")
                .filter_map(|dependency| text(&dependency["name"]))
                .collect(),
            features: package["features"]
                .as_object()
                .map(|features| features.keys().cloned().collect())
                .unwrap_or_default(),
        })
        .collect())
}

/// Makes `copy` a copy of the sources at `root`: what git knows, and what is new and not ignored.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn copy_to(root: &Path, copy: &Path) -> Result<(), String> {
    let text = |error: std::io::Error| format!("{}: {error}", copy.display());
    let _ = std::fs::remove_dir_all(copy);
    std::fs::create_dir_all(copy).map_err(text)?;
    let line = format!(
        "git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar x -C '{}'",
        copy.display()
    );
    let status = Command::new("sh").args(["-c", &line]).current_dir(root).status();
    match status.map_err(text)?.success() {
        true => Ok(()),
        false => Err("the sources cannot be copied".into()),
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A project of these files, without packages.
    pub(crate) fn files(files: &[(&str, &str)]) -> Project {
        let files = files.iter().map(|(path, text)| SourceFile::new(path, text)).collect();
        Project { files, packages: Vec::new() }
    }

    /// A project of these packages, without files.
    pub(crate) fn packages(packages: &[Package]) -> Project {
        Project { files: Vec::new(), packages: packages.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_knows_its_crate_and_whether_it_is_a_test() {
        let at = |path| SourceFile::new(path, "");
        assert_eq!(at("crates/twin-rt/src/lib.rs").krate(), Some("twin-rt"));
        assert_eq!(at("xtask/src/main.rs").krate(), Some("xtask"));
        assert_eq!(at("docs/a.md").krate(), None);
        assert!(at("crates/a/src/perm_tests.rs").is_test());
        assert!(at("crates/a/src/model/tests/data.rs").is_test());
        assert!(at("crates/twin-proof/src/lib.rs").is_test());
        assert!(!at("crates/a/src/attests.rs").is_test());
    }

    #[test]
    fn packages_are_taken_from_what_cargo_says() {
        let said = r#"{"packages":[{"name":"a","version":"1.0.0","id":"a 1","license":"MIT",
            "description":null,"features":{"x":[]},
            "dependencies":[{"name":"b","kind":"dev"},{"name":"c","kind":null}]}],
            "workspace_members":["a 1"]}"#;
        let packages = packages_of(said).unwrap();
        assert_eq!(packages.len(), 1);
        assert_eq!((packages[0].name.as_str(), packages[0].member), ("a", true));
        assert_eq!(packages[0].dependencies, ["c"]);
        assert_eq!(packages[0].dev_dependencies, ["b"]);
        assert_eq!(packages[0].features, ["x"]);
    }
}
