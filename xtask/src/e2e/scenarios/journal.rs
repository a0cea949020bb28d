//! Images mounted with a journal: the daemon is killed during work, again and again, and all fsynced data must be there with
//! the journal, and after unmounting without it. Without the journal in between nothing touches the image, until the
//! journal is given up.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use super::super::bench::Bench;
use super::super::manifest::Manifest;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::writer::Writer;
use super::super::{Outcome, Scenario, text, tools};
use super::{build, kill9};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "journal",
    about: "kill -9 of daemons whose images have a journal, full again and again, and a journal that is lost",
    limit_s: (300, 900),
    run,
};

const WRITERS: u64 = 2;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let tarball = build::prepare(bench)?;
    let mut rng = Rng::new(bench.seed);
    let mut said = Vec::new();
    for layout in ["lfs", "ffs"] {
        let told = |why: String| format!("{layout}, seed {}: {why}", bench.seed);
        said.push(kills(bench, layout, &tarball, &mut rng).map_err(told)?);
        lost(bench, layout).map_err(told)?;
    }
    Ok(said.join("; "))
}

/// Kills the daemon and mounts again.
fn kills(bench: &Bench, layout: &str, tarball: &Path, rng: &mut Rng) -> Result<String, String> {
    let name = format!("kills-{layout}");
    let journal = bench.dir.join(format!("{name}.journal"));
    let mut volume = Volume::make_of(bench, layout, "512M")?;
    // So small that it is full many times.
    let options =
        ["--journal-file", &journal.to_string_lossy(), "--journal-size", "4M"].map(String::from);
    volume.set_options(&options.each_ref().map(String::as_str));
    volume.mount()?;
    let mut writers = Vec::new();
    for n in 0..WRITERS {
        let dir = volume.dir().join(format!("writer-{n}"));
        let writer = Writer::new(dir, rng.next(), layout == "ffs");
        writers.push(writer.map_err(|error| format!("writer {n}: {error}"))?);
    }
    let kills = bench.size(4, 25);
    for kill in 1..=kills {
        let told = |why: String| format!("kill {kill} of {kills}: {why}");
        let when_ms = 200 + rng.below(1800) as u64;
        kill9::work_until_killed(bench, &mut volume, &mut writers, tarball, when_ms)
            .map_err(told)?;
        let refused = volume.check().err().unwrap_or_default();
        if !refused.contains("--journal-file") {
            return Err(told(format!("check without the journal said: {refused}")));
        }
        volume.mount().map_err(|why| told(format!("the next mount: {why}")))?;
        for writer in &mut writers {
            writer.verify().map_err(told)?;
        }
        Manifest::of(volume.dir()).map_err(told)?;
        // The image is whole by itself now.
        volume.umount_and_check().map_err(told)?;
        volume.set_options(&["-o", "ro"]);
        volume.mount().map_err(|why| told(format!("without the journal: {why}")))?;
        for writer in &mut writers {
            writer.verify().map_err(told)?;
        }
        volume.umount().map_err(told)?;
        volume.set_options(&options.each_ref().map(String::as_str));
        volume.mount().map_err(|why| told(format!("with the journal again: {why}")))?;
    }
    volume.umount_and_check()?;
    let done: usize = writers.iter().map(|writer| writer.done).sum();
    Ok(format!("{layout}: {kills} kills, {done} fsynced operations kept"))
}

/// A journal that is lost: the image is refused, and becomes a volume again when it is given up.
fn lost(bench: &Bench, layout: &str) -> Result<(), String> {
    let journal = bench.dir.join(format!("lost-{layout}.journal"));
    let mut volume = Volume::make_of(bench, layout, "64M")?;
    volume.set_options(&["--journal-file", &journal.to_string_lossy(), "--journal-size", "1M"]);
    volume.mount()?;
    let before = volume.dir().join("before");
    fs::write(&before, b"on the image")
        .and_then(|()| File::open(&before)?.sync_all())
        .map_err(text)?;
    volume.umount()?;
    volume.mount()?;
    let after = volume.dir().join("after");
    fs::write(&after, b"in the journal")
        .and_then(|()| File::open(&after)?.sync_all())
        .map_err(text)?;
    fork_is_refused(bench, &volume)?;
    volume.kill9();
    fs::remove_file(&journal).map_err(text)?;
    volume.set_options(&[]);
    match volume.mount() {
        Err(why) if why.contains("--lost-journal") => {}
        other => return Err(format!("a mount without the lost journal: {other:?}")),
    }
    let mut repair = Command::new(&bench.program);
    bench.run(repair.args(["check", "--repair", "--lost-journal"]).arg(volume.image()))?;
    volume.mount()?;
    let read = fs::read(&before).map_err(text)?;
    if read != b"on the image" {
        return Err(format!("{} has {} other bytes", before.display(), read.len()));
    }
    volume.umount_and_check()
}

/// The image of a mount with a journal is not the volume, so nobody may copy it as if it were.
fn fork_is_refused(bench: &Bench, volume: &Volume) -> Result<(), String> {
    let fork = bench.dir.join("fork.img");
    let mut command = Command::new(&bench.program);
    let said = bench.run(command.arg("fork").arg(volume.dir()).arg("-o").arg(&fork)).err();
    match said {
        Some(why) if why.contains("--journal-file") && !fork.exists() => Ok(()),
        other => Err(format!("a fork of a mount with a journal: {other:?}; {}", fork.display())),
    }
}
