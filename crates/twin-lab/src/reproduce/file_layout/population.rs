//! The file systems of the study: a part of the 48 of tables 1 to 4 of TR-35-94, an eighth as large,
//! with cylinder groups of the tables' size, aged over ten months.

use std::collections::BTreeSet;

use twin_age::load::{HOMES, Habits, LOGS, Load, MAIL, NEWS, SOFTWARE};
use twin_age::map::{FileKind, FileMap, NameOf};
use twin_age::{Layout, Recreate, Score, VolumeMap};
use twin_fs::{Identity, ROOT_INO};
use twin_rt::{SECS, Time};

use super::super::heuristic::in_parallel;
use crate::Config;
use crate::age::{AgeSettings, Aged, ageing_settings, make_old, new_volume};
use crate::bench::{self, simulated};
use crate::machine::disk_of;

/// Ten months.
const DAYS: u64 = 300;
/// The machine and the file system of the study.
const MACHINE: &str = "sunos-ffs";
/// The sizes of the test files in bytes (section 5.1), and bytes of all files of one size: an eighth of
/// the paper's, as the volumes.
pub(super) const SIZES: [u64; 3] = [8 << 10, 64 << 10, 1 << 20];
const TOTAL: u64 = 4 << 20;
/// Files in a directory of the benchmark.
const PER_DIR: u64 = 100;

/// A file system of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileSystem {
    pub(super) name: &'static str,
    /// Cylinder groups, an eighth of the table's.
    groups: u64,
    /// Blocks of a group.
    group_blocks: u64,
    /// Bytes of a block.
    block: u64,
    habits: Habits,
    /// How full it gets, of what users may fill.
    full: f64,
    /// Whether the benchmark is run on it: the paper chose nine active ones.
    pub(super) timed: bool,
}

const fn row(
    name: &'static str,
    (groups, group_blocks): (u64, u64),
    habits: Habits,
    full: f64,
) -> FileSystem {
    FileSystem { name, groups, group_blocks, block: 8192, habits, full, timed: true }
}

/// The population. How full each was is in the paper for `white` alone (36%); the others get what file
/// servers usually have.
pub(super) const POPULATION: &[FileSystem] = &[
    row("cnews", (6, 1539), NEWS, 0.85),
    FileSystem { block: 4096, ..row("newsspool", (17, 1729), NEWS, 0.80) },
    row("staff", (4, 1539), HOMES, 0.75),
    row("usr4", (10, 1520), HOMES, 0.80),
    row("usr6", (10, 1520), Habits { turnover: 0.025, ..HOMES }, 0.85),
    row("usr12", (10, 1520), Habits { turnover: 0.008, ..HOMES }, 0.80),
    row("glan5", (11, 2596), SOFTWARE, 0.80),
    row("glan6", (4, 2596), HOMES, 0.75),
    row("white", (5, 1520), HOMES, 0.36),
    FileSystem { timed: false, ..row("endor-mail", (2, 1360), MAIL, 0.6) },
    FileSystem { timed: false, ..row("software", (10, 1520), SOFTWARE, 0.85) },
    FileSystem { timed: false, ..row("adm", (2, 1360), LOGS, 0.6) },
];
/// The news file system on the day on which it ran out of room: the level is above what it can hold.
const FULL_NEWS: FileSystem = FileSystem { full: 1.1, ..POPULATION[0] };

/// The speeds of a test, aged over new, and the score of its files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub(super) size: u64,
    pub(super) relative_read: f64,
    pub(super) relative_write: f64,
    /// The layout score of the test's files; `None` for files of one block.
    pub(super) score: Option<f64>,
}

/// A file system after ten months.
#[derive(Clone, Debug)]
pub(super) struct Old {
    pub(super) name: &'static str,
    pub(super) layout: Layout,
    pub(super) tests: Vec<Test>,
    /// Whole blocks that are free, and free bytes in fragments, as shares of its space.
    pub(super) free_blocks: f64,
    pub(super) free_fragments: f64,
}

/// The study: all file systems of the population, and the news file system that ran full; what
/// failed is `None`.
#[derive(Clone, Debug, Default)]
pub(in crate::reproduce) struct Study {
    pub(super) all: Vec<Option<Old>>,
    pub(super) full_news: Option<Old>,
}

impl FileSystem {
    fn config(&self) -> Option<Config> {
        let group = self.group_blocks * self.block;
        // A block before the first group.
        let size = (self.groups * group + 65536) / 65536 * 65536;
        let frag = self.block / 8;
        let block = self.block;
        let text = format!("{MACHINE}:size={size},group={group},block={block},frag={frag}");
        Config::parse(&text).ok()
    }

    /// Ages it, and measures.
    fn run(&self) -> Result<Old, String> {
        let config = self.config().ok_or("no such configuration")?;
        let how = settings(&config)?;
        let new = new_volume(&how).map_err(|e| e.to_string())?;
        let load = Load::new(self.habits, new.geometry, new.capacity, self.full, DAYS);
        let how = AgeSettings { span_ns: load.span_ns(), ..how };
        let aged = make_old(&how, Box::new(load)).map_err(|e| e.to_string())?;
        let mut tests = Vec::new();
        if self.timed && self.full < 1.0 {
            for size in SIZES {
                tests.push(test(&config, &how, &aged, size)?);
            }
        }
        let free = aged.layout.free.clone().unwrap_or_default();
        let all: u64 = aged.map.areas.iter().map(|area| area.end - area.start).sum();
        let share = |bytes: u64| bytes as f64 / all.max(1) as f64;
        Ok(Old {
            name: self.name,
            tests,
            free_blocks: share(free.bytes - free.fragment_bytes),
            free_fragments: share(free.fragment_bytes),
            layout: aged.layout,
        })
    }
}

fn settings(config: &Config) -> Result<AgeSettings, String> {
    let (size, sector) = disk_of(config).map_err(|e| e.to_string())?;
    Ok(AgeSettings {
        layout: config.layout,
        of_layout: config.of_layout.clone(),
        size,
        sector,
        settings: ageing_settings(16 << 20),
        identity: Identity { uuid: [7; 16], root: (0, 0, 0o755) },
        seed: 1,
        end: Time(786_240_000 * SECS),
        span_ns: 0,
        steps: None,
        start: None,
    })
}

/// The benchmark with files of one size, on the aged volume and on a new one.
fn test(config: &Config, how: &AgeSettings, aged: &Aged, size: u64) -> Result<Test, String> {
    let text = format!("sizes:size={size},total={TOTAL},unit=1M,synced=no");
    let benches = bench::parse(&text).map_err(|e| e.to_string())?;
    let bench = benches.first().ok_or("no benchmark")?;
    let rates = |config: &Config| -> Result<(f64, f64), String> {
        let phases = simulated::run(config, bench.as_ref()).map_err(|e| e.to_string())?;
        let rate = |name| phases.iter().find(|p| p.phase == name).map_or(f64::NAN, |p| p.rate());
        Ok((rate("read"), rate("create")))
    };
    let old = Config { start: Some(aged.platter.clone()), ..config.clone() };
    let (read, write) = rates(&old)?;
    let (new_read, new_write) = rates(config)?;
    Ok(Test {
        size,
        relative_read: read / new_read,
        relative_write: write / new_write,
        score: score_of_test(how, aged, size)?,
    })
}

/// The score of the benchmark's files: they are created once more, on a disk that takes no time.
fn score_of_test(how: &AgeSettings, aged: &Aged, size: u64) -> Result<Option<f64>, String> {
    let files = TOTAL / size;
    let top = aged.map.files.iter().map(|file| file.ino).max().unwrap_or(0) + 1;
    let mut map = VolumeMap { block_size: aged.map.block_size, ..VolumeMap::default() };
    let mut add = |ino: u64, dir: u64, kind, name: String, size| {
        map.files.push(FileMap { ino, kind, size, mtime_s: 1, runs: Vec::new() });
        map.names.push(NameOf { dir, ino, name: name.into_bytes() });
    };
    for dir in 0..files.div_ceil(PER_DIR) {
        add(top + dir, ROOT_INO, FileKind::Directory, format!("test{dir}"), 0);
    }
    let first = top + files.div_ceil(PER_DIR);
    for file in 0..files {
        add(first + file, top + file / PER_DIR, FileKind::File, format!("f{file}"), size);
    }
    let how = AgeSettings { span_ns: 0, start: Some(aged.platter.clone()), ..how.clone() };
    let with = make_old(&how, Box::new(Recreate::new(&map))).map_err(|e| e.to_string())?;
    let is_test = |name: &&NameOf| name.dir == ROOT_INO && name.name.starts_with(b"test");
    let dirs: Vec<u64> = with.map.names.iter().filter(is_test).map(|name| name.ino).collect();
    let ours = with.map.names.iter().filter(|name| dirs.contains(&name.dir)).map(|name| name.ino);
    let ours: BTreeSet<u64> = ours.collect();
    let scores = with.map.regular().filter(|file| ours.contains(&file.ino));
    let sum = scores.map(|file| Score::of(file, with.map.block_size));
    Ok(sum.fold(Score::default(), Score::and).value())
}

impl Study {
    /// Ages and measures everything, two file systems at a time.
    pub(in crate::reproduce) fn run() -> Study {
        let jobs: Vec<FileSystem> = POPULATION.iter().copied().chain([FULL_NEWS]).collect();
        let mut all = in_parallel(&jobs, |system| system.run().ok());
        let full_news = all.pop().flatten();
        Study { all, full_news }
    }
}
