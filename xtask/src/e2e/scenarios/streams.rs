//! Continuous media on a real mount: eight readers play at 10 Mb/s while a compiler works beside them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use crate::clock::{Stopwatch, pause_ms};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "streams",
    about: "eight readers at 10 Mb/s beside a compiler: no block is late, and too much is refused",
    limit_s: (180, 600),
    run,
};

const READERS: usize = 8;
/// 10 Mb/s.
const RATE: usize = 1_250_000;
/// What a reader plays at a time, and needs when the part before it has been played.
const PART: usize = 256 << 10;
const PART_MS: f64 = PART as f64 * 1e3 / RATE as f64;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    tools::need(bench, &[("cc", "gcc"), ("make", "make")])?;
    let seconds = bench.size(6, 60);
    let mut volume = Volume::make(bench, "2G")?;
    volume.set_options(&["--file-types", "--queue", "scan-edf", "--cache", "64M"]);
    volume.mount()?;
    let films: Vec<PathBuf> =
        (0..READERS).map(|i| volume.dir().join(format!("film{i}.mpg"))).collect();
    let parts = seconds * RATE / PART;
    for film in &films {
        fs::write(film, vec![7; parts * PART]).map_err(|error| error.to_string())?;
        mark(film, RATE)?;
    }
    // So that neither the kernel nor the daemon has them in memory.
    volume.remount()?;
    let builds = AtomicBool::new(true);
    let (late, built) = thread::scope(|scope| {
        let builder = scope.spawn(|| build(bench, volume.dir(), &builds));
        let readers: Vec<_> =
            films.iter().map(|film| scope.spawn(move || play(film, parts))).collect();
        let late: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        builds.store(false, Ordering::Relaxed);
        (late, builder.join())
    });
    let built = built.map_err(|_| "the build panicked".to_owned())??;
    let mut worst: f64 = 0.0;
    for of_reader in late {
        let (late, slowest_ms) = of_reader.map_err(|_| "a reader panicked".to_owned())??;
        if late > 0 {
            Err(format!("{late} blocks of {parts} were late, by up to {slowest_ms:.0} ms"))?;
        }
        worst = worst.max(slowest_ms + PART_MS);
    }
    refused(&films[0])?;
    volume.umount_and_check()?;
    Ok(format!(
        "{READERS} readers of {parts} blocks, the slowest took {worst:.0} of {PART_MS:.0} ms; \
         {built} programs compiled beside them"
    ))
}

fn mark(film: &Path, rate: usize) -> Result<(), String> {
    for (name, value) in [("user.twinfs.type", "media"), ("user.twinfs.rate", &rate.to_string())] {
        rustix::fs::setxattr(film, name, value.as_bytes(), XattrFlags::empty())
            .map_err(|error| format!("{name} of {}: {error}", film.display()))?;
    }
    Ok(())
}

/// Compiles small programs until told to stop; returns how many.
fn build(bench: &Bench, dir: &Path, goes_on: &AtomicBool) -> Result<usize, String> {
    let mut built = 0;
    while goes_on.load(Ordering::Relaxed) {
        let source = dir.join(format!("part{built}.c"));
        let text =
            format!("#include <stdio.h>\nint part{built}(void) {{ return puts(\"{built}\"); }}\n");
        fs::write(source, text).map_err(|error| error.to_string())?;
        bench.shell(dir, &format!("cc -O2 -c part{built}.c -o part{built}.o"))?;
        built += 1;
    }
    Ok(built)
}

/// Plays a film. Returns how many parts came late, and how late the latest was, in milliseconds
/// (negative if it was early).
fn play(film: &Path, parts: usize) -> Result<(usize, f64), String> {
    let text = |error: std::io::Error| format!("{}: {error}", film.display());
    let file = File::open(film).map_err(text)?;
    let mut buffer = vec![0; PART];
    let watch = Stopwatch::start();
    let (mut late, mut latest_ms) = (0, f64::NEG_INFINITY);
    for part in 0..parts {
        let due_ms = part as f64 * PART_MS;
        let early_ms = due_ms - watch.seconds() * 1e3;
        if early_ms > 0.0 {
            pause_ms(early_ms as u64);
        }
        file.read_exact_at(&mut buffer, (part * PART) as u64).map_err(text)?;
        let late_ms = watch.seconds() * 1e3 - (due_ms + PART_MS);
        late += usize::from(late_ms > 0.0);
        latest_ms = latest_ms.max(late_ms);
    }
    Ok((late, latest_ms))
}

/// A stream that no disk serves must be refused, and as an ordinary file it can be read.
fn refused(film: &Path) -> Result<(), String> {
    mark(film, 1 << 40)?;
    match File::open(film).map_err(|error| error.raw_os_error()) {
        Err(Some(errno)) if errno == Errno::BUSY.raw_os_error() => {}
        other => return Err(format!("a stream of a terabyte a second: {other:?}")),
    }
    let error = rustix::fs::setxattr(film, "user.twinfs.type", b"film", XattrFlags::empty());
    if error != Err(Errno::INVAL) {
        return Err(format!("a type that does not exist was answered with {error:?}"));
    }
    rustix::fs::removexattr(film, "user.twinfs.type").map_err(|error| error.to_string())?;
    File::open(film).map(drop).map_err(|error| format!("without its type: {error}"))
}
