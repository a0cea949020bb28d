//! What the modelled client does when names of files are removed that processes still use.

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::Machine;
use twin_disk::Bytes;
use twin_fs::{
    Data, FileSystem, FsError, Ino, Op, ROOT_INO, RenameMode, Reply, Request, SetAttr, SetTime,
    Timestamp,
};
use twin_nfs::client::{Client, ClientSettings, Direct, Handles};
use twin_rt::{FixedMap, Rt};

struct World {
    rt: Rt,
    clients: [Client; 2],
}

impl World {
    fn new() -> World {
        let machine = Machine::new();
        let far = machine.start();
        let root = far.mnt("/").unwrap();
        let handles = Handles::new(RefCell::new(FixedMap::default()));
        let clients = [1 << 24, 2 << 24].map(|xid| {
            let wire = Direct::to(&machine.rt, &far.server);
            let (settings, handles) = (ClientSettings::default(), Rc::clone(&handles));
            Client::new(&machine.rt, settings, Box::new(wire), handles, &root, xid)
        });
        World { rt: machine.rt, clients }
    }

    fn on(&self, machine: usize, op: Op) -> Result<Reply, FsError> {
        let request = Request::root(1, op);
        let reply = self.rt.block_on(self.clients[machine].execute(request)).unwrap();
        self.rt.block_on(self.rt.sleep(1000)).unwrap();
        reply
    }

    fn op(&self, op: Op) -> Result<Reply, FsError> {
        self.on(0, op)
    }

    /// Makes a file with a byte in it, and leaves it open.
    fn create(&self, name: &str, byte: u8) -> Ino {
        let name = name.as_bytes().into();
        let op = Op::Create { dir: ROOT_INO, name, mode: 0o644, exclusive: false };
        let Reply::Entry(entry) = self.op(op).unwrap() else { panic!("no entry") };
        let ino = entry.attr.ino;
        self.op(Op::Write { ino, off: 0, data: Data::Bytes(Bytes::copy_of(&[byte])) }).unwrap();
        ino
    }

    fn unlink(&self, name: &str) -> Result<Reply, FsError> {
        self.op(Op::Unlink { dir: ROOT_INO, name: name.as_bytes().into() })
    }

    fn rename(&self, name: &str, to: &str) -> Result<Reply, FsError> {
        let (name, to_name) = (name.as_bytes().into(), to.as_bytes().into());
        let (dir, to_dir, mode) = (ROOT_INO, ROOT_INO, RenameMode::Replace);
        self.op(Op::Rename { dir, name, to_dir, to_name, mode })
    }

    /// The byte of a file, by reading it on a machine.
    fn byte(&self, machine: usize, ino: Ino) -> Result<u8, FsError> {
        match self.on(machine, Op::Read { ino, off: 0, len: 9 })? {
            Reply::Data(blocks) => {
                let mut byte = [0];
                blocks[0].copy_to(&mut byte);
                Ok(byte[0])
            }
            other => panic!("{other:?}"),
        }
    }

    /// The names in the root.
    fn names(&self) -> Vec<String> {
        let op = Op::ReadDir { dir: ROOT_INO, cookie: 0, max_bytes: 65536, plus: false };
        let Reply::Dir(entries) = self.on(1, op).unwrap() else { panic!("no listing") };
        let names = entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned());
        names.filter(|name| !matches!(name.as_str(), "." | "..")).collect()
    }
}

#[test]
fn an_open_file_that_is_removed_keeps_its_data_until_it_is_closed() {
    let world = World::new();
    let file = world.create("file", 7);
    world.unlink("file").unwrap();
    let hidden = world.names();
    assert!(hidden.len() == 1 && hidden[0].starts_with(".nfs"), "{hidden:?}");
    assert_eq!(world.unlink(&hidden[0]), Err(FsError::Busy), "it is the file's last name");
    assert_eq!(world.byte(0, file), Ok(7));
    world.op(Op::Fsync { ino: file, data_only: false }).unwrap();
    world.op(Op::Release { ino: file }).unwrap();
    assert!(world.names().is_empty());
}

#[test]
fn an_open_file_whose_name_another_takes_keeps_its_data_until_it_is_closed() {
    let world = World::new();
    let (old, new) = (world.create("file", 7), world.create("new", 8));
    world.rename("new", "file").unwrap();
    assert_eq!((world.byte(0, old), world.byte(0, new)), (Ok(7), Ok(8)));
    assert_eq!(world.names().len(), 2, "the old file has another name");
    world.op(Op::Release { ino: old }).unwrap();
    assert_eq!(world.names(), ["file"]);
    // Neither a second name of the same file nor a name that is not there costs it anything.
    world.op(Op::Link { ino: new, dir: ROOT_INO, name: (*b"link").into() }).unwrap();
    world.rename("link", "file").unwrap();
    assert_eq!(world.rename("absent", "file"), Err(FsError::NotFound));
    assert!(world.names().contains(&"file".into()));
    assert_eq!(world.byte(0, new), Ok(8));
}

/// A kernel writes the times of a file back when it has the time, which may be after the removal.
#[test]
fn times_that_come_after_the_removal_of_their_file_are_no_error() {
    let world = World::new();
    let file = world.create("file", 7);
    world.op(Op::Release { ino: file }).unwrap();
    world.unlink("file").unwrap();
    let time = Timestamp { secs: 5, nanos: 0 };
    let times = SetAttr { mtime: Some(SetTime::At(time)), ctime: Some(time), ..SetAttr::default() };
    assert!(world.op(Op::SetAttr { ino: file, set: times }).is_ok());
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    assert_eq!(world.op(Op::SetAttr { ino: file, set: mode }), Err(FsError::Stale));
}
