//! Quotas of directories on a mount: limits of bytes and files, `df` and `mv` at their edges, everything again after a remount
//! and after the daemon was killed.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, text, tools};
use crate::clock::pause_ms;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "quota",
    about: "limits of directories: bytes, files, df, mv, after remounts and kills",
    limit_s: (120, 300),
    run,
};

const MIB: usize = 1 << 20;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    bench.needs_root("making quotas")?;
    for layout in ["lfs", "ffs"] {
        let mut volume = Volume::make_of(bench, layout, "256M")?;
        volume.mount()?;
        let (dir, work) = (volume.dir().to_path_buf(), volume.dir().join("work"));
        let below = work.join("below");
        fs::create_dir_all(&below).map_err(text)?;
        fs::write(below.join("before"), vec![1; 2 * MIB]).map_err(text)?;
        quota(bench, &work, &["--size", "8M", "--files", "10"])?;
        limits(bench, &work)?;
        edges(bench, &dir, &work)?;
        let before = quota(bench, &dir, &[])?;
        volume.remount()?;
        same(layout, "a remount", &before, &quota(bench, &dir, &[])?)?;
        File(&below.join("synced")).write(MIB / 2)?;
        let before = quota(bench, &dir, &[])?;
        volume.kill9();
        volume.mount()?;
        same(layout, "a kill", &before, &quota(bench, &dir, &[])?)?;
        refuse(bench, &dir, &["--size", "8M"], "the directory where a volume is mounted")?;
        quota(bench, &work, &["--remove"]).map(drop)?;
        refuse(bench, &work, &[], "it has no quota")?;
        File(&work.join("large")).write(12 * MIB)?;
        volume.umount_and_check()?;
    }
    let image = bench.dir.join("classic.img");
    let mut volume = Volume::make_with(bench, &image, "64M", "lfs", &["--profile", "classic"])?;
    volume.mount()?;
    let dir = volume.dir().join("d");
    fs::create_dir(&dir).map_err(text)?;
    refuse(bench, &dir, &["--size", "1M"], "in no mounted volume that has quotas")?;
    volume.umount_and_check()?;
    Ok("lfs, ffs".into())
}

/// Bytes and files end where the quota says, and removing makes room.
fn limits(bench: &Bench, work: &Path) -> Result<(), String> {
    File(&work.join("fits")).write(4 * MIB)?;
    expect(File(&work.join("large")).write(4 * MIB), "Disk quota exceeded")?;
    fs::remove_file(work.join("large")).map_err(text)?;
    // The room is there once the kernel has forgotten the file, which it does by and by.
    let small = work.join("small");
    let mut tries = 0;
    while let Err(error) = File(&small).write(MIB) {
        tries += 1;
        if tries > 100 {
            return Err(error);
        }
        pause_ms(50);
    }
    let mut made = 0;
    let refused = loop {
        match fs::write(work.join(format!("f{made}")), b"") {
            Ok(()) if made < 20 => made += 1,
            result => break result.map_err(text),
        }
    };
    expect(refused, "Disk quota exceeded")?;
    // The two directories, "before", "fits" and "small" are there.
    if made != 5 {
        return Err(format!("{made} files beside five of ten"));
    }
    let df = bench.run(Command::new("df").args(["--output=size", "-B1M"]).arg(work))?;
    if df.split_whitespace().nth(1) != Some("8") {
        return Err(format!("df in the directory: {df}"));
    }
    for nth in 0..made {
        fs::remove_file(work.join(format!("f{nth}"))).map_err(text)?;
    }
    Ok(())
}

/// What goes over the edge of a quota, and who may change it.
fn edges(bench: &Bench, dir: &Path, work: &Path) -> Result<(), String> {
    File(&dir.join("outside")).write(MIB)?;
    let renamed = fs::rename(dir.join("outside"), work.join("inside")).map_err(text);
    expect(renamed, "Invalid cross-device link")?;
    bench.run(Command::new("mv").arg(dir.join("outside")).arg(work.join("inside")))?;
    bench.run(Command::new("mv").arg(work.join("inside")).arg(dir.join("outside")))?;
    chown(work, Some(1000), Some(1000)).map_err(text)?;
    let mut user = Command::new("setpriv");
    user.args(["--reuid", "1000", "--regid", "1000", "--clear-groups"]).arg(&bench.program);
    let out = user.args(["quota", "--size", "1T"]).arg(work).output().map_err(text)?;
    match String::from_utf8_lossy(&out.stderr) {
        said if said.contains("only root changes quotas") => Ok(()),
        said => Err(format!("a user's quota: {said}")),
    }
}

/// A file that is written to the device before the answer counts.
struct File<'a>(&'a Path);

impl File<'_> {
    fn write(&self, bytes: usize) -> Result<(), String> {
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).open(self.0)?;
            file.write_all(&vec![7; bytes])?;
            file.sync_all()
        };
        write().map_err(|error: io::Error| format!("{}: {error}", self.0.display()))
    }
}

fn expect<T>(result: Result<T, String>, why: &str) -> Result<(), String> {
    match result {
        Err(said) if said.contains(why) => Ok(()),
        Err(said) => Err(format!("{said}, and not: {why}")),
        Ok(_) => Err(format!("it succeeded, and should be: {why}")),
    }
}

fn same(layout: &str, after: &str, before: &str, now: &str) -> Result<(), String> {
    match before == now && before.contains("work: ") {
        true => Ok(()),
        false => Err(format!("{layout}, after {after}: {now}, before: {before}")),
    }
}

fn command(bench: &Bench, dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(&bench.program);
    command.arg("quota").args(words).arg(dir);
    command
}

/// Runs the command and gives what it says.
fn quota(bench: &Bench, dir: &Path, words: &[&str]) -> Result<String, String> {
    bench.run(&mut command(bench, dir, words))
}

fn refuse(bench: &Bench, dir: &Path, words: &[&str], why: &str) -> Result<(), String> {
    let out = command(bench, dir, words).output().map_err(text)?;
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    match out.status.code() {
        Some(1) => expect::<()>(Err(said), why),
        other => Err(format!("it ended with {other:?}: {said}")),
    }
}
