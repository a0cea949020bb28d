//! The file of `mount --status`: what the log does, as JSON, written anew twice a second.
//!
//! Contract: whoever reads it finds a whole status. It is written on a thread of its own, for a
//! busy disk can make the writer of any file wait for a tenth of a second, and clients of the
//! volume are not to wait with it. What was looked at later is never replaced by something earlier.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use twin_fs::Volume;
use twin_host::{Host, offload};
use twin_lab::Status;
use twin_lfs::Lfs;

/// How often the status is written.
const STATUS_NS: u64 = 500 * twin_rt::MILLIS;

/// A status file, for several threads.
#[derive(Clone)]
pub(super) struct StatusFile {
    path: PathBuf,
    /// The number of the status that is in the file.
    written: Arc<Mutex<u64>>,
}

impl StatusFile {
    /// Begins with the status of a volume.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn begin(path: &Path, volume: &Volume<Lfs>) -> Result<StatusFile, String> {
        let file = StatusFile { path: path.to_owned(), written: Arc::default() };
        file.put_of(1, volume)?;
        Ok(file)
    }

    /// Writes the status of a volume while `serve` runs, and at the end.
    ///
    /// # Errors
    /// Those of `serve`; and if it cannot be written at the end.
    pub(super) fn keep(
        &self,
        host: &Host,
        volume: &Rc<Volume<Lfs>>,
        serve: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let (host, watched, its) = (host.clone(), Rc::clone(volume), self.clone());
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

    fn put_of(&self, number: u64, volume: &Volume<Lfs>) -> Result<(), String> {
        let told = |error: std::io::Error| format!("{}: {error}", self.path.display());
        self.put(number, &text_of(volume)?).map_err(told)
    }

    /// Puts a status there, unless a later one is.
    fn put(&self, number: u64, text: &str) -> std::io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if number > *written {
            let new = self.path.with_extension("new");
            std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &self.path))?;
            *written = number;
        }
        Ok(())
    }
}

fn text_of(volume: &Volume<Lfs>) -> Result<String, String> {
    serde_json::to_string(&Status::of(volume)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_status_does_not_replace_a_later_one() {
        let dir = std::env::temp_dir().join(format!("twinfs-status-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = StatusFile { path: dir.join("s.json"), written: Arc::default() };
        file.put(2, "two").unwrap();
        file.put(1, "one").unwrap();
        assert_eq!(std::fs::read_to_string(&file.path).unwrap(), "two");
        file.put(3, "three").unwrap();
        assert_eq!(std::fs::read_to_string(&file.path).unwrap(), "three");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
