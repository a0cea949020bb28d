//! Clients at work on a disk that fails: errors of reads and writes, no room, a device that
//! vanishes, bits that rot.
//!
//! Contract: no panic and no endless wait; every error is one of the device or of a checksum, or
//! says that the volume takes no more changes; every other reply is right. A write that fails
//! stops all changes, and what was there stays readable. After a restart on a sound disk
//! everything is there that was acknowledged before the fault. With rotten bits the modern
//! profile gives what was written or an error, never anything else.

use twin_fs::{FsError, Name, Op, ROOT_INO};
use twin_lfs::format::Profile;
use twin_model::Dump;
use twin_rt::{Rng, SECS, Time};

use super::drive::{Ack, Journal};
use super::{Failure, History, Place, Scenario, Timing, World, drive, generator, prepare};
use twin_sim::faults::{Fault, FaultKind, FaultPlan, WriteLog};

/// The kinds of faults that are looked at. Writes and flushes that a device merely pretends to do
/// are not among them: no file system can keep its promises on such a device.
const KINDS: [FaultKind; 6] = [
    FaultKind::FailRead,
    FaultKind::FailWrite,
    FaultKind::BadSectors,
    FaultKind::NoSpace,
    FaultKind::Gone,
    FaultKind::BitRot,
];

/// What runs on failing disks came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failed {
    /// Runs.
    pub runs: u64,
    /// Requests that failed for the fault.
    pub errors: u64,
    /// Runs in which the volume stopped taking changes.
    pub stopped: u64,
    /// Runs in which it could not be opened under the fault, or after it.
    pub refused: u64,
    /// Runs in which a restart found all that had been promised.
    pub kept: u64,
}

impl std::ops::AddAssign for Failed {
    fn add_assign(&mut self, other: Failed) {
        self.runs += other.runs;
        self.errors += other.errors;
        self.stopped += other.stopped;
        self.refused += other.refused;
        self.kept += other.kept;
    }
}

/// Runs the scenario on a disk with one to three faults drawn at random.
///
/// # Errors
/// The first broken promise.
pub fn failing(scenario: &Scenario) -> Result<Failed, Failure> {
    run(scenario).map_err(|what| Failure { kind: "faults", scenario: scenario.clone(), what })
}

pub(super) fn is_fault(error: &FsError) -> bool {
    error.is_damage() || *error == FsError::ReadOnly
}

fn run(scenario: &Scenario) -> Result<Failed, String> {
    let (platter, model) = prepare(scenario)?;
    let mut rng = Rng::stream(scenario.seed, "faults");
    let (count, writes) = (rng.range(1, 4) as usize, *rng.pick(&[5, 30, 150]));
    let plan = FaultPlan::random(&mut rng, &KINDS, count, writes, scenario.size);
    let rots = plan.0.iter().any(|(_, fault)| matches!(fault, Fault::BitRot { .. }));
    let mut failed = Failed { runs: 1, ..Failed::default() };
    let log = WriteLog::new();
    let start = Time(SECS);
    let mut world =
        World::build(scenario, platter, Timing::Jitter, start, plan.clone(), Some(&log));
    let mut history = History::new(scenario, &model);
    // Nothing could notice a rotten bit in the classic profile.
    let mut sure = !(rots && scenario.profile == Profile::Classic);
    if let Err(error) = world.try_open()? {
        expect_fault(&error, "opening")?;
        failed.refused = 1;
    } else {
        let generator = generator(scenario)?;
        let (journal, _) = drive(scenario, &world, generator, scenario.ops, None)?;
        let failures = journal
            .order
            .iter()
            .filter(|a| matches!(&a.reply, Some(Err(error)) if is_fault(error)));
        failed.errors += failures.count() as u64;
        sure = sure && follow(&mut history, &journal)?;
        if world.volume().core().poisoned().is_some() {
            failed.stopped = 1;
            stays_stopped(&mut world)?;
        }
        if sure {
            expect_right_or_fault(&history, world.try_dump()?)?;
        }
    }
    let platter = world.disk.power_failure(&mut rng).ok_or("the disk keeps no log")?;
    drop(world);
    let mut world = World::new(scenario, platter, Timing::Instant, Time(100_000 * SECS));
    let tree = match world.try_open()? {
        Ok(_) => world.try_dump()?.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match tree {
        Err(_) if rots => failed.refused = 1,
        Err(what) => return Err(format!("after the faults {plan:?}: {what}")),
        Ok(tree) if sure => {
            // A rotten bit behind the last checkpoint may end the log early.
            let oldest = if rots { 0 } else { history.kept_by_all() };
            match history.find(&tree, oldest) {
                Place::At(n) => failed.kept += u64::from(n >= history.kept_by_all()),
                Place::Wrong(what) => return Err(format!("after the faults {plan:?}: {what}")),
            }
        }
        Ok(_) => {}
    }
    Ok(failed)
}

pub(super) fn expect_fault(error: &FsError, when: &str) -> Result<(), String> {
    if is_fault(error) { Ok(()) } else { Err(format!("{when}: {error}")) }
}

/// Gives the model all that was done. False if a request failed halfway, so that what became of it
/// is not known.
pub(super) fn follow(history: &mut History, journal: &Journal) -> Result<bool, String> {
    let done = |reply: &Option<twin_fs::Result<twin_fs::Reply>>| match reply {
        Some(Err(error)) => !is_fault(error),
        _ => true,
    };
    let halfway = |a: &super::Applied| !done(&a.reply) && a.effect;
    let sure = journal.order.iter().position(halfway);
    // What was done before the first such request is known; what the others saw later, is not.
    let until = sure.unwrap_or(journal.order.len());
    let mut places = vec![0];
    let mut known = Journal::default();
    for applied in &journal.order[..until] {
        if done(&applied.reply) {
            known.order.push(applied.clone());
        }
        places.push(known.order.len());
    }
    let acks = journal.acks.iter().filter(|ack| ack.issued < places.len());
    known.acks = acks.map(|ack| Ack { issued: places[ack.issued], ..*ack }).collect();
    history.follow(&known)?;
    Ok(sure.is_none())
}

/// A volume that a write failed on takes no change, and says so.
fn stays_stopped(world: &mut World) -> Result<(), String> {
    let name = Name::from(&b"after the fault"[..]);
    match world.ask(Op::MakeDir { dir: ROOT_INO, name, mode: 0o755 })? {
        Err(error) if is_fault(&error) => Ok(()),
        other => Err(format!("a change of a volume that stopped: {other:?}")),
    }
}

fn expect_right_or_fault(history: &History, tree: twin_fs::Result<Dump>) -> Result<(), String> {
    match tree {
        Err(error) => expect_fault(&error, "walking"),
        Ok(tree) => match history.find(&tree, history.len() - 1) {
            Place::At(_) => Ok(()),
            Place::Wrong(what) => Err(format!("under the faults: {what}")),
        },
    }
}
