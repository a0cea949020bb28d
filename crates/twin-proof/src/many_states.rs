//! Very many snapshots and branches, made while a program is built and the cleaner works, and all of them deleted.
//!
//! Contract: clients make, rewrite and remove small files as a build does; after every few requests a state is kept.
//! Each has the tree of the model at that instant, after everything that follows; when all are deleted, the space that
//! they held is back, and what is live is what the head has.

use std::collections::BTreeMap;

use twin_fs::SnapshotView;
use twin_fs::snapshots::Keep;
use twin_lfs::check::CheckOptions;
use twin_model::ModelFs;
use twin_model::generate::{Generator, WorkloadParams};
use twin_rt::{Order, SECS, Time};

use super::{Failure, History, Place, Scenario, Timing, World, drive, expect_last, make, oracle};

/// Memory for blocks of a state that is looked at.
const CACHE_BYTES: u64 = 1 << 20;

/// After how many states the cleaner is called besides, and for how many segments.
const CLEANED_EVERY: u64 = 7;
const CLEANED_AT_A_TIME: u64 = 20;

/// How many states are made, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Many {
    /// Snapshots.
    pub snapshots: u64,
    /// Branches.
    pub branches: u64,
    /// Requests of clients between two states.
    pub requests: u64,
    /// One of this many states is looked at in the end.
    pub one_in: usize,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManyKept {
    /// States that were kept.
    pub states: u64,
    /// Bytes that they held at the end, beside what is live in the head.
    pub held_bytes: u64,
    /// Bytes that the head uses, before they are deleted and after.
    pub used_bytes: [u64; 2],
    /// Segments that were cleaned meanwhile.
    pub cleaned: u64,
    /// Segments that are clean after all was deleted and cleaned.
    pub clean_segments: u32,
    /// All segments.
    pub segments: u32,
    /// Trees that were compared.
    pub trees: u64,
}

/// Makes very many states, looks at them, and deletes all.
///
/// # Errors
/// The first that is not as promised.
pub fn many_states(scenario: &Scenario, many: &Many) -> Result<ManyKept, Failure> {
    run(scenario, many).map_err(|what| Failure {
        kind: "many-states",
        scenario: scenario.clone(),
        what,
    })
}

fn run(scenario: &Scenario, many: &Many) -> Result<ManyKept, String> {
    let platter = make::<twin_lfs::Lfs>(scenario)?;
    let calm = Scenario { clients: 1, order: Order::Fifo, ..scenario.clone() };
    let mut world = World::new(&calm, platter, Timing::Instant, Time(SECS));
    world.open()?;
    let mut model = oracle::model_of(&calm, &mut world)?;
    let params = WorkloadParams { space_max: scenario.space, ..scenario.workload_params() };
    let generator = Generator::new(&scenario.workload, params, scenario.seed);
    let mut generator = generator.ok_or("no workload")?;
    let mut states: BTreeMap<String, ModelFs> = BTreeMap::new();
    let all = many.snapshots + many.branches;
    for nth in 0..all {
        let mut history = History::new(scenario, &model);
        let (journal, rest) = drive(scenario, &world, generator, many.requests, None)?;
        generator = rest;
        history.follow(&journal)?;
        model = history.last().clone();
        if nth % CLEANED_EVERY == 0 {
            let volume = world.volume().clone();
            let cleaning = volume.layout.clean(volume.core(), CLEANED_AT_A_TIME, 0.1);
            world.wait("cleaning", cleaning)?.map_err(|error| error.to_string())?;
        }
        let is_branch = nth * many.branches / all != (nth + 1) * many.branches / all;
        let what = if is_branch { Keep::Branch } else { Keep::Snapshot };
        let name = format!("state {nth}");
        let volume = world.volume().clone();
        let kept = world.wait("a state", volume.layout.keep(volume.core(), &name, what))?;
        kept.map_err(|error| format!("{name}: {error}"))?;
        states.insert(name, model.clone());
    }
    let layout = &world.volume().layout;
    let held_bytes = layout.states(world.volume().core()).held_bytes;
    let mut done = ManyKept {
        states: all,
        held_bytes,
        used_bytes: [layout.space().0, 0],
        cleaned: layout.stats().cleaned_segments,
        ..ManyKept::default()
    };
    for (name, model) in states.iter().step_by(many.one_in) {
        compare(scenario, &world, name, model)?;
        done.trees += 1;
    }
    delete_all(&mut world, &states, &mut done)?;
    let mut history = History::new(scenario, &model);
    history.follow(&super::Journal::default())?;
    expect_last(&history, &mut world, "after deleting all")?;
    let platter = world.close()?;
    let world = World::new(&calm, platter, Timing::Instant, Time(1_000_000 * SECS));
    let (rt, device, options) = (world.rt.clone(), world.device(), CheckOptions { data: false });
    let mut ignore = |_| {};
    let checking = twin_lfs::check::check(&rt, device, &options, &mut ignore);
    let report = world.wait("a check", checking)?.map_err(|error| error.to_string())?;
    match report.is_clean() {
        true => Ok(done),
        false => Err(format!("a check finds: {report}")),
    }
}

/// Compares the tree of a state with that of the model when it was kept.
fn compare(scenario: &Scenario, world: &World, name: &str, model: &ModelFs) -> Result<(), String> {
    let volume = &world.volume().volume;
    let opening = volume.open_state(name, CACHE_BYTES);
    let state = world.wait("a state", opening)?.map_err(|error| format!("{name}: {error}"))?;
    let mut id = 1 << 57;
    let walked = world.wait("walking", twin_model::dump(&state, &mut id))?;
    let tree = walked.map_err(|error| format!("{name}: {error}"))?;
    match History::new(scenario, model).find(&tree, 0) {
        Place::At(_) => Ok(()),
        Place::Wrong(what) => Err(format!("{name}: {what}")),
    }
}

/// Deletes all states in some calls, and cleans.
fn delete_all(
    world: &mut World,
    states: &BTreeMap<String, ModelFs>,
    done: &mut ManyKept,
) -> Result<(), String> {
    let names: Vec<String> = states.keys().cloned().collect();
    let volume = world.volume().clone();
    for names in names.chunks(names.len().div_ceil(7)) {
        let deleting = volume.layout.delete(volume.core(), names);
        world.wait("deleting", deleting)?.map_err(|error| error.to_string())?;
    }
    let cleaning = volume.layout.clean(volume.core(), u64::MAX, 0.05);
    world.wait("cleaning", cleaning)?.map_err(|error| error.to_string())?;
    done.used_bytes[1] = volume.layout.space().0;
    (done.clean_segments, done.segments) =
        volume.layout.with_segments(|table| (table.clean_count(), table.count()));
    match volume.layout.states(volume.core()).held_bytes {
        0 => Ok(()),
        held => Err(format!("all states are deleted, and {held} bytes are held")),
    }
}
