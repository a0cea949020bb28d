//! The arguments of `twinfs convert`.

use std::path::PathBuf;

use clap::Args;

use super::Output;
use crate::choices::foreign_formats;

/// Make a trace of twinfs of another program's trace, or of a generated workload.
///
/// Reads every format that `compare -t` reads (`twinfs compare --list` shows them), compressed or
/// not, and prints what is in it by operation. What a format lacks is made up by the rules of its reader
/// (docs/traces.md); what was left out and assumed is told.
///
/// With strace: `strace -f -ttt -T -y -o calls.txt make`, then `twinfs convert calls.txt -o make.tw`.
#[derive(Args)]
pub(crate) struct Convert {
    /// The trace.
    #[arg(required_unless_present = "workload")]
    pub(crate) trace: Option<PathBuf>,
    /// Write to this file, which must not exist. Without it, operations are only counted.
    #[arg(long = "output", short = 'o', value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
    /// The format of the trace. Default: the one that it looks like.
    #[arg(long, requires = "trace", value_parser = foreign_formats(), value_name = "FORMAT")]
    pub(crate) trace_format: Option<String>,
    /// A generated workload in place of a trace, as `build:files=300`, or a file of a workload by hand.
    #[arg(long, short, conflicts_with = "trace")]
    pub(crate) workload: Option<String>,
    /// The seed of a generated workload. Default: 1.
    #[arg(long, requires = "workload")]
    pub(crate) seed: Option<u64>,
    /// Of a damaged or cut trace, use what lies before the damage.
    #[arg(long, requires = "trace")]
    pub(crate) good_part: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}
