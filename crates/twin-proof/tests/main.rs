//! The tests of this crate from outside, in one program: built once, and run side by side.

mod accounting;
mod bucket;
mod campaigns;
mod ending;
mod exhaustive;
mod ffs;
mod followers;
mod forecast;
mod fork;
mod journaled;
mod nfs;
mod nfs_front;
mod nfs_lease;
mod power_failures;
mod processes;
mod quotas;
mod regressions;
mod rot;
mod scrub;
mod send;
mod snapshots;
mod snapshots_served;
mod yields;
