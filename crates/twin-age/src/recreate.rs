//! A workload that creates the files of a snapshot on a new volume.
//!
//! Contract: every directory and regular file of the map is created once, at its first name, in the
//! order of the times of their last change, in sessions as those of an [`Ageing`](crate::Ageing).
//! Sizes and ages are those of the map; places are the new volume's choice, and holes are filled.
//! This is what a copy of the files has, not the wear of the original.

use twin_fs::{Data, Ino, Name, Op, ROOT_INO};
use twin_rt::{FixedMap, Nanos, SECS, Time};
use twin_trace::{Header, Kind, Outcome, Traits};

use crate::map::{FileKind, VolumeMap};
use crate::queue::{Queue, Steps, source_by_steps};

/// Times of files are rounded down to one of this many instants.
const SESSIONS: i64 = 2048;
/// The most bytes of a write.
const PIECE: u64 = 1 << 20;

/// The workload. See the module.
pub struct Recreate {
    header: Header,
    /// The steps that remain, the next one last.
    steps: Vec<Step>,
    queue: Queue,
    next_ino: Ino,
    inos: FixedMap<u64, Ino>,
    span_ns: Nanos,
}

/// A file or directory that is made.
#[derive(Clone, Debug)]
pub struct Step {
    /// When, from the oldest file's time on.
    pub at_ns: Nanos,
    /// The inode in the map.
    pub ino: u64,
    /// The inode of the directory that gets it.
    pub dir: u64,
    /// The name of the file or directory in its parent.
    pub name: Vec<u8>,
    /// The size of a file; `None` for a directory.
    pub size: Option<u64>,
}

impl Recreate {
    /// A workload with the files of a map.
    pub fn new(map: &VolumeMap) -> Recreate {
        let known: FixedMap<u64, _> = map.files.iter().map(|file| (file.ino, file)).collect();
        let end = map.now_s();
        let oldest = map.regular().map(|file| file.mtime_s).min().unwrap_or(end).min(end);
        let session = ((end - oldest) / SESSIONS).max(1);
        let mut seen = FixedMap::default();
        let (mut dirs, mut files) = (Vec::new(), Vec::new());
        // Directories come first, each after its parent.
        let mut children: FixedMap<u64, Vec<usize>> = FixedMap::default();
        for (place, name) in map.names.iter().enumerate() {
            children.entry(name.dir).or_default().push(place);
        }
        let root = match map.names.first() {
            Some(first) if !known.contains_key(&ROOT_INO) => first.dir,
            _ => ROOT_INO,
        };
        let mut waiting = vec![root];
        while let Some(dir) = waiting.pop() {
            for place in children.remove(&dir).unwrap_or_default() {
                let name = &map.names[place];
                let Some(file) = known.get(&name.ino) else { continue };
                if name.ino == root || seen.insert(name.ino, ()).is_some() {
                    continue;
                }
                let text = match name.name.is_empty() {
                    true => format!("f{:x}", name.ino).into_bytes(),
                    false => name.name.clone(),
                };
                let at_s = (file.mtime_s.clamp(oldest, end) - oldest) / session * session;
                let step = |size, at_ns| Step { at_ns, ino: name.ino, dir, name: text, size };
                match file.kind {
                    FileKind::Directory => {
                        dirs.push(step(None, 0));
                        waiting.push(name.ino);
                    }
                    FileKind::File => files.push(step(Some(file.size), at_s as u64 * SECS)),
                    FileKind::Other => {}
                }
            }
        }
        files.sort_by_key(|step| step.at_ns);
        let steps: Vec<Step> = dirs.into_iter().chain(files).rev().collect();
        let traits = Traits { timed: true, nodes_first: true, ..Traits::default() };
        let text = format!("the files of a snapshot of {}", map.system);
        Recreate {
            header: Header { kind: Kind::Operations, start: Time(0), seed: 0, traits, text },
            steps,
            queue: Queue::default(),
            next_ino: ROOT_INO + 1,
            inos: [(root, ROOT_INO)].into_iter().collect(),
            span_ns: (end - oldest) as u64 * SECS,
        }
    }

    /// Time from the first operation to the time of the snapshot.
    pub fn span_ns(&self) -> Nanos {
        self.span_ns
    }

    /// The files and directories that are made, in order, and the root's inode in the map.
    pub fn into_steps(self) -> (impl Iterator<Item = Step>, u64) {
        let root =
            self.inos.iter().find(|(_, ino)| **ino == ROOT_INO).map_or(ROOT_INO, |(root, _)| *root);
        (self.steps.into_iter().rev(), root)
    }

    fn create(&mut self, step: Step) {
        let ino = self.next_ino;
        self.next_ino += 1;
        let (at, name) = (step.at_ns, Name::from(step.name));
        let Some(&dir) = self.inos.get(&step.dir) else { return };
        let Some(size) = step.size else {
            self.inos.insert(step.ino, ino);
            let op = Op::MakeDir { dir, name, mode: 0o755 };
            return self.queue.op(at, op, Some(Outcome::Entry(ino)));
        };
        let op = Op::Create { dir, name, mode: 0o644, exclusive: true };
        self.queue.op(at, op, Some(Outcome::Entry(ino)));
        let mut off = 0;
        while off < size {
            let len = PIECE.min(size - off);
            let op = Op::Write { ino, off, data: Data::Synthetic(len) };
            self.queue.op(at, op, Some(Outcome::Written(len)));
            off += len;
        }
        self.queue.op(at, Op::Release { ino }, Some(Outcome::Done));
        self.queue.op(at, Op::Forget { ino, count: 1 }, None);
    }
}

impl Steps for Recreate {
    fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    fn step(&mut self) -> bool {
        let step = self.steps.pop();
        let is_some = step.is_some();
        step.into_iter().for_each(|step| self.create(step));
        is_some
    }
}

source_by_steps!(Recreate);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{FileMap, NameOf};
    use twin_trace::{Record, Source};

    #[test]
    fn files_are_created_by_age_below_their_directories_and_links_once() {
        let file = |ino, kind, size, mtime_s| FileMap { ino, kind, size, mtime_s, runs: vec![] };
        let name = |dir, ino, name: &str| NameOf { dir, ino, name: name.into() };
        let map = VolumeMap {
            files: vec![
                file(2, FileKind::Directory, 0, 9),
                file(7, FileKind::Directory, 0, 9),
                file(4, FileKind::File, 5, 300),
                file(5, FileKind::File, (1 << 20) + 1, 100),
            ],
            names: vec![
                name(7, 5, "old"),
                name(2, 4, ""),
                name(2, 7, "d"),
                name(2, 5, "link"),
                name(7, 2, "loop"),
                name(9, 4, "lost"),
            ],
            taken_s: 1000,
            ..VolumeMap::default()
        };
        let mut source = Recreate::new(&map);
        assert_eq!(source.span_ns(), 900 * SECS);
        let mut all = Vec::new();
        while let Some(record) = source.next_record().unwrap() {
            match record {
                Record::Request { at_ns, request } => match request.op {
                    Op::MakeDir { name, .. } => all.push((at_ns / SECS, name, 0)),
                    Op::Create { name, .. } => all.push((at_ns / SECS, name, 0)),
                    Op::Write { data, .. } => all.last_mut().unwrap().2 += data.len(),
                    _ => {}
                },
                Record::Reply { .. } | Record::Node(_) => {}
            }
        }
        let expected = [(0, "d", 0), (0, "link", (1 << 20) + 1), (200, "f4", 5)];
        let expected = expected.map(|(at, name, size)| (at, name.as_bytes().into(), size));
        assert_eq!(all, expected);
    }
}
