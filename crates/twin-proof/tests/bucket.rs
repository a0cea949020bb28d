//! One writer at a time in a bucket: see `twin_proof::bucket`.

use twin_bucket::PlantedFault;
use twin_proof::at_night;
use twin_proof::bucket::{Scenario, command, run, shrink};

#[test]
fn what_one_writer_was_acknowledged_for_the_next_begins_with() {
    let (mut acknowledged, mut replaced) = (0, 0);
    for seed in 0..if at_night() { 20_000 } else { 1000 } {
        let scenario = Scenario::random(seed);
        let ran = run(&scenario, PlantedFault::None).unwrap_or_else(|what| {
            let (least, why) = shrink(&scenario, what, PlantedFault::None);
            panic!("{why}\nagain: {}", command(&least));
        });
        acknowledged += ran.acknowledged;
        replaced += ran.replaced;
    }
    // Everything that may happen has happened.
    assert!(
        acknowledged > 1000 && replaced > 100,
        "{acknowledged} acknowledged, {replaced} replaced"
    );
}

#[test]
fn a_run_is_a_function_of_its_scenario_and_a_scenario_of_its_text() {
    let scenario = Scenario::random(5);
    assert_eq!(scenario.to_string().parse(), Ok(scenario));
    assert_eq!(run(&scenario, PlantedFault::None), run(&scenario, PlantedFault::None));
}

/// Garbage was what no piece was left of: packs, too, that had died since the last head, which still needed them.
#[test]
fn what_has_died_since_the_head_is_no_garbage() {
    let text = "seed=5,writers=3,steps=11,packs-a-head=0,failing=0,stalling=0,lost=0,unanswered=63,repeated=7,\
                late=6,throttled=0";
    let scenario: Scenario = text.parse().unwrap();
    run(&scenario, PlantedFault::None).unwrap();
}

/// The map that a writer had made who then lost the race for the head stayed for ever.
#[test]
fn maps_of_writers_that_did_not_get_the_head_are_garbage() {
    let text = "seed=394,writers=4,steps=0,packs-a-head=0,failing=30,stalling=0,lost=0,unanswered=23,repeated=0,\
                late=0,throttled=0";
    let scenario: Scenario = text.parse().unwrap();
    run(&scenario, PlantedFault::None).unwrap();
}

/// Faults that are planted on purpose: only the fault campaign builds them in.
#[cfg(feature = "planted-faults")]
mod planted {
    use super::*;
    use twin_bucket::PLANTED;

    #[test]
    fn each_is_found() {
        for &planted in PLANTED {
            let found = (0..3000).find_map(|seed| run(&Scenario::random(seed), planted).err());
            assert!(found.is_some(), "{planted:?} is not found");
        }
    }
}
