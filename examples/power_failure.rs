//! Fails the power of a simulated disk during work, and examines every volume that a restart might
//! find.
//!
//! ```text
//! cargo run --release --example power_failure [LAYOUT]
//! ```
//!
//! A real drive cannot be told which of the writes in its cache to lose. A simulated one keeps them
//! apart: the content that is certain, and the writes in doubt. Each of those may have reached the
//! medium wholly, partly or not at all.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::error::Error;
use std::rc::Rc;

use twin_disk::{BlockDevice, Bytes};
use twin_fs::{Cpu, Data, Identity, Name, Op, ROOT_INO, Reply, Request, Settings};
use twin_rt::{ClockOnly, MILLIS, Rng, Rt};
use twin_sim::faults::Exploration;
use twin_sim::{Platter, SimDisk, model};

const SIZE: u64 = 64 << 20;

fn disk(rt: &Rt, platter: Platter) -> Result<SimDisk, Box<dyn Error>> {
    let model = model::REGISTRY
        .get("disk-7200")?
        .build(&model::Options { size: Some(SIZE), ..Default::default() })?;
    Ok(SimDisk::builder(rt, model).platter(platter).crashable().start())
}

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1);
    let layout = twin_lab::layouts::layout(name.as_deref().unwrap_or("ffs"))?;
    let config = layout.config();
    let rt = Rt::new(ClockOnly::default(), 1);
    let sim = disk(&rt, Platter::new(SIZE))?;
    let device: Rc<dyn BlockDevice> = Rc::new(sim.clone());
    let identity = Identity { uuid: *b"example of crash", root: (0, 0, 0o755) };
    rt.block_on(config.mkfs(&rt, Rc::clone(&device), identity))??;
    let opening = config.open(&rt, device, Cpu::none(), Settings::default());
    let volume = rt.block_on(opening)??.volume;

    // A client writes files and makes each one durable. It is still at work when the power fails.
    let durable = Rc::new(Cell::new(0));
    let (work, told) = (volume.clone(), Rc::clone(&durable));
    rt.spawn("client", async move {
        let ask = async |op| work.execute(Request::root(0, op)).await;
        for number in 0.. {
            let name = Name::from(format!("file {number}").as_bytes());
            let create = Op::Create { dir: ROOT_INO, name, mode: 0o644, exclusive: true };
            let Ok(Reply::Entry(file)) = ask(create).await else { return };
            let data = Data::Bytes(Bytes::copy_of(&[number as u8; 10_000]));
            let write = Op::Write { ino: file.attr.ino, off: 0, data };
            let fsync = Op::Fsync { ino: file.attr.ino, data_only: false };
            if ask(write).await.is_err() || ask(fsync).await.is_err() {
                return;
            }
            told.set(number + 1);
        }
    });
    rt.block_on(rt.sleep(200 * MILLIS))?;

    let crash = sim.crash_state().ok_or("the disk keeps no writes apart")?;
    let (writes, durable) = (crash.unstable_writes().len(), durable.get());
    println!("{durable} files were called durable; {writes} writes are in doubt");
    let mut restarts: BTreeMap<(u64, String), u64> = BTreeMap::new();
    for platter in crash.explore(&Exploration::default(), &mut Rng::new(1)) {
        let rt = Rt::new(ClockOnly::default(), 1);
        let device: Rc<dyn BlockDevice> = Rc::new(disk(&rt, platter)?);
        let opening = config.open(&rt, device, Cpu::none(), Settings::default());
        let opened = rt.block_on(opening)??;
        let mut found = 0;
        loop {
            let name = Name::from(format!("file {found}").as_bytes());
            let lookup = Op::Lookup { dir: ROOT_INO, name };
            match rt.block_on(opened.volume.execute(Request::root(0, lookup)))? {
                Ok(_) => found += 1,
                Err(_) => break,
            }
        }
        assert!(found >= durable, "a file was lost that had been called durable");
        *restarts.entry((found, opened.recovery.unwrap_or_default())).or_default() += 1;
    }
    for ((found, recovery), disks) in restarts {
        println!("{disks:>3} disks: {found} files; {recovery}");
    }
    Ok(())
}
