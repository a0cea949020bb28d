//! Scrubs of a clustered volume in use: its journal, maps, state and tables, and what memory has.

use std::rc::Rc;

use crate::common::World;
use twin_disk::{Block, BlockDevice, Bytes, Class, Io, Origin};
use twin_ffs::MkfsOptions;
use twin_fs::scrub::{NamedFlaw, Scrub, ScrubHow};
use twin_fs::{Op, ROOT_INO};

fn filled() -> World {
    let mut world = World::new(&MkfsOptions::modern([3; 16]), 16 << 20);
    for nth in 0..20u8 {
        let ino = world.create(&format!("file{nth}"));
        world.write(ino, 0, &[nth + 1; 20_000]);
    }
    world.reopen()
}

/// The flaws that a scrub finds.
fn flaws(world: &World) -> Vec<NamedFlaw> {
    let scrub = Rc::new(Scrub::default());
    world.rt.block_on(world.volume.scrub(&scrub, ScrubHow::default())).unwrap().unwrap();
    scrub.flaws()
}

/// Changes bytes of the disk, below the volume.
fn put(world: &World, at: u64, bytes: &[u8]) {
    let blocks = vec![Block::Bytes(Bytes::copy_of(bytes))];
    let io = Io::write(at, blocks, Class::Meta, Origin::User);
    world.rt.block_on(world.disk.submit(io)).unwrap().unwrap();
}

fn sync(world: &mut World) {
    world.op(Op::Fsync { ino: ROOT_INO, data_only: false });
}

/// The journal is not read while all is well: only a scrub tells, before the power fails, that a replay
/// would end early.
#[test]
fn a_record_of_the_journal_that_rots_is_found_in_every_block() {
    let mut world = filled();
    assert_eq!(flaws(&world), []);
    let before = world.disk.to_bytes();
    let ino = world.create("new");
    world.write(ino, 0, &[9; 5000]);
    sync(&mut world);
    assert_eq!(flaws(&world), [], "what waits in the journal is no flaw");
    let sb = world.volume.layout.superblock().clone();
    let block = u64::from(sb.geometry.block_size);
    let now = world.disk.to_bytes();
    let ring = sb.journal_start + 2 * block..sb.journal_start + sb.journal_bytes;
    let written: Vec<u64> = ring
        .step_by(block as usize)
        .filter(|&at| {
            before[at as usize..(at + block) as usize] != now[at as usize..(at + block) as usize]
        })
        .collect();
    assert!(written.len() > 2, "{written:?}");
    for at in written {
        let good = &now[at as usize..at as usize + 512];
        let mut bad = good.to_vec();
        bad[5] ^= 1;
        put(&world, at, &bad);
        let found = flaws(&world);
        assert_eq!(found.len(), 1, "byte {at}: {found:?}");
        assert!(found[0].flaw.what.contains("of the journal cannot be replayed"), "{found:?}");
        put(&world, at, good);
    }
    assert_eq!(flaws(&world), []);
}

#[test]
fn older_maps_of_a_group_are_found_although_their_checksum_is_right() {
    let mut world = filled();
    let sb = world.volume.layout.superblock().clone();
    let at = sb.geometry.byte_of(sb.cg_addr(0)) as usize;
    let block = sb.geometry.block_size as usize;
    let older = world.disk.to_bytes()[at..at + block].to_vec();
    for nth in 0..5 {
        let ino = world.create(&format!("more{nth}"));
        world.write(ino, 0, &[7; 30_000]);
    }
    let world = world.reopen();
    assert_ne!(world.disk.to_bytes()[at..at + block], older[..]);
    put(&world, at as u64, &older);
    let found = flaws(&world);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].flaw.what.contains("its maps are old ones"), "{found:?}");
}

/// There are no checksums of data, but what is in memory tells.
#[test]
fn data_that_is_in_memory_is_compared_with_the_device() {
    let mut world = filled();
    let ino = world.lookup("file4");
    assert_eq!(world.read(ino, 0, 20_000), vec![5; 20_000]);
    let disk = world.disk.to_bytes();
    let at = disk.windows(512).step_by(512).position(|part| part == [5; 512]).unwrap() * 512;
    put(&world, at as u64, &[6; 512]);
    let found = flaws(&world);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].path.as_deref(), Some("/file4"));
    assert!(found[0].flaw.what.contains("memory still has"), "{found:?}");
    // Out of memory, nothing tells.
    world.volume.core().drop_caches();
    assert_eq!(flaws(&world), []);
}

#[test]
fn a_check_finds_copies_that_nobody_reads_and_a_repair_writes_them_anew() {
    let world = filled();
    let sb = world.volume.layout.superblock().clone();
    world.rt.block_on(world.volume.close()).unwrap().unwrap();
    let replica = sb.geometry.byte_of(sb.group_start(1));
    let header = sb.journal_start;
    for at in [replica, header, twin_ffs::format::STATE_AT] {
        put(&world, at, &[0; 512]);
        let device = || Rc::clone(&world.disk) as Rc<dyn BlockDevice>;
        let mut quiet = |_| {};
        let checking = twin_ffs::check::check(device(), &mut quiet);
        let report = world.rt.block_on(checking).unwrap().unwrap();
        assert_eq!(report.findings.len(), 1, "byte {at}: {report}");
        let mut quiet = |_| {};
        let repairing = twin_ffs::check::repair(&world.rt, device(), &mut quiet);
        world.rt.block_on(repairing).unwrap().unwrap();
        let mut quiet = |_| {};
        let again = twin_ffs::check::check(device(), &mut quiet);
        let again = world.rt.block_on(again).unwrap().unwrap();
        assert!(again.is_clean(), "byte {at}: {again}");
    }
}
