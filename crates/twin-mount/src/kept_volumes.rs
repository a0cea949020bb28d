//! Old volumes that outlive a command: files in the user's cache directory.
//!
//! Contract: what is found is, bit by bit, what making it anew would give. An entry belongs to one
//! key: the settings of volume and ageing, and the program that made it, known by its executable
//! file, since the version alone is the same for many programs while one is developed. The name of
//! an entry is a hash of its key, and it has the key itself and a checksum (128 bits of SipHash)
//! over everything. Only blocks with bytes are stored, compressed. An entry appears as a whole, or
//! not at all. Those that were used least recently go when all take more than `MOST_BYTES`.
//! Nothing here makes a command fail: a damaged entry is told of and made anew, and if the
//! directory cannot be written, nothing is kept.

use std::cell::RefCell;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::{Timespec, Timestamps, UTIME_NOW};
use siphasher::sip128::{Hasher128, SipHasher13};
use twin_ageing::old_volumes::{KeptVolumes, OldVolume};
use twin_disk::{Block, Buf};
use twin_sim::Platter;

/// The most bytes that all entries take on the host.
const MOST_BYTES: u64 = 2 << 30;
/// The beginning of an entry.
const MAGIC: &[u8; 16] = b"twinfs old vol 1";
/// How the names of entries end, and those of files that are being written.
const ENTRY: &str = "oldvol";
const UNFINISHED: &str = "unfinished";
/// A file that was not finished for so long belongs to a command that is gone.
const GONE: Duration = Duration::from_secs(3600);
/// What is taken from the volume at a time.
const CHUNK: u64 = 1 << 20;
/// The longest key.
const LONGEST_KEY: u64 = 1 << 16;
/// Fast rather than small: blocks of metadata are mostly zeros.
const LEVEL: i32 = 1;

/// What a command says of its volumes, one line each.
pub type Notes = Rc<RefCell<Vec<String>>>;

/// The entries. See the module.
#[derive(Debug)]
pub struct Kept {
    dir: PathBuf,
    /// The program.
    build: String,
    most_bytes: u64,
    notes: Notes,
}

impl Kept {
    /// Those in the user's cache directory; `None` if there is none.
    pub fn of_user(notes: Notes) -> Option<Kept> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let home = || absolute("HOME").map(|home| home.join(".cache"));
        let dir = absolute("XDG_CACHE_HOME").or_else(home)?.join("twinfs").join("volumes");
        let build = build().ok()?;
        Some(Kept { dir, build, most_bytes: MOST_BYTES, notes })
    }

    fn key(&self, key: &str) -> String {
        format!("{}; {key}", self.build)
    }

    fn place(&self, key: &str) -> PathBuf {
        let mut hasher = SipHasher13::new();
        hasher.write(key.as_bytes());
        self.dir.join(format!("{:032x}.{ENTRY}", hasher.finish128().as_u128()))
    }

    fn note(&self, note: String) {
        self.notes.borrow_mut().push(note);
    }

    /// Removes what was used least recently, but not the newest entry, until the rest is small enough.
    fn bound(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            let Ok(metadata) = path.metadata() else { continue };
            let used = metadata.modified()?;
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(ENTRY) => entries.push((used, metadata.len(), path)),
                Some(UNFINISHED) if used.elapsed().is_ok_and(|age| age > GONE) => {
                    fs::remove_file(&path)?;
                }
                _ => {}
            }
        }
        entries.sort();
        let mut all: u64 = entries.iter().map(|(_, len, _)| len).sum();
        entries.pop();
        for (_, len, path) in entries {
            if all <= self.most_bytes {
                break;
            }
            fs::remove_file(path)?;
            all -= len;
        }
        Ok(())
    }

    fn write(&self, place: &Path, key: &str, volume: &OldVolume) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        let unfinished = place.with_extension(format!("{}.{UNFINISHED}", std::process::id()));
        let written = write_entry(&unfinished, key, volume)
            .and_then(|()| fs::rename(&unfinished, place))
            .and_then(|()| self.bound());
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }
}

impl KeptVolumes for Kept {
    fn find(&mut self, key: &str) -> Option<OldVolume> {
        let key = self.key(key);
        let place = self.place(&key);
        let file = File::open(&place).ok()?;
        match read_entry(&file, &key) {
            Ok(volume) => {
                // When it was used last. Where that cannot be stored the entry is older than it is.
                let _ = used_at(&file, NOW);
                self.note(format!(
                    "the old volume is that of an earlier run ({})",
                    place.display()
                ));
                Some(volume)
            }
            Err(why) => {
                self.note(format!("{} is made anew: {why}", place.display()));
                None
            }
        }
    }

    fn keep(&mut self, key: &str, volume: &OldVolume) {
        let key = self.key(key);
        let place = self.place(&key);
        if let Err(why) = self.write(&place, &key, volume) {
            self.note(format!("the old volume is not kept in {}: {why}", self.dir.display()));
        }
    }
}

/// The program: its version, and a hash of its file.
fn build() -> io::Result<String> {
    let mut file = File::open("/proc/self/exe")?;
    let mut hasher = SipHasher13::new();
    let mut buffer = vec![0; CHUNK as usize];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            len => hasher.write(&buffer[..len]),
        }
    }
    let hash = hasher.finish128().as_u128();
    Ok(format!("twinfs {} {hash:032x}", env!("CARGO_PKG_VERSION")))
}

/// A stream whose bytes are hashed.
struct Hashed<S> {
    stream: S,
    hasher: SipHasher13,
}

impl<S> Hashed<S> {
    fn new(stream: S) -> Hashed<S> {
        Hashed { stream, hasher: SipHasher13::new() }
    }

    fn sum(&self) -> u128 {
        self.hasher.finish128().as_u128()
    }
}

impl<S: Write> Hashed<S> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.write(bytes);
        self.stream.write_all(bytes)
    }

    fn put_number(&mut self, number: u64) -> io::Result<()> {
        self.put(&number.to_le_bytes())
    }
}

impl<S: Read> Hashed<S> {
    fn take(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.stream.read_exact(bytes)?;
        self.hasher.write(bytes);
        Ok(())
    }

    fn take_number(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.take(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// An entry: the magic; compressed, the key with its length, the score (not a number if there is
/// none), the size of the device, runs of bytes with place and length, an empty run at the end, and
/// the checksum.
fn write_entry(path: &Path, key: &str, volume: &OldVolume) -> io::Result<()> {
    // It may have been made from a user's files.
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let mut file = BufWriter::new(file);
    file.write_all(MAGIC)?;
    let mut out = Hashed::new(zstd::stream::Encoder::new(file, LEVEL)?);
    out.put_number(key.len() as u64)?;
    out.put(key.as_bytes())?;
    out.put_number(volume.score.unwrap_or(f64::NAN).to_bits())?;
    let platter = &volume.platter;
    out.put_number(platter.size())?;
    let mut at = 0;
    while at < platter.size() {
        let len = CHUNK.min(platter.size() - at);
        for block in platter.read(at, len) {
            match &block {
                Block::Bytes(bytes) => {
                    out.put_number(at)?;
                    out.put_number(bytes.len() as u64)?;
                    out.put(bytes)?;
                }
                Block::Zero(_) => {}
                Block::Stamp(_) => return Err(io::Error::other("it has data of users")),
            }
            at += block.len() as u64;
        }
    }
    out.put_number(platter.size())?;
    out.put_number(0)?;
    let sum = out.sum();
    out.put(&sum.to_le_bytes())?;
    let file = out.stream.finish()?.into_inner()?;
    file.sync_all()
}

fn read_entry(file: &File, key: &str) -> io::Result<OldVolume> {
    let mut file = BufReader::new(file);
    let mut magic = [0; MAGIC.len()];
    file.read_exact(&mut magic)?;
    let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    if magic != *MAGIC {
        return wrong("it is no old volume");
    }
    let mut input = Hashed::new(zstd::stream::Decoder::with_buffer(file)?);
    let len = input.take_number()?;
    if len > LONGEST_KEY {
        return wrong("it is damaged");
    }
    let mut known = vec![0; len as usize];
    input.take(&mut known)?;
    if known != key.as_bytes() {
        return wrong("it is another volume");
    }
    let score = Some(f64::from_bits(input.take_number()?)).filter(|score| !score.is_nan());
    let mut platter = Platter::new(input.take_number()?);
    loop {
        let (at, len) = (input.take_number()?, input.take_number()?);
        if len > CHUNK || at.checked_add(len).is_none_or(|end| end > platter.size()) {
            return wrong("it is damaged");
        }
        if len == 0 {
            break;
        }
        let mut bytes = Buf::zeroed(len as usize);
        input.take(&mut bytes)?;
        platter.write(at, &[Block::Bytes(bytes.freeze())]);
    }
    let sum = input.sum();
    let mut stored = [0; 16];
    input.take(&mut stored)?;
    match stored == sum.to_le_bytes() {
        true => Ok(OldVolume { platter, score }),
        false => wrong("its checksum is another one"),
    }
}

/// The time of the host's clock, for the kernel to put in.
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };

/// Notes when an entry was used.
fn used_at(entry: &File, at: Timespec) -> io::Result<()> {
    let times = Timestamps { last_access: at, last_modification: at };
    Ok(rustix::fs::futimens(entry, &times)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use twin_ageing::old_volumes::{AgedSpec, Beginning, OldVolumes};
    use twin_lab::Config;

    use super::*;

    /// A directory that goes with the test.
    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let name = format!("twinfs-kept-{name}-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&dir);
            fs::create_dir_all(&dir).unwrap();
            Dir(dir)
        }

        fn kept(&self, build: &str) -> Kept {
            let notes = Notes::default();
            Kept { dir: self.0.clone(), build: build.into(), most_bytes: MOST_BYTES, notes }
        }

        fn entries(&self) -> Vec<PathBuf> {
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect()
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn config(text: &str) -> Config {
        Config::parse(text).unwrap()
    }

    /// The digest of a volume of 64 MB with files up to this share, its score, and the requests that
    /// were made for it.
    fn made(kept: Kept, full: &str) -> (u64, Option<f64>, u64) {
        let mut old = OldVolumes::kept_in(Box::new(kept));
        let beginning = Beginning::Aged(AgedSpec::filled(full).unwrap());
        let (config, score) = old.start(&config("ffs:size=64M"), &beginning).unwrap();
        (config.start.unwrap().digest(), score, old.requests())
    }

    #[test]
    fn a_second_run_has_the_same_volume_bit_by_bit_without_making_it() {
        let dir = Dir::new("same");
        let (digest, score, requests) = made(dir.kept("a"), "40%");
        assert!(requests > 0);
        assert_eq!(made(dir.kept("a"), "40%"), (digest, score, 0));
        assert_eq!(dir.entries().len(), 1);
    }

    #[test]
    fn other_settings_and_other_programs_have_other_entries() {
        let dir = Dir::new("others");
        let (first, ..) = made(dir.kept("a"), "40%");
        let (second, _, requests) = made(dir.kept("a"), "20%");
        assert!(requests > 0 && first != second);
        let (third, _, requests) = made(dir.kept("b"), "40%");
        assert!(requests > 0 && first == third);
        assert_eq!(dir.entries().len(), 3);
    }

    #[test]
    fn a_damaged_entry_is_told_of_and_made_anew() {
        let dir = Dir::new("damaged");
        let expected = made(dir.kept("a"), "40%");
        let path = dir.entries().remove(0);
        let good = fs::read(&path).unwrap();
        let cut = good[..good.len() / 2].to_vec();
        let mut changed = good.clone();
        changed[good.len() / 2] ^= 0x10;
        for damaged in [cut, changed, Vec::new()] {
            fs::write(&path, damaged).unwrap();
            let kept = dir.kept("a");
            let notes = Rc::clone(&kept.notes);
            assert_eq!(made(kept, "40%"), expected);
            assert!(notes.borrow()[0].contains("is made anew"), "{notes:?}");
            assert_eq!(fs::read(&path).unwrap(), good, "the entry is whole again");
        }
    }

    #[test]
    fn every_byte_of_an_entry_is_under_its_checksum() {
        let dir = Dir::new("bytes");
        let mut platter = Platter::new(1 << 20);
        platter.write(4096, &[Block::Bytes(Buf::copy_of(&[7; 512]).freeze())]);
        let (volume, path) = (OldVolume { platter, score: None }, dir.0.join("entry"));
        write_entry(&path, "key", &volume).unwrap();
        let good = fs::read(&path).unwrap();
        let found = read_entry(&File::open(&path).unwrap(), "key").unwrap();
        assert_eq!(found.platter.digest(), volume.platter.digest());
        for at in 0..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 0x40;
            fs::write(&path, &changed).unwrap();
            // A bit that the decoder ignores changes nothing.
            if let Ok(found) = read_entry(&File::open(&path).unwrap(), "key") {
                assert_eq!(found.platter.digest(), volume.platter.digest(), "byte {at}");
                assert_eq!(found.score, None, "byte {at}");
            }
        }
    }

    #[test]
    fn a_directory_that_cannot_be_written_keeps_nothing_and_fails_nothing() {
        let dir = Dir::new("unwritable");
        // A file in place of the directory: it refuses root too.
        let file = dir.0.join("file");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
        let kept = Kept { dir: file, ..dir.kept("a") };
        let notes = Rc::clone(&kept.notes);
        let (_, _, requests) = made(kept, "40%");
        assert!(requests > 0);
        assert!(notes.borrow()[0].contains("is not kept"), "{notes:?}");
    }

    #[test]
    fn the_entry_that_was_used_least_recently_goes_first() {
        let dir = Dir::new("bounded");
        let volume = |byte: u8| {
            let mut platter = Platter::new(1 << 20);
            platter.write(0, &[Block::Bytes(Buf::copy_of(&[byte; 512]).freeze())]);
            OldVolume { platter, score: Some(0.5) }
        };
        let mut kept = dir.kept("a");
        for (nth, key) in ["one", "two", "three"].into_iter().enumerate() {
            kept.keep(key, &volume(nth as u8 + 1));
            let file = File::open(kept.place(&kept.key(key))).unwrap();
            used_at(&file, Timespec { tv_sec: nth as i64, tv_nsec: 0 }).unwrap();
        }
        assert!(kept.find("one").is_some(), "and is the youngest now");
        let len = kept.place(&kept.key("one")).metadata().unwrap().len();
        kept.most_bytes = 3 * len + len / 2;
        kept.keep("four", &volume(9));
        let there = ["one", "two", "three", "four"].map(|key| kept.find(key).is_some());
        assert_eq!(there, [true, false, true, true]);
    }
}
