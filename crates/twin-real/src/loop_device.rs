//! A device of one's own: a fully written file behind a loop device with direct I/O.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use twin_host::{ScratchDir, absolute};

use crate::runner::{Runner, output};

/// A loop device over a file in a directory of its own, where a file system on it can be mounted.
#[derive(Debug)]
pub struct LoopDevice {
    /// The device; empty until it is attached.
    path: PathBuf,
    mount_at: PathBuf,
    _scratch: ScratchDir,
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
