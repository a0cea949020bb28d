//! The claim that the study of Heuristic Cleaning 1995 comes out the same on the real log.
//!
//! The checks hold the real log against the bare one ([`crate::studies::real_log`]); no paper has these figures, so
//! all of them are of the kind own. [docs/reproduction.md](../../../../docs/reproduction.md) says where the two
//! differ, and why.

use crate::check::{Check, Expect};
use crate::claim::Claim;
use crate::results::Results;
use crate::studies::real_log::Pair;

/// The claim.
pub(crate) const CLAIM: Claim = Claim {
    id: "real-log",
    source: "HC 5",
    says: "the same on the real log: the requests of the three servers drive the log-structured \
           layout in simulation, beside the bare log of the study",
    needs: Vec::new,
    judge,
};

fn judge(results: &Results) -> Vec<Check> {
    results.real_logs.0.iter().flat_map(of_pair).collect()
}

fn of_pair(Pair { name, bare, real }: &Pair) -> Vec<Check> {
    let name = |what: &str| format!("{name}, real log: {what}");
    let (Some(bare), Some(real)) = (bare, real) else {
        return vec![Check::own(name("it runs"), Expect::AtLeast(1.0), f64::NAN)];
    };
    let log = &real.log;
    let of_users = (log.log_bytes - log.moved_bytes) as f64;
    let moved = log.moved_bytes as f64 / of_users;
    let bare_moved = bare.moved_bytes as f64 / bare.user_bytes as f64;
    vec![
        Check::own(
            name("changes that wait for a clean segment, of all"),
            Expect::AtMost(0.0),
            log.space_waits as f64 / real.ops as f64,
        ),
        Check::own(
            name("bytes of the log but those moved / the bare log's"),
            Expect::Ratio(1.0),
            of_users / bare.user_bytes as f64,
        )
        .because(METADATA),
        Check::own(
            name("bytes moved for each of these / the bare log's"),
            Expect::Ratio(1.0),
            moved / bare_moved,
        )
        .because(ENDS),
    ]
}

const METADATA: &str = "the real log also writes the maps of inodes and segments, indirect blocks and \
    checkpoints; the bare one a whole directory of 8 KB for each change of a name";
const ENDS: &str = "in an idle time the bare log cleans until no segment has 5% of garbage; the real one \
    rests, once it gains nothing, until a quarter of a segment has been written";
