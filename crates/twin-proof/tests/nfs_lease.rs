//! Leases of the NFS server over real layouts: see `twin_proof::nfs::lease`.

use twin_proof::nfs::lease::{Bug, Ran, Scenario, run};
use twin_proof::nfs::{VOLUMES, Volume};

fn volumes() -> Vec<Volume> {
    VOLUMES[..2].iter().map(|text| Volume::make(text).unwrap()).collect()
}

#[test]
fn clients_with_leases_see_one_copy_of_each_file() {
    let volumes = volumes();
    let mut sum = Ran::default();
    for seed in 0..60 {
        let ran = run(&Scenario::random(seed), &volumes[seed as usize % volumes.len()]);
        sum += ran.unwrap_or_else(|what| {
            panic!(
                "{what}\nagain: cargo run --release -p twin-proof --example nfs_lease -- one {seed}"
            )
        });
    }
    // Everything that may happen has happened.
    let often = [sum.deeds / 100, sum.granted, sum.vacated, sum.cuts, sum.restarts, sum.crashed];
    let seldom = [sum.expired, sum.reclaimed, sum.refused, sum.reported];
    assert!(often.iter().all(|&n| n > 10) && seldom.iter().all(|&n| n > 2), "{sum:?}");
}

#[test]
fn wrong_models_are_found() {
    let volumes = volumes();
    let found = |bug| {
        (0..150).any(|seed| {
            let volume = &volumes[seed as usize % volumes.len()];
            run(&Scenario::random(seed).with_bug(bug), volume).is_err()
        })
    };
    let missed: Vec<Bug> = Bug::ALL.into_iter().filter(|&bug| !found(bug)).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn a_run_is_a_function_of_its_scenario() {
    let volumes = volumes();
    assert_eq!(run(&Scenario::random(4), &volumes[0]), run(&Scenario::random(4), &volumes[0]));
}
