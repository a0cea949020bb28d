//! What the papers simulated beside benchmarks, a file each: file servers, days of users, file systems that grow old.

pub(crate) mod aged_log;
pub(crate) mod benchmark;
pub(crate) mod days;
pub(crate) mod file_layout;
pub(crate) mod population;
pub(crate) mod real_log;
pub(crate) mod servers;

/// A run of a study, by its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Server(usize),
    Day(usize),
    Layout(usize),
    RealLog(usize),
    AgedLog(usize),
}
