//! Backups of a mounted log: a whole stream and two increments, written while a program writes to the log, and applied to a
//! directory of FFS and to one of the host's file system. Each must be the snapshot. What is cut off, or leads out of the
//! directory, or does not belong there, is refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "send",
    about: "snapshots of a mount under load sent whole and as increments, received on ffs and on the host's files",
    limit_s: (180, 300),
    run,
};

/// What is in the snapshots.
const TREE: &str = include_str!("tree.sh");
/// Streams that lead out of the directory.
const HOSTILE: &str = include_str!("hostile.py");

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    bench.needs_root("making devices and giving files away")?;
    tools::need(bench, &[("rsync", "rsync"), ("setfacl", "acl")])?;
    let mut volume = Volume::make_of(bench, "lfs", "512M")?;
    volume.mount()?;
    let dir = volume.dir().to_path_buf();
    let ffs = mount_ffs(bench)?;
    let copies = [bench.dir.join("copy"), ffs.join("copy")];
    let ends = AtomicBool::new(false);
    fs::create_dir(dir.join("load")).map_err(|error| error.to_string())?;
    let compared = std::thread::scope(|scope| {
        let writing = scope.spawn(|| write(&dir.join("load"), &ends));
        let compared = back_up(bench, &dir, &copies);
        ends.store(true, Ordering::Relaxed);
        let written = writing.join().map_err(|_| "the client panicked".to_string())?;
        written.map_err(|error| format!("the client: {error}"))?;
        compared
    })?;
    refused(bench, &dir, &copies[0])?;
    hostile(bench)?;
    volume.umount_and_check()?;
    // An image gives the stream that its mount gave.
    bench.shell(
        &bench.dir,
        &format!("{} send lfs.img two --since one | cmp - two", program(bench)),
    )?;
    bench.run(Command::new(&bench.program).arg("umount").arg(&ffs))?;
    bench.run(Command::new(&bench.program).arg("check").arg(bench.dir.join("to.img")))?;
    Ok(compared)
}

fn mount_ffs(bench: &Bench) -> Result<PathBuf, String> {
    let (image, dir) = (bench.dir.join("to.img"), bench.dir.join("to"));
    let _ = fs::remove_file(&image);
    fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
    let mkfs = ["mkfs", "--layout", "ffs", "--size", "256M"];
    bench.run(Command::new(&bench.program).args(mkfs).arg(&image))?;
    bench.run(Command::new(&bench.program).arg("mount").arg(&image).arg(&dir))?;
    Ok(dir)
}

/// Keeps three states, sends each, and compares what was received with it.
fn back_up(bench: &Bench, dir: &Path, copies: &[PathBuf; 2]) -> Result<String, String> {
    let script = bench.dir.join("tree.sh");
    fs::write(&script, TREE).map_err(|error| error.to_string())?;
    let kept = dir.join("tree");
    fs::create_dir(&kept).map_err(|error| error.to_string())?;
    let (mut base, mut sizes): (Option<&str>, Vec<u64>) = (None, Vec::new());
    for (part, name) in [("1", "one"), ("2", "two"), ("3", "three")] {
        bench.run(Command::new("sh").arg(&script).arg(part).current_dir(&kept))?;
        bench.run(Command::new(&bench.program).args(["snapshot", "create"]).arg(dir).arg(name))?;
        let mut send = Command::new(&bench.program);
        send.arg("send").arg(dir).arg(name).arg("--output").arg(bench.dir.join(name));
        send.args(base.iter().flat_map(|base| ["--since", base]));
        bench.run(&mut send)?;
        let size = fs::metadata(bench.dir.join(name)).map_err(|error| error.to_string())?.len();
        sizes.push(size);
        for copy in copies {
            cut_off(bench, copy, name, size)?;
            receive(bench, copy, name)?;
            same(bench, &dir.join(".twinfs/snapshots").join(name), copy)?;
        }
        base = Some(name);
    }
    match sizes[..] {
        // The load rewrites 1.6 MB.
        [whole, two, three] if whole > 20 << 20 && two < 6 << 20 && three < 6 << 20 => {
            Ok(format!("streams of {whole}, {two} and {three} bytes, each on two file systems"))
        }
        _ => Err(format!("streams of {sizes:?} bytes: the increments have what did not change")),
    }
}

/// A stream that ends in its middle says so, and leaves what the same stream can be applied to again.
fn cut_off(bench: &Bench, copy: &Path, name: &str, size: u64) -> Result<(), String> {
    for len in [size / 2, size - 1] {
        let line = format!("head -c {len} {name} | {}", receiving(bench, copy));
        expect(bench, &line, &format!("byte {len} of the stream: it is cut off"))?;
    }
    Ok(())
}

/// Nothing is different, the mark aside.
fn same(bench: &Bench, snapshot: &Path, copy: &Path) -> Result<(), String> {
    let mut rsync = Command::new("rsync");
    rsync.args(["-naHAX", "--checksum", "--delete", "--itemize-changes"]);
    rsync.arg("--filter=-x user.twinfs-received");
    let said = bench.run(rsync.arg(format!("{}/", snapshot.display())).arg(copy))?;
    match said.trim() {
        "" => {}
        said => {
            return Err(format!("{} differs from {}: {said}", copy.display(), snapshot.display()));
        }
    }
    // A hole stays one.
    let sparse = copy.join("tree/sparse");
    let blocks = bench.run(Command::new("stat").args(["-c", "%b"]).arg(&sparse))?;
    match blocks.trim().parse::<u64>() {
        Ok(blocks) if blocks < 2048 => Ok(()),
        _ => Err(format!("{} takes {blocks} blocks", sparse.display())),
    }
}

/// What does not belong into a directory is refused, and changes nothing there.
fn refused(bench: &Bench, dir: &Path, copy: &Path) -> Result<(), String> {
    let list = format!("find {} -printf '%p %i %T@ %C@\\n' | sort", copy.display());
    let before = bench.shell(&bench.dir, &list)?;
    let into = receiving(bench, copy);
    expect(bench, &format!("cat two | {into}"), "nothing was changed")?;
    expect(bench, &format!("cat one | {into}"), "needs an empty directory")?;
    expect(bench, &format!("cat three | {into}"), "is here already")?;
    expect(bench, &format!("echo '#!/bin/sh' | {into}"), "byte 0 of the stream")?;
    let damaged = "python3 -c 'import sys; d = bytearray(open(\"two\", \"rb\").read()); d[70] ^= 1; \
                   sys.stdout.buffer.write(d)'";
    expect(bench, &format!("{damaged} | {into}"), "it is damaged here")?;
    if bench.shell(&bench.dir, &list)? != before {
        return Err(format!("{} was changed by a stream that was refused", copy.display()));
    }
    expect(
        bench,
        &format!("cat two | {}", receiving(bench, Path::new("new"))),
        "nothing was received",
    )?;
    if bench.dir.join("new").exists() {
        return Err("a directory was made for a stream that was refused".into());
    }
    let program = program(bench);
    let dir = dir.display();
    expect(bench, &format!("{program} send {dir} main"), "is no snapshot")?;
    expect(bench, &format!("{program} send {dir} four"), "there is no snapshot")
}

/// Streams whose checksums are right and whose records lead out of the directory.
fn hostile(bench: &Bench) -> Result<(), String> {
    let outside = bench.dir.join("outside");
    fs::create_dir_all(&outside).map_err(|error| error.to_string())?;
    fs::write(outside.join("kept"), b"kept").map_err(|error| error.to_string())?;
    fs::write(bench.dir.join("hostile.py"), HOSTILE).map_err(|error| error.to_string())?;
    for (how, said) in [
        ("up", "is no path within a directory"),
        ("link", "link/file: not a directory"),
        ("linked", "not a directory"),
    ] {
        let into = receiving(bench, Path::new(&format!("hostile-{how}")));
        expect(bench, &format!("python3 hostile.py {how} | {into}"), said)?;
    }
    let names = bench.shell(&bench.dir, "ls outside; stat -c %h outside/kept")?;
    match names.as_str() {
        "kept\n1\n" => Ok(()),
        _ => Err(format!("a stream came out of its directory: {names}")),
    }
}

fn receive(bench: &Bench, copy: &Path, name: &str) -> Result<(), String> {
    bench.shell(&bench.dir, &format!("{} <{name}", receiving(bench, copy))).map(drop)
}

fn receiving(bench: &Bench, copy: &Path) -> String {
    format!("{} receive {}", program(bench), copy.display())
}

fn program(bench: &Bench) -> String {
    bench.program.display().to_string()
}

/// Runs a command line that must fail with these words.
fn expect(bench: &Bench, line: &str, words: &str) -> Result<(), String> {
    match bench.shell(&bench.dir, line) {
        Err(said) if said.contains(words) => Ok(()),
        other => Err(format!("`{line}` should say \"{words}\": {other:?}")),
    }
}

/// Rewrites files until it has to end.
fn write(dir: &Path, ends: &AtomicBool) -> std::io::Result<()> {
    let mut n = 0usize;
    while !ends.load(Ordering::Relaxed) {
        fs::write(dir.join(format!("f{}", n % 40)), vec![n as u8; 40_000])?;
        n += 1;
    }
    Ok(())
}
