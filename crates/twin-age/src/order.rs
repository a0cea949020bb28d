//! The dynamic layout score: how the reads of a reader of all files follow each other.
//!
//! Contract: directories are read depth first from the root, the names of a directory in their
//! order, a directory's own blocks before what is in it, and of each file all blocks from its
//! beginning with the indirect blocks where they are needed. The score is the share of blocks that
//! begin where the block before them ends; only the first of all has no predecessor. What no name
//! leads to comes at the end, in the order of inode numbers. (Conway and others, "File Systems
//! Fated for Senescence? Nonsense, Says Science!", FAST 2017, section 4, has the measure; there it
//! is taken from a trace of requests.)

use twin_fs::ROOT_INO;
use twin_rt::FixedMap;

use crate::map::{FileKind, FileMap, VolumeMap};
use crate::score::Score;

/// The places of files in a map, in the order in which a reader of everything reads them.
pub(crate) fn reading_order(map: &VolumeMap) -> Vec<usize> {
    let places: FixedMap<u64, usize> =
        map.files.iter().enumerate().map(|(place, file)| (file.ino, place)).collect();
    let mut children: FixedMap<u64, Vec<u64>> = FixedMap::default();
    for name in &map.names {
        children.entry(name.dir).or_default().push(name.ino);
    }
    let root = match map.names.first() {
        Some(first) if !places.contains_key(&ROOT_INO) => first.dir,
        _ => ROOT_INO,
    };
    let mut seen = vec![false; map.files.len()];
    let mut order = Vec::with_capacity(map.files.len());
    let mut waiting = vec![root];
    while let Some(ino) = waiting.pop() {
        if let Some(&place) = places.get(&ino) {
            if std::mem::replace(&mut seen[place], true) {
                continue;
            }
            order.push(place);
        }
        if let Some(inside) = children.remove(&ino) {
            waiting.extend(inside.iter().rev());
        }
    }
    order.extend((0..map.files.len()).filter(|&place| !seen[place]));
    order
}

/// The dynamic layout score of a volume.
pub(crate) fn dynamic(map: &VolumeMap) -> Score {
    let mut score = Score::default();
    let mut end: Option<u64> = None;
    let read = |file: &&FileMap| file.kind != FileKind::Other;
    for file in reading_order(map).iter().map(|&place| &map.files[place]).filter(read) {
        for run in &file.runs {
            score.counted += run.blocks - u64::from(end.is_none());
            score.following += run.blocks - 1 + u64::from(end == Some(run.at));
            end = Some(run.end());
        }
    }
    score
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{NameOf, Run};

    fn file(ino: u64, kind: FileKind, at: u64, blocks: u64) -> FileMap {
        let runs = vec![Run { lbn: 0, blocks, at: at * 10, bytes: blocks * 10 }];
        FileMap { ino, kind, size: 0, mtime_s: 0, runs }
    }

    fn name(dir: u64, ino: u64) -> NameOf {
        NameOf { dir, ino, name: Vec::new() }
    }

    #[test]
    fn files_are_read_in_the_order_of_names_and_follow_across_files() {
        let files = vec![
            file(2, FileKind::Directory, 0, 1),
            file(3, FileKind::File, 3, 2),
            file(4, FileKind::Directory, 1, 1),
            file(5, FileKind::File, 2, 1),
            file(9, FileKind::File, 50, 1),
        ];
        let names = vec![name(2, 4), name(2, 3), name(4, 5)];
        let map = VolumeMap { block_size: 10, files, names, ..VolumeMap::default() };
        // Root 0, directory 1, its file 2, then the root's file 3 to 4; the last has no name.
        assert_eq!(reading_order(&map), [0, 2, 3, 1, 4]);
        let score = dynamic(&map);
        assert_eq!((score.following, score.counted), (4, 5));
    }

    #[test]
    fn names_in_a_circle_and_links_are_read_once() {
        let files = vec![file(2, FileKind::Directory, 0, 1), file(3, FileKind::Directory, 1, 1)];
        let names = vec![name(2, 3), name(3, 2), name(2, 3), name(3, 77)];
        let map = VolumeMap { block_size: 10, files, names, ..VolumeMap::default() };
        assert_eq!(reading_order(&map), [0, 1]);
    }
}
