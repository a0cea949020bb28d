//! Bugs that random runs found, each told once.

use crate::common::{World, both_profiles};
use twin_disk::{Block, BlockDevice, Bytes, Class, Io, Origin};
use twin_fs::{Data, FsError, Layout, Op, ROOT_INO, RenameMode, Reply, Settings};
use twin_lfs::{LfsSettings, MkfsOptions, SegmentState};
use twin_rt::Rng;

/// A block far behind in a file needed a new lowest-level indirect block under one that existed
/// and was clean. The new one was marked dirty when it was made; marking the data block's parents
/// then stopped at it ("dirty already, and so is everything above it"), the pointer in the block
/// above was changed in memory only, and after closing the data was gone.
#[test]
fn a_new_indirect_block_under_a_clean_one_is_not_forgotten() {
    both_profiles(|options| {
        let mut w = World::new(&options, 64 << 20);
        let ino = w.create("f");
        let far = 40 << 20;
        w.write(ino, far, b"first");
        let mut w = w.reopen();
        let ino = w.lookup("f");
        // Another lowest-level block, the same block above it.
        let other = far + (12 << 20);
        w.write(ino, other, b"second");
        w.op(Op::Sync);
        let mut w = w.reopen();
        let ino = w.lookup("f");
        assert_eq!(w.read(ino, far, 5), b"first");
        assert_eq!(w.read(ino, other, 6), b"second");
    });
}

/// Appending counted the space of the block that it lengthened twice: once when the last fragment
/// was made longer, once when the block was written, because the file's size was changed last. So
/// did leaving the inode. `du` said too much, and a file that had been emptied never seemed empty.
#[test]
fn appending_counts_each_block_once() {
    both_profiles(|options| {
        let mut w = World::new(&options, 64 << 20);
        let ino = w.create("f");
        for (at, n) in [(0, 100), (100, 100), (200, 1000), (1200, 3000), (4200, 60_000)] {
            w.write(ino, at, &vec![1; n]);
        }
        // 64,200 bytes: 16 blocks and an indirect one.
        assert_eq!(w.blocks(ino), 17 * 8);
        w.resize(ino, 0);
        assert_eq!(w.blocks(ino), 0);
    });
}

/// Cleaning fills segments too. When that made clean ones few, the cleaner asked itself for
/// another round, and so on for ever, although nothing was gained.
#[test]
fn the_cleaner_does_not_ask_itself_for_more() {
    both_profiles(|options| {
        let mut w = World::new(&options, 32 << 20);
        let limit = w.volume.layout.space().1;
        let mut files = 0;
        while w.volume.layout.space().0 < limit * 85 / 100 {
            let ino = w.create(&format!("f{files}"));
            w.write(ino, 0, &[7; 100_000]);
            files += 1;
        }
        for i in (0..files).step_by(9) {
            w.op(Op::Unlink { dir: ROOT_INO, name: format!("f{i}").into_bytes().into() });
        }
        w.op(Op::Sync);
        w.reopen();
    });
}

/// The cleaner finds what is live through summaries. Where one was damaged it moved nothing and
/// chose the same segment again, for ever.
#[test]
fn the_cleaner_gives_up_on_a_segment_with_a_damaged_summary() {
    both_profiles(|options| {
        let mut w = World::new(&options, 32 << 20);
        for i in 0..200 {
            let ino = w.create(&format!("f{i}"));
            w.write(ino, 0, &[7; 100_000]);
            w.op(Op::Release { ino });
            w.op(Op::Forget { ino, count: 1 });
        }
        for i in (0..200).step_by(2) {
            w.op(Op::Unlink { dir: ROOT_INO, name: format!("f{i}").into_bytes().into() });
        }
        w.op(Op::Sync);
        let sb = w.volume.layout.superblock().clone();
        let used = w.volume.layout.with_segments(|segments| {
            let is_used = |s: &u32| segments.state(*s) == SegmentState::Used;
            (0..segments.count()).filter(is_used).collect::<Vec<_>>()
        });
        for segment in used {
            let zeros = vec![Block::Zero(512)];
            let io = Io::write(sb.segment_start(segment), zeros, Class::Meta, Origin::User);
            w.rt.block_on(w.disk.submit(io)).unwrap().unwrap();
        }
        // Whether this succeeds is not the question.
        for i in 0..600 {
            let name: Box<[u8]> = format!("g{i}").into_bytes().into();
            let op = Op::Create { dir: ROOT_INO, name: name.clone(), mode: 0o644, exclusive: true };
            let Ok(Reply::Entry(entry)) = w.try_op(op) else { break };
            let ino = entry.attr.ino;
            let data = Data::Bytes(Bytes::copy_of(&[8; 50_000]));
            let _ = w.try_op(Op::Write { ino, off: 0, data });
            let _ = w.try_op(Op::Fsync { ino, data_only: false });
            let _ = w.try_op(Op::Release { ino });
            let _ = w.try_op(Op::Unlink { dir: ROOT_INO, name });
            let _ = w.try_op(Op::Forget { ino, count: 1 });
        }
    });
}

/// `umount` of a read-only mount asks for everything to be made durable. That was refused, as a
/// change would be, so the mount stayed.
#[test]
fn a_read_only_volume_can_be_synced() {
    let mut world = World::new(&MkfsOptions::modern([1; 16]), 64 << 20);
    let ino = world.create("a");
    world.write(ino, 0, b"content");
    world.settings.read_only = true;
    let mut world = world.reopen();
    assert_eq!(world.try_op(Op::Sync), Ok(Reply::Done));
    let ino = world.lookup("a");
    assert_eq!(world.try_op(Op::Fsync { ino, data_only: false }), Ok(Reply::Done));
    let set = twin_fs::SetAttr { size: Some(0), ..Default::default() };
    assert!(world.try_op(Op::SetAttr { ino, set }).is_err());
    assert_eq!(world.read(ino, 0, 7), b"content");
}

/// A file that had been emptied while its data lay in its inode was still marked so, without any
/// data to move out. Writing far behind promised a block for it that was never written, and that
/// space was gone until the volume was opened again.
#[test]
fn an_emptied_inline_file_promises_no_block() {
    both_profiles(|options| {
        let mut w = World::new(&options, 64 << 20);
        let ino = w.create("f");
        w.write(ino, 0, b"a few bytes");
        w.resize(ino, 0);
        w.write(ino, 100_000, b"far behind");
        let live = |w: &World| w.volume.layout.with_segments(|s| s.live_bytes());
        w.rt.block_on(w.volume.close()).unwrap().unwrap();
        assert_eq!(w.volume.layout.space().0, live(&w));
    });
}

/// Two blocks under one doubly indirect block. The first was overwritten, whose indirect block then
/// waited for a checkpoint; the second was cut, and the log write of that had the doubly indirect
/// block, as it lost a pointer. After a crash, recovery took that block for written and the one
/// below it for waiting, so the next checkpoint moved the lower one and left the pointer to its old
/// form: all was there until the volume was closed, and then what was overwritten was as before.
/// Hosts that ran full under `fsstress` met it: their logs end with what was cut.
#[test]
fn what_waits_below_a_recovered_indirect_block_takes_it_along() {
    both_profiles(|options| {
        let mut w = World::new(&options, 64 << 20);
        let geometry = w.volume.layout.superblock().geometry.clone();
        let block = u64::from(geometry.block_size);
        let first = (geometry.direct as u64 + geometry.per_block() + 10) * block;
        let second = first + geometry.per_block() * block;
        let ino = w.create("f");
        w.write(ino, first, b"before");
        w.write(ino, second, b"to be cut");
        let mut w = w.reopen();
        let ino = w.lookup("f");
        w.write(ino, first, b"behind");
        w.op(Op::Sync);
        w.resize(ino, first + block);
        w.op(Op::Sync);
        let mut w = w.crash();
        let ino = w.lookup("f");
        assert_eq!(w.read(ino, first, 6), b"behind");
        let mut w = w.reopen();
        w.assert_clean();
        let ino = w.lookup("f");
        assert_eq!(w.read(ino, first, 6), b"behind");
    });
}

/// A rename within an indexed directory inserted the new name, and only then planned the removal of
/// the old one, for which it could have to wait, and reserved space, which could be refused: the file
/// would have had both names. It was found by reading, and no run is known in which it happened: the
/// second reservation is for an index that shrinks into a bucket that overflows. Random runs have
/// directories too small for an index; this one has, and shrinks it.
#[test]
fn names_that_are_renamed_within_an_indexed_directory_are_found() {
    let settings = Settings { cache_bytes: 256 << 10, ..Settings::default() };
    let options = MkfsOptions { block_size: 1024, ..MkfsOptions::modern([7; 16]) };
    let mut w = World::with(&options, 8 << 20, settings, LfsSettings::default());
    let mut rng = Rng::new(1);
    let name_of = |n: u64| format!("{n:0width$}", width = 1 + (n % 60) as usize * 4);
    let mut names: Vec<String> = (0..1500).map(name_of).collect();
    for name in &names {
        w.create(name);
    }
    for n in 0..3000 {
        let old = rng.below(names.len() as u64) as usize;
        if n % 2 == 0 && names.len() > 200 {
            let name = names.swap_remove(old);
            w.op(Op::Unlink { dir: ROOT_INO, name: name.as_bytes().into() });
            continue;
        }
        let new = name_of(10_000 + n);
        let (name, to_name) = (names[old].as_bytes().into(), new.as_bytes().into());
        let mode = RenameMode::Replace;
        w.op(Op::Rename { dir: ROOT_INO, name, to_dir: ROOT_INO, to_name, mode });
        let gone = std::mem::replace(&mut names[old], new);
        w.lookup(&names[old]);
        let gone = Op::Lookup { dir: ROOT_INO, name: gone.as_bytes().into() };
        assert_eq!(w.try_op(gone).err(), Some(FsError::NotFound));
    }
    let mut w = w.reopen();
    w.assert_clean();
    for name in &names {
        w.lookup(name);
    }
}

/// A file whose last user went was looked at for names, and read from the device for that if it had left
/// memory. A kernel that forgot 240,000 files after a walk over their names, for want of memory or because
/// they were unmounted, had all of them read: unmounting a log of 20 GB took half a minute.
#[test]
fn what_is_forgotten_is_not_read_for_it() {
    both_profiles(|options| {
        let mut w = World::new(&options, 32 << 20);
        let kept = w.create("kept");
        let removed = w.create("removed");
        w.write(removed, 0, &[7; 20_000]);
        for ino in [kept, removed] {
            w.op(Op::Release { ino });
        }
        w.op(Op::Unlink { dir: ROOT_INO, name: b"removed".as_slice().into() });
        w.op(Op::Sync);
        w.volume.core().drop_caches();
        let there = w.volume.core().cached_inodes();
        w.op(Op::Forget { ino: kept, count: 1 });
        assert_eq!(w.volume.core().cached_inodes(), there, "it was read");
        // One without a name is still freed, in memory or not.
        let used = w.volume.layout.space().0;
        w.op(Op::Forget { ino: removed, count: 1 });
        assert!(w.volume.layout.space().0 + 20_000 <= used, "its space comes back");
        w.op(Op::Sync);
        w.assert_clean();
        let mut w = w.reopen();
        assert_eq!(w.lookup("kept"), kept);
    });
}

/// Checkpoints came with what was written back. A database that syncs whatever it writes leaves nothing to write back, so
/// none came, and the log that the next start had to roll forward grew as long as it worked.
#[test]
fn checkpoints_come_although_everything_is_synced_at_once() {
    both_profiles(|options| {
        let lfs = LfsSettings { checkpoint_segments: 4, ..LfsSettings::default() };
        let mut w = World::with(&options, 64 << 20, Settings::default(), lfs);
        let checkpoints =
            |w: &World| w.volume.layout.views().log.unwrap().status(w.volume.core()).checkpoints;
        let ino = w.create("rows");
        w.write(ino, 0, &[1; 256 << 10]);
        w.op(Op::Sync);
        w.op(Op::Fsync { ino, data_only: false });
        let (before, mut written) = (checkpoints(&w), 0);
        let segment = u64::from(w.volume.layout.superblock().segment_size);
        while written < 20 * segment {
            w.write(ino, 0, &[written as u8; 256 << 10]);
            w.op(Op::Fsync { ino, data_only: true });
            written += 256 << 10;
        }
        let made = checkpoints(&w) - before;
        assert!(
            (2..=3).contains(&made),
            "{made} checkpoints for 20 segments, where 8 have one at the latest"
        );
        w.assert_clean();
    });
}
