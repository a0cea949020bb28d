//! Drives a simulated device with 4 KiB requests, half reads and half writes of stamps, and prints
//! the device's statistics. Use `time` to see how long the simulation itself takes:
//!
//! ```sh
//! cargo build --release -p twin-sim --example device_rate
//! time target/release/examples/device_rate ssd-sata 10000000 1
//! ```
//!
//! Arguments: model, number of requests, requests in flight, number of blocks to choose from.

use std::rc::Rc;

use twin_disk::{Block, BlockDevice, Class, Io, Origin, Stamp};
use twin_rt::{ClockOnly, Rt, SECS};
use twin_sim::{SimDisk, model};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_else(|| "ssd-sata".into());
    let count: u64 = args.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let clients: u64 = args.next().map_or(Ok(1), |n| n.parse())?;
    let blocks: u64 = args.next().map_or(Ok(250_000), |n| n.parse())?;
    let rt = Rt::new(ClockOnly::default(), 1);
    let model = model::REGISTRY.get(&name)?.build(&model::Options::default())?;
    let disk = Rc::new(SimDisk::builder(&rt, model).start());
    let tasks: Vec<_> = (0..clients.max(1))
        .map(|client| {
            let (disk, rt2) = (Rc::clone(&disk), rt.clone());
            rt.spawn("client", async move {
                let mut rng = rt2.rng(&format!("client {client}"));
                for version in 0..count / clients.max(1) {
                    let lbn = rng.below(blocks.max(1));
                    let io = if rng.chance(0.5) {
                        Io::read(lbn * 4096, 4096, Class::Data, Origin::User)
                    } else {
                        let stamp = Stamp { ino: client, lbn, version, off: 0, len: 4096 };
                        Io::write(lbn * 4096, vec![Block::Stamp(stamp)], Class::Data, Origin::User)
                    };
                    disk.submit(io).await?;
                }
                Ok::<(), twin_disk::IoError>(())
            })
        })
        .collect();
    for task in tasks {
        rt.block_on(task)??;
    }
    let stats = disk.stats();
    let requests = stats.reads.requests + stats.writes.requests;
    println!("{requests} requests in {:.3} simulated seconds", rt.now().0 as f64 / SECS as f64);
    println!("where the time went: {}", stats.parts);
    println!("platter: {} bytes of memory", disk.platter().heap_bytes());
    Ok(())
}
