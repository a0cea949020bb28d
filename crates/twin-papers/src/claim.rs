//! Claims as data: where a paper says what, which runs show it, and how their figures are judged.

use crate::check::Check;
use crate::need::Need;
use crate::paper::Paper;
use crate::results::Results;

/// A claim of a paper.
pub struct Claim {
    /// Its name on the command line.
    pub id: &'static str,
    /// The paper and section.
    pub source: &'static str,
    /// The statement, abridged.
    pub says: &'static str,
    /// The runs that it needs.
    pub needs: fn() -> Vec<Need>,
    /// The checks of their results.
    pub judge: fn(&Results) -> Vec<Check>,
}

impl Claim {
    /// The paper in whose tally it counts.
    pub fn paper(&self) -> Paper {
        match self.source.split([' ', ',']).next() {
            Some("CLC") => Paper::Clc,
            Some("LvC") => Paper::Lvc,
            Some("CP") => Paper::Cp,
            Some("FL") => Paper::Fl,
            _ => Paper::Hc,
        }
    }
}

/// A claim with its results.
pub struct Judged {
    /// The claim.
    pub claim: &'static Claim,
    /// Its checks, with our figures.
    pub checks: Vec<Check>,
}
