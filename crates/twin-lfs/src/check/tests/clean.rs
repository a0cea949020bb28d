//! What the volume leaves behind is clean.

use super::*;
use twin_fs::{ROOT_INO, XattrMode};
use twin_model::generate::WORKLOADS;

#[test]
fn a_new_volume_is_clean() {
    for options in profiles() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk = Rc::new(MemDisk::new(32 << 20));
        rt.block_on(Lfs::mkfs(&rt, Rc::clone(&disk) as _, &options)).unwrap().unwrap();
        let report = assert_clean(&disk, "new");
        assert_eq!((report.counts.dirs, report.counts.files), (1, 0));
    }
}

#[test]
fn a_closed_volume_is_clean_after_every_workload() {
    for options in profiles() {
        for (seed, spec) in (0..).zip(WORKLOADS) {
            let mut w = World::new(&options, 32 << 20);
            w.run(spec.name, WorkloadParams::default(), seed, 3000);
            let what = format!("{} seed {seed} {:?}", spec.name, options.profile);
            assert_clean(&w.close(), &what);
        }
    }
}

#[test]
fn a_crashed_volume_is_clean_before_and_after_recovery() {
    for options in profiles() {
        for (seed, spec) in (0..).zip(WORKLOADS) {
            let mut w = World::new(&options, 32 << 20);
            for round in 0..4 {
                w.run(spec.name, WorkloadParams::default(), seed, 700);
                if round % 2 == 0 {
                    w.op(Op::Sync);
                }
                let what = format!("{} seed {seed} round {round}", spec.name);
                let disk = w.crash();
                let report = assert_clean(&disk, &what);
                assert!(report.was_open);
                w = World::mount(Rc::clone(&disk), LfsSettings::default());
                assert_clean(&disk, &format!("{what}, mounted"));
            }
            assert_clean(&w.close(), &format!("{} seed {seed} closed", spec.name));
        }
    }
}

#[test]
fn every_kind_of_structure_is_counted() {
    for options in profiles() {
        let mut w = World::new(&options, 32 << 20);
        let dir = w.mkdir(ROOT_INO, "dir");
        for i in 0..2000 {
            w.create(dir, &format!("a name that is long enough to fill blocks {i}"));
        }
        for i in 0..1000 {
            let name = format!("a name that is long enough to fill blocks {}", 2 * i);
            w.op(Op::Unlink { dir, name: name.into_bytes().into() });
        }
        let big = w.create(ROOT_INO, "big");
        w.write(big, 0, 5_000_000);
        w.write(big, 3 << 30, 10_000);
        let name: Box<[u8]> = (*b"link").into();
        w.op(Op::Link { ino: big, dir, name });
        w.op(Op::Symlink { dir, name: (*b"short").into(), target: (*b"x").into() });
        w.op(Op::Symlink { dir, name: (*b"long").into(), target: [b'x'; 500].into() });
        let fifo = twin_fs::mode::FIFO | 0o600;
        w.op(Op::MakeNode { dir, name: (*b"fifo").into(), mode: fifo, rdev: 0 });
        if options.profile == crate::format::Profile::Modern {
            for (name, len) in [(&b"user.a"[..], 10), (b"user.b", 20_000)] {
                let value = vec![7; len].into();
                w.op(Op::SetXattr { ino: big, name: name.into(), value, mode: XattrMode::Any });
            }
        }
        let report = assert_clean(&w.close(), "structures");
        let c = report.counts;
        assert_eq!((c.files, c.dirs, c.symlinks, c.special), (1001, 2, 2, 1));
        assert_eq!(c.names, 1000 + 1 + 1 + 4);
        assert!(c.compared_bytes > 5_000_000, "{}", c.compared_bytes);
    }
}

#[test]
fn a_crash_with_open_removed_files_leaves_orphans_and_is_clean() {
    for options in profiles() {
        let mut w = World::new(&options, 32 << 20);
        for i in 0..5 {
            let name: Box<[u8]> = format!("f{i}").into_bytes().into();
            let op = Op::Create { dir: ROOT_INO, name: name.clone(), mode: 0o644, exclusive: true };
            let ino = w.entry(op);
            w.write(ino, 0, 300_000);
            w.op(Op::Unlink { dir: ROOT_INO, name });
        }
        w.op(Op::Sync);
        let disk = w.crash();
        let report = assert_clean(&disk, "orphans");
        assert_eq!(report.counts.orphans, 5);
        let w = World::mount(disk, LfsSettings::default());
        let report = assert_clean(&w.close(), "finished");
        assert_eq!((report.counts.orphans, report.counts.files), (0, 0));
    }
}

/// They were called hidden files that belong to no inode, while their owners waited to be freed.
#[test]
fn long_attributes_of_open_removed_files_are_no_strays() {
    let mut w = World::new(&MkfsOptions::modern([1; 16]), 32 << 20);
    for i in 0..5 {
        let name: Box<[u8]> = format!("f{i}").into_bytes().into();
        let op = Op::Create { dir: ROOT_INO, name: name.clone(), mode: 0o644, exclusive: true };
        let ino = w.entry(op);
        let (attribute, value) = ((*b"user.a").into(), vec![7; 3000].into());
        w.op(Op::SetXattr { ino, name: attribute, value, mode: XattrMode::Any });
        w.op(Op::Unlink { dir: ROOT_INO, name });
    }
    w.op(Op::Sync);
    let disk = w.crash();
    let report = assert_clean(&disk, "orphans");
    assert_eq!(report.counts.orphans, 5);
    let copy = Rc::new(MemDisk::from_bytes(disk.to_bytes()));
    let repaired = repair_disk(Rc::clone(&copy), false).unwrap();
    assert!(repaired.is_clean(), "{repaired}");
    for disk in [copy, World::mount(disk, LfsSettings::default()).close()] {
        let report = assert_clean(&disk, "finished");
        assert_eq!((report.counts.orphans, report.counts.hidden), (0, 0));
    }
}

#[test]
fn the_cleaner_leaves_a_clean_volume() {
    for options in profiles() {
        for seed in 0..2 {
            let mut w = World::new(&options, 24 << 20);
            let params =
                WorkloadParams { space_max: 16 << 20, files: 300, ..WorkloadParams::default() };
            w.run("fill", params, seed, 6000);
            let cleaned = w.volume.layout.stats().cleaned_segments;
            let what = format!("fill seed {seed}, {cleaned} segments cleaned");
            assert_clean(&w.close(), &what);
        }
    }
}

/// A checkpoint notes only so many numbers that were picked for new files; a crash that comes
/// before these are in use must not lose the others.
#[test]
fn no_number_is_lost_when_many_were_picked_at_a_crash() {
    for options in profiles() {
        let w = World::new(&options, 32 << 20);
        let (lfs, core) = (&w.volume.layout, w.volume.core());
        for _ in 0..3 * crate::format::PICKED_MAX {
            w.rt.block_on(lfs.pick(core)).unwrap().unwrap();
        }
        w.rt.block_on(lfs.checkpoint(core, false)).unwrap().unwrap();
        assert_clean(&w.crash(), "picked");
    }
}
