//! Snapshots and branches beside clients at work, a cleaner, and power failures.

use std::io::Write as _;

use twin_proof::{Depth, Scenario, Snapshotted, at_night, passes, seeds, snapshots};

#[test]
fn every_state_has_its_tree_as_long_as_it_is_kept_and_power_failures_leave_all_or_nothing() {
    let mut all = Snapshotted::default();
    let (rounds, points) = if at_night() { (12, 60) } else { (4, 8) };
    for seed in seeds(1..41, 9) {
        let scenario = Scenario::snapshots(seed);
        let depth = Depth { points, ..Depth::default() };
        all += passes("snapshots", &scenario, |scenario| snapshots(scenario, rounds, &depth));
    }
    let _ = std::io::stderr().write_all(format!("snapshots: {all:?}\n").as_bytes());
    assert!(
        all.kept > 0 && all.amid > 0 && all.deleted > 0 && all.heads > 0 && all.failures > 0,
        "{all:?}"
    );
}
