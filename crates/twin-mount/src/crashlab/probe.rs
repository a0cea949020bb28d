//! The loss that is planted in each run, and must be found.
//!
//! Contract: the probe writes one file and syncs it, writes another and does not, and acknowledges both. A lab that is
//! sound has a state in which the second is missing, none in which the first is, and a check says so, all by the means
//! with which the states of a program are made and checked.

use std::fs::File;
use std::io::Write;

use twin_crashlab::model::Model;
use twin_crashlab::{Budget, History, Outcome, Search, Space};

use super::acknowledge;
use super::place::Place;

const KEPT: &str = ".crashlab-probe-kept";
const LOST: &str = ".crashlab-probe-lost";
/// States of the probe that are looked at.
const STATES: u64 = 64;

/// Does what the probe does, in the working directory.
///
/// # Errors
/// If something cannot be written.
pub fn probe(label: &str) -> Result<(), String> {
    let make = |name: &str| {
        let mut file = File::create(name)?;
        file.write_all(name.as_bytes())?;
        Ok::<_, std::io::Error>(file)
    };
    let kept =
        make(KEPT).and_then(|file| file.sync_all()).and_then(|()| File::open(".")?.sync_all());
    kept.and_then(|()| make(LOST)).map_err(|e| format!("the probe: {e}"))?;
    acknowledge(label)
}

/// That the planted loss is found, and nothing else.
///
/// # Errors
/// What is broken.
pub(super) fn verify(history: History, like: &Model, place: &Place) -> Result<(), String> {
    let space = Space::of(history, like);
    let mut search = Search::new(space, Budget { states: STATES, seed: 1 });
    let both = format!(
        "grep -q probe {KEPT} && grep -q probe {LOST} && grep -q probe \"$CRASHLAB_ACKED\""
    );
    let first = format!("! grep -q probe \"$CRASHLAB_ACKED\" || grep -q probe {KEPT}");
    let whole = search
        .trial(search.space().whole(search.space().len()))
        .ok_or("the probe left no history")?;
    if let Outcome::Failed { how, said } = place.check(&whole, &both)? {
        return Err(format!(
            "what the probe wrote is not there even without a power failure: {how} {said}"
        ));
    }
    let mut lost = 0;
    while let Some(trial) = search.next_trial() {
        if !trial.acked.iter().any(|label| label == "probe") {
            continue;
        }
        if let Outcome::Failed { .. } = place.check(&trial, &first)? {
            return Err(format!(
                "what the probe had synced is missing in the state {}",
                trial.state
            ));
        }
        lost += u64::from(place.check(&trial, &both)? != Outcome::Passed);
    }
    match lost {
        0 => Err("the probe did not sync a file, and no state misses it".into()),
        _ => Ok(()),
    }
}
