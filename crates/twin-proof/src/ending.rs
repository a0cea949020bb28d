//! Every wait ends: volumes that are full, or on disks that stop taking writes, with many clients
//! at work, and then unmounted.
//!
//! Contract: every request is answered and every unmount ends within [`OP_NS`] and [`CLOSE_NS`] of
//! virtual time, with or without an error, whatever the device does and however full the volume
//! is. As on a mount, what the kernel has collected comes last and all at once ([`BURST`] requests
//! under way), beside a sync. A log then has all that was acknowledged before the disk failed, and
//! a volume whose disk did not fail closes without an error.

use std::rc::Rc;

use twin_fs::{Data, FsError, Ino, Op, Reply, Request};
use twin_model::{Compare, diff};
use twin_rt::{Nanos, Rng, SECS, Time, join_all};

use super::drive::Journal;
use super::failing::{expect_fault, follow, is_fault};
use super::{
    AnyWorld, Failure, History, Place, Scenario, Subject, Timing, drive, generator, prepare_any,
    recount,
};
use twin_sim::Platter;
use twin_sim::faults::{Fault, FaultPlan, Trigger, WriteLog};

/// The longest that a request may take, in virtual time: one of the disk's takes 20 ms at most.
pub const OP_NS: Nanos = 15 * SECS;
/// The longest that an unmount may take: what the kernel writes out, and closing.
pub const CLOSE_NS: Nanos = 30 * SECS;
/// Requests of the kernel that are under way at a time when it writes out what it has collected.
const BURST: usize = 12;
/// Bytes of one of them at the most.
const PIECE: u64 = 64 << 10;

/// What runs came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Runs.
    pub runs: u64,
    /// Requests of clients and of the kernel.
    pub requests: u64,
    /// Of these, refused for want of room.
    pub refusals: u64,
    /// Of these, refused because the disk had failed.
    pub errors: u64,
    /// Runs in which the volume stopped taking changes before it was closed.
    pub stopped: u64,
    /// Runs in which closing said that something is not on the disk.
    pub lossy: u64,
    /// The longest that a request took.
    pub slowest_ns: Nanos,
    /// The longest that an unmount took.
    pub slowest_close_ns: Nanos,
}

impl std::ops::AddAssign for Ended {
    fn add_assign(&mut self, other: Ended) {
        self.runs += other.runs;
        self.requests += other.requests;
        self.refusals += other.refusals;
        self.errors += other.errors;
        self.stopped += other.stopped;
        self.lossy += other.lossy;
        self.slowest_ns = self.slowest_ns.max(other.slowest_ns);
        self.slowest_close_ns = self.slowest_close_ns.max(other.slowest_close_ns);
    }
}

/// Runs the scenario on a disk that may fail, and closes the volume.
///
/// # Errors
/// The first broken promise.
pub fn ending<L: Subject>(scenario: &Scenario) -> Result<Ended, Failure> {
    let kind = if L::MARKS_REPLIES { "ffs-ending" } else { "ending" };
    run::<L>(scenario).map_err(|what| Failure { kind, scenario: scenario.clone(), what })
}

/// What becomes of the disk, by the seed: in a quarter of the runs nothing, and the volume is full.
fn plan(scenario: &Scenario, rng: &mut Rng) -> FaultPlan {
    let at = rng.below(scenario.size) / 4096 * 4096;
    let fault = match scenario.seed % 8 {
        0 | 1 => return FaultPlan::none(),
        2 => Fault::NoSpace,
        3 => Fault::Gone,
        4 => Fault::FailWrites,
        5 => Fault::FailWrite,
        _ => Fault::NoSpaceFrom { at },
    };
    let writes = *rng.pick(&[5, 60, 300]);
    FaultPlan::none().and(Trigger::Write(rng.range(1, writes + 1)), fault)
}

fn run<L: Subject>(scenario: &Scenario) -> Result<Ended, String> {
    let (platter, model) = prepare_any::<L>(scenario)?;
    let mut rng = Rng::stream(scenario.seed, "ending");
    let plan = plan(scenario, &mut rng);
    let sound = plan.0.is_empty();
    let lasts = plan.0.iter().map(|(_, fault)| *fault).find(|fault| lasts(*fault));
    let log = WriteLog::new();
    let mut world =
        AnyWorld::<L>::build(scenario, platter, Timing::Jitter, Time(SECS), plan, Some(&log));
    let mut ended = Ended { runs: 1, ..Ended::default() };
    if let Err(error) = world.try_open()? {
        return if is_fault(&error) { Ok(ended) } else { Err(format!("opening: {error}")) };
    }
    let mut history = History::new(scenario, &model);
    let (journal, _) = drive(scenario, &world, generator(scenario)?, scenario.ops, None)?;
    count(&mut ended, &journal)?;
    // Under the clustered layout other runs judge what the orderings promise.
    let known = !L::MARKS_REPLIES && follow(&mut history, &journal)?;
    // What the kernel writes is not in the model: in half of the runs it has nothing.
    let bursts = rng.chance(0.5);
    let began = world.rt.now();
    if bursts {
        burst(&world, &files_of(&journal), scenario, &mut rng, &mut ended)?;
    }
    ended.stopped = u64::from(world.volume().core().poisoned().is_some());
    let volume = world.volume.take().ok_or("the volume is not open")?;
    let closed = world.wait("closing", volume.close())?;
    ended.slowest_close_ns = world.rt.now() - began;
    if ended.slowest_close_ns > CLOSE_NS {
        return Err(format!("unmounting took {} s", ended.slowest_close_ns / SECS));
    }
    match closed {
        Err(error) if sound => return Err(format!("closing on a sound disk: {error}")),
        Err(error) if !is_fault(&error) => return Err(format!("closing: {error}")),
        closed => ended.lossy = u64::from(closed.is_err()),
    }
    drop(volume);
    let platter = world.disk.power_failure(&mut rng).ok_or("the disk keeps no log")?;
    drop(world);
    let oldest = if ended.lossy > 0 { history.kept_by_all() } else { history.len() - 1 };
    let known = (known && !bursts).then_some((history, oldest));
    let platter = match lasts {
        Some(fault) => restart_on_the_same::<L>(scenario, platter, fault, &mut rng)?,
        None => platter,
    };
    restart::<L>(scenario, platter, known)?;
    Ok(ended)
}

fn count(ended: &mut Ended, journal: &Journal) -> Result<(), String> {
    ended.requests += journal.order.len() as u64;
    for applied in &journal.order {
        match &applied.reply {
            Some(Err(FsError::NoSpace | FsError::NoInodes)) => ended.refusals += 1,
            Some(Err(error)) if is_fault(error) => ended.errors += 1,
            _ => {}
        }
    }
    match &journal.slowest {
        Some((took, op)) => note_time(ended, *took, op),
        None => Ok(()),
    }
}

fn note_time(ended: &mut Ended, took: Nanos, op: &Op) -> Result<(), String> {
    ended.slowest_ns = ended.slowest_ns.max(took);
    if took > OP_NS {
        return Err(format!("{op:?} took {} s", took / SECS));
    }
    Ok(())
}

/// Files that clients made and wrote to.
fn files_of(journal: &Journal) -> Vec<Ino> {
    let mut files: Vec<Ino> = Vec::new();
    for applied in &journal.order {
        if let (Op::Write { ino, .. }, Some(Ok(_))) = (&applied.request.op, &applied.reply) {
            files.push(*ino);
        }
    }
    files.sort_unstable();
    files.dedup();
    files
}

/// The kernel writes out what it has collected, many requests at a time, and somebody syncs.
fn burst<L: Subject>(
    world: &AnyWorld<L>,
    files: &[Ino],
    scenario: &Scenario,
    rng: &mut Rng,
    ended: &mut Ended,
) -> Result<(), String> {
    if files.is_empty() {
        return Ok(());
    }
    let ops = (0..rng.range(1, 200)).map(|nth| {
        let ino = *rng.pick(files);
        let off = rng.below(scenario.space.max(PIECE)) / 4096 * 4096;
        let len = rng.range(1, PIECE + 1);
        match nth % 50 {
            49 => Op::Sync,
            _ => Op::WriteBack { ino, off, data: Data::Synthetic(len) },
        }
    });
    let mut ops: Vec<Op> = ops.chain([Op::Sync]).collect();
    ops.reverse();
    let ops = Rc::new(std::cell::RefCell::new(ops));
    let workers = (0..BURST).map(|worker| {
        let (ops, rt) = (Rc::clone(&ops), world.rt.clone());
        let volume = world.volume().clone();
        world.rt.spawn("kernel", async move {
            let mut done = Vec::new();
            loop {
                let Some(op) = ops.borrow_mut().pop() else { return done };
                let (began, id) = (rt.now(), (1 << 50) + worker as u64);
                let reply: twin_fs::Result<Reply> =
                    volume.execute(Request::root(id, op.clone())).await;
                done.push((rt.now() - began, op, reply.err()));
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    for (took, op, error) in world.wait("the kernel's writes", join_all(workers))?.concat() {
        ended.requests += 1;
        note_time(ended, took, &op)?;
        match error {
            Some(FsError::NoSpace) => ended.refusals += 1,
            Some(error) if is_fault(&error) => ended.errors += 1,
            // A number may be in use again for something else.
            None | Some(FsError::NotFound | FsError::Stale | FsError::Invalid(_)) => {}
            Some(FsError::IsDirectory) => {}
            Some(error) => return Err(format!("{op:?}: {error}")),
        }
    }
    Ok(())
}

/// Faults that are still there after a restart, on a disk that can be read.
fn lasts(fault: Fault) -> bool {
    matches!(fault, Fault::NoSpace | Fault::NoSpaceFrom { .. } | Fault::FailWrites)
}

/// The disk is as it was: recovery succeeds or says so, and breaks off anywhere.
fn restart_on_the_same<L: Subject>(
    scenario: &Scenario,
    platter: Platter,
    fault: Fault,
    rng: &mut Rng,
) -> Result<Platter, String> {
    let (start, log) = (Time(50_000 * SECS), WriteLog::new());
    let plan = FaultPlan::none().and(Trigger::Write(1), fault);
    let mut world =
        AnyWorld::<L>::build(scenario, platter, Timing::Jitter, start, plan, Some(&log));
    if let Err(error) = world.try_open()? {
        expect_fault(&error, "opening on the same disk")?;
    } else if let Some(volume) = world.volume.take()
        && let Err(error) = world.wait("closing", volume.close())?
    {
        expect_fault(&error, "closing on the same disk")?;
    }
    world.disk.power_failure(rng).ok_or("the disk keeps no log".into())
}

/// The disk is sound again: the volume opens, has what was promised, and closes.
fn restart<L: Subject>(
    scenario: &Scenario,
    platter: Platter,
    known: Option<(History, usize)>,
) -> Result<(), String> {
    let start = Time(100_000 * SECS);
    let mut world = AnyWorld::<L>::new(scenario, platter, Timing::Instant, start);
    world.open()?;
    let before = world.dump()?;
    if let Some((history, oldest)) = known
        && let Place::Wrong(what) = history.find(&before, oldest)
    {
        return Err(format!("after closing and opening: {what}"));
    }
    let platter = world.close()?;
    // What was recovered is there after closing too.
    let mut again =
        AnyWorld::<L>::new(scenario, platter.clone(), Timing::Instant, start + 50_000 * SECS);
    again.open()?;
    let names = ["before closing", "after it"];
    if let Some(difference) = diff(&before, &again.dump()?, names, &Compare::default()) {
        return Err(format!("closing what was recovered changed it: {difference}"));
    }
    drop(again);
    if !L::MARKS_REPLIES {
        let (used, counted) = (world.used_bytes, recount(&platter)?.live_bytes);
        if used != counted {
            return Err(format!("{used} bytes are used, {counted} are counted"));
        }
    }
    Ok(())
}
