//! Experiments behind the reasons why statements do not hold.
//!
//! Contract: a reason that is more than a reading of the papers names what shows it: an experiment of this list as
//! `(experiment NAME)`, a declared choice as `(--without NAME)`, or the parts of time of the runs; else it says
//! that the cause is open. `twinfs reproduce --explain CHECK` runs the experiments of the check's claim, and all
//! choices of its paper.

use crate::need::Need;
use crate::variation::{OtherAgeing, Variation, on_bsd};

/// A change of the runs of some claims that was made to find a cause.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name in reasons.
    pub name: &'static str,
    /// What is changed.
    pub about: &'static str,
    /// The claims whose reasons name it.
    pub claims: &'static [&'static str],
    /// The changed runs.
    pub runs: Variation,
}

const fn of_runs(
    name: &'static str,
    about: &'static str,
    claims: &'static [&'static str],
    run: fn(&Need) -> Need,
) -> Experiment {
    Experiment { name, about, claims, runs: Variation::of_runs(run) }
}

/// All experiments.
pub const EXPERIMENTS: &[Experiment] = &[
    of_runs(
        "no-drive-read-ahead",
        "the drive reads nothing ahead by itself",
        &["read-by-size"],
        |need| on_bsd(need, "drive-read-ahead=0"),
    ),
    Experiment {
        name: "pieces",
        about: "programs write files in pieces of 1 KB, so that a last fragment grows and moves",
        claims: &["file-layout"],
        runs: Variation::of_ageing(OtherAgeing::Pieces),
    },
    of_runs("no-skews", "tracks and cylinders without skew", &["overwrite-by-size"], |need| {
        on_bsd(need, "skews=0/0")
    }),
];

/// Those of a claim.
pub fn of_claim(id: &str) -> impl Iterator<Item = &'static Experiment> {
    EXPERIMENTS.iter().filter(move |experiment| experiment.claims.contains(&id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choices;
    use crate::claims::claims;
    use crate::results::Results;

    /// What a reason may rest on beside experiments.
    const READINGS: [&str; 4] = ["open", "the paper", "parts of time", "docs/reproduction.md"];

    #[test]
    fn every_reason_rests_on_an_experiment_a_choice_the_papers_or_is_open() {
        for claim in claims() {
            for check in (claim.judge)(&Results::empty()).iter().filter(|c| c.kind.counts()) {
                let Some(reason) = check.reason else { continue };
                let names = |name: &str, mark: &str| reason.contains(&format!("{mark} {name}"));
                let tried = of_claim(claim.id).any(|one| names(one.name, "experiment"));
                let choice =
                    choices::all().any(|one| one.has_run() && names(one.name, "--without"));
                let reading = READINGS.iter().any(|words| reason.contains(words));
                assert!(tried || choice || reading, "{}: {}: {reason}", claim.id, check.what);
            }
        }
    }

    #[test]
    fn every_experiment_changes_runs_of_its_claims_into_runs_that_parse() {
        for experiment in EXPERIMENTS.iter().filter(|one| one.runs.ageing.is_none()) {
            for id in experiment.claims {
                let claim = claims().iter().find(|claim| claim.id == *id).unwrap();
                let changed: Vec<Need> = (claim.needs)()
                    .iter()
                    .map(|need| (need, (experiment.runs.run)(need)))
                    .filter(|(need, changed)| *need != changed)
                    .map(|(_, changed)| changed)
                    .collect();
                assert!(!changed.is_empty(), "{} {id}", experiment.name);
                for need in changed {
                    twin_lab::Config::parse(&need.config).unwrap();
                }
            }
        }
    }
}
