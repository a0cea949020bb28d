//! Damaged images of clustered volumes: checked, opened, used, repaired.
//!
//! Contract: nothing panics and everything ends. A damaged volume is refused with an error, or
//! gives errors on the way, or works. A repair refuses it, or leaves a volume that its checker
//! finds clean and that can be walked.

use twin_ffs::{Ffs, check};
use twin_rt::{Rng, SECS, Time};

use super::damage::{damaged_copy, used_sectors};
use super::drive::drive;
use super::{AnyWorld, Damaged, Failure, Scenario, Timing, prepare_any};
use twin_model::generate::Generator;
use twin_sim::Platter;
use twin_sim::faults::{FaultPlan, WriteLog};

/// Runs the scenario on a clustered volume, damages what it left so many times, and uses and
/// repairs each result. In the figures, `walked` are those that a repair made clean.
///
/// # Errors
/// The first broken promise.
pub fn ffs_damage(scenario: &Scenario, images: u64) -> Result<Damaged, Failure> {
    let damaged = run(scenario, images);
    damaged.map_err(|what| Failure { kind: "ffs-images", scenario: scenario.clone(), what })
}

fn run(scenario: &Scenario, images: u64) -> Result<Damaged, String> {
    let mut rng = Rng::stream(scenario.seed, "damage");
    let good = leave(scenario, &mut rng)?;
    let used = used_sectors(&good);
    let mut damaged = Damaged::default();
    for image in 0..images {
        let bad = damaged_copy(&good, &used, &mut rng);
        damaged.images += 1;
        use_it(scenario, bad.clone(), image, &mut damaged)
            .and_then(|()| repair_it(scenario, bad, image, &mut damaged))
            .map_err(|what| format!("image {image}: {what}"))?;
    }
    Ok(damaged)
}

/// A volume with work on it: closed, or (odd seeds) cut off.
fn leave(scenario: &Scenario, rng: &mut Rng) -> Result<Platter, String> {
    let (platter, _) = prepare_any::<Ffs>(scenario)?;
    let (log, plan, timing) = (WriteLog::new(), FaultPlan::none(), Timing::Jitter);
    let mut world = AnyWorld::<Ffs>::build(scenario, platter, timing, Time(SECS), plan, Some(&log));
    world.open()?;
    drive(scenario, &world, super::generator(scenario)?, scenario.ops, None)?;
    match scenario.seed % 2 {
        0 => world.close(),
        _ => world.disk.power_failure(rng).ok_or("the disk keeps no log".into()),
    }
}

fn world(scenario: &Scenario, platter: Platter, image: u64) -> AnyWorld<Ffs> {
    let start = Time(100_000 * SECS + image);
    AnyWorld::new(scenario, platter, Timing::Instant, start)
}

/// Opened, walked and worked on, whatever comes of it: it must end.
fn use_it(
    scenario: &Scenario,
    bad: Platter,
    image: u64,
    damaged: &mut Damaged,
) -> Result<(), String> {
    let mut world = world(scenario, bad, image);
    if world.try_open()?.is_err() {
        damaged.refused += 1;
        return Ok(());
    }
    damaged.noticed += u64::from(world.try_dump()?.is_err());
    let params = twin_model::generate::WorkloadParams { clients: 1, ..scenario.workload_params() };
    let generator =
        Generator::new("mixed", params, image).ok_or("there is no workload \"mixed\"")?;
    let alone = Scenario { clients: 1, think_ns: 0, trace: false, ..scenario.clone() };
    drive(&alone, &world, generator, 12, None)?;
    let volume = world.volume.take();
    if let Some(volume) = volume {
        let _ = world.wait("closing", twin_fs::Volume::close(&volume))?;
    }
    Ok(())
}

/// A repair that succeeds leaves a clean volume, which can be opened and walked.
fn repair_it(
    scenario: &Scenario,
    bad: Platter,
    image: u64,
    damaged: &mut Damaged,
) -> Result<(), String> {
    let first = world(scenario, bad, image);
    let mut nobody = |_| {};
    let repair = check::repair(&first.rt, first.device(), &mut nobody);
    let repaired = first.wait("repairing", repair)?;
    let platter = first.disk.platter();
    if repaired.is_err() {
        return Ok(());
    }
    let mut second = world(scenario, platter, image + 1);
    let report = second.wait("checking", check::check(second.device(), &mut |_| {}))?;
    let report = report.map_err(|error| format!("checking what was repaired: {error}"))?;
    if !report.is_clean() {
        return Err(format!("after the repair: {report}"));
    }
    second.open().map_err(|what| format!("after the repair: {what}"))?;
    second.dump().map_err(|what| format!("after the repair: {what}"))?;
    damaged.walked += 1;
    Ok(())
}
