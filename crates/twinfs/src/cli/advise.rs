//! The arguments of `twinfs advise`.

use std::path::PathBuf;

use clap::Args;

use super::{Output, Pace};
use crate::choices::{foreign_formats, measures};

/// Say which volume suits a workload, and how to mount it.
///
/// Searches layouts, policies, sizes of cache and segments and ages of flushing: many configurations on
/// the beginning of the workload, the better third on more of it, the best on all. The winner is then
/// judged on what the search did not see, other seeds of a generated workload or the rest of a
/// recorded one, and advised only if it beats the default by more than simulations are wrong. As root
/// the best, the next and the default are then mounted and measured. Prints what to set, what it is
/// worth, and the commands that make and mount the volume (docs/advise.md).
///
/// Settings with which a crash may lose synced data are not tried unless --space names them.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    twinfs advise work.tw\n  \
    twinfs advise -w mail:messages=500 --with cache=64M,disk=ssd-sata --budget 500\n  \
    twinfs advise work.tw --space layout=lfs,segment=256K/1M/4M --machine machine.toml")]
pub(crate) struct Advise {
    /// The trace. Default, without --workload: the one that comes with the program.
    pub(crate) trace: Option<PathBuf>,
    /// The format of the trace, if it is not recognized; `twinfs compare --list` shows all formats.
    #[arg(help_heading = "Workload", long, requires = "trace", value_parser = foreign_formats(), value_name = "FORMAT")]
    pub(crate) trace_format: Option<String>,
    /// Generate this workload instead, such as `mail:messages=500`, or run the one that a TOML file
    /// describes (docs/workloads.md).
    #[arg(help_heading = "Workload", long, short, conflicts_with = "trace")]
    pub(crate) workload: Option<String>,
    /// When operations are issued. Default: think for a recording of a mount, otherwise asap.
    #[arg(help_heading = "Workload", long, value_enum)]
    pub(crate) pace: Option<Pace>,
    /// With --pace recorded or think: replay this many times faster than recorded. Default: 1.
    #[arg(help_heading = "Workload", long)]
    pub(crate) speed: Option<f64>,
    /// Settings that all configurations have and that are not searched, such as cache=64M,size=20G,
    /// disk=ssd-sata. Default for the trace that comes with the program: size=256M,disk=ssd-tlc.
    #[arg(help_heading = "Search", long, value_name = "SETTINGS")]
    pub(crate) with: Option<String>,
    /// Values that are tried in place of the usual ones: `segment=256K/1M,layout=lfs/ffs`. Names
    /// settings that are not searched otherwise, too.
    #[arg(help_heading = "Search", long, value_name = "KEY=VALUE/VALUE,...")]
    pub(crate) space: Option<String>,
    /// Settings that stay as they are, and values that are not tried: `replacement,layout=ffs`.
    #[arg(help_heading = "Search", long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) without: Vec<String>,
    /// The most runs, those on a part of the workload included; or about how long they may take, such as
    /// 5min, for which one run is timed first.
    #[arg(help_heading = "Search", long, value_name = "RUNS|TIME", default_value = "240")]
    pub(crate) budget: String,
    /// The seed of the search, and of a generated workload: equal seeds give equal answers.
    #[arg(help_heading = "Search", long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The measure; smaller is better. Default: waiting where the pauses of clients are kept (--pace think
    /// and recorded), otherwise finish.
    #[arg(help_heading = "Search", long, value_name = "MEASURE", value_parser = measures())]
    pub(crate) by: Option<String>,
    /// Simulate the machine in this file, which `twinfs calibrate` measured.
    #[arg(help_heading = "Real machines", long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// Do not mount and measure the best, the next and the default.
    #[arg(help_heading = "Real machines", long)]
    pub(crate) no_confirm: bool,
    /// How often each of them is measured.
    #[arg(help_heading = "Real machines", long, value_name = "COUNT", default_value_t = 5,
        conflicts_with = "no_confirm", value_parser = clap::value_parser!(u32).range(2..=100))]
    pub(crate) runs: u32,
    /// Below which directory the file of the loop device is made, and so which disk is measured. Default:
    /// /var/tmp.
    #[arg(help_heading = "Real machines", long, value_name = "DIR", conflicts_with = "no_confirm")]
    pub(crate) at: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}
