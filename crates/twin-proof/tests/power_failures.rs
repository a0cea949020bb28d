//! Power failures by the ten thousand by night, by the thousand at every change, with nothing acknowledged
//! lost; and, in builds of the fault
//! campaign, faults planted on purpose, which must be found.
//!
//! Each test says on standard error what it explored: power failures that left different contents
//! on the medium, each recovered from, recounted and compared with the model. A failure prints the
//! command that repeats it. `cargo xtask nightly soak crash` goes on where these end.

use std::io::Write as _;

use twin_lfs::format::Profile;
use twin_proof::{Depth, Explored, Failure, Scenario, at_night, passes, seeds};

/// Explores the scenarios of some seeds, one of every `one_in` except by night, and says what it came to, past the harness, which would
/// swallow it.
fn explore(
    what: &str,
    seeds: impl Iterator<Item = u64>,
    scenario: impl Fn(u64) -> Scenario,
    kind: &'static str,
    explore: impl Fn(&Scenario) -> Result<Explored, Failure>,
) -> Explored {
    let mut all = Explored::default();
    let mut runs = 0;
    for seed in seeds {
        runs += 1;
        all += passes(kind, &scenario(seed), &explore);
    }
    let Explored { failures, outcomes, second, rolled, cleaned, worked, .. } = all;
    let line = format!(
        "power failures, {what}, {runs} seeds: {failures} distinct of {outcomes} outcomes \
         explored, {second} of them in a recovery; {rolled} rolled forward, {worked} worked on, \
         {cleaned} segments cleaned meanwhile; nothing acknowledged lost\n"
    );
    let _ = std::io::stderr().write_all(line.as_bytes());
    assert!(all.failures > 0, "{all:?}");
    all
}

fn crash(scenario: &Scenario) -> Result<Explored, Failure> {
    twin_proof::crash(scenario, &Depth::default())
}

fn with(profile: Profile, scenario: Scenario) -> Scenario {
    let streams = if profile == Profile::Classic { 1 } else { scenario.streams };
    Scenario { profile, streams, ..scenario }
}

/// Each half of the seeds in one profile.
fn both(scenario: impl Fn(u64) -> Scenario) -> impl Fn(u64) -> Scenario {
    move |seed| {
        let profile = if seed % 2 == 0 { Profile::Modern } else { Profile::Classic };
        with(profile, scenario(seed))
    }
}

#[test]
fn power_failures_under_any_load_lose_nothing_acknowledged() {
    let all = explore("any load", seeds(1..31, 10), both(Scenario::draw), "crash", crash);
    assert!(!at_night() || all.failures >= 8000 && all.second >= 300, "{all:?}");
}

#[test]
fn power_failures_between_small_durable_changes_lose_nothing_acknowledged() {
    let all = explore("durable changes", seeds(1..16, 7), both(Scenario::commits), "crash", crash);
    assert!(!at_night() || all.failures >= 8000 && all.second >= 300, "{all:?}");
}

/// An inode, its name and the ACLs that it inherits are one step, and so are an ACL and the mode.
#[test]
fn power_failures_among_acls_leave_every_inode_with_the_acl_of_its_mode() {
    let depth = Depth { most: 300, ..Depth::default() };
    let crash = |scenario: &Scenario| twin_proof::crash(scenario, &depth);
    explore("ACLs", seeds(1..25, 8), Scenario::acls, "crash", crash);
}

#[test]
fn power_failures_while_a_volume_grows_lose_nothing_acknowledged_and_leave_a_size_that_it_was_to_have()
 {
    let depth = Depth { work_every: 8, most: 150, points: 40, ..Depth::default() };
    let crash = |scenario: &Scenario| twin_proof::crash(scenario, &depth);
    let all = explore("growing", seeds(1..31, 8), Scenario::growing, "crash", crash);
    assert!(all.new_segments > 100, "{all:?}");
}

#[test]
fn power_failures_on_nearly_full_volumes_lose_nothing_acknowledged() {
    let seeds = seeds((2..110).step_by(3), 12);
    let all = explore("nearly full volumes", seeds, both(Scenario::pressed), "crash", crash);
    assert!(
        !at_night() || all.failures >= 8000 && all.second >= 300 && all.cleaned >= 200,
        "{all:?}"
    );
}

/// Policies that name files or blocks write these without the rest; no policy may cost more than the
/// freshness of what nobody asked to be durable.
#[test]
fn power_failures_under_every_flush_policy_leave_a_consistent_volume() {
    let depth = Depth { most: 60, points: 40, ..Depth::DEFAULT };
    for entry in &twin_cache::flush::REGISTRY {
        let scenario = |seed| {
            let (flush, needer) = (entry.name.into(), seed % 2 == 0);
            Scenario { flush, needer, nvram: 64 << 10, ..both(Scenario::of_kind)(seed) }
        };
        let what = format!("flush policy {}", entry.name);
        let flush_crash = |s: &Scenario| twin_proof::flush_crash(s, &depth);
        let all = explore(&what, seeds(3..9, 6), scenario, "flush", flush_crash);
        assert!(!at_night() || all.failures >= 200 && all.rolled > 0, "{}: {all:?}", entry.name);
    }
}

/// Memory that survives is as good as the device, and without it there is less.
#[test]
fn recovery_replays_what_memory_that_survives_held() {
    let survives = |entry: &&_| twin_cache::flush::Survives::Nothing != survives_of(entry);
    for entry in twin_cache::flush::REGISTRY.iter().filter(survives) {
        let (mut needed, mut runs) = (0, 0);
        for seed in seeds(1..25, 5) {
            let scenario = both(Scenario::of_kind)(seed);
            let (flush, ops) = (entry.name.into(), 10 + 9 * seed);
            let scenario = Scenario { flush, ops, nvram: 128 << 10, ..scenario };
            needed += u32::from(passes("nvram", &scenario, twin_proof::preserved).needed);
            runs += 1;
        }
        assert!(needed * 2 > runs, "{}: memory was needed in {needed} of {runs} runs", entry.name);
    }
}

fn survives_of(
    entry: &twin_settings::RegistryEntry<twin_cache::flush::FlushSpec>,
) -> twin_cache::flush::Survives {
    entry.survives
}

#[test]
fn power_failures_while_a_volume_is_made_leave_it_or_none() {
    let birth = |scenario: &Scenario| twin_proof::crash_birth(scenario, &Depth::default());
    let all = explore("volumes being made", seeds(1..61, 6), both(Scenario::draw), "birth", birth);
    assert!(!at_night() || all.failures >= 600, "{all:?}");
}

/// Faults that are planted on purpose: only the fault campaign builds them in.
#[cfg(feature = "planted-faults")]
mod planted {
    use twin_lfs::PlantedFault;

    use super::*;

    /// The number of seeds until the fault is found.
    fn seeds_until_found(
        planted: PlantedFault,
        scenario: impl Fn(u64) -> Scenario,
        most: u64,
    ) -> u64 {
        for seed in 1..=most {
            let scenario = Scenario { planted, ..scenario(seed) };
            if let Err(failure) = twin_proof::crash(&scenario, &Depth::default()) {
                let line = format!("{planted:?} is found with seed {seed}: {}\n", failure.what);
                let _ = std::io::stderr().write_all(line.as_bytes());
                return seed;
            }
        }
        panic!("{planted:?} is not found with {most} seeds");
    }

    #[test]
    fn a_skipped_flush_is_found() {
        seeds_until_found(PlantedFault::SkipFlush, Scenario::commits, 5);
    }

    #[test]
    fn a_skipped_checksum_is_found() {
        seeds_until_found(PlantedFault::SkipChecksum, Scenario::commits, 10);
    }

    #[test]
    fn a_summary_that_is_written_before_its_blocks_is_found() {
        seeds_until_found(PlantedFault::SummaryFirst, Scenario::commits, 10);
    }

    #[test]
    fn a_segment_that_is_filled_again_too_early_is_found() {
        // It takes a cleaner at work at the wrong moment: longer runs come to it.
        let scenario = |seed| Scenario { ops: 400, ..Scenario::pressed(seed) };
        seeds_until_found(PlantedFault::ReuseEarly, scenario, 30);
    }
}
