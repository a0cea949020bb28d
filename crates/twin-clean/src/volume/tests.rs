//! Tests of the bare volume: accounts, repeatability, every policy of the registries.

use super::study::{Source, StudyRun};
use super::workload;
use super::*;
use crate::inputs::{LogView, SegmentInfo, SegmentState};
use crate::{placement, victim};

const BLOCKS: u32 = 2_000;

fn run(
    workload: &str,
    placement: &'static placement::PlacementEntry,
    victim: &'static victim::VictimEntry,
) -> Totals {
    let geometry = VolumeGeometry::of_working_set(BLOCKS).unwrap();
    let source = Source::Generated(workload::parse(workload).unwrap(), 20 * u64::from(BLOCKS));
    StudyRun { geometry, source, placement, victim, seed: 1 }.run(&|_| {})
}

/// Checks the invariants of a log.
fn audit(volume: &Volume, live: &std::collections::BTreeSet<u32>) {
    let segments = volume.segments();
    let in_segments: u64 = segments.iter().map(|s| u64::from(s.live_blocks)).sum();
    assert_eq!((volume.live_blocks(), in_segments), (live.len() as u64, live.len() as u64));
    assert!(segments.iter().all(|s| s.live_blocks <= s.written_blocks));
    assert!(segments.iter().all(|s| s.written_blocks <= s.size_blocks));
    assert!(
        segments
            .iter()
            .all(|s| s.state != SegmentState::Sealed || s.written_blocks == s.size_blocks)
    );
    for (number, segment) in (0u32..).zip(segments) {
        let live = live.iter().filter(|&&block| volume.segment_of(block) == Some(number));
        assert_eq!(live.count() as u32, segment.live_blocks);
    }
}

#[test]
fn accounts_are_exact_under_every_placement_policy() {
    for entry in &placement::REGISTRY {
        let geometry = VolumeGeometry::of_working_set(600).unwrap();
        let victim = victim::REGISTRY.get("cost-hotness").unwrap().make(&geometry.setting(1));
        let mut volume = Volume::new(&geometry, entry.make(&geometry.setting(1)), victim);
        let mut writes = workload::parse("zipf").unwrap().start(600, 1);
        let mut live = std::collections::BTreeSet::new();
        for round in 0..6_000u64 {
            let block = writes.next_block();
            if round % 50 == 49 {
                volume.trim(block);
                live.remove(&block);
            } else {
                volume.request(block, 1);
                volume.write(block);
                live.insert(block);
            }
            if round % 500 == 0 {
                audit(&volume, &live);
            }
        }
        audit(&volume, &live);
        assert!(volume.totals().cleaner_writes > 0, "{}", entry.name);
    }
}

#[test]
fn every_placement_policy_makes_do_with_the_open_segments_that_it_names() {
    for entry in &placement::REGISTRY {
        let open_segments = entry.classes;
        let geometry =
            VolumeGeometry { open_segments, ..VolumeGeometry::of_working_set(BLOCKS).unwrap() };
        let source = Source::Generated(workload::parse("zipf").unwrap(), 20 * u64::from(BLOCKS));
        let victim = victim::REGISTRY.get("greedy").unwrap();
        let run = StudyRun { geometry, source, placement: entry, victim, seed: 1 };
        assert!(run.run(&|_| {}).cleaner_writes > 0, "{}", entry.name);
        let fewer = VolumeGeometry { open_segments: open_segments - 1, ..geometry };
        assert!(fewer.check_for(entry).is_err(), "{}", entry.name);
    }
}

#[test]
fn the_share_of_garbage_is_kept() {
    let geometry = VolumeGeometry::of_working_set(BLOCKS).unwrap();
    let setting = geometry.setting(1);
    let greedy = victim::REGISTRY.get("greedy").unwrap().make(&setting);
    let none = placement::REGISTRY.get("none").unwrap().make(&setting);
    let mut volume = Volume::new(&geometry, none, greedy);
    let mut writes = workload::parse("uniform").unwrap().start(BLOCKS, 1);
    for round in 0..100_000 {
        volume.write(writes.next_block());
        let written: u64 = volume.segments().iter().map(|s| u64::from(s.written_blocks)).sum();
        let garbage = (written - volume.live_blocks()) as f64 / written as f64;
        assert!(round < 20_000 || (0.13..=0.151).contains(&garbage), "{garbage}");
    }
}

/// Runs every pair of a placement and a victim policy; a quarter of the pairs, in which every
/// policy occurs, twice.
fn every_pair(placements: impl Fn(usize) -> bool) {
    for (p, placement) in placement::REGISTRY.iter().enumerate().filter(|(p, _)| placements(*p)) {
        for (v, victim) in victim::REGISTRY.iter().enumerate() {
            let first = run("hot-cold", placement, victim);
            if (p + v).is_multiple_of(4) {
                assert_eq!(first, run("hot-cold", placement, victim));
            }
            let wa = first.write_amplification();
            assert!((1.2..8.0).contains(&wa), "{placement:?} {victim:?}: {wa}");
        }
    }
}

// Two tests, so that two threads share the pairs.
#[test]
fn the_same_run_gives_the_same_totals_and_every_policy_cleans() {
    every_pair(|placement| placement.is_multiple_of(2));
}

#[test]
fn the_same_run_gives_the_same_totals_and_every_other_policy_cleans() {
    every_pair(|placement| !placement.is_multiple_of(2));
}

#[test]
fn greedy_on_uniform_writes_comes_to_what_theory_says() {
    let geometry = VolumeGeometry::of_working_set(40_000).unwrap();
    let source = Source::Generated(workload::parse("uniform").unwrap(), 60 * 40_000);
    let (placement, victim) = (placement::REGISTRY.get("none"), victim::REGISTRY.get("greedy"));
    let (placement, victim) = (placement.unwrap(), victim.unwrap());
    let totals = StudyRun { geometry, source, placement, victim, seed: 1 }.run(&|_| {});
    let wa = totals.write_amplification();
    assert!((3.445..3.545).contains(&wa), "{wa}");
}

#[test]
fn a_trace_that_only_writes_once_is_never_cleaned() {
    let mut builder = trace::Builder::default();
    builder.write(0, 0, 5_000 * trace::BLOCK_BYTES);
    let trace = std::sync::Arc::new(builder.finish().unwrap());
    let geometry = VolumeGeometry::of_working_set(trace.blocks()).unwrap();
    for placement in &placement::REGISTRY {
        let victim = &victim::REGISTRY.default_entry();
        let source = Source::Trace(std::sync::Arc::clone(&trace));
        let totals = StudyRun { geometry, source, placement, victim, seed: 1 }.run(&|_| {});
        assert_eq!(totals.user_writes, 5_000, "{}", placement.name);
        assert_eq!(totals.cleaner_writes, 0, "{}", placement.name);
    }
}

#[test]
fn geometries_that_cannot_be_are_refused() {
    let geometry = VolumeGeometry::of_working_set(1000).unwrap();
    for wrong in [
        VolumeGeometry { blocks: 0, ..geometry },
        VolumeGeometry { segment_blocks: 1, ..geometry },
        VolumeGeometry { garbage_share: 0.0, ..geometry },
        VolumeGeometry { garbage_share: f64::NAN, ..geometry },
        VolumeGeometry { open_segments: 0, ..geometry },
    ] {
        assert!(wrong.check().is_err(), "{wrong:?}");
    }
}

/// Sealed segments of 100 blocks, each given by its live blocks and the time when it was sealed.
fn segments(of: &[(u32, u64)]) -> Vec<SegmentInfo> {
    let segment = |&(live_blocks, sealed_at): &(u32, u64)| SegmentInfo {
        state: SegmentState::Sealed,
        size_blocks: 100,
        written_blocks: 100,
        live_blocks,
        sealed_at,
        youngest_at: sealed_at,
        ..SegmentInfo::default()
    };
    of.iter().map(segment).collect()
}

fn chosen(name: &str, segments: &[SegmentInfo]) -> Option<u32> {
    let geometry = VolumeGeometry::of_working_set(1000).unwrap();
    let view = LogView { now: 1000, live_blocks: 500, segment_blocks: 100, segments, open: &[] };
    let candidates = Candidates { view, min_garbage_share: 0.15 };
    victim::REGISTRY.get(name).unwrap().make(&geometry.setting(1)).choose(&candidates)
}

#[test]
fn victim_policies_keep_their_rules_at_an_example() {
    // The emptiest but youngest; the oldest but nearly full; one in between.
    let three = segments(&[(40, 990), (84, 0), (60, 500)]);
    assert_eq!(chosen("greedy", &three), Some(0));
    assert_eq!(chosen("oldest-first", &three), Some(1));
    // 0.6*11/1.4 = 4.7; 0.16*1001/1.84 = 87; 0.4*501/1.6 = 125.
    assert_eq!(chosen("cost-benefit", &three), Some(2));
    // 1.5*3.2 = 4.7; 0.19*31.6 = 6.0; 0.67*22.4 = 14.9.
    assert_eq!(chosen("cost-benefit-sqrt", &three), Some(2));
    // The youngest tenth, here one of eleven, is outside the window.
    let mut eleven = segments(&[(70, 10); 10]);
    eleven.extend(segments(&[(20, 900)]));
    assert_eq!(chosen("greedy", &eleven), Some(10));
    assert_eq!(chosen("windowed-greedy", &eleven), Some(0));
}

#[test]
fn cost_hotness_leaves_hot_segments_alone_and_mdc_those_that_are_updated_often() {
    let mut two = segments(&[(50, 500), (60, 500)]);
    two[0].heat = crate::inputs::Heat { writes: 5000, last_at: 50 * 990 };
    two[1].heat = crate::inputs::Heat { writes: 60, last_at: 60 * 100 };
    assert_eq!(chosen("cost-hotness", &two), Some(1));
    two[0].penultimate_sum = 100.0 * 990.0;
    two[1].penultimate_sum = 100.0 * 100.0;
    assert_eq!(chosen("mdc", &two), Some(1));
}

#[test]
fn no_policy_names_a_segment_without_enough_garbage() {
    let full = segments(&[(100, 0), (90, 0)]);
    for entry in &victim::REGISTRY {
        assert_eq!(chosen(entry.name, &full), None, "{}", entry.name);
    }
}

/// The classes of a block that a user writes again and again, and that is then moved, with no other
/// writes.
fn classes(name: &str) -> (Vec<u8>, u8) {
    let geometry = VolumeGeometry::of_working_set(1000).unwrap();
    let mut policy = placement::REGISTRY.get(name).unwrap().make(&geometry.setting(1));
    let segments = segments(&[(50, 0)]);
    let mut word = 0;
    let view = |now| LogView {
        now,
        live_blocks: 500,
        segment_blocks: 10,
        segments: &segments,
        open: &[crate::inputs::NO_SEGMENT; 6],
    };
    let written = (0..8u64).map(|round| {
        let old_segment = if round == 0 { NO_SEGMENT } else { 0 };
        let (kind, lifetime_writes) = (Default::default(), 25);
        let write = UserWrite { block: 7, old_segment, kind, lifetime_writes };
        policy.user_write(&write, &mut word, &view(round * 2))
    });
    let written: Vec<u8> = written.collect();
    let (kind, victim, victim_class) = (Default::default(), 0, 0);
    let write = CleanerWrite { block: 7, victim, victim_class, kind };
    (written, policy.cleaner_write(&write, &mut word, &view(20)))
}

#[test]
fn what_is_moved_without_asking_goes_where_it_would_have_gone() {
    let setting = VolumeGeometry::of_working_set(1000).unwrap().setting(1);
    let mut some = 0;
    for entry in &placement::REGISTRY {
        if let Some(class) = entry.make(&setting).class_of_moved(0) {
            assert_eq!(classes(entry.name).1, class, "{}", entry.name);
            some += 1;
        }
    }
    assert!(some >= 2, "none and sep-gc look at no block");
}

#[test]
fn placement_policies_keep_their_rules_at_an_example() {
    assert_eq!(classes("none"), (vec![0; 8], 0));
    assert_eq!(classes("sep-gc"), (vec![0; 8], 1));
    assert_eq!(classes("age-sort"), (vec![0; 8], 1));
    assert_eq!(classes("file-sort"), (vec![0; 8], 1));
    assert_eq!(classes("dac"), (vec![0, 1, 2, 3, 4, 5, 5, 5], 4));
    // Without an old copy: long-lived. Later: short-lived, because L is still infinite.
    assert_eq!(classes("sepbit"), (vec![1, 0, 0, 0, 0, 0, 0, 0], 2));
    // 25 writes are left, then 25 - 6 when it is moved 6 writes later; a segment is 10.
    assert_eq!(classes("fk"), (vec![2; 8], 1));
    // File data: warm, then cold.
    assert_eq!(classes("f2fs"), (vec![1; 8], 2));
}

#[test]
fn descriptions_of_workloads_are_read_and_written_back() {
    for entry in &workload::REGISTRY {
        let parsed = workload::parse(entry.name).unwrap();
        assert_eq!(parsed.to_string(), entry.name);
        let mut writes = parsed.start(1000, 3);
        let mut again = parsed.start(1000, 3);
        assert!((0..2000).all(|_| {
            let block = writes.next_block();
            block < 1000 && block == again.next_block()
        }));
    }
    let text = "zipf:exponent=0.5,permute=2";
    assert_eq!(workload::parse(text).unwrap().to_string(), text);
    for wrong in ["", "zip", "zipf:exponent", "zipf:exponent=x", "zipf:exponent=-1", "mixed:hot=1"]
    {
        assert!(workload::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn zipf_ranks_come_as_often_as_the_law_says() {
    let mut writes = workload::parse("zipf:permute=0").unwrap().start(100, 1);
    let mut seen = vec![0u32; 100];
    (0..500_000).for_each(|_| seen[writes.next_block() as usize] += 1);
    // The hottest fifth is permuted, the others are not.
    seen[..20].sort_unstable_by(|a, b| b.cmp(a));
    let sum: f64 = (1..=100).map(|rank| 1.0 / f64::from(rank)).sum();
    for (at, &seen) in seen.iter().enumerate() {
        let expected = 500_000.0 / (at as f64 + 1.0) / sum;
        assert!((f64::from(seen) - expected).abs() < 6.0 * expected.sqrt() + 60.0, "{at}: {seen}");
    }
}

#[test]
fn registries_name_each_policy_once_and_say_its_rule_and_source() {
    let placements = placement::REGISTRY.iter().map(|e| (e.name, e.about, e.source));
    let victims = victim::REGISTRY.iter().map(|e| (e.name, e.about, e.source));
    for all in [placements.collect::<Vec<_>>(), victims.collect()] {
        let names: std::collections::BTreeSet<_> = all.iter().map(|entry| entry.0).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|(_, rule, source)| rule.len() > 5 && source.len() > 5));
    }
    let ours = &placement::REGISTRY.default_entry();
    assert!(ours.online && ours.bits_per_block <= 32);
}
