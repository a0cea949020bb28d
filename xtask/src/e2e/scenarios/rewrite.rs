//! Small files are fsynced and removed beside larger ones that are rewritten and removed, on a
//! volume so small that space is reused at once; then `kill -9`, or `umount`; and every byte is
//! checked.
//!
//! Requirements on the files after a round:
//! - After `umount`: all of them are there, whole.
//! - After `kill -9`, with the log, the journal and synchronous metadata: fsynced files are there,
//!   whole; and with the log and the journal no file has bytes that were never its own.
//!   (Synchronous metadata may lead to blocks whose data was not made durable, as in 4.4BSD.)
//! - After `kill -9`, with asynchronous metadata: files that a clean unmount left on the disk and
//!   that were not changed since are there, whole; `docs/design-ffs.md` guarantees no more.
//! - `twinfs check` finds nothing whenever the volume was unmounted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::super::bench::Bench;
use super::super::manifest::names;
use super::super::rng::Rng;
use super::super::stamped::{Stamp, foreign};
use super::super::volume::Volume;
use super::super::{Outcome, Scenario};
use super::kill9::End;
use crate::clock::pause_ms;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "rewrite",
    about: "files rewritten, removed and fsynced where space is short, every byte checked after \
            kill -9 and after umount, 6 rounds (300 in the full form)",
    limit_s: (240, 3600),
    run,
};

/// Number of clients that rewrite and remove files with indirect blocks, without fsync.
const REWRITERS: u64 = 3;
/// Number of clients that write files and fsync each.
const FSYNCERS: u64 = 4;
/// Number of files of a rewriting client.
const SLOTS: usize = 8;
/// The range of lengths of files with indirect blocks in either layout's default geometry.
const LONG: (usize, usize) = (98_000, 260_000);
/// The longest file that is fsynced.
const SHORT_MAX: usize = 70_000;
/// Bytes that a client with fsync keeps.
const KEEP_MAX: usize = 8 << 20;
/// Number of files that no client changes.
const UNTOUCHED: u64 = 40;
/// Number of wrong files that are reported.
const TOLD: usize = 5;

/// The guarantees of the volume after a `kill -9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Promise {
    /// Fsynced files are there.
    fsynced: bool,
    /// No file has bytes that were never its own.
    own_bytes: bool,
}

fn promise(mkfs: &[String]) -> Promise {
    let says = |what: &str| mkfs.iter().any(|word| word == what);
    Promise { fsynced: !says("async"), own_bytes: !says("async") && !says("sync") }
}

/// Counts of checked files and of errors.
#[derive(Default)]
struct Tally {
    kills: usize,
    umounts: usize,
    /// Checked fsynced files, after a kill and after an unmount.
    fsynced: [usize; 2],
    /// Number of these that were wrong.
    wrong: [usize; 2],
    /// Checked files that were not fsynced, and the number of these that were wrong.
    others: (usize, usize),
    told: Vec<String>,
}

impl Tally {
    fn tell(&mut self, what: String) {
        if self.told.len() < TOLD {
            self.told.push(what);
        }
    }

    fn look(&mut self, umounted: bool, fsynced: bool, path: &Path, wrong: Option<String>) {
        let is_wrong = usize::from(wrong.is_some());
        match fsynced {
            true => {
                self.fsynced[usize::from(umounted)] += 1;
                self.wrong[usize::from(umounted)] += is_wrong;
            }
            false => {
                self.others.0 += 1;
                self.others.1 += is_wrong;
            }
        }
        if let Some(wrong) = wrong {
            let ended = if umounted { "umount" } else { "kill -9" };
            self.tell(format!(
                "after {ended}, round {}: {}: {wrong}",
                self.rounds(),
                path.display()
            ));
        }
    }

    fn rounds(&self) -> usize {
        self.kills + self.umounts
    }

    fn is_good(&self) -> bool {
        self.wrong == [0, 0] && self.others.1 == 0
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { kills, umounts, fsynced, wrong, others, .. } = self;
        write!(
            f,
            "{kills} kills: {} of {} fsynced files wrong; {umounts} unmounts: {} of {} wrong; of \
             files not fsynced, {} of {}",
            wrong[0], fsynced[0], wrong[1], fsynced[1], others.1, others.0
        )
    }
}

fn run(bench: &Bench) -> Outcome {
    let promise = promise(&bench.mkfs);
    let mut rng = Rng::new(bench.seed);
    let mut volume = Volume::make(bench, "100M")?;
    volume.mount()?;
    let mut tally = Tally::default();
    let mut clients: Vec<Client> = (0..REWRITERS + FSYNCERS)
        .map(|n| Client::new(volume.dir(), n, n < REWRITERS, rng.next()))
        .collect();
    let rounds = bench.size(6, 300);
    for round in 1..=rounds {
        let told = |why: String| format!("round {round} of {rounds}, seed {}: {why}", bench.seed);
        one_round(bench, &mut volume, &mut clients, promise, &mut rng, &mut tally).map_err(told)?;
    }
    volume.umount_and_check()?;
    if tally.is_good() {
        return Ok(tally.to_string());
    }
    Err(format!("seed {}: {tally}; {}", bench.seed, tally.told.join("; ")))?
}

/// One round, on a volume that is mounted before and after it.
fn one_round(
    bench: &Bench,
    volume: &mut Volume<'_>,
    clients: &mut [Client],
    promise: Promise,
    rng: &mut Rng,
    tally: &mut Tally,
) -> Result<(), String> {
    let untouched = volume.dir().join("untouched");
    if !promise.fsynced {
        keep_some(&untouched, tally.rounds() as u64)?;
        volume.umount_and_check()?;
        volume.mount()?;
    }
    for client in &mut *clients {
        client.begin().map_err(|error| format!("{}: {error}", client.dir.display()))?;
    }
    // The first two rounds are one of each kind, so that every run has both.
    let umounts = match tally.rounds() {
        0 => false,
        1 => true,
        _ => rng.below(2) == 0,
    };
    let when_ms = 150 + rng.below(bench.size(450, 1200)) as u64;
    work(volume, clients, when_ms, umounts)?;
    match umounts {
        true => {
            tally.umounts += 1;
            volume.umount_and_check()?;
        }
        false => tally.kills += 1,
    }
    volume.mount().map_err(|why| format!("the next mount: {why}"))?;
    if !promise.fsynced {
        expect_kept(&untouched, umounts, tally);
    }
    for client in &*clients {
        if umounts {
            client.expect_all(tally);
        } else if promise.fsynced {
            client.expect_promised(promise, tally)?;
        }
    }
    for client in &mut *clients {
        // Files that a repair has moved elsewhere do not matter.
        let _ = fs::remove_dir_all(&client.dir);
    }
    Ok(())
}

/// Lets the clients work for a while, then stops them, by a kill or in an orderly way.
fn work(
    volume: &mut Volume<'_>,
    clients: &mut [Client],
    when_ms: u64,
    umounts: bool,
) -> Result<(), String> {
    let (stop, killed) = (&AtomicBool::new(false), &AtomicBool::new(false));
    let ends: Vec<io::Result<()>> = thread::scope(|scope| {
        let running: Vec<_> =
            clients.iter_mut().map(|client| scope.spawn(|| client.run(stop, killed))).collect();
        pause_ms(when_ms);
        if !umounts {
            killed.store(true, Ordering::SeqCst);
            volume.kill9();
        }
        stop.store(true, Ordering::SeqCst);
        let panicked = |_| Err(io::Error::other("it panicked"));
        running.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    match ends.into_iter().find_map(Result::err) {
        None => Ok(()),
        Some(error) => Err(format!("a client got: {error}")),
    }
}

/// Creates files that no client changes.
fn keep_some(dir: &Path, version: u64) -> Result<(), String> {
    let make = || {
        fs::create_dir_all(dir)?;
        for file in 0..UNTOUCHED {
            fs::write(dir.join(file.to_string()), kept(file, version).bytes())?;
        }
        Ok(())
    };
    make().map_err(|error: io::Error| format!("{}: {error}", dir.display()))
}

fn kept(file: u64, version: u64) -> Stamp {
    Stamp { file, version, len: 1000 + 3000 * file as usize }
}

fn expect_kept(dir: &Path, umounted: bool, tally: &mut Tally) {
    let version = tally.rounds() as u64 - 1;
    for file in 0..UNTOUCHED {
        let path = dir.join(file.to_string());
        let wrong = wrong_with(&path, kept(file, version));
        tally.look(umounted, true, &path, wrong);
    }
}

/// The error in a file that must have this content, if there is one.
fn wrong_with(path: &Path, stamp: Stamp) -> Option<String> {
    match fs::read(path) {
        Ok(is) => stamp.differs(&is),
        Err(error) => Some(error.to_string()),
    }
}

/// A client, which works in a directory of its own.
struct Client {
    dir: PathBuf,
    number: u64,
    rewrites: bool,
    rng: Rng,
    version: u64,
    /// The files that exist as far as was acknowledged: of a rewriting client by slot, otherwise by
    /// age.
    files: Vec<Stamp>,
    /// Files that were fsynced and then removed without an fsync: they exist whole, or not at all.
    removed: Vec<Stamp>,
}

impl Client {
    fn new(root: &Path, number: u64, rewrites: bool, seed: u64) -> Client {
        let dir = root.join(format!("client-{number}"));
        let (files, removed) = (Vec::new(), Vec::new());
        Client { dir, number, rewrites, rng: Rng::new(seed), version: 0, files, removed }
    }

    fn begin(&mut self) -> io::Result<()> {
        self.files.clear();
        self.removed.clear();
        fs::create_dir_all(&self.dir)
    }

    fn path(&self, file: u64) -> PathBuf {
        self.dir.join(file.to_string())
    }

    /// Works until it is told to stop, or the daemon is killed.
    fn run(&mut self, stop: &AtomicBool, killed: &AtomicBool) -> io::Result<()> {
        while !stop.load(Ordering::SeqCst) {
            let done = if self.rewrites { self.rewrite() } else { self.write_and_fsync() };
            let Err(error) = done else { continue };
            let end = End { error, killed: killed.load(Ordering::SeqCst) };
            return if end.is_death() { Ok(()) } else { Err(end.error) };
        }
        Ok(())
    }

    /// Rewrites or removes one of a few long files.
    fn rewrite(&mut self) -> io::Result<()> {
        let file = self.number * 1_000_000 + self.rng.below(SLOTS) as u64;
        let there = self.files.iter().position(|stamp| stamp.file == file);
        if let (Some(nth), 0) = (there, self.rng.below(4)) {
            self.files.remove(nth);
            return fs::remove_file(self.path(file));
        }
        self.version += 1;
        let len = LONG.0 + self.rng.below(LONG.1 - LONG.0);
        let stamp = Stamp { file, version: self.version, len };
        self.files.retain(|stamp| stamp.file != file);
        File::create(self.path(file))?.write_all(&stamp.bytes())?;
        self.files.push(stamp);
        Ok(())
    }

    /// Makes a file durable, and after every third one removes an older one.
    fn write_and_fsync(&mut self) -> io::Result<()> {
        self.version += 1;
        let file = self.number * 1_000_000 + self.version;
        let stamp = Stamp { file, version: self.version, len: 1 + self.rng.below(SHORT_MAX) };
        let mut out = File::create_new(self.path(file))?;
        out.write_all(&stamp.bytes())?;
        out.sync_all()?;
        self.files.push(stamp);
        let kept: usize = self.files.iter().map(|stamp| stamp.len).sum();
        if kept > KEEP_MAX || self.rng.below(3) == 0 {
            let old = self.files.swap_remove(self.rng.below(self.files.len()));
            self.removed.push(old);
            fs::remove_file(self.path(old.file))?;
        }
        Ok(())
    }

    /// After an unmount all files are there unchanged.
    fn expect_all(&self, tally: &mut Tally) {
        for stamp in &self.files {
            let path = self.path(stamp.file);
            let wrong = wrong_with(&path, *stamp);
            tally.look(true, !self.rewrites, &path, wrong);
        }
        let there = names(&self.dir).map_or(0, |names| names.len());
        if there != self.files.len() {
            let wrong = format!("{there} names, {} were left", self.files.len());
            tally.look(true, false, &self.dir, Some(wrong));
        }
    }

    /// After a kill fsynced files are there, and no file has bytes of another one.
    fn expect_promised(&self, promise: Promise, tally: &mut Tally) -> Result<(), String> {
        let fsynced = if self.rewrites { &[] } else { &self.files[..] };
        for stamp in fsynced {
            let path = self.path(stamp.file);
            let wrong = wrong_with(&path, *stamp);
            tally.look(false, true, &path, wrong);
        }
        for name in names(&self.dir)? {
            let name = String::from_utf8_lossy(&name).into_owned();
            let file: u64 = name.parse().map_err(|_| format!("{name} came from nowhere"))?;
            if fsynced.iter().any(|stamp| stamp.file == file) {
                continue;
            }
            let path = self.path(file);
            let removed = self.removed.iter().find(|stamp| stamp.file == file);
            let wrong = match removed {
                Some(stamp) => wrong_with(&path, *stamp),
                None if !promise.own_bytes => continue,
                None => match fs::read(&path) {
                    Ok(is) => foreign(file, &is),
                    Err(error) => Some(error.to_string()),
                },
            };
            tally.look(false, false, &path, wrong);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str, rewrites: bool) -> Client {
        let root = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let mut client = Client::new(&root, 1, rewrites, 7);
        client.begin().unwrap();
        for _ in 0..40 {
            if rewrites { client.rewrite() } else { client.write_and_fsync() }.unwrap();
        }
        client
    }

    fn looked(look: impl Fn(&mut Tally)) -> Tally {
        let mut tally = Tally::default();
        look(&mut tally);
        tally
    }

    #[test]
    fn a_block_of_pointers_in_a_file_is_found_however_the_round_ended() {
        for rewrites in [false, true] {
            let client = client("pointers", rewrites);
            let all = Promise { fsynced: true, own_bytes: true };
            let after = || {
                let killed = looked(|tally| client.expect_promised(all, tally).unwrap());
                (killed.is_good(), looked(|tally| client.expect_all(tally)).is_good())
            };
            assert_eq!(after(), (true, true));
            let long = client.files.iter().find(|stamp| stamp.len > 9000).unwrap();
            let mut bytes = long.bytes();
            for (nth, word) in bytes[4096..8192].chunks_mut(8).enumerate() {
                word.copy_from_slice(&(8 * nth as u64 + 800).to_le_bytes());
            }
            fs::write(client.path(long.file), bytes).unwrap();
            assert_eq!(after(), (false, false));
            fs::remove_dir_all(client.dir.parent().unwrap()).unwrap();
        }
    }

    #[test]
    fn what_is_promised_follows_from_the_ordering() {
        let of = |words: &str| {
            let words: Vec<String> = words.split_whitespace().map(String::from).collect();
            let Promise { fsynced, own_bytes } = promise(&words);
            (fsynced, own_bytes)
        };
        assert_eq!(of(""), (true, true));
        assert_eq!(of("--layout ffs --ordering journal"), (true, true));
        assert_eq!(of("--layout ffs --ordering sync"), (true, false));
        assert_eq!(of("--layout ffs --ordering async"), (false, false));
    }
}
