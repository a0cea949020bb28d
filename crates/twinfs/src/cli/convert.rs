//! The arguments of `twinfs convert`.

use std::path::PathBuf;

use clap::Args;

use super::Output;
use crate::choices::foreign_formats;

/// Convert other traces or generated workloads to a trace.
///
/// Reads every format that `compare -t` reads (`twinfs compare --list` shows them), compressed or
/// not, and prints how many operations of each kind the trace has. The reader of a format adds what the
/// format lacks by its rules (docs/traces.md), and the command reports what was left out and assumed.
///
/// With strace: `strace -f -ttt -T -y -o calls.txt make`, then `twinfs convert calls.txt -o make.tw`.
#[derive(Args)]
pub(crate) struct Convert {
    /// The trace.
    #[arg(required_unless_present = "workload")]
    pub(crate) trace: Option<PathBuf>,
    /// The trace to write, which must not exist. Without it, operations are only counted.
    #[arg(long = "output", short = 'o', value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
    /// The format of the trace, if it is not recognized.
    #[arg(long, requires = "trace", value_parser = foreign_formats(), value_name = "FORMAT")]
    pub(crate) trace_format: Option<String>,
    /// Generate this workload instead of reading a trace, such as `build:files=300`, or the workload that
    /// a TOML file describes (docs/workloads.md).
    #[arg(long, short, conflicts_with = "trace")]
    pub(crate) workload: Option<String>,
    /// The seed of a generated workload. Default: 1.
    #[arg(long, requires = "workload")]
    pub(crate) seed: Option<u64>,
    /// Use the part of a damaged or cut trace that is before the damage.
    #[arg(long = "partial", alias = "good-part", requires = "trace")]
    pub(crate) good_part: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}
