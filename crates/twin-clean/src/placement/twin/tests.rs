//! The placement policy on small volumes.

use super::*;
use crate::volume::study::{Source, StudyRun};
use crate::volume::{VolumeGeometry, workload};
use crate::{placement, victim};

fn amplification(workload: &str, placement: &str, victim: &str) -> f64 {
    let geometry = VolumeGeometry::of_working_set(20_000).unwrap();
    let source = Source::Generated(workload::parse(workload).unwrap(), 30 * 20_000);
    let placement = placement::REGISTRY.get(placement).unwrap();
    let victim = victim::REGISTRY.get(victim).unwrap();
    let totals = StudyRun { geometry, source, placement, victim, seed: 1 }.run(&|_| {});
    totals.write_amplification()
}

/// Policy names stand in their registries, which list the policies of this project first.
fn ours(workload: &str) -> f64 {
    amplification(
        workload,
        placement::REGISTRY.default_entry().name,
        victim::REGISTRY.default_entry().name,
    )
}

/// The least write amplification of these placement policies with any victim policy but `twin`.
fn best_of(placements: &[&str], workload: &str) -> f64 {
    let victims = victim::REGISTRY.iter().skip(1).map(|entry| entry.name);
    let pairs = victims.flat_map(|victim| placements.iter().map(move |p| (*p, victim)));
    pairs.map(|(p, v)| amplification(workload, p, v)).fold(f64::INFINITY, f64::min)
}

#[test]
fn where_nothing_can_be_told_apart_it_costs_no_more_than_one_log() {
    let (none, ours) = (best_of(&["none"], "uniform"), ours("uniform"));
    assert!(ours < none * 1.004, "{ours}, {none}");
}

#[test]
fn two_temperatures_are_told_apart_better_than_by_guesses() {
    let (published, ours) = (best_of(&["sepbit", "dac"], "hot-cold"), ours("hot-cold"));
    assert!(ours < published * 0.96, "{ours}, {published}");
}

#[test]
fn a_sequence_between_random_writes_is_seen() {
    let (published, ours) = (best_of(&["none", "sepbit"], "mixed"), ours("mixed"));
    assert!(ours < published * 1.0, "{ours}, {published}");
}

#[test]
fn before_the_first_plan_moved_blocks_are_apart_if_they_can_be() {
    assert_eq!((apart(0, 6), apart(MOVED_FROM, 6), apart(MOVED_FROM, 1)), (0, 1, 0));
}

#[test]
fn a_sequence_is_seen_though_other_writes_lie_between() {
    let mut twin = Twin::new(&VolumeGeometry::of_working_set(10_000).unwrap().setting(1));
    let writes = [5, 900, 6, 17, 7, 5000];
    assert_eq!(
        writes.map(|block| twin.is_sequential(block)),
        [false, false, true, false, true, false]
    );
}
