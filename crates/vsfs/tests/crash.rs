//! What a crash or damage leaves is found by the check and mended by the repair, and what was synced and
//! not touched since is there afterwards.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_disk::{
    Block, BlockDevice, Bytes, DeviceInfo, Io, IoError, IoErrorKind, IoKind, MemDisk, Pending,
};
use twin_fs::{
    CheckRequest, Cpu, Data, Ino, Op, Opened, ROOT_INO, Reply, Request, Settings, Volume,
};
use twin_model::generate::{Generator, WorkloadParams};
use twin_rt::{ClockOnly, Rng, Rt};
use vsfs::format::{POINTERS_AT, Superblock};
use vsfs::{MkfsOptions, VSFS, Vsfs};

const SECTOR: usize = 512;
const SIZE: u64 = 8 << 20;

/// A disk that loses, in a crash, any sectors of what was written since the last flush.
struct LosingDisk {
    now: MemDisk,
    flushed: RefCell<Vec<u8>>,
    since: RefCell<Vec<(u64, Bytes)>>,
    /// After so many writes it fails.
    writes_left: Cell<u64>,
}

impl LosingDisk {
    fn new(image: Vec<u8>) -> Rc<LosingDisk> {
        let (now, flushed) = (MemDisk::from_bytes(image.clone()), RefCell::new(image));
        let writes_left = Cell::new(u64::MAX);
        Rc::new(LosingDisk { now, flushed, since: RefCell::default(), writes_left })
    }

    /// What may be found after a crash: each sector that was written is old or new.
    fn crash(&self, rng: &mut Rng) -> Rc<LosingDisk> {
        let mut image = self.flushed.borrow().clone();
        let keep_of_8 = rng.below(9);
        for (at, bytes) in self.since.borrow().iter() {
            for (i, sector) in bytes.chunks(SECTOR).enumerate() {
                if rng.below(8) < keep_of_8 {
                    let at = *at as usize + i * SECTOR;
                    image[at..at + SECTOR].copy_from_slice(sector);
                }
            }
        }
        LosingDisk::new(image)
    }
}

impl BlockDevice for LosingDisk {
    fn info(&self) -> DeviceInfo {
        self.now.info()
    }
    fn submit(&self, io: Io) -> Pending {
        let bytes: Vec<u8> = io.blocks.iter().flat_map(|b: &Block| b.to_bytes().to_vec()).collect();
        match io.kind {
            IoKind::Write if self.writes_left.get() == 0 => {
                let kind = IoErrorKind::Medium;
                return Pending::ready(Err(IoError { op: io.kind, at: io.at, len: io.len, kind }));
            }
            IoKind::Write => {
                self.writes_left.set(self.writes_left.get() - 1);
                self.since.borrow_mut().push((io.at, Bytes::copy_of(&bytes)));
            }
            IoKind::Flush => {
                for (at, bytes) in self.since.borrow_mut().drain(..) {
                    let at = at as usize;
                    self.flushed.borrow_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
                }
            }
            _ => {}
        }
        self.now.submit(io)
    }
    fn in_flight(&self) -> usize {
        0
    }
}

/// An open volume on such a disk.
struct TestVolume {
    rt: Rt,
    volume: Volume,
    next_id: u64,
}

impl TestVolume {
    /// Gives also what opening had to repair.
    fn open(disk: &Rc<LosingDisk>, read_only: bool) -> (TestVolume, Option<String>) {
        let rt = Rt::new(ClockOnly::default(), 1);
        let settings = Settings {
            cache_bytes: 1 << 20,
            expand_stamps: true,
            read_only,
            ..Settings::default()
        };
        let opening = Vsfs::open(&rt, Rc::clone(disk) as _, Cpu::none(), settings);
        let Opened { volume, recovery } = rt.block_on(opening).unwrap().unwrap();
        (TestVolume { rt, volume, next_id: 1 << 40 }, recovery)
    }

    fn ask(&mut self, op: Op) -> twin_fs::Result<Reply> {
        self.next_id += 1;
        self.rt.block_on(self.volume.execute(Request::root(self.next_id, op))).unwrap()
    }

    fn entry(&mut self, op: Op) -> Ino {
        match self.ask(op) {
            Ok(Reply::Entry(entry)) => entry.attr.ino,
            other => panic!("{other:?}"),
        }
    }

    /// Random operations of every kind.
    fn work(&mut self, seed: u64, ops: u64) {
        let params = WorkloadParams { block_size: 4096, ..WorkloadParams::default() };
        let mut generator = Generator::new("mixed", params, seed).unwrap();
        for n in 0..ops {
            if n % 40 == 39 {
                self.pause();
            }
            let request = generator.next();
            // Without these, there is more that a crash can lose.
            let reply = match request.op {
                Op::Fsync { .. } | Op::Sync => Ok(Reply::Done),
                _ => self.rt.block_on(self.volume.execute(request.clone())).unwrap(),
            };
            // It is not to hear of the file that is kept.
            if !matches!(request.op, Op::ReadDir { .. }) {
                generator.learn(&request, &reply);
            }
        }
    }

    /// Time goes on, so that changes are written back.
    fn pause(&self) {
        self.rt.block_on(self.rt.sleep(10_000_000_000)).unwrap();
    }

    fn close(self) {
        self.rt.block_on(self.volume.close()).unwrap().unwrap();
    }
}

impl Drop for TestVolume {
    fn drop(&mut self) {
        self.rt.crash();
    }
}

fn check(disk: &Rc<LosingDisk>, repair: bool) -> Vec<String> {
    let rt = Rt::new(ClockOnly::default(), 3);
    let (mut quiet, how) = (|_, _| {}, CheckRequest { repair, data: false });
    let check = VSFS.check(&rt, Rc::clone(disk) as _, how, &mut quiet);
    let report = rt.block_on(check).unwrap().unwrap();
    rt.crash();
    report.findings
}

fn new_disk() -> Rc<LosingDisk> {
    let (rt, disk) = (Rt::new(ClockOnly::default(), 1), LosingDisk::new(vec![0; SIZE as usize]));
    rt.block_on(Vsfs::mkfs(&rt, Rc::clone(&disk) as _, &MkfsOptions::new([1; 16])))
        .unwrap()
        .unwrap();
    rt.crash();
    disk
}

/// A file of 20 blocks, with an indirect block, that nothing touches after it was synced.
fn kept(seed: u64) -> Vec<u8> {
    (0..80_000_u64).map(|i| (i * 7 + i / 251 + seed) as u8).collect()
}

#[test]
fn what_a_crash_leaves_is_repaired_and_what_was_synced_and_left_alone_is_there() {
    let mut found = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let disk = new_disk();
        let (mut run, _) = TestVolume::open(&disk, false);
        run.work(seed, rng.below(300));
        let create =
            Op::Create { dir: ROOT_INO, name: b"keep"[..].into(), mode: 0o644, exclusive: true };
        let ino = run.entry(create);
        let data = Data::Bytes(Bytes::copy_of(&kept(seed)));
        run.ask(Op::Write { ino, off: 0, data }).unwrap();
        run.ask(Op::Sync).unwrap();
        run.pause();
        run.work(seed + 1000, rng.below(800));

        let crashed = disk.crash(&mut rng);
        let findings = check(&crashed, false);
        found += findings.len();
        // The repair is interrupted, too: a second one starts from what the first has left.
        let cut_short = LosingDisk::new(crashed.now.to_bytes());
        cut_short.writes_left.set(rng.below(30));
        let rt = Rt::new(ClockOnly::default(), 1);
        let opening = Vsfs::open(&rt, Rc::clone(&cut_short) as _, Cpu::none(), Settings::default());
        let _ = rt.block_on(opening);
        rt.crash();
        let crashed = cut_short.crash(&mut rng);
        // Opened read-only, it is repaired in memory.
        for read_only in [true, false] {
            let (mut run, recovery) = TestVolume::open(&crashed, read_only);
            // The first repair may have come to its end, and failed in what follows.
            assert!(recovery.is_some() || check(&crashed, false).is_empty(), "seed {seed}");
            let ino = run.entry(Op::Lookup { dir: ROOT_INO, name: b"keep"[..].into() });
            let read = run.ask(Op::Read { ino, off: 0, len: 100_000 });
            let Ok(Reply::Data(blocks)) = read else { panic!("seed {seed}: {read:?}") };
            let bytes: Vec<u8> = blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect();
            assert!(bytes == kept(seed), "seed {seed}: the content of a file that was synced");
            if !read_only {
                run.work(seed + 2000, 200);
                run.close();
            }
        }
        assert_eq!(check(&crashed, false), [""; 0], "seed {seed}: after repair, work and close");
    }
    assert!(found > 100, "crashes did too little damage: {found} findings");
}

#[test]
fn damage_anywhere_but_in_the_superblock_is_repaired_once_and_for_all() {
    let mut found = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let disk = new_disk();
        let (mut run, _) = TestVolume::open(&disk, false);
        run.work(seed, 400);
        run.close();
        let mut image = disk.now.to_bytes();
        // Mostly among the bitmaps, the table and the first blocks of data, which are directories.
        for _ in 0..1 + rng.below(20) {
            let far = rng.below(4) == 0;
            let at = 4096 + rng.below(if far { SIZE - 8192 } else { 400 << 10 });
            match rng.below(3) {
                0 => image[at as usize] ^= 1 << rng.below(8),
                1 => image[at as usize..at as usize + 4].fill(rng.next_u64() as u8),
                _ => image[at as usize / 512 * 512..][..512].fill_with(|| rng.next_u64() as u8),
            }
        }
        let disk = LosingDisk::new(image);
        found += check(&disk, true).len();
        assert_eq!(check(&disk, false), [""; 0], "seed {seed}: after repair");
        let (mut run, recovery) = TestVolume::open(&disk, false);
        assert_eq!(recovery, None, "seed {seed}");
        run.work(seed + 1000, 300);
        run.close();
        assert_eq!(check(&disk, false), [""; 0], "seed {seed}: after work");
    }
    assert!(found > 150, "{found} findings");
}

/// Random crashes meet neither rule: what takes a block twice is seldom older, or a directory.
#[test]
fn of_two_files_that_lead_to_a_block_the_older_keeps_it_and_a_directory_its_names() {
    let disk = new_disk();
    let (mut run, _) = TestVolume::open(&disk, false);
    let mut file = |name: &[u8], byte: u8| {
        let ino = run.entry(Op::Create {
            dir: ROOT_INO,
            name: name.into(),
            mode: 0o644,
            exclusive: true,
        });
        let data = Data::Bytes(Bytes::copy_of(&[byte; 8192]));
        run.ask(Op::Write { ino, off: 0, data }).unwrap();
        run.pause();
        ino
    };
    let (old, new) = (file(b"old", 1), file(b"new", 2));
    run.close();
    let mut image = disk.now.to_bytes();
    let (sb, _) = Superblock::decode(&image[..4096], SIZE).unwrap();
    let at = |ino, slot: usize| {
        let (block, offset) = sb.inode_place(ino);
        sb.byte_of(block) as usize + offset + POINTERS_AT + 4 * slot
    };
    // The new file leads to the old one's first block, the old one to the root's names.
    image.copy_within(at(old, 0)..at(old, 0) + 4, at(new, 0));
    image.copy_within(at(ROOT_INO, 0)..at(ROOT_INO, 0) + 4, at(old, 1));
    let disk = LosingDisk::new(image);
    let findings = check(&disk, true);
    assert_eq!(
        findings.iter().filter(|f| f.contains("is used by inode")).count(),
        2,
        "{findings:?}"
    );
    assert_eq!(check(&disk, false), [""; 0]);
    let (mut run, _) = TestVolume::open(&disk, false);
    assert_eq!(run.entry(Op::Lookup { dir: ROOT_INO, name: b"old"[..].into() }), old);
    // What was lost is an error for its readers, and what is there is read.
    for (ino, expected) in [(old, [Some(1), None]), (new, [None, Some(2)])] {
        for (lbn, expected) in [0, 1].into_iter().zip(expected) {
            let read = run.ask(Op::Read { ino, off: lbn * 4096, len: 4096 });
            let found = match &read {
                Ok(Reply::Data(blocks)) => Some(blocks[0].to_bytes()[0]),
                Err(error) if error.is_lost() => None,
                other => panic!("{other:?}"),
            };
            assert_eq!(found, expected, "inode {ino}, block {lbn}");
        }
    }
}
