//! Films on a real mount: as many readers at a film's rate as the admission lets in, beside a build on the
//! same volume. No block comes late, what is read is what was written, and one film too many is refused
//! when it is opened.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{XattrFlags, setxattr};

use super::super::bench::Bench;
use super::super::stamped::Stamp;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario};
use super::build;
use crate::clock::{Stopwatch, pause_ms};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "streams",
    about: "eight films at 10 Mb/s beside a build, with both orders of tasks: no block late, one too many \
            refused; full: a minute, on FFS as well",
    limit_s: (240, 900),
    run,
};

const FILMS: usize = 8;
/// The rate of a film in bytes a second: 10 Mb/s.
const RATE: usize = 1_250_000;
/// What a reader asks for at a time.
const BLOCK: usize = 64 << 10;
/// The orders of the daemon's tasks.
const ORDERS: [&str; 2] = ["fifo", "deadline"];
/// How long before it is played a reader asks for a block: what a player has in its own memory.
const AHEAD: Duration = Duration::from_secs(1);
/// Opens of films that no admission may reach with this cache.
const TOO_MANY: usize = 64;

fn run(bench: &Bench) -> Outcome {
    let tarball = build::prepare(bench)?;
    let layouts = match bench.full && bench.mkfs.is_empty() {
        true => &["lfs", "ffs"][..],
        false => &[bench.layout()],
    };
    let len = bench.size(12, 60) * RATE;
    let mut said = Vec::new();
    let runs = layouts.iter().flat_map(|layout| ORDERS.map(|order| (layout, order)));
    for (layout, order) in runs {
        let mut volume = Volume::make_of(bench, layout, "3G")?;
        volume.set_options(&[
            "--file-types",
            "--queue",
            "scan-edf",
            "--order",
            order,
            "--cache",
            "64M",
        ]);
        volume.mount()?;
        for number in 0..FILMS {
            make_film(&volume, number, len)?;
        }
        // Nothing of them is in memory after it.
        volume.remount()?;
        let (played, rounds) = play_beside_builds(bench, &volume, &tarball, len)?;
        let admitted = refuses_one_too_many(volume.dir())?;
        volume.umount_and_check()?;
        let longest_ms = played.iter().map(|one| one.longest.as_millis()).max().unwrap_or(0);
        let late: usize = played.iter().map(|one| one.late).sum();
        let blocks: usize = played.iter().map(|one| one.blocks).sum();
        let figures = format!(
            "{layout}, {order}: {late} of {blocks} blocks late, longest read {longest_ms} ms, beside \
             {rounds} builds; {admitted} admitted at most"
        );
        if late > 0 {
            Err(figures.clone())?;
        }
        said.push(figures);
    }
    Ok(said.join("; "))
}

fn film(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("film{number}"))
}

fn content(number: usize, block: usize) -> Stamp {
    Stamp { file: number as u64, version: block as u64, len: BLOCK }
}

/// Writes a film, and makes it a file of continuous media.
fn make_film(volume: &Volume<'_>, number: usize, len: usize) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    let path = film(volume.dir(), number);
    let file = File::create(&path).map_err(told)?;
    for block in 0..len / BLOCK {
        let bytes = content(number, block).bytes();
        file.write_all_at(&bytes, (block * BLOCK) as u64).map_err(told)?;
    }
    file.sync_all().map_err(told)?;
    let rate = RATE.to_string();
    for (name, value) in [("user.twinfs.type", "media"), ("user.twinfs.rate", &rate)] {
        setxattr(&path, name, value.as_bytes(), XattrFlags::empty())
            .map_err(|errno| format!("{name} of {}: {errno}", path.display()))?;
    }
    Ok(())
}

/// What a reader saw.
struct Played {
    blocks: usize,
    late: usize,
    longest: Duration,
}

/// Plays all films at a time while builds run on the volume. Returns what the readers saw, and the number
/// of builds that were begun.
fn play_beside_builds(
    bench: &Bench,
    volume: &Volume<'_>,
    tarball: &Path,
    len: usize,
) -> Result<(Vec<Played>, usize), String> {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let builds = scope.spawn(|| {
            let mut rounds = 0;
            while !ended.load(Ordering::Relaxed) {
                rounds += 1;
                build::once(bench, volume.dir(), tarball)?;
            }
            Ok(rounds)
        });
        let readers: Vec<_> =
            (0..FILMS).map(|n| scope.spawn(move || play(volume.dir(), n, len))).collect();
        let gone = || "a thread panicked".to_string();
        let played: Result<Vec<Played>, String> =
            readers.into_iter().map(|one| one.join().map_err(|_| gone())?).collect();
        ended.store(true, Ordering::Relaxed);
        let rounds: Result<usize, String> = builds.join().map_err(|_| gone())?;
        Ok((played?, rounds?))
    })
}

/// Reads a film at its rate, and compares it with what was written.
fn play(dir: &Path, number: usize, len: usize) -> Result<Played, String> {
    let path = film(dir, number);
    let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut seen = Played { blocks: 0, late: 0, longest: Duration::ZERO };
    let mut bytes = vec![0; BLOCK];
    let film = Stopwatch::start();
    for block in 0..len / BLOCK {
        let due = Duration::from_secs_f64((block * BLOCK) as f64 / RATE as f64);
        pause_ms(due.saturating_sub(film.elapsed()).as_millis() as u64);
        let asked = Stopwatch::start();
        file.read_exact_at(&mut bytes, (block * BLOCK) as u64).map_err(|e| e.to_string())?;
        seen.longest = seen.longest.max(asked.elapsed());
        seen.late += usize::from(film.elapsed() > due + AHEAD);
        seen.blocks += 1;
        if let Some(why) = content(number, block).differs(&bytes) {
            return Err(format!("{}: {why}", path.display()));
        }
    }
    Ok(seen)
}

/// Opens films until one is refused, and then one again after one was closed. Returns how many were
/// admitted at a time.
fn refuses_one_too_many(dir: &Path) -> Result<usize, String> {
    let mut open = Vec::new();
    let refused = loop {
        match File::open(film(dir, open.len() % FILMS)) {
            Ok(file) if open.len() < TOO_MANY => open.push(file),
            Ok(_) => return Err(format!("{TOO_MANY} films were admitted")),
            Err(error) => break error,
        }
    };
    let admitted = open.len();
    if refused.raw_os_error() != Some(rustix::io::Errno::BUSY.raw_os_error()) {
        return Err(format!("the film after {admitted} others: {refused}"));
    }
    if admitted < FILMS {
        return Err(format!("only {admitted} films were admitted"));
    }
    // Writing needs no promise of the disk, and so is not refused.
    fs::OpenOptions::new().write(true).open(film(dir, 0)).map_err(|error| error.to_string())?;
    open.pop();
    // The kernel tells the volume of a close after the close has returned.
    for _ in 0..100 {
        if File::open(film(dir, 0)).is_ok() {
            return Ok(admitted);
        }
        pause_ms(50);
    }
    Err("no film is admitted after another was closed".into())
}
