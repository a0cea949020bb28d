//! The runtime, which is the same in both worlds: everything above it runs unchanged on a mount and
//! in a simulation.
//!
//! A file system needs time, tasks, locks and random numbers. This crate provides them so that a
//! run is a pure function of its inputs: tasks run one at a time in a fixed [order], time changes
//! only when the [`Driver`] says so, locks are granted first come, first served, and random numbers
//! come from seeded streams. An [`EventDigest`] is the fingerprint of a run.
//!
//! Start at [`Rt`]: create one with a driver, [`Rt::spawn`] tasks, [`Rt::block_on`] one of them.
//! [`Rt::crash`] is a power failure: every task vanishes at its current `.await`.
//!
//! ```
//! use twin_rt::{ClockOnly, Rt, Time, MILLIS};
//! let rt = Rt::new(ClockOnly::default(), 1);
//! let rt2 = rt.clone();
//! let end = rt.block_on(async move {
//!     rt2.sleep(5 * MILLIS).await;
//!     rt2.now()
//! });
//! assert_eq!(end, Ok(Time(5 * MILLIS)));
//! ```
//!
//! Rules for code that runs here: after an `.await`, look things up again; hold no `RefCell`
//! borrow across an `.await`; never drop a future of the core except in a crash, because it may be
//! in the queue of a lock.

mod digest;
mod driver;
mod events;
mod executor;
mod hash;
mod join;
mod oneshot;
pub mod order;
mod rng;
mod sync;
mod time;

pub use digest::EventDigest;
pub use driver::{ClockOnly, Driver};
pub use events::{Categories, Category, Event as LogEvent};
pub use executor::{BoxFuture, JoinHandle, Rt, Stalled};
pub use hash::{FixedHasher, FixedMap, FixedSet};
pub use join::join_all;
pub use oneshot::{Receiver, Sender, oneshot};
pub use order::Order;
pub use rng::Rng;
pub use sync::{Budget, BudgetGuard, Event, LockGuard, RwLock};
pub use time::{MICROS, MILLIS, Nanos, SECS, Time};
