//! What reading leaves in memory.

mod common;

use common::World;
use twin_fs::Settings;
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
        let before = world.volume.core.cache.resident_bytes();
        (0..BLOCKS).step_by(32).for_each(|lbn| read(&mut world, ino, lbn, 32));
        let kept = world.volume.core.cache.resident_bytes() - before;
        let most = if drop_behind { 256 << 10 } else { u64::MAX };
        let least = if drop_behind { 0 } else { (BLOCKS * BLOCK) as u64 };
        assert!((least..=most).contains(&kept), "drop_behind={drop_behind}: {kept} bytes");
        // What was written has not been read: it stays.
        world.write(ino, 0, &block(0));
        let before = world.volume.core.cache.resident_bytes();
        read(&mut world, ino, 0, 1);
        assert_eq!(world.volume.core.cache.resident_bytes(), before);
    }
}
