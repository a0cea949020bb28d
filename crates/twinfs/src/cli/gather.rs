//! The arguments of `twinfs gather`.

use std::path::PathBuf;

use clap::Args;

use super::Output;

/// Make a trace from the packets of an NFS server.
///
/// Reads a capture (pcap or pcapng, also compressed with gzip, zstd, bzip2 or xz) of NFS version 2 or 3
/// over UDP or TCP, IPv4 or IPv6, on any port, or the text of nfsdump. It pairs calls with replies, and
/// copes with fragments, retransmissions, and segments that are out of order or missing. NFS has no
/// opens and closes; they are inferred from reads and writes. Prints how many calls of each procedure
/// were found, and how many could not be used and why. The trace has no contents, and with --anonymous
/// no names.
///
/// To read live from an interface: `tcpdump -i eth0 -s 0 -U -w - port 2049 | twinfs gather - -o work.tw`.
/// The trace is written when tcpdump ends.
#[derive(Args)]
pub(crate) struct Gather {
    /// The capture; `-` is standard input.
    pub(crate) capture: PathBuf,
    /// The trace to write, which must not exist. Without it, calls are only counted.
    #[arg(long = "output", short = 'o', value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
    /// Replace names by numbers.
    #[arg(long, requires = "to")]
    pub(crate) anonymous: bool,
    /// Assume that a client that has not used a file for this many seconds has closed it.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "to")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) close_after: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}
