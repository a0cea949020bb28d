//! The write contract, explored: see [`run`].

mod client;
mod run;
mod volume;

use run::{Ran, run};
use twin_model::NfsBug as Bug;

/// The command that repeats a run.
fn again(seed: u64) -> String {
    format!("cargo run --release -p twin-nfs --example contract -- one {seed}")
}

#[test]
fn the_contract_holds_whatever_happens() {
    let mut sum = Ran::default();
    // The variable with which the campaigns of the night run.
    let runs = if std::env::var_os("TWINFS_NIGHT").is_some() { 1000 } else { 300 };
    for seed in 0..runs {
        let ran = run(seed, None).unwrap_or_else(|what| panic!("{what}\nagain: {}", again(seed)));
        sum.calls += ran.calls;
        sum.sent_again += ran.sent_again;
        sum.losses += ran.losses;
        sum.restarts += ran.restarts;
        sum.rewrites += ran.rewrites;
    }
    // Everything that may happen has happened, and often.
    let often = [sum.calls / 100, sum.sent_again, sum.losses, sum.restarts, sum.rewrites];
    assert!(often.iter().all(|&count| count > runs), "{sum:?}");
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        if !(0..600).any(|seed| run(seed, Some(bug)).is_err()) {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    assert_eq!(run(3, None), run(3, None));
}
