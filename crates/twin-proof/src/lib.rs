//! Campaigns against layouts: seeded random operations on a volume over a simulated disk, beside the
//! model that says what is right; then everything that may go wrong with a disk. Nothing that is shipped
//! links this crate.
//!
//! - [`Scenario`]: what a run is, as one line of text; failures print it with the command that
//!   repeats them.
//! - [`World`]: a volume on a disk under virtual time.
//! - [`mod@drive`], [`oracle`]: clients at work, and the model that follows them.
//! - [`recount`]: the volume's accounts, counted anew from its disk.
//! - [`crash`], [`crash_birth`]: power failures, and what a restart makes of them.
//! - [`ffs_crash`]: power failures under the clustered layout, by what its orderings promise
//!   (`promise`); [`ffs_damage`]: damaged images of it, used and repaired.
//! - [`flush_crash`]: power failures under flush policies that write single files or blocks.
//! - [`reuse()`]: clients on a volume so short of space that it is in use again at once, under power
//!   failures, round after round.
//! - [`Exhaustive`]: all workloads of a length over few names, and all that a power failure leaves of each.
//! - [`full`]: a volume filled until there is no room, again and again.
//! - [`failing`]: disks that fail under clients at work.
//! - [`ending`]: every wait ends, on full volumes and failing disks, unmounting included.
//! - [`damage`]: damaged images, opened and used.
//! - [`rot()`]: every block of a small volume rots, and readers, the checker and a scrub find it.
//! - [`scrubbed()`]: scrubs beside clients at work.
//! - [`snapshots()`]: states that are kept, deleted and brought back beside clients at work.
//! - [`passes`], [`seeds`]: how tests go through them, and how a failure is made small.
//! - [`nfs`]: the write contract of the NFS server: clients, network, server and disk, all failing.
//!
//! Start at [`run`]. The example `campaign` runs scenarios from the command line.

mod below;
mod birth;
pub mod bucket;
mod campaign;
mod contents;
mod crash;
mod damage;
pub mod drive;
mod ending;
mod exhaustive;
mod failing;
mod ffs_crash;
mod ffs_damage;
mod flush_crash;
mod full;
mod growing;
mod many_states;
pub mod nfs;
pub mod oracle;
mod promise;
mod recount;
mod repair;
mod restarts;
mod reuse;
mod rot;
mod scenario;
mod scrubbing;
mod snapshots;
mod subject;
mod toy;
mod traces;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use twin_lfs::Lfs;
use twin_model::generate::{Generator, WorkloadParams};
use twin_model::{Dump, ModelFs};
use twin_rt::{EventDigest, Order, SECS, Time};

pub use birth::crash_birth;
pub use campaign::{at_night, passes, seeds, shrunk};
pub use crash::{Depth, Explored, crash};
pub use damage::{Damaged, damage};
pub use drive::{Ack, Applied, Journal, Replied, drive};
pub use ending::{CLOSE_NS, Ended, OP_NS, ending};
pub use exhaustive::{Bounds, Counts, Covered, Exhaustive, Known};
pub use failing::{Failed, failing};
pub use ffs_crash::ffs_crash;
pub use ffs_damage::ffs_damage;
pub use flush_crash::{Preserved, flush_crash, preserved};
pub use full::{Filled, full};
pub use many_states::{Many, ManyKept, many_states};
pub use oracle::{History, Place};
pub use recount::{Recount, recount};
pub use repair::{Repaired, repair};
pub use reuse::{Reused, States, reuse, states};
pub use rot::{Excuse, Fault, RotBounds, Rotted, Rotting, rot};
pub use scenario::Scenario;
pub use scrubbing::{Scrubbed, scrubbed};
pub use snapshots::{Snapshotted, snapshots};
pub use subject::Subject;
pub use traces::{Damaged as DamagedFile, damaged_flight, damaged_trace};
pub use world::{AnyWorld, Timing, World, make};

use twin_sim::Platter;

/// A run that went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The kind of run: a subcommand of the example `campaign`.
    pub kind: &'static str,
    /// What it was.
    pub scenario: Scenario,
    /// What went wrong.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { kind, scenario, what } = self;
        writeln!(f, "{what}")?;
        write!(f, "again: {}", command(kind, scenario))
    }
}

impl std::error::Error for Failure {}

/// Runs something that must not panic.
///
/// # Errors
/// What it failed with, or that it panicked.
pub fn guarded<T>(
    kind: &'static str,
    scenario: &Scenario,
    run: impl FnOnce(&Scenario) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let run = AssertUnwindSafe(|| run(scenario));
    catch_unwind(run).unwrap_or_else(|_| {
        let what = "a panic: see above".into();
        Err(Failure { kind, scenario: scenario.clone(), what })
    })
}

/// The command that repeats a run.
pub fn command(kind: &str, scenario: &Scenario) -> String {
    let features = if scenario.is_planted() { " --features planted-faults" } else { "" };
    format!("cargo run --release -p twin-proof{features} --example campaign -- {kind} {scenario}")
}

/// What a plain run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Of the device's requests.
    pub digest: EventDigest,
    /// Requests executed.
    pub requests: usize,
}

/// Runs the scenario's clients beside the model, compares every reply, closes, opens, and
/// compares the trees.
///
/// # Errors
/// The first difference.
pub fn run(scenario: &Scenario) -> Result<Outcome, Failure> {
    plain(scenario).map_err(|what| Failure { kind: "run", scenario: scenario.clone(), what })
}

/// Where the numbers of the requests that fill a volume begin.
const FILLER: u64 = 1 << 36;

fn generator(scenario: &Scenario) -> Result<Generator, String> {
    Generator::new(&scenario.workload, scenario.workload_params(), scenario.seed)
        .ok_or_else(|| format!("there is no workload {:?}", scenario.workload))
}

/// A new volume, filled as the scenario wants it and closed, and its model.
fn prepare(scenario: &Scenario) -> Result<(Platter, ModelFs), String> {
    prepare_any::<Lfs>(scenario)
}

/// The same for any layout.
fn prepare_any<L: Subject>(scenario: &Scenario) -> Result<(Platter, ModelFs), String> {
    let platter = make::<L>(scenario)?;
    let calm = Scenario { clients: 1, order: Order::Fifo, trace: false, ..scenario.clone() };
    let mut world = AnyWorld::<L>::new(&calm, platter, Timing::Instant, Time(SECS / 2));
    world.open()?;
    let model = oracle::model_of(&calm, &mut world)?;
    let mut history = History::new(&calm, &model);
    let params = WorkloadParams {
        space_max: u64::MAX,
        file_size_max: scenario.size / 50,
        ..calm.workload_params()
    };
    let filler = Generator::new("fill", params, scenario.seed);
    let mut filler = filler.ok_or("there is no workload \"fill\"")?;
    filler.set_next_id(FILLER);
    loop {
        let (used, limit) = world.volume().layout.used();
        if used * 100 >= limit * u64::from(scenario.fill) {
            break;
        }
        let (journal, rest) = drive(&calm, &world, filler, 20, None)?;
        history.follow(&journal)?;
        filler = rest;
    }
    let platter = world.close()?;
    let mut model = history.last().clone();
    // Nobody holds anything any more.
    model.crash();
    Ok((platter, model))
}

fn plain(scenario: &Scenario) -> Result<Outcome, String> {
    let (platter, model) = prepare(scenario)?;
    let mut world = World::new(scenario, platter, Timing::Jitter, Time(SECS));
    world.open()?;
    let mut history = History::new(scenario, &model);
    let (journal, _) = drive(scenario, &world, generator(scenario)?, scenario.ops, None)?;
    history.follow(&journal)?;
    expect_last(&history, &mut world, "before closing")?;
    let digest = world.rt.digest();
    let end = world.rt.now();
    let platter = world.close()?;
    let used = world.used_bytes;
    let counted = recount(&platter).map_err(|what| format!("after closing: {what}"))?;
    if !counted.closed {
        return Err("the volume says that it was not closed".into());
    }
    let mut world = World::new(scenario, platter, Timing::Instant, end);
    let recovered = world.open()?;
    if recovered.log_writes > 0 {
        return Err("a closed volume was recovered".into());
    }
    let counts = [used, world.volume().layout.space().0, counted.live_bytes];
    let tree = expect_last(&history, &mut world, "after closing and opening")?;
    counted.compare(&tree)?;
    if counts != [counted.live_bytes; 3] {
        return Err(format!("after closing, after opening, and counted: {counts:?} bytes"));
    }
    world.close()?;
    Ok(Outcome { digest, requests: journal.order.len() })
}

/// The tree must be that of the last state.
fn expect_last(history: &History, world: &mut World, when: &str) -> Result<Dump, String> {
    let tree = world.dump()?;
    match history.find(&tree, history.len() - 1) {
        Place::At(_) => Ok(tree),
        Place::Wrong(what) => {
            let more = oracle::explain(history.last(), &tree, world).unwrap_or_default();
            Err(format!("{when}: {what}; {more}"))
        }
    }
}
