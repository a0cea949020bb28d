//! The counts of a capture: what it contained, what of it was used, and why the rest was not.

use std::collections::BTreeMap;

use crate::nfs;
use crate::tcp::TcpCounts;

/// The counts of a procedure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Procedure {
    /// Number of calls, each counted once however often it was sent.
    pub calls: u64,
    /// Calls whose reply was captured too.
    pub answered: u64,
    /// Number of answered calls that failed on the server.
    pub failed: u64,
}

/// The counts of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of packets of the capture.
    pub packets: u64,
    /// Packets without UDP or TCP over IP.
    pub foreign_packets: u64,
    /// The counts by version of NFS and number of the procedure.
    pub procedures: BTreeMap<(u32, u32), Procedure>,
    /// Calls of NFS version 4, which are not read.
    pub version_4: u64,
    /// Calls of other programs than NFS.
    pub other_programs: u64,
    /// Calls that were sent again.
    pub retransmitted: u64,
    /// Replies that were sent again.
    pub repeated_replies: u64,
    /// Replies that were captured before their calls.
    pub early_replies: u64,
    /// Calls without a reply.
    pub unanswered: u64,
    /// Replies of NFS servers without a call.
    pub unasked: u64,
    /// Calls that the server refused before it looked at the arguments.
    pub refused: u64,
    /// Calls of NFS whose arguments are malformed or were not captured.
    pub malformed_calls: u64,
    /// Replies whose results are malformed or were not captured.
    pub malformed_replies: u64,
    /// The counts of the TCP streams.
    pub tcp: TcpCounts,
}

impl Tally {
    /// The counts by name, in the order of the protocol: version, name, counts.
    pub fn by_name(&self) -> impl Iterator<Item = (u32, &'static str, Procedure)> {
        self.procedures.iter().map(|(&(version, number), &counts)| {
            let name = nfs::procedures(version).get(number as usize);
            (version, name.copied().unwrap_or("unknown"), counts)
        })
    }

    /// The sum over all procedures.
    pub fn total(&self) -> Procedure {
        self.procedures.values().fold(Procedure::default(), |all, one| Procedure {
            calls: all.calls + one.calls,
            answered: all.answered + one.answered,
            failed: all.failed + one.failed,
        })
    }
}
