//! Clients beside the model, with others running at every wait of an operation: for a lock, for the
//! disk, for what is not in memory. A failure prints the command that repeats it.

use twin_proof::{Depth, Scenario, passes, seeds};
use twin_rt::Order;

/// Of power failures only some: these runs are about what happens before.
const SHALLOW: Depth =
    Depth { most: 20, points: 10, work_every: 10, interrupt_every: 30, ..Depth::DEFAULT };

fn yielding(scenario: Scenario) -> Scenario {
    Scenario { order: Order::Yielding, clients: scenario.clients.max(3), users: false, ..scenario }
}

#[test]
fn on_a_log_every_reply_is_that_of_the_model_whoever_runs_in_between() {
    for seed in seeds(1..61, 6) {
        passes("run", &yielding(Scenario::of_kind(seed)), twin_proof::run);
    }
}

/// Directories come and go under the clients, and little stays in memory. Without the second look at
/// whether the directory is still there, a file is made in one that has been removed: so in a
/// quarter of these runs, and in none in which ready tasks are merely shuffled. What they found:
///
/// - Seed 68: a rename into a directory below what it moves was told so, though that directory had been
///   removed while its parents were looked at.
/// - Seed 240: a listing named the parent that a directory had when its first block was read, beside
///   attributes of a later moment. A rename moved the directory in between.
#[test]
fn few_names_in_many_hands_and_little_memory_make_no_difference() {
    for seed in seeds(1..301, 15).chain([68, 240]) {
        let scenario =
            Scenario { order: Order::Yielding, clients: 6, users: false, ..Scenario::draw(seed) };
        let scenario = Scenario { workload: "metadata".into(), files: 6, ops: 1000, ..scenario };
        let scenario = Scenario { cache: 64 << 10, inodes: 4, think_ns: 0, ..scenario };
        passes("run", &scenario, twin_proof::run);
    }
}

#[test]
fn on_a_clustered_volume_a_power_failure_keeps_its_promises_whoever_runs_in_between() {
    for seed in seeds(1..25, 6) {
        let scenario = yielding(Scenario::clustered(seed));
        passes("ffs", &scenario, |scenario| twin_proof::ffs_crash(scenario, &SHALLOW));
    }
}

#[test]
fn the_same_seed_yields_at_the_same_places() {
    let scenario = yielding(Scenario::draw(5));
    let shuffled = Scenario { order: Order::Shuffled, ..scenario.clone() };
    let digest = |scenario: &Scenario| twin_proof::run(scenario).unwrap().digest;
    assert_eq!(digest(&scenario), digest(&scenario));
    assert_ne!(digest(&scenario), digest(&shuffled));
}
