//! Files with policies of their own: capacity and contents hold whatever is done, and a loop beside a set
//! that is used often is served better.

use std::collections::BTreeMap;
use std::rc::Rc;

use twin_disk::{Block, Bytes};
use twin_rt::Rng;

use super::super::{REGISTRY, for_cache};
use crate::{Cache, Capacity, FileFrames, Lbn};

const FRAME: u64 = 64;

fn cache(policy: &str, frames: u64) -> Cache {
    let policy = for_cache(policy).unwrap().make(Capacity::frames(frames));
    Cache::new(frames * FRAME, FRAME, policy)
}

fn content(ino: u64, lbn: Lbn, version: u64) -> Block {
    let mut bytes = vec![0; FRAME as usize];
    bytes[..8].copy_from_slice(&ino.to_le_bytes());
    bytes[8..16].copy_from_slice(&lbn.to_le_bytes());
    bytes[16..24].copy_from_slice(&version.to_le_bytes());
    Block::Bytes(Bytes::copy_of(&bytes))
}

/// Reads a block. True if it was in memory.
fn read(cache: &Cache, file: &Rc<FileFrames>, lbn: Lbn, version: u64) -> bool {
    let expected = content(file.ino(), lbn, version).to_bytes();
    match cache.get(file, lbn) {
        Some(frame) => {
            assert_eq!(frame.block().to_bytes(), expected, "block {lbn} of file {}", file.ino());
            true
        }
        None => {
            cache.insert(file, lbn, Some(content(file.ino(), lbn, version)));
            false
        }
    }
}

#[test]
fn capacity_and_contents_hold_while_files_change_their_policies() {
    let policies: Vec<_> = REGISTRY.iter().filter(|entry| !entry.needs_future()).collect();
    for (n, volume) in policies.iter().enumerate() {
        let mut rng = Rng::new(n as u64);
        let frames = 40;
        let cache = cache(volume.name, frames);
        let files: Vec<Rc<FileFrames>> = (0..6).map(FileFrames::new).collect();
        // What is on the device, and what is newer in memory.
        let mut versions: BTreeMap<(u64, Lbn), u64> = BTreeMap::new();
        let mut dirty = Vec::new();
        for step in 0..20_000u64 {
            let file = &files[rng.below(6) as usize];
            let lbn = rng.below(30) as Lbn;
            let version = versions.entry((file.ino(), lbn)).or_default();
            match rng.below(100) {
                0..80 => _ = read(&cache, file, lbn, *version),
                80..90 => {
                    read(&cache, file, lbn, *version);
                    *version = step;
                    let frame = cache.peek(file, lbn).unwrap();
                    frame.change(|block| *block = content(file.ino(), lbn, step));
                    cache.mark_dirty(file, &frame);
                    dirty.push((Rc::clone(file), lbn));
                }
                90..95 => {
                    for (file, lbn) in dirty.drain(..) {
                        if let Some(frame) = cache.peek(&file, lbn).filter(|f| f.is_dirty()) {
                            cache.mark_clean(&file, &frame);
                        }
                    }
                }
                95..97 => {
                    // As a truncation: what was there is gone for good.
                    cache.remove_range(file, lbn..30);
                    let gone = (file.ino(), lbn)..(file.ino(), 30);
                    versions.range_mut(gone).for_each(|(_, version)| *version = step);
                }
                _ => {
                    let own = (rng.below(3) > 0)
                        .then(|| policies[rng.below(policies.len() as u64) as usize]);
                    cache.set_policy(file, own);
                }
            }
            let (resident, most) = (cache.resident_bytes(), frames * FRAME);
            assert!(
                resident <= most.max(cache.dirty_bytes() + FRAME),
                "{}: {resident} bytes at step {step}, {} dirty",
                volume.name,
                cache.dirty_bytes()
            );
            let counted: usize = files.iter().map(|file| file.counts().0).sum();
            assert_eq!(resident, counted as u64 * FRAME, "{}", volume.name);
            if let Some(divided) = cache.divided() {
                let clean = resident - cache.dirty_bytes();
                assert_eq!(divided.frames().iter().sum::<u64>() * FRAME, clean, "{}", volume.name);
            }
        }
    }
}

/// Hits of the set and of the loop, in shares, with these policies.
fn loop_beside_set(volume: &str, own: Option<&str>) -> (f64, f64) {
    let cache = cache(volume, 1000);
    let (hot, looping) = (FileFrames::new(1), FileFrames::new(2));
    if let Some(own) = own {
        cache.set_policy(&looping, Some(for_cache(own).unwrap()));
    }
    let mut rng = Rng::new(1);
    let (mut of_hot, mut of_loop) = (0, 0);
    let turns = 200_000;
    for turn in 0..turns {
        of_hot += u64::from(read(&cache, &hot, rng.below(600) as Lbn, 0));
        of_loop += u64::from(read(&cache, &looping, turn % 2000, 0));
    }
    (of_hot as f64 / turns as f64, of_loop as f64 / turns as f64)
}

#[test]
fn a_loop_with_mru_hits_beside_a_set_that_keeps_its_hits() {
    let (hot, looping) = loop_beside_set("lru", None);
    assert!(looping < 0.01 && hot < 0.7, "{hot} {looping}");
    let (own_hot, own_looping) = loop_beside_set("lru", Some("mru"));
    // The set needs 600 of 1,000 frames and gets half, since half of the lookups are its own; in the
    // other half a quarter of the loop stays. Under one LRU the loop costs the set hits and has none.
    assert!(own_looping > 0.2, "{own_looping}");
    assert!(
        own_hot > hot + 0.1 && own_hot + own_looping > hot + looping + 0.1,
        "{own_hot} {own_looping} {hot}"
    );
}

#[test]
fn a_part_that_nobody_uses_any_more_gives_its_frames() {
    let cache = cache("lru", 100);
    let (one, other) = (FileFrames::new(1), FileFrames::new(2));
    cache.set_policy(&one, Some(for_cache("mru").unwrap()));
    (0..100).for_each(|lbn| _ = read(&cache, &one, lbn, 0));
    for turn in 0..1_000_000 {
        read(&cache, &other, turn % 90, 0);
    }
    assert_eq!(cache.divided().unwrap().frames(), [90, 10]);
    // A policy of the volume again, and the frames are its own.
    cache.set_policy(&one, None);
    assert_eq!(cache.divided().unwrap().frames(), [100, 0]);
    assert_eq!(cache.resident_bytes(), 100 * FRAME);
}

#[test]
fn policies_follow_a_capacity_that_changes() {
    for entry in REGISTRY.iter().filter(|entry| !entry.needs_future()) {
        // Made for one frame, as in a cache that joins a memory before it is used.
        let mut hits = [0, 0];
        for (n, first) in [1, 500].into_iter().enumerate() {
            let mut policy = entry.make(Capacity::frames(first));
            policy.resized(Capacity::frames(500));
            let cache = Cache::new(500 * FRAME, FRAME, policy);
            let file = FileFrames::new(1);
            let mut rng = Rng::new(7);
            for turn in 0..30_000u64 {
                // A set that is used often, and blocks that come once.
                let lbn = if turn % 2 == 0 { rng.below(300) as Lbn } else { 1000 + turn as Lbn };
                hits[n] += u64::from(read(&cache, &file, lbn, 0));
            }
        }
        let [grown, made] = hits;
        assert!(grown.abs_diff(made) * 100 <= made, "{}: {grown} and {made}", entry.name);
    }
}
