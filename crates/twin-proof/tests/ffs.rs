//! Clustered volumes: power failures under every metadata ordering, by the thousand by night, damaged
//! images, and, in builds of the fault campaign, faults planted on purpose, which must be found.
//!
//! A failure prints the command that repeats it. `cargo xtask nightly soak ffs` goes on where these end.

use std::io::Write as _;

use twin_ffs::Ffs;
use twin_lfs::Lfs;
use twin_proof::{
    Damaged, Depth, Explored, Reused, Scenario, States, Subject, at_night, passes, seeds,
};

/// A restart here is a replay or a repair, a check, and an open volume: fewer of each run, of
/// more runs.
const DEPTH: Depth =
    Depth { most: 120, points: 40, work_every: 20, interrupt_every: 60, ..Depth::DEFAULT };

/// What `cargo run --example campaign` looks at.
const DEEPER: Depth =
    Depth { most: 300, points: 60, work_every: 20, interrupt_every: 60, ..Depth::DEFAULT };

/// Explores scenarios of one ordering, and says past the harness what it came to.
fn explore(ordering: &str, one_in: usize) -> Explored {
    let mut all = Explored::default();
    let seeds = seeds(1..13, one_in);
    let count = seeds.clone().count();
    for seed in seeds {
        let scenario = Scenario { ordering: ordering.into(), ..Scenario::clustered(seed) };
        all += passes("ffs", &scenario, |scenario| twin_proof::ffs_crash(scenario, &DEPTH));
    }
    assert!(all.failures > 0, "{all:?}");
    let Explored { failures, second, rolled, worked, states, .. } = all;
    let line = format!(
        "power failures, FFS with {ordering} ordering, {count} seeds: {failures} distinct, {second} of \
         them in a recovery; {rolled} replayed or repaired, {worked} worked on; {states} promised \
         names and blocks found\n"
    );
    let _ = std::io::stderr().write_all(line.as_bytes());
    all
}

#[test]
fn a_journal_keeps_what_it_acknowledged() {
    let all = explore("journal", 6);
    assert!(all.states > 0, "{all:?}");
    assert!(!at_night() || all.failures >= 700 && all.states > 1000, "{all:?}");
}

#[test]
fn every_ordering_keeps_its_promise_under_every_flush_policy() {
    let depth = Depth { most: 40, points: 20, ..DEPTH };
    for (seed, entry) in (40..).zip(&twin_cache::flush::REGISTRY) {
        let orderings = twin_ffs::ordering::REGISTRY.names().enumerate();
        // Every policy with one of the orderings, in turn; by night with each.
        let takes_part = |turn: usize| at_night() || seed as usize % 3 == turn % 3;
        for (_, ordering) in orderings.filter(|(turn, _)| takes_part(*turn)) {
            let (flush, needer) = (entry.name.into(), seed % 2 == 0);
            let ordering = ordering.into();
            let scenario = Scenario::clustered(seed);
            let scenario = Scenario { flush, needer, ordering, nvram: 64 << 10, ..scenario };
            passes("ffs", &scenario, |scenario| twin_proof::ffs_crash(scenario, &depth));
        }
    }
}

#[test]
fn synchronous_metadata_is_there() {
    let all = explore("sync", 6);
    assert!(all.states > 0, "{all:?}");
    assert!(!at_night() || all.failures >= 700 && all.states > 1000, "{all:?}");
}

/// A new inode with an inherited ACL leads to its hidden file, which must be there before it.
#[test]
fn acls_are_kept_under_every_ordering() {
    let orderings = &twin_ffs::ordering::REGISTRY;
    let depth = if at_night() { DEPTH } else { Depth { most: 40, points: 20, ..DEPTH } };
    for (ordering, seed) in orderings.iter().cycle().zip(seeds(1..13, 4)) {
        let (ordering, workload) = (ordering.name.into(), "acls".into());
        let scenario = Scenario { ordering, workload, ..Scenario::clustered(seed) };
        passes("ffs", &scenario, |scenario| twin_proof::ffs_crash(scenario, &depth));
    }
}

/// A directory grew for the name of a new directory, and its inode was written for its new link
/// count ahead of the block that it then led to.
#[test]
fn a_directory_that_grows_for_a_directory_leads_to_no_block_that_is_not_there() {
    let scenario = Scenario { ordering: "sync".into(), ..Scenario::clustered(5) };
    passes("ffs", &scenario, |scenario| twin_proof::ffs_crash(scenario, &DEEPER));
}

/// An inode left memory while the transaction with its last change was on its way, came back, and
/// an fsync of it found nothing to wait for.
#[test]
fn fsync_of_an_inode_that_came_back_waits_for_the_transaction_that_has_it() {
    let scenario = Scenario::clustered(33);
    passes("ffs", &scenario, |scenario| twin_proof::ffs_crash(scenario, &DEEPER));
}

/// The reply to a link had attributes that another client had changed while the name was written.
#[test]
fn a_link_is_answered_with_the_attributes_of_its_own_step() {
    let few = Depth { most: 1, points: 1, ..DEEPER };
    let scenario = Scenario::clustered(37);
    passes("ffs", &scenario, |scenario| twin_proof::ffs_crash(scenario, &few));
}

#[test]
fn asynchronous_volumes_are_sound_and_keep_what_was_synced() {
    // Some of these runs leave nothing that was promised.
    let all = explore("async", 4);
    assert!(all.states > 0, "{all:?}");
    assert!(!at_night() || all.failures >= 700 && all.states > 100, "{all:?}");
}

/// What a repair found without a name it named in no order on a volume with ordering async: a second
/// power failure lost names of the root that the first had left. Only every sixtieth recovery of a
/// run is interrupted, and few of them had such files.
#[test]
fn a_power_failure_while_a_repair_names_files_costs_no_names() {
    let scenario = Scenario { ordering: "async".into(), ..Scenario::clustered(10) };
    passes("ffs", &scenario, |scenario| twin_proof::ffs_crash(scenario, &DEEPER));
}

/// Rounds on one volume, each ended by a power failure, a kill or closing.
const ROUNDS: u64 = 12;

/// Seven clients where space is in use again at once.
fn reuse<L: Subject>(what: &str, ordering: &str, seeds: impl Iterator<Item = u64>) -> Reused {
    let mut all = Reused::default();
    for seed in seeds {
        let scenario = Scenario { ordering: ordering.into(), ..Scenario::reusing(seed) };
        all += passes(L::REUSE, &scenario, |scenario| twin_proof::reuse::<L>(scenario, ROUNDS));
    }
    let line = format!("space in use again, {what}: {all:?}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    assert!(all.fsynced > 0, "{all:?}");
    all
}

/// Blocks of pointers lay in fsynced files: their places had been freed while the transaction that
/// had them was on its way to the journal, and were not revoked.
#[test]
fn a_journal_gives_no_file_what_its_space_held_before() {
    let all = reuse::<Ffs>("FFS with journal ordering", "journal", seeds(1..17, 8));
    assert!(!at_night() || all.promised > 3000 && all.searched > 300 && all.closed > 50, "{all:?}");
}

#[test]
fn synchronous_metadata_gives_no_fsynced_file_what_its_space_held_before() {
    let all = reuse::<Ffs>("FFS with sync ordering", "sync", seeds(1..9, 8));
    assert!(!at_night() || all.promised > 1500 && all.closed > 20, "{all:?}");
}

/// Indirect blocks with garbage in them took blocks of files that were closed and untouched: seeds 10,
/// 60, 85, 86 and 183 told of it, 15 of a volume without a root, 17 took minutes.
#[test]
fn asynchronous_metadata_gives_no_untouched_file_what_its_space_held_before() {
    let found = [10, 15, 17, 60, 85, 86, 183].into_iter();
    let all = reuse::<Ffs>("FFS with async ordering", "async", found.chain(seeds([9, 11, 16], 3)));
    assert!(!at_night() || all.fsynced > 500, "{all:?}");
}

#[test]
fn the_log_gives_no_file_what_its_space_held_before() {
    let all = reuse::<Lfs>("the log", "journal", seeds(1..5, 4));
    assert!(!at_night() || all.promised > 500 && all.searched > 50, "{all:?}");
}

/// `cargo xtask nightly soak ffs-images --seeds 0..40` makes the same damage and goes on to 10,000 images.
#[test]
fn damaged_images_are_refused_or_repaired() {
    let mut all = Damaged::default();
    for seed in seeds(0..40, 8) {
        let scenario = Scenario::clustered_image(seed);
        all += passes("ffs-images", &scenario, |scenario| twin_proof::ffs_damage(scenario, 75));
    }
    let line = format!("damaged FFS images: {all:?}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    assert!(all.walked > all.images / 2, "{all:?}");
    assert!(!at_night() || all.images == 3000 && all.walked > 2900, "{all:?}");
}

/// Explores the states of one ordering, one of every `stride` by night and fewer otherwise, and says past
/// the harness what it came to.
fn states<L: Subject>(what: &str, scenario: &Scenario, stride: usize) -> States {
    let stride = if at_night() { stride } else { stride * 160 };
    match twin_proof::states::<L>(scenario, stride) {
        Ok(found) => {
            let line = format!("space used again in every state, {what}: {found:?}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
            found
        }
        Err(failure) => panic!("{what}: {failure}"),
    }
}

fn full_volume(ordering: &str, size: u64) -> Scenario {
    Scenario { size, ordering: ordering.into(), ..Scenario::crowded(1) }
}

#[test]
fn space_is_whole_in_whatever_state_it_is_freed_and_used_again_with_a_journal() {
    let scenario = full_volume("journal", 3 << 20);
    let found = states::<Ffs>("FFS with journal ordering", &scenario, 2);
    assert!(found.pairs > 0 && found.refused == 0 && found.failures > 0, "{found:?}");
    assert!(!at_night() || found.pairs > 100 && found.failures > 10_000, "{found:?}");
}

#[test]
fn space_is_whole_in_whatever_state_it_is_freed_and_used_again_with_synchronous_metadata() {
    let scenario = full_volume("sync", 3 << 20);
    let found = states::<Ffs>("FFS with sync ordering", &scenario, 16);
    assert!(found.pairs > 0 && found.refused == 0 && found.failures > 0, "{found:?}");
    assert!(!at_night() || found.pairs > 10 && found.failures > 2000, "{found:?}");
}

#[test]
fn space_is_whole_in_whatever_state_it_is_freed_and_used_again_in_the_log() {
    let scenario = full_volume("journal", 6 << 20);
    let found = states::<Lfs>("the log", &scenario, 6);
    assert!(found.pairs > 0 && found.refused == 0 && found.failures > 0, "{found:?}");
    assert!(!at_night() || found.pairs > 10 && found.failures > 2000, "{found:?}");
}

/// Faults that are planted on purpose: only the fault campaign builds them in.
#[cfg(feature = "planted-faults")]
mod planted {
    use twin_ffs::PlantedFault;

    use super::*;

    /// The number of seeds until the fault is found.
    fn seeds_until_found(ordering: &str, planted: PlantedFault, most: u64) -> u64 {
        for seed in 1..=most {
            let base = Scenario { seed, ..Scenario::commits(seed) };
            let scenario = Scenario {
                ordering: ordering.into(),
                ffs_planted: planted,
                size: 8 << 20,
                fill: 0,
                ..base
            };
            if let Err(failure) = twin_proof::ffs_crash(&scenario, &DEPTH) {
                let what = failure.what.lines().next().unwrap_or_default();
                let line = format!("{planted:?} is found with seed {seed}: {what}\n");
                let _ = std::io::stderr().write_all(line.as_bytes());
                return seed;
            }
        }
        panic!("{planted:?} is not found with {most} seeds");
    }

    #[test]
    fn a_skipped_flush_is_found() {
        seeds_until_found("journal", PlantedFault::SkipFlush, 8);
        seeds_until_found("sync", PlantedFault::SkipFlush, 8);
    }

    #[test]
    fn data_that_comes_after_its_record_is_found() {
        seeds_until_found("journal", PlantedFault::DataLate, 12);
    }

    #[test]
    fn records_that_are_believed_without_their_checksums_are_found() {
        seeds_until_found("journal", PlantedFault::SkipChecksum, 12);
    }

    /// The seed of [`Scenario::reusing`] with which a fault in the journal is found.
    fn reuse_finds(planted: PlantedFault, mut seeds: std::ops::RangeInclusive<u64>) {
        let found = seeds.find_map(|seed| {
            let base = Scenario::reusing(seed);
            let scenario = Scenario {
                ordering: "journal".into(),
                ffs_planted: planted,
                size: 8 << 20,
                journal: 2 << 20,
                ..base
            };
            twin_proof::reuse::<Ffs>(&scenario, ROUNDS).err().map(|failure| (seed, failure.what))
        });
        let Some((seed, what)) = found else { panic!("{planted:?} is not found") };
        let line = format!("{planted:?} is found with seed {seed}: {what}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    #[test]
    fn a_block_freed_while_its_transaction_is_on_its_way_and_not_revoked_is_found() {
        reuse_finds(PlantedFault::RevokeLate, 1..=5);
    }

    #[test]
    fn a_revocation_that_replay_ignores_is_found() {
        reuse_finds(PlantedFault::SkipRevoked, 1..=60);
    }

    /// A restart left the journal's header at its oldest record, and a second failure replayed that
    /// over what its places were used for since.
    #[test]
    fn a_restart_that_leaves_the_journals_header_behind_is_found() {
        reuse_finds(PlantedFault::HeaderStays, 10..=60);
    }

    #[test]
    fn space_that_is_used_before_the_transaction_that_freed_it_is_durable_is_found() {
        reuse_finds(PlantedFault::ReuseAtOnce, 1..=5);
    }

    /// What is found here is told with the states in which it happens.
    #[test]
    fn every_rule_of_reuse_is_needed_in_some_state() {
        for (planted, place) in [
            (PlantedFault::RevokeLate, "File freed at Events("),
            (PlantedFault::SkipRevoked, "File freed at Events("),
            (PlantedFault::HeaderStays, "File freed at Restarted"),
            (PlantedFault::ReuseAtOnce, "the file whose removal was not synced"),
            (PlantedFault::DataLate, "not fsynced: from "),
            (PlantedFault::SkipFlush, "freed at Events("),
            (PlantedFault::SkipChecksum, "freed at Events("),
        ] {
            let volume = full_volume("journal", 3 << 20);
            let scenario = Scenario { ffs_planted: planted, ..volume };
            let found = twin_proof::states::<Ffs>(&scenario, 2).err();
            let found = found.map(|failure| failure.what).unwrap_or_default();
            assert!(found.contains(place), "{planted:?} is not found: {found}");
        }
    }
}
