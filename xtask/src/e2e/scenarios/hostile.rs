//! No mount hangs and no fsynced data is lost: volumes that are full under load, and hosts on which
//! the image becomes unavailable.
//!
//! Contract: every unmount ends (within [`UMOUNT_MAX`], which holds by night on a machine of its own; by
//! day a machine that others use may take [`UMOUNT_ENDS`]). A full volume is consistent afterwards. A
//! volume whose image cannot be written (the host is full, the image was unlinked or truncated, the
//! device under it fails) is unmounted with an error that says so; it mounts read-only while the
//! host is full, and normally once there is room. All fsynced data is there wherever its bytes
//! still exist.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario};
use crate::clock::{Stopwatch, pause_ms};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "hostile",
    about: "full volumes under load, a full host, images unlinked and cut: no mount hangs",
    limit_s: (240, 3600),
    run,
};

/// Time limit for every unmount on a machine of its own.
const UMOUNT_MAX: Duration = Duration::from_secs(10);
/// Time after which an unmount counts as hanging on any machine.
const UMOUNT_ENDS: Duration = Duration::from_secs(90);
/// Number of threads that create, change and remove files without an fsync.
const CHURNS: u64 = 4;
/// Maximum number of files that the client with fsync keeps.
const KEPT: usize = 40;

fn run(bench: &Bench) -> Outcome {
    let umount_max = if bench.full { UMOUNT_MAX } else { UMOUNT_ENDS };
    let mut tally = Tally { umount_max, ..Tally::default() };
    let layouts: &[&str] = if bench.mkfs.is_empty() { &["lfs", "ffs"] } else { &["chosen"] };
    let sizes: &[&str] = if bench.full { &["64M", "200M", "1G"] } else { &["64M"] };
    let percents: &[u64] = if bench.full { &[85, 98] } else { &[95] };
    for round in 0..bench.size(1, 9) as u64 {
        for layout in layouts {
            for (size, percent) in sizes.iter().flat_map(|s| percents.iter().map(move |p| (s, *p)))
            {
                let told = |why| format!("{layout}, {size}, {percent}% full, round {round}: {why}");
                full_volume(bench, layout, size, percent, round, &mut tally).map_err(told)?;
            }
        }
    }
    let root = rustix::process::geteuid().is_root();
    let kinds: &[Host] = if root { &Host::ALL } else { &[Host::Unlinked, Host::Cut] };
    for round in 0..bench.size(1, 4) as u64 {
        for layout in layouts {
            for &kind in kinds {
                let told = |why| format!("{layout}, {kind:?}, round {round}: {why}");
                hostile_host(bench, layout, kind, round, &mut tally).map_err(told)?;
            }
        }
    }
    Ok(format!(
        "{} unmounts, the slowest {} ms, {} with a loss told; {} fsynced files verified, {} times \
         ENOSPC, {} other errors",
        tally.umounts,
        tally.slowest.as_millis(),
        tally.losses,
        tally.verified,
        tally.full,
        tally.errors
    ))
}

/// The counts of a run.
#[derive(Default)]
struct Tally {
    /// The time limit for every unmount.
    umount_max: Duration,
    umounts: usize,
    slowest: Duration,
    losses: usize,
    verified: usize,
    full: usize,
    errors: usize,
}

impl Tally {
    /// Unmounts within the time limit; returns the error message if the unmount failed.
    fn umount(&mut self, volume: &mut Volume<'_>) -> Result<Result<(), String>, String> {
        let watch = Stopwatch::start();
        let result = volume.umount();
        let took = watch.elapsed();
        self.umounts += 1;
        self.slowest = self.slowest.max(took);
        if took > self.umount_max {
            return Err(format!("unmounting took {:.1} s: {result:?}", took.as_secs_f64()));
        }
        Ok(result)
    }
}

/// The fsynced files: names and contents, remembered outside the mount.
struct Ledger {
    dir: PathBuf,
    rng: Rng,
    files: Vec<(PathBuf, Vec<u8>)>,
    made: u64,
    full: usize,
    errors: usize,
}

impl Ledger {
    fn new(dir: PathBuf, seed: u64) -> io::Result<Ledger> {
        fs::create_dir(&dir)?;
        File::open(&dir)?.sync_all()?;
        let (files, rng) = (Vec::new(), Rng::new(seed));
        Ok(Ledger { dir, rng, files, made: 0, full: 0, errors: 0 })
    }

    /// Makes files durable until `over` is set. Failed operations are not recorded.
    fn work(&mut self, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            match self.step() {
                Ok(()) => {}
                Err(error) => {
                    match error.kind() {
                        io::ErrorKind::StorageFull => self.full += 1,
                        _ => self.errors += 1,
                    }
                    pause_ms(20);
                }
            }
        }
    }

    fn step(&mut self) -> io::Result<()> {
        self.made += 1;
        let path = self.dir.join(format!("f{}", self.made));
        let len = 1 + self.rng.below(if self.made.is_multiple_of(5) { 150_000 } else { 9_000 });
        let data = self.rng.bytes(len);
        let written = File::create_new(&path).and_then(|mut file| {
            file.write_all(&data)?;
            file.sync_all()
        });
        if let Err(error) = written {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        self.files.push((path, data));
        if self.files.len() > KEPT {
            let (oldest, _) = self.files.remove(0);
            fs::remove_file(oldest)?;
        }
        Ok(())
    }

    /// Compares the files with those that were acknowledged.
    fn verify(&self, tally: &mut Tally) -> Result<(), String> {
        for (path, data) in &self.files {
            match fs::read(path) {
                Ok(bytes) if bytes == *data => tally.verified += 1,
                Ok(bytes) => {
                    let (is, was) = (bytes.len(), data.len());
                    return Err(format!("{}: {is} bytes, not the {was} fsynced", path.display()));
                }
                Err(error) => return Err(format!("{}, fsynced: {error}", path.display())),
            }
        }
        Ok(())
    }
}

/// Works on a volume for a while, with fsync and without; calls `strike` in the middle.
fn load(
    dir: &Path,
    ledger: &mut Ledger,
    seed: u64,
    ms: u64,
    strike: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for n in 0..CHURNS {
            let (over, dir) = (&over, dir.join(format!("churn{n}")));
            scope.spawn(move || churn(&dir, seed ^ n << 32, over));
        }
        scope.spawn(|| ledger.work(&over));
        pause_ms(ms / 2);
        let struck = strike();
        pause_ms(ms / 2);
        over.store(true, Ordering::Relaxed);
        struck
    })
}

/// Creates, overwrites, truncates, renames and removes files, ignoring errors.
fn churn(dir: &Path, seed: u64, over: &AtomicBool) {
    let mut rng = Rng::new(seed);
    let _ = fs::create_dir(dir);
    while !over.load(Ordering::Relaxed) {
        let path = dir.join(format!("c{}", rng.below(200)));
        let len = 1 + rng.below(200_000);
        let failed = match rng.below(10) {
            0..=4 => fs::write(&path, rng.bytes(len)).is_err(),
            5 => OpenOptions::new()
                .append(true)
                .open(&path)
                .is_ok_and(|mut file| file.write_all(&rng.bytes(len)).is_err()),
            6 => OpenOptions::new()
                .write(true)
                .open(&path)
                .is_ok_and(|file| file.set_len(len as u64).is_err()),
            7 => fs::rename(&path, dir.join(format!("c{}", rng.below(200)))).is_err(),
            _ => fs::remove_file(&path).is_err(),
        };
        if failed {
            pause_ms(1);
        }
    }
}

/// Fills a volume to a percentage of its capacity.
fn fill(dir: &Path, percent: u64) -> Result<(), String> {
    let said = |error: io::Error| format!("filling {}: {error}", dir.display());
    let files = dir.join("fill");
    fs::create_dir(&files).map_err(said)?;
    for n in 0.. {
        let stat = rustix::fs::statvfs(dir).map_err(|errno| said(errno.into()))?;
        let used = stat.f_blocks - stat.f_bavail;
        let wanted = (stat.f_blocks * percent / 100).saturating_sub(used) * stat.f_frsize;
        if wanted == 0 {
            return Ok(());
        }
        let len = (wanted / 2).clamp(16 << 10, 4 << 20) as usize;
        let mut file = File::create_new(files.join(n.to_string())).map_err(said)?;
        // Writes of the last percent may be refused.
        if file.write_all(&vec![n as u8; len]).and_then(|()| file.sync_all()).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn full_volume(
    bench: &Bench,
    layout: &str,
    size: &str,
    percent: u64,
    round: u64,
    tally: &mut Tally,
) -> Result<(), String> {
    let seed = bench.seed ^ round << 8 ^ percent;
    let image = bench.dir.join("full.img");
    let mut volume = Volume::make_at(bench, &image, size, layout)?;
    volume.mount()?;
    let said = |error: io::Error| error.to_string();
    let mut ledger = Ledger::new(volume.dir().join("ledger"), seed).map_err(said)?;
    fill(volume.dir(), percent)?;
    load(volume.dir(), &mut ledger, seed, 3_000, || Ok(()))?;
    tally.full += ledger.full;
    tally.errors += ledger.errors;
    if ledger.errors > 0 {
        return Err(format!("{} errors that are not ENOSPC", ledger.errors));
    }
    if let Err(why) = tally.umount(&mut volume)? {
        // Data that the kernel had collected found no room: the unmount reports it once, and ends
        // the second time.
        if !why.contains("still mounted") {
            return Err(why);
        }
        tally.losses += 1;
        volume.expect_mounted()?;
        tally.umount(&mut volume)??;
    }
    volume.check()?;
    volume.mount()?;
    ledger.verify(tally)?;
    tally.umount(&mut volume)??;
    volume.check()?;
    fs::remove_file(&image).map_err(said)
}

/// A fault of the host that affects an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    /// The host's file system has no room for the growth of the sparse image.
    Full,
    /// The name of the image is removed.
    Unlinked,
    /// The image is truncated in the middle.
    Cut,
    /// The image is a device whose backing file is truncated: it returns errors.
    DeviceFails,
}

impl Host {
    const ALL: [Host; 4] = [Host::Full, Host::Unlinked, Host::Cut, Host::DeviceFails];
}

/// A small file system in memory, mounted until it is dropped.
struct Memory(PathBuf);

impl Memory {
    fn mount(bench: &Bench, size: &str) -> Result<Memory, String> {
        let dir = bench.dir.join("memory");
        fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
        let mut command = Command::new("mount");
        let size = format!("size={size}");
        bench.run(command.args(["-t", "tmpfs", "-o", &size, "none"]).arg(&dir))?;
        Ok(Memory(dir))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

fn hostile_host(
    bench: &Bench,
    layout: &str,
    kind: Host,
    round: u64,
    tally: &mut Tally,
) -> Result<(), String> {
    let seed = bench.seed ^ round << 8 ^ kind as u64;
    let said = |error: io::Error| error.to_string();
    let memory = (kind == Host::Full).then(|| Memory::mount(bench, "40M")).transpose()?;
    let place = memory.as_ref().map_or(bench.dir.as_path(), |memory| &memory.0);
    let image = place.join("host.img");
    let mut volume = match kind {
        Host::DeviceFails => Volume::make_on_loop_at(bench, &image, "100M", layout)?,
        _ => Volume::make_at(bench, &image, "200M", layout)?,
    };
    volume.mount()?;
    let mut ledger = Ledger::new(volume.dir().join("ledger"), seed).map_err(said)?;
    let cut = || File::options().write(true).open(&image).and_then(|file| file.set_len(16 << 20));
    let strike = || match kind {
        Host::Full => Ok(()),
        Host::Unlinked => fs::remove_file(&image).map_err(said),
        Host::Cut | Host::DeviceFails => cut().map_err(said),
    };
    load(volume.dir(), &mut ledger, seed, 3_000, strike)?;
    // A slow machine takes longer to fill its memory.
    for more in 1..=5 {
        if kind == Host::Full && ledger.errors == 0 {
            load(volume.dir(), &mut ledger, seed ^ more << 40, 3_000, || Ok(()))?;
        }
    }
    tally.full += ledger.full;
    tally.errors += ledger.errors;
    if matches!(kind, Host::Full | Host::Unlinked) {
        ledger.verify(tally).map_err(|why| format!("while it is mounted: {why}"))?;
    }
    match tally.umount(&mut volume)? {
        Ok(()) => {}
        Err(why) if why.contains("is unmounted, but") => tally.losses += 1,
        Err(why) if why.contains("still mounted") => {
            tally.losses += 1;
            tally.umount(&mut volume)??;
        }
        Err(why) => return Err(why),
    }
    volume.expect_gone()?;
    let Some(memory) = memory else {
        let _ = fs::remove_file(&image);
        return Ok(());
    };
    after_a_full_host(bench, &mut volume, &memory, &ledger, tally)
}

/// While the host is full the volume can be read. When it has room again the volume works normally.
fn after_a_full_host(
    bench: &Bench,
    volume: &mut Volume<'_>,
    memory: &Memory,
    ledger: &Ledger,
    tally: &mut Tally,
) -> Result<(), String> {
    if ledger.errors == 0 {
        return Err("the host never was full".into());
    }
    volume.mount().map_err(|why| format!("mounting while the host is full: {why}"))?;
    ledger.verify(tally).map_err(|why| format!("while the host is full: {why}"))?;
    tally.umount(volume)??;
    let mut command = Command::new("mount");
    bench.run(command.args(["-o", "remount,size=300M"]).arg(&memory.0))?;
    volume.mount().map_err(|why| format!("mounting with room again: {why}"))?;
    ledger.verify(tally).map_err(|why| format!("with room again: {why}"))?;
    fs::write(volume.dir().join("new"), b"there is room").map_err(|error| error.to_string())?;
    tally.umount(volume)??;
    volume.check()
}
