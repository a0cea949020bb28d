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
