//! The file of `mount --status`: what the log does, as JSON, written anew twice a second.
//!
//! Contract: a reader finds a whole status. It is written on a thread of its own, for a
//! busy disk can make the writer of any file wait for a tenth of a second, and clients of the
//! volume are not to wait with it. What was looked at later is never replaced by something earlier.
//! The directory is opened before anything is mounted and never looked up again: a mount that is put
//! over it later changes nothing. A file that is no status is not replaced.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, Mode, OFlags};
use twin_fs::Volume;
use twin_host::{Host, offload};
use twin_lab::Status;

/// How often the status is written.
const STATUS_NS: u64 = 500 * twin_rt::MILLIS;

/// A status file, for several threads.
#[derive(Clone)]
pub(crate) struct StatusFile {
    path: PathBuf,
    dir: Arc<OwnedFd>,
    /// The number of the status that is in the file.
    written: Arc<Mutex<u64>>,
}

impl StatusFile {
    /// Begins with the status of a volume.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn begin(path: &Path, volume: &Volume) -> Result<StatusFile, String> {
        let file = StatusFile::at(path)?;
        file.put_of(1, volume)?;
        Ok(file)
    }

    fn at(path: &Path) -> Result<StatusFile, String> {
        let in_file = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        match std::fs::read(path) {
            Ok(text) if text.is_empty() || serde_json::from_slice::<Status>(&text).is_ok() => {}
            Ok(_) => {
                let why = "exists and is no status file: remove it or choose another name";
                return Err(in_file(&why));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(in_file(&error)),
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(dir.unwrap_or(Path::new(".")), flags, Mode::empty());
        let dir = Arc::new(dir.map_err(|errno| in_file(&std::io::Error::from(errno)))?);
        Ok(StatusFile { path: path.to_owned(), dir, written: Arc::default() })
    }

    /// Writes the status of a volume while `serve` runs, and at the end.
    ///
    /// # Errors
    /// Those of `serve`; and if it cannot be written at the end.
    pub(crate) fn keep(
        &self,
        host: &Host,
        volume: &Volume,
        serve: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let (host, watched, its) = (host.clone(), volume.clone(), self.clone());
        host.rt().clone().spawn("status", async move {
            // A file that cannot be written now may be later.
            for number in 2.. {
                host.rt().sleep(STATUS_NS).await;
                let (Ok(text), file) = (text_of(&watched), its.clone()) else { continue };
                if let Ok(done) = offload(&host, move || file.put(number, &text)) {
                    let _ = done.await;
                }
            }
        });
        serve().and(self.put_of(u64::MAX, volume))
    }

    fn put_of(&self, number: u64, volume: &Volume) -> Result<(), String> {
        let told = |error: std::io::Error| format!("{}: {error}", self.path.display());
        self.put(number, &text_of(volume)?).map_err(told)
    }

    /// Puts a status there, unless a later one is.
    fn put(&self, number: u64, text: &str) -> std::io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if number > *written {
            let name = self.path.file_name().unwrap_or_default();
            // The name has this process's number, so no other process uses it.
            let mut new = std::ffi::OsString::from(".");
            new.push(name);
            new.push(format!(".{}", std::process::id()));
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
            let mode = Mode::from_raw_mode(0o666);
            let file = rustix::fs::openat(&self.dir, &new, flags | OFlags::CLOEXEC, mode)?;
            let told = File::from(file).write_all(text.as_bytes());
            let put =
                told.and_then(|()| Ok(rustix::fs::renameat(&self.dir, &new, &self.dir, name)?));
            if put.is_err() {
                let _ = rustix::fs::unlinkat(&self.dir, &new, AtFlags::empty());
            }
            put?;
            *written = number;
        }
        Ok(())
    }
}

fn text_of(volume: &Volume) -> Result<String, String> {
    serde_json::to_string(&Status::of(volume)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_status_does_not_replace_a_later_one() {
        let dir = std::env::temp_dir().join(format!("twinfs-status-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = StatusFile::at(&dir.join("s.json")).unwrap();
        file.put(2, "two").unwrap();
        file.put(1, "one").unwrap();
        assert_eq!(std::fs::read_to_string(&file.path).unwrap(), "two");
        file.put(3, "three").unwrap();
        assert_eq!(std::fs::read_to_string(&file.path).unwrap(), "three");
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "nothing else stays there");
        // A letter under that name was lost, and so was one called `s.new`.
        let error = StatusFile::at(&file.path).err().unwrap();
        assert!(error.contains("is no status file"), "{error}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
