//! `cargo bench -p twin-lab`: the cost of the six hottest paths, in nanoseconds.
//!
//! Each path runs in batches of some 20 ms. The output has the fastest batch, for comparison before
//! and after a change of the code, and the median, which shows how quiet the machine was. A word
//! behind `--` selects paths. For figures that do not depend on the machine use the instruction
//! budgets (`cargo xtask e2e instructions`).

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // A benchmark reads the clock.

use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use twin_disk::{Block, BlockDevice, Bytes, Class, Io, MemDisk, Origin};
use twin_fs::{Cpu, Data, Identity, Ino, Op, ROOT_INO, Reply, Request, Settings, Volume};
use twin_lab::layouts::layout;
use twin_rt::{ClockOnly, Rt};
use twin_sim::{SimDisk, model, queue};

/// A path: its name, and a function that returns a closure which runs it once.
type Path = (&'static str, fn() -> Box<dyn FnMut()>);

const PATHS: &[Path] = &[
    ("read of 4 KiB from the cache", cache_hit),
    ("lookup in a directory of 10,000 names", lookup),
    ("log write of 1 MiB, built and sent", log_write),
    ("FFS: a block allocated and freed", ffs_allocation),
    ("FUSE write of 4 KiB, parsed and answered", fuse_request),
    ("request of a simulated disk", disk_request),
];

const BATCH: Duration = Duration::from_millis(20);
const BATCHES: usize = 25;

fn main() {
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    println!("{:<44}{:>14}{:>14}", "", "fastest ns", "median ns");
    for (name, make) in PATHS {
        if wanted.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            let (fastest, median) = measure(make());
            println!("{name:<44}{fastest:>14.1}{median:>14.1}");
        }
    }
}

/// Nanoseconds per run: in the fastest batch, and in the median batch.
fn measure(mut path: Box<dyn FnMut()>) -> (f64, f64) {
    let mut batch = |runs: u32| {
        let start = Instant::now();
        (0..runs).for_each(|_| path());
        start.elapsed()
    };
    let mut runs = 1;
    while batch(runs) < BATCH {
        runs *= 2;
    }
    let mut all: Vec<f64> =
        (0..BATCHES).map(|_| batch(runs).as_nanos() as f64 / f64::from(runs)).collect();
    all.sort_by(f64::total_cmp);
    (all[0], all[BATCHES / 2])
}

/// A volume in memory with a client.
struct Client {
    rt: Rt,
    volume: Volume,
    id: u64,
}

impl Client {
    fn new(name: &str, settings: &[(&str, &str)]) -> Client {
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk: Rc<dyn BlockDevice> = Rc::new(MemDisk::new(256 << 20));
        let mut config = layout(name).unwrap().config();
        for (key, value) in settings {
            config.set(key, value).unwrap();
        }
        config.complete(&|key| settings.iter().any(|(set, _)| *set == key));
        let identity = Identity { uuid: [1; 16], root: (0, 0, 0o755) };
        rt.block_on(config.mkfs(&rt, Rc::clone(&disk), identity)).unwrap().unwrap();
        let opening = config.open(&rt, disk, Cpu::none(), Settings::default());
        let volume = rt.block_on(opening).unwrap().unwrap().volume;
        Client { rt, volume, id: 0 }
    }

    fn ask(&mut self, op: Op) -> Reply {
        self.id += 1;
        let request = Request::root(self.id, op);
        self.rt.block_on(self.volume.execute(request)).unwrap().unwrap()
    }

    fn create(&mut self, name: &str) -> Ino {
        let name = name.as_bytes().into();
        match self.ask(Op::Create { dir: ROOT_INO, name, mode: 0o644, exclusive: true }) {
            Reply::Entry(entry) => entry.attr.ino,
            other => panic!("{other:?}"),
        }
    }
}

fn bytes(len: usize) -> Data {
    Data::Bytes(Bytes::copy_of(&vec![7; len]))
}

fn cache_hit() -> Box<dyn FnMut()> {
    let mut client = Client::new("lfs", &[]);
    let ino = client.create("a");
    client.ask(Op::Write { ino, off: 0, data: bytes(1 << 20) });
    let mut n = 0;
    Box::new(move || {
        n = (n + 37) % 256;
        black_box(client.ask(Op::Read { ino, off: n * 4096, len: 4096 }));
    })
}

fn lookup() -> Box<dyn FnMut()> {
    let mut client = Client::new("lfs", &[]);
    let names: Vec<String> = (0..10_000).map(|n| format!("a file with number {n}")).collect();
    for name in &names {
        client.create(name);
    }
    let mut n = 0;
    Box::new(move || {
        n = (n + 7919) % names.len();
        let name = names[n].as_bytes().into();
        let Reply::Entry(entry) = client.ask(Op::Lookup { dir: ROOT_INO, name }) else { return };
        client.ask(Op::Forget { ino: entry.attr.ino, count: 1 });
    })
}

fn log_write() -> Box<dyn FnMut()> {
    let mut client = Client::new("lfs", &[]);
    let ino = client.create("a");
    let data = bytes(1 << 20);
    Box::new(move || {
        client.ask(Op::Write { ino, off: 0, data: data.clone() });
        client.ask(Op::Fsync { ino, data_only: true });
    })
}

fn ffs_allocation() -> Box<dyn FnMut()> {
    const BLOCKS: u64 = 64;
    let mut client = Client::new("ffs", &[("ordering", "async")]);
    let ino = client.create("a");
    let data = bytes(8192);
    let mut n = 0;
    // Rewrites the blocks of a file of constant length in turn: one block is freed, one allocated
    // and written.
    Box::new(move || {
        n = (n + 1) % BLOCKS;
        let (off, len) = (n * 8192, 8192);
        client.ask(Op::Fallocate { ino, off, len, mode: twin_fs::Fallocate::PunchHole });
        client.ask(Op::Write { ino, off, data: data.clone() });
        if n == 0 {
            client.ask(Op::Fsync { ino, data_only: true });
        }
    })
}

fn fuse_request() -> Box<dyn FnMut()> {
    const LEN: usize = 4096;
    let mut packet = Vec::new();
    for word in [(80 + LEN) as u32, 16, 77, 0, 9, 0, 1000, 1000, 1, 0] {
        packet.extend(word.to_ne_bytes());
    }
    // The arguments of a write: handle, offset, length, and fields that have no effect here.
    for word in [0, 0, 8192, 0, LEN as u32, 0, 0, 0, 0, 0] {
        packet.extend(word.to_ne_bytes());
    }
    packet.resize(80 + LEN, 7);
    Box::new(move || {
        let requests = twin_host::fuse::requests(black_box(&packet)).unwrap();
        assert_eq!(requests.len(), 1);
        let mut reply = Reply::Written(LEN as u64);
        black_box(twin_host::fuse::answer(&packet, &mut reply).unwrap());
    })
}

fn disk_request() -> Box<dyn FnMut()> {
    let rt = Rt::new(ClockOnly::default(), 1);
    let disk = model::REGISTRY.get("hp97560").unwrap().build(&model::Options::default()).unwrap();
    let scheduler = queue::REGISTRY.get("c-look").unwrap().make();
    let disk = SimDisk::builder(&rt, disk).scheduler(scheduler).start();
    let mut n = 0u64;
    Box::new(move || {
        n = (n + 7919) % 100_000;
        let io = Io::write(n * 8192, vec![Block::Zero(8192)], Class::Data, Origin::User);
        rt.block_on(disk.submit(io)).unwrap().unwrap();
    })
}
