//! Clients beside the model, with others running at every wait of an operation: for a lock, for the
//! disk, for what is not in memory. A failure prints the command that repeats it.

use twin_rt::Order;
use twin_sim::torture::{self, Depth, Scenario};

/// Of power failures only some: these runs are about what happens before.
const SHALLOW: Depth =
    Depth { most: 20, points: 10, work_every: 10, interrupt_every: 30, ..Depth::DEFAULT };

fn yielding(scenario: Scenario) -> Scenario {
    Scenario { order: Order::Yielding, clients: scenario.clients.max(3), users: false, ..scenario }
}

#[test]
fn on_a_log_every_reply_is_that_of_the_model_whoever_runs_in_between() {
    for seed in 1..61 {
        if let Err(failure) = torture::run(&yielding(Scenario::of_kind(seed))) {
            panic!("{failure}");
        }
    }
}

#[test]
fn on_a_clustered_volume_a_power_failure_keeps_its_promises_whoever_runs_in_between() {
    for seed in 1..25 {
        if let Err(failure) = torture::ffs_crash(&yielding(Scenario::clustered(seed)), &SHALLOW) {
            panic!("{failure}");
        }
    }
}

#[test]
fn the_same_seed_yields_at_the_same_places() {
    let scenario = yielding(Scenario::draw(5));
    let shuffled = Scenario { order: Order::Shuffled, ..scenario.clone() };
    let digest = |scenario: &Scenario| torture::run(scenario).unwrap().digest;
    assert_eq!(digest(&scenario), digest(&scenario));
    assert_ne!(digest(&scenario), digest(&shuffled));
}
