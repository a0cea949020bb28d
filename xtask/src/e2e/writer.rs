//! A client that fsyncs, and records outside the mount which operations were acknowledged.
//!
//! Contract: before an operation the writer records the change that it is about to make, and after
//! the fsync that the change is done. If the file system dies, every acknowledged byte is known,
//! and so is the one operation in progress: [`Writer::verify`] requires the former, and accepts the
//! latter in every state that POSIX allows.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::manifest::names;
use super::rng::Rng;

/// Number of files of one writer.
const SLOTS: usize = 30;
/// The longest file, in bytes.
const FILE_MAX: usize = 400_000;
/// The name under which a replacement is written.
const NEW: &str = "new";

/// The content of a file; `None` if it does not exist.
type Content = Option<Vec<u8>>;

/// Writes files in a directory of its own.
pub(crate) struct Writer {
    dir: PathBuf,
    rng: Rng,
    files: Vec<Content>,
    pending: Option<Pending>,
    /// Whether the layout writes data in place, see [`Pending::is_half_cut`].
    in_place: bool,
    /// Number of acknowledged operations.
    pub(crate) done: usize,
}

/// An operation that was begun.
#[derive(Clone, Debug)]
struct Pending {
    slot: usize,
    becomes: Content,
    /// Whether the operation is atomic; other operations may be done in part.
    atomic: bool,
}

impl Writer {
    /// A writer in a new directory; `in_place`: the layout of the volume writes data in place.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub(crate) fn new(dir: PathBuf, seed: u64, in_place: bool) -> io::Result<Writer> {
        fs::create_dir(&dir)?;
        let files = vec![None; SLOTS];
        Ok(Writer { dir, rng: Rng::new(seed), files, pending: None, in_place, done: 0 })
    }

    /// Runs operations until one fails, and returns the error.
    pub(crate) fn run(&mut self) -> io::Error {
        loop {
            if let Err(error) = self.step() {
                return error;
            }
        }
    }

    /// Runs one operation and makes it durable.
    ///
    /// # Errors
    /// The host's error; the operation is then pending.
    pub(crate) fn step(&mut self) -> io::Result<()> {
        let slot = self.rng.below(SLOTS);
        let choice = self.rng.below(10);
        match (self.files[slot].clone(), choice) {
            (None, _) => self.create(slot)?,
            (Some(old), 0..=3) => self.append(slot, old)?,
            (Some(old), 4..=5) => self.overwrite(slot, old)?,
            (Some(_), 6..=7) => self.replace(slot)?,
            (Some(old), 8) => self.truncate(slot, old)?,
            (Some(_), _) => self.remove(slot)?,
        }
        if let Some(pending) = self.pending.take() {
            self.files[pending.slot] = pending.becomes;
        }
        self.done += 1;
        Ok(())
    }

    fn path(&self, slot: usize) -> PathBuf {
        self.dir.join(format!("file-{slot}"))
    }

    fn begin(&mut self, slot: usize, becomes: Content, atomic: bool) {
        self.pending = Some(Pending { slot, becomes, atomic });
    }

    /// Random bytes for a file: mostly few, sometimes many.
    fn data(&mut self, max: usize) -> Vec<u8> {
        let few = self.rng.below(8) > 0;
        let len = 1 + self.rng.below(if few { 6000.min(max) } else { max });
        self.rng.bytes(len)
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    fn create(&mut self, slot: usize) -> io::Result<()> {
        let data = self.data(FILE_MAX / 4);
        self.begin(slot, Some(data.clone()), false);
        let mut file = File::create_new(self.path(slot))?;
        file.write_all(&data)?;
        file.sync_all()?;
        self.sync_dir()
    }

    fn append(&mut self, slot: usize, old: Vec<u8>) -> io::Result<()> {
        let room = FILE_MAX - old.len().min(FILE_MAX - 1);
        let data = self.data(room);
        self.begin(slot, Some([&old[..], &data].concat()), false);
        let mut file = OpenOptions::new().append(true).open(self.path(slot))?;
        file.write_all(&data)?;
        file.sync_data()
    }

    fn overwrite(&mut self, slot: usize, old: Vec<u8>) -> io::Result<()> {
        if old.is_empty() {
            return self.append(slot, old);
        }
        let at = self.rng.below(old.len());
        let data = self.data(old.len() - at);
        let mut becomes = old;
        becomes[at..at + data.len()].copy_from_slice(&data);
        self.begin(slot, Some(becomes), false);
        let file = OpenOptions::new().write(true).open(self.path(slot))?;
        file.write_all_at(&data, at as u64)?;
        file.sync_data()
    }

    fn replace(&mut self, slot: usize) -> io::Result<()> {
        let data = self.data(FILE_MAX / 4);
        self.begin(slot, Some(data.clone()), true);
        let new = self.dir.join(NEW);
        let mut file = File::create(&new)?;
        file.write_all(&data)?;
        file.sync_all()?;
        fs::rename(&new, self.path(slot))?;
        self.sync_dir()
    }

    fn truncate(&mut self, slot: usize, old: Vec<u8>) -> io::Result<()> {
        let len = self.rng.below(old.len() + 1);
        self.begin(slot, Some(old[..len].to_vec()), true);
        let file = OpenOptions::new().write(true).open(self.path(slot))?;
        file.set_len(len as u64)?;
        file.sync_all()
    }

    fn remove(&mut self, slot: usize) -> io::Result<()> {
        self.begin(slot, None, true);
        fs::remove_file(self.path(slot))?;
        self.sync_dir()
    }

    /// Finds its files there from now on.
    pub(crate) fn move_to(&mut self, dir: PathBuf) {
        self.dir = dir;
    }

    /// Compares the files with the acknowledged operations, and continues with the files found.
    ///
    /// # Errors
    /// The first file in a state that is not allowed.
    pub(crate) fn verify(&mut self) -> Result<(), String> {
        let pending = self.pending.take();
        for slot in 0..SLOTS {
            let path = self.path(slot);
            let is = content(&path)?;
            let was = &self.files[slot];
            let now = pending.as_ref().filter(|pending| pending.slot == slot);
            let half_cut = |p: &Pending| self.in_place && p.is_half_cut(was, &is);
            if is != *was && !now.is_some_and(|p| p.allows(was, &is) || half_cut(p)) {
                let why = difference(was, &is);
                let under_way = now.map_or("nothing".into(), |pending| {
                    let len = pending.becomes.as_ref().map(Vec::len);
                    format!("a change to {len:?} bytes, atomic: {}", pending.atomic)
                });
                return Err(format!("{}: {why}; under way: {under_way}", path.display()));
            }
            self.files[slot] = is;
        }
        self.expect_no_strangers()
    }

    fn expect_no_strangers(&self) -> Result<(), String> {
        for name in names(&self.dir)? {
            let ours = (0..SLOTS).any(|slot| {
                self.files[slot].is_some()
                    && self.path(slot).file_name().is_some_and(|own| own.as_encoded_bytes() == name)
            });
            if !ours && name != NEW.as_bytes() {
                let name = String::from_utf8_lossy(&name).into_owned();
                return Err(format!("{}: {name} came from nowhere", self.dir.display()));
            }
        }
        Ok(())
    }
}

impl Pending {
    /// Whether a file may be in state `is` after state `was`.
    fn allows(&self, was: &Content, is: &Content) -> bool {
        if *is == self.becomes {
            return true;
        }
        if self.atomic {
            return false;
        }
        let (Some(is), Some(becomes)) = (is, &self.becomes) else { return false };
        let was = was.as_deref().unwrap_or_default();
        // Old bytes, new bytes, or a hole where there were no bytes before.
        is.len() <= becomes.len()
            && is.len() >= was.len()
            && is.iter().enumerate().all(|(at, byte)| {
                *byte == becomes[at] || *byte == was.get(at).copied().unwrap_or(0)
            })
    }
}

impl Pending {
    /// Whether a file is in the state between the two writes of a truncation, in 4.4BSD and
    /// wherever data is written in place: the rest of the last block is zero already, the inode
    /// still has the old length.
    fn is_half_cut(&self, was: &Content, is: &Content) -> bool {
        let (Some(was), Some(is), Some(becomes)) = (was, is, &self.becomes) else { return false };
        let is_old_or_zero = |at: usize| is[at] == was[at] || is[at] == 0;
        was.starts_with(becomes)
            && is.len() == was.len()
            && is.starts_with(becomes)
            && (becomes.len()..is.len()).all(is_old_or_zero)
    }
}

fn content(path: &Path) -> Result<Content, String> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn difference(was: &Content, is: &Content) -> String {
    match (was, is) {
        (Some(was), Some(is)) => {
            let at = was.iter().zip(is).position(|(a, b)| a != b);
            let at = at.map_or("the end".into(), |at| format!("byte {at}"));
            format!(
                "{} bytes were acknowledged, {} are there, different from {at}",
                was.len(),
                is.len()
            )
        }
        (Some(was), None) => format!("{} bytes were acknowledged, the file is gone", was.len()),
        (None, Some(is)) => format!("its absence was acknowledged, it has {} bytes", is.len()),
        (None, None) => "is as it was".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(name: &str) -> Writer {
        let dir = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let mut writer = Writer::new(dir, 7, false).unwrap();
        for _ in 0..300 {
            writer.step().unwrap();
        }
        writer
    }

    #[test]
    fn what_was_acknowledged_is_demanded() {
        let mut writer = writer("acknowledged");
        writer.verify().unwrap();
        let slot = (0..SLOTS).find(|&slot| writer.files[slot].is_some()).unwrap();
        let good = fs::read(writer.path(slot)).unwrap();
        for (bad, word) in
            [(good[1..].to_vec(), "different"), ([&good[..], b"x"].concat(), "different")]
        {
            fs::write(writer.path(slot), bad).unwrap();
            assert!(writer.verify().unwrap_err().contains(word));
        }
        fs::remove_file(writer.path(slot)).unwrap();
        assert!(writer.verify().unwrap_err().contains("gone"));
        fs::write(writer.path(slot), good).unwrap();
        fs::write(writer.dir.join("odd"), "").unwrap();
        assert!(writer.verify().unwrap_err().contains("odd came from nowhere"));
        fs::remove_dir_all(&writer.dir).unwrap();
    }

    #[test]
    fn what_is_under_way_may_be_done_in_part_but_not_be_something_else() {
        let append = Pending { slot: 0, becomes: Some(b"oldnew".to_vec()), atomic: false };
        let was = Some(b"old".to_vec());
        for (is, allowed) in [
            (&b"old"[..], true),
            (b"oldn", true),
            (b"oldnew", true),
            (b"old\0\0w", true),
            (b"ol", false),
            (b"oldx", false),
            (b"oldnewer", false),
            (b"\0ldnew", false),
        ] {
            assert_eq!(append.allows(&was, &Some(is.to_vec())), allowed, "{is:?}");
        }
        assert!(!append.allows(&was, &None));
        let replace = Pending { atomic: true, ..append };
        assert!(!replace.allows(&was, &Some(b"oldn".to_vec())));
    }
    #[test]
    fn a_truncation_in_place_may_have_cut_the_data_and_not_the_length() {
        let cut = Pending { slot: 0, becomes: Some(b"ab".to_vec()), atomic: true };
        let was = Some(b"abcd".to_vec());
        for (is, half) in
            [(&b"ab\0\0"[..], true), (b"ab\0d", true), (b"abxd", false), (b"ab\0", false)]
        {
            assert_eq!(cut.is_half_cut(&was, &Some(is.to_vec())), half, "{is:?}");
            assert!(!cut.allows(&was, &Some(is.to_vec())));
        }
    }
}
