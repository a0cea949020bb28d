//! How campaigns go through their seeds: some at every change, all of them by night; and how a failure is
//! made small before it is printed.
//!
//! Contract: what a campaign asserts of its sums it asserts at its full length ([`at_night`]); a run that
//! fails fails the test at any length. [`shrunk`] keeps the kind of run and the seed, and gives a scenario
//! that fails too, with fewer operations, clients and settings if such a one is easily found.

use crate::{Failure, Scenario, guarded};

/// The variable that `cargo xtask nightly` sets.
const NIGHT: &str = "TWINFS_NIGHT";

/// Runs of smaller scenarios at the most, after a failure.
const TRIES: usize = 40;

/// Whether campaigns run at their full length.
pub fn at_night() -> bool {
    std::env::var_os(NIGHT).is_some()
}

/// The seeds of a campaign: all by night, otherwise the first of every `one_in`.
pub fn seeds(
    all: impl IntoIterator<Item = u64>,
    one_in: usize,
) -> impl Iterator<Item = u64> + Clone {
    let step = if at_night() { 1 } else { one_in };
    all.into_iter().step_by(step).collect::<Vec<_>>().into_iter()
}

/// What a run came to.
///
/// # Panics
/// If it fails, with the smallest scenario that was found to fail too.
pub fn passes<T>(
    kind: &'static str,
    scenario: &Scenario,
    run: impl Fn(&Scenario) -> Result<T, Failure>,
) -> T {
    guarded(kind, scenario, &run).unwrap_or_else(|failure| {
        let first = failure.scenario.clone();
        let least = shrunk(failure, run);
        panic!("{least}\nshrunk from: {first}")
    })
}

/// A failure of the same kind of run, smaller if one is easily found.
pub fn shrunk<T>(mut failure: Failure, run: impl Fn(&Scenario) -> Result<T, Failure>) -> Failure {
    let mut tries = TRIES;
    loop {
        let fails = |scenario: Scenario| {
            tries = tries.checked_sub(1)?;
            guarded(failure.kind, &scenario, &run).err()
        };
        let next = smaller(&failure.scenario).find_map(fails);
        match next {
            Some(next) => failure = next,
            None => return failure,
        }
    }
}

/// Scenarios that are smaller in one way each, the greatest step first.
fn smaller(scenario: &Scenario) -> impl Iterator<Item = Scenario> {
    let Scenario { ops, clients, .. } = *scenario;
    let fewer = [ops / 4, ops / 2, ops - ops / 4, ops - ops / 16];
    let fewer = fewer.map(|ops| Scenario { ops, ..scenario.clone() });
    let alone = Scenario { clients: clients.min(1), ..scenario.clone() };
    let text = scenario.to_string();
    let pairs: Vec<String> = text.split(',').map(String::from).collect();
    // Without one of its settings, which is then what it is by default; the seed comes first.
    let plainer = (1..pairs.len()).filter_map(move |left_out| {
        let rest = pairs.iter().enumerate().filter(|(at, _)| *at != left_out);
        let rest: Vec<&str> = rest.map(|(_, pair)| pair.as_str()).collect();
        rest.join(",").parse::<Scenario>().ok()
    });
    let (most, was) = (ops, scenario.clone());
    let all = fewer.into_iter().chain([alone]).chain(plainer);
    all.filter(move |one| *one != was && one.ops <= most && one.ops > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails with 70 operations or more of two clients or more on nodes that are kept few.
    fn picky(scenario: &Scenario) -> Result<(), Failure> {
        let fails = scenario.ops >= 70 && scenario.clients >= 2 && scenario.inodes == 4;
        let what = "it breaks".into();
        if fails { Err(Failure { kind: "run", scenario: scenario.clone(), what }) } else { Ok(()) }
    }

    #[test]
    fn a_failure_is_shrunk_to_what_it_needs() {
        let scenario: Scenario =
            "seed=7,workload=metadata,ops=2000,clients=3,inodes=4,victim=greedy".parse().unwrap();
        let failure = picky(&scenario).unwrap_err();
        let least = shrunk(failure, picky).scenario;
        assert_eq!((least.seed, least.inodes), (7, 4));
        assert!(least.ops < 150 && picky(&least).is_err(), "{least}");
        assert!(!least.to_string().contains("metadata"), "{least}");
    }

    #[test]
    fn a_panic_is_a_failure_and_is_shrunk_too() {
        let scenario = Scenario { ops: 1000, ..Scenario::new(3) };
        let panics = |scenario: &Scenario| -> Result<(), Failure> {
            assert!(scenario.ops < 100);
            Ok(())
        };
        let failure = guarded("run", &scenario, panics).unwrap_err();
        assert!(shrunk(failure, panics).scenario.ops < 200);
    }

    #[test]
    fn what_passes_gives_its_outcome() {
        assert_eq!(passes("run", &Scenario::new(1), |scenario| Ok(scenario.seed)), 1);
    }
}
