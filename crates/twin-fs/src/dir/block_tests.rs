//! Tests of [`super`]: examples, random changes compared with a map, and damaged blocks.

use std::collections::BTreeMap;

use twin_rt::Rng;

use super::*;

const FORMATS: [(Format, usize); 6] = [
    (Format::Classic, 512),
    (Format::Classic, 8192),
    (Format::Sectored, 512),
    (Format::Sectored, 8192),
    (Format::Modern, 4096),
    (Format::Modern, 65536),
];

fn first_block(format: Format, len: usize) -> Vec<u8> {
    let mut block = vec![0xaa; len];
    format.init_first(&mut block, 7, 2);
    block
}

fn names(format: Format, block: &[u8]) -> Vec<Vec<u8>> {
    format.items(block, 0).map(|item| item.name.to_vec()).collect()
}

#[test]
fn a_new_directory_has_its_dots_and_is_empty() {
    for (format, len) in FORMATS {
        let block = first_block(format, len);
        assert_eq!(format.validate(&block, Some(7)), Ok(()));
        assert_eq!(names(format, &block), [&b"."[..], b".."]);
        assert_eq!(format.find(&block, b".").unwrap().ino, 7);
        assert_eq!(format.find(&block, b"..").unwrap().ino, 2);
        assert!(format.is_empty(&block));
    }
}

#[test]
fn the_classic_head_is_that_of_the_fast_file_system() {
    let block = first_block(Format::Classic, 512);
    assert_eq!(block[..12], [7, 0, 0, 0, 12, 0, 4, 1, b'.', 0, 0, 0]);
    assert_eq!(block[12..24], [2, 0, 0, 0, 0xf4, 1, 4, 2, b'.', b'.', 0, 0]);
}

#[test]
fn the_modern_head_has_a_wide_inode_number() {
    let block = first_block(Format::Modern, 4096);
    assert_eq!(block[..16], [7, 0, 0, 0, 0, 0, 0, 0, 16, 0, 4, 1, b'.', 0, 0, 0]);
    assert_eq!(block[16..28], [2, 0, 0, 0, 0, 0, 0, 0, 0xe8, 0x0f, 4, 2]);
}

#[test]
fn a_name_is_found_where_it_was_put() {
    for (format, len) in FORMATS {
        let mut block = first_block(format, len);
        let at = format.insert(&mut block, b"hello", 99, mode::SYMLINK).unwrap().offset;
        let found = Found { offset: at, ino: 99, kind: mode::SYMLINK };
        assert_eq!(format.find(&block, b"hello"), Some(found));
        assert_eq!(format.find(&block, b"hell"), None);
        assert_eq!(format.entry_at(&block, at).unwrap().name, b"hello");
        assert_eq!(format.entry_at(&block, at + 4), None);
        assert!(!format.is_empty(&block));
    }
}

#[test]
fn the_largest_inode_number_and_the_longest_name_fit() {
    for (format, len) in FORMATS {
        let mut block = first_block(format, len);
        let name = [b'x'; NAME_MAX];
        assert!(format.insert(&mut block, &name, format.ino_max(), mode::FIFO).is_some());
        assert_eq!(format.find(&block, &name).unwrap().ino, format.ino_max());
        assert_eq!(format.validate(&block, Some(7)), Ok(()));
    }
}

#[test]
fn renaming_over_changes_the_inode_in_place() {
    for (format, len) in FORMATS {
        let mut block = first_block(format, len);
        let at = format.insert(&mut block, b"a", 3, mode::REGULAR).unwrap().offset;
        format.insert(&mut block, b"b", 4, mode::REGULAR).unwrap();
        assert_eq!(format.set_ino(&mut block, at, 5, mode::FIFO), Ok(()));
        let found = Found { offset: at, ino: 5, kind: mode::FIFO };
        assert_eq!(format.find(&block, b"a"), Some(found));
        assert_eq!(format.validate(&block, Some(7)), Ok(()));
        assert!(format.set_ino(&mut block, at + 4, 5, mode::FIFO).is_err());
    }
}

#[test]
fn removing_what_is_not_there_is_an_error_and_changes_nothing() {
    for (format, len) in FORMATS {
        let mut block = first_block(format, len);
        let before = block.clone();
        for offset in [4, 13, 40, len - 4, len, usize::MAX] {
            assert_eq!(format.remove(&mut block, offset).unwrap_err().offset, offset);
        }
        assert_eq!(block, before);
    }
}

#[test]
fn a_full_block_refuses_and_says_its_room() {
    for (format, len) in FORMATS {
        let mut block = vec![0; len];
        format.init(&mut block);
        let mut ino = 0;
        while format.room(&block) >= format.entry_len(12) {
            ino += 1;
            let name = format!("name{ino:08}");
            assert!(format.insert(&mut block, name.as_bytes(), ino, mode::REGULAR).is_some());
        }
        assert_eq!(format.insert(&mut block, b"name12345678", 1, mode::REGULAR), None);
        let per_chunk = |chunk: usize| chunk / format.entry_len(12);
        let expected = match format {
            Format::Classic | Format::Sectored => per_chunk(512) * (len / 512),
            Format::Modern => per_chunk(len - TAIL),
        };
        assert_eq!(format.items(&block, 0).count(), expected);
        assert_eq!(format.validate(&block, None), Ok(()));
    }
}

#[test]
fn entries_of_chunks_never_cross_a_sector() {
    for format in [Format::Classic, Format::Sectored] {
        let mut block = first_block(format, 8192);
        let mut rng = Rng::new(3);
        loop {
            let name = vec![b'a' + rng.below(26) as u8; rng.range(1, 256) as usize];
            if format.insert(&mut block, &name, 9, mode::REGULAR).is_none() {
                break;
            }
        }
        for item in format.items(&block, 0) {
            let end = item.offset + format.entry_len(item.name.len());
            assert_eq!(item.offset / 512, (end - 1) / 512);
        }
    }
}

#[test]
fn a_reader_goes_on_after_the_entry_of_its_cookie_was_removed() {
    for (format, len) in FORMATS {
        let mut block = first_block(format, len);
        let mut add =
            |i: u8| format.insert(&mut block, &[b'a' + i], 10 + u64::from(i), mode::REGULAR);
        let offsets: Vec<usize> = (0..8).map(|i| add(i).unwrap().offset).collect();
        let third = format.items(&block, 0).nth(4).unwrap();
        let cookie = third.next;
        assert_eq!((third.name, cookie), (&b"c"[..], offsets[3]));
        format.remove(&mut block, offsets[3]).unwrap();
        format.remove(&mut block, offsets[4]).unwrap();
        let rest: Vec<&[u8]> = format.items(&block, cookie).map(|item| item.name).collect();
        assert_eq!(rest, [b"f", b"g", b"h"]);
    }
}

/// Inserts, removes and replaces entries at random, and compares the block with a map from offset
/// to entry: entries stay where they are, the block stays valid, and all entries are listed.
fn shadow_run(format: Format, len: usize, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut block = first_block(format, len);
    let mut shadow: BTreeMap<usize, (Vec<u8>, u64)> = BTreeMap::new();
    for step in 0..2_000u64 {
        match rng.below(10) {
            0..5 => {
                let long = if rng.chance(0.1) { 256 } else { 20 };
                let mut name = vec![b'n'; rng.range(1, long) as usize];
                name.extend_from_slice(step.to_string().as_bytes());
                name.truncate(NAME_MAX);
                let (room, need) = (format.room(&block), format.entry_len(name.len()));
                let placed = format.insert(&mut block, &name, step + 1, mode::REGULAR);
                assert_eq!(placed.is_some(), room >= need, "seed {seed} step {step}");
                if let Some(Placed { offset, room }) = placed {
                    assert!(shadow.insert(offset, (name, step + 1)).is_none(), "seed {seed}");
                    assert_eq!(room, format.room(&block), "seed {seed} step {step}");
                }
            }
            5..9 if !shadow.is_empty() => {
                let nth = rng.below(shadow.len() as u64) as usize;
                let at = *shadow.keys().nth(nth).unwrap();
                shadow.remove(&at);
                let before = format.room(&block);
                let here = format.remove(&mut block, at).unwrap();
                assert_eq!(before.max(here), format.room(&block), "seed {seed} step {step}");
            }
            _ => {
                if let Some((at, (_, ino))) = shadow.iter_mut().next() {
                    *ino = step + 7;
                    assert_eq!(format.set_ino(&mut block, *at, *ino, mode::REGULAR), Ok(()));
                }
            }
        }
        assert_eq!(format.validate(&block, Some(7)), Ok(()), "seed {seed} step {step}");
        let listed: Vec<(usize, (Vec<u8>, u64))> = format
            .items(&block, 0)
            .skip(2)
            .map(|item| (item.offset, (item.name.to_vec(), item.ino)))
            .collect();
        let expected: Vec<_> = shadow.iter().map(|(at, e)| (*at, e.clone())).collect();
        assert_eq!(listed, expected, "seed {seed} step {step}");
    }
    for at in shadow.into_keys() {
        format.remove(&mut block, at).unwrap();
    }
    assert!(format.is_empty(&block));
    assert_eq!(block, first_block(format, len), "an emptied block is as new, seed {seed}");
}

#[test]
fn a_block_agrees_with_a_map_over_random_changes() {
    for seed in 0..5 {
        for (format, len) in &FORMATS[..3] {
            shadow_run(*format, *len, seed);
        }
    }
}

fn full_block(format: Format, len: usize, rng: &mut Rng) -> Vec<u8> {
    let mut block = first_block(format, len);
    for ino in 10..40 {
        let name = vec![b'a' + rng.below(26) as u8; rng.range(1, 40) as usize];
        format.insert(&mut block, &name, ino, mode::REGULAR);
    }
    block
}

/// Calls every function that takes bytes. It only matters that none panics.
fn exercise(format: Format, block: &[u8], rng: &mut Rng) -> bool {
    let offset = rng.below(block.len() as u64 + 9) as usize;
    let _ = format.items(block, offset).map(|item| item.name.len()).sum::<usize>();
    let _ = (format.find(block, b"aaaa"), format.entry_at(block, offset), format.room(block));
    let _ = format.is_empty(block);
    let mut copy = block.to_vec();
    let _ = format.insert(&mut copy, b"another", 5, mode::FIFO);
    let _ = format.remove(&mut copy, offset);
    let _ = format.set_ino(&mut copy, offset, 5, mode::FIFO);
    format.validate(block, Some(7)).is_ok()
}

#[test]
fn damaged_blocks_never_panic_and_mostly_fail_validation() {
    let seed = 11;
    let mut rng = Rng::new(seed);
    let mut accepted = 0;
    for round in 0..10_000 {
        let (format, len) = FORMATS[round % 3];
        let mut block = full_block(format, len.min(1024 * (1 + round % 8)), &mut rng);
        for _ in 0..rng.range(1, 5) {
            let near = if rng.chance(0.7) { 300 } else { block.len() as u64 };
            let at = rng.below(near.min(block.len() as u64)) as usize;
            block[at] = rng.next_u64() as u8;
        }
        if rng.chance(0.1) {
            block.truncate(rng.below(block.len() as u64) as usize);
        }
        accepted += usize::from(exercise(format, &block, &mut rng));
    }
    // Validation accepts changes of inode numbers, of letters in names and of free space.
    assert!(accepted < 8_000, "seed {seed}: {accepted} of 10000 damaged blocks pass");
}

#[test]
fn random_bytes_never_panic() {
    let mut rng = Rng::new(12);
    for round in 0..2_000 {
        let (format, _) = FORMATS[round % 4];
        let len = rng.below(1200) as usize;
        let block: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        exercise(format, &block, &mut rng);
    }
}

/// For each field that is made wrong, the error names its offset.
#[test]
fn validation_names_the_place_of_each_wrong_field() {
    let f = Format::Modern;
    let good = {
        let mut block = first_block(f, 4096);
        assert_eq!(f.insert(&mut block, b"abcde", 9, mode::REGULAR).unwrap().offset, 32);
        block
    };
    let wrong = |at: usize, value: u8| {
        let mut block = good.clone();
        block[at] = value;
        f.validate(&block, Some(7)).unwrap_err()
    };
    assert_eq!(wrong(0, 8).what, "a . that leads elsewhere");
    assert_eq!(wrong(12, b'x').what, "the first block does not begin with . and ..");
    assert_eq!(wrong(26, 8).what, "a . or .. that is no directory");
    assert_eq!(wrong(40, 17).offset, 32);
    assert_eq!(wrong(41, 255).what, "an entry crosses the end of its chunk");
    assert_eq!(wrong(42, 3).what, "an entry of an unknown kind");
    assert_eq!(wrong(43, 0).what, "a name is empty or longer than its entry");
    assert_eq!(wrong(44, b'/').what, "a name with a slash or a zero");
    assert_eq!(wrong(50, 1).what, "a name is not padded with zeros");
    assert_eq!(wrong(32, 0).what, "a free entry in the middle of its chunk");
    let mut dots = good.clone();
    f.insert(&mut dots, b"..", 9, mode::DIRECTORY).unwrap();
    assert_eq!(f.validate(&dots, Some(7)).unwrap_err().what, "a . or .. out of its place");
    assert!(f.validate(&good, None).is_err() && f.validate(&good[..4], None).is_err());
}
