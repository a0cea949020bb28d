//! A device of one's own: a fully written file behind a loop device with direct I/O.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use twin_host::{ScratchDir, absolute};
use twin_lab::DiskFigures;

use crate::runner::{Runner, output};

/// A loop device over a file in a directory of its own, where a file system on it can be mounted.
#[derive(Debug)]
pub struct LoopDevice {
    /// The device; empty until it is attached.
    path: PathBuf,
    mount_at: PathBuf,
    _scratch: ScratchDir,
}

impl Runner<'_> {
    /// A loop device of so many bytes over a file below `base`.
    ///
    /// # Errors
    /// If there is no room, or the host refuses a loop device.
    pub fn loop_device(&self, base: &Path, size: u64) -> Result<LoopDevice, String> {
        LoopDevice::make(self, base, size)
    }
}

impl LoopDevice {
    /// Makes it below `base`.
    ///
    /// # Errors
    /// If there is no room, or the host refuses a loop device.
    pub fn make(runner: &Runner<'_>, base: &Path, size: u64) -> Result<LoopDevice, String> {
        let scratch = new_dir(runner, &absolute(base)?)?;
        let (mount_at, image) = (scratch.path().join("mnt"), scratch.path().join("disk.img"));
        let mut device = LoopDevice { path: PathBuf::new(), mount_at, _scratch: scratch };
        let made = fs::create_dir(&device.mount_at);
        made.map_err(|error| format!("{}: {error}", device.mount_at.display()))?;
        runner.full_file(&image, size, Some("of the device written"))?;
        let mut losetup = Command::new("losetup");
        losetup.args(["--direct-io=on", "--find", "--show"]).arg(&image);
        device.path = output(&mut losetup)?.trim().into();
        Ok(device)
    }

    /// The device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory at which file systems on it are mounted.
    pub fn mount_at(&self) -> &Path {
        &self.mount_at
    }

    /// What it has done so far, as the kernel counts it; `None` where the kernel does not.
    pub(crate) fn counts(&self) -> Option<Counts> {
        let name = self.path.file_name()?;
        let text = fs::read_to_string(Path::new("/sys/block").join(name).join("stat")).ok()?;
        Counts::parse(&text)
    }

    /// Bytes of its sectors, as the kernel says; 512 where it says nothing.
    pub fn sector(&self) -> u32 {
        let name = self.path.file_name().unwrap_or_default();
        let of_queue = Path::new("/sys/block").join(name).join("queue/logical_block_size");
        let text = fs::read_to_string(of_queue).unwrap_or_default();
        text.trim().parse().unwrap_or(512)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // Before the directory with its file goes.
        if !self.path.as_os_str().is_empty() {
            let _ = output(Command::new("losetup").arg("--detach").arg(&self.path));
        }
    }
}

/// What a block device has done since it was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    written_bytes: u64,
    flushes: u64,
    busy_ms: u64,
}

impl Counts {
    /// From the kernel's line (Documentation/block/stat.rst): sectors there have 512 bytes.
    fn parse(text: &str) -> Option<Counts> {
        let all: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        let all = all?;
        let at = |nth: usize| all.get(nth).copied();
        Some(Counts {
            reads: at(0)?,
            read_bytes: at(2)? * 512,
            writes: at(4)?,
            written_bytes: at(6)? * 512,
            flushes: at(15).unwrap_or(0),
            busy_ms: at(9)?,
        })
    }

    /// What it has done since.
    pub(crate) fn since(&self, before: &Counts) -> DiskFigures {
        DiskFigures {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            writes: self.writes.saturating_sub(before.writes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            flushes: self.flushes.saturating_sub(before.flushes),
            busy_s: self.busy_ms.saturating_sub(before.busy_ms) as f64 / 1e3,
            ..DiskFigures::default()
        }
    }
}

/// Makes a directory of its own for a device of this process, which may have several.
fn new_dir(runner: &Runner<'_>, base: &Path) -> Result<ScratchDir, String> {
    let mut number = 0;
    loop {
        let name = format!("twinfs-peers-{}-{number}", std::process::id());
        let dir = base.join(name);
        if !dir.exists() {
            return ScratchDir::make(dir, runner.interrupts);
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_counts_are_read_and_subtracted() {
        let before = "1 0 8 3 10 0 80 5 0 40 8 0 0 0 0 2 1\n";
        let after = "3 0 24 3 30 0 4096 5 0 90 8 0 0 0 0 7 1\n";
        let [before, after] = [before, after].map(|text| Counts::parse(text).unwrap());
        let did = after.since(&before);
        assert_eq!((did.reads, did.writes, did.flushes), (2, 20, 5));
        assert_eq!((did.read_bytes, did.written_bytes), (16 * 512, 4016 * 512));
        assert_eq!(did.busy_s, 0.05);
        let old = Counts::parse("1 0 8 3 10 0 80 5 0 40 8").unwrap();
        assert_eq!(old.flushes, 0, "kernels before 5.5 do not count flushes");
        assert_eq!(Counts::parse("1 0 eight"), None);
    }
}
