//! Workloads on real file systems and devices.
//!
//! Everything here happens on this machine, in real time: directories, loop devices and images are made, file
//! systems (ext4, xfs, our own mounts, others) are made on them and mounted, a workload runs and is timed, and
//! all of it is unmounted and removed, also after a failure or a signal. There is one [`Runner`] for that;
//! everything else is a use of it:
//!
//! - [`calibrate`] measures this machine for simulations of it, [`device_times`] only a device;
//! - [`validate`] holds simulations of real workloads against runs of them;
//! - [`experiment`] replays a workload on several file systems in turn, again and again, and holds simulations
//!   against what it took; [`replay`] is one such replay;
//! - [`peers`] gives benchmarks the places of several file systems on one device;
//! - [`age`] lets file systems grow old side by side.
//!
//! Main types: [`Runner`] (what a measurement has: who ends it, who shows how far it is), [`System`] (a file
//! system that can be made and mounted), [`LoopDevice`] (a device of one's own), [`Mounted`] (a file system
//! that is mounted), [`Probe`] (requests to a device without a file system).
//!
//! Start at [`Runner`].

pub mod age;
pub mod calibrate;
mod clients;
pub mod device_times;
pub mod experiment;
mod loop_device;
mod marked;
mod mounted;
pub mod peers;
mod probe;
pub mod replay;
mod runner;
mod systems;
pub mod validate;

pub use loop_device::LoopDevice;
pub use marked::{between_marks, measured};
pub use mounted::Mounted;
pub use probe::Probe;
pub use runner::{Runner, drop_caches, median, write_whole};
pub use systems::{Missing, System, Wrong, choose};
