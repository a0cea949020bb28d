//! What reading leaves in memory.

use crate::common::World;
use twin_fs::{FsError, Op, Reply, Settings, XattrMode, file_type};
use twin_lfs::{LfsSettings, MkfsOptions};
use twin_rt::Rng;

const BLOCK: usize = 4096;
const BLOCKS: usize = 1024;

/// What a block of the file holds: no two are alike.
fn block(lbn: usize) -> Vec<u8> {
    let mut rng = Rng::new(lbn as u64 + 1);
    (0..BLOCK).map(|_| rng.below(256) as u8).collect()
}

/// A volume with a file of 4 MiB that is in no memory.
fn cold(settings: Settings) -> (World, u64) {
    let options = MkfsOptions::modern([1; 16]);
    let mut world = World::with(&options, 64 << 20, settings, LfsSettings::default());
    let ino = world.create("f");
    for lbn in 0..BLOCKS {
        world.write(ino, (lbn * BLOCK) as u64, &block(lbn));
    }
    (world.reopen(), ino)
}

fn read(world: &mut World, ino: u64, lbn: usize, blocks: usize) {
    let want: Vec<u8> = (lbn..lbn + blocks).flat_map(block).collect();
    let got = world.read(ino, (lbn * BLOCK) as u64, (blocks * BLOCK) as u32);
    assert!(got == want, "block {lbn}");
}

#[test]
fn who_reads_in_order_leaves_memory_to_others() {
    for drop_behind in [false, true] {
        let (mut world, ino) = cold(Settings { drop_behind, ..Settings::default() });
        let before = world.volume.core().cache.resident_bytes();
        (0..BLOCKS).step_by(32).for_each(|lbn| read(&mut world, ino, lbn, 32));
        let kept = world.volume.core().cache.resident_bytes() - before;
        let most = if drop_behind { 256 << 10 } else { u64::MAX };
        let least = if drop_behind { 0 } else { (BLOCKS * BLOCK) as u64 };
        assert!((least..=most).contains(&kept), "drop_behind={drop_behind}: {kept} bytes");
        // What was written has not been read: it stays.
        world.write(ino, 0, &block(0));
        let before = world.volume.core().cache.resident_bytes();
        read(&mut world, ino, 0, 1);
        assert_eq!(world.volume.core().cache.resident_bytes(), before);
    }
}

/// Marks the file as media of this rate and opens it for reading.
fn open_as_media(world: &mut World, ino: u64, rate: u64) -> Result<Reply, FsError> {
    for (name, value) in
        [(file_type::TYPE, file_type::media().to_owned()), (file_type::RATE, rate.to_string())]
    {
        let (name, value) = (name.into(), value.into_bytes().into());
        world.try_op(Op::SetXattr { ino, name, value, mode: XattrMode::Any }).unwrap();
    }
    world.try_op(Op::Open { ino, read: true, write: false, truncate: false })
}

fn typed() -> Settings {
    Settings { file_types: true, ..Settings::default() }
}

#[test]
fn a_stream_reads_ahead_at_its_rate_and_leaves_nothing_in_memory() {
    let (mut world, ino) = cold(typed());
    open_as_media(&mut world, ino, 100_000).unwrap();
    let before = world.volume.core().cache.resident_bytes();
    // Two chunks of a round are there, without a read; a plain file would have nothing.
    assert!(before > 8 * BLOCK as u64, "{before} bytes are there");
    let hits = world.volume.core().cache.stats().hits;
    for lbn in (0..BLOCKS).step_by(4) {
        read(&mut world, ino, lbn, 4);
        let kept = world.volume.core().cache.resident_bytes();
        assert!(kept <= before + 64 * BLOCK as u64, "block {lbn}: {kept} bytes");
    }
    assert_eq!(
        world.volume.core().cache.stats().hits,
        hits,
        "its reads are not counted with others"
    );
    world.try_op(Op::Release { ino }).unwrap();
    let left = world.volume.core().cache.resident_bytes();
    assert!(left <= 16 * BLOCK as u64, "{left} bytes of it are left");
}

#[test]
fn a_stream_that_cannot_be_served_is_refused_at_open_and_another_one_leaves_room() {
    let (mut world, ino) = cold(typed());
    let most = |world: &mut World| {
        let mut opened = 0;
        while world.try_op(Op::Open { ino, read: true, write: false, truncate: false }).is_ok() {
            opened += 1;
        }
        opened
    };
    let refused = open_as_media(&mut world, ino, 1 << 40);
    assert!(matches!(refused, Err(FsError::Refused(_))), "{refused:?}");
    assert_eq!(world.volume.core().refs(ino).opens, 0, "a refused open is none");
    open_as_media(&mut world, ino, 1_000_000).unwrap();
    let more = most(&mut world);
    assert!((2..100).contains(&more), "{more}");
    assert_eq!(world.volume.core().stream_counts().admitted, more + 1);
    // A release makes room for exactly one.
    world.try_op(Op::Release { ino }).unwrap();
    assert_eq!(most(&mut world), 1);
    // A writer is no stream.
    world.try_op(Op::Open { ino, read: true, write: true, truncate: false }).unwrap();
}

#[test]
fn without_the_setting_an_attribute_makes_no_stream() {
    let (mut world, ino) = cold(Settings::default());
    open_as_media(&mut world, ino, 1 << 40).unwrap();
    assert_eq!(world.volume.core().stream_counts(), Default::default());
}

#[test]
fn a_reader_who_goes_elsewhere_or_writes_meanwhile_reads_what_is_there() {
    let (mut world, ino) = cold(typed());
    open_as_media(&mut world, ino, 200_000).unwrap();
    for lbn in [0, 4, 700, 704, 20, 1020, 0, 8] {
        read(&mut world, ino, lbn, 4);
    }
    world.write(ino, 12 * BLOCK as u64, &block(500));
    assert_eq!(world.read(ino, 12 * BLOCK as u64, BLOCK as u32), block(500));
    world.try_op(Op::Release { ino }).unwrap();
}
