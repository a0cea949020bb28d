//! What the papers simulated beside benchmarks, a file each: file servers, days of users, file systems that grow old.

pub(crate) mod benchmark;
pub(crate) mod days;
pub(crate) mod file_layout;
mod parallel;
pub(crate) mod population;
pub(crate) mod real_log;
pub(crate) mod servers;
