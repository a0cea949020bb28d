//! A volume in memory: operations, closing, opening again, in every profile and ordering.

mod common;

use common::{World, all_kinds};
use twin_disk::Bytes;
use twin_fs::{Data, FsError, Op, ROOT_INO, Reply};

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = twin_rt::Rng::new(seed);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

#[test]
fn files_survive_closing() {
    all_kinds(|options| {
        let mut w = World::new(&options, 64 << 20);
        let sizes = [0usize, 1, 100, 255, 256, 257, 1000, 4096, 5000, 49_152, 50_000, 3_000_000];
        for (i, &size) in sizes.iter().enumerate() {
            let ino = w.create(&format!("f{i}"));
            w.write(ino, 0, &pattern(size, i as u64));
        }
        let mut w = w.reopen();
        for (i, &size) in sizes.iter().enumerate() {
            let ino = w.lookup(&format!("f{i}"));
            assert!(w.read(ino, 0, 4_000_000) == pattern(size, i as u64), "size {size}");
        }
    });
}

#[test]
fn fsynced_files_survive_a_crash() {
    all_kinds(|options| {
        let mut w = World::new(&options, 64 << 20);
        let sizes = [1usize, 300, 4096, 60_000, 3_000_000];
        for (i, &size) in sizes.iter().enumerate() {
            let ino = w.create(&format!("f{i}"));
            w.write(ino, 0, &pattern(size, i as u64));
            w.op(Op::Fsync { ino, data_only: false });
            // A second write behind indirect blocks that are on disk already.
            w.write(ino, size as u64 / 2, &pattern(10, 99));
            w.op(Op::Fsync { ino, data_only: true });
        }
        let mut w = w.crash();
        for (i, &size) in sizes.iter().enumerate() {
            let ino = w.lookup(&format!("f{i}"));
            let mut expected = pattern(size, i as u64);
            expected.resize(size.max(size / 2 + 10), 0);
            expected[size / 2..size / 2 + 10].copy_from_slice(&pattern(10, 99));
            assert!(w.read(ino, 0, 4_000_000) == expected, "size {size}");
        }
    });
}

#[test]
fn removed_files_give_their_space_back() {
    all_kinds(|options| {
        let mut w = World::new(&options, 64 << 20);
        w.op(Op::Sync);
        let before = w.volume.layout.space().0;
        for round in 0..30 {
            let ino = w.create("big");
            w.write(ino, 0, &pattern(4_000_000, round));
            w.op(Op::Release { ino });
            w.op(Op::Unlink { dir: ROOT_INO, name: (*b"big").into() });
            w.op(Op::Forget { ino, count: 1 });
        }
        let after = w.volume.layout.space().0;
        assert_eq!(before, after);
        let w = w.reopen();
        assert_eq!(w.volume.layout.space().0, before);
    });
}

#[test]
fn a_thousand_names_in_one_directory() {
    all_kinds(|options| {
        let mut w = World::new(&options, 64 << 20);
        for i in 0..3000 {
            w.create(&format!("name-{i}"));
        }
        let mut w = w.reopen();
        for i in (0..3000).step_by(7) {
            w.lookup(&format!("name-{i}"));
        }
        for i in 0..3000 {
            let name = format!("name-{i}").into_bytes().into();
            w.op(Op::Unlink { dir: ROOT_INO, name });
        }
        let Reply::Dir(entries) =
            w.op(Op::ReadDir { dir: ROOT_INO, cookie: 0, max_bytes: 4096, plus: false })
        else {
            panic!()
        };
        assert_eq!(entries.len(), 2);
    });
}

#[test]
fn a_full_volume_says_so_and_recovers() {
    all_kinds(|options| {
        let mut w = World::new(&options, 32 << 20);
        let mut files = 0;
        let full = loop {
            let name = format!("f{files}").into_bytes().into();
            let op = Op::Create { dir: ROOT_INO, name, mode: 0o644, exclusive: true };
            let ino = match w.try_op(op) {
                Ok(Reply::Entry(entry)) => entry.attr.ino,
                Err(error) => break error,
                other => panic!("{other:?}"),
            };
            files += 1;
            let data = Data::Bytes(Bytes::copy_of(&pattern(100_000, files)));
            if let Err(error) = w.try_op(Op::Write { ino, off: 0, data }) {
                break error;
            }
        };
        assert_eq!(full, FsError::NoSpace);
        let (used, limit) = w.volume.layout.space();
        assert!(used > limit * 95 / 100, "{used} of {limit}");
        for i in 0..files - 1 {
            let name = format!("f{i}").into_bytes().into();
            w.op(Op::Unlink { dir: ROOT_INO, name });
        }
    });
}
