//! Damaged images on the way that a user takes: open, walk everything, work, close.
//!
//! Contract: a damaged volume opens or is refused with an error of its own; no panic, no endless
//! wait, no request past the device. In the modern profile a tree that can be walked without an
//! error is one that the volume had.

use twin_disk::{Block, Bytes};
use twin_lfs::format::Profile;
use twin_model::generate::Generator;
use twin_rt::{Rng, SECS, Time};

use super::{Failure, History, Place, Scenario, Timing, World, drive, generator, prepare};
use twin_sim::Platter;
use twin_sim::faults::{FaultPlan, WriteLog};

/// What became of damaged images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damaged {
    /// Images.
    pub images: u64,
    /// Not opened.
    pub refused: u64,
    /// Opened, with an error on the way through the tree.
    pub noticed: u64,
    /// Walked without an error.
    pub walked: u64,
}

impl std::ops::AddAssign for Damaged {
    fn add_assign(&mut self, other: Damaged) {
        self.images += other.images;
        self.refused += other.refused;
        self.noticed += other.noticed;
        self.walked += other.walked;
    }
}

pub(super) const SECTOR: u64 = 512;

/// Runs the scenario, damages what it left so many times, and uses each result.
///
/// # Errors
/// The first broken promise.
pub fn damage(scenario: &Scenario, images: u64) -> Result<Damaged, Failure> {
    run(scenario, images).map_err(|what| Failure {
        kind: "images",
        scenario: scenario.clone(),
        what,
    })
}

fn run(scenario: &Scenario, images: u64) -> Result<Damaged, String> {
    let mut rng = Rng::stream(scenario.seed, "damage");
    let (good, history) = leave(scenario, &mut rng)?;
    let used = used_sectors(&good);
    let mut damaged = Damaged::default();
    for image in 0..images {
        let bad = damaged_copy(&good, &used, &mut rng);
        damaged.images += 1;
        use_it(scenario, bad, &history, image, &mut damaged)
            .map_err(|what| format!("image {image}: {what}"))?;
    }
    Ok(damaged)
}

/// A volume with work on it: closed, or (odd seeds) cut off.
fn leave(scenario: &Scenario, rng: &mut Rng) -> Result<(Platter, History), String> {
    let (platter, model) = prepare(scenario)?;
    let (log, plan) = (WriteLog::new(), FaultPlan::none());
    let mut world = World::build(scenario, platter, Timing::Jitter, Time(SECS), plan, Some(&log));
    world.open()?;
    let mut history = History::new(scenario, &model);
    let (journal, _) = drive(scenario, &world, generator(scenario)?, scenario.ops, None)?;
    history.follow(&journal)?;
    let platter = match scenario.seed % 2 {
        0 => world.close()?,
        _ => world.disk.power_failure(rng).ok_or("the disk keeps no log")?,
    };
    Ok((platter, history))
}

/// The sectors that hold anything.
pub(super) fn used_sectors(platter: &Platter) -> Vec<u64> {
    let is_used =
        |sector: &u64| !matches!(platter.read(sector * SECTOR, SECTOR)[..], [Block::Zero(_)]);
    (0..platter.size() / SECTOR).filter(is_used).collect()
}

/// A platter with one to three sectors changed.
pub(super) fn damaged_copy(good: &Platter, used: &[u64], rng: &mut Rng) -> Platter {
    let mut bad = good.clone();
    for _ in 0..rng.range(1, 4) {
        mutate(&mut bad, used, rng);
    }
    bad
}

/// Changes one sector, mostly one that is used: a bit, a byte, all of it, or another's in its
/// place. Gives its number.
pub(super) fn mutate(bad: &mut Platter, used: &[u64], rng: &mut Rng) -> u64 {
    let place = |rng: &mut Rng| match rng.chance(0.9) {
        true => *rng.pick(used),
        false => rng.below(used.len() as u64),
    };
    let at = place(rng) * SECTOR;
    let mut raw = bad.read_bytes(at, SECTOR);
    let byte = rng.below(SECTOR) as usize;
    match rng.below(8) {
        0..=2 => raw[byte] ^= 1 << rng.below(8),
        3 => raw[byte] = *rng.pick(&[0, 0x7f, 0xff, 1]),
        4 => raw[byte..].iter_mut().take(8).for_each(|byte| *byte = 0xff),
        5 => raw.fill(0),
        6 => raw.fill_with(|| rng.next_u64() as u8),
        _ => raw = bad.read_bytes(place(rng) * SECTOR, SECTOR),
    }
    bad.write(at, &[Block::Bytes(Bytes::copy_of(&raw))]);
    at / SECTOR
}

fn use_it(
    scenario: &Scenario,
    bad: Platter,
    history: &History,
    image: u64,
    damaged: &mut Damaged,
) -> Result<(), String> {
    let mut world = World::new(scenario, bad, Timing::Instant, Time(100_000 * SECS + image));
    if world.try_open()?.is_err() {
        damaged.refused += 1;
        return Ok(());
    }
    match world.try_dump()? {
        Err(_) => damaged.noticed += 1,
        Ok(tree) => {
            damaged.walked += 1;
            if let (Profile::Modern, Place::Wrong(what)) =
                (scenario.profile, history.find(&tree, 0))
            {
                return Err(format!("damage that nobody noticed: {what}"));
            }
        }
    }
    // Whatever comes of it: it must end.
    let params = twin_model::generate::WorkloadParams { clients: 1, ..scenario.workload_params() };
    let generator =
        Generator::new("mixed", params, image).ok_or("there is no workload \"mixed\"")?;
    let alone = Scenario { clients: 1, think_ns: 0, trace: false, ..scenario.clone() };
    drive(&alone, &world, generator, 12, None)?;
    let volume = world.volume.take();
    if let Some(volume) = volume {
        let _ = world.wait("closing", volume.close())?;
    }
    Ok(())
}
