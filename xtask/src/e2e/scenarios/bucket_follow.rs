//! A volume in a bucket that one mount writes and another follows: what is written, renamed and deleted on one appears on the
//! other, which is refused every change, and goes on when the writer is killed and replaced, and when the server is away.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::io::Errno;

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::writer::Writer;
use super::super::{Outcome, Scenario};
use super::served;
use crate::clock::{Stopwatch, pause_ms};
use crate::object_server::Server;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "bucket-follow",
    about: "a volume in a bucket that another mount follows: changes seen, writer replaced, server away (by nightly bucket)",
    limit_s: (400, 900),
    run,
};

/// The interval of the follower, and how long it may take to show something, in milliseconds: a debug build on a busy machine.
const EVERY: &str = "500ms";
const EVERY_MS: u64 = 500;
const SHOWN_MS: u128 = 60_000;
/// A volume on which the writer's cleaner is soon at work, and the files that are overwritten until it is.
const SIZE: &str = "256M";
const LARGE: (usize, usize) = (12, 8 << 20);

fn run(bench: &Bench) -> Outcome {
    let mut server = served::server(bench)?;
    let mut rng = Rng::new(bench.seed);
    let name = server.volume("followed");
    let mut volume = Volume::make_in(bench, &name, server.environment(), &["--size", SIZE])?;
    volume.mount()?;
    let work = volume.dir().join("work");
    let mut writer =
        Writer::new(work.clone(), rng.next(), false).map_err(|error| error.to_string())?;
    let mut follower = Volume::beside(bench, &name, server.environment(), "mnt-2")?;
    follower.set_options(&["-o", "ro", "--follow", EVERY]);
    follower.mount()?;
    let there = follower.dir().join("work");
    let mut slowest = names(volume.dir(), follower.dir())?;
    refused(follower.dir())?;
    let enough = AtomicBool::new(false);
    let rounds = bench.size(4, 20);
    let reads = thread::scope(|scope| {
        let reading = scope.spawn(|| read_until(&enough, &there));
        let worked = (0..rounds).try_for_each(|round| {
            let at = |why: String| format!("round {round}: {why}");
            (0..30).try_for_each(|_| writer.step()).map_err(|error| at(error.to_string()))?;
            slowest = slowest.max(appears(&mut writer, &there, &work).map_err(at)?);
            if round % 2 == 0 {
                // It dies in the midst of work, and the next one begins with what was acknowledged.
                thread::scope(|scope| {
                    let working = scope.spawn(|| writer.run());
                    pause_ms(200 + rng.below(300) as u64);
                    volume.kill9();
                    drop(working.join());
                });
                volume.mount().map_err(at)?;
                writer.verify().map_err(at)?;
            }
            Ok(())
        });
        enough.store(true, Ordering::SeqCst);
        let reads = reading.join().map_err(|_| "the reader panicked".to_string())?;
        worked.and(reads)
    })?;
    slowest = slowest.max(appears(&mut writer, &there, &work)?);
    let lost = overwritten(volume.dir(), follower.dir())?;
    away(bench, &mut server, &follower, &mut writer, (&there, &work))?;
    let idle = idle(&server, &mut volume)?;
    let told = stat(bench, &follower)?;
    if !told.contains("closed") || !told.contains("0 PUT of 0 bytes") || !told.contains("0 DELETE")
    {
        return Err(format!("stat of a follower says: {told}").into());
    }
    follower.umount()?;
    volume.check()?;
    Ok(format!(
        "{} operations seen, after {slowest} ms at most; {reads} reads meanwhile; {lost}; {idle}",
        writer.done
    ))
}

/// Waits until `shown` is true, and returns how long that took.
fn until(what: &str, mut shown: impl FnMut() -> Result<bool, String>) -> Result<u128, String> {
    let watch = Stopwatch::start();
    while !shown()? {
        if watch.elapsed().as_millis() > SHOWN_MS {
            return Err(format!("{what} does not appear on the follower"));
        }
        pause_ms(20);
    }
    Ok(watch.elapsed().as_millis())
}

/// Waits until the follower has what the writer has.
fn appears(writer: &mut Writer, there: &Path, work: &Path) -> Result<u128, String> {
    let mut last = String::new();
    writer.move_to(there.into());
    let took = until("what was written", || {
        last = writer.verify().err().unwrap_or_default();
        Ok(last.is_empty())
    });
    writer.move_to(work.into());
    took.map_err(|why| format!("{why}: {last}"))
}

fn synced(path: &Path) -> Result<(), String> {
    let file = File::open(path).and_then(|file| file.sync_all());
    file.map_err(|error| format!("{}: {error}", path.display()))
}

/// Names, attributes and data come and go; what is open stays as it was, and an open directory follows.
fn names(volume: &Path, follower: &Path) -> Result<u128, String> {
    let failed = |what: &str| {
        let what = what.to_string();
        move |error: io::Error| format!("{what}: {error}")
    };
    let (ours, theirs) = (volume.join("names"), follower.join("names"));
    fs::create_dir(&ours).and_then(|()| fs::write(ours.join("a"), "first")).map_err(failed("a"))?;
    synced(&ours.join("a"))?;
    let first = until("names/a", || Ok(fs::read(theirs.join("a")).is_ok_and(|is| is == b"first")))?;
    let open = File::open(theirs.join("a")).map_err(failed("open"))?;
    let dir = File::open(&theirs).map_err(failed("open"))?;
    let number =
        |path: &Path| fs::metadata(path).map(|meta| std::os::unix::fs::MetadataExt::ino(&meta));
    let before = number(&theirs.join("a")).map_err(failed("stat"))?;
    fs::write(ours.join("a"), "second, and longer").map_err(failed("a"))?;
    fs::rename(ours.join("a"), ours.join("b")).map_err(failed("rename"))?;
    fs::hard_link(ours.join("b"), ours.join("c")).map_err(failed("link"))?;
    synced(&ours.join("b"))?;
    synced(&ours)?;
    let second = until("names/b", || Ok(theirs.join("c").exists() && !theirs.join("a").exists()))?;
    let now = fs::read(theirs.join("b")).map_err(failed("b"))?;
    if now != b"second, and longer" || number(&theirs.join("c")).ok() != Some(before) {
        return Err(format!("names/b is {:?}", String::from_utf8_lossy(&now)));
    }
    let mut old = [0; 32];
    match open.read_at(&mut old, 0) {
        Ok(5) if &old[..5] == b"first" => {}
        Err(error) if Errno::from_io_error(&error) == Some(Errno::STALE) => {}
        other => return Err(format!("the open file has another state: {other:?}")),
    }
    let listed = format!("/proc/self/fd/{}", dir.as_raw_fd());
    let listed: Vec<_> = fs::read_dir(listed).map_err(failed("list"))?.flatten().collect();
    if listed.len() != 2 {
        return Err(format!("an open directory does not follow: {listed:?}"));
    }
    fs::remove_dir_all(&ours).map_err(failed("remove"))?;
    synced(volume)?;
    let third = until("the removal of names", || Ok(!theirs.exists()))?;
    Ok(first.max(second).max(third))
}

/// The follower takes no changes.
fn refused(follower: &Path) -> Result<(), String> {
    let work = follower.join("work");
    let tried = [
        ("create", File::create(follower.join("new")).map(drop)),
        ("mkdir", fs::create_dir(follower.join("new"))),
        ("rmdir", fs::remove_dir(&work)),
        ("rename", fs::rename(&work, follower.join("other"))),
    ];
    for (what, tried) in tried {
        match tried.as_ref().map_err(Errno::from_io_error) {
            Err(Some(Errno::ROFS)) => {}
            _ => return Err(format!("{what} on the follower: {tried:?}")),
        }
    }
    Ok(())
}

/// Reads all files again and again; those that come and go may be missing or stale, and nothing else may happen.
fn read_until(enough: &AtomicBool, there: &PathBuf) -> Result<u64, String> {
    let mut reads = 0;
    while !enough.load(Ordering::SeqCst) {
        let listed = match fs::read_dir(there) {
            Ok(listed) => listed,
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(format!("{}: {error}", there.display())),
        };
        for entry in listed.flatten() {
            match fs::read(entry.path()) {
                Ok(_) => reads += 1,
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(format!("{}: {error}", entry.path().display())),
            }
        }
    }
    Ok(reads)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::STALE))
}

/// Files are overwritten until the writer has cleaned and deleted packs that the follower has open; whoever reads them has what
/// was there, or is told that it is stale.
fn overwritten(volume: &Path, follower: &Path) -> Result<String, String> {
    let (files, len) = LARGE;
    let failed = |error: io::Error| format!("large files: {error}");
    let mut open: Vec<(File, u8)> = Vec::new();
    let (mut same, mut stale) = (0, 0);
    for round in 1..=5u8 {
        for n in 0..files {
            let path = volume.join(format!("large-{n}"));
            fs::write(&path, vec![round; len]).map_err(failed)?;
            synced(&path)?;
        }
        let last = follower.join(format!("large-{}", files - 1));
        until("a large file", || {
            let mut byte = [0];
            let read = File::open(&last).and_then(|file| file.read_at(&mut byte, 0));
            Ok(read.is_ok() && byte[0] == round)
        })?;
        for n in 0..files {
            let file = File::open(follower.join(format!("large-{n}"))).map_err(failed)?;
            open.push((file, round));
        }
        for (n, (file, round)) in open.iter().enumerate() {
            let mut part = vec![0; 4096];
            // Another part each time: not one that the kernel has.
            match file.read_at(&mut part, ((n * 37 + open.len() * 11) % (len / 4096) * 4096) as u64)
            {
                Ok(4096) if part.iter().all(|byte| byte == round) => same += 1,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::STALE) => stale += 1,
                Ok(_) => return Err(format!("file {n} of round {round} is mixed")),
                Err(error) => return Err(failed(error)),
            }
        }
    }
    if stale == 0 {
        return Err(format!("nothing that the follower had open was deleted in {same} reads"));
    }
    Ok(format!("{same} reads of open files as they were, {stale} stale"))
}

/// While the server is away the follower says so, and has what it had; afterwards it goes on.
fn away(
    bench: &Bench,
    server: &mut Server,
    follower: &Volume<'_>,
    writer: &mut Writer,
    (there, work): (&Path, &Path),
) -> Result<(), String> {
    appears(writer, there, work)?;
    server.kill();
    let failing = until("that the server is away", || {
        let told = stat(bench, follower)?;
        Ok(told.contains("not followed now"))
    });
    let listed = fs::read_dir(there).map(Iterator::count);
    server.restart()?;
    failing?;
    listed.map_err(|error| format!("while the server was away: {error}"))?;
    until("that the server is back", || Ok(!stat(bench, follower)?.contains("not followed now")))?;
    (0..10).try_for_each(|_| writer.step()).map_err(|error| error.to_string())?;
    appears(writer, there, work).map(drop)
}

/// A follower of a volume that is closed makes one request in each interval.
fn idle(server: &Server, volume: &mut Volume<'_>) -> Result<String, String> {
    volume.umount()?;
    pause_ms(4 * EVERY_MS);
    let (before, watch) = (server.requests(), Stopwatch::start());
    pause_ms(8 * EVERY_MS);
    let asked = server.requests() - before;
    let intervals = watch.elapsed().as_millis() / u128::from(EVERY_MS);
    match asked as u128 {
        1.. if asked as u128 <= intervals + 1 => {
            Ok(format!("{asked} requests in {intervals} intervals without news"))
        }
        _ => Err(format!("{asked} requests in {intervals} intervals without news")),
    }
}

/// What `stat` says of the follower.
fn stat(bench: &Bench, follower: &Volume<'_>) -> Result<String, String> {
    bench.run(Command::new(&bench.program).arg("stat").arg(follower.dir()))
}
