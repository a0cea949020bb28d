//! Snapshots and branches of a mounted log while a program writes to it: each can be mounted with what was there, one
//! head takes the place of another, and what they held is free when they are deleted. FFS says that it has none.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "snapshots",
    about: "snapshots and branches of a mount under load: kept, mounted, compared, brought back, deleted",
    limit_s: (120, 300),
    run,
};

/// Snapshots that are made while a client writes.
const AMID: usize = 20;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    refused(bench)?;
    let mut volume = Volume::make_of(bench, "lfs", "512M")?;
    volume.mount()?;
    let dir = volume.dir().to_path_buf();
    let told = |error: std::io::Error| error.to_string();
    fs::create_dir(dir.join("kept")).map_err(told)?;
    for n in 0..200usize {
        fs::write(dir.join(format!("kept/f{n}")), vec![n as u8; n * 517]).map_err(told)?;
    }
    let ends = AtomicBool::new(false);
    let took = std::thread::scope(|scope| {
        let writing = scope.spawn(|| write(&dir, &ends));
        let kept =
            (0..AMID).map(|n| keep(bench, &dir, &format!("s{n}"))).collect::<Result<Vec<_>, _>>();
        ends.store(true, Ordering::Relaxed);
        let written = writing.join().map_err(|_| "the client panicked".to_string())?;
        written.map_err(|error| format!("the client: {error}"))?;
        kept
    })?;
    twinfs(bench, &["branch"], &dir, &["work", "s0"])?;
    fs::remove_dir_all(dir.join("kept")).map_err(told)?;
    let changes = rows(&twinfs(bench, &["diff", "--json"], &dir, &["s0"])?)?;
    let is_kept = |row: &&Value| row["path"].as_str().is_some_and(|path| path.starts_with("/kept"));
    let removed = changes.iter().filter(is_kept).filter(|row| row["change"] == "removed").count();
    if removed != 201 {
        return Err(format!("201 paths were removed, and {removed} are found").into());
    }
    let busy = twinfs(bench, &["rollback"], &dir, &["s0"]);
    if busy.is_ok() {
        return Err("a mounted volume was rolled back".to_string().into());
    }
    volume.umount_and_check()?;
    let image = bench.dir.join("lfs.img");
    mounted_state(bench, &image, "s0")?;
    twinfs(bench, &["switch"], &image, &["work"])?;
    volume.mount()?;
    holds_kept(&dir)?;
    fs::write(dir.join("only-work"), b"w").map_err(told)?;
    volume.umount_and_check()?;
    twinfs(bench, &["switch"], &image, &["main"])?;
    volume.mount()?;
    if dir.join("kept").exists() || dir.join("only-work").exists() {
        return Err("the head has what only a branch has".to_string().into());
    }
    volume.umount()?;
    twinfs(bench, &["rollback"], &image, &["s3"])?;
    volume.mount()?;
    holds_kept(&dir)?;
    let names: Vec<String> = (0..AMID).map(|n| format!("s{n}")).chain(["work".into()]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    twinfs(bench, &["delete"], &dir, &names)?;
    let left = rows(&twinfs(bench, &["list", "--json"], &dir, &[])?)?;
    if left.len() != 1 {
        return Err(format!("all states are deleted, and there are {left:?}").into());
    }
    holds_kept(&dir)?;
    volume.umount_and_check()?;
    let longest = took.iter().copied().max().unwrap_or(0);
    Ok(format!("{AMID} snapshots under load, {:.1} ms at most", longest as f64 / 1e6))
}

/// A layout without snapshots says so, mounted and not.
fn refused(bench: &Bench) -> Result<(), String> {
    let mut volume = Volume::make_of(bench, "ffs", "64M")?;
    let image = bench.dir.join("ffs.img");
    let closed = twinfs(bench, &["create"], &image, &["s"]);
    volume.mount()?;
    let mounted = twinfs(bench, &["create"], volume.dir(), &["s"]);
    volume.umount_and_check()?;
    match (closed, mounted) {
        (Err(closed), Err(mounted))
            if closed.contains("only a log does") && mounted.contains("only a log does") =>
        {
            Ok(())
        }
        both => Err(format!("FFS made a snapshot, or does not say why not: {both:?}")),
    }
}

/// Rewrites and removes files until it has to end.
fn write(dir: &Path, ends: &AtomicBool) -> std::io::Result<()> {
    fs::create_dir(dir.join("load"))?;
    let mut n = 0usize;
    while !ends.load(Ordering::Relaxed) {
        let name = dir.join(format!("load/f{}", n % 40));
        fs::write(&name, vec![n as u8; 40_000])?;
        if n.is_multiple_of(3) {
            fs::remove_file(&name)?;
        }
        n += 1;
    }
    Ok(())
}

/// Makes a snapshot. Gives how long the mount took for it.
fn keep(bench: &Bench, dir: &Path, name: &str) -> Result<u64, String> {
    let rows = rows(&twinfs(bench, &["create", "--json"], dir, &[name])?)?;
    rows.first()
        .and_then(|row| row["took_ns"].as_u64())
        .ok_or_else(|| format!("{name}: no time is told"))
}

/// A state is mounted from the image, is what it was, and cannot be written.
fn mounted_state(bench: &Bench, image: &Path, name: &str) -> Result<(), String> {
    let dir = bench.dir.join("state");
    fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
    let mut mount = Command::new(&bench.program);
    bench.run(mount.args(["mount", "--snapshot", name]).arg(image).arg(&dir))?;
    let held = holds_kept(&dir);
    let written = fs::write(dir.join("x"), b"x");
    bench.run(Command::new(&bench.program).arg("umount").arg(&dir))?;
    held?;
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::ReadOnlyFilesystem => Ok(()),
        other => Err(format!("a mounted snapshot is written to: {other:?}")),
    }
}

/// The files that were there before the first snapshot are as they were.
fn holds_kept(dir: &Path) -> Result<(), String> {
    for n in 0..200usize {
        let name = dir.join(format!("kept/f{n}"));
        let content = fs::read(&name).map_err(|error| format!("{}: {error}", name.display()))?;
        if content != vec![n as u8; n * 517] {
            return Err(format!("{} has another content", name.display()));
        }
    }
    Ok(())
}

/// `twinfs snapshot` with a command and its options, of an image or a mount.
fn twinfs(
    bench: &Bench,
    command: &[&str],
    volume: &Path,
    names: &[&str],
) -> Result<String, String> {
    let mut program = Command::new(&bench.program);
    bench.run(program.arg("snapshot").args(command).arg(volume).args(names))
}

fn rows(text: &str) -> Result<Vec<Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))
}
