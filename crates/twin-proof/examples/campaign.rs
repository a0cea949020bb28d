//! Runs scenarios of campaigns: what a failed test printed, or many seeds.
//!
//! ```sh
//! cargo run -p twin-proof --example campaign -- crash seed=7,workload=metadata
//! cargo run -p twin-proof --example campaign -- run 1..500
//! ```
//!
//! The first argument is the kind of run; each further one is a scenario (`key=value` pairs) or a
//! range of seeds, for each of which a scenario is drawn, with fields to set behind it
//! (`1..500,ops=2000`). With `--first` before them the first failure ends it, as it was found: not shrunk.

use twin_ffs::Ffs;
use twin_lfs::Lfs;
use vsfs::Vsfs;

use twin_proof::{Bounds, Depth, Exhaustive, Explored, Failure, Known, Scenario, Subject};

/// Says in words what a run came to.
type Run = fn(&Scenario) -> Result<String, Failure>;

/// A kind of run: its name, the scenario of a seed, and what is done with it.
type Kind = (&'static str, fn(u64) -> Scenario, Run);

/// A restart of a clustered volume is a repair, a check and more: fewer of each run.
const FFS: Depth =
    Depth { most: 300, points: 60, work_every: 20, interrupt_every: 60, ..Depth::DEFAULT };

/// Rounds on one volume, each ended by a failure or by closing.
const REUSE_ROUNDS: u64 = 12;

/// Rounds on one volume, in each of which states are kept, deleted or brought back.
const SNAPSHOT_ROUNDS: u64 = 6;

/// Of the states of a sync that is on its way, every so manieth.
const STATES_STRIDE: usize = 1;

/// The kinds of runs, with what they are drawn by from a seed.
const KINDS: [Kind; 24] = [
    ("show", Scenario::of_kind, |s| Ok(s.to_string())),
    ("run", Scenario::of_kind, |s| {
        twin_proof::run(s).map(|outcome| format!("{} requests", outcome.requests))
    }),
    ("crash", Scenario::of_kind, |s| twin_proof::crash(s, &Depth::default()).map(counted)),
    ("grow", Scenario::growing, |s| twin_proof::crash(s, &Depth::default()).map(counted)),
    ("flush", Scenario::flushing, |s| twin_proof::flush_crash(s, &Depth::default()).map(counted)),
    ("nvram", Scenario::flushing, |s| twin_proof::preserved(s).map(|held| format!("{held:?}"))),
    ("ffs", Scenario::clustered, |s| twin_proof::ffs_crash(s, &FFS).map(counted)),
    ("ffs-images", Scenario::clustered_image, |s| {
        twin_proof::ffs_damage(s, 250).map(|damaged| format!("{damaged:?}"))
    }),
    ("ffs-repair", Scenario::clustered_repair, |s| {
        twin_proof::repair::<Ffs>(s, 50).map(|repaired| format!("{repaired:?}"))
    }),
    ("lfs-repair", Scenario::repair, |s| {
        twin_proof::repair::<Lfs>(s, 50).map(|repaired| format!("{repaired:?}"))
    }),
    ("ffs-reuse", Scenario::reusing, |s| {
        twin_proof::reuse::<Ffs>(s, REUSE_ROUNDS).map(|reused| format!("{reused:?}"))
    }),
    ("lfs-reuse", Scenario::reusing, |s| {
        twin_proof::reuse::<Lfs>(s, REUSE_ROUNDS).map(|reused| format!("{reused:?}"))
    }),
    ("ffs-states", Scenario::crowded, |s| {
        twin_proof::states::<Ffs>(s, STATES_STRIDE).map(|states| format!("{states:?}"))
    }),
    ("lfs-states", crowded_log, |s| {
        twin_proof::states::<Lfs>(s, STATES_STRIDE).map(|states| format!("{states:?}"))
    }),
    ("lfs-exhaustive", Scenario::exhaustive, exhaustive::<Lfs>),
    ("ffs-exhaustive", Scenario::exhaustive, exhaustive::<Ffs>),
    ("vsfs-exhaustive", Scenario::exhaustive, exhaustive::<Vsfs>),
    ("birth", Scenario::draw, |s| twin_proof::crash_birth(s, &Depth::default()).map(counted)),
    ("snapshots", Scenario::snapshots, |s| {
        let depth = Depth { points: 20, ..Depth::default() };
        twin_proof::snapshots(s, SNAPSHOT_ROUNDS, &depth).map(|all| format!("{all:?}"))
    }),
    ("full", Scenario::full, |s| twin_proof::full(s, 20).map(|filled| format!("{filled:?}"))),
    ("faults", Scenario::of_kind, |s| twin_proof::failing(s).map(|failed| format!("{failed:?}"))),
    ("ending", Scenario::ending, |s| {
        twin_proof::ending::<Lfs>(s).map(|ended| format!("{ended:?}"))
    }),
    ("ffs-ending", Scenario::clustered_ending, |s| {
        twin_proof::ending::<Ffs>(s).map(|ended| format!("{ended:?}"))
    }),
    ("images", Scenario::image, |s| {
        twin_proof::damage(s, 200).map(|damaged| format!("{damaged:?}"))
    }),
];

/// The workload of the scenario, or all of length one if it names none.
fn exhaustive<L: Subject>(scenario: &Scenario) -> Result<String, Failure> {
    let fails = |what| Failure { kind: L::EXHAUSTIVE, scenario: scenario.clone(), what };
    let mut campaign = Exhaustive::<L>::new(scenario, &Known::default()).map_err(fails)?;
    if scenario.workload.contains('.') {
        campaign.workload(&scenario.workload)?;
    } else {
        let all = Bounds { length: 1, most: u64::MAX };
        all.workloads().try_for_each(|workload| campaign.workload(&workload))?;
    }
    Ok(campaign.counts().to_string())
}

fn crowded_log(seed: u64) -> Scenario {
    Scenario { size: 6 << 20, ..Scenario::crowded(seed) }
}

fn counted(explored: Explored) -> String {
    format!("{} power failures, {explored:?}", explored.failures)
}

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let kind = args.next().unwrap_or_default();
    let found = KINDS.iter().find(|(name, ..)| *name == kind);
    let Some(&(kind, draw, run)) = found else {
        let names: Vec<&str> = KINDS.iter().map(|(name, ..)| *name).collect();
        return Err(format!("the kinds of runs: {}", names.join(", ")));
    };
    let (mut failed, mut first) = (0, false);
    for arg in args {
        if arg == "--first" {
            first = true;
            continue;
        }
        for scenario in scenarios(&arg, draw)? {
            match twin_proof::guarded(kind, &scenario, run) {
                Ok(words) => println!("seed {}: {words}", scenario.seed),
                Err(failure) if first => {
                    println!("seed {} FAILED: {failure}", scenario.seed);
                    return Err("a run failed".into());
                }
                Err(failure) => {
                    failed += 1;
                    let failure = twin_proof::shrunk(failure, run);
                    println!("seed {} FAILED: {failure}\n", scenario.seed);
                }
            }
        }
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} runs failed")) }
}

/// One scenario from its text, or one for each seed of a range, with some fields set.
fn scenarios(arg: &str, draw: fn(u64) -> Scenario) -> Result<Vec<Scenario>, String> {
    let (range, fields) = arg.split_once(',').unwrap_or((arg, ""));
    let Some((from, to)) = range.split_once("..") else { return Ok(vec![arg.parse()?]) };
    let number = |n: &str| n.parse::<u64>().map_err(|e| format!("{arg:?}: {e}"));
    let mut scenarios: Vec<Scenario> = (number(from)?..number(to)?).map(draw).collect();
    for pair in fields.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or(format!("{pair:?} has no value"))?;
        scenarios.iter_mut().try_for_each(|scenario| scenario.set(key, value))?;
    }
    Ok(scenarios)
}
