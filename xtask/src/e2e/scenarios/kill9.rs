//! The daemon is killed in the middle of work, again and again: what was fsynced must be there.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::super::bench::Bench;
use super::super::manifest::Manifest;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::writer::Writer;
use super::super::{Outcome, Scenario};
use super::build;
use crate::clock::pause_ms;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "kill9",
    about: "kill -9 of the daemon in the middle of work, 10 times (50 in the full form)",
    limit_s: (300, 900),
    run,
};

/// Clients that fsync, each in a directory of its own.
const WRITERS: u64 = 3;
/// How soon the next mount must be there.
const RECOVERY_MAX: Duration = Duration::from_secs(2);
/// The same without a log or journal, where it looks through the whole volume.
const REPAIR_MAX: Duration = Duration::from_secs(5);

fn run(bench: &Bench) -> Outcome {
    let tarball = build::prepare(bench)?;
    let mut rng = Rng::new(bench.seed);
    let mut volume = Volume::make(bench, "4G")?;
    volume.mount()?;
    let mut writers = Vec::new();
    let in_place = bench.mkfs.iter().any(|word| word == "ffs");
    let repairs = bench.mkfs.iter().any(|word| word == "sync" || word == "async");
    let most = if repairs { REPAIR_MAX } else { RECOVERY_MAX };
    for n in 0..WRITERS {
        let dir = volume.dir().join(format!("writer-{n}"));
        let writer = Writer::new(dir, rng.next(), in_place);
        writers.push(writer.map_err(|error| format!("writer {n}: {error}"))?);
    }
    let kills = bench.size(10, 50);
    let mut slowest = Duration::ZERO;
    for kill in 1..=kills {
        let when_ms = 200 + rng.below(1800) as u64;
        let told = |why: String| format!("kill {kill} of {kills}, seed {}: {why}", bench.seed);
        work_until_killed(bench, &mut volume, &mut writers, &tarball, when_ms).map_err(told)?;
        let took = volume.mount().map_err(|why| told(format!("the next mount: {why}")))?;
        slowest = slowest.max(took);
        if took > most {
            Err(told(format!("the next mount took {:.1} s", took.as_secs_f64())))?;
        }
        for writer in &mut writers {
            writer.verify().map_err(told)?;
        }
        // Whatever else is there can be read and removed.
        Manifest::of(volume.dir()).map_err(told)?;
        volume.umount_and_check().map_err(told)?;
        volume.mount().map_err(told)?;
        for writer in &mut writers {
            writer.verify().map_err(told)?;
        }
    }
    volume.umount_and_check()?;
    let done: usize = writers.iter().map(|writer| writer.done).sum();
    let slowest_ms = slowest.as_millis();
    Ok(format!("{kills} kills, {done} fsynced operations kept, slowest recovery {slowest_ms} ms"))
}

/// Works with fsync and without, and kills the daemon after a while.
fn work_until_killed(
    bench: &Bench,
    volume: &mut Volume<'_>,
    writers: &mut [Writer],
    tarball: &Path,
    when_ms: u64,
) -> Result<(), String> {
    let noise = volume.dir().join("noise");
    let ends: Vec<io::Error> = thread::scope(|scope| {
        let running: Vec<_> =
            writers.iter_mut().map(|writer| scope.spawn(|| writer.run())).collect();
        scope.spawn(|| make_noise(bench, &noise, tarball));
        pause_ms(when_ms);
        volume.kill9();
        let join = |thread: thread::ScopedJoinHandle<'_, io::Error>| {
            thread.join().unwrap_or_else(|_| io::Error::other("a writer panicked"))
        };
        running.into_iter().map(join).collect()
    });
    match ends.iter().find(|error| !is_death(error)) {
        None => Ok(()),
        Some(error) => Err(format!("a writer was told, before the kill: {error}")),
    }
}

/// What the kernel tells clients of a file system whose daemon has died.
fn is_death(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotConnected | io::ErrorKind::ConnectionAborted)
}

/// Unpacks and removes a tree without an fsync, until that fails.
fn make_noise(bench: &Bench, dir: &Path, tarball: &Path) {
    while fs::create_dir_all(dir).is_ok() {
        let mut command = Command::new("tar");
        if bench.run(command.arg("-C").arg(dir).arg("-xf").arg(tarball)).is_err() {
            return;
        }
        if fs::remove_dir_all(dir).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_death_of_the_daemon_ends_a_writer_rightly() {
        assert!(is_death(&io::Error::from(io::ErrorKind::NotConnected)));
        assert!(!is_death(&io::Error::from(io::ErrorKind::StorageFull)));
    }
}
