//! Scrubs of a mount: nothing is found while programs write, what rots below the mount is found with its path
//! and place, and an interrupted scrub goes on where it was.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use crate::clock::pause_ms;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "scrub",
    about: "scrub of a mount: sound under writers, rot found with path and place, resumed",
    limit_s: (120, 300),
    run,
};

const BLOCK: usize = 4096;
/// Blocks of the file that rots.
const BLOCKS: usize = 2000;
/// The block that rots.
const ROTTEN: usize = 1234;
/// So slow that a scrub can be interrupted.
const SLOW: &str = "512K";

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    // The log has checksums of data.
    let image = bench.dir.join("lfs.img");
    let mut volume = Volume::make_of(bench, "lfs", "64M")?;
    volume.mount()?;
    let content = write(volume.dir())?;
    beside_writers(bench, volume.dir())?;
    volume.remount()?;
    rot(&image, &content[ROTTEN * BLOCK..][..BLOCK])?;
    let found = text(&scrub(bench, volume.dir(), &[])?);
    let place = format!("/dir/big, bytes {} to {}", ROTTEN * BLOCK, (ROTTEN + 1) * BLOCK - 1);
    if !found.contains(&place) || !found.contains("1 flaw") {
        return Err(format!("the scrub does not say {place:?}: {found}").into());
    }
    interrupted(bench, volume.dir())?;
    let rest = scrub(bench, volume.dir(), &["--resume"])?;
    if rest.status.code() != Some(1) || !text(&rest).contains(&place) {
        return Err(format!("a resumed scrub: {:?}: {}", rest.status, text(&rest)).into());
    }
    let figures =
        bench.run(Command::new(&bench.program).args(["stat", "--prometheus"]).arg(volume.dir()))?;
    if !figures.lines().any(|line| line.starts_with("twinfs_scrub_flaws{") && line.ends_with(" 1"))
    {
        return Err(format!("the figures do not tell of the flaw: {figures}").into());
    }
    volume.umount()?;
    Ok("rot found below a mount, named by path and place, also after an interrupt".into())
}

/// Writes a file of its own content.
fn write(dir: &Path) -> Result<Vec<u8>, String> {
    let mut rng = Rng::new(7);
    let content = rng.bytes(BLOCKS * BLOCK);
    let io = |error: std::io::Error| error.to_string();
    fs::create_dir(dir.join("dir")).map_err(io)?;
    fs::write(dir.join("dir/big"), &content).map_err(io)?;
    File::open(dir.join("dir/big")).and_then(|file| file.sync_all()).map_err(io)?;
    Ok(content)
}

/// Scrubs while a program writes, syncs and deletes.
fn beside_writers(bench: &Bench, dir: &Path) -> Result<(), String> {
    let place = dir.to_owned();
    let work = move || -> std::io::Result<()> {
        for round in 0..60u32 {
            let path = place.join(format!("file{}", round % 7));
            fs::write(&path, vec![round as u8; 300_000])?;
            File::open(&path)?.sync_all()?;
            if round % 5 == 0 {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    };
    let writer = thread::Builder::new().spawn(work).map_err(|why| format!("a thread: {why}"))?;
    let mut scrubs = 0;
    while !writer.is_finished() || scrubs == 0 {
        let out = scrub(bench, dir, &[])?;
        if !out.status.success() {
            return Err(format!("a scrub beside a writer: {:?}: {}", out.status, text(&out)));
        }
        scrubs += 1;
    }
    let written = writer.join().map_err(|_| "the writer panicked")?;
    written.map_err(|error| error.to_string())
}

/// Changes a bit of a block in the image, which is in use.
fn rot(image: &Path, block: &[u8]) -> Result<(), String> {
    let io = |error: std::io::Error| error.to_string();
    let all = fs::read(image).map_err(io)?;
    let at = all.windows(BLOCK).step_by(512).position(|part| part == block);
    let at = at.ok_or("the block is not in the image")? * 512;
    let file = OpenOptions::new().write(true).open(image).map_err(io)?;
    file.write_all_at(&[block[99] ^ 16], at as u64 + 99).map_err(io)?;
    file.sync_all().map_err(io)
}

fn scrub(bench: &Bench, dir: &Path, words: &[&str]) -> Result<Output, String> {
    let mut command = Command::new(&bench.program);
    command.arg("scrub").args(words).arg(dir).output().map_err(|error| error.to_string())
}

/// Begins a slow scrub and interrupts it.
fn interrupted(bench: &Bench, dir: &Path) -> Result<(), String> {
    let mut command = Command::new(&bench.program);
    let child = command.args(["scrub", "--rate", SLOW]).arg(dir).spawn();
    let mut child = child.map_err(|error| error.to_string())?;
    pause_ms(1500);
    let pid = Pid::from_raw(child.id() as i32).ok_or("no process")?;
    kill_process(pid, Signal::INT).map_err(|error| error.to_string())?;
    let status = child.wait().map_err(|error| error.to_string())?;
    match status.code() {
        Some(130) => Ok(()),
        _ => Err(format!("an interrupted scrub ends with {status}")),
    }
}

fn text(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}
