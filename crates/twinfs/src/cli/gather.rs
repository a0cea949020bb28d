//! The arguments of `twinfs gather`.

use std::path::PathBuf;

use clap::Args;

use super::Output;

/// Make a trace of the packets of an NFS server.
///
/// Reads a capture (pcap or pcapng, also compressed with gzip, zstd, bzip2 or xz) of NFS version 2 and 3, over UDP and TCP, IPv4 and IPv6, on any port, and
/// pairs calls with replies; fragments, retransmissions, and segments in any order or missing are dealt with. Opens
/// and closes, which NFS does not have, are inferred from reads and writes. Prints what was found by procedure, and
/// how much could not be used and why. Nothing is written about contents, and with --anonymous no name either.
///
/// Live from an interface: `tcpdump -i eth0 -s 0 -U -w - port 2049 | twinfs gather - -o work.tw`; the trace is
/// written when tcpdump ends.
#[derive(Args)]
pub(crate) struct Gather {
    /// The capture; `-` is standard input.
    pub(crate) capture: PathBuf,
    /// Write the trace to this file, which must not exist. Without it, calls are only counted.
    #[arg(long = "output", short = 'o', value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
    /// Replace names by numbers.
    #[arg(long, requires = "to")]
    pub(crate) anonymous: bool,
    /// A client that has not used a file for so many seconds has closed it.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "to")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) close_after: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}
