//! The arguments of `twinfs frontier`.

use std::path::PathBuf;

use clap::Args;

use super::{Output, Pace, Start};

/// Show what flush policies lose in power failures and write.
///
/// Simulates a workload under every flush policy and, where a policy has one, every age limit. The
/// power fails at many instants of each run; each time the volume is recovered, and the recovered data
/// is compared with the data that clients had written. Prints the bytes lost on average and at worst,
/// the bytes written, the device's time and latencies, and marks the points that no other point beats
/// both in bytes lost and in bytes written.
///
/// Only the policy and fsync make data durable here, as in `compare` without a mount. A mount also
/// makes everything durable within two seconds, unless `mount --flush` chooses otherwise.
#[derive(Args)]
pub(crate) struct Frontier {
    /// Traces. Default, without --workload: the one that comes with the program.
    pub(crate) traces: Vec<PathBuf>,
    /// Also run this generated workload, such as `mail:think=100ms` (`compare --list` shows all); can be
    /// repeated.
    #[arg(long, short, value_name = "WORKLOAD")]
    pub(crate) workload: Vec<String>,
    /// Simulate on this configuration (see `twinfs compare --list`). Its own flush policy is not used.
    #[arg(long, short, default_value = "lfs")]
    pub(crate) config: String,
    #[command(flatten)]
    pub(crate) start: Start,
    /// The policies, such as delayed,twin. Default: all.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(crate) policies: Vec<String>,
    /// Age limits, such as 500ms,5s, for policies that have one; seconds without a unit.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "1s,5s,15s,30s,60s")]
    pub(crate) ages: Vec<String>,
    /// How often the power fails in each run. The time of a run is in proportion to it; with fewer than
    /// 100, the worst loss is a matter of luck.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) instants: u64,
    /// When operations are issued. The ages of data depend on it, so the default has the pauses of
    /// the workload.
    #[arg(long, value_enum, default_value = "think")]
    pub(crate) pace: Pace,
    /// Replay this many times faster than recorded: 0.1 makes pauses ten times as long. Default: 1.
    #[arg(long)]
    pub(crate) speed: Option<f64>,
    /// Go on from where the same command was interrupted.
    #[arg(long)]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}
