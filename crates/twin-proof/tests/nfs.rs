//! The write contract of the NFS server over real layouts: see `twin_proof::nfs`.

use twin_proof::nfs::{Bug, Ran, Scenario, VOLUMES, Volume, faults, run};
use twin_sim::network::Proto;

fn volumes() -> Vec<Volume> {
    VOLUMES.iter().map(|text| Volume::make(text).unwrap()).collect()
}

#[test]
fn the_contract_holds_over_random_runs() {
    let volumes = volumes();
    let mut sum = Ran::default();
    for seed in 0..200 {
        let volume = &volumes[seed as usize % volumes.len()];
        let ran = run(&Scenario::random(seed), volume);
        sum += ran.unwrap_or_else(|what| {
            panic!("{what}\nagain: cargo run --release -p twin-proof --example nfs_contract -- one random {seed}")
        });
    }
    // Everything that may happen has happened.
    let often = [sum.calls / 10, sum.resent, sum.repeated, sum.restarts, sum.compared / 10];
    assert!(sum.losses > 2 && often.iter().all(|&count| count > 100), "{sum:?}");
}

#[test]
fn the_contract_holds_over_single_faults_of_a_fixed_course() {
    let volumes = volumes();
    for proto in [Proto::Tcp, Proto::Udp] {
        let ran = run(&Scenario::ordered(proto, Vec::new()), &volumes[0]).unwrap();
        let all = faults::all(proto, ran.calls, 2 * ran.calls);
        for strike in all.iter().step_by(3) {
            run(&Scenario::ordered(proto, vec![*strike]), &volumes[0])
                .unwrap_or_else(|what| panic!("{proto:?}, {strike:?}: {what}"));
        }
    }
}

#[test]
fn planted_bugs_are_found() {
    let volumes = volumes();
    let found = |bug| {
        (0..100).any(|seed| {
            let volume = &volumes[seed as usize % volumes.len()];
            run(&Scenario::random(seed).with_bug(bug), volume).is_err()
        })
    };
    // A late copy of a WRITE seldom meets a newer one of the same bytes: about a thousand runs find it
    // (`nfs_contract bugs 0..6000`).
    let often = Bug::ALL.into_iter().filter(|&bug| bug != Bug::WritesNotCached);
    let missed: Vec<Bug> = often.filter(|&bug| !found(bug)).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn a_run_is_a_function_of_its_scenario() {
    let volumes = volumes();
    assert_eq!(run(&Scenario::random(4), &volumes[0]), run(&Scenario::random(4), &volumes[0]));
}

/// A synced block moved to grow, its inode reached the disk before its content did, and the power failed:
/// what was synced was gone, on FFS with synchronous metadata.
#[test]
fn a_synced_block_that_moves_is_not_lost() {
    let sync = &volumes()[2];
    run(&Scenario::random(197), sync).unwrap();
}

/// A removal failed with the disk: the client was told so, and the file was gone in the memory of the
/// server, which went on to answer. A write that was under way got "stale", and the application was told
/// that its file is gone, which after the restart it was not.
#[test]
fn a_stopped_volume_tells_nobody_that_a_file_is_gone() {
    let log = &volumes()[0];
    run(&Scenario::failing(231), log).unwrap();
}

/// On FFS with a journal: the data of a file was on its way, and its inode went with the transaction that was
/// being written. An fsync waited for the next one, in which nothing had changed, so that nothing was written
/// and the device not flushed; it took the turn for a flush, and the data was lost.
#[test]
fn a_transaction_without_changes_flushes_nothing() {
    let journal = &volumes()[1];
    for seed in [73_615, 114_022] {
        run(&Scenario::random(seed), journal).unwrap();
    }
}
