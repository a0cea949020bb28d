//! `cargo xtask wheel` and `cargo xtask nightly python`: the package for Python, built and tried as its users get it.
//!
//! Contract: the tools (maturin, and by night pytest, mypy, pandas and others) come from the package index into
//! environments below `target/python`, never into the machine's own; the wheel goes to `target/wheels`. The tests
//! run with the wheel installed into a fresh environment, never with the sources beside them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::totals::Totals;

/// The tools that build, with the versions that were tried.
const BUILDERS: &[&str] = &["maturin==1.16.0"];
/// What the tests need. Not pyarrow: results must be readable without it.
const TESTERS: &[&str] = &[
    "pytest",
    "mypy",
    "pandas",
    "pandas-stubs",
    "polars",
    "duckdb",
    "distributed",
    "submitit",
    "nbclient",
    "ipykernel",
    "matplotlib",
];

/// Builds the wheel and returns its path.
///
/// # Errors
/// If there is no Python of a fitting version, a tool cannot be had, or the build fails.
pub(crate) fn wheel(root: &Path) -> Result<PathBuf, String> {
    let tools = environment(root, "tools", BUILDERS, false)?;
    let wheels = root.join("target/wheels");
    // One build's wheel is there, not those of versions before it.
    let _ = std::fs::remove_dir_all(&wheels);
    let mut maturin = Command::new(tools.join("bin/maturin"));
    maturin.args([
        "build",
        "--release",
        "--locked",
        "--manifest-path",
        "python/Cargo.toml",
        "--out",
    ]);
    maturin.arg(&wheels).args(["--interpreter"]).arg(tools.join("bin/python"));
    maturin.current_dir(root).env("CARGO_TARGET_DIR", root.join("target/python/build"));
    must(&mut maturin)?;
    let found =
        std::fs::read_dir(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
    let mut found = found.filter_map(|entry| Some(entry.ok()?.path()));
    found
        .find(|path| path.extension().is_some_and(|end| end == "whl"))
        .ok_or_else(|| "maturin made no wheel".into())
}

/// Builds the wheel, installs it into a fresh environment, and tries it: tests, types, stubs.
///
/// # Errors
/// If the wheel cannot be built or an environment cannot be made.
pub(crate) fn night(root: &Path) -> Result<Totals, String> {
    let wheel = wheel(root)?;
    let tests = environment(root, "tests", TESTERS, true)?;
    let python = tests.join("bin/python");
    must(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--no-deps"]).arg(&wheel))?;
    let mut totals = Totals::default();
    let mut step = |name: &str, arguments: &[&str]| {
        println!("python: {name}");
        // From a directory without the package's sources, which would be imported in place of the wheel.
        let mut command = Command::new(&python);
        command.args(arguments).current_dir(root.join("python/tests"));
        totals += Totals::one(must(&mut command).map_err(|why| println!("{why}")).is_ok());
    };
    step("tests", &["-m", "pytest", "-q", "."]);
    step("types", &["-m", "mypy", "--strict", "--package", "twinfs"]);
    step("stubs", &["-m", "mypy.stubtest", "twinfs._twinfs"]);
    Ok(totals)
}

/// An environment with these packages; a fresh one, or the one that is there.
fn environment(root: &Path, name: &str, packages: &[&str], fresh: bool) -> Result<PathBuf, String> {
    let dir = root.join("target/python").join(name);
    if fresh {
        let _ = std::fs::remove_dir_all(&dir);
    }
    if !dir.join("bin/python").exists() {
        let check = "import sys, venv; sys.exit(sys.version_info < (3, 11))";
        let python = std::env::var("TWIN_PYTHON").unwrap_or_else(|_| "python3".into());
        must(Command::new(&python).args(["-c", check])).map_err(|_| {
            format!("{python} is no Python from 3.11 on with venv: install one (python3-venv), or name it in TWIN_PYTHON")
        })?;
        must(Command::new(&python).args(["-m", "venv"]).arg(&dir))?;
    }
    let mut pip = Command::new(dir.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    must(&mut pip)?;
    Ok(dir)
}

fn must(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed: {command:?}")) }
}
