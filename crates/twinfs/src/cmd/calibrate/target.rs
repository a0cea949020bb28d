//! What is measured: the device under a directory, or a device itself.
//!
//! Contract: a device is written only if it is blank, or `--force` was given, and if nobody has it mounted
//! or open for himself. What was written is zeroed at the end, also after an interrupt, so that a blank
//! device is blank again. Everything that is not the device's (FUSE, the processor) is then measured in
//! [`ELSEWHERE`].

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, seek};

use super::device::FILE;
use crate::cmd::interrupt::{Interrupts, Undoing};
use crate::cmd::mkfs::busy_file_under;
use crate::cmd::peers::write_whole;
use crate::cmd::progress::Progress;
use crate::content::{self, Content};

/// Where images and mounts are made when the device itself is measured.
const ELSEWHERE: &str = "/var/tmp";
/// The least room on a device: requests shall go to different places.
const LEAST: u64 = 32 << 20;
/// The largest requests; a whole number of them is used.
const LARGE: u64 = 1 << 20;

/// What is measured.
pub(super) enum Target {
    /// A file in this directory.
    Directory(PathBuf),
    /// A device.
    Disk(Disk),
}

/// A block device whose first bytes are used.
pub(super) struct Disk {
    path: PathBuf,
    bytes: u64,
    _undoing: Undoing,
}

impl Target {
    /// Looks at what was named; writes nothing.
    ///
    /// # Errors
    /// If it is neither a directory nor a device, or a device that may not be written.
    pub(super) fn of(path: &Path, force: bool, interrupts: &Interrupts) -> Result<Target, String> {
        let name = path.display();
        let meta = std::fs::metadata(path).map_err(|e| format!("{name}: {e}"))?;
        if meta.is_dir() {
            return Ok(Target::Directory(path.into()));
        }
        if !meta.file_type().is_block_device() {
            return Err(format!(
                "{name} is neither a directory nor a block device: give a directory on the device \
                 that is to be measured, or the device"
            ));
        }
        if let Some(file) = busy_file_under(&meta) {
            return Err(format!(
                "{name} is a loop device over {file}, which another process has open as an image: \
                 unmount that first"
            ));
        }
        let file = exclusive(path)?;
        let size = seek(&file, SeekFrom::End(0)).map_err(|e| format!("{name}: {e}"))?;
        drop(file);
        let bytes = size.min(FILE) / LARGE * LARGE;
        if bytes < LEAST {
            return Err(format!("{name} is too small to be measured: it has less than 32 MiB"));
        }
        match content::of(path) {
            _ if force => {}
            Some(Content::Blank | Content::Empty) => {}
            holds => {
                let holds = holds.map_or("something unknown".into(), |holds| holds.to_string());
                return Err(format!(
                    "{name} is not blank: it holds {holds}. Measuring writes to the device, so \
                     nothing was done: give a directory on it, or --force, which overwrites its \
                     first {} MiB",
                    bytes >> 20
                ));
            }
        }
        let gone = path.to_owned();
        let undoing = interrupts.undo(move || drop(zero(&gone, bytes)));
        Ok(Target::Disk(Disk { path: path.into(), bytes, _undoing: undoing }))
    }

    /// The directory for all that is made besides.
    pub(super) fn directory(&self) -> &Path {
        match self {
            Target::Directory(dir) => dir,
            Target::Disk(_) => Path::new(ELSEWHERE),
        }
    }

    /// What it is and where, for the machine file.
    pub(super) fn about(&self) -> Result<(&'static str, String), String> {
        match self {
            Target::Directory(dir) => {
                Ok(("directory", crate::cmd::absolute(dir)?.display().to_string()))
            }
            Target::Disk(disk) => Ok(("device", disk.path.display().to_string())),
        }
    }
}

impl Disk {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that are used.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes what is used, so that it has its place on media that give places on demand.
    pub(super) fn fill(&self, interrupts: &Interrupts) -> Result<(), String> {
        let mut file = exclusive(&self.path)?;
        write_whole(&mut file, self.bytes, &interrupts.stop(), &Progress::hidden())
            .map_err(|e| format!("{}: {e}", self.path.display()))
    }

    /// Takes back what was written.
    pub(super) fn zero(&self) -> Result<(), String> {
        zero(&self.path, self.bytes).map_err(|e| format!("{}: {e}", self.path.display()))
    }
}

/// Opens a device that nobody has mounted or open for himself.
fn exclusive(path: &Path) -> Result<File, String> {
    let flags = OFlags::EXCL.bits() as i32;
    let file = File::options().read(true).write(true).custom_flags(flags).open(path);
    file.map_err(|error| match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::BUSY) => {
            format!("{} is in use: unmount it first, or give the directory", path.display())
        }
        _ => format!("{}: {error}", path.display()),
    })
}

/// Zeroes the first bytes of a device: by its own command where it has one.
fn zero(path: &Path, bytes: u64) -> std::io::Result<()> {
    let file = File::options().write(true).open(path)?;
    let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    if fallocate(&file, flags, 0, bytes).is_err() {
        let zeros = vec![0; LARGE as usize];
        for at in (0..bytes).step_by(zeros.len()) {
            std::os::unix::fs::FileExt::write_all_at(&file, &zeros, at)?;
        }
    }
    file.sync_all()
}
