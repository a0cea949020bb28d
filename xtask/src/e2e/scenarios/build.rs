//! A real C project of more than 1,000 files: unpacked, configured and compiled on the mount.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::bench::Bench;
use super::super::manifest::Manifest;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, Stop, tools};
use crate::clock::Stopwatch;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "build",
    about: "unpacks and compiles OpenSSL's libraries on the mount; every hash after a remount",
    limit_s: (900, 2400),
    run,
};

/// The configuration of the build, the same everywhere, so that objects can be compared.
const CONFIGURE: &str = "SOURCE_DATE_EPOCH=0 perl ./Configure linux-x86_64 no-shared no-module \
                         no-tests no-docs no-apps no-engine no-asm -O0";

/// A program that tests the library: SHA-256 of "abc", the first example of FIPS 180-4.
const PROGRAM: &str = "\
#include <stdio.h>
#include <openssl/sha.h>
int main(void) {
    unsigned char out[32];
    SHA256((const unsigned char *)\"abc\", 3, out);
    for (int i = 0; i < 32; i++) printf(\"%02x\", out[i]);
    return 0;
}
";
const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn run(bench: &Bench) -> Outcome {
    let tarball = prepare(bench)?;
    let mut volume = Volume::make(bench, "4G")?;
    volume.mount()?;
    // The larger library is minutes of a compiler's work, with little more for the file system.
    let target = if bench.full { "build_libs" } else { "libssl.a" };
    let figures = unpack_and_build(bench, &mut volume, &tarball, target)?;
    if bench.full {
        compare_with_host(bench, &mut volume, &tarball)?;
    }
    Ok(figures)
}

/// Provides the requirements of a build: a compiler, and the sources in one file.
///
/// # Errors
/// [`Stop::Skipped`] if they are not available.
pub(super) fn prepare(bench: &Bench) -> Result<PathBuf, Stop> {
    tools::need_fuse()?;
    tools::need(bench, &[("cc", "gcc"), ("make", "make"), ("perl", "perl"), ("tar", "tar")])?;
    let source = tools::c_project(bench)?;
    let tarball = bench.dir.join("source.tar");
    let mut command = Command::new("tar");
    command.arg("-C").arg(source.parent().unwrap_or(&source)).arg("-cf").arg(&tarball);
    bench.run(command.arg(source.file_name().unwrap_or_default()))?;
    Ok(tarball)
}

/// Unpacks the project on a mounted volume, compares it with its origin, builds `target`, and
/// compares everything after a remount. The volume ends unmounted and clean.
///
/// # Errors
/// The first failure.
pub(super) fn unpack_and_build(
    bench: &Bench,
    volume: &mut Volume<'_>,
    tarball: &Path,
    target: &str,
) -> Result<String, Stop> {
    let (files, unpacked_s) = unpack(bench, volume, tarball)?;
    let tree = volume.dir().join("openssl");
    let watch = Stopwatch::start();
    build(bench, &tree, target)?;
    let built_s = watch.seconds();
    let before = Manifest::of(volume.dir())?;
    volume.remount()?;
    before.expect_same(&Manifest::of(volume.dir())?, "built and remounted")?;
    if target == "build_libs" {
        try_library(bench, &tree)?;
    }
    volume.umount_and_check()?;
    let after = before.len();
    Ok(format!(
        "{files} names unpacked in {unpacked_s:.1} s, built in {built_s:.0} s, {after} names after"
    ))
}

/// Unpacks the project on a mounted volume, compares it with its origin, and again after a remount.
/// Returns the number of names and the seconds that it took to unpack.
///
/// # Errors
/// The first failure.
pub(super) fn unpack(
    bench: &Bench,
    volume: &mut Volume<'_>,
    tarball: &Path,
) -> Result<(usize, f64), Stop> {
    let origin = Manifest::of(&tools::c_project(bench)?)?;
    let watch = Stopwatch::start();
    bench.run(Command::new("tar").arg("-C").arg(volume.dir()).arg("-xf").arg(tarball))?;
    let unpacked_s = watch.seconds();
    let tree = volume.dir().join("openssl");
    origin.expect_same_contents(&Manifest::of(&tree)?, "unpacked")?;
    volume.remount()?;
    origin.expect_same_contents(&Manifest::of(&tree)?, "unpacked and remounted")?;
    Ok((origin.len(), unpacked_s))
}

/// Unpacks the project, configures it and makes its generated files, in full runs a library as well: a load
/// beside something else.
///
/// # Errors
/// The first failure.
pub(super) fn once(bench: &Bench, dir: &Path, tarball: &Path) -> Result<(), String> {
    let tree = dir.join("beside");
    fs::create_dir(&tree).map_err(|error| error.to_string())?;
    bench.run(Command::new("tar").arg("-C").arg(&tree).arg("-xf").arg(tarball))?;
    let target = if bench.full { "libssl.a" } else { "build_generated" };
    build(bench, &tree.join("openssl"), target)?;
    fs::remove_dir_all(&tree).map_err(|error| error.to_string())
}

fn build(bench: &Bench, tree: &Path, target: &str) -> Result<(), String> {
    bench.shell(tree, CONFIGURE)?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let make = format!("SOURCE_DATE_EPOCH=0 make -s -j{jobs}");
    bench.shell(tree, &format!("{make} build_generated && {make} {target}")).map(drop)
}

fn try_library(bench: &Bench, tree: &Path) -> Result<(), String> {
    fs::write(tree.join("try.c"), PROGRAM).map_err(|error| format!("try.c: {error}"))?;
    let said =
        bench.shell(tree, "cc -Iinclude try.c libcrypto.a -o try -lpthread -ldl && ./try")?;
    match said == DIGEST {
        true => Ok(()),
        false => Err(format!("the library that was built says {said}")),
    }
}

/// Builds the same outside the mount: the objects must be equal, byte by byte.
fn compare_with_host(bench: &Bench, volume: &mut Volume<'_>, tarball: &Path) -> Result<(), String> {
    let host = bench.dir.join("host");
    fs::create_dir_all(&host).map_err(|error| format!("{}: {error}", host.display()))?;
    bench.run(Command::new("tar").arg("-C").arg(&host).arg("-xf").arg(tarball))?;
    build(bench, &host.join("openssl"), "build_libs")?;
    volume.mount()?;
    let objects = "find . -name '*.o' | sort | xargs sha256sum";
    let theirs = bench.shell(&host.join("openssl"), objects)?;
    let ours = bench.shell(&volume.dir().join("openssl"), objects)?;
    volume.umount()?;
    let differ = theirs.lines().zip(ours.lines()).find(|(a, b)| a != b);
    match differ {
        None if theirs.lines().count() == ours.lines().count() => Ok(()),
        _ => Err(format!("objects compiled on the mount and beside it differ: {differ:?}")),
    }
}
