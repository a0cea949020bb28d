//! Volumes that become larger while they are mounted: full until ENOSPC, grown, written on by the same program, killed in the
//! middle, mounted again and checked; and an image that is grown while nobody has it mounted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::thread;

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "grow",
    about: "full volumes grow below the programs that write them, and are whole afterwards",
    limit_s: (180, 400),
    run,
};

const MIB: u64 = 1 << 20;
const FIRST: u64 = 64 * MIB;
const SECOND: u64 = 160 * MIB;
const THIRD: u64 = 400 * MIB;
/// Bytes of each file.
const FILE: usize = 1 << 20;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let mut parts = Vec::new();
    for profile in ["modern", "classic"] {
        let image = bench.dir.join(format!("{profile}.img"));
        let options = ["--profile", profile];
        let mut volume = Volume::make_with(bench, &image, &FIRST.to_string(), "lfs", &options)?;
        volume.mount()?;
        let dir = volume.dir().to_path_buf();
        let first = fill(&dir, "a")?;
        refuse(bench, &dir, FIRST / 2, "does not become smaller")?;
        grow(bench, &dir, Some(SECOND))?;
        let size = size(&dir)?;
        if size < SECOND * 3 / 4 {
            return Err(format!("{size} bytes after growing to {SECOND}").into());
        }
        // Programs write while it grows once more.
        let place = dir.clone();
        let writer = thread::Builder::new()
            .spawn(move || fill(&place, "b"))
            .map_err(|why| format!("a thread: {why}"))?;
        grow(bench, &dir, Some(THIRD))?;
        let second = writer.join().map_err(|_| "the writer panicked".to_owned())??;
        volume.remount()?;
        whole(&dir, "a", first)?;
        whole(&dir, "b", second)?;
        for nth in 0..second / 2 {
            fs::remove_file(dir.join(format!("b{nth}"))).map_err(|error| error.to_string())?;
        }
        // What is synced outlives the daemon.
        let third = fill(&dir, "c")?;
        volume.kill9();
        volume.mount()?;
        whole(&dir, "a", first)?;
        whole(&dir, "c", third)?;
        volume.umount_and_check()?;
        // Nobody has it mounted; the file is longer already.
        bench.run(Command::new("truncate").args(["-s", "500M"]).arg(&image))?;
        volume.mount()?;
        whole(&dir, "c", third)?;
        volume.umount()?;
        grow(bench, &image, None)?;
        refuse(bench, &image, 500 * MIB, "there is no room for more segments")?;
        volume.check()?;
        volume.mount()?;
        whole(&dir, "c", third)?;
        volume.umount_and_check()?;
        parts.push(format!("{profile}: {first}, {second} and {third} MiB"));
    }
    let ffs = Volume::make_of(bench, "ffs", "64M")?;
    refuse(bench, &bench.dir.join("ffs.img"), THIRD, "does not grow")?;
    ffs.check()?;
    Ok(parts.join("; "))
}

fn command(bench: &Bench, what: &Path, to: Option<u64>) -> Command {
    let mut command = Command::new(&bench.program);
    command.arg("grow");
    if let Some(to) = to {
        command.args(["--size", &to.to_string()]);
    }
    command.arg(what);
    command
}

fn grow(bench: &Bench, what: &Path, to: Option<u64>) -> Result<(), String> {
    bench.run(&mut command(bench, what, to)).map(drop)
}

fn refuse(bench: &Bench, what: &Path, to: u64, why: &str) -> Result<(), String> {
    let out = command(bench, what, Some(to)).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&out.stderr);
    match out.status.code() == Some(1) && said.contains(why) {
        true => Ok(()),
        false => Err(format!("growing to {to}: {}: {said}", out.status)),
    }
}

/// The size of the volume, as programs see it.
fn size(dir: &Path) -> Result<u64, String> {
    let stat = rustix::fs::statvfs(dir).map_err(|e| format!("statfs: {e}"))?;
    Ok(stat.f_blocks * stat.f_frsize)
}

fn content(prefix: &str, nth: u64) -> Vec<u8> {
    Rng::new(nth + u64::from(prefix.as_bytes()[0]) * 1000).bytes(FILE)
}

/// Writes and syncs files until there is no room. Gives how many were synced.
fn fill(dir: &Path, prefix: &str) -> Result<u64, String> {
    for nth in 0..THIRD / FILE as u64 {
        let path = dir.join(format!("{prefix}{nth}"));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .and_then(|mut file| file.write_all(&content(prefix, nth)).map(|()| file))
            .and_then(|file| file.sync_all());
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                let _ = fs::remove_file(&path);
                return Ok(nth);
            }
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Err("the volume has more room than its image".into())
}

/// What was synced is there.
fn whole(dir: &Path, prefix: &str, files: u64) -> Result<(), String> {
    for nth in 0..files {
        let path = dir.join(format!("{prefix}{nth}"));
        let mut read = Vec::new();
        File::open(&path)
            .and_then(|mut file| io::Read::read_to_end(&mut file, &mut read))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        if read != content(prefix, nth) {
            return Err(format!("{} has other bytes", path.display()));
        }
    }
    Ok(())
}
