//! Power failures while a volume is being made.
//!
//! Contract: until the new volume is whole, the device holds none, or an error says what is wrong
//! with it, or (if one was there before) the old one as it was. From the moment when making has
//! been acknowledged, it is there, empty, and works.

use twin_lfs::Lfs;
use twin_model::Dump;
use twin_rt::{FixedMap, Rng, SECS, Time};

use super::contents::Contents;
use super::crash::{describe, outcomes};
use super::{Depth, Explored, Failure, Scenario, Timing, World, oracle, prepare, recount};
use twin_sim::Platter;
use twin_sim::faults::{FaultPlan, WriteLog};

/// What a restart found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Old,
    New,
}

/// Makes the scenario's volume, on a blank device or (odd seeds) over an older volume, and looks
/// at its power failures.
///
/// # Errors
/// The first that leaves something else.
pub fn crash_birth(scenario: &Scenario, depth: &Depth) -> Result<Explored, Failure> {
    explore(scenario, depth).map_err(|what| Failure {
        kind: "birth",
        scenario: scenario.clone(),
        what,
    })
}

fn explore(scenario: &Scenario, depth: &Depth) -> Result<Explored, String> {
    let (before, old) = match scenario.seed % 2 {
        0 => (Platter::new(scenario.size), None),
        _ => {
            let seed = scenario.seed ^ 1 << 32;
            let older = Scenario { seed, fill: 30, ..scenario.clone() };
            let (platter, model) = prepare(&older)?;
            (platter, Some(model.dump()))
        }
    };
    let log = WriteLog::new();
    let faults = FaultPlan::none();
    let mut world = World::build(scenario, before, Timing::Jitter, Time(SECS), faults, Some(&log));
    let (rt, device) = (world.rt.clone(), world.device());
    let made = world.wait("mkfs", Lfs::mkfs(&rt, device, &scenario.mkfs()))?;
    made.map_err(|error| format!("mkfs: {error}"))?;
    log.mark(1);
    world.crash();
    let mut rng = Rng::stream(scenario.seed, "birth");
    let (mut contents, mut seen) = (Contents::new(0), FixedMap::default());
    let mut explored = Explored::default();
    for point in log.crash_points() {
        explored.points += 1;
        contents.advance(&point.state);
        for outcomes in outcomes(&point, &depth.exploration, &mut rng) {
            explored.outcomes += 1;
            let key = contents.fingerprint(&point.state, &outcomes);
            let found = match seen.get(&key) {
                Some(found) => *found,
                None => {
                    explored.failures += 1;
                    let found = open(scenario, point.state.with(&outcomes), old.as_ref())
                        .map_err(|what| describe(&point, &outcomes, &what))?;
                    seen.insert(key, found);
                    found
                }
            };
            if point.mark.is_some() && found != Found::New {
                return Err(describe(&point, &outcomes, "the volume was made and is not there"));
            }
        }
    }
    explored.states = 1;
    Ok(explored)
}

fn open(scenario: &Scenario, platter: Platter, old: Option<&Dump>) -> Result<Found, String> {
    let mut world = World::new(scenario, platter, Timing::Instant, Time(1000 * SECS));
    if world.try_open()?.is_err() {
        return Ok(Found::Nothing);
    }
    let counted = recount(&world.disk.platter())?;
    let tree = world.dump()?;
    counted.compare(&tree)?;
    if tree.nodes.len() == 1 && world.volume().layout.superblock().uuid == scenario.mkfs().uuid {
        return Ok(Found::New);
    }
    let same = |old: &&Dump| oracle::digest(old, |_| false) == oracle::digest(&tree, |_| false);
    match old.filter(same) {
        Some(_) => Ok(Found::Old),
        None => Err("a tree that is neither the old one nor an empty one".into()),
    }
}
