//! The claims.
use super::{Check, Claim, Expect, Need, Results, clc};

/// All claims.
pub fn claims() -> &'static [Claim] {
    CLAIMS
}

const CLAIMS: &[Claim] = &[Claim {
    id: "efs-table",
    source: "A Comparison of Logging and Clustering 1994, section 3",
    says: "the table of bandwidths by file size",
    needs: clc_needs,
    judge: clc_judge,
}];

fn clc_needs() -> Vec<Need> {
    clc::needs()
}

fn clc_judge(results: &Results) -> Vec<Check> {
    let cells = clc::cells(results);
    let score = clc::score(cells.iter());
    vec![Check::new("median", Expect::AtMost(0.04), score.median)]
}
