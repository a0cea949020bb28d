//! Cleanup after a run, however it ends: of its daemons, mounts, loop devices and files.
//!
//! All files of a run are in one folder. A second process, in a session of its own, holds the
//! reading end of a pipe; when this process ends in any way, even by SIGKILL, the pipe closes and
//! the second process cleans up.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::daemon;
use crate::processes;

/// The command word that starts the second process.
pub(crate) const COMMAND: &str = "e2e-janitor";

/// The folder of a run. Dropping the janitor cleans up.
pub(crate) struct Janitor {
    dir: PathBuf,
    process: Child,
    keep: bool,
}

impl Janitor {
    /// Creates the folder and starts the second process.
    pub(crate) fn start(keep: bool) -> Result<Janitor, String> {
        let dir = base().join(format!("twinfs-e2e-{}", std::process::id()));
        fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        // Ordinary users work in this folder too.
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&dir, open).map_err(|error| format!("{}: {error}", dir.display()))?;
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(own);
        command.arg(COMMAND).arg(&dir).arg(if keep { "keep" } else { "remove" });
        let process = command.stdin(Stdio::piped()).spawn();
        let process = process.map_err(|error| format!("{COMMAND}: {error}"))?;
        Ok(Janitor { dir, process, keep })
    }

    /// The folder of the run.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Cleans up after one scenario.
    pub(crate) fn clean(&self, name: &str) {
        clean(&self.dir.join(name), self.keep);
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// The work of the second process.
pub(crate) fn watch(dir: &Path, keep: bool) {
    // A terminal's interrupt does not reach a session of its own.
    let _ = rustix::process::setsid();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    clean(dir, keep);
}

/// The folder for runs: on a disk rather than in memory, if possible.
fn base() -> PathBuf {
    let disk = Path::new("/var/tmp");
    match std::env::var_os("TMPDIR") {
        Some(dir) => PathBuf::from(dir),
        None if disk.is_dir() => disk.into(),
        None => std::env::temp_dir(),
    }
}

fn clean(dir: &Path, keep: bool) {
    daemon::kill_all(dir);
    processes::kill_at(dir);
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for place in mounts_below(&table, dir) {
        let _ = Command::new("umount").arg("-l").arg(place).output();
    }
    for device in loops_below(dir) {
        let _ = Command::new("losetup").arg("-d").arg(device).output();
    }
    if !keep {
        let _ = fs::remove_dir_all(dir);
    }
}

/// The mounts below a folder, the latest first.
pub(super) fn mounts_below(table: &str, dir: &Path) -> Vec<PathBuf> {
    let places = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let mut below: Vec<PathBuf> = places.filter(|place| place.starts_with(dir)).collect();
    below.reverse();
    below
}

/// The loop devices on files below a folder.
fn loops_below(dir: &Path) -> Vec<PathBuf> {
    let Ok(devices) = fs::read_dir("/sys/block") else { return Vec::new() };
    let mut found = Vec::new();
    for device in devices.flatten() {
        let file = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(file.trim()).starts_with(dir) {
            found.push(Path::new("/dev").join(device.file_name()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_the_folder_are_found_the_latest_first() {
        let table = "1 0 8:1 / / rw - ext4 a rw\n\
                     2 1 0:40 / /var/tmp/run/a rw - fuse.twinfs b rw\n\
                     3 1 0:41 / /var/tmp/run/a/b rw - tmpfs c rw\n\
                     4 1 0:42 / /var/tmp/runner rw - tmpfs d rw\n";
        let found = mounts_below(table, Path::new("/var/tmp/run"));
        let expected = ["/var/tmp/run/a/b", "/var/tmp/run/a"].map(PathBuf::from);
        assert_eq!(found, expected);
    }

    #[test]
    fn cleaning_removes_the_folder_unless_it_is_kept() {
        let dir = std::env::temp_dir().join(format!("xtask-clean-{}", std::process::id()));
        fs::create_dir_all(dir.join("a")).unwrap();
        clean(&dir, true);
        assert!(dir.join("a").is_dir());
        clean(&dir, false);
        assert!(!dir.exists());
    }
}
