//! Whole volumes, damaged: checked, opened, walked, worked on, repaired.
//!
//! An input is a list of changes to a small volume with some files. Structures without checksums, those of the
//! classic profile, are reached so to their last field; where there are checksums, those of superblocks,
//! checkpoints, inodes and maps are put right afterwards.

use std::rc::Rc;

use twin_disk::{Bytes, MemDisk};
use twin_ffs::format::Superblock;
use twin_fs::dump::{self, Column, Fields, OF_FILES, Problem, Sink, StructureArgument, Value};
use twin_fs::{
    CheckReport, CheckRequest, Cpu, Data, FileSystem, FsError, Identity, Ino, LayoutKind, Op,
    ROOT_INO, Reply, Request, SetAttr, Settings, Volume,
};
use twin_lfs::format::Summary;
use twin_rt::{ClockOnly, Rt};

use crate::Target;
use crate::bytes::{Input, seal};

/// A damaged log.
pub(crate) const LFS: Target = Target {
    name: "lfs_image",
    about: "a damaged log: checked, opened, walked, worked on",
    run: |data| run(twin_lfs::LFS, data),
    seeds: || (0..4).map(|which| vec![which]).collect(),
};

/// A damaged clustered volume.
pub(crate) const FFS: Target = Target {
    name: "ffs_image",
    about: "a damaged clustered volume: checked, opened, walked, worked on, repaired",
    run: |data| run(twin_ffs::FFS, data),
    seeds: || (0..4).map(|which| vec![which]).collect(),
};

const SECTOR: usize = 512;
/// So many changes of one input are made.
const CHANGES: usize = 24;
/// So many inodes are looked at on a walk.
const NODES: usize = 60;

/// A volume with files on it, and the sectors of it that hold anything.
struct Base {
    image: Vec<u8>,
    used: Vec<usize>,
}

/// Which volume, then changes: a sector, a byte of it, its new value or four of them; or, with the high bit, another sector's content.
fn run(kind: &'static dyn LayoutKind, data: &[u8]) -> bool {
    let mut input = Input(data);
    let which = usize::from(input.u8() & 3);
    let base = base(kind, which);
    let mut image = base.image.clone();
    for _ in 0..CHANGES {
        if input.is_empty() {
            break;
        }
        let sector = base.used[usize::from(input.u16()) % base.used.len()] * SECTOR;
        let at = input.u16();
        if at & 0x8000 == 0 {
            let len = if at & 0x4000 == 0 { 1 } else { 4 };
            let new = input.take(len);
            let at = sector + usize::from(at) % (SECTOR - len);
            image[at..at + new.len()].copy_from_slice(new);
        } else {
            let other = base.used[usize::from(input.u8()) % base.used.len()] * SECTOR;
            image.copy_within(other..other + SECTOR, sector);
        }
    }
    match kind.is_log() {
        true => seal_log(&mut image, &base.used),
        false => seal_clustered(&mut image, which & 1 == 0, &base.used),
    }
    let is_open = use_it(kind, &image);
    show(kind, &image);
    check_and_repair(kind, image);
    is_open
}

fn base(kind: &'static dyn LayoutKind, which: usize) -> Rc<Base> {
    thread_local! {
        static BASES: std::cell::RefCell<std::collections::BTreeMap<(&'static str, usize), Rc<Base>>> =
            const { std::cell::RefCell::new(std::collections::BTreeMap::new()) };
    }
    BASES.with(|bases| {
        let mut bases = bases.borrow_mut();
        let made = bases.entry((kind.name(), which)).or_insert_with(|| Rc::new(make(kind, which)));
        Rc::clone(made)
    })
}

/// Makes a volume with a tree that has something of everything: of either profile, closed or left as by a crash.
fn make(kind: &dyn LayoutKind, which: usize) -> Base {
    let rt = Rt::new(ClockOnly::default(), 1);
    let disk = Rc::new(MemDisk::new(3 << 20));
    let device = || Rc::clone(&disk) as Rc<dyn twin_disk::BlockDevice>;
    let mut config = kind.config();
    config.set("profile", ["classic", "modern"][which & 1]).unwrap();
    if kind.is_log() {
        config.set("segment", "128K").unwrap();
    }
    config.complete(&|key| key == "profile" || key == "segment");
    let identity = Identity { uuid: [5; 16], root: (0, 0, 0o755) };
    rt.block_on(config.mkfs(&rt, device(), identity)).unwrap().unwrap();
    let opened = rt.block_on(config.open(&rt, device(), Cpu::none(), Settings::default()));
    let volume = opened.unwrap().unwrap().volume;
    let mut client = Client { rt: &rt, volume: &volume, id: 1 };
    client.furnish().unwrap();
    // Without a close there is a log to roll forward, or a journal to replay.
    if which & 2 == 0 {
        rt.block_on(volume.close()).unwrap().unwrap();
    }
    let image = disk.to_bytes();
    rt.crash();
    let used = (0..image.len() / SECTOR)
        .filter(|n| image[n * SECTOR..][..SECTOR] != [0; SECTOR])
        .collect();
    Base { image, used }
}

/// The checksums of superblocks, checkpoints and summaries.
fn seal_log(image: &mut [u8], used: &[usize]) {
    seal(&mut image[..4096], 8, 12);
    if let Ok(sb) = twin_lfs::format::Superblock::decode(&image[..4096], 0, image.len() as u64) {
        for place in (0..2).flat_map(|slot| sb.checkpoint_places(slot)) {
            if let Some(raw) = image.get_mut(place as usize..place as usize + 4096) {
                seal(raw, 8, 16);
            }
        }
    }
    for at in used.iter().map(|sector| sector * SECTOR) {
        let len = Summary::len_of(&image[at..]).unwrap_or(0);
        if let Some(raw) = image.get_mut(at..at + len).filter(|raw| !raw.is_empty()) {
            seal(raw, 4, 8);
        }
    }
}

/// The checksums of the superblock, the state and the journal, and in the modern profile those of maps and inodes.
fn seal_clustered(image: &mut [u8], is_classic: bool, used: &[usize]) {
    seal(&mut image[..4096], 8, 12);
    let Ok(sb) = Superblock::decode(&image[..4096], 0, image.len() as u64) else { return };
    let (block, size) = (sb.geometry.block_size as usize, sb.geometry.inode_size as usize);
    for at in used.iter().map(|sector| sector * SECTOR) {
        let len = match &image[at..at + 8] {
            b"ffsstate" | b"ffsjhead" => SECTOR,
            b"ffsjrec1" => {
                let entries = Input(&image[at + 24..]).u32() as usize & 0xffff;
                (48 + 16 * entries).next_multiple_of(block)
            }
            _ => continue,
        };
        if let Some(raw) = image.get_mut(at..at + len) {
            seal(raw, 8, 12);
        }
    }
    if is_classic {
        return;
    }
    for group in 0..sb.groups.min(16) {
        let maps = sb.geometry.byte_of(sb.cg_addr(group)) as usize;
        if let Some(raw) = image.get_mut(maps..maps + block) {
            seal(raw, 4, 8);
        }
    }
    for ino in 0..sb.inodes().min(4096) {
        let (addr, off) = sb.inode_place(ino);
        let at = sb.geometry.byte_of(addr) as usize + off;
        // Those that were never written are zeros, without a checksum.
        if let Some(raw) = image.get_mut(at..at + size)
            && raw.iter().any(|&byte| byte != 0)
        {
            seal(raw, 0, 4);
        }
    }
}

/// Opened, walked and worked on, whatever comes of it: it must end. True if it could be opened.
fn use_it(kind: &dyn LayoutKind, image: &[u8]) -> bool {
    let rt = Rt::new(ClockOnly::default(), 2);
    let disk = Rc::new(MemDisk::from_bytes(image.to_vec()));
    let config = kind.config();
    let opened = rt.block_on(config.open(&rt, disk, Cpu::none(), Settings::default()));
    let Ok(opened) = opened.unwrap() else {
        rt.crash();
        return false;
    };
    let mut client = Client { rt: &rt, volume: &opened.volume, id: 1 };
    let _ = client.walk();
    let _ = client.work();
    let _ = rt.block_on(opened.volume.close()).unwrap();
    // Tasks and what they hold would stay in memory otherwise.
    rt.crash();
    true
}

/// Shown, structure by structure.
fn show(kind: &dyn LayoutKind, image: &[u8]) {
    let disk = Rc::new(MemDisk::from_bytes(image.to_vec()));
    for structure in kind.structures().iter().chain(OF_FILES) {
        let which = match structure.takes {
            StructureArgument::Nothing => vec![None],
            StructureArgument::Number(_) => vec![None, Some("0")],
            StructureArgument::File => vec![Some("/large"), Some("/full"), Some("3")],
        };
        for which in which {
            let request = dump::Request::parse(kind.structures(), structure.name, which);
            let request = request.unwrap_or_else(|why| panic!("{}: {why}", structure.name));
            let rt = Rt::new(ClockOnly::default(), 4);
            let mut blind = Blind;
            let shown = kind.dump(&rt, Rc::clone(&disk) as _, &request, &mut blind);
            let _ = rt.block_on(shown).unwrap();
            rt.crash();
        }
    }
}

/// Looks at nothing that it is shown.
struct Blind;

impl Sink for Blind {
    fn fields(&mut self, _: &str, _: &str, _: Fields) {}
    fn begin(&mut self, _: &str, _: &str, _: &[Column]) {}
    fn row(&mut self, _: Vec<Value>) {}
    fn end(&mut self) {}
    fn problem(&mut self, _: Problem) {}
}

/// Checked; and a repair that succeeds leaves a clean volume.
fn check_and_repair(kind: &dyn LayoutKind, image: Vec<u8>) {
    let disk = Rc::new(MemDisk::from_bytes(image));
    let check = |repair| -> Result<CheckReport, FsError> {
        let rt = Rt::new(ClockOnly::default(), 3);
        let how = CheckRequest { data: true, repair };
        let mut quiet = |_, _| {};
        let report = rt.block_on(kind.check(&rt, Rc::clone(&disk) as _, how, &mut quiet));
        rt.crash();
        report.unwrap()
    };
    let before = check(false);
    if kind.is_log() || check(true).is_err() {
        return;
    }
    let after = check(false).unwrap();
    assert!(after.is_clean(), "before: {before:?}; after the repair: {:?}", after.findings);
}

/// Someone who uses a volume.
struct Client<'a> {
    rt: &'a Rt,
    volume: &'a Volume,
    id: u64,
}

impl Client<'_> {
    fn ask(&mut self, op: Op) -> Result<Reply, FsError> {
        let request = Request::root(self.id, op);
        self.id += 1;
        self.rt.block_on(FileSystem::execute(self.volume, request)).unwrap()
    }

    fn made(&mut self, op: Op) -> Result<Ino, FsError> {
        match self.ask(op)? {
            Reply::Entry(entry) => Ok(entry.attr.ino),
            other => panic!("{other:?}"),
        }
    }

    fn create(&mut self, dir: Ino, name: &str) -> Result<Ino, FsError> {
        self.made(Op::Create { dir, name: name.as_bytes().into(), mode: 0o644, exclusive: true })
    }

    fn write(&mut self, ino: Ino, off: u64, len: usize) -> Result<(), FsError> {
        let data = Data::Bytes(Bytes::copy_of(&vec![0x61; len]));
        self.ask(Op::Write { ino, off, data }).map(drop)
    }

    /// Files of several lengths, holes, links, attributes, a directory with an index.
    fn furnish(&mut self) -> Result<(), FsError> {
        let name = |text: &str| text.as_bytes().into();
        let dir = self.made(Op::MakeDir { dir: ROOT_INO, name: name("dir"), mode: 0o755 })?;
        let small = self.create(dir, "small")?;
        self.write(small, 0, 100)?;
        let large = self.create(ROOT_INO, "large")?;
        self.write(large, 0, 150_000)?;
        self.write(large, 400_000, 20_000)?;
        self.made(Op::Link { ino: small, dir: ROOT_INO, name: name("link") })?;
        self.made(Op::Symlink { dir, name: name("sym"), target: name("../large") })?;
        let attribute = Op::SetXattr {
            ino: large,
            name: name("user.a"),
            value: name("v"),
            mode: Default::default(),
        };
        let _ = self.ask(attribute);
        let full = self.made(Op::MakeDir { dir: ROOT_INO, name: name("full"), mode: 0o755 })?;
        for n in 0..300 {
            let long = format!("{n:0100}");
            self.made(Op::Link { ino: small, dir: full, name: name(&long) })?;
        }
        let gone = self.create(ROOT_INO, "gone")?;
        self.write(gone, 0, 9000)?;
        self.ask(Op::Unlink { dir: ROOT_INO, name: name("gone") })?;
        self.ask(Op::Fsync { ino: large, data_only: false }).map(drop)
    }

    /// Looks at everything that can be reached, up to a limit.
    fn walk(&mut self) -> Result<(), FsError> {
        let mut dirs = vec![ROOT_INO];
        let mut left = NODES;
        while let Some(dir) = dirs.pop() {
            let read = Op::ReadDir { dir, cookie: 0, max_bytes: 4096, plus: true };
            let Ok(Reply::Dir(entries)) = self.ask(read) else { continue };
            for entry in entries.iter().filter(|entry| !matches!(&*entry.name, b"." | b"..")) {
                if left == 0 {
                    return Ok(());
                }
                left -= 1;
                let ino = entry.ino;
                let _ = self.ask(Op::Lookup { dir, name: entry.name.clone() });
                let _ = self.ask(Op::Read { ino, off: 0, len: 200_000 });
                let _ = self.ask(Op::Read { ino, off: 390_000, len: 40_000 });
                let _ = self.ask(Op::ReadLink { ino });
                let _ = self.ask(Op::ListXattr { ino });
                if entry.kind == twin_fs::mode::DIRECTORY && dirs.len() < NODES {
                    dirs.push(ino);
                }
            }
        }
        Ok(())
    }

    /// Changes something of everything.
    fn work(&mut self) -> Result<(), FsError> {
        let name = |text: &str| text.as_bytes().into();
        let new = self.create(ROOT_INO, "new")?;
        let _ = self.write(new, 5000, 30_000);
        for (dir, old) in [(ROOT_INO, "large"), (ROOT_INO, "link")] {
            if let Ok(ino) = self.made(Op::Lookup { dir, name: name(old) }) {
                let _ = self.write(ino, 100, 20_000);
                let size = Some(70_000);
                let _ = self.ask(Op::SetAttr { ino, set: SetAttr { size, ..SetAttr::default() } });
            }
            let _ = self.ask(Op::Unlink { dir, name: name(old) });
        }
        if let Ok(full) = self.made(Op::Lookup { dir: ROOT_INO, name: name("full") }) {
            for n in 0..20 {
                let _ = self.ask(Op::Unlink { dir: full, name: name(&format!("{n:0100}")) });
                let _ = self.create(full, &format!("another {n}"));
            }
        }
        self.ask(Op::Sync).map(drop)
    }
}
