//! TPC-B with the cleaner (Logging versus Clustering 1995, section 4, figure 7): the account file
//! fills the volume to 48% or 90%, and the clock starts when the whole log has been written once.
//!
//! Utilization is what `df` shows on 4.4BSD, whose file systems keep 10% free: 90% are 81% of the
//! log.

use super::runs::tpcb;
use super::{Check, Claim, Expect, Need, Results};

/// The claim.
pub(super) const CLAIM: Claim = Claim {
    id: "tpcb-cleaner",
    source: "LvC 4, fig. 7",
    says: "with the cleaner LFS loses 34% at 48% utilization and 41% at 90%",
    needs: || vec![tpcb("bsd-lfs"), low(), high()],
    judge,
};

/// The share of its rate that LFS keeps at 48% and at 90%.
const KEEPS: [f64; 2] = [0.66, 0.59];

const FULL: &str = "by the paper's own arithmetic (0.45 s to read a segment, 0.60 s to write one) a log \
                    that is 81% live leaves 18.6 transactions a second, as here, and one of 90% leaves \
                    12: what made the paper's cleaner cost hardly more at 90% than at 48% is not known";

/// A volume of this size, with `warm` transactions before the clock starts and `transactions` after
/// it. A million accounts take 241 MB.
fn at(size: &str, warm: u64, transactions: u64) -> Need {
    let bench = format!(
        "tpcb:warm={warm},transactions={transactions},accounts=1048576,page=17,cached=1000,log=no,scan=no"
    );
    Need::new(format!("bsd-lfs:block=4K,size={size}"), bench)
}

fn low() -> Need {
    at("558M", 60_000, 40_000)
}

fn high() -> Need {
    at("298M", 30_000, 30_000)
}

/// The runs by utilization, for the page.
pub(super) fn runs() -> [(&'static str, Need); 2] {
    [("TPC-B, LFS 48% full", low()), ("TPC-B, LFS 90% full", high())]
}

/// The paper's figures and ours at 48% and at 90%, in transactions a second.
pub(super) fn figures(results: &Results) -> [(f64, f64); 2] {
    [(41.0 * KEEPS[0], low()), (41.0 * KEEPS[1], high())]
        .map(|(paper, n)| (paper, results.rate(&n, "tx")))
}

fn judge(results: &Results) -> Vec<Check> {
    let without = results.rate(&tpcb("bsd-lfs"), "tx");
    let [low, high] = figures(results).map(|(_, ours)| ours / without);
    let check = |what, paper, ours| Check::paper(what, Expect::Ratio(paper), ours);
    vec![
        check("rate of LFS with the cleaner at 48% to that without", KEEPS[0], low),
        check("rate of LFS with the cleaner at 90% to that without", KEEPS[1], high).because(FULL),
    ]
}
