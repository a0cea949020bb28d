//! The first steps of a volume: a name, a file, a full volume, closing and opening. Whoever builds a layout from this
//! one sees here how far it carries, before random operations and power failures come.

use std::rc::Rc;

use twin_disk::{BlockDevice, Bytes, MemDisk};
use twin_fs::{
    Cpu, Data, FsError, Ino, Name, Op, ROOT_INO, Reply, Request, Result, Settings, Volume, mode,
};
use twin_rt::{ClockOnly, Rt};
use vsfs::{MkfsOptions, Vsfs};

struct Tried {
    rt: Rt,
    disk: Rc<dyn BlockDevice>,
    volume: Volume,
}

impl Tried {
    fn new(blocks: u64) -> Tried {
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk: Rc<dyn BlockDevice> = Rc::new(MemDisk::new(blocks * 4096));
        let options = MkfsOptions { bytes_per_inode: 3300, ..MkfsOptions::new([7; 16]) };
        rt.block_on(Vsfs::mkfs(&rt, Rc::clone(&disk), &options)).unwrap().unwrap();
        let volume = opened(&rt, &disk);
        Tried { rt, disk, volume }
    }

    fn ask(&self, op: Op) -> Result<Reply> {
        self.rt.block_on(self.volume.execute(Request::root(1, op))).unwrap()
    }

    fn made(&self, name: &str) -> Ino {
        let name = Name::from(name.as_bytes());
        let create =
            Op::Create { dir: ROOT_INO, name, mode: mode::REGULAR | 0o644, exclusive: true };
        match self.ask(create) {
            Ok(Reply::Entry(entry)) => entry.attr.ino,
            other => panic!("{other:?}"),
        }
    }

    fn found(&self, name: &str) -> Option<Ino> {
        let name = Name::from(name.as_bytes());
        match self.ask(Op::Lookup { dir: ROOT_INO, name }) {
            Ok(Reply::Entry(entry)) => Some(entry.attr.ino),
            _ => None,
        }
    }

    fn write(&self, ino: Ino, off: u64, bytes: &[u8]) -> Result<Reply> {
        self.ask(Op::Write { ino, off, data: Data::Bytes(Bytes::copy_of(bytes)) })
    }

    fn read(&self, ino: Ino) -> Vec<u8> {
        match self.ask(Op::Read { ino, off: 0, len: 64 << 10 }) {
            Ok(Reply::Data(blocks)) => blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn reopened(self) -> Tried {
        self.rt.block_on(self.volume.close()).unwrap().unwrap();
        self.rt.crash();
        let (rt, disk) = (Rt::new(ClockOnly::default(), 2), self.disk);
        let volume = opened(&rt, &disk);
        Tried { rt, disk, volume }
    }
}

fn opened(rt: &Rt, disk: &Rc<dyn BlockDevice>) -> Volume {
    let opening = Vsfs::open(rt, Rc::clone(disk), Cpu::none(), Settings::default());
    rt.block_on(opening).unwrap().unwrap().volume
}

#[test]
fn a_name_that_was_made_is_found_and_the_file_has_what_was_written() {
    let tried = Tried::new(64);
    let file = tried.made("a");
    assert_eq!((tried.found("a"), tried.found("b")), (Some(file), None));
    tried.write(file, 0, &[7; 10_000]).unwrap();
    assert_eq!(tried.read(file), [7; 10_000]);
}

#[test]
fn a_full_volume_refuses_and_takes_again_when_a_file_is_gone() {
    let tried = Tried::new(64);
    let file = tried.made("a");
    let mut off = 0;
    while tried.write(file, off, &[1; 4096]).is_ok() {
        off += 4096;
        assert!(off < 64 * 4096, "it is never full");
    }
    let other = tried.made("b");
    assert_eq!(tried.write(other, 0, &[2; 8192]), Err(FsError::NoSpace));
    let size = twin_fs::SetAttr { size: Some(0), ..Default::default() };
    tried.ask(Op::SetAttr { ino: file, set: size }).unwrap();
    tried.write(other, 0, &[2; 8192]).unwrap();
}

#[test]
fn what_was_there_when_a_volume_was_closed_is_there_when_it_is_opened() {
    let tried = Tried::new(64);
    let file = tried.made("a");
    tried.write(file, 0, &[3; 60_000]).unwrap();
    let tried = tried.reopened();
    assert_eq!(tried.found("a"), Some(file));
    assert_eq!(tried.read(file), [3; 60_000]);
}
