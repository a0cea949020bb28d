//! Volumes that are copies of a snapshot: all files where they were, or the free space alone.
//!
//! Contract: the files are made on the code that is mounted, at the times of their last change, and
//! the layout gets hints where their blocks go ([`PlacementHints`]); user data is zeros. A copy whose files do not
//! lie where the snapshot has them is an error. Links, attributes and further names of files are
//! left out. What directories need beyond their places is the layout's choice.
//! Source: Smith and Seltzer, TR-35-94, section 5.4, which gives both methods and used the second.

use std::ops::Range;

use twin_age::map::{FileKind, FileMap, NameOf, Run};
use twin_age::{Recreate, Step, VolumeMap};
use twin_fs::{
    Cred, Data, FsError, HintedRun, Ino, Op, PlacementHints, ROOT_INO, Reply, Request, SetAttr,
    Volume,
};
use twin_rt::{ClockOnly, FixedMap, Rt, Time};

use crate::age::{AgeSettings, Aged, closed, map_of_platter, mkfs_platter, new_volume, opened};
use twin_lab::{SimulateError, model_error};

/// What of a snapshot a copy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// All files, where they were.
    Files,
    /// The free space: what was used is taken by files that fill it.
    Free,
}

/// The most bytes of a write.
const PIECE: u64 = 1 << 20;
/// Fillers of a directory.
const PER_DIRECTORY: u64 = 1000;
/// The number of the first directory of fillers, and that of the first filler.
const DIRECTORIES: u64 = 1 << 20;
const FILLERS: u64 = 1 << 32;

/// Makes a volume that is a copy of the snapshot.
///
/// # Errors
/// If the layout lets nobody choose places, the snapshot is of a volume that is made in another way,
/// or its files do not fit.
pub fn make_copy(
    how: &AgeSettings,
    snapshot: &VolumeMap,
    places: Places,
) -> Result<Aged, SimulateError> {
    takes_places(how)?;
    let new = map_of_platter(how.layout, &mkfs_platter(how)?)?;
    let map = match places {
        Places::Files => {
            fits(snapshot, &new)?;
            snapshot.clone()
        }
        Places::Free => {
            let unit = new_volume(how)?.geometry.frag_size;
            fillers(snapshot, &new, unit.into()).map_err(model_error)?
        }
    };
    let recreate = Recreate::new(&map);
    let start = Time(how.end.0.saturating_sub(recreate.span_ns()));
    let rt = Rt::new(ClockOnly { start }, how.seed);
    let (steps, root) = recreate.into_steps();
    let steps: Vec<Step> = steps.collect();
    let work = async {
        let opened = opened(&rt, how).await?;
        let mut making = Making::new(&opened.volume, &map, root);
        for step in &steps {
            rt.sleep_until(start + step.at_ns).await;
            making.make(step).await?;
        }
        hints(&opened.volume)?.end();
        let requests = making.requests;
        closed(&rt, how, opened, (requests, 0)).await
    };
    let result = rt.block_on(work);
    rt.crash();
    let aged = result.map_err(SimulateError::Stalled)??;
    let aged = aged.mapped(how)?;
    match elsewhere(&map, &aged.map) {
        0 => Ok(aged),
        files => Err(model_error(format!(
            "{files} files of the snapshot cannot lie where they were on this volume; if its fragments are \
             other ones, ask for those of the original, as frag=4K"
        ))),
    }
}

/// The placement hints of a volume.
fn hints(volume: &Volume) -> Result<&dyn PlacementHints, FsError> {
    let refused = FsError::NotSupported("places that are chosen by others");
    volume.layout().views().hints.ok_or(refused)
}

/// Whether the layout lets places be chosen.
fn takes_places(how: &AgeSettings) -> Result<(), SimulateError> {
    let rt = Rt::new(ClockOnly::default(), how.seed);
    let taken = rt.block_on(async {
        let opened = opened(&rt, how).await?;
        Ok(opened.volume.layout().views().hints.map(|hints| hints.end()))
    });
    rt.crash();
    let taken: Result<_, SimulateError> = taken.map_err(SimulateError::Stalled)?;
    taken?.ok_or_else(|| {
        let layout = how.layout.name();
        model_error(format!(
            "{layout} chooses the places of blocks itself as it writes, so that places cannot be copied to \
             it: ffs takes them"
        ))
    })
}

/// Whether files can lie on a new volume where the snapshot has them.
fn fits(snapshot: &VolumeMap, new: &VolumeMap) -> Result<(), SimulateError> {
    if snapshot.system != new.system {
        return Err(model_error(format!(
            "the snapshot is of {}, whose places are none of {}: only its free space can be copied",
            snapshot.system, new.system
        )));
    }
    let same = (snapshot.size, snapshot.block_size, &snapshot.areas)
        == (new.size, new.block_size, &new.areas);
    match same {
        true => Ok(()),
        false => Err(model_error(
            "the snapshot's volume was made in another way, so that its places are other ones: ask for \
             its size and its settings",
        )),
    }
}

/// A file by its size and its runs: first block, place, bytes.
type Lying = (u64, Vec<(i64, u64, u64)>);

/// The number of regular files that lie elsewhere than in the snapshot.
fn elsewhere(snapshot: &VolumeMap, copy: &VolumeMap) -> usize {
    let sorted = |map: &VolumeMap| {
        let mut files: Vec<Lying> = map
            .regular()
            .map(|file| {
                let runs = file.runs.iter().map(|run| (run.lbn, run.at, run.bytes));
                (file.size, runs.collect())
            })
            .collect();
        files.sort();
        files
    };
    let (wanted, there) = (sorted(snapshot), sorted(copy));
    let missing = wanted.iter().filter(|file| there.binary_search(file).is_err()).count();
    missing + there.len().saturating_sub(wanted.len())
}

/// A copy that is being made.
struct Making<'a> {
    volume: &'a Volume,
    files: FixedMap<u64, &'a FileMap>,
    /// The inodes of the copy's directories, by those of the snapshot.
    dirs: FixedMap<u64, Ino>,
    requests: u64,
    is_begun: bool,
    root: u64,
}

impl<'a> Making<'a> {
    fn new(volume: &'a Volume, map: &'a VolumeMap, root: u64) -> Making<'a> {
        Making {
            volume,
            files: map.files.iter().map(|file| (file.ino, file)).collect(),
            dirs: [(root, ROOT_INO)].into_iter().collect(),
            requests: 0,
            is_begun: false,
            root,
        }
    }

    fn runs(&self, ino: u64) -> Vec<HintedRun> {
        let file = self.files.get(&ino);
        let runs = file.into_iter().flat_map(|file| &file.runs);
        runs.map(|run| HintedRun { lbn: run.lbn, at: run.at, bytes: run.bytes }).collect()
    }

    /// Holds all places, so that nothing else goes there.
    fn begin(&mut self) -> Result<(), SimulateError> {
        self.is_begun = true;
        let mut runs = Vec::new();
        for file in self.files.values() {
            match file.kind {
                FileKind::Other => {}
                // It exists already, and may lie where it did.
                _ if file.ino == self.root => {
                    let there = self.runs(file.ino);
                    if hints(self.volume)?.claim(&there).is_ok() {
                        runs = there;
                    }
                }
                _ => hints(self.volume)?.claim(&self.runs(file.ino))?,
            }
        }
        hints(self.volume)?.assign(Some(ROOT_INO), &runs);
        Ok(())
    }

    async fn execute(&mut self, op: Op) -> Result<Reply, FsError> {
        self.requests += 1;
        let request = Request { id: self.requests, client: 1, cred: Cred::root(), op };
        self.volume.execute(request).await
    }

    async fn entry(&mut self, op: Op) -> Result<Ino, SimulateError> {
        match self.execute(op).await? {
            Reply::Entry(entry) => Ok(entry.attr.ino),
            _ => Err(model_error("an operation that makes a file returned no file")),
        }
    }

    async fn make(&mut self, step: &Step) -> Result<(), SimulateError> {
        if !self.is_begun {
            self.begin()?;
        }
        let Some(&dir) = self.dirs.get(&step.dir) else { return Ok(()) };
        let (name, runs) = (step.name.clone().into_boxed_slice(), self.runs(step.ino));
        let Some(size) = step.size else {
            // Its first block is placed before its number is known here.
            hints(self.volume)?.assign(None, &runs);
            let ino = self.entry(Op::MakeDir { dir, name, mode: 0o755 }).await?;
            hints(self.volume)?.assign(Some(ino), &runs);
            self.dirs.insert(step.ino, ino);
            return Ok(());
        };
        let ino = self.entry(Op::Create { dir, name, mode: 0o644, exclusive: true }).await?;
        hints(self.volume)?.assign(Some(ino), &runs);
        for range in self.written(step.ino, size) {
            let mut off = range.start;
            while off < range.end {
                let len = PIECE.min(range.end - off);
                self.execute(Op::Write { ino, off, data: Data::Synthetic(len) }).await?;
                off += len;
            }
        }
        // A hole at the end.
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        if self.written(step.ino, size).last().is_none_or(|last| last.end < size) && size > 0 {
            self.execute(Op::SetAttr { ino, set }).await?;
        }
        self.execute(Op::Release { ino }).await?;
        self.execute(Op::Forget { ino, count: 1 }).await?;
        Ok(())
    }

    /// The bytes of a file that are not holes; of a file that may lie in its inode, all.
    fn written(&self, ino: u64, size: u64) -> Vec<Range<u64>> {
        let geometry = &self.volume.core().geometry;
        let Some(file) = self.files.get(&ino) else { return Vec::new() };
        if file.runs.is_empty() && size <= u64::from(geometry.inline_max) {
            return std::iter::once(0..size).collect();
        }
        let block = u64::from(geometry.block_size);
        let mut runs: Vec<&Run> = file.data().collect();
        runs.sort_by_key(|run| run.lbn);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for run in runs {
            // A snapshot may say anything.
            let start = (run.lbn as u64).saturating_mul(block);
            let end = start.saturating_add(run.blocks.saturating_mul(block)).min(size);
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ if start < end => ranges.push(start..end),
                _ => {}
            }
        }
        ranges
    }
}

/// A map with files in all places of a new volume that are not free in the snapshot. Places are scaled
/// to the volume's size; what is free in part of a unit, a fragment, counts as used.
fn fillers(snapshot: &VolumeMap, new: &VolumeMap, unit: u64) -> Result<VolumeMap, String> {
    let (Some(free), Some(here)) = (&snapshot.free, &new.free) else {
        return Err("the snapshot does not say what is free: root can ask ext4 and xfs".into());
    };
    if snapshot.size == 0 {
        return Err("the snapshot does not say how large its file system is".into());
    }
    let scale = |at: u64| {
        let at = at.min(snapshot.size);
        (u128::from(at) * u128::from(new.size) / u128::from(snapshot.size)) as u64
    };
    let inside = |r: &Range<u64>| {
        let start = scale(r.start).next_multiple_of(unit);
        start..(scale(r.end) / unit * unit).max(start)
    };
    let free: Vec<Range<u64>> = free.iter().map(inside).collect();
    let used: Vec<Range<u64>> = here.iter().flat_map(|range| without(range, &free)).collect();
    let mut files = Fillers::new(new);
    for range in used {
        let area = new.areas.iter().find(|area| area.contains(&range.start));
        let base = area.map_or(0, |area| area.start);
        files.fill(base, range);
    }
    Ok(files.map)
}

/// What of a range is in none of the others, which are ascending.
fn without(range: &Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let first = others.partition_point(|other| other.end <= range.start);
    let (mut rest, mut at) = (Vec::new(), range.start);
    for other in others[first..].iter().take_while(|other| other.start < range.end) {
        if at < other.start {
            rest.push(at..other.start);
        }
        at = at.max(other.end);
    }
    if at < range.end {
        rest.push(at..range.end);
    }
    rest
}

/// Files that fill ranges.
struct Fillers {
    map: VolumeMap,
    block: u64,
    count: u64,
}

impl Fillers {
    /// So many blocks need no indirect one in any layout.
    const MOST: u64 = 12;

    fn new(new: &VolumeMap) -> Fillers {
        let map = VolumeMap {
            system: new.system.clone(),
            block_size: new.block_size,
            size: new.size,
            ..VolumeMap::default()
        };
        Fillers { map, block: u64::from(new.block_size), count: 0 }
    }

    /// Blocks begin at multiples of their size from `base` on.
    fn fill(&mut self, base: u64, range: Range<u64>) {
        let mut at = range.start;
        while at < range.end {
            let within = (at - base) % self.block;
            let left = range.end - at;
            let bytes = match within == 0 && left >= self.block {
                true => (left / self.block).min(Fillers::MOST) * self.block,
                false => (self.block - within).min(left),
            };
            self.file(at, bytes);
            at += bytes;
        }
    }

    fn file(&mut self, at: u64, bytes: u64) {
        let dir = DIRECTORIES + self.count / PER_DIRECTORY;
        if self.count.is_multiple_of(PER_DIRECTORY) {
            let name = format!("filler{}", self.count / PER_DIRECTORY);
            self.add(ROOT_INO, dir, name, FileKind::Directory, 0, Vec::new());
        }
        let run = Run { lbn: 0, blocks: bytes.div_ceil(self.block), at, bytes };
        let (ino, name) = (FILLERS + self.count, format!("f{:x}", self.count));
        self.add(dir, ino, name, FileKind::File, bytes, vec![run]);
        self.count += 1;
    }

    fn add(&mut self, dir: u64, ino: u64, name: String, kind: FileKind, size: u64, runs: Vec<Run>) {
        self.map.files.push(FileMap { ino, kind, size, mtime_s: 0, runs });
        self.map.names.push(NameOf { dir, ino, name: name.into_bytes() });
    }
}
