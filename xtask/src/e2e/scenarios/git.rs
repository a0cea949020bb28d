//! A repository cloned onto the mount, checked, repacked, and checked again after a remount.

use std::fs;
use std::io;
use std::process::Command;

use super::super::bench::Bench;
use super::super::manifest::Manifest;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, Stop, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "git",
    about: "clones this repository onto the mount; git fsck, repack, again after a remount, again read-only",
    limit_s: (180, 600),
    run,
};

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    tools::need(bench, &[("git", "git")])?;
    let git = |words: &[&str]| bench.run(Command::new("git").arg("-C").args(words));
    let origin = bench.root.display().to_string();
    let Ok(head) = git(&[&origin, "rev-parse", "HEAD"]) else {
        return Err(Stop::Skipped(format!("{origin} is no git repository")));
    };
    let mut volume = Volume::make(bench, "4G")?;
    volume.mount()?;
    let clone = volume.dir().join("clone").display().to_string();
    let trusted = format!("safe.directory={origin}");
    git(&[".", "-c", &trusted, "clone", "--quiet", "--no-local", &origin, &clone])?;
    verify(bench, &clone, &head)?;
    git(&[&clone, "repack", "-adq"])?;
    // Loose objects, as daily work leaves them.
    git(&[&clone, "checkout", "--quiet", "-B", "work"])?;
    for n in 0..bench.size(20, 200) {
        let line = format!(
            "echo {n} > file-{n}; git add file-{n}; \
             git -c user.name=e2e -c user.email=e2e@example.org commit --quiet -m {n}"
        );
        bench.shell(clone.as_ref(), &line)?;
    }
    let head = git(&[&clone, "rev-parse", "HEAD"])?;
    verify(bench, &clone, &head)?;
    let before = Manifest::of(volume.dir())?;
    volume.remount()?;
    before.expect_same(&Manifest::of(volume.dir())?, "after the remount")?;
    verify(bench, &clone, &head)?;
    // git has refreshed its index.
    let before = Manifest::of(volume.dir())?;
    volume.umount_and_check()?;
    read_only(bench, &mut volume, &clone, &before)?;
    Ok(format!("{} names cloned, fsck clean three times", before.len()))
}

/// Mounted read-only, the volume can be read but not changed.
fn read_only(
    bench: &Bench,
    volume: &mut Volume<'_>,
    clone: &str,
    before: &Manifest,
) -> Result<(), String> {
    volume.set_options(&["--read-only"]);
    volume.mount()?;
    before.expect_same(&Manifest::of(volume.dir())?, "mounted read-only")?;
    bench.run(Command::new("git").args(["-C", clone, "fsck", "--full"]))?;
    let refused = fs::write(volume.dir().join("new"), "new");
    if refused.as_ref().map_err(io::Error::kind) != Err(io::ErrorKind::ReadOnlyFilesystem) {
        return Err(format!("writing to a read-only mount: {refused:?}"));
    }
    volume.umount_and_check()
}

/// Checks that nothing is damaged, missing or changed.
fn verify(bench: &Bench, clone: &str, head: &str) -> Result<(), String> {
    let git = |words: &[&str]| bench.run(Command::new("git").args(["-C", clone]).args(words));
    git(&["fsck", "--full", "--strict"])?;
    let changed = git(&["status", "--porcelain"])?;
    if !changed.is_empty() {
        return Err(format!("the work tree differs from the commit:\n{changed}"));
    }
    match git(&["rev-parse", "HEAD"])? == head {
        true => Ok(()),
        false => Err("HEAD is another one".into()),
    }
}
