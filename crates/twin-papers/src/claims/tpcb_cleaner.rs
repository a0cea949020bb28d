//! TPC-B with the cleaner (Logging versus Clustering 1995, section 4, figure 7): the account file
//! fills the volume to 48% up to 90%, and the clock starts when the whole log has been written once.
//!
//! Utilization is what `df` shows on 4.4BSD, whose file systems keep 10% free: 90% are 81% of the
//! log.

use crate::check::{Check, Expect};
use crate::claim::Claim;
use crate::need::Need;
use crate::results::Results;
use crate::runs::tpcb;

/// The claim.
pub(crate) const CLAIM: Claim = Claim {
    id: "tpcb-cleaner",
    source: "LvC 4, fig. 7",
    says: "with the cleaner LFS loses 34% at 48% utilization and 41% at 90%; FFS does not depend on it",
    needs: || {
        let points = CURVE.iter().flat_map(|point| [point.lfs(), point.ffs()]);
        std::iter::once(tpcb("bsd-lfs")).chain(points).collect()
    },
    judge,
};

/// The claim of the first measurements, which the abstract of 1994 repeats.
pub(crate) const AT_80: Claim = Claim {
    id: "tpcb-80",
    source: "CLC 4",
    says: "at 80% utilization the cleaner makes TPC-B 40% slower",
    needs: || vec![tpcb("bsd-lfs"), CURVE[2].lfs()],
    judge: |results| {
        let kept = kept(results, &CURVE[2]);
        vec![Check::paper(
            "rate of LFS with the cleaner at 80% to that without",
            Expect::Ratio(0.6),
            kept,
        )]
    },
};

/// A utilization, and the volume that a million accounts, 241 MB, fill to it.
pub(crate) struct Point {
    pub(crate) percent: u32,
    size: &'static str,
    /// Transactions before the clock starts, and after it.
    warm: u64,
    transactions: u64,
    /// The share of its rate that LFS keeps, by the paper.
    keeps: Option<f64>,
}

/// The utilizations of figure 7, and one between.
pub(crate) const CURVE: [Point; 4] = [
    Point { percent: 48, size: "558M", warm: 60_000, transactions: 40_000, keeps: Some(0.66) },
    Point { percent: 65, size: "412M", warm: 45_000, transactions: 30_000, keeps: None },
    Point { percent: 80, size: "335M", warm: 35_000, transactions: 30_000, keeps: None },
    Point { percent: 90, size: "298M", warm: 30_000, transactions: 30_000, keeps: Some(0.59) },
];

impl Point {
    pub(crate) fn lfs(&self) -> Need {
        let Point { size, warm, transactions, .. } = self;
        let bench = format!(
            "tpcb:warm={warm},transactions={transactions},accounts=1048576,page=17,cached=1000,log=no,scan=no"
        );
        Need::new(format!("bsd-lfs:block=4K,size={size}"), bench)
    }

    /// FFS overwrites in place, so it needs no time to reach its pace.
    pub(crate) fn ffs(&self) -> Need {
        let Need { config, bench } = tpcb("ffs-m8r2");
        Need::new(format!("{config},size={}", self.size), bench)
    }
}

const FULL: &str = "by the paper's own arithmetic (0.45 s to read a segment, 0.60 s to write one, 168 \
                    transactions in 4.1 s) a log that is 81% live, overwritten at random, with 18 segments \
                    kept clean, leaves 0.47; 0.59 needs a log that is 77% live (docs/reproduction.md). The window in which it is \
                    measured matters (--without tpcb-window)";

/// The runs by utilization, for the page.
pub(crate) fn runs() -> [(&'static str, Need); 2] {
    [("TPC-B, LFS 48% full", CURVE[0].lfs()), ("TPC-B, LFS 90% full", CURVE[3].lfs())]
}

/// The rate without the cleaner, by the paper.
pub(crate) const WITHOUT: f64 = 41.0;

/// The paper's figures and ours at 48% and at 90%, in transactions a second.
pub(crate) fn figures(results: &Results) -> Vec<(u32, f64, f64)> {
    let of = |point: &Point| {
        let paper = WITHOUT * point.keeps?;
        Some((point.percent, paper, results.rate(&point.lfs(), "tx")))
    };
    CURVE.iter().filter_map(of).collect()
}

/// The share of its rate that LFS keeps with the cleaner.
fn kept(results: &Results, point: &Point) -> f64 {
    results.rate(&point.lfs(), "tx") / results.rate(&tpcb("bsd-lfs"), "tx")
}

fn judge(results: &Results) -> Vec<Check> {
    let mut checks = Vec::new();
    for point in &CURVE {
        let Some(keeps) = point.keeps else { continue };
        let what = format!("rate of LFS with the cleaner at {}% to that without", point.percent);
        let check = Check::paper(what, Expect::Ratio(keeps), kept(results, point));
        checks.push(check.because(FULL));
    }
    let ffs: Vec<f64> = CURVE.iter().map(|point| results.rate(&point.ffs(), "tx")).collect();
    let (low, high) = (CURVE.len() - 1, 0);
    checks.push(Check::paper(
        "rate of FFS at 90% to that at 48%: no fluctuation",
        Expect::Within(1.0, 0.05),
        ffs[low] / ffs[high],
    ));
    let on_par = kept(results, &CURVE[0]) * results.rate(&tpcb("bsd-lfs"), "tx") / ffs[high];
    checks.push(Check::paper(
        "rate of LFS with the cleaner at 48% to that of FFS: comparable",
        Expect::Ratio(1.0),
        on_par,
    ));
    checks
}
