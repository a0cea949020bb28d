//! Everything within bounds, as much of it as a change can wait for: all workloads of length one, and some of
//! length two. `cargo xtask nightly exhaustive` has the rest.

use twin_ffs::Ffs;
use twin_lfs::Lfs;
use twin_proof::{Bounds, Counts, Exhaustive, Known, Scenario, Subject, at_night};

/// Workloads of length two by day.
const SOME: u64 = 40;
/// By day the recovery of one content of this number is interrupted.
const INTERRUPT_EVERY: u64 = 32;

fn explore<L: Subject>(scenario: &Scenario) -> Counts {
    let every = if at_night() { 1 } else { INTERRUPT_EVERY };
    let campaign = Exhaustive::<L>::new(scenario, &Known::default()).unwrap();
    let mut campaign = campaign.interrupt_every(every);
    let pairs = if at_night() { 100 * SOME } else { SOME };
    let ones = Bounds { length: 1, most: u64::MAX }.workloads();
    for workload in ones.chain(Bounds { length: 2, most: pairs }.workloads()) {
        campaign.workload(&workload).unwrap_or_else(|failure| panic!("{failure}"));
    }
    let counts = campaign.counts();
    let line = format!("{}: {counts}\n", L::EXHAUSTIVE);
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    assert_eq!(counts.workloads, Bounds::all(1) + pairs);
    assert!(counts.states > 300 && counts.second > 10 && counts.reopened > 10, "{counts}");
    counts
}

#[test]
fn the_log_keeps_what_it_promised_after_every_workload_of_one_word() {
    explore::<Lfs>(&Scenario::exhaustive(0));
}

#[test]
fn a_journaled_volume_keeps_what_it_promised_after_every_workload_of_one_word() {
    explore::<Ffs>(&Scenario::exhaustive(0));
}

#[test]
fn so_do_the_other_orderings() {
    for ordering in ["sync", "async"] {
        let scenario = Scenario { ordering: ordering.into(), ..Scenario::exhaustive(0) };
        explore::<Ffs>(&scenario);
    }
}

#[test]
fn the_log_keeps_what_it_promised_to_a_client_of_nfs() {
    explore::<Lfs>(&Scenario { nfs: "sync".into(), ..Scenario::exhaustive(0) });
}

#[test]
fn a_server_that_answers_before_a_change_is_durable_is_found() {
    let scenario = Scenario { nfs: "async".into(), ..Scenario::exhaustive(0) };
    let found = |workload: &str| {
        let campaign = Exhaustive::<Lfs>::new(&scenario, &Known::default()).unwrap();
        campaign.interrupt_every(INTERRUPT_EVERY).workload(workload).is_err()
    };
    for workload in ["create-n.none", "unlink-a.none", "rename-a-n.none", "chmod-b.none"] {
        assert!(found(workload), "{workload}");
    }
    // A client that syncs is answered when its data is durable, by this server too.
    assert!(!found("write-a.fsync"));
}
