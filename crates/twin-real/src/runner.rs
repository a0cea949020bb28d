//! The runner of everything that is measured on this machine.
//!
//! Contract: whatever is made through a runner is undone when its value is dropped, in the order of mounts,
//! daemons, loop devices, files, and also after a signal: each thing is registered with the [`Interrupts`]
//! before it is used. Undoing goes on after a failure. A workload checks for an interrupt between two steps.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use twin_host::{Bar, Count, Interrupts, Progress, ScratchDir};

use crate::loop_device::LoopDevice;
use crate::mounted::Mounted;
use crate::systems::System;

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// What a measurement on this machine has.
#[derive(Clone)]
pub struct Runner<'a> {
    /// Who ends it, and undoes what was made.
    pub interrupts: &'a Interrupts,
    /// Who shows how far it is.
    pub progress: &'a dyn Progress,
    /// The executable of twinfs, which makes and mounts our own file systems.
    pub program: PathBuf,
}

impl Runner<'_> {
    /// Fails if the user has interrupted.
    ///
    /// # Errors
    /// If there was an interrupt.
    pub fn check(&self) -> Result<(), String> {
        self.interrupts.check()
    }

    /// A directory of its own below `base`, called after this process and `name`.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn scratch(&self, base: &Path, name: &str) -> Result<ScratchDir, String> {
        let dir = base.join(format!("twinfs-{name}-{}", std::process::id()));
        ScratchDir::make(dir, self.interrupts)
    }

    /// Makes a file of so many bytes, all of which are written: `what` is shown meanwhile, if it has a name.
    ///
    /// # Errors
    /// If there is such a file, there is no room, or the user interrupts.
    pub fn full_file(
        &self,
        path: &Path,
        size: u64,
        what: Option<&'static str>,
    ) -> Result<(), String> {
        let bar = match what {
            Some(what) => self.progress.begin(what, Count::Bytes(size)),
            None => Bar::hidden(),
        };
        let made = File::create_new(path)
            .and_then(|mut file| write_whole(&mut file, size, &self.interrupts.stop(), &bar));
        made.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// A loop device of so many bytes over a file below `base`.
    ///
    /// # Errors
    /// If there is no room, or the host refuses a loop device.
    pub fn loop_device(&self, base: &Path, size: u64) -> Result<LoopDevice, String> {
        LoopDevice::make(self, base, size)
    }

    /// Makes a new file system on a device or in an image, with more options of its `mkfs`.
    ///
    /// # Errors
    /// Those of its `mkfs`, in its words.
    pub fn make(&self, system: &System, device: &Path, options: &[&str]) -> Result<(), String> {
        if let [tool, words @ ..] = &system.mkfs()[..] {
            let mut mkfs = Command::new(self.tool(tool));
            output(mkfs.args(words).args(options).arg(device))?;
        }
        Ok(())
    }

    /// Mounts the file system that is on a device or in an image at `dir`, which is made if need be, with more
    /// options of its daemon.
    ///
    /// # Errors
    /// If it cannot be mounted, in the words of its daemon.
    pub fn mount(
        &self,
        system: &System,
        device: &Path,
        dir: &Path,
        options: &[&str],
    ) -> Result<Mounted, String> {
        Mounted::new(self, system, device, dir, options)
    }

    /// Works in the file system that is on a loop device, which is mounted meanwhile.
    ///
    /// # Errors
    /// Those of mounting and unmounting it, and of the work.
    pub fn in_mount<T>(
        &self,
        system: &System,
        device: &LoopDevice,
        work: impl FnOnce(&Path) -> Result<T, String>,
    ) -> Result<T, String> {
        let mounted = self.mount(system, device.path(), device.mount_at(), &[])?;
        let done = work(device.mount_at());
        let ended = mounted.end();
        done.and_then(|done| ended.map(|()| done))
    }

    /// The path of a program: `twinfs` is the one that runs.
    pub(crate) fn tool(&self, name: &str) -> PathBuf {
        if name == TWINFS { self.program.clone() } else { name.into() }
    }
}

/// The name that stands for this program in tables of tools.
pub(crate) const TWINFS: &str = "twinfs";

/// Runs a command that must succeed, and gives what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
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

/// Writes this many bytes (whole mebibytes of them) to a file, and makes them durable; the host keeps
/// none of them in memory.
///
/// # Errors
/// If the host fails, or `stop` is set meanwhile.
pub fn write_whole(file: &mut File, size: u64, stop: &AtomicBool, bar: &Bar) -> io::Result<()> {
    // Not zeros, which some hosts store as holes.
    let chunk: Vec<u8> = (0..1u32 << 20).map(|i| (i * 7 + i / 4096) as u8).collect();
    for _ in 0..size / chunk.len() as u64 {
        if stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("interrupted"));
        }
        file.write_all(&chunk)?;
        bar.add(chunk.len() as u64);
    }
    file.sync_all()?;
    // Pages that nobody reads again only make it slow to remove the file, a second for two
    // gigabytes. A host that keeps them is no failure.
    let _ = rustix::fs::fadvise(&*file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(())
}

/// Empties the kernel's caches.
///
/// # Errors
/// If the user is not root.
pub fn drop_caches() -> Result<(), String> {
    fs::write(DROP_CACHES, "3").map_err(|error| format!("{DROP_CACHES}: {error}"))
}

/// The median of some figures; 0 of none.
pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_host::Hidden;

    #[test]
    fn an_interrupt_ends_the_writing_of_a_file_and_its_directory_goes_with_the_value() {
        let interrupts = Interrupts::default();
        let program = PathBuf::new();
        let runner = Runner { interrupts: &interrupts, progress: &Hidden, program };
        let scratch = runner.scratch(&std::env::temp_dir(), "runner").unwrap();
        let file = |name: &str| scratch.path().join(name);
        runner.full_file(&file("whole"), 2 << 20, None).unwrap();
        assert_eq!(fs::metadata(file("whole")).unwrap().len(), 2 << 20);
        interrupts.stop().store(true, Ordering::SeqCst);
        let error = runner.full_file(&file("cut"), 2 << 20, None).unwrap_err();
        assert!(error.contains("interrupted"), "{error}");
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_command_says_is_why_it_failed() {
        let said = output(Command::new("sh").args(["-c", "echo so >&2; echo more >&2; exit 3"]));
        let why = said.unwrap_err();
        assert!(why.starts_with("sh: ") && why.ends_with(": so"), "{why}");
        assert_eq!(output(Command::new("sh").args(["-c", "echo well"])), Ok("well\n".into()));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!((median(vec![9.0, 1.0, 5.0]), median(vec![])), (5.0, 0.0));
    }
}
