//! A command's own directory, which goes with all that was mounted and attached in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::interrupts::{Interrupts, Undoing, pause};
use crate::places::absolute;

/// How often, and after which pause, a directory is emptied into which another thread still writes, or where a daemon
/// that had begun before still mounts. On a busy machine either may take a second.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// A directory for a command's own use. It is removed with all that is in it when this is dropped, and
/// after an interrupt: then what is mounted below it is taken out of the tree first, and loop devices over
/// files in it are detached.
#[derive(Debug)]
pub struct ScratchDir {
    path: PathBuf,
    _undoing: Undoing,
}

impl ScratchDir {
    /// Makes it.
    ///
    /// # Errors
    /// If the host refuses, or there was an interrupt.
    pub fn make(path: PathBuf, interrupts: &Interrupts) -> Result<ScratchDir, String> {
        let path = absolute(&path)?;
        let make = || std::fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()));
        let gone = path.clone();
        let ((), undoing) = interrupts.made(make, move || remove_by_force(&gone))?;
        Ok(ScratchDir { path, _undoing: undoing })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // Never into something that is still mounted.
        if !mounts_below(&self.path).is_empty() {
            return remove_by_force(&self.path);
        }
        match std::fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                crate::note!("twinfs: {}: {error}", self.path.display());
            }
            _ => {}
        }
    }
}

/// Removes a directory, with mounts and loop devices in it, while other threads may still use it.
pub fn remove_by_force(dir: &Path) {
    detach_below(dir);
    // Under another name nobody finds it who would go on to fill it faster than it is emptied.
    let mut gone = dir.as_os_str().to_owned();
    gone.push(".gone");
    let gone = PathBuf::from(gone);
    let place = if std::fs::rename(dir, &gone).is_ok() { &gone } else { dir };
    if !emptied(place) {
        crate::note!("twinfs: {} could not be removed", place.display());
    }
}

/// Removes a directory; what is in its way goes first.
fn emptied(place: &Path) -> bool {
    for _ in 0..TRIES {
        match std::fs::remove_dir_all(place) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => pause(PAUSE),
            _ => return true,
        }
        // The mount of a daemon that was killed at work may have come into the table only now.
        detach_below(place);
    }
    false
}

/// Takes what is mounted below a directory out of the tree, and detaches the loop devices over files in it.
fn detach_below(dir: &Path) {
    for mount in mounts_below(dir) {
        let lazily = |program: &str, words: &[&str]| {
            let mut command = Command::new(program);
            command.args(words).arg(&mount);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let _ = lazily("umount", &["--lazy"]) || lazily("fusermount3", &["-u", "-z"]);
    }
    for device in loop_devices_below(dir) {
        let mut command = Command::new("losetup");
        command.arg("--detach").arg(&device).stderr(Stdio::null());
        let _ = command.status();
    }
}

/// Where something is mounted below a directory, the last one first.
fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let places = table.lines().filter_map(|line| line.split(' ').nth(4));
    // The table has spaces in names as octal numbers.
    let places = places.map(|place| PathBuf::from(place.replace("\\040", " ")));
    let mut found: Vec<_> = places.filter(|place| place.starts_with(dir)).collect();
    found.reverse();
    found
}

fn loop_devices_below(dir: &Path) -> Vec<PathBuf> {
    let Ok(devices) = std::fs::read_dir("/sys/block") else { return Vec::new() };
    let is_below = |device: &std::fs::DirEntry| {
        let file = std::fs::read_to_string(device.path().join("loop/backing_file"));
        file.is_ok_and(|file| Path::new(file.trim_end()).starts_with(dir))
    };
    let found = devices.flatten().filter(is_below);
    found.map(|device| Path::new("/dev").join(device.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_although_somebody_writes_into_it() {
        let dir = std::env::temp_dir().join(format!("twinfs-scratch-{}", std::process::id()));
        let scratch = ScratchDir::make(dir.clone(), &Interrupts::default()).unwrap();
        let busy = scratch.path().to_owned();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                (0u64..).find(|i| std::fs::write(busy.join(format!("{i}")), "x").is_err())
            });
            remove_by_force(&dir);
            assert!(!dir.exists());
            assert!(writer.join().unwrap().is_some(), "the writer meets an error");
        });
    }
    /// A killed daemon's mount that came after the look at the table left the directory of an interrupted
    /// `validate` behind, on a busy machine.
    #[test]
    fn a_mount_that_comes_late_goes_too() {
        let dir = std::env::temp_dir().join(format!("twinfs-late-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("mount")).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "none"]).arg(dir.join("mount")).stderr(Stdio::null());
        if !mount.status().is_ok_and(|status| status.success()) {
            eprintln!("skipped: only root may mount");
        }
        assert!(emptied(&dir) && !dir.exists());
        assert!(mounts_below(&dir).is_empty());
    }
}
