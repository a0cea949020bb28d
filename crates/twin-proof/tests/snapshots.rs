//! Snapshots and branches beside clients at work, a cleaner, and power failures.

use std::io::Write as _;

use twin_proof::{
    Depth, Many, Scenario, Snapshotted, at_night, many_states, passes, seeds, snapshots,
};

#[test]
fn every_state_has_its_tree_as_long_as_it_is_kept_and_power_failures_leave_all_or_nothing() {
    let mut all = Snapshotted::default();
    let (rounds, points) = if at_night() { (12, 60) } else { (4, 8) };
    for seed in seeds(1..41, 14) {
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

/// A volume on which everything that the states need fits, and little more.
const SIZE: u64 = 1 << 30;
const SEGMENT: u64 = 64 << 10;

#[test]
fn a_thousand_snapshots_and_a_hundred_branches_keep_their_trees_and_give_back_their_space() {
    let many = match at_night() {
        true => Many { snapshots: 1000, branches: 100, requests: 60, one_in: 3 },
        false => Many { snapshots: 100, branches: 10, requests: 60, one_in: 9 },
    };
    let scenario = Scenario {
        workload: "small_files".into(),
        size: SIZE,
        segment: SEGMENT as u32,
        think_ns: 0,
        files: 150,
        write: 70_000,
        space: 8 << 20,
        clients: 3,
        ..Scenario::new(7)
    };
    let kept = many_states(&scenario, &many).unwrap_or_else(|failure| panic!("{}", failure.what));
    let _ = std::io::stderr().write_all(format!("many states: {kept:?}\n").as_bytes());
    assert!(kept.cleaned > 0 && kept.held_bytes > 0, "{kept:?}");
    let [before, after] = kept.used_bytes;
    assert!(after <= before, "the head uses no more than before: {kept:?}");
    // What is live fits into this many segments, each a sixteenth of which may be garbage.
    let needed = after.div_ceil(SEGMENT * 15 / 16) + 6;
    let hundredth = u64::from(kept.segments) / 100;
    let used = u64::from(kept.segments - kept.clean_segments);
    assert!(used <= needed + hundredth, "{used} segments for what needs {needed}: {kept:?}");
}
