//! Directories: their blocks, and the hash index beside large ones.

use std::collections::BTreeMap;

use twin_fs::dir::block::Format;
use twin_fs::dir::index::{self, BlockMap, StepError};
use twin_fs::{Ino, mode};

use crate::Target;
use crate::bytes::{Input, sized, trimmed};

/// A directory block, and changes of it.
pub(crate) const BLOCK: Target = Target {
    name: "dir_block",
    about: "a directory block of any format, and changes of it",
    run: block,
    seeds: block_seeds,
};

/// A directory's index, and changes of it.
pub(crate) const INDEX: Target = Target {
    name: "dir_index",
    about: "a directory's hash index, whole or damaged, and changes of it",
    run: index_run,
    seeds: index_seeds,
};

const FORMATS: [Format; 3] = [Format::Classic, Format::Sectored, Format::Modern];
const OWN: Ino = 2;
/// Bytes of the changes that come before the block.
const CHANGES: usize = 32;

/// Format, whether it is a directory's first block, its length, changes, and the block.
fn block(data: &[u8]) -> bool {
    let mut input = Input(data);
    let format = FORMATS[usize::from(input.u8() % 3)];
    let first = (input.u8() & 1 == 1).then_some(OWN);
    let len = 512 * (1 + usize::from(input.u8() % 8));
    let mut changes = Input(input.take(CHANGES));
    let mut raw = sized(input.0, len);
    let is_sound = format.validate(&raw, first).is_ok();
    let mut names = names_of(format, &raw);
    let _ = (format.room(&raw), format.is_empty(&raw));
    while !changes.is_empty() {
        change(format, &mut raw, &mut changes, is_sound.then_some(&mut names));
        if is_sound {
            let now = format.validate(&raw, first.filter(|_| has_dots(format, &raw)));
            assert_eq!(now, Ok(()));
            assert_eq!(names_of(format, &raw), names);
        }
    }
    is_sound
}

fn has_dots(format: Format, raw: &[u8]) -> bool {
    format.find(raw, b".").is_some() && format.find(raw, b"..").is_some()
}

/// Entries by their offsets.
fn names_of(format: Format, raw: &[u8]) -> BTreeMap<usize, (Vec<u8>, Ino)> {
    format.items(raw, 0).map(|item| (item.offset, (item.name.to_vec(), item.ino))).collect()
}

/// One change: on any bytes it must not panic, on a sound block it does what it says.
fn change(
    format: Format,
    raw: &mut [u8],
    changes: &mut Input<'_>,
    names: Option<&mut BTreeMap<usize, (Vec<u8>, Ino)>>,
) {
    let (verb, n) = (changes.u8(), changes.u8());
    let name = vec![b'a' + n % 20; 1 + usize::from(n) % 255];
    let ino = Ino::from(n) + 3;
    let offset = usize::from(n) * 16;
    match verb % 4 {
        0 => {
            let room = format.room(raw);
            let placed = format.insert(raw, &name, ino, mode::REGULAR);
            if let Some(names) = names {
                assert_eq!(placed.is_some(), room >= format.entry_len(name.len()));
                names.extend(placed.map(|at| (at.offset, (name, ino))));
            }
        }
        // The dots of a first block are not removed, nor made to lead elsewhere.
        1 | 2
            if matches!(format.entry_at(raw, offset).map(|item| item.name), Some(b"." | b"..")) => {
        }
        1 => {
            let removed = format.remove(raw, offset).is_ok();
            if let Some(names) = names {
                assert_eq!(names.remove(&offset).is_some(), removed);
            }
        }
        2 => {
            let set = format.set_ino(raw, offset, ino, mode::SYMLINK).is_ok();
            if let Some(names) = names {
                let there = names.get_mut(&offset);
                assert_eq!(there.is_some(), set);
                there.into_iter().for_each(|entry| entry.1 = ino);
            }
        }
        _ => {
            let found = format.find(raw, &name);
            if let (Some(found), Some(names)) = (found, names) {
                assert_eq!(names[&found.offset], (name, found.ino));
            }
        }
    }
}

fn block_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (which, format) in (0u8..).zip(FORMATS) {
        for first in [0u8, 1] {
            let mut raw = vec![0; 1024];
            match first {
                0 => format.init(&mut raw),
                _ => format.init_first(&mut raw, OWN, OWN),
            }
            for name in [&b"a"[..], b"Makefile", b"a longer name"] {
                format.insert(&mut raw, name, 9, mode::REGULAR).unwrap();
            }
            let changes: Vec<u8> = (0..CHANGES as u8).map(|i| i.wrapping_mul(37)).collect();
            seeds.push([vec![which, first, 1], changes, trimmed(raw)].concat());
        }
    }
    seeds
}

const INDEX_BLOCK: usize = 512;
/// So many steps at the most.
const STEPS: usize = 400;

/// An index file: what was put into it, and what of it was damaged on purpose.
struct File {
    frames: BlockMap,
    damaged: bool,
}

impl File {
    /// Runs a step until it has all blocks: those that were never written read as zeros.
    fn run<T>(&mut self, step: impl Fn(&mut BlockMap) -> Result<T, StepError>) -> Option<T> {
        // A step asks for each block once, and for no more than its chains have.
        for _ in 0..10_000 {
            match step(&mut self.frames) {
                Ok(done) => return Some(done),
                Err(StepError::Load(lbn)) => self.frames.put(lbn, vec![0; INDEX_BLOCK]),
                Err(StepError::Make(lbn)) => self.frames.put(lbn, vec![0x5a; INDEX_BLOCK]),
                Err(StepError::Bad(error)) => {
                    assert!(self.damaged, "{error}");
                    return None;
                }
            }
        }
        panic!("a step that never ends");
    }
}

/// Steps of two or five bytes: a verb, a hash, and for damage a place.
fn index_run(data: &[u8]) -> bool {
    let mut input = Input(data);
    let mut file = File { frames: BlockMap::default(), damaged: false };
    file.run(|frames| index::create(frames, [1, 2]));
    let mut shadow: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        index_step(&mut input, &mut file, &mut shadow);
    }
    if !file.damaged {
        let header = file.run(|frames| index::header(frames)).unwrap();
        let mut slots = 0;
        for bucket in 0..header.buckets {
            slots += file.run(|frames| index::check_bucket(frames, bucket)).unwrap().slots.len();
        }
        file.run(|frames| index::check_free_blocks(frames)).unwrap();
        assert_eq!(slots as u32, shadow.values().sum::<u32>());
    }
    !file.damaged && !shadow.is_empty()
}

fn index_step(input: &mut Input<'_>, file: &mut File, shadow: &mut BTreeMap<(u32, u32), u32>) {
    let (verb, n) = (input.u8(), u32::from(input.u8()));
    // Low bits choose the bucket, so equal ones make long chains.
    let (hash, position) = (n.wrapping_mul(0x0101_0101) & !(u32::from(verb) >> 4), n & 7);
    match verb % 8 {
        0..=3 => {
            // Several at once, so that a short input comes to buckets and chains.
            for copy in 0..1 + u32::from(verb >> 5) {
                if file.run(|frames| index::insert(frames, hash, position + copy)).is_some() {
                    *shadow.entry((hash, position + copy)).or_default() += 1;
                }
                file.run(index::grow);
            }
        }
        4 => {
            let removed = file.run(|frames| index::remove(frames, hash, position));
            let count = shadow.get(&(hash, position)).copied().unwrap_or(0);
            if !file.damaged {
                assert_eq!(removed, Some(count > 0));
            }
            match count {
                0 => {}
                1 => drop(shadow.remove(&(hash, position))),
                _ => drop(shadow.insert((hash, position), count - 1)),
            }
            file.run(index::shrink);
        }
        5 => {
            let found = file.run(|frames| index::lookup(frames, hash));
            if !file.damaged {
                let there = shadow.range((hash, 0)..=(hash, u32::MAX)).map(|((_, at), _)| *at);
                assert_eq!(found, Some(there.collect()));
            }
        }
        6 => {
            let buckets =
                file.run(|frames| index::header(frames)).map_or(1, |header| header.buckets);
            let _ = file.run(|frames| index::check_bucket(frames, n % buckets));
            let _ = file.run(|frames| index::check_free_blocks(frames));
        }
        _ => {
            let (at, value) = (usize::from(input.u16()) % (INDEX_BLOCK - 1), input.u8());
            let hit =
                index::Frames::write(&mut file.frames, u64::from(n), |block| block[at] = value);
            file.damaged |= hit.is_some();
        }
    }
}

fn index_seeds() -> Vec<Vec<u8>> {
    let inserts: Vec<u8> = (0..120u8).flat_map(|n| [0xe0, n.wrapping_mul(7)]).collect();
    let removes: Vec<u8> = (0..120u8).flat_map(|n| [4, n.wrapping_mul(7), 5, n]).collect();
    vec![inserts.clone(), [inserts, removes].concat(), vec![0, 1, 0, 2, 4, 1, 5, 2, 6, 0]]
}
