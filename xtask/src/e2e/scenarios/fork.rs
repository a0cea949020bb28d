//! A mounted volume is forked while programs write to it: both the fork and the volume check clean,
//! everything that was finished before is in the fork, nothing that was begun after it, the fork
//! mounts, and a simulation begins on it. A snapshot of the mount is taken too. What the mount records
//! afterwards is simulated from the fork.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use crate::clock::{Stopwatch, pause_ms};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "fork",
    about: "a mounted volume is forked under load: the fork checks clean, mounts, and is one instant",
    limit_s: (120, 300),
    run,
};

/// The longest that one operation of a client may take while a volume is forked, on a busy machine.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What the client has done.
#[derive(Default)]
struct Client {
    ends: AtomicBool,
    /// The files that are finished, with their sizes.
    finished: Mutex<Vec<(String, u64)>>,
    longest: Mutex<Duration>,
}

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let mut said = Vec::new();
    for layout in ["lfs", "ffs"] {
        said.push(format!("{layout}: {}", of_layout(bench, layout)?));
        replayed(bench, layout)?;
    }
    Ok(said.join("; "))
}

fn of_layout(bench: &Bench, layout: &str) -> Result<String, String> {
    let mut volume = Volume::make_of(bench, layout, "512M")?;
    volume.mount()?;
    let (client, dir) = (Client::default(), volume.dir().to_path_buf());
    let (twin, snap) = (bench.dir.join(format!("{layout}.twin")), bench.dir.join("mnt.snap"));
    let _ = fs::remove_file(&snap);
    let forked = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let written = client.write(&dir);
            client.ends.store(true, Ordering::Relaxed);
            written
        });
        let forked = fork(bench, &client, &dir, (&twin, &snap));
        client.ends.store(true, Ordering::Relaxed);
        let written = writing.join().map_err(|_| "the client panicked".to_string())?;
        written.map_err(|error| format!("the client: {error}"))?;
        forked
    })?;
    volume.umount()?;
    let (before, after) = forked;
    let image = bench.dir.join(format!("{layout}.img"));
    for image in [&image, &twin] {
        bench.run(Command::new(&bench.program).args(["check", "--quiet"]).arg(image))?;
    }
    let files = same_files(bench, &twin, &before, &after)?;
    let mut compare = Command::new(&bench.program);
    compare.args(["compare", "-w", "small-files", layout, "--json", "--from"]).arg(&twin);
    bench.run(&mut compare)?;
    let longest = *client.longest.lock().map_err(|_| "poisoned")?;
    if longest > bench.at_most(LONGEST_WAIT) {
        return Err(format!("an operation took {longest:?} while the volume was forked"));
    }
    let metadata = std::os::unix::fs::MetadataExt::blocks(
        &fs::metadata(&twin).map_err(|error| error.to_string())?,
    ) * 512;
    Ok(format!(
        "{files} files, {} KiB of metadata, longest operation {:.0} ms",
        metadata >> 10,
        longest.as_secs_f64() * 1e3
    ))
}

/// What a mount records after it was forked is simulated from the fork, without a difference.
fn replayed(bench: &Bench, layout: &str) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    let mut volume = Volume::make_of(bench, layout, "128M")?;
    volume.mount()?;
    let dir = volume.dir().join("a");
    fs::create_dir(&dir).map_err(told)?;
    for n in 0..200 {
        fs::write(dir.join(format!("f{n}")), vec![7; n * 131]).map_err(told)?;
    }
    volume.umount()?;
    let day = bench.dir.join(format!("{layout}.tw"));
    let day_word = day.to_str().ok_or("the path is not UTF-8")?;
    volume.set_options(&["--record", day_word]);
    volume.mount()?;
    let twin = bench.dir.join(format!("{layout}.morning"));
    bench.run(Command::new(&bench.program).arg("fork").arg(volume.dir()).arg("-o").arg(&twin))?;
    // Figures of a mount end with their reader.
    let (program, mount) = (bench.program.display(), volume.dir().display());
    let watch = format!("timeout 20 {program} stat {mount} --watch 1; echo $? > ended");
    bench.shell(&bench.dir, &format!("({watch}) | head -n 1 && test $(cat ended) = 0"))?;
    for n in 0..100 {
        fs::remove_file(dir.join(format!("f{n}"))).map_err(told)?;
        fs::write(dir.join(format!("g{n}")), vec![8; 30_000]).map_err(told)?;
        fs::rename(dir.join(format!("g{n}")), dir.join(format!("h{n}"))).map_err(told)?;
        fs::read(dir.join(format!("f{}", n + 100))).map_err(told)?;
    }
    volume.umount_and_check()?;
    let mut compare = Command::new(&bench.program);
    compare.args(["compare", layout, "--json", "--from"]).arg(&twin).arg("-t").arg(&day);
    let figures = bench.run(&mut compare)?;
    let figures: serde_json::Value =
        serde_json::from_str(&figures).map_err(|error| error.to_string())?;
    let one = &figures["rows"][0];
    let operations = one["ops"].as_u64().ok_or("no operations are told")?;
    match (one["failed"].as_u64(), one["diverged"].as_u64()) {
        (Some(0), Some(0)) if operations > 500 => Ok(()),
        other => Err(format!("of {operations} operations of the day (failed, differ): {other:?}")),
    }
}

impl Client {
    /// Makes, grows, renames and removes files until it is told to end.
    fn write(&self, dir: &Path) -> std::io::Result<()> {
        for n in 0u64.. {
            if self.ends.load(Ordering::Relaxed) {
                break;
            }
            let watch = Stopwatch::start();
            let at = dir.join(format!("d{}", n % 50));
            fs::create_dir_all(&at)?;
            let (new, name) = (at.join("new"), format!("d{}/f{n}", n % 50));
            let size = n * 7919 % 60_000;
            fs::write(&new, vec![n as u8 | 1; size as usize])?;
            fs::rename(&new, dir.join(&name))?;
            // In turn with the oldest: the volume does not fill.
            if n >= 2000 {
                let old = n - 2000;
                // The fork may still be looking for files from before this.
                self.finished.lock().map_err(|_| std::io::ErrorKind::Other)?.remove(0);
                fs::remove_file(dir.join(format!("d{}/f{old}", old % 50)))?;
            }
            let mut finished = self.finished.lock().map_err(|_| std::io::ErrorKind::Other)?;
            finished.push((name, size));
            drop(finished);
            let mut longest = self.longest.lock().map_err(|_| std::io::ErrorKind::Other)?;
            *longest = watch.elapsed().max(*longest);
        }
        Ok(())
    }

    fn finished(&self) -> Result<Vec<(String, u64)>, String> {
        Ok(self.finished.lock().map_err(|_| "poisoned")?.clone())
    }
}

type Files = Vec<(String, u64)>;

/// Forks the mount and takes a snapshot. Returns the files that were there before and after the fork.
fn fork(
    bench: &Bench,
    client: &Client,
    dir: &Path,
    (twin, snap): (&PathBuf, &PathBuf),
) -> Result<(Files, Files), String> {
    while client.finished()?.len() < 1500 {
        pause_ms(20);
        if client.ends.load(Ordering::Relaxed) {
            return Err("the client has ended".into());
        }
    }
    let before = client.finished()?;
    let _ = fs::remove_file(twin);
    bench.run(Command::new(&bench.program).arg("fork").arg(dir).arg("-o").arg(twin))?;
    let after = client.finished()?;
    bench.run(Command::new(&bench.program).arg("snapshot").arg(dir).arg("-o").arg(snap))?;
    let layout = bench.run(Command::new(&bench.program).args(["layout", "--json"]).arg(snap))?;
    if !layout.contains("\"layout_score\"") {
        return Err("the snapshot of the mount has no score".into());
    }
    Ok((before, after))
}

/// Mounts the fork and looks for the files: all that were there before and after it, with their sizes;
/// none that was not there until after it. Returns how many it has.
fn same_files(bench: &Bench, twin: &Path, before: &Files, after: &Files) -> Result<usize, String> {
    let dir = bench.dir.join("twin");
    let text = |error: std::io::Error| format!("{}: {error}", dir.display());
    fs::create_dir_all(&dir).map_err(text)?;
    bench.run(Command::new(&bench.program).arg("mount").arg(twin).arg(&dir))?;
    let newest = after.last().map_or(0, |(name, _)| number(name));
    let looked = (|| {
        for file in before.iter().filter(|file| after.contains(file)) {
            let found = fs::metadata(dir.join(&file.0)).map_err(|e| format!("{}: {e}", file.0))?;
            if found.len() != file.1 {
                return Err(format!("{} has {} bytes, not {}", file.0, found.len(), file.1));
            }
            fs::read(dir.join(&file.0)).map_err(|e| format!("{}: {e}", file.0))?;
        }
        let mut files = 0;
        for entry in fs::read_dir(&dir).map_err(text)? {
            for file in fs::read_dir(entry.map_err(text)?.path()).map_err(text)? {
                let name = file.map_err(text)?.file_name();
                files += 1;
                let number = number(&name.to_string_lossy());
                if number > newest + 1 {
                    return Err(format!("file {number} is in the fork, and was made after it"));
                }
            }
        }
        Ok(files)
    })();
    bench.run(Command::new(&bench.program).arg("umount").arg(&dir))?;
    looked
}

/// The number of a file of the client; 0 of one without.
fn number(name: &str) -> u64 {
    name.rsplit('f').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}
