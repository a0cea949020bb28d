//! The simulated device world of twinfs: what stands under the file system in place of hardware.
//!
//! A [`SimDisk`] is a [`BlockDevice`](twin_disk::BlockDevice) made of exchangeable parts, driven
//! by virtual time:
//!
//! - [`model`]: how long a request takes and why (mechanical disks, flat SSDs);
//! - [`queue`]: in which order waiting requests are served;
//! - [`bus`]: a path to the host that several disks share;
//! - [`platter`]: what is stored, with user data as stamps and with free snapshots;
//! - [`faults`]: what goes wrong, and what a power failure leaves behind;
//! - [`cpu`]: what the host's processor costs; [`HostAdapter`]: the driver that spends it on requests;
//!
//! Models, schedulers and processor models are pure objects that see time as an argument; each
//! folder has a `registry()` that command line, settings and sweeps iterate. Start at
//! [`SimDisk`]; for crashes at [`faults::WriteLog`].
//!
//! ```
//! use twin_disk::{Block, BlockDevice, Class, Io, Origin};
//! use twin_rt::{ClockOnly, MILLIS, Rt};
//! use twin_sim::{SimDisk, model, queue};
//!
//! let rt = Rt::new(ClockOnly::default(), 1);
//! let model = model::by_name("hp97560")?.build(&model::Options::default())?;
//! let disk = SimDisk::builder(&rt, model).scheduler(queue::by_name("c-look")?.build()).start();
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
mod device;
pub mod faults;
pub mod model;
pub mod platter;
pub mod queue;
mod stats;

use std::fmt;

pub use adapter::HostAdapter;
pub use device::{Builder, Observer, Served, SimDisk};
pub use platter::Platter;
pub use stats::{DiskStats, Parts, Share};

/// No component of a registry has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// What was looked for: "disk model", "disk queue", "processor".
    pub what: &'static str,
    /// The name that was given.
    pub name: String,
    /// The names that there are.
    pub known: Vec<&'static str>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, name, known } = self;
        write!(f, "there is no {what} called {name:?}; choose one of: {}", known.join(", "))
    }
}

impl std::error::Error for UnknownName {}
