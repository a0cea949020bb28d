//! What was kept of a log, read by a client of NFS.

use std::cell::RefCell;
use std::rc::Rc;

use twin_disk::{Bytes, MemDisk};
use twin_fs::snapshots::Keep;
use twin_fs::{Data, FileSystem, FsError, Ino, Op, ROOT_INO, Reply, Request, Settings, Volume};
use twin_lab::layouts::layout;
use twin_nfs::client::{Client, ClientSettings, Direct, Handles};
use twin_nfs::{Keys, Served, Server};
use twin_rt::{ClockOnly, FixedMap, Rt};

/// A served log, and a client's machine.
struct World {
    rt: Rt,
    volume: Volume,
    client: Client,
}

impl World {
    fn new() -> World {
        let rt = Rt::new(ClockOnly::default(), 1);
        let (config, device) = (layout("lfs").unwrap().config(), Rc::new(MemDisk::new(64 << 20)));
        let identity = twin_fs::Identity { uuid: [7; 16], root: (0, 0, 0o755) };
        rt.block_on(config.mkfs(&rt, device.clone(), identity)).unwrap().unwrap();
        let opening = config.open(&rt, device, twin_fs::Cpu::none(), Settings::default());
        let volume = rt.block_on(opening).unwrap().unwrap().volume;
        let keys = Keys::of(twin_remote::KEY);
        let export = twin_remote::export(false);
        let root = rt.block_on(volume.execute(Request::root(1, lookup(ROOT_INO, ".")))).unwrap();
        let Ok(Reply::Entry(root)) = root else { panic!("{root:?}") };
        let root = twin_remote::handle(&keys, &export, &root);
        let served = vec![Served::of(&volume, keys)];
        let server = Rc::new(Server::new(twin_remote::KEY, served, vec![export]));
        let handles: Handles = Rc::new(RefCell::new(FixedMap::default()));
        let wire = Box::new(Direct::to(&rt, &server));
        let client = Client::new(&rt, ClientSettings::default(), wire, handles, &root, 1);
        World { rt, volume, client }
    }

    fn op(&self, op: Op) -> Result<Reply, FsError> {
        self.rt.block_on(self.client.execute(Request::root(1, op))).unwrap()
    }

    /// The inode to which a path leads from the root.
    fn walk(&self, path: &str) -> Result<Ino, FsError> {
        path.split('/').try_fold(ROOT_INO, |dir, name| match self.op(lookup(dir, name))? {
            Reply::Entry(entry) => Ok(entry.attr.ino),
            other => panic!("{other:?}"),
        })
    }

    fn write(&self, ino: Ino, byte: u8) {
        self.op(Op::Write { ino, off: 0, data: Data::Bytes(Bytes::copy_of(&[byte; 5000])) })
            .unwrap();
        self.op(Op::Fsync { ino, data_only: false }).unwrap();
    }

    fn read(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        match self.op(Op::Read { ino, off: 0, len: 8192 })? {
            Reply::Data(blocks) => {
                Ok(blocks.iter().flat_map(|block| block.to_bytes().to_vec()).collect())
            }
            other => panic!("{other:?}"),
        }
    }
}

fn lookup(dir: Ino, name: &str) -> Op {
    Op::Lookup { dir, name: name.as_bytes().into() }
}

#[test]
fn a_client_reads_a_file_as_it_was_and_changes_nothing_there() {
    let world = World::new();
    let made =
        world.op(Op::Create { dir: ROOT_INO, name: (*b"f").into(), mode: 0o644, exclusive: true });
    let Ok(Reply::Entry(file)) = made else { panic!("{made:?}") };
    world.write(file.attr.ino, 1);
    let volume = &world.volume;
    let snapshots = volume.layout().views().snapshots.unwrap();
    world.rt.block_on(snapshots.keep(volume.core(), "first", Keep::Snapshot)).unwrap().unwrap();
    world.write(file.attr.ino, 2);

    let kept = world.walk(".twinfs/snapshots/first/f").unwrap();
    assert_eq!(world.read(kept).unwrap(), [1; 5000]);
    assert_eq!(world.read(file.attr.ino).unwrap(), [2; 5000]);
    let dir = world.walk(".twinfs/snapshots/first").unwrap();
    let refused = world.op(Op::Unlink { dir, name: (*b"f").into() });
    assert_eq!(refused.err(), Some(FsError::ReadOnly));

    // Deletion does not wait for who reads: its handles are stale from then on.
    world.rt.block_on(volume.delete_states(&["first".into()])).unwrap().unwrap();
    world.rt.block_on(world.rt.sleep(3600 * twin_rt::SECS)).unwrap();
    assert_eq!(world.walk(".twinfs/snapshots/first").err(), Some(FsError::NotFound));
    assert!(world.op(Op::GetAttr { ino: kept }).is_err());
}
