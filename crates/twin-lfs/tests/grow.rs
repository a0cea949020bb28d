//! Volumes that become larger while they are in use.

use std::rc::Rc;

use crate::common::{World, both_profiles};
use twin_disk::{Block, BlockDevice, Buf, Class, Io, MemDisk, Origin};
use twin_fs::snapshots::{HeadChange, Keep};
use twin_fs::{Data, FsError, Growth, Op, Reply, SnapshotView};
use twin_lfs::format::SUPERBLOCK_BYTES;
use twin_lfs::{Lfs, MkfsOptions, check, read_superblock};
use twin_rt::{ClockOnly, Rng, Rt};

/// With segments of 64 KiB and blocks of 4 KiB, a block of the usage table is about 16 MiB of the volume.
const SIZE: u64 = 8 << 20;
const WITHIN_A_BLOCK: u64 = 12 << 20;
const BEYOND: u64 = 40 << 20;

fn small_segments(options: MkfsOptions) -> MkfsOptions {
    MkfsOptions { segment_size: Some(64 << 10), ..options }
}

fn grow(world: &World, to: Option<u64>) -> Result<Growth, FsError> {
    world.rt.block_on(world.volume.grow(to)).unwrap()
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// Writes files until there is no room. Gives how many have all of their bytes.
fn fill(world: &mut World, prefix: &str) -> u64 {
    for nth in 0.. {
        let ino = world.create(&format!("{prefix}{nth}"));
        let data = Data::Bytes(Buf::copy_of(&pattern(nth, 100_000)).freeze());
        match world.try_op(Op::Write { ino, off: 0, data }) {
            Ok(_) => {}
            Err(FsError::NoSpace) => return nth,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!()
}

fn assert_filled(world: &mut World, prefix: &str, files: u64) {
    for nth in 0..files {
        let ino = world.lookup(&format!("{prefix}{nth}"));
        assert_eq!(world.read(ino, 0, 100_000), pattern(nth, 100_000), "{prefix}{nth}");
    }
}

fn close(world: &World) {
    world.rt.block_on(world.volume.close()).unwrap().unwrap();
}

fn free_bytes(world: &World) -> u64 {
    let stat = world.volume.stat();
    stat.free * u64::from(stat.block_size)
}

#[test]
fn a_full_volume_grows_and_goes_on_and_has_everything_afterwards() {
    both_profiles(|options| {
        for size in [WITHIN_A_BLOCK, BEYOND] {
            let mut world = World::new(&small_segments(options.clone()), SIZE);
            let before = fill(&mut world, "a");
            let grown = grow(&world, Some(size)).unwrap();
            assert_eq!(grown, Growth { before_bytes: SIZE, after_bytes: size });
            let share = free_bytes(&world) as f64 / (size - SIZE) as f64;
            assert!((0.75..1.0).contains(&share), "{share}");
            let after = fill(&mut world, "b");
            assert!(after * 100_000 * 10 > (size - SIZE) * 7, "{after}");
            for end in ["goes on", "is closed", "loses its power"] {
                world = match end {
                    "is closed" => world.reopen(),
                    "loses its power" => {
                        world.op(Op::Sync);
                        world.crash()
                    }
                    _ => world,
                };
                assert_filled(&mut world, "a", before);
                assert_filled(&mut world, "b", after);
                assert_eq!(world.volume.layout.superblock().size(), size, "{end}");
            }
            close(&world);
            world.assert_clean();
        }
    });
}

/// What is durable once the first superblock is: the volume as it was, that superblock, and the copies at the new end.
#[test]
fn a_power_failure_right_behind_the_superblock_leaves_a_volume_of_the_new_size() {
    both_profiles(|options| {
        let mut world = World::new(&small_segments(options), SIZE);
        let before = fill(&mut world, "a");
        world.op(Op::Sync);
        let old = world.disk.to_bytes();
        grow(&world, Some(BEYOND)).unwrap();
        let grown = world.disk.to_bytes();
        let mut left = old.clone();
        left.resize(BEYOND as usize, 0);
        let superblock = SUPERBLOCK_BYTES as usize;
        left[..superblock].copy_from_slice(&grown[..superblock]);
        let (old_end, new_end) = (SIZE as usize, BEYOND as usize);
        left[new_end - superblock..].copy_from_slice(&grown[new_end - superblock..]);
        // The checkpoints were copied as they were; those of `grown` have one more.
        let checkpoints = 3 * superblock;
        left[new_end - checkpoints..new_end - superblock]
            .copy_from_slice(&old[old_end - checkpoints..old_end - superblock]);
        drop(world);
        let mut world = World::of_disk(Rc::new(MemDisk::from_bytes(left)));
        assert_eq!(world.volume.layout.superblock().size(), BEYOND);
        let after = fill(&mut world, "b");
        assert!(after * 100_000 * 10 > (BEYOND - SIZE) * 7, "{after}");
        let mut world = world.reopen();
        assert_filled(&mut world, "a", before);
        assert_filled(&mut world, "b", after);
        close(&world);
        world.assert_clean();
    });
}

#[test]
fn a_volume_grows_again_and_again() {
    both_profiles(|options| {
        let mut world = World::new(&small_segments(options), SIZE);
        let mut files = Vec::new();
        for (nth, size) in (0..).zip([9 << 20, 16 << 20, 17 << 20, 40 << 20, 41 << 20, 60 << 20]) {
            let prefix = format!("round{nth}-");
            files.push((prefix.clone(), fill(&mut world, &prefix)));
            grow(&world, Some(size)).unwrap();
            if nth % 2 == 0 {
                world = world.reopen();
            }
        }
        for (prefix, count) in files {
            assert_filled(&mut world, &prefix, count);
        }
        close(&world);
        world.assert_clean();
    });
}

#[test]
fn without_a_size_a_volume_takes_what_its_device_has() {
    let world = World::new(&MkfsOptions::modern([1; 16]), SIZE);
    world.rt.block_on(world.disk.grow(Some(BEYOND))).unwrap().unwrap();
    let world = world.reopen();
    assert_eq!(world.volume.layout.superblock().size(), SIZE, "a larger device says nothing");
    assert_eq!(grow(&world, None).unwrap().after_bytes, BEYOND);
    assert!(matches!(grow(&world, None), Err(FsError::Invalid(why)) if why.contains("no room")));
    let world = world.reopen();
    close(&world);
    world.assert_clean();
}

#[test]
fn what_gains_nothing_or_would_lose_something_is_refused_and_changes_nothing() {
    both_profiles(|options| {
        let world = World::new(&options, 64 << 20);
        let size = 64 << 20;
        let before = world.disk.to_bytes();
        for (to, word) in
            [(size - 4096, "smaller"), (0, "smaller"), (size, "no room"), (size + 4096, "no room")]
        {
            match grow(&world, Some(to)) {
                Err(FsError::Invalid(why)) => assert!(why.contains(word), "{to}: {why}"),
                other => panic!("{to}: {other:?}"),
            }
        }
        assert!(matches!(grow(&world, Some(1 << 62)), Err(FsError::Invalid(_))));
        assert!(world.disk.to_bytes() == before);
        world.rt.block_on(world.disk.grow(Some(80 << 20))).unwrap().unwrap();
        assert!(
            matches!(grow(&world, Some(70 << 20)), Err(FsError::Invalid(_))),
            "it would not shrink"
        );
    });
}

#[test]
fn the_copies_are_at_the_new_end() {
    let mut world = World::new(&small_segments(MkfsOptions::modern([1; 16])), SIZE);
    let ino = world.create("f");
    world.write(ino, 0, &pattern(1, 50_000));
    grow(&world, Some(BEYOND)).unwrap();
    close(&world);
    let sb = world.volume.layout.superblock().clone();
    let zeros = |at: u64| {
        let zeros = vec![Block::Zero(SUPERBLOCK_BYTES as u32)];
        let io = Io::write(at, zeros, Class::Meta, Origin::Checkpoint);
        world.rt.block_on(world.disk.submit(io)).unwrap().unwrap();
    };
    [0, 4096, 8192].into_iter().for_each(zeros);
    let found = world.rt.block_on(read_superblock(&*world.disk)).unwrap().unwrap();
    assert_eq!(found, sb);
    let mut world = world.crash();
    let ino = world.lookup("f");
    assert_eq!(world.read(ino, 0, 50_000), pattern(1, 50_000));
}

#[test]
fn states_that_were_kept_before_are_read_and_become_the_head() {
    both_profiles(|options| {
        let mut world = World::new(&small_segments(options), SIZE);
        let files = {
            let ino = world.create("a");
            world.write(ino, 0, &pattern(1, 300_000));
            ino
        };
        let keep = |world: &World, name: &str| {
            let (volume, rt) = (world.volume.clone(), world.rt.clone());
            rt.block_on(volume.layout.keep(volume.core(), name, Keep::Snapshot)).unwrap().unwrap();
        };
        keep(&world, "small");
        grow(&world, Some(BEYOND)).unwrap();
        world.write(files, 0, &pattern(2, 300_000));
        // The log goes where the volume was not before.
        let big = world.create("big");
        for part in 0..200u64 {
            world.write(big, part * 100_000, &pattern(part, 100_000));
        }
        keep(&world, "large");
        for _ in 0..2 {
            let view = world.rt.block_on(world.volume.open_state("small", 1 << 20));
            let view = view.unwrap().unwrap();
            let read = Op::Read { ino: files, off: 0, len: 300_000 };
            let request = twin_fs::Request::root(1, read);
            let Ok(Reply::Data(blocks)) = world.rt.block_on(view.execute(request)).unwrap() else {
                panic!("no data")
            };
            let bytes: Vec<u8> = blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect();
            assert_eq!(bytes, pattern(1, 300_000));
            drop(view);
            world = world.reopen();
        }
        for (name, seed) in [("small", 1), ("large", 2), ("small", 1)] {
            close(&world);
            world.assert_clean();
            world.rt.crash();
            let rt = Rt::new(ClockOnly::default(), 5);
            let change = HeadChange::Rollback(name.into());
            rt.block_on(Lfs::set_head(&rt, Rc::clone(&world.disk) as _, &change)).unwrap().unwrap();
            rt.crash();
            world = world.crash();
            assert_eq!(world.read(files, 0, 300_000), pattern(seed, 300_000));
            let new = world.create(&format!("after {seed}"));
            world.write(new, 0, &pattern(9, 2 << 20));
        }
        close(&world);
        world.assert_clean();
    });
}

#[test]
fn a_repair_of_a_volume_that_has_grown_keeps_its_table_in_two_parts() {
    both_profiles(|options| {
        let mut world = World::new(&small_segments(options), SIZE);
        grow(&world, Some(BEYOND)).unwrap();
        let files = fill(&mut world, "a");
        close(&world);
        // Both slots, and their copies: the inode map is looked for in the log.
        let sb = world.volume.layout.superblock().clone();
        for at in [0, 1].into_iter().flat_map(|slot| sb.checkpoint_places(slot)) {
            let zeros = vec![Block::Zero(4096)];
            let io = Io::write(at, zeros, Class::Meta, Origin::Checkpoint);
            world.rt.block_on(world.disk.submit(io)).unwrap().unwrap();
        }
        let options = check::CheckOptions { data: true };
        let (disk, mut ignore) = (Rc::clone(&world.disk) as _, |_| {});
        let repairing = check::repair(&world.rt, disk, &options, &mut ignore);
        world.rt.block_on(repairing).unwrap().unwrap();
        world.assert_clean();
        let mut world = world.crash();
        assert_eq!(world.volume.layout.superblock(), &sb);
        let found = (0..files).filter(|nth| {
            let name = format!("a{nth}");
            world
                .try_op(Op::Lookup { dir: twin_fs::ROOT_INO, name: name.as_bytes().into() })
                .is_ok()
        });
        assert!(found.count() as u64 >= files.min(1), "{files}");
    });
}
