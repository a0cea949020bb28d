//! The kinds of trace files and the version of their format.

use std::fmt;

/// The version of the format that this program writes.
pub const VERSION: u16 = 1;

/// The content of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Operations and their answers: a workload.
    Operations,
    /// Everything that entered the core of a run: a flight log.
    Flight,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Operations => "a trace of operations",
            Kind::Flight => "a flight log",
        })
    }
}
