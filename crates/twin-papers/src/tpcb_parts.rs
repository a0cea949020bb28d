//! The parts of a transaction's time (Logging versus Clustering 1995, section 4, by which the paper
//! explains figure 7): a random read, and a log write.
//!
//! Copies are not among the checks: what a copy takes is a declared number
//! ([`super::choices`], `copy-us`).

use super::runs::tpcb;
use super::{Check, Claim, Expect, Results};
use twin_bench::Phase;

/// The claim.
pub(super) const CLAIM: Claim = Claim {
    id: "tpcb-parts",
    source: "LvC 4",
    says: "a random read takes 9.5 ms to seek, 5.5 to turn and 1.6 to transfer; 700 KB are written \
           in 0.5 s",
    needs: || vec![tpcb("bsd-lfs"), tpcb("ffs-m8r2")],
    judge,
};

/// Seek, rotational delay and transfer, in ms.
const READ_MS: f64 = 9.5 + 5.5 + 1.6;
/// The rate of a log write, in MB/s.
const LOG_MB_S: f64 = 1.3;

fn judge(results: &Results) -> Vec<Check> {
    let phase = |config: &str| results.phase(&tpcb(config), "tx");
    let read_ms = |config| phase(config).and_then(|p| p.read_s).map_or(f64::NAN, |s| s * 1e3);
    let rate = |p: &Phase| Some(p.written_bytes? / p.write_service_s? / (1 << 20) as f64);
    vec![
        Check::paper("LFS: a random read, ms", Expect::Figure(READ_MS), read_ms("bsd-lfs")),
        Check::paper("FFS: a random read, ms", Expect::Figure(READ_MS), read_ms("ffs-m8r2")),
        Check::paper(
            "LFS: a log write, MB/s",
            Expect::Figure(LOG_MB_S),
            phase("bsd-lfs").and_then(rate).unwrap_or(f64::NAN),
        ),
    ]
}
