//! A volume in a bucket that is compressed and encrypted: nothing of what is written can be read in the bucket, no other key
//! opens it, what was fsynced survives kills of the daemon, and a byte that somebody changes is found.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::writer::Writer;
use super::super::{Outcome, Scenario, text};
use super::served;
use crate::clock::pause_ms;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "bucket-coded",
    about: "a compressed and encrypted volume in a bucket: keys, kills, a changed byte (by nightly bucket)",
    limit_s: (300, 900),
    run,
};

/// What is written, and must not be found in the bucket.
const LINE: &str = "the quick brown fox jumps over the lazy dog\n";
/// Bytes of it, twice as many as a pack has.
const BYTES: usize = 16 << 20;
const NAME: &str = "coded";

fn run(bench: &Bench) -> Outcome {
    let server = served::server(bench)?;
    let mut rng = Rng::new(bench.seed);
    let [key, other] = ["key", "other"].map(|name| bench.dir.join(name).display().to_string());
    let digits = (0..64).map(|_| char::from_digit(rng.below(16) as u32, 16).unwrap_or('0'));
    let digits: String = digits.collect();
    fs::write(&key, &digits).and_then(|()| fs::write(&other, "5".repeat(64))).map_err(text)?;
    let words = ["--size", "4G", "--compression", "zstd", "--key-file", &key];
    let mut volume = Volume::make_in(bench, &server.volume(NAME), server.environment(), &words)?;
    expect(volume.check(), "is encrypted: give its key", "without a key")?;
    volume.set_options(&["--key-file", &other]);
    expect(volume.mount().map(drop), "the key is not the one of this volume", "with another key")?;
    let printed = format!("cat {key}");
    volume.set_options(&["--key-command", &printed]);
    volume.mount()?;
    let plain = LINE.repeat(BYTES / LINE.len());
    let file = volume.dir().join("file");
    fs::write(&file, &plain).and_then(|()| fs::File::open(&file)?.sync_all()).map_err(text)?;
    let stored = server.stored(NAME);
    if stored > BYTES as u64 / 4 {
        return Err(format!("{BYTES} bytes of one line again and again take {stored}").into());
    }
    let mut writer = Writer::new(volume.dir().join("work"), rng.next(), false).map_err(text)?;
    for kill in 1..=bench.size(3, 20) {
        let at = |why: String| format!("kill {kill}: {why}");
        let seen = std::thread::scope(|scope| {
            let working = scope.spawn(|| writer.run());
            pause_ms(300 + rng.below(500) as u64);
            volume.kill9();
            working.join().is_ok()
        });
        if !seen {
            return Err(at("the writer panicked".into()).into());
        }
        volume.mount().map_err(at)?;
        writer.verify().map_err(at)?;
    }
    if fs::read(&file).map_err(text)? != plain.as_bytes() {
        return Err("the file is not what was written".to_string().into());
    }
    volume.umount()?;
    volume.set_variable("TWINFS_KEY_FILE", &key);
    volume.check_data()?;
    let objects = objects_below(&server.objects(NAME));
    let shown = objects.iter().find(|path| shows(path, &LINE.as_bytes()[..20]));
    if let Some(path) = shown {
        return Err(format!("{} shows what was written", path.display()).into());
    }
    let largest = objects.iter().max_by_key(|path| fs::metadata(path).map_or(0, |meta| meta.len()));
    let largest = largest.ok_or_else(|| "there is no object".to_string())?;
    changed(largest, || expect(volume.check_data(), "checksum", "with a changed byte"))?;
    volume.check_data()?;
    Ok(format!("{} objects of {stored} bytes, {} operations", objects.len(), writer.done))
}

/// That something failed, with these words.
fn expect(done: Result<(), String>, words: &str, what: &str) -> Result<(), String> {
    match done {
        Err(why) if why.contains(words) => Ok(()),
        Err(why) => Err(format!("{what}: {why}")),
        Ok(()) => Err(format!("{what}: no error")),
    }
}

/// Does something while a byte in the middle of a file is another one.
fn changed(path: &Path, during: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let file = fs::File::options().read(true).write(true).open(path).map_err(text)?;
    let middle = file.metadata().map_err(text)?.len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, middle).map_err(text)?;
    file.write_all_at(&[byte[0] ^ 1], middle).map_err(text)?;
    let done = during();
    file.write_all_at(&byte, middle).map_err(text)?;
    done
}

fn shows(path: &Path, words: &[u8]) -> bool {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.windows(words.len()).any(|window| window == words)
}

fn objects_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { objects_below(&path) } else { vec![path] }).collect()
}
