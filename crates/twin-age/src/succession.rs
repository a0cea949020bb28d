//! A workload that repeats what happened between snapshots of a file system, as Smith and Seltzer rebuilt
//! the life of theirs from daily snapshots ("A Comparison of FFS Disk Allocation Policies", USENIX 1996,
//! section 3.1).
//!
//! Contract: the files of the first snapshot are made in the order of their last changes, in the day before it. From each
//! snapshot to the next, a file that is gone is removed, a new one is made, and one whose size or time of
//! change is another is removed and made anew, as the papers take it: programs rewrite whole files. A file is
//! the same if its inode number is. What is made is made at its time of change, if that lies
//! between the two snapshots, and otherwise, as what is removed, at a time drawn for it. Directories are made
//! before the files of the first snapshot that has them, and removed after those of the first that has not.
//! What has moved stays where it was made, and so do the directories above it. What came and went between
//! two snapshots is in neither. Same snapshots and seed, same records.

use std::cmp::Reverse;

use twin_fs::{Data, Ino, Name, Op, ROOT_INO};
use twin_rt::{FixedMap, Nanos, Rng, SECS, Time};
use twin_trace::{Header, Kind, Outcome, Traits};

use crate::map::{FileKind, FileMap, VolumeMap};
use crate::queue::{Queue, Steps, source_by_steps};

/// The files of the first snapshot are created within this many seconds.
const FIRST_S: i64 = 86_400;
/// The most bytes of a write.
const PIECE: u64 = 1 << 20;

/// Why there is no such workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessionError {
    /// There are fewer than two snapshots.
    TooFew,
    /// Two snapshots say that they were taken at the same time, or one does not say when.
    NoTimes,
}

impl std::fmt::Display for SuccessionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SuccessionError::TooFew => "a succession needs two snapshots at least",
            SuccessionError::NoTimes => {
                "the snapshots do not say when they were taken, one after the other"
            }
        })
    }
}

impl std::error::Error for SuccessionError {}

/// A file that was made.
#[derive(Clone, Debug)]
struct Made {
    /// The directory of the file, by its inode in the trace.
    dir: Ino,
    name: Name,
    size: u64,
    mtime_s: i64,
}

/// A directory that was made.
#[derive(Clone, Debug)]
struct MadeDir {
    /// The inode in the trace: later directories have higher numbers.
    number: Ino,
    /// The directory that contains it, by its inode in the trace.
    dir: Ino,
    name: Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Remove,
    Make,
}

/// The workload. See the module.
pub struct Succession {
    header: Header,
    queue: Queue,
    /// The maps that remain, the latest first.
    maps: Vec<VolumeMap>,
    start_s: i64,
    end_s: i64,
    /// The time of the snapshot that was reached.
    now_s: i64,
    /// The changes until the next snapshot, the latest first, by inode of the snapshots.
    due: Vec<(i64, What, u64)>,
    /// The files of the next snapshot: directory, name, size and time of change.
    next: FixedMap<u64, Made>,
    files: FixedMap<u64, Made>,
    /// The directories by their inodes in the snapshots.
    dirs: FixedMap<u64, MadeDir>,
    /// Directories that the next snapshot does not have, the latest first.
    gone_dirs: Vec<u64>,
    next_ino: Ino,
    rng: Rng,
}

impl Succession {
    /// The workload of snapshots in any order.
    ///
    /// # Errors
    /// If there are too few, or their times are missing.
    pub fn new(mut maps: Vec<VolumeMap>, seed: u64) -> Result<Succession, SuccessionError> {
        maps.sort_by_key(|map| Reverse(map.taken_s));
        let [last, .., first] = &maps[..] else { return Err(SuccessionError::TooFew) };
        let is_in_order = maps.windows(2).all(|pair| pair[0].taken_s > pair[1].taken_s);
        if !is_in_order || first.taken_s <= FIRST_S {
            return Err(SuccessionError::NoTimes);
        }
        let traits = Traits { timed: true, nodes_first: true, ..Traits::default() };
        let text = format!("what happened between {} snapshots of {}", maps.len(), first.system);
        let root = MadeDir { number: ROOT_INO, dir: ROOT_INO, name: Name::default() };
        let start_s = first.taken_s - FIRST_S;
        Ok(Succession {
            header: Header { kind: Kind::Operations, start: Time(0), seed, traits, text },
            queue: Queue::default(),
            start_s,
            end_s: last.taken_s,
            now_s: start_s,
            due: Vec::new(),
            next: FixedMap::default(),
            files: FixedMap::default(),
            dirs: [(root_of(first), root)].into_iter().collect(),
            gone_dirs: Vec::new(),
            next_ino: ROOT_INO + 1,
            rng: Rng::stream(seed, "between snapshots"),
            maps,
        })
    }

    /// Time from the first operation to the last snapshot.
    pub fn span_ns(&self) -> Nanos {
        (self.end_s - self.start_s) as u64 * SECS
    }

    fn op(&mut self, at_s: i64, op: Op, outcome: Option<Outcome>) {
        self.queue.op((at_s - self.start_s).max(0) as u64 * SECS, op, outcome);
    }

    /// Plans the changes up to the next snapshot; false if there is none.
    fn plan(&mut self) -> bool {
        let Some(map) = self.maps.pop() else { return false };
        let (from_s, to_s) = (self.now_s, map.taken_s);
        let is_first = self.files.is_empty() && from_s == self.start_s;
        self.make_dirs(&map);
        self.next = self.files_of(&map);
        let mut changes: Vec<(i64, What, u64)> = Vec::new();
        let mut gone: Vec<u64> =
            self.files.keys().copied().filter(|ino| !self.next.contains_key(ino)).collect();
        gone.sort_unstable();
        for ino in gone {
            changes.push((self.rng.range(from_s as u64, to_s as u64) as i64, What::Remove, ino));
        }
        let mut inos: Vec<u64> = self.next.keys().copied().collect();
        inos.sort_unstable_by_key(|ino| (self.next[ino].mtime_s, *ino));
        let all = inos.len().max(1) as i64;
        for (nth, ino) in inos.into_iter().enumerate() {
            let new = &self.next[&ino];
            let drawn_s = self.rng.range(from_s as u64, to_s as u64) as i64;
            let at_s = match new.mtime_s {
                _ if is_first => from_s + (to_s - from_s) * nth as i64 / all,
                mtime_s if (from_s..to_s).contains(&mtime_s) => mtime_s,
                _ => drawn_s,
            };
            match self.files.get(&ino) {
                Some(old) if (old.size, old.mtime_s) == (new.size, new.mtime_s) => {}
                Some(_) => changes.extend([(at_s, What::Remove, ino), (at_s, What::Make, ino)]),
                None => changes.push((at_s, What::Make, ino)),
            }
        }
        changes.sort_unstable_by_key(|&(at_s, what, ino)| Reverse((at_s, ino, what)));
        (self.due, self.now_s) = (changes, to_s);
        true
    }

    /// The regular files of a map at their first names, in directories that exist.
    fn files_of(&self, map: &VolumeMap) -> FixedMap<u64, Made> {
        let known: FixedMap<u64, &FileMap> = map.regular().map(|file| (file.ino, file)).collect();
        let mut files = FixedMap::default();
        for name in &map.names {
            let (Some(file), Some(dir)) = (known.get(&name.ino), self.dirs.get(&name.dir)) else {
                continue;
            };
            // Several lives of a number, and several files of a name, are told apart by the number.
            let text = [&name.name[..], format!("~{:x}", name.ino).as_bytes()].concat();
            let text = text[text.len().saturating_sub(twin_fs::NAME_MAX)..].into();
            let made = Made { dir: dir.number, name: text, size: file.size, mtime_s: file.mtime_s };
            files.entry(name.ino).or_insert(made);
        }
        files
    }

    /// Makes the directories of a map that are not there yet, each after its parent, and notes those
    /// that it does not have.
    fn make_dirs(&mut self, map: &VolumeMap) {
        let of_kind = map.files.iter().filter(|file| file.kind == FileKind::Directory);
        let is_dir: FixedMap<u64, ()> = of_kind.map(|file| (file.ino, ())).collect();
        let is_gone = |ino: &u64| !is_dir.contains_key(ino) && *ino != root_of(map);
        self.gone_dirs = self.dirs.keys().copied().filter(is_gone).collect();
        self.gone_dirs.sort_unstable_by_key(|ino| Reverse(self.dirs[ino].number));
        let mut below: FixedMap<u64, Vec<(u64, &[u8])>> = FixedMap::default();
        for name in map.names.iter().filter(|name| is_dir.contains_key(&name.ino)) {
            below.entry(name.dir).or_default().push((name.ino, &name.name));
        }
        let mut waiting = vec![root_of(map)];
        while let Some(above) = waiting.pop() {
            let Some(&MadeDir { number: dir, .. }) = self.dirs.get(&above) else { continue };
            for (ino, name) in below.remove(&above).unwrap_or_default() {
                if self.dirs.contains_key(&ino) {
                    // The root may have a name too.
                    waiting.extend((ino != above && ino != root_of(map)).then_some(ino));
                    continue;
                }
                waiting.push(ino);
                // A file may have the number of a directory that stayed.
                let text = [name, format!("~{ino:x}.d").as_bytes()].concat();
                let name: Name = text[text.len().saturating_sub(twin_fs::NAME_MAX)..].into();
                let number = self.next_ino;
                self.next_ino += 1;
                self.dirs.insert(ino, MadeDir { number, dir, name: name.clone() });
                let op = Op::MakeDir { dir, name, mode: 0o755 };
                self.op(self.now_s, op, Some(Outcome::Entry(number)));
            }
        }
    }

    /// Removes the directories that the snapshot which was reached does not have, as far as they are empty.
    /// True if there were any.
    fn remove_dirs(&mut self) -> bool {
        let gone = std::mem::take(&mut self.gone_dirs);
        if gone.is_empty() {
            return false;
        }
        let mut held: FixedMap<Ino, u64> = FixedMap::default();
        let of_files = self.files.values().map(|file| file.dir);
        let of_dirs = self.dirs.values().map(|made| made.dir);
        for dir in of_files.chain(of_dirs) {
            *held.entry(dir).or_default() += 1;
        }
        // Files made last are removed first, so that a directory goes after everything that was
        // made in it.
        for ino in gone {
            let Some(MadeDir { number, dir, name }) = self.dirs.get(&ino).cloned() else {
                continue;
            };
            if held.get(&number).is_none_or(|&entries| entries == 0) {
                self.dirs.remove(&ino);
                *held.entry(dir).or_default() -= 1;
                self.op(self.now_s, Op::RemoveDir { dir, name }, Some(Outcome::Done));
                self.op(self.now_s, Op::Forget { ino: number, count: 1 }, None);
            }
        }
        true
    }

    fn remove(&mut self, at_s: i64, ino: u64) {
        if let Some(Made { dir, name, .. }) = self.files.remove(&ino) {
            self.op(at_s, Op::Unlink { dir, name }, Some(Outcome::Done));
        }
    }

    fn make(&mut self, at_s: i64, ino: u64) {
        let Some(made) = self.next.get(&ino).cloned() else { return };
        let number = self.next_ino;
        self.next_ino += 1;
        let op =
            Op::Create { dir: made.dir, name: made.name.clone(), mode: 0o644, exclusive: true };
        self.op(at_s, op, Some(Outcome::Entry(number)));
        let mut off = 0;
        while off < made.size {
            let len = PIECE.min(made.size - off);
            let op = Op::Write { ino: number, off, data: Data::Synthetic(len) };
            self.op(at_s, op, Some(Outcome::Written(len)));
            off += len;
        }
        self.op(at_s, Op::Release { ino: number }, Some(Outcome::Done));
        self.op(at_s, Op::Forget { ino: number, count: 1 }, None);
        self.files.insert(ino, made);
    }
}

/// The inode of the root in a map: its own number, or the directory of the first name.
fn root_of(map: &VolumeMap) -> u64 {
    let has_ours = map.files.iter().any(|file| file.ino == ROOT_INO);
    let first = map.names.first().filter(|_| !has_ours);
    first.map_or(ROOT_INO, |name| name.dir)
}

impl Steps for Succession {
    fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    fn step(&mut self) -> bool {
        match self.due.pop() {
            Some((at_s, What::Remove, ino)) => self.remove(at_s, ino),
            Some((at_s, What::Make, ino)) => self.make(at_s, ino),
            None => {
                let removed = self.remove_dirs();
                return self.plan() || removed;
            }
        }
        true
    }
}

source_by_steps!(Succession);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::NameOf;
    use twin_trace::{Record, Source};

    /// A snapshot of a day: directory, inode, size and time of change of its files.
    fn day(number: i64, files: &[(u64, u64, u64, i64)]) -> VolumeMap {
        with_dirs(number, &[(2, 2), (2, 3)], files)
    }

    /// As [`day`], with these directories: above, inode.
    fn with_dirs(number: i64, dirs: &[(u64, u64)], files: &[(u64, u64, u64, i64)]) -> VolumeMap {
        let mut map = VolumeMap { taken_s: 1_000_000 + number * 1000, ..VolumeMap::default() };
        for &(dir, ino) in dirs {
            let kind = FileKind::Directory;
            map.files.push(FileMap { ino, kind, size: 0, mtime_s: 0, runs: vec![] });
            map.names.push(NameOf { dir, ino, name: Vec::new() });
        }
        for &(dir, ino, size, mtime_s) in files {
            let mtime_s = 1_000_000 + mtime_s;
            map.files.push(FileMap { ino, kind: FileKind::File, size, mtime_s, runs: vec![] });
            map.names.push(NameOf { dir, ino, name: Vec::new() });
        }
        map
    }

    /// What a succession does: the second since the first snapshot, and what.
    fn play(maps: Vec<VolumeMap>) -> Vec<(i64, String)> {
        let mut source = Succession::new(maps, 1).unwrap();
        let mut all = Vec::new();
        while let Some(record) = source.next_record().unwrap() {
            let Record::Request { at_ns, request } = record else { continue };
            let at_s = (at_ns / SECS) as i64 - FIRST_S;
            let text = |name: &Name| String::from_utf8_lossy(name).into_owned();
            match request.op {
                Op::MakeDir { name, .. } => all.push((at_s, format!("/{}", text(&name)))),
                Op::Create { dir, name, .. } => all.push((at_s, format!("{dir}+{}", text(&name)))),
                Op::Write { data, .. } => all.last_mut().unwrap().1 += &format!(" {}", data.len()),
                Op::Unlink { name, .. } => all.push((at_s, format!("-{}", text(&name)))),
                Op::RemoveDir { dir, name } => all.push((at_s, format!("{dir}-/{}", text(&name)))),
                _ => {}
            }
        }
        all
    }

    #[test]
    fn between_two_snapshots_files_come_go_and_are_written_anew() {
        let first = day(0, &[(3, 10, 5, -50), (2, 11, 6, -70), (2, 12, 7, -60), (2, 13, 8, -40)]);
        let second = day(1, &[(3, 10, 5, -50), (2, 12, 9, 300), (3, 14, 4, 200), (2, 13, 8, -40)]);
        let words = play(vec![second, first]);
        let expected = [
            (-FIRST_S, "/~3.d"),
            (-FIRST_S, "2+~b 6"),
            (-FIRST_S / 4 * 3, "2+~c 7"),
            (-FIRST_S / 2, "3+~a 5"),
            (-FIRST_S / 4, "2+~d 8"),
            (200, "3+~e 4"),
            (300, "-~c"),
            (300, "2+~c 9"),
        ];
        let expected = expected.map(|(at, what)| (at, what.to_string()));
        let (gone, others): (Vec<_>, Vec<_>) =
            words.into_iter().partition(|(_, what)| what == "-~b");
        assert_eq!(others, expected);
        assert!(gone.len() == 1 && (0..1000).contains(&gone[0].0), "{gone:?}");
    }

    #[test]
    fn directories_that_are_gone_are_removed_after_what_was_in_them() {
        let first = with_dirs(0, &[(2, 2), (2, 3), (3, 4), (2, 5)], &[(4, 10, 1, -50)]);
        // Inode 5 is a file now.
        let second = with_dirs(1, &[(2, 2)], &[(2, 5, 1, 300)]);
        let words = play(vec![first, second]);
        let of = |what: &str| (1000, what.to_string());
        let last = words[words.len() - 3..].to_vec();
        // Those made last go first.
        let is_before = |a: &str, b: &str| {
            let place = |what: &str| last.iter().position(|entry| *entry == of(what)).unwrap();
            place(a) < place(b)
        };
        assert!(is_before("3-/~4.d", "2-/~3.d") && last.contains(&of("2-/~5.d")), "{words:?}");
        let is_there = |what: &str| words.iter().any(|(_, word)| word == what);
        assert!(is_there("2+~5 1") && is_there("-~a"), "{words:?}");
    }

    #[test]
    fn a_directory_stays_if_a_file_that_was_made_in_it_has_moved() {
        let first = with_dirs(0, &[(2, 2), (2, 3)], &[(3, 10, 1, -50)]);
        let second = with_dirs(1, &[(2, 2)], &[(2, 10, 1, -50)]);
        let words = play(vec![first, second]);
        assert!(!words.iter().any(|(_, what)| what.contains("-/")), "{words:?}");
    }

    #[test]
    fn snapshots_without_an_order_are_refused() {
        let error = |maps| Succession::new(maps, 1).err();
        assert_eq!(error(vec![day(1, &[])]), Some(SuccessionError::TooFew));
        assert_eq!(error(vec![day(1, &[]), day(1, &[])]), Some(SuccessionError::NoTimes));
        assert_eq!(error(vec![day(1, &[]), VolumeMap::default()]), Some(SuccessionError::NoTimes));
    }
}
