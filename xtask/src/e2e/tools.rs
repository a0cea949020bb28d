//! External requirements of scenarios: Debian packages, test suites and a C project from the
//! registry of crates. If a requirement is not available, the scenario is skipped with the reason.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Stop;
use super::bench::Bench;
pub(crate) use crate::cargo::target_dir;

/// A C library of 1,200 source files, in a crate: name, version, folder inside.
const C_PROJECT: (&str, &str, &str) = ("openssl-src", "300.6.1+3.6.3", "openssl");

/// Copies the program to a place where every user may run it and no build replaces it.
pub(crate) fn place_program(program: &Path, dir: &Path) -> Result<PathBuf, String> {
    let place = dir.join("bin/twinfs");
    let text = |error: std::io::Error| format!("{}: {error}", program.display());
    fs::create_dir_all(dir.join("bin")).map_err(text)?;
    fs::copy(program, &place).map_err(text)?;
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).map_err(text)?;
    Ok(place)
}

/// The SHA-256 of a file, as text, from the program of coreutils.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn sha256(file: &Path) -> Result<String, String> {
    let output = Command::new("sha256sum").arg(file).output();
    let output = output.map_err(|error| format!("sha256sum: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let hash = said.split_whitespace().next().filter(|_| output.status.success());
    hash.map(String::from).ok_or_else(|| format!("{}: has no hash", file.display()))
}

/// Makes sure that programs are installed, each from the Debian package that has it.
///
/// # Errors
/// [`Stop::Skipped`], if one is missing and cannot be installed.
pub(crate) fn need(bench: &Bench, programs: &[(&str, &str)]) -> Result<(), Stop> {
    let _alone = bench.turns.packages.lock();
    let missing: Vec<&str> =
        programs.iter().filter(|(name, _)| !in_path(name)).map(|(_, package)| *package).collect();
    install(bench, &missing)?;
    match programs.iter().find(|(name, _)| !in_path(name)) {
        None => Ok(()),
        Some((name, package)) => {
            Err(Stop::Skipped(format!("{name} is missing, although {package} is installed")))
        }
    }
}

/// Makes sure that a file of a Debian package is installed.
///
/// # Errors
/// [`Stop::Skipped`], if it cannot be installed.
pub(crate) fn need_file(bench: &Bench, path: &str, package: &str) -> Result<(), Stop> {
    let _alone = bench.turns.packages.lock();
    if Path::new(path).exists() { Ok(()) } else { install(bench, &[package]) }
}

fn install(bench: &Bench, packages: &[&str]) -> Result<(), Stop> {
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    let skip = |why: &str| Err(Stop::Skipped(format!("{why}: apt-get install {list}")));
    if !in_path("apt-get") {
        return skip("missing, and this is no Debian");
    }
    if !rustix::process::geteuid().is_root() {
        return skip("missing, and only root may");
    }
    println!("e2e: installing {list}");
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        bench.run(command.args(words).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    let wanted = [&["install", "-qq", "-y", "--no-install-recommends"], packages].concat();
    // A machine that has never been updated has no package lists.
    let done = apt(&wanted).or_else(|_| apt(&["update", "-qq"]).and_then(|_| apt(&wanted)));
    match done {
        Ok(_) => Ok(()),
        Err(why) => Err(Stop::Skipped(format!("cannot install {list}: {why}"))),
    }
}

/// True if a program is in the path.
pub(crate) fn in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(sbin).any(|dir| dir.join(name).is_file())
}

/// Makes sure that mounts are possible, that is that `/dev/fuse` exists.
///
/// # Errors
/// [`Stop::Skipped`] without it.
pub(crate) fn need_fuse() -> Result<(), Stop> {
    match Path::new("/dev/fuse").exists() {
        true => Ok(()),
        false => Err(Stop::Skipped("this host has no /dev/fuse".into())),
    }
}

/// A program from the registry of crates, built once into the target folder.
///
/// # Errors
/// [`Stop::Skipped`], if it cannot be installed.
pub(crate) fn installed(bench: &Bench, name: &str, version: &str) -> Result<PathBuf, Stop> {
    let place = target_dir(&bench.root).join("tools").join(format!("{name}-{version}"));
    let program = place.join("bin").join(name);
    if program.is_file() {
        return Ok(program);
    }
    println!("e2e: building {name} {version}");
    let mut command = Command::new("cargo");
    command.args(["install", "--quiet", "--locked", name, "--version", version, "--root"]);
    command.arg(&place).current_dir("/");
    // It runs for seconds and is built from scratch: a quick build is better.
    command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1").env("CARGO_PROFILE_RELEASE_LTO", "off");
    command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    match bench.run(&mut command) {
        Ok(_) => Ok(program),
        Err(why) => Err(Stop::Skipped(format!("cannot install {name} {version}: {why}"))),
    }
}

/// The unpacked C project.
///
/// # Errors
/// [`Stop::Skipped`], if the registry cannot be reached.
pub(crate) fn c_project(bench: &Bench) -> Result<PathBuf, Stop> {
    let _alone = bench.turns.sources.lock();
    let (name, version, inside) = C_PROJECT;
    let place = target_dir(&bench.root).join("tools/c-project");
    let source = place.join("vendor").join(format!("{name}-{version}")).join(inside);
    if source.is_dir() {
        return Ok(source);
    }
    let plain = version.split('+').next().unwrap_or(version);
    let manifest = format!(
        "[package]\nname = \"c-project\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n\
         [dependencies]\n{name} = \"={plain}\"\n[workspace]\n"
    );
    let text = |error: std::io::Error| Stop::Failed(format!("{}: {error}", place.display()));
    fs::create_dir_all(&place).map_err(text)?;
    fs::write(place.join("Cargo.toml"), manifest).map_err(text)?;
    fs::write(place.join("lib.rs"), "").map_err(text)?;
    let mut command = Command::new("cargo");
    command.args(["vendor", "--quiet", "--versioned-dirs", "vendor"]).current_dir(&place);
    bench.run(&mut command).map_err(|why| Stop::Skipped(format!("no C project: {why}")))?;
    match source.is_dir() {
        true => Ok(source),
        false => Err(Stop::Failed(format!("{}: is not in the crate", source.display()))),
    }
}
