//! TPC-B with the cleaner (Logging versus Clustering 1995, section 4, figure 7): the account file
//! fills the volume to 48% or 90%, and the run goes over the free space more than once.

use super::{Check, Claim, Expect, Need, Results};

/// The claim.
pub(super) const CLAIM: Claim = Claim {
    id: "tpcb-cleaner",
    source: "LvC 4, fig. 7",
    says: "with the cleaner LFS loses 34% at 48% utilization and 41% at 90%",
    needs: || vec![low(), high()],
    judge,
};

const STEADY: &str = "ours loses less at 48%: why the paper's cleaner costs more is not found out";
const FULL: &str = "random updates over a log of 90% make the cleaner read ten segments and write \
                    nine for one: by the paper's own arithmetic (1.5 s for two and one at 50%) 12 \
                    transactions a second are left, not 24";

/// A volume of this size, for so many transactions: a million accounts take 241 MB.
fn at(size: &str, transactions: u64) -> Need {
    let bench =
        format!("tpcb:transactions={transactions},accounts=1M,page=17,cached=1000,log=0,scan=0");
    Need::new(format!("bsd-lfs:block=4K,cache=2800K,size={size}"), bench)
}

fn low() -> Need {
    at("502M", 60_000)
}

fn high() -> Need {
    at("268M", 30_000)
}

/// The runs by how full the log is, for the page.
pub(super) fn runs() -> [(&'static str, Need); 2] {
    [("TPC-B, LFS 48% full", low()), ("TPC-B, LFS 90% full", high())]
}

/// The paper's figures and ours at 48% and at 90%.
pub(super) fn figures(results: &Results) -> [(f64, f64); 2] {
    [(41.0 * 0.66, low()), (41.0 * 0.59, high())].map(|(paper, n)| (paper, results.rate(&n, "tx")))
}

fn judge(results: &Results) -> Vec<Check> {
    let [low, high] = figures(results);
    let check = |what, (paper, ours): (f64, f64)| Check::new(what, Expect::Figure(paper), ours);
    vec![
        check("LFS with the cleaner at 48%, transactions/s", low).because(STEADY),
        check("LFS with the cleaner at 90%, transactions/s", high).because(FULL),
    ]
}
