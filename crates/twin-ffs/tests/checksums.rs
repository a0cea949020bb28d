//! Volumes with checksums of data: what rots is an error, what a power failure leaves is not.

use std::rc::Rc;

use crate::common::World;
use twin_disk::{Block, BlockDevice, Bytes, Class, Io, Origin};
use twin_ffs::{MkfsOptions, check};
use twin_fs::{Op, ROOT_INO};
use twin_rt::SECS;

fn options() -> MkfsOptions {
    MkfsOptions { data_checksums: true, ..MkfsOptions::modern([5; 16]) }
}

fn content(nth: u64) -> Vec<u8> {
    (0..60_000_u64).map(|i| (i / 512 * 7 + (i % 512) * (nth + 3)) as u8).collect()
}

fn filled() -> World {
    let mut world = World::new(&options(), 16 << 20);
    for nth in 0..10 {
        let ino = world.create(&format!("file{nth}"));
        world.write(ino, 0, &content(nth));
    }
    world
}

fn place_of(world: &World, part: &[u8]) -> u64 {
    let disk = world.disk.to_bytes();
    disk.windows(512).step_by(512).position(|bytes| bytes == part).unwrap() as u64 * 512
}

fn put(world: &World, at: u64, bytes: &[u8]) {
    let blocks = vec![Block::Bytes(Bytes::copy_of(bytes))];
    let io = Io::write(at, blocks, Class::Meta, Origin::User);
    world.rt.block_on(world.disk.submit(io)).unwrap().unwrap();
}

fn findings(world: &World) -> Vec<String> {
    let mut quiet = |_| {};
    let device = Rc::clone(&world.disk) as Rc<dyn BlockDevice>;
    let report = world.rt.block_on(check::check_data(device, &mut quiet)).unwrap().unwrap();
    report.findings.iter().map(ToString::to_string).collect()
}

#[test]
fn files_survive_closing_and_the_check_compares_their_data() {
    let mut world = filled().reopen();
    for nth in 0..10 {
        let ino = world.lookup(&format!("file{nth}"));
        assert!(world.read(ino, 0, 70_000) == content(nth), "{nth}");
    }
    world.rt.block_on(world.volume.close()).unwrap().unwrap();
    assert_eq!(findings(&world), [""; 0]);
}

#[test]
fn data_that_rots_is_an_error_and_is_found_with_its_file() {
    let world = filled();
    world.rt.block_on(world.volume.close()).unwrap().unwrap();
    let at = place_of(&world, &content(4)[9 * 1024..9 * 1024 + 512]);
    put(&world, at, &[1; 512]);
    let found = findings(&world);
    assert!(found.len() == 1 && found[0].contains("block 1 (bytes 8192"), "{found:?}");
    let mut world = world.crash();
    let ino = world.lookup("file4");
    let read = world.try_op(Op::Read { ino, off: 9 * 1024, len: 100 });
    assert!(read.unwrap_err().is_damage());
    // Written anew it is good again.
    world.write(ino, 8192, &content(4)[8192..16384]);
    let mut world = world.reopen();
    assert!(world.read(ino, 0, 70_000) == content(4));
}

#[test]
fn after_a_power_failure_what_was_in_doubt_is_taken_as_it_is() {
    let mut world = filled().reopen();
    let ino = world.lookup("file3");
    world.write(ino, 0, &content(77)[..30_000]);
    world.op(Op::Fsync { ino, data_only: true });
    let mut world = world.crash();
    let read = world.read(ino, 0, 70_000);
    assert!(read[..30_000] == content(77)[..30_000] && read[30_000..] == content(3)[30_000..]);
    let at = place_of(&world, &content(77)[1024..1536]);
    put(&world, at, &[9; 512]);
    world.volume.core().drop_caches();
    assert!(world.try_op(Op::Read { ino, off: 1024, len: 10 }).unwrap_err().is_damage());
}

/// A region at rest is compared after a power failure too.
#[test]
fn what_was_at_rest_when_the_power_failed_is_compared() {
    let mut world = filled().reopen();
    let ino = world.create("new");
    world.write(ino, 0, &[8; 100]);
    world.op(Op::Fsync { ino: ROOT_INO, data_only: false });
    world.rt.block_on(world.rt.sleep(20 * SECS)).unwrap();
    let at = place_of(&world, &content(6)[2048..2560]);
    put(&world, at, &[2; 512]);
    let mut world = world.crash();
    let ino = world.lookup("file6");
    assert!(world.try_op(Op::Read { ino, off: 2048, len: 10 }).unwrap_err().is_damage());
    let other = world.lookup("file7");
    assert!(world.read(other, 0, 70_000) == content(7));
}

#[test]
fn a_volume_without_them_is_what_it_was() {
    let plain = MkfsOptions::modern([5; 16]).superblock(16 << 20, 512).unwrap();
    assert!(!plain.data_checksums && plain.size == 16 << 20);
    assert_eq!(plain.encode(0)[32..40], [0; 8]);
    let with = options().superblock(16 << 20, 512).unwrap();
    assert!(with.size < 16 << 20 && with.encode(0)[32] == 1);
}
