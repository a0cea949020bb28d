//! Quotas of directories: the limits hold, and what is counted while a volume is in use is what a count of
//! all inodes finds after it has been killed.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_disk::{BlockDevice, Buf, MemDisk};
use twin_ffs::Ffs;
use twin_fs::quota::QuotaUse;
use twin_fs::{
    CheckRequest, Cpu, Cred, Data, Fallocate, FsError, Identity, Ino, LayoutKind, Op, ROOT_INO,
    RenameMode, Reply, Request, SetAttr, Settings, Volume, XattrMode, mode,
};
use twin_lab::layouts::layout;
use twin_lfs::Lfs;
use twin_proof::{AnyWorld, Scenario, Subject, Timing, make};
use twin_rt::{ClockOnly, Rng, Rt, SECS, Time};
use twin_sim::faults::{FaultPlan, WriteLog};

const SIZE: u64 = 64 << 20;
const IDENTITY: Identity = Identity { uuid: [7; 16], root: (0, 0, 0o755) };
const QUOTA: &[u8] = b"system.twinfs.quota";

/// A volume on a disk in memory.
struct Bench {
    rt: Rt,
    device: Rc<MemDisk>,
    kind: &'static dyn LayoutKind,
    volume: Volume,
    requests: u64,
}

/// What the attribute says is in use: bytes and files.
type Used = (u64, u64);

/// A volume that can be asked.
trait Ask {
    fn ask(&mut self, op: Op) -> Result<Reply, FsError>;

    fn volume(&self) -> &Volume;

    fn made(&mut self, op: Op) -> Result<Ino, FsError> {
        match self.ask(op)? {
            Reply::Entry(entry) => Ok(entry.attr.ino),
            other => panic!("{other:?}"),
        }
    }

    fn mkdir(&mut self, dir: Ino, name: &str) -> Ino {
        self.made(Op::MakeDir { dir, name: name.as_bytes().into(), mode: 0o755 }).unwrap()
    }

    fn create(&mut self, dir: Ino, name: &str) -> Result<Ino, FsError> {
        let name = name.as_bytes().into();
        let mode = mode::REGULAR | 0o644;
        self.made(Op::MakeNode { dir, name, mode, rdev: 0 })
    }

    fn write(&mut self, ino: Ino, off: u64, len: usize) -> Result<Reply, FsError> {
        let data = Data::Bytes(Buf::copy_of(&vec![7; len]).freeze());
        self.ask(Op::Write { ino, off, data })
    }

    fn set(&mut self, ino: Ino, value: &str) -> Result<Reply, FsError> {
        let (name, value) = (QUOTA.into(), value.as_bytes().into());
        self.ask(Op::SetXattr { ino, name, value, mode: XattrMode::Any })
    }

    fn text(&mut self, ino: Ino) -> Result<String, FsError> {
        match self.ask(Op::GetXattr { ino, name: QUOTA.into() })? {
            Reply::Bytes(bytes) => Ok(String::from_utf8(bytes.into()).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    fn used(&mut self, ino: Ino) -> Used {
        let text = self.text(ino).unwrap();
        assert!(!text.contains("incomplete"), "{text}");
        let number = |name: &str| {
            let word = text.split(' ').find_map(|word| word.strip_prefix(name)).unwrap();
            word.parse().unwrap()
        };
        (number("used_bytes="), number("used_files="))
    }

    fn rename(&mut self, dir: Ino, name: &str, to_dir: Ino, to_name: &str) -> Result<(), FsError> {
        let (name, to_name) = (name.as_bytes().into(), to_name.as_bytes().into());
        let mode = RenameMode::Replace;
        self.ask(Op::Rename { dir, name, to_dir, to_name, mode }).map(drop)
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &str) -> Result<(), FsError> {
        self.ask(Op::Link { ino, dir, name: name.as_bytes().into() }).map(drop)
    }

    fn unlink(&mut self, dir: Ino, name: &str) -> Result<(), FsError> {
        self.ask(Op::Unlink { dir, name: name.as_bytes().into() }).map(drop)
    }

    fn forget_all(&mut self) {
        for ino in self.volume().core().held() {
            let count = self.volume().core().refs(ino).entries;
            self.ask(Op::Forget { ino, count }).unwrap();
        }
    }
}

impl Ask for Bench {
    fn ask(&mut self, op: Op) -> Result<Reply, FsError> {
        self.ask_as(Cred::root(), op)
    }

    fn volume(&self) -> &Volume {
        &self.volume
    }
}

/// A volume on a disk that may lose its power.
struct Powered<L: Subject>(AnyWorld<L>);

impl<L: Subject> Ask for Powered<L> {
    fn ask(&mut self, op: Op) -> Result<Reply, FsError> {
        self.0.ask(op).unwrap()
    }

    fn volume(&self) -> &Volume {
        &self.0.volume().volume
    }
}

impl Bench {
    fn new(layout_name: &str) -> Bench {
        let rt = Rt::new(ClockOnly::default(), 1);
        let device = Rc::new(MemDisk::new(SIZE));
        let kind = layout(layout_name).unwrap();
        let config = kind.config();
        let make = config.mkfs(&rt, Rc::clone(&device) as Rc<dyn BlockDevice>, IDENTITY);
        rt.block_on(make).unwrap().unwrap();
        let volume = Bench::open(&rt, kind, &device);
        Bench { rt, device, kind, volume, requests: 0 }
    }

    fn open(rt: &Rt, kind: &dyn LayoutKind, device: &Rc<MemDisk>) -> Volume {
        let settings = Settings { cache_bytes: 2 << 20, cached_inodes: 30, ..Settings::default() };
        let device = Rc::clone(device) as Rc<dyn BlockDevice>;
        let config = kind.config();
        let opening = config.open(rt, device, Cpu::none(), settings);
        rt.block_on(opening).unwrap().unwrap().volume
    }

    fn ask_as(&mut self, cred: Cred, op: Op) -> Result<Reply, FsError> {
        self.requests += 1;
        let request = Request { cred, ..Request::root(self.requests, op) };
        self.rt.block_on(self.volume.execute(request)).unwrap()
    }

    /// Ends the volume without closing it and opens it again, so that everything is counted anew.
    fn kill(&mut self) {
        self.ask(Op::Sync).unwrap();
        self.rt = Rt::new(ClockOnly::default(), 1);
        self.volume = Bench::open(&self.rt, self.kind, &self.device);
    }

    fn close(&mut self) {
        self.rt.block_on(self.volume.close()).unwrap().unwrap();
    }

    fn reopen(&mut self) {
        self.close();
        self.rt = Rt::new(ClockOnly::default(), 1);
        self.volume = Bench::open(&self.rt, self.kind, &self.device);
    }

    /// What the checker finds on the volume, which is closed.
    fn findings(&mut self, repair: bool) -> Vec<String> {
        let device = Rc::clone(&self.device) as Rc<dyn BlockDevice>;
        let silent = &mut |_, _| {};
        let asked = CheckRequest { data: false, repair };
        let checking = self.kind.check(&self.rt, device, asked, silent);
        self.rt.block_on(checking).unwrap().unwrap().findings
    }

    /// Fails if the checker finds something on the volume, which is closed.
    fn check(&mut self) {
        self.reopen();
        self.close();
        assert_eq!(self.findings(false), Vec::<String>::new());
        self.volume = Bench::open(&self.rt, self.kind, &self.device);
    }
}

fn both(test: impl Fn(&mut Bench)) {
    for name in ["lfs", "ffs"] {
        let mut bench = Bench::new(name);
        test(&mut bench);
        bench.check();
    }
}

#[test]
fn bytes_and_files_end_at_their_limits_and_what_is_removed_makes_room() {
    both(|bench| {
        let dir = bench.mkdir(ROOT_INO, "d");
        bench.set(dir, "bytes=262144 files=4").unwrap();
        let file = bench.create(dir, "a").unwrap();
        let mut written = 0;
        while bench.write(file, written, 16 << 10).is_ok() {
            written += 16 << 10;
        }
        let refused = bench.write(file, written, 16 << 10);
        assert_eq!(refused, Err(FsError::QuotaExceeded));
        let (bytes, files) = bench.used(dir);
        assert!(bytes <= 262_144 && bytes > 262_144 - (32 << 10), "{bytes}");
        assert_eq!(files, 2, "the directory counts, too");
        bench.write(file, 0, 16 << 10).expect("overwriting takes no room");
        for name in ["b", "c"] {
            bench.create(dir, name).unwrap();
        }
        assert_eq!(bench.create(dir, "d"), Err(FsError::QuotaExceeded));
        bench.unlink(dir, "b").unwrap();
        bench.forget_all();
        bench.create(dir, "d").expect("there is a file less");
        let set = SetAttr { size: Some(0), ..SetAttr::default() };
        bench.ask(Op::SetAttr { ino: file, set }).unwrap();
        bench.write(file, 0, 64 << 10).expect("there are bytes less");
        let outside = bench.create(ROOT_INO, "outside").unwrap();
        bench.write(outside, 0, 1 << 20).expect("the quota is that of the directory");
    });
}

#[test]
fn an_allocation_is_refused_whole_and_counted_once() {
    both(|bench| {
        let dir = bench.mkdir(ROOT_INO, "d");
        bench.set(dir, "bytes=1048576").unwrap();
        let file = bench.create(dir, "a").unwrap();
        let mode = Fallocate::Allocate { keep_size: false };
        let allocate = |len| Op::Fallocate { ino: file, off: 0, len, mode };
        let before = bench.used(dir);
        assert_eq!(bench.ask(allocate(2 << 20)), Err(FsError::QuotaExceeded));
        assert_eq!(bench.used(dir), before);
        bench.ask(allocate(900 << 10)).unwrap();
        let (bytes, _) = bench.used(dir);
        assert!((900 << 10..=1 << 20).contains(&bytes), "{bytes}");
        bench.write(file, 0, 900 << 10).expect("its room is its own");
    });
}

#[test]
fn a_quota_around_a_tree_counts_all_of_it_and_so_does_a_start() {
    both(|bench| {
        let dir = bench.mkdir(ROOT_INO, "d");
        let below = bench.mkdir(dir, "below");
        for nth in 0..600 {
            // Enough names for an index of the directory.
            bench.create(below, &format!("a-name-of-some-length-{nth}")).unwrap();
        }
        let file = bench.create(dir, "large").unwrap();
        bench.write(file, 0, 1 << 20).unwrap();
        bench.link(file, below, "again").unwrap();
        let value = vec![b'v'; 10_000].into();
        let name = b"user.large".as_slice().into();
        bench.ask(Op::SetXattr { ino: file, name, value, mode: XattrMode::Any }).unwrap();
        bench.set(dir, "bytes=1073741824").unwrap();
        let used = bench.used(dir);
        assert_eq!(used.1, 603);
        assert!(used.0 > (1 << 20) + 10_000, "{used:?}");
        bench.kill();
        assert_eq!(bench.used(dir), used, "counted anew");
        bench.create(below, "one-more").unwrap();
        assert_eq!(bench.used(dir).1, 604);
        let used = bench.used(dir);
        bench.reopen();
        assert_eq!(bench.used(dir), used, "as it was written when the volume was closed");
    });
}

#[test]
fn hidden_files_that_are_made_inside_a_quota_count_and_meet_its_limit() {
    both(|bench| {
        let dir = bench.mkdir(ROOT_INO, "d");
        bench.set(dir, "bytes=1000000").unwrap();
        let file = bench.create(dir, "a").unwrap();
        let set = |len| Op::SetXattr {
            ino: file,
            name: b"user.large".as_slice().into(),
            value: vec![b'v'; len].into(),
            mode: XattrMode::Any,
        };
        let before = bench.used(dir).0;
        bench.ask(set(40_000)).unwrap();
        assert!(bench.used(dir).0 >= before + 40_000);
        bench.ask(set(10)).unwrap();
        assert_eq!(bench.used(dir).0, before, "the attribute is in the inode again");
        let limit = before + 20_000;
        bench.set(dir, &format!("bytes={limit}")).unwrap();
        assert_eq!(bench.ask(set(40_000)), Err(FsError::QuotaExceeded));
        assert_eq!(bench.used(dir).0, before);
        bench.set(dir, "bytes=1000000").unwrap();
        let around = bench.mkdir(ROOT_INO, "e");
        bench.create(around, "a").unwrap();
        for nth in 0..600 {
            for dir in [dir, around] {
                bench.create(dir, &format!("a-name-of-some-length-{nth}")).unwrap();
            }
        }
        bench.set(around, "bytes=1000000").unwrap();
        assert_eq!(bench.used(dir), bench.used(around), "with their indexes");
        let used = bench.used(dir);
        bench.kill();
        assert_eq!(bench.used(dir), used);
    });
}

#[test]
fn whatever_makes_a_directory_or_the_end_of_a_file_longer_meets_the_limit() {
    both(|bench| {
        let (dir, from) = (bench.mkdir(ROOT_INO, "d"), bench.mkdir(ROOT_INO, "from"));
        let file = bench.create(dir, "a").unwrap();
        bench.write(file, 0, 1000).unwrap();
        bench.set(dir, "bytes=0").unwrap();
        let before = bench.used(dir);
        let name = |nth: usize| format!("{nth}-{}", "n".repeat(200));
        for nth in 0.. {
            // Directories with quotas of their own, because only these may come from outside.
            let moved = bench.mkdir(from, &name(nth));
            bench.set(moved, "files=9").unwrap();
            match bench.rename(from, &name(nth), dir, &name(nth)) {
                Ok(()) => assert!(nth < 1000, "the directory never grew"),
                Err(error) => {
                    assert_eq!(error, FsError::QuotaExceeded);
                    break;
                }
            }
        }
        assert_eq!(bench.used(dir), before);
        for nth in 5000.. {
            match bench.link(file, dir, &name(nth)) {
                Ok(()) => assert!(nth < 6000, "the directory never grew"),
                Err(error) => {
                    assert_eq!(error, FsError::QuotaExceeded);
                    break;
                }
            }
        }
        // A length in another fragment or block makes the last block take more.
        let set = SetAttr { size: Some(7000), ..SetAttr::default() };
        let longer = bench.ask(Op::SetAttr { ino: file, set });
        assert_eq!(bench.used(dir), before, "{longer:?}");
    });
}

#[test]
fn names_do_not_lead_from_one_quota_into_another() {
    both(|bench| {
        let (a, b) = (bench.mkdir(ROOT_INO, "a"), bench.mkdir(ROOT_INO, "b"));
        bench.set(a, "files=100").unwrap();
        bench.set(b, "files=100").unwrap();
        let (in_a, outside) = (bench.create(a, "f").unwrap(), bench.create(ROOT_INO, "f").unwrap());
        for (dir, name, to) in [(a, "f", b), (a, "f", ROOT_INO), (ROOT_INO, "f", a)] {
            assert_eq!(bench.rename(dir, name, to, "moved"), Err(FsError::CrossDevice));
        }
        assert_eq!(bench.link(in_a, b, "l"), Err(FsError::CrossDevice));
        assert_eq!(bench.link(outside, a, "l"), Err(FsError::CrossDevice));
        bench.rename(a, "f", a, "g").unwrap();
        bench.link(in_a, a, "l").unwrap();
        bench.rename(ROOT_INO, "a", b, "inner").expect("a directory with a quota goes anywhere");
        assert_eq!((bench.used(a).1, bench.used(b).1), (2, 1), "each counts for its own");
        bench.kill();
        assert_eq!((bench.used(a).1, bench.used(b).1), (2, 1));
    });
}

#[test]
fn a_quota_that_ends_leaves_nothing_that_another_one_would_count() {
    both(|bench| {
        let dir = bench.mkdir(ROOT_INO, "d");
        bench.create(dir, "f").unwrap();
        bench.set(dir, "files=2").unwrap();
        assert_eq!(bench.create(dir, "g"), Err(FsError::QuotaExceeded));
        bench.ask(Op::RemoveXattr { ino: dir, name: QUOTA.into() }).unwrap();
        assert_eq!(bench.text(dir), Err(FsError::NoAttribute));
        bench.create(dir, "g").unwrap();
        bench.rename(dir, "f", ROOT_INO, "f").expect("there is no quota");
        let other = bench.mkdir(ROOT_INO, "other");
        bench.set(other, "files=9").unwrap();
        assert_eq!(bench.used(other).1, 1);
        bench.set(dir, "files=9").unwrap();
        assert_eq!(bench.used(dir).1, 2, "the file that has left does not count");
        bench.kill();
        assert_eq!((bench.used(other).1, bench.used(dir).1), (1, 2));
    });
}

#[test]
fn what_a_nested_quota_counted_counts_for_the_outer_one_afterwards() {
    both(|bench| {
        let outer = bench.mkdir(ROOT_INO, "outer");
        bench.set(outer, "files=9").unwrap();
        let inner = bench.mkdir(outer, "inner");
        bench.set(inner, "files=20").unwrap();
        for nth in 0..12 {
            bench.create(inner, &format!("f{nth}")).unwrap();
        }
        assert_eq!((bench.used(outer).1, bench.used(inner).1), (1, 13));
        bench.ask(Op::RemoveXattr { ino: inner, name: QUOTA.into() }).unwrap();
        assert_eq!(bench.used(outer).1, 14, "more than it allows");
        assert_eq!(bench.create(inner, "more"), Err(FsError::QuotaExceeded));
        bench.kill();
        assert_eq!(bench.used(outer).1, 14);
    });
}

#[test]
fn the_quota_of_a_directory_ends_with_it() {
    both(|bench| {
        let dir = bench.mkdir(ROOT_INO, "d");
        bench.set(dir, "files=2").unwrap();
        bench.ask(Op::RemoveDir { dir: ROOT_INO, name: b"d".as_slice().into() }).unwrap();
        bench.forget_all();
        let list = Op::GetXattr { ino: ROOT_INO, name: b"system.twinfs.quotas".as_slice().into() };
        assert_eq!(bench.ask(list.clone()), Ok(Reply::Bytes(Box::default())));
        let (again, inner) = (bench.mkdir(ROOT_INO, "again"), bench.mkdir(ROOT_INO, "outer"));
        let inner = bench.mkdir(inner, "inner");
        bench.set(again, "bytes=9000000").unwrap();
        bench.set(inner, "files=7").unwrap();
        let Ok(Reply::Bytes(text)) = bench.ask(list) else { panic!("the list") };
        let text = String::from_utf8(text.into()).unwrap();
        let block = bench.used(again).0;
        let expected = format!(
            "again\tbytes=9000000 used_bytes={block} used_files=1\n\
             outer/inner\tfiles=7 used_bytes={block} used_files=1\n"
        );
        assert_eq!(text, expected);
    });
}

#[test]
fn only_root_changes_quotas_and_everyone_sees_them() {
    both(|bench| {
        let dir = bench.mkdir(ROOT_INO, "d");
        let file = bench.create(dir, "f").unwrap();
        let set = |ino, value: &str| {
            let (name, value) = (QUOTA.into(), value.as_bytes().into());
            Op::SetXattr { ino, name, value, mode: XattrMode::Any }
        };
        let user = || Cred::user(1000, 1000);
        assert_eq!(bench.ask_as(user(), set(dir, "files=1")), Err(FsError::NotPermitted));
        assert_eq!(bench.ask(set(file, "files=1")), Err(FsError::NotDirectory));
        assert!(matches!(bench.ask(set(dir, "many")), Err(FsError::Invalid(_))));
        assert!(matches!(bench.ask(set(ROOT_INO, "files=1")), Err(FsError::Invalid(_))));
        bench.ask(set(dir, "files=9")).unwrap();
        let get = Op::GetXattr { ino: dir, name: QUOTA.into() };
        assert!(bench.ask_as(user(), get).is_ok());
        let remove = Op::RemoveXattr { ino: dir, name: QUOTA.into() };
        assert_eq!(bench.ask_as(user(), remove), Err(FsError::NotPermitted));
        assert_eq!(bench.ask(Op::ListXattr { ino: dir }), Ok(Reply::Bytes(Box::default())));
        assert_eq!(bench.ask(Op::ListXattr { ino: ROOT_INO }), Ok(Reply::Bytes(Box::default())));
    });
}

#[test]
fn a_count_that_is_wrong_is_found_and_a_repair_has_it_counted_anew() {
    for layout in ["lfs", "ffs"] {
        let mut bench = Bench::new(layout);
        let dir = bench.mkdir(ROOT_INO, "d");
        bench.set(dir, "bytes=90000").unwrap();
        let file = bench.create(dir, "a").unwrap();
        bench.write(file, 0, 20_000).unwrap();
        let used = bench.used(dir);
        // As a program would leave it that changes files and knows no quotas.
        let quotas = &bench.volume.core().quotas;
        quotas.count_inode(1, QuotaUse { bytes: 8192, files: 3 }, true);
        bench.close();
        let findings = bench.findings(false);
        assert_eq!(findings.len(), 1, "{layout}: {findings:?}");
        let (bytes, files) = used;
        let what = format!(
            "its quota counts {} bytes and {} files, there are {bytes} and {files}",
            bytes + 8192,
            files + 3
        );
        assert!(findings[0].contains(&what), "{layout}: {findings:?}");
        assert_eq!(bench.findings(true).len(), 1, "{layout}: the repair reports it");
        assert_eq!(bench.findings(false), Vec::<String>::new(), "{layout}");
        bench.volume = Bench::open(&bench.rt, bench.kind, &bench.device);
        assert_eq!(bench.used(dir), used, "{layout}");
        bench.check();
    }
}

#[test]
fn a_table_that_cannot_be_read_is_given_up_and_its_numbers_are_not_given_again() {
    for (layout, others) in [("lfs", 0), ("ffs", 0), ("lfs", 1000), ("ffs", 1000)] {
        let mut bench = Bench::new(layout);
        let (dir, other) = (bench.mkdir(ROOT_INO, "d"), bench.mkdir(ROOT_INO, "other"));
        if others > 0 {
            // Then the table is in a file.
            let (name, value) = (b"user.a".as_slice().into(), vec![1; others].into());
            bench.ask(Op::SetXattr { ino: ROOT_INO, name, value, mode: XattrMode::Any }).unwrap();
        }
        bench.set(dir, "files=9").unwrap();
        bench.create(dir, "a").unwrap();
        bench.volume.core().quotas.plant_unreadable();
        bench.close();
        let open = |bench: &Bench| {
            let device = Rc::clone(&bench.device) as Rc<dyn BlockDevice>;
            let config = bench.kind.config();
            let opening = config.open(&bench.rt, device, Cpu::none(), Settings::default());
            bench.rt.block_on(opening).unwrap()
        };
        let refused = open(&bench).map(drop).unwrap_err().to_string();
        assert!(refused.contains("check --repair"), "{layout}: {refused}");
        assert!(bench.findings(true)[0].contains("cannot be decoded"), "{layout}");
        assert_eq!(bench.findings(false), Vec::<String>::new(), "{layout}");
        bench.volume = open(&bench).unwrap().volume;
        assert_eq!(bench.text(dir), Err(FsError::NoAttribute), "{layout}");
        bench.set(other, "files=9").unwrap();
        assert_eq!(bench.used(other).1, 1, "{layout}: it has a number of its own");
        bench.kill();
        assert_eq!(bench.used(other).1, 1, "{layout}");
        bench.check();
    }
}

/// The operations of a seed on a few names in a few directories, some of which get quotas.
struct Client {
    rng: Rng,
    dirs: Vec<Ino>,
    /// The quotas that there are, and their limits.
    limits: BTreeMap<Ino, Used>,
    /// Files get further names.
    links: bool,
    /// A quota ended in the last step: what it counted may exceed the one around it.
    ended: bool,
}

impl Client {
    fn below(&mut self, end: u64) -> u64 {
        self.rng.next_u64() % end
    }

    fn dir(&mut self) -> Ino {
        let nth = self.below(self.dirs.len() as u64);
        self.dirs[nth as usize]
    }

    fn name(&mut self) -> Box<[u8]> {
        format!("n{}", self.below(12)).into_bytes().into()
    }

    fn file(&mut self, bench: &mut impl Ask) -> Option<Ino> {
        let (dir, name) = (self.dir(), self.name());
        match bench.ask(Op::Lookup { dir, name }) {
            Ok(Reply::Entry(entry)) => Some(entry.attr.ino),
            _ => None,
        }
    }

    fn step(&mut self, bench: &mut impl Ask) {
        let (dir, name) = (self.dir(), self.name());
        let len = self.below(60_000) as usize + 1;
        let choice = self.below(18);
        self.ended = false;
        let file = if choice < 8 { self.file(bench) } else { None };
        let done = match (choice, file) {
            (0..=3, Some(ino)) => {
                let off = self.below(200_000);
                bench.write(ino, off, len).map(drop)
            }
            (4, Some(ino)) => {
                let set = SetAttr { size: Some(self.below(100_000)), ..SetAttr::default() };
                bench.ask(Op::SetAttr { ino, set }).map(drop)
            }
            (5, Some(ino)) => {
                let name = b"user.a".as_slice().into();
                let value = vec![1; len % 9000].into();
                bench.ask(Op::SetXattr { ino, name, value, mode: XattrMode::Any }).map(drop)
            }
            (6, Some(ino)) => {
                let (off, mode) = (self.below(50_000), Fallocate::Allocate { keep_size: false });
                bench.ask(Op::Fallocate { ino, off, len: len as u64, mode }).map(drop)
            }
            (7, Some(ino)) if self.links => bench.ask(Op::Link { ino, dir, name }).map(drop),
            (8..=10, _) => {
                let mode = mode::REGULAR | 0o644;
                bench.ask(Op::MakeNode { dir, name, mode, rdev: 0 }).map(drop)
            }
            (11, _) => {
                let target = vec![b't'; len % 3000 + 1].into();
                bench.ask(Op::Symlink { dir, name, target }).map(drop)
            }
            (12, _) => bench.made(Op::MakeDir { dir, name, mode: 0o755 }).map(|ino| {
                self.dirs.push(ino);
            }),
            (13, _) => bench.ask(Op::Unlink { dir, name }).map(drop),
            (14, _) => {
                let (to_dir, to_name) = (self.dir(), self.name());
                let mode = [RenameMode::Replace, RenameMode::Exchange][self.below(2) as usize];
                bench.ask(Op::Rename { dir, name, to_dir, to_name, mode }).map(drop)
            }
            (15, _) => {
                bench.forget_all();
                Ok(())
            }
            (16, _) if dir != ROOT_INO && self.below(3) == 0 => {
                let limit = (self.below(1 << 20), self.below(40));
                let set = bench.set(dir, &format!("bytes={} files={}", limit.0, limit.1));
                set.map(|_| _ = self.limits.insert(dir, limit))
            }
            (17, _) if self.below(6) == 0 => {
                self.ended = true;
                self.limits.remove(&dir);
                bench.ask(Op::RemoveXattr { ino: dir, name: QUOTA.into() }).map(drop)
            }
            _ => Ok(()),
        };
        if let Err(error) = done {
            assert!(!error.is_damage(), "{error}");
            assert_ne!(error, FsError::NoSpace, "the volume is large enough");
        }
    }

    /// The use of each quota.
    fn used(&mut self, bench: &mut impl Ask) -> BTreeMap<Ino, Used> {
        let limits = &mut self.limits;
        limits.retain(|&ino, _| bench.text(ino).is_ok());
        limits.keys().copied().collect::<Vec<_>>().into_iter().map(|i| (i, bench.used(i))).collect()
    }
}

#[test]
fn random_operations_exceed_no_limit_and_are_counted_as_a_start_counts() {
    for layout in ["lfs", "ffs"] {
        let mut refused = 0;
        for seed in 0..12 {
            let mut bench = Bench::new(layout);
            let (rng, dirs) = (Rng::new(seed), vec![ROOT_INO]);
            let limits = BTreeMap::new();
            let mut client = Client { rng, dirs, limits, links: true, ended: false };
            let mut before = BTreeMap::new();
            for step in 0..400 {
                client.step(&mut bench);
                let used = client.used(&mut bench);
                for (ino, &(bytes, files)) in &used {
                    let (most_bytes, most_files) = client.limits[ino];
                    let &(bytes_before, files_before) = before.get(ino).unwrap_or(&(bytes, files));
                    let grew = bytes > bytes_before && bytes > most_bytes
                        || files > files_before && files > most_files;
                    assert!(!grew || client.ended, "{layout}, seed {seed}, step {step}: {used:?}");
                    refused += usize::from(bytes >= most_bytes || files >= most_files);
                }
                before = used;
                if step % 100 == 99 {
                    bench.forget_all();
                    let used = client.used(&mut bench);
                    if step % 200 == 99 {
                        bench.kill()
                    } else {
                        bench.reopen()
                    }
                    let counted = client.used(&mut bench);
                    assert_eq!(counted, used, "{layout}, seed {seed}, step {step}");
                    before = counted;
                }
            }
            bench.check();
        }
        assert!(refused > 100, "{layout}: limits were reached {refused} times");
    }
}

/// The inodes that are found below a directory whose quota is `limited`, itself included, up to directories
/// with quotas of their own.
fn below(volume: &mut impl Ask, limited: Ino) -> usize {
    let (mut found, mut dirs) = (BTreeSet::from([limited]), vec![limited]);
    while let Some(dir) = dirs.pop() {
        let op = Op::ReadDir { dir, cookie: 0, max_bytes: 1 << 20, plus: false };
        let Ok(Reply::Dir(entries)) = volume.ask(op) else { panic!("reading directory {dir}") };
        for entry in entries.iter().filter(|e| !matches!(&*e.name, b"." | b"..")) {
            let is_dir = entry.kind == mode::DIRECTORY;
            let own = is_dir && volume.text(entry.ino).is_ok();
            if !own && found.insert(entry.ino) && is_dir {
                dirs.push(entry.ino);
            }
        }
    }
    found.len()
}

/// Directories that have quotas from the beginning.
const LIMITED: u32 = 3;

/// Random operations until the power fails, and what a start makes of the quotas.
fn lose_power<L: Subject>(seed: u64) -> usize {
    let scenario = Scenario { size: 32 << 20, ..Scenario::new(seed) };
    let (log, faults) = (WriteLog::new(), FaultPlan::none());
    let platter = make::<L>(&scenario).unwrap();
    let begin = Time(SECS);
    let mut world = AnyWorld::build(&scenario, platter, Timing::Jitter, begin, faults, Some(&log));
    world.open().unwrap();
    let mut powered = Powered::<L>(world);
    let mut dirs = vec![ROOT_INO];
    for nth in 0..LIMITED {
        let dir = powered.mkdir(ROOT_INO, &format!("limited{nth}"));
        powered.set(dir, "bytes=2000000 files=60").unwrap();
        dirs.push(dir);
    }
    powered.ask(Op::Sync).unwrap();
    let (rng, limits) = (Rng::new(seed), BTreeMap::new());
    // Without links, because a file with names in two trees counts for one.
    let mut client = Client { rng, dirs, limits, links: false, ended: false };
    let steps = 50 + client.below(250);
    for _ in 0..steps {
        client.step(&mut powered);
        if client.below(12) == 0 {
            powered.ask(Op::Sync).unwrap();
        }
    }
    let mut rng = Rng::new(seed + 1);
    let end = powered.0.rt.now();
    let left = powered.0.disk.power_failure(&mut rng).unwrap();
    powered.0.crash();
    let mut world = AnyWorld::<L>::new(&scenario, left, Timing::Instant, end);
    world.open().unwrap();
    let mut powered = Powered(world);
    let list = Op::GetXattr { ino: ROOT_INO, name: b"system.twinfs.quotas".as_slice().into() };
    assert!(powered.ask(list).is_ok());
    let mut counted = 0;
    for (id, quota) in powered.volume().core().quotas.all() {
        if id <= LIMITED {
            assert!(quota.complete, "seed {seed}: {quota:?}");
            let files = below(&mut powered, quota.root) as u64;
            assert_eq!(quota.used.files, files, "seed {seed}: {quota:?}");
            counted += 1;
        }
    }
    let platter = powered.0.close().unwrap();
    let world = AnyWorld::<L>::new(&scenario, platter, Timing::Instant, end);
    let silent = &mut |_, _| {};
    let asked = CheckRequest { data: false, repair: false };
    let report = world.rt.block_on(L::KIND.check(&world.rt, world.device(), asked, silent));
    assert_eq!(report.unwrap().unwrap().findings, Vec::<String>::new(), "seed {seed}");
    counted
}

#[test]
fn after_a_power_failure_everything_below_a_directory_counts_for_its_quota() {
    let counted =
        |lose: fn(u64) -> usize| -> usize { twin_proof::seeds(0..400, 40).map(lose).sum() };
    let (lfs, ffs) = (counted(lose_power::<Lfs>), counted(lose_power::<Ffs>));
    assert!(lfs > 15 && ffs > 15, "quotas that were left: {lfs}, {ffs}");
}
