//! How many configurations run in each round, on which part of the workload.
//!
//! Contract: a plan follows from the number of operations, the kind of workload and the budget alone. What the last
//! judgement is made on is no part of what the rounds see: other seeds of a drawn workload, the rest of a recorded
//! one. A budget is a number of runs, those on a part of the workload included; it is not exceeded.

use twin_lab::Workload;

/// A third of a field survives a round.
const SURVIVES: usize = 3;
/// A part of a workload has at least this number of operations, so that caches fill and a cleaner begins.
const LEAST_PART: u64 = 20_000;
/// Of a recorded workload, so much is searched, in hundredths.
const SEARCHED: u64 = 60;
/// A recorded workload with fewer operations is too short to hold a part of it back.
const LEAST_HELD: u64 = 500;
/// The seeds of the last judgement: of a drawn workload, and of a recorded one, whose operations they do not change.
const SEEDS_OF_DRAWN: u64 = 5;
const SEEDS_OF_RECORDED: u64 = 3;
/// The first seed of the last judgement: the search has those below.
const FIRST_HELD: u64 = 1000;
/// The most runs that find out which settings of the best are of no use.
const SIMPLER: u64 = 10;
/// The configurations of the last judgement.
pub(crate) const FINALISTS: u64 = 3;

/// The smallest budget.
pub const LEAST_BUDGET: u64 = 60;

/// A round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// The operations of the workload that are run.
    pub(crate) operations: u64,
    /// The number of seeds.
    pub(crate) seeds: u64,
    /// The most configurations.
    pub(crate) places: usize,
}

/// What the last judgement is made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldOut {
    /// Workloads drawn with seeds that the search did not have.
    Seeds,
    /// The operations behind these, which the search did not see.
    Rest(u64),
    /// What was searched: the workload is too short.
    Nothing,
}

/// All rounds, and the last judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) rounds: Vec<Round>,
    pub(crate) held: HeldOut,
    /// The seeds of the last judgement.
    pub(crate) seeds: std::ops::Range<u64>,
    all_operations: u64,
}

impl Plan {
    /// The plan for a workload with a number of operations.
    pub(crate) fn of(workload: &Workload, operations: u64, budget: u64) -> Plan {
        let is_drawn = workload.is_drawn();
        let (held, searched) = match (is_drawn, operations < LEAST_HELD) {
            (true, _) => (HeldOut::Seeds, operations),
            (false, true) => (HeldOut::Nothing, operations),
            (false, false) => {
                let searched = operations * SEARCHED / 100;
                (HeldOut::Rest(searched), searched)
            }
        };
        let seeds = if is_drawn { SEEDS_OF_DRAWN } else { SEEDS_OF_RECORDED };
        let last_seeds = if is_drawn { 2 } else { 1 };
        let judged = FINALISTS * seeds * if matches!(held, HeldOut::Rest(_)) { 2 } else { 1 };
        // The default runs in every round besides.
        let rest =
            budget.max(LEAST_BUDGET).saturating_sub(judged + SIMPLER + 2 + last_seeds) as usize;
        // A field of nine takes nine runs, then three, then one with each seed.
        let nine = (9 + 3 + last_seeds) as usize;
        let first = (rest * 9 / nine).max(9);
        let part = |share: u64| (searched / share).max(LEAST_PART.min(searched));
        let round = |share, seeds, places| Round { operations: part(share), seeds, places };
        let rounds = vec![
            round(9, 1, first),
            round(3, 1, first / SURVIVES),
            round(1, last_seeds, first / (SURVIVES * SURVIVES)),
        ];
        let seeds = FIRST_HELD..FIRST_HELD + seeds;
        Plan { rounds, held, seeds, all_operations: operations }
    }

    /// The most runs of the whole plan.
    pub(crate) fn runs(&self) -> u64 {
        let of = |round: &Round| (round.places as u64 + 1) * round.seeds;
        let rounds: u64 = self.rounds.iter().map(of).sum();
        rounds + SIMPLER + self.judged_runs()
    }

    fn judged_runs(&self) -> u64 {
        let twice = if matches!(self.held, HeldOut::Rest(_)) { 2 } else { 1 };
        FINALISTS * (self.seeds.end - self.seeds.start) * twice
    }

    /// The most simplifications that the budget has room for.
    pub(crate) fn simpler(&self) -> usize {
        let seeds = self.rounds.last().map_or(1, |round| round.seeds);
        // One run more shows all of them together.
        (SIMPLER / seeds).saturating_sub(1) as usize
    }

    /// The operations of all runs, for those who are told how far they are.
    pub(crate) fn operations(&self) -> u64 {
        let of = |round: &Round| (round.places as u64 + 1) * round.seeds * round.operations;
        let rounds: u64 = self.rounds.iter().map(of).sum();
        let last = self.rounds.last().map_or(0, |round| round.operations);
        let seeds = FINALISTS * (self.seeds.end - self.seeds.start);
        let judged = match self.held {
            HeldOut::Rest(first) => seeds * (self.all_operations + first),
            HeldOut::Seeds | HeldOut::Nothing => seeds * self.all_operations,
        };
        rounds + SIMPLER * last + judged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn() -> Workload {
        Workload::Generated("mail".into(), 1)
    }

    fn recorded() -> Workload {
        Workload::Trace(Vec::new().into())
    }

    #[test]
    fn no_plan_has_more_runs_than_its_budget() {
        for workload in [drawn(), recorded()] {
            for budget in (LEAST_BUDGET..2000).step_by(7) {
                for operations in [10, 1_000, 1_000_000] {
                    let plan = Plan::of(&workload, operations, budget);
                    assert!(
                        plan.runs() <= budget,
                        "{budget} {operations}: {} {plan:?}",
                        plan.runs()
                    );
                    assert!(plan.rounds[2].places >= 1);
                }
            }
        }
    }

    #[test]
    fn early_rounds_see_the_beginning_and_the_last_judgement_what_no_round_saw() {
        let plan = Plan::of(&recorded(), 1_000_000, 300);
        let parts: Vec<u64> = plan.rounds.iter().map(|round| round.operations).collect();
        assert_eq!(parts, [66_666, 200_000, 600_000]);
        assert_eq!((plan.held, plan.seeds.clone().count()), (HeldOut::Rest(600_000), 3));
        let drawn = Plan::of(&drawn(), 900_000, 300);
        assert_eq!((drawn.held, drawn.rounds[2].operations), (HeldOut::Seeds, 900_000));
        assert!(drawn.seeds.start > drawn.rounds[2].seeds);
    }

    #[test]
    fn a_short_workload_is_run_whole_and_a_very_short_one_held_back_nowhere() {
        let plan = Plan::of(&recorded(), 3_000, 300);
        assert!(plan.rounds.iter().all(|round| round.operations == 1_800));
        assert_eq!(Plan::of(&recorded(), 100, 300).held, HeldOut::Nothing);
    }
}
