//! Bugs that random runs found, each told once.

mod common;

use common::{World, both_profiles};
use twin_fs::Op;

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
