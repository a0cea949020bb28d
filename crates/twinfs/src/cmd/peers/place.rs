//! One disk for all, and a system's turn on it.
//!
//! Contract: whatever is made here is undone when its value is dropped, in the order of mounts,
//! daemons, loop device, files. Undoing goes on after a failure.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use twin_bench::directory::{Call, Clock, Cold, Directory};
use twin_bench::{BenchFailure, Benchmark, Phase, Place};
use twin_host::fuse::sync_file_system;

use super::system::{Chosen, Mount};
use crate::cmd::interrupt::{Interrupts, Undoing, remove_by_force};
use crate::cmd::progress::Progress;

/// How long, and how often, to wait for a mount to appear or to let go.
const TRIES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(20);
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// A fully written file as a loop device with direct I/O, in a directory of its own.
#[derive(Debug)]
pub(in crate::cmd) struct Disk {
    dir: PathBuf,
    /// Empty until it is attached.
    device: PathBuf,
    /// The directory to mount at.
    pub(super) mount_at: PathBuf,
    pub(super) stop: Arc<AtomicBool>,
    _undoing: Undoing,
}

impl Disk {
    /// Makes it below `base`.
    ///
    /// # Errors
    /// If there is no room, or the host refuses a loop device.
    pub(in crate::cmd) fn make(
        base: &Path,
        size: u64,
        interrupts: &Interrupts,
    ) -> Result<Disk, String> {
        let text = |path: &Path, e: io::Error| format!("{}: {e}", path.display());
        let dir = new_dir(base).map_err(|e| text(base, e))?;
        let mount_at = dir.join("mnt");
        let (gone, stop) = (dir.clone(), interrupts.stop());
        let undoing = interrupts.undo(move || remove_by_force(&gone));
        let device = PathBuf::new();
        let mut disk = Disk { dir, device, mount_at, stop, _undoing: undoing };
        for path in [&disk.mount_at, &disk.memory()] {
            fs::create_dir(path).map_err(|e| text(path, e))?;
        }
        let image = disk.dir.join("disk.img");
        disk.fill(&image, size).map_err(|e| text(&image, e))?;
        let mut losetup = Command::new("losetup");
        losetup.args(["--direct-io=on", "--find", "--show"]).arg(&image);
        disk.device = output(&mut losetup)?.trim().into();
        Ok(disk)
    }

    fn fill(&self, image: &Path, size: u64) -> io::Result<()> {
        let progress = Progress::of_bytes("of the device written", size);
        let written = write_whole(&mut File::create_new(image)?, size, &self.stop, &progress);
        progress.finish();
        written
    }

    pub(super) fn device(&self) -> &Path {
        &self.device
    }

    /// Bytes of its sectors, as the kernel says; 512 where it says nothing.
    fn sector(&self) -> u32 {
        let name = self.device.file_name().unwrap_or_default();
        let of_queue = Path::new("/sys/block").join(name).join("queue/logical_block_size");
        let text = fs::read_to_string(of_queue).unwrap_or_default();
        text.trim().parse().unwrap_or(512)
    }

    fn memory(&self) -> PathBuf {
        self.dir.join("memory")
    }
}

/// Makes a directory of its own for a disk of this process.
fn new_dir(base: &Path) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let dir = base.join(format!("twinfs-peers-{}-{number}", std::process::id()));
        match fs::create_dir(&dir) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| dir),
        }
    }
}

/// Writes this many bytes (whole mebibytes of them) to a file, and makes them durable; the host keeps
/// none of them in memory.
///
/// # Errors
/// If the host fails, or `stop` is set meanwhile.
pub(in crate::cmd) fn write_whole(
    file: &mut File,
    size: u64,
    stop: &AtomicBool,
    progress: &Progress,
) -> io::Result<()> {
    // Not zeros, which some hosts store as holes.
    let chunk: Vec<u8> = (0..1u32 << 20).map(|i| (i * 7 + i / 4096) as u8).collect();
    for _ in 0..size / chunk.len() as u64 {
        if stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("interrupted"));
        }
        file.write_all(&chunk)?;
        progress.inc(chunk.len() as u64);
    }
    file.sync_all()?;
    // Pages that nobody reads again only make it slow to remove the file, a second for two
    // gigabytes. A host that keeps them is no failure.
    let _ = rustix::fs::fadvise(&*file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(())
}

impl Drop for Disk {
    fn drop(&mut self) {
        if !self.device.as_os_str().is_empty() {
            let _ = output(Command::new("losetup").arg("--detach").arg(&self.device));
        }
        // Never into something that is still mounted.
        for path in [&self.mount_at, &self.memory()] {
            let _ = fs::remove_dir(path);
        }
        let _ = fs::remove_file(self.dir.join("disk.img"));
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Empties the kernel's caches.
///
/// # Errors
/// If the user is not root.
pub(in crate::cmd) fn drop_caches() -> Result<(), String> {
    fs::write(DROP_CACHES, "3").map_err(|error| format!("{DROP_CACHES}: {error}"))
}

/// Runs a command that must succeed, and gives what it printed.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{name}: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // Some add all their options to what is wrong.
    let what = said.trim().lines().next().unwrap_or_default();
    Err(format!("{name}: {}: {what}", output.status))
}

/// Waits outside of any runtime.
#[allow(clippy::disallowed_methods)]
fn pause() {
    std::thread::sleep(PAUSE);
}

fn is_mounted(dir: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().any(|line| line.split(' ').nth(4).is_some_and(|at| Path::new(at) == dir))
}

/// Unmounts; if a process keeps it busy, takes it out of the tree.
fn unmount(dir: &Path) {
    for _ in 0..10 {
        if !is_mounted(dir) || output(Command::new("umount").arg(dir)).is_ok() {
            return;
        }
        pause();
    }
    let _ = output(Command::new("umount").arg("--lazy").arg(dir));
}

/// This program or another.
fn program(word: &str) -> PathBuf {
    match word {
        "twinfs" => std::env::current_exe().unwrap_or_else(|_| word.into()),
        word => word.into(),
    }
}

/// A file system that is mounted.
struct Mounted {
    dir: PathBuf,
    /// The tmpfs below it.
    memory: Option<PathBuf>,
    daemon: Option<Child>,
    /// It is out of the way, and another may be in its place.
    ended: bool,
}

impl Mounted {
    fn new(chosen: &Chosen, disk: &Disk) -> Result<Mounted, String> {
        let mut mounted =
            Mounted { dir: disk.mount_at.clone(), memory: None, daemon: None, ended: false };
        match chosen.kind.mount {
            Mount::Kernel(fs, options) => {
                let mut mount = Command::new("mount");
                mount.args(["-t", fs, "-o", options]).arg(disk.device()).arg(&mounted.dir);
                output(&mut mount)?;
            }
            Mount::Daemon(words) => {
                mounted.start(words, &chosen.mount_words(), disk.device())?;
            }
            Mount::OverMemory(words) => {
                let memory = disk.memory();
                let mut mount = Command::new("mount");
                output(mount.args(["-t", "tmpfs", "tmpfs"]).arg(&memory))?;
                mounted.memory = Some(memory.clone());
                mounted.start(words, &[], &memory)?;
            }
        }
        Ok(mounted)
    }

    /// Starts the daemon, with more words at the end, and waits until it has mounted.
    fn start(&mut self, words: &[&str], more: &[&str], device: &Path) -> Result<(), String> {
        let mut command = Command::new(program(words[0]));
        for word in words[1..].iter().chain(more) {
            match *word {
                "DEVICE" => command.arg(device),
                "DIR" => command.arg(&self.dir),
                word => command.arg(word),
            };
        }
        // A terminal's interrupt is ours to answer.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = command.spawn().map_err(|e| format!("{}: {e}", words[0]))?;
        let daemon = self.daemon.insert(daemon);
        for _ in 0..TRIES {
            if is_mounted(&self.dir) {
                return Ok(());
            }
            if let Ok(Some(status)) = daemon.try_wait() {
                return Err(format!("{} ended before it mounted: {status}", words[0]));
            }
            pause();
        }
        Err(format!("{} does not mount", words[0]))
    }

    /// Unmounts and waits until its daemon has gone, so that everything is on the device.
    fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        unmount(&self.dir);
        if let Some(mut daemon) = self.daemon.take() {
            let gone = |daemon: &mut Child| !matches!(daemon.try_wait(), Ok(None));
            for _ in 0..TRIES {
                if gone(&mut daemon) {
                    break;
                }
                pause();
            }
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        if let Some(memory) = self.memory.take() {
            unmount(&memory);
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.end();
    }
}

/// A file system with its turns on the disk.
#[derive(Debug)]
pub(in crate::cmd) struct System {
    chosen: Chosen,
    disk: Arc<Disk>,
    failures: Mutex<Vec<String>>,
}

impl System {
    pub(in crate::cmd) fn new(chosen: Chosen, disk: Arc<Disk>) -> System {
        System { chosen, disk, failures: Mutex::default() }
    }

    /// What did not work, in words.
    pub(super) fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The device on which it is made.
    pub(in crate::cmd) fn device(&self) -> &Path {
        self.disk.device()
    }

    /// Bytes of the device's sectors.
    pub(in crate::cmd) fn sector(&self) -> u32 {
        self.disk.sector()
    }

    /// Makes a new file system on the disk.
    ///
    /// # Errors
    /// Those of its `mkfs`.
    pub(in crate::cmd) fn make(&self) -> Result<(), String> {
        if let [tool, words @ ..] = self.chosen.kind.mkfs {
            let mut mkfs = Command::new(program(tool));
            output(mkfs.args(words).arg(self.disk.device()))?;
        }
        Ok(())
    }

    /// Works in a new file system of this kind, which is mounted meanwhile.
    ///
    /// # Errors
    /// Those of making and mounting it, and of the work.
    pub(in crate::cmd) fn with_mount<T>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, String>,
    ) -> Result<T, String> {
        self.make()?;
        self.in_mount(work)
    }

    /// Works in the file system that is on the disk, which is mounted meanwhile.
    ///
    /// # Errors
    /// Those of mounting it, and of the work.
    pub(in crate::cmd) fn in_mount<T>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut mounted = Mounted::new(&self.chosen, &self.disk)?;
        let done = work(&self.disk.mount_at);
        mounted.end();
        done
    }

    fn turn(&self, bench: &dyn Benchmark, clock: Clock<'_>) -> Result<Vec<Phase>, BenchFailure> {
        self.make().map_err(BenchFailure)?;
        let mounted = Mounted::new(&self.chosen, &self.disk).map_err(BenchFailure)?;
        let mounted = Arc::new(Mutex::new(mounted));
        let directory = Directory {
            path: self.disk.mount_at.clone(),
            cold: self.cold(&mounted),
            stop: Arc::clone(&self.disk.stop),
            sync: sync_file_system,
        };
        directory.run(bench, clock)
    }

    /// A daemon has caches of its own, which only a remount empties.
    fn cold(&self, mounted: &Arc<Mutex<Mounted>>) -> Cold {
        if !matches!(self.chosen.kind.mount, Mount::Daemon(_)) {
            return Cold::DropCaches;
        }
        let (chosen, disk) = (self.chosen.clone(), Arc::clone(&self.disk));
        let mounted = Arc::clone(mounted);
        Cold::Call(Call(Arc::new(move || {
            let mut mounted = mounted.lock().unwrap_or_else(PoisonError::into_inner);
            mounted.end();
            drop_caches()?;
            *mounted = Mounted::new(&chosen, &disk)?;
            Ok(())
        })))
    }
}

impl Place for System {
    fn name(&self) -> String {
        self.chosen.name()
    }

    /// What a peer cannot do is left out, and told at the end.
    fn run(&self, bench: &dyn Benchmark, clock: Clock<'_>) -> Result<Vec<Phase>, BenchFailure> {
        match self.turn(bench, clock) {
            Err(why) if self.disk.stop.load(Ordering::Relaxed) => Err(why),
            Err(why) => {
                let why = format!("{}, {}: {why}", self.chosen.name(), bench.label());
                let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
                if !failures.contains(&why) {
                    failures.push(why);
                }
                Ok(Vec::new())
            }
            done => done,
        }
    }
}
