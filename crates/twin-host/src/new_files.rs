//! Files that commands write.
//!
//! Contract: every file is opened before the work whose results it gets, so that a file that cannot
//! be written is reported before minutes are spent. It is also opened before anything is mounted,
//! because a path into a mount that is not served yet would block for ever. A command overwrites
//! only files that the same command has written. Files that tell of users' files are readable by
//! their owner only.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::interrupts::{Interrupts, Undoing};

/// Names, sizes and perhaps contents of users' files are not for everybody.
const PRIVATE: u32 = 0o600;

/// A new file for a trace or flight log. It is removed again if it is dropped without
/// [`keep`](NewFile::keep).
pub struct NewFile {
    path: PathBuf,
    file: Option<File>,
    _undoing: Undoing,
}

impl NewFile {
    /// Makes it; only its owner may read it.
    ///
    /// # Errors
    /// If there is a file of that name, it cannot be made, or there was an interrupt.
    pub fn make(path: &Path, interrupts: &Interrupts) -> Result<NewFile, String> {
        let make = || {
            let file = File::options().write(true).create_new(true).mode(PRIVATE).open(path);
            file.map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => {
                    format!("{} exists already: remove it or choose another name", path.display())
                }
                _ => format!("{}: {error}", path.display()),
            })
        };
        let (file, undoing) = interrupts.made(make, removes(path))?;
        Ok(NewFile { path: path.into(), file: Some(file), _undoing: undoing })
    }

    /// Another handle to write through.
    ///
    /// # Errors
    /// If the host gives none.
    pub fn handle(&self) -> Result<File, String> {
        let in_file = |why: &dyn std::fmt::Display| format!("{}: {why}", self.path.display());
        let file = self.file.as_ref().ok_or_else(|| in_file(&"is closed"))?;
        file.try_clone().map_err(|error| in_file(&error))
    }

    /// It has something now: it stays, under this path.
    pub fn keep(mut self) -> PathBuf {
        self.file = None;
        self.path.clone()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What files of a kind begin with: known by it, an earlier one may be replaced.
#[derive(Clone, Copy, Debug)]
pub struct FileKind {
    begins: &'static [u8],
    name: &'static str,
}

impl FileKind {
    /// A page.
    pub const HTML: FileKind = FileKind { begins: b"<!doctype html", name: "HTML page" };
    /// Rows in columns.
    pub const PARQUET: FileKind = FileKind { begins: b"PAR1", name: "Parquet file" };
}

/// A page, or another file of results, that is to be written at the end.
pub struct Page {
    path: PathBuf,
    file: File,
    is_new: bool,
    _undoing: Option<Undoing>,
}

/// What removes a file.
fn removes(path: &Path) -> impl Fn() + Send + 'static {
    let path = path.to_owned();
    move || drop(std::fs::remove_file(&path))
}

impl Page {
    /// Opens it. Nothing is changed yet.
    ///
    /// # Errors
    /// If there is a file of another kind, or it cannot be written.
    pub fn open(path: &Path, kind: FileKind, interrupts: &Interrupts) -> Result<Page, String> {
        let in_file = |error: std::io::Error| format!("{}: {error}", path.display());
        let is_new = !path.exists();
        let options =
            File::options().read(true).write(true).create(true).truncate(false).to_owned();
        // Pipes and terminals are written and not read.
        let open = || {
            let file = options.open(path).or_else(|_| File::options().write(true).open(path));
            file.map_err(in_file)
        };
        // Opening a pipe may wait for its reader, which an interrupt must end.
        let (mut file, undoing) = match is_new {
            true => interrupts.made(open, removes(path)).map(|(file, it)| (file, Some(it)))?,
            false => (open()?, None),
        };
        if file.metadata().map_err(in_file)?.is_file() {
            let mut first = Vec::new();
            (&mut file).take(kind.begins.len() as u64).read_to_end(&mut first).map_err(in_file)?;
            if !first.is_empty() && !first.eq_ignore_ascii_case(kind.begins) {
                return Err(format!(
                    "{} exists and is no {}: remove it or choose another name",
                    path.display(),
                    kind.name
                ));
            }
        }
        Ok(Page { path: path.into(), file, is_new, _undoing: undoing })
    }

    /// Writes it in place of what was there.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn write(mut self, content: &[u8]) -> Result<(), String> {
        self.is_new = false;
        if self.file.metadata().is_ok_and(|meta| meta.is_file()) {
            let cut = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
            cut.map_err(|error| format!("{}: {error}", self.path.display()))?;
        }
        let written = self.file.write_all(content);
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // What was made for a page that never came goes again.
        if self.is_new {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn place(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("twinfs-files-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn a_trace_is_for_its_owner_alone_and_goes_if_nothing_came_of_it() {
        let path = place("trace");
        let new = NewFile::make(&path, &Interrupts::default()).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777 & !PRIVATE, 0, "{mode:o}");
        assert!(
            NewFile::make(&path, &Interrupts::default())
                .is_err_and(|why| why.contains("exists already"))
        );
        drop(new);
        assert!(!path.exists());
        NewFile::make(&path, &Interrupts::default()).unwrap().keep();
        assert!(path.exists());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_page_replaces_a_page_and_nothing_else() {
        let path = place("page");
        drop(Page::open(&path, FileKind::HTML, &Interrupts::default()).unwrap());
        assert!(!path.exists(), "nothing was written");
        Page::open(&path, FileKind::HTML, &Interrupts::default())
            .unwrap()
            .write(b"<!doctype html>first, and long")
            .unwrap();
        Page::open(&path, FileKind::HTML, &Interrupts::default())
            .unwrap()
            .write(b"<!doctype html>second")
            .unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "<!doctype html>second");
        std::fs::write(&path, "a letter").unwrap();
        assert!(
            Page::open(&path, FileKind::HTML, &Interrupts::default())
                .is_err_and(|why| why.contains("is no HTML page"))
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a letter");
        std::fs::remove_file(&path).unwrap();
        Page::open(Path::new("/dev/null"), FileKind::HTML, &Interrupts::default())
            .unwrap()
            .write(b"<!doctype html>")
            .unwrap();
    }
}
