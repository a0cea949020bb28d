//! The layout of a volume: its scores, by size and as a whole, and its free space.

use twin_rt::FixedMap;

use crate::free::FreeSpace;
use crate::map::{FileKind, VolumeMap};
use crate::order::dynamic;
use crate::score::{Class, Score, SizeClass};

/// How the files of a volume lie. See [`score`](crate::Score) for what is counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The score of all regular files.
    pub score: Score,
    /// The score of a reader of everything: the module [`order`](crate) says in which order.
    pub dynamic: Score,
    /// Number of regular files.
    pub files: u64,
    /// Bytes of these files, as their sizes say.
    pub file_bytes: u64,
    /// Number of directories of the volume.
    pub directories: u64,
    /// The files by size, smallest first; files without blocks are in no class.
    pub classes: Vec<Class>,
    /// The free space, where it is known.
    pub free: Option<FreeSpace>,
}

impl Layout {
    /// The layout of a volume.
    pub fn of(map: &VolumeMap) -> Layout {
        let mut layout = Layout {
            score: Score::default(),
            dynamic: dynamic(map),
            files: 0,
            file_bytes: 0,
            directories: 0,
            classes: Vec::new(),
            free: FreeSpace::of(map),
        };
        for file in &map.files {
            match file.kind {
                FileKind::Directory => layout.directories += 1,
                FileKind::Other => {}
                FileKind::File => {
                    layout.files += 1;
                    layout.file_bytes += file.size;
                    let score = Score::of(file, map.block_size);
                    layout.score = layout.score.and(score);
                    layout.add_to_class(file.blocks(), score);
                }
            }
        }
        layout
    }

    fn add_to_class(&mut self, blocks: u64, score: Score) {
        if blocks == 0 {
            return;
        }
        let size = SizeClass::of(blocks);
        let found = self.classes.binary_search_by_key(&size, |class| class.size);
        let place = found.unwrap_or_else(|place| {
            self.classes.insert(place, Class { size, ..Class::default() });
            place
        });
        let class = &mut self.classes[place];
        class.files += 1;
        class.blocks += blocks;
        class.score = class.score.and(score);
    }
}

/// The score of one file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileScore {
    /// The inode number of the file.
    pub ino: u64,
    /// The path of the file from the root, if names are known.
    pub path: Option<Vec<u8>>,
    /// Length of the file in bytes; of a directory, the length of all files in it.
    pub size: u64,
    /// Number of blocks of data.
    pub blocks: u64,
    /// Number of runs of adjacent blocks.
    pub runs: u64,
    /// The layout score of the file.
    pub score: Score,
}

/// The directory and the name of each inode; the first name counts.
struct Paths<'a>(FixedMap<u64, (u64, &'a [u8])>);

/// No path is deeper: names of a damaged volume may form a circle.
const DEEPEST: usize = 4096;

impl<'a> Paths<'a> {
    fn of(map: &'a VolumeMap) -> Paths<'a> {
        let mut paths = FixedMap::default();
        for name in &map.names {
            paths.entry(name.ino).or_insert((name.dir, name.name.as_slice()));
        }
        Paths(paths)
    }

    fn path(&self, ino: u64) -> Option<Vec<u8>> {
        let mut parts = Vec::new();
        let mut at = ino;
        while let Some((dir, name)) = self.0.get(&at) {
            if name.is_empty() || parts.len() == DEEPEST {
                return None;
            }
            parts.push(*name);
            at = *dir;
        }
        parts.reverse();
        let path = parts.iter().flat_map(|part| [b"/".as_slice(), part]).collect::<Vec<_>>();
        (!path.is_empty()).then(|| path.concat())
    }
}

/// The score of each regular file, in the order of the map.
pub fn by_file(map: &VolumeMap) -> Vec<FileScore> {
    let paths = Paths::of(map);
    let of_file = |file: &crate::map::FileMap| FileScore {
        ino: file.ino,
        path: paths.path(file.ino),
        size: file.size,
        blocks: file.blocks(),
        runs: file.data().count() as u64,
        score: Score::of(file, map.block_size),
    };
    map.regular().map(of_file).collect()
}

/// The score of the regular files directly in each directory, in the order of the map; directories
/// without files are left out.
pub fn by_directory(map: &VolumeMap) -> Vec<FileScore> {
    let paths = Paths::of(map);
    let mut sums: FixedMap<u64, FileScore> = FixedMap::default();
    for file in map.regular() {
        let Some((dir, _)) = paths.0.get(&file.ino) else { continue };
        let sum = sums.entry(*dir).or_insert_with(|| FileScore {
            ino: *dir,
            path: paths.path(*dir).or_else(|| Some(b"/".to_vec())),
            size: 0,
            blocks: 0,
            runs: 0,
            score: Score::default(),
        });
        sum.size += file.size;
        sum.blocks += file.blocks();
        sum.runs += file.data().count() as u64;
        sum.score = sum.score.and(Score::of(file, map.block_size));
    }
    let dirs = map.files.iter().filter(|file| file.kind == FileKind::Directory);
    dirs.filter_map(|dir| sums.remove(&dir.ino)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{FileMap, NameOf, Run};
    use twin_rt::Rng;

    const BLOCK: u32 = 4096;

    /// A file whose blocks are at these places, in blocks, cut into runs.
    fn file(ino: u64, places: &[u64]) -> FileMap {
        let mut runs: Vec<Run> = Vec::new();
        for (lbn, &place) in (0..).zip(places) {
            let at = place * u64::from(BLOCK);
            match runs.last_mut() {
                Some(last) if last.end() == at => {
                    last.blocks += 1;
                    last.bytes += u64::from(BLOCK);
                }
                _ => runs.push(Run { lbn, blocks: 1, at, bytes: BLOCK.into() }),
            }
        }
        let size = places.len() as u64 * u64::from(BLOCK);
        FileMap { ino, kind: FileKind::File, size, mtime_s: 0, runs }
    }

    #[test]
    fn scores_of_random_volumes_are_those_of_a_walk_over_single_blocks() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut places: Vec<u64> = (1..400).collect();
            for _ in 0..rng.below(60) {
                let (a, b) = (rng.below(399) as usize, rng.below(399) as usize);
                places.swap(a, b);
            }
            let (mut files, mut at) = (Vec::new(), 0);
            let (mut counted, mut following) = (0, 0);
            while at < places.len() {
                let len = (1 + rng.below(40) as usize).min(places.len() - at);
                let own = &places[at..at + len];
                counted += own.len() - 1;
                following += own.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count();
                files.push(file(files.len() as u64 + 3, own));
                at += len;
            }
            let map = VolumeMap { block_size: BLOCK, files, ..VolumeMap::default() };
            let layout = Layout::of(&map);
            let score = (layout.score.following as usize, layout.score.counted as usize);
            assert_eq!(score, (following, counted), "seed {seed}");
            let classes = layout.classes.iter().fold(Score::default(), |sum, c| sum.and(c.score));
            assert_eq!(classes, layout.score, "seed {seed}: classes are the whole");
            // Files one behind the other: every place is read once.
            let reads = layout.dynamic.following as usize;
            let expected = places.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count();
            assert_eq!(reads, expected, "seed {seed}");
        }
    }

    #[test]
    fn directories_have_the_score_of_the_files_in_them() {
        let dir = |ino| FileMap { kind: FileKind::Directory, ..file(ino, &[]) };
        let name = |dir, ino, name: &str| NameOf { dir, ino, name: name.into() };
        let files = vec![dir(2), dir(3), file(4, &[1, 2, 9]), file(5, &[20, 21])];
        let names = vec![name(2, 3, "d"), name(3, 4, "a"), name(2, 5, "b")];
        let map = VolumeMap { block_size: BLOCK, files, names, ..VolumeMap::default() };
        let dirs = by_directory(&map);
        let of = |d: &FileScore| (d.path.clone().unwrap(), d.score.following, d.score.counted);
        let all: Vec<_> = dirs.iter().map(of).collect();
        assert_eq!(all, [(b"/".to_vec(), 1, 1), (b"/d".to_vec(), 1, 2)]);
        assert_eq!(by_file(&map)[0].path.as_deref(), Some(&b"/d/a"[..]));
    }

    #[test]
    fn names_in_a_circle_have_no_path() {
        let name = |dir, ino, name: &str| NameOf { dir, ino, name: name.into() };
        let names = vec![name(3, 4, "a"), name(4, 3, "b")];
        let map = VolumeMap { files: vec![file(4, &[1])], names, ..VolumeMap::default() };
        assert_eq!(by_file(&map)[0].path, None);
    }
}
