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
    below(bench, &dir)?;
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

/// The states are read below `.twinfs/snapshots`, and nothing is changed there.
fn below(bench: &Bench, dir: &Path) -> Result<(), String> {
    let all = dir.join(".twinfs/snapshots");
    let listed = || -> Result<usize, String> {
        Ok(fs::read_dir(&all).map_err(|error| format!("{}: {error}", all.display()))?.count())
    };
    // All snapshots, and a branch.
    if listed()? != AMID + 1 {
        return Err(format!("{} states are listed in {}", listed()?, all.display()));
    }
    if fs::read_dir(dir)
        .map_err(|error| error.to_string())?
        .any(|e| e.is_ok_and(|entry| entry.file_name().as_encoded_bytes().starts_with(b".twinfs")))
    {
        return Err("the root lists .twinfs".into());
    }
    for name in ["s0", "s9", "work"] {
        holds_kept(&all.join(name))?;
    }
    bench.run(Command::new("python3").arg("-c").arg(WRITES).arg(all.join("s0/kept/f7")))?;
    holds_kept(&all.join("s0"))?;
    // A name is looked up before and after it leads somewhere.
    let comes = all.join("comes/kept");
    for (verb, is_there) in
        [("create", true), ("delete", false), ("create", true), ("delete", false)]
    {
        if comes.parent().is_some_and(Path::exists) == is_there {
            return Err(format!("comes is there, or is not, before {verb}"));
        }
        twinfs(bench, &[verb], dir, &["comes"])?;
        if comes.parent().is_some_and(Path::exists) != is_there
            || listed()? != AMID + 1 + usize::from(is_there)
        {
            return Err(format!("comes is there, or is not, after {verb}"));
        }
    }
    Ok(())
}

/// Tries to write to a file in every way, and holds that each is refused.
const WRITES: &str = r#"
import errno, mmap, os, sys
path = sys.argv[1]
before = open(path, "rb").read()
def refused(what):
    try:
        what()
    except OSError as error:
        assert error.errno == errno.EROFS, error
    else:
        sys.exit("not refused")
def write(flags, offset):
    fd = os.open(path, flags)
    try:
        os.pwrite(fd, b"zz", offset)
        os.fsync(fd)
    finally:
        os.close(fd)
def store():
    # Descriptors that can write are closed: who holds one is taken for a writer.
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0:2] = b"zz"
        memory.flush()
refused(lambda: write(os.O_WRONLY, 0))
refused(lambda: write(os.O_RDWR | os.O_APPEND, 1 << 20))
refused(lambda: write(os.O_RDWR | os.O_TRUNC, 0))
refused(store)
refused(lambda: os.utime(path))
refused(lambda: os.unlink(path))
refused(lambda: os.rename(path, path + "x"))
with open(path, "rb") as file:
    # A reader who asks for the end is none who writes.
    assert file.seek(0, 2) == len(before)
import time
for _ in range(100):
    if open(path, "rb").read() == before:
        break
    time.sleep(0.05)
else:
    sys.exit("what was stored through a mapping stays")
"#;

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
