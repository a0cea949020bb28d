//! The benchmark of section 5.1 of TR-35-94: files of one size are created, each with one write, in
//! directories of at most 25, and read in the same order, each with one read.

use std::collections::BTreeSet;

use twin_age::map::{FileKind, FileMap, NameOf};
use twin_age::{Recreate, Score, VolumeMap};
use twin_fs::ROOT_INO;

use twin_ageing::{AgeSettings, make_old};
use twin_bench::{Act, Benchmark, Content, OpenMode, Script};

use super::population::SCALE;

/// The sizes of the files in bytes.
pub(super) const SIZES: [u64; 3] = [8 << 10, 64 << 10, 1 << 20];
/// Bytes of all files of one size: the paper's 32 MB, as much smaller as the volumes.
const TOTAL: u64 = (32 << 20) / SCALE;
/// Files in a directory.
const PER_DIR: u64 = 25;
const MIB: f64 = (1 << 20) as f64;

/// The benchmark with files of a size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequential {
    pub(super) size: u64,
}

impl Sequential {
    fn phase(self, name: &'static str, each: fn(Sequential, u64) -> Vec<Act>) -> Script {
        let amount = TOTAL as f64 / MIB;
        let body = (0..TOTAL / self.size).flat_map(move |file| each(self, file));
        let end = [Act::SyncAll, Act::End { amount, unit: "MiB/s" }];
        Box::new([Act::Begin(name)].into_iter().chain(body).chain(end))
    }

    fn write(self, file: u64) -> Vec<Act> {
        let content = Content { file, generation: 0 };
        let new_dir = file.is_multiple_of(PER_DIR).then(|| Act::MakeDir(dir(file)));
        let acts = [
            Act::Open { slot: 0, path: path(file), how: OpenMode::Create },
            Act::Write { slot: 0, off: 0, len: self.size, content },
            Act::Close { slot: 0 },
        ];
        new_dir.into_iter().chain(acts).collect()
    }

    fn read(self, file: u64) -> Vec<Act> {
        let content = Content { file, generation: 0 };
        vec![
            Act::Open { slot: 0, path: path(file), how: OpenMode::Read },
            Act::Read { slot: 0, off: 0, len: self.size, content },
            Act::Close { slot: 0 },
        ]
    }

    /// The score of its files, created on a volume on a disk that takes no time; `None` for files of
    /// one block.
    pub(super) fn score(self, how: &AgeSettings) -> Result<Option<f64>, String> {
        let mut map = VolumeMap::default();
        let mut add = |ino: u64, dir: u64, kind, name: String, size| {
            map.files.push(FileMap { ino, kind, size, mtime_s: 1, runs: Vec::new() });
            map.names.push(NameOf { dir, ino, name: name.into_bytes() });
        };
        let files = TOTAL / self.size;
        let top = ROOT_INO + 1;
        let dirs = files.div_ceil(PER_DIR);
        for nth in 0..dirs {
            add(top + nth, ROOT_INO, FileKind::Directory, dir(nth * PER_DIR), 0);
        }
        for file in 0..files {
            let name = format!("f{:02}", file % PER_DIR);
            add(top + dirs + file, top + file / PER_DIR, FileKind::File, name, self.size);
        }
        let with = make_old(how, Box::new(Recreate::new(&map))).map_err(|e| e.to_string())?;
        let names: BTreeSet<u64> = with.map.names.iter().map(|name| name.ino).collect();
        let ours = with.map.regular().filter(|file| names.contains(&file.ino));
        let scores = ours.map(|file| Score::of(file, with.map.block_size));
        Ok(scores.fold(Score::default(), Score::and).value())
    }
}

fn dir(file: u64) -> String {
    format!("d{:04}", file / PER_DIR)
}

fn path(file: u64) -> String {
    format!("{}/f{:02}", dir(file), file % PER_DIR)
}

impl Benchmark for Sequential {
    fn label(&self) -> String {
        format!("files of {} bytes, {PER_DIR} in a directory", self.size)
    }

    fn users(&self) -> Vec<Script> {
        let create = self.phase("create", Sequential::write);
        let read = self.phase("read", Sequential::read);
        vec![Box::new(create.chain([Act::Cold]).chain(read))]
    }

    fn bytes(&self) -> u64 {
        TOTAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_at_most_25_files_and_each_file_one_write_and_one_read() {
        for size in SIZES {
            let acts: Vec<Act> = Sequential { size }.users().remove(0).collect();
            let count = |is: fn(&Act) -> bool| acts.iter().filter(|act| is(act)).count() as u64;
            let files = TOTAL / size;
            assert_eq!(count(|act| matches!(act, Act::Write { .. })), files);
            assert_eq!(count(|act| matches!(act, Act::Read { .. })), files);
            assert_eq!(count(|act| matches!(act, Act::MakeDir(_))), files.div_ceil(25));
        }
    }
}
