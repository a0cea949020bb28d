//! Scrubs of a log: cancelled and resumed, at a rate, and in the classic profile.

use std::rc::Rc;

use crate::common::World;
use twin_disk::{Block, BlockDevice, Bytes, Class, Io, Origin};
use twin_fs::SnapshotView;
use twin_fs::scrub::{Scrub, ScrubFigures, ScrubHow, ScrubPhase};
use twin_fs::snapshots::Keep;
use twin_lfs::MkfsOptions;
use twin_rt::{MILLIS, SECS};

const FILES: u64 = 40;
const FILE_BYTES: usize = 40_000;

fn content(nth: u64) -> Vec<u8> {
    (0..FILE_BYTES as u64).map(|i| (i / 512 * 7 + (i % 512) * (nth + 3)) as u8).collect()
}

fn filled(options: &MkfsOptions) -> World {
    let options = MkfsOptions { segment_size: Some(64 << 10), ..options.clone() };
    let mut world = World::new(&options, 16 << 20);
    for nth in 0..FILES {
        let ino = world.create(&format!("file{nth}"));
        world.write(ino, 0, &content(nth));
    }
    world.reopen()
}

fn scrub(world: &World, scrub: &Rc<Scrub>, how: ScrubHow) -> ScrubFigures {
    world.rt.block_on(world.volume.scrub(scrub, how)).unwrap().unwrap();
    scrub.figures()
}

/// Changes a byte of what a file has on the disk, below the volume.
fn rot(world: &World, nth: u64) {
    let part = &content(nth)[8192..8192 + 512];
    let disk = world.disk.to_bytes();
    let at = disk.windows(512).step_by(512).position(|bytes| bytes == part).unwrap() * 512;
    let mut bad = disk[at..at + 512].to_vec();
    bad[77] ^= 2;
    let blocks = vec![Block::Bytes(Bytes::copy_of(&bad))];
    let io = Io::write(at as u64, blocks, Class::Data, Origin::User);
    world.rt.block_on(world.disk.submit(io)).unwrap().unwrap();
}

#[test]
fn a_scrub_that_was_cancelled_goes_on_where_it_was() {
    let world = filled(&MkfsOptions::modern([7; 16]));
    let all = scrub(&world, &Rc::default(), ScrubHow::default());
    assert_eq!((all.phase, all.flaws), (ScrubPhase::Complete, 0));
    assert!(all.inodes > FILES && all.read_bytes > FILES * FILE_BYTES as u64, "{all:?}");

    rot(&world, 2);
    let (slow, state) =
        (ScrubHow { bytes_per_second: 1 << 20, ..ScrubHow::default() }, Rc::new(Scrub::default()));
    let running = world.volume.scrub(&state, slow);
    let task = world.rt.spawn("scrub", running);
    world.rt.block_on(world.rt.sleep(700 * MILLIS)).unwrap();
    assert!(state.is_running());
    state.cancel();
    world.rt.block_on(task).unwrap().unwrap();
    let part = state.figures();
    assert_eq!(part.phase, ScrubPhase::Cancelled);
    assert!(part.inodes > 3 && part.inodes < all.inodes && part.flaws == 1, "{part:?}");

    let resume = ScrubHow { resume: true, ..ScrubHow::default() };
    let whole = scrub(&world, &state, resume);
    assert_eq!((whole.phase, whole.flaws), (ScrubPhase::Complete, 1));
    // The inode at which it was is looked at once more.
    assert!((all.inodes..=all.inodes + 130).contains(&whole.inodes), "{whole:?} {all:?}");
    let flaws = state.flaws();
    assert_eq!(flaws[0].path.as_deref(), Some("/file2"));
    assert_eq!(flaws[0].flaw.offset, Some(8192));
    let anew = scrub(&world, &state, ScrubHow::default());
    assert_eq!((anew.flaws, anew.inodes), (1, all.inodes), "a new one begins at the beginning");
}

#[test]
fn a_scrub_keeps_to_its_rate() {
    let world = filled(&MkfsOptions::modern([7; 16]));
    let began = world.rt.now();
    let how = ScrubHow { bytes_per_second: 1 << 20, ..ScrubHow::default() };
    let figures = scrub(&world, &Rc::default(), how);
    let least = figures.read_bytes * SECS / (1 << 20);
    assert!(world.rt.now() - began + SECS / 4 > least, "{figures:?}");
}

#[test]
fn what_a_scrub_finds_stays_an_error_and_nothing_is_changed() {
    let mut world = filled(&MkfsOptions::modern([7; 16]));
    rot(&world, 5);
    let before = world.disk.to_bytes();
    let state = Rc::new(Scrub::default());
    assert_eq!(scrub(&world, &state, ScrubHow::default()).flaws, 1);
    assert!(world.disk.to_bytes() == before);
    let ino = world.lookup("file5");
    let read = world.try_op(twin_fs::Op::Read { ino, off: 8192, len: 100 });
    assert!(read.unwrap_err().is_damage());
}

/// The first snapshot changes the superblock, and adds a file of the layout. A scrub of the same mount took the first
/// for a flaw, and did not look at the second.
#[test]
fn a_scrub_knows_the_superblock_of_the_first_snapshot_and_reads_the_records() {
    let world = filled(&MkfsOptions::modern([7; 16]));
    let (volume, state) = (&world.volume, Rc::new(Scrub::default()));
    let kept = volume.layout.keep(volume.core(), "a-name-to-be-found", Keep::Snapshot);
    world.rt.block_on(kept).unwrap().unwrap();
    let figures = scrub(&world, &state, ScrubHow::default());
    assert_eq!(figures.flaws, 0, "{:?}", state.flaws());

    let disk = world.disk.to_bytes();
    let name = b"a-name-to-be-found";
    let at = disk.windows(name.len()).position(|bytes| bytes == name).unwrap() / 512 * 512;
    let mut bad = disk[at..at + 512].to_vec();
    bad[500] ^= 2;
    let io =
        Io::write(at as u64, vec![Block::Bytes(Bytes::copy_of(&bad))], Class::Meta, Origin::User);
    world.rt.block_on(world.disk.submit(io)).unwrap().unwrap();
    assert_eq!(scrub(&world, &state, ScrubHow::default()).flaws, 1, "{:?}", state.flaws());
}

/// Nothing but the checksum of a partial segment tells that data of a classic volume has changed.
#[test]
fn a_scrub_of_a_classic_log_compares_whole_partial_segments() {
    let world = filled(&MkfsOptions::classic([7; 16]));
    let state = Rc::new(Scrub::default());
    assert_eq!(scrub(&world, &state, ScrubHow::default()).flaws, 0);
    rot(&world, 9);
    assert_eq!(scrub(&world, &state, ScrubHow::default()).flaws, 1);
    let what = state.flaws()[0].flaw.what.clone();
    assert!(what.contains("do not match their only checksum"), "{what}");
}
