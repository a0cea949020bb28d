//! Every wait ends, unmounting included: a short campaign of what `cargo xtask nightly soak ending` does
//! for as long as wanted. A failure prints the command that repeats it.

use std::io::Write as _;

use twin_ffs::Ffs;
use twin_lfs::Lfs;
use twin_proof::{CLOSE_NS, Ended, OP_NS, Scenario, Subject, at_night, passes, seeds};

fn campaign<L: Subject>(
    kind: &'static str,
    draw: fn(u64) -> Scenario,
    seeds: impl Iterator<Item = u64>,
) -> Ended {
    let mut all = Ended::default();
    for seed in seeds {
        all += passes(kind, &draw(seed), twin_proof::ending::<L>);
    }
    // Past the harness, which would swallow it.
    let _ = std::io::stderr().write_all(format!("{kind}: {all:?}\n").as_bytes());
    assert!(all.slowest_ns <= OP_NS && all.slowest_close_ns <= CLOSE_NS, "{all:?}");
    all
}

/// With 656 and 832 a long write once waited for half a minute while shorter ones took the room
/// that the cleaner gained, as if each of them were a reason to hope.
const SEEDS: [u64; 2] = [656, 832];

#[test]
fn requests_and_unmounts_of_full_logs_and_on_failing_disks_end_in_time() {
    let all = campaign::<Lfs>("ending", Scenario::ending, seeds(1..151, 10).chain(SEEDS));
    assert!(all.refusals > 0 && all.errors > 0 && all.lossy >= all.stopped, "{all:?}");
    if !at_night() {
        return;
    }
    assert!(all.refusals > 1000 && all.errors > 1000, "{all:?}");
    assert!(all.stopped > 30 && all.lossy >= all.stopped, "{all:?}");
}

/// Volumes without a journal that were full when they crashed: their repair had no room to name
/// files in lost+found, and a mount was refused for that.
const FFS_SEEDS: [u64; 2] = [1010, 1391];

#[test]
fn requests_and_unmounts_of_full_clustered_volumes_and_on_failing_disks_end_in_time() {
    let seeds = seeds(1..91, 10).chain(FFS_SEEDS);
    let all = campaign::<Ffs>("ffs-ending", Scenario::clustered_ending, seeds);
    assert!(all.refusals > 0 && all.errors > 0 && all.lossy >= all.stopped, "{all:?}");
    if !at_night() {
        return;
    }
    assert!(all.refusals > 1000 && all.errors > 1000, "{all:?}");
    assert!(all.stopped > 25 && all.lossy >= all.stopped, "{all:?}");
}
