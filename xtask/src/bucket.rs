//! `cargo xtask bucket` and `cargo xtask nightly bucket`: the program for volumes in buckets, built and tried on a server
//! of this machine.
//!
//! The server is versitygw, which is taken from PATH or built where there is Go; where neither is, the night says so and
//! tries nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::cargo;
use crate::e2e::tools::in_path;
use crate::object_server::{BUCKET, SERVER, Server};
use crate::totals::Totals;

/// The module that is built where no server is in PATH.
const MODULE: &str = "github.com/versity/versitygw/cmd/versitygw@latest";
/// The scenarios that are run on volumes in a bucket.
const SCENARIOS: [&str; 11] = [
    "bucket",
    "bucket-local",
    "bucket-follow",
    "bucket-coded",
    "bill",
    "kill9",
    "fsx",
    "pjdfstest",
    "git",
    "sqlite",
    "snapshots",
];

/// Where the program is built.
const TARGET: &str = "target/bucket";

/// Builds `twinfs-bucket` and returns its path.
///
/// # Errors
/// If the build fails.
pub(crate) fn build(root: &Path) -> Result<PathBuf, String> {
    let status = on_bucket(root, "build").status().map_err(|why| format!("cargo: {why}"))?;
    if !status.success() {
        return Err("twinfs-bucket is not built".into());
    }
    Ok(root.join(TARGET).join("release/twinfs-bucket"))
}

/// A command of cargo on the program's workspace.
fn on_bucket(root: &Path, what: &str) -> Command {
    let arguments = [what, "--release", "--locked", "--manifest-path", "bucket/Cargo.toml"];
    let mut command = cargo(root, &arguments);
    command.env("CARGO_TARGET_DIR", root.join(TARGET));
    command
}

/// Runs the scenarios for which a bucket makes a difference, at their full length.
///
/// # Errors
/// If the program cannot be built.
pub(crate) fn night(root: &Path) -> Result<Totals, String> {
    let program = build(root)?;
    let Some(server) = program_of_server(root) else {
        println!("skipped: no versitygw in PATH, and no Go to build it with");
        return Ok(Totals { skipped: 1, ..Totals::default() });
    };
    let mut totals = Totals::default();
    let tests = on_bucket(root, "test").status().map_err(|why| format!("cargo: {why}"))?;
    totals += Totals::one(tests.success());
    let folder = root.join(TARGET).join("server");
    let running = Server::start(&server, &folder)?;
    // The scenarios' programs find the server by what stands in their environment.
    let own = std::env::current_exe().map_err(|why| why.to_string())?;
    let mut scenarios = Command::new(own);
    scenarios
        .args(["nightly", "e2e", "--bucket", &format!("s3://{BUCKET}"), "--program"])
        .arg(&program);
    scenarios.args(SCENARIOS).current_dir(root).envs(running.environment()).env(SERVER, &server);
    let status = scenarios.status().map_err(|why| why.to_string())?;
    totals += Totals::one(status.success());
    Ok(totals)
}

/// The server's program, built if need be.
fn program_of_server(root: &Path) -> Option<PathBuf> {
    if let Some(given) = std::env::var_os(SERVER) {
        return Some(given.into());
    }
    if in_path("versitygw") {
        return Some("versitygw".into());
    }
    let tools = root.join("target/tools");
    let built = tools.join("versitygw");
    if !built.exists() && in_path("go") {
        let _ = Command::new("go").args(["install", MODULE]).env("GOBIN", &tools).status();
    }
    built.exists().then_some(built)
}
