//! The simulated devices of twinfs: disks, buses and processors that stand in for hardware.
//!
//! A [`SimDisk`] is a [`BlockDevice`](twin_disk::BlockDevice) made of exchangeable parts, driven
//! by virtual time:
//!
//! - [`model`]: how long a request takes and why (mechanical disks, SSDs);
//! - [`queue`]: in which order waiting requests are served, the same code as on a
//!   mount;
//! - [`bus`]: a path to the host that several disks share;
//! - [`SimStore`]: an object store whose service is such a disk;
//! - [`platter`]: what is stored, with user data as stamps and with free snapshots;
//! - [`faults`]: what goes wrong, and what a power failure leaves behind;
//! - [`fuse`]: the kernel between clients and a mount; [`daemon`]: what the process that serves a mount
//!   takes more than its work in a loop; [`network`]: the network between clients and a
//!   server;
//! - [`cpu`]: the time that the host's processor takes; [`HostAdapter`]: the driver that spends it
//!   on requests.
//!
//! Models, schedulers and processor models are pure objects that get the time as an argument. Each
//! folder has a `REGISTRY`, which the command line, settings and sweeps iterate. Start at
//! [`SimDisk`]; for crashes at [`faults::WriteLog`].
//!
//! ```
//! use twin_disk::{Block, BlockDevice, Class, Io, Origin};
//! use twin_rt::{ClockOnly, MILLIS, Rt};
//! use twin_sim::{SimDisk, model, queue};
//!
//! let rt = Rt::new(ClockOnly::default(), 1);
//! let model = model::REGISTRY.get("hp97560")?.build(&model::Options::default())?;
//! let disk = SimDisk::builder(&rt, model).scheduler(queue::REGISTRY.get("c-look")?.make()).start();
//! let at = 1 << 20;
//! let read = rt.block_on(disk.submit(Io::read(at, 8192, Class::Data, Origin::User)));
//! assert_eq!(read.unwrap(), Ok(vec![Block::Zero(8192)]));
//! assert!(rt.now().0 > 5 * MILLIS && rt.now().0 < 40 * MILLIS);
//! println!("{}", disk.stats().parts);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adapter;
pub mod bus;
pub mod cpu;
pub mod daemon;
mod demerit;
mod device;
pub mod faults;
pub mod fuse;
pub mod kernel;
pub mod model;
pub mod network;
mod planted;
pub mod platter;
mod stats;
mod store;

pub use adapter::HostAdapter;
pub use demerit::demerit;
pub use device::{Builder, Observer, Served, SimDisk};
pub use planted::PlantedFault;
pub use platter::Platter;
pub use stats::{DiskStats, Share, TimeBreakdown};
pub use store::{Outage, Rates, SimStore};
pub use twin_disk::queue;
