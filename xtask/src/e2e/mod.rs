//! `cargo xtask e2e`: the program `twinfs` as its users run it, mounted, under real work.
//!
//! A scenario is one file in `scenarios/` and one line in [`SCENARIOS`]. It runs in its own folder,
//! on its own thread, with a time limit: when the limit has passed, its commands and its daemons
//! are killed by process number, which ends every call that waits for them. Two scenarios run at a
//! time. No mount is left behind: see [`janitor`].

mod bench;
mod daemon;
pub(crate) mod janitor;
mod manifest;
mod nfs_client;
mod rng;
mod scenarios;
mod stamped;
pub(crate) mod tools;
mod turns;
mod volume;
mod writer;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bench::Bench;
use janitor::Janitor;
pub(crate) use scenarios::SCENARIOS;

use crate::clock::Stopwatch;
use crate::totals::Totals;

/// Why a scenario did not pass.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It failed with this error.
    Failed(String),
    /// It was skipped for want of this requirement.
    Skipped(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Stop {
        Stop::Failed(why)
    }
}

/// The result of a scenario: figures for its line of output.
pub(crate) type Outcome = Result<String, Stop>;

/// One scenario of the suite.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Its time limit in seconds: in the short form and in the full one.
    limit_s: (u64, u64),
    run: fn(&Bench) -> Outcome,
}

/// The options of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Names of scenarios; empty for all.
    pub(crate) names: Vec<String>,
    /// Use the full sizes, for which the project states its results.
    pub(crate) full: bool,
    /// Make volumes on loop devices instead of image files (root only).
    pub(crate) on_loop: bool,
    /// Keep images and logs.
    pub(crate) keep: bool,
    pub(crate) seed: u64,
    /// A program to test instead of the one that is built.
    pub(crate) program: Option<PathBuf>,
    /// Arguments of `mkfs`; empty for the log-structured layout.
    pub(crate) mkfs: Vec<String>,
}

/// Number of concurrent scenarios: most wait for a device half of the time.
const AT_A_TIME: usize = 2;

/// The names of the scenarios that run alone: they hold a mount's figures against a simulation of the
/// machine as it is.
const ALONE: [&str; 1] = ["cleaning"];

/// Time limit for a scenario to end after it was stopped.
const GRACE: Duration = Duration::from_secs(30);

/// Runs the chosen scenarios, two at a time; at the end, one at a time, those whose figures a busy machine
/// spoils.
///
/// # Errors
/// If a name is unknown, or the program cannot be built.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Totals, String> {
    let chosen = choose(&options.names)?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build(root)?,
    };
    let janitor = Janitor::start(options.keep)?;
    let program = tools::place_program(&program, janitor.dir())?;
    println!("e2e: seed {}, in {}", options.seed, janitor.dir().display());
    let results = Mutex::new(Totals::default());
    let (alone, others): (Vec<_>, Vec<_>) =
        chosen.into_iter().partition(|scenario| ALONE.contains(&scenario.name));
    let turns = Arc::default();
    let work = |queue: &Mutex<VecDeque<&'static Scenario>>| {
        while let Some(scenario) = queue.lock().ok().and_then(|mut queue| queue.pop_front()) {
            let totals = one(scenario, &janitor, &program, root, options, &turns);
            if let Ok(mut results) = results.lock() {
                *results += totals;
            }
        }
    };
    let queue = Mutex::new(longest_first(others));
    thread::scope(|scope| {
        for _ in 1..AT_A_TIME {
            scope.spawn(|| work(&queue));
        }
        work(&queue);
    });
    work(&Mutex::new(longest_first(alone)));
    results.into_inner().map_err(|_| "a scenario's thread panicked".into())
}

/// The longest scenarios first, so that no long one runs alone at the end.
fn longest_first(mut chosen: Vec<&'static Scenario>) -> VecDeque<&'static Scenario> {
    chosen.sort_by_key(|scenario| Reverse(scenario.limit_s));
    chosen.into()
}

/// Runs a scenario, prints its result, and cleans up after it.
fn one(
    scenario: &'static Scenario,
    janitor: &Janitor,
    program: &Path,
    root: &Path,
    options: &Options,
    turns: &Arc<turns::Turns>,
) -> Totals {
    let name = scenario.name;
    let dir = janitor.dir().join(name);
    let watch = Stopwatch::start();
    let outcome = match std::fs::create_dir_all(&dir) {
        Ok(()) => {
            let mut bench = Bench::new(dir, program.into(), root, options);
            bench.turns = Arc::clone(turns);
            supervise(scenario, bench, options.full)
        }
        Err(error) => Err(Stop::Failed(format!("{}: {error}", dir.display()))),
    };
    janitor.clean(name);
    let took = watch.seconds();
    match outcome {
        Ok(figures) => {
            println!("e2e: {name}: ok, {took:.0} s: {figures}");
            Totals::one(true)
        }
        Err(Stop::Skipped(why)) => {
            println!("e2e: {name}: skipped: {why}");
            Totals { skipped: 1, ..Totals::default() }
        }
        Err(Stop::Failed(why)) => {
            println!("e2e: {name}: FAILED after {took:.0} s: {why}");
            Totals::one(false)
        }
    }
}

fn choose(names: &[String]) -> Result<Vec<&'static Scenario>, String> {
    if names.is_empty() {
        return Ok(SCENARIOS.iter().collect());
    }
    let known = || SCENARIOS.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
    let find = |name: &String| {
        let scenario = SCENARIOS.iter().find(|scenario| scenario.name == *name);
        scenario.ok_or_else(|| format!("no scenario is called {name:?}; there are {}", known()))
    };
    names.iter().map(find).collect()
}

/// Runs a scenario on a thread of its own and stops it when its time has passed.
fn supervise(scenario: &'static Scenario, bench: Bench, full: bool) -> Outcome {
    let limit_s = if full { scenario.limit_s.1 } else { scenario.limit_s.0 };
    let bench = Arc::new(bench);
    let (done, wait) = mpsc::channel();
    let theirs = Arc::clone(&bench);
    let work = move || {
        // After the second time limit the receiver is gone.
        let _ = done.send((scenario.run)(&theirs));
    };
    if let Err(error) = thread::Builder::new().name(scenario.name.into()).spawn(work) {
        return Err(Stop::Failed(format!("no thread: {error}")));
    }
    let late = match wait.recv_timeout(Duration::from_secs(limit_s)) {
        Ok(outcome) => return outcome,
        Err(RecvTimeoutError::Disconnected) => return Err(Stop::Failed("it panicked".into())),
        Err(RecvTimeoutError::Timeout) => format!("no end within {limit_s} s"),
    };
    bench.end_everything();
    let last = match wait.recv_timeout(GRACE) {
        Ok(Err(Stop::Failed(why))) => format!("{late}; it was at: {why}"),
        Ok(_) => late,
        Err(_) => format!("{late}, and not after its daemon was killed"),
    };
    Err(Stop::Failed(last))
}

/// Builds the program as users do.
///
/// # Errors
/// If it does not build.
pub(crate) fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--release", "--locked", "--package", "twinfs"]);
    let status = command.current_dir(root).status().map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err("twinfs does not build".into());
    }
    Ok(tools::target_dir(root).join("release/twinfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench() -> Bench {
        let dir = std::env::temp_dir().join(format!("xtask-test-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Bench::new(dir, "/bin/false".into(), Path::new("."), &Options::default())
    }

    #[test]
    fn what_runs_alone_exists() {
        let exists = |name| SCENARIOS.iter().any(|scenario| scenario.name == name);
        assert!(ALONE.into_iter().all(exists));
    }

    fn hang(bench: &Bench) -> Outcome {
        bench.run(Command::new("sleep").arg("100"))?;
        Ok(String::new())
    }

    fn panic(_: &Bench) -> Outcome {
        panic!("on purpose")
    }

    #[test]
    fn what_hangs_is_ended_and_fails() {
        static HANG: Scenario = Scenario { name: "hang", about: "", limit_s: (1, 1), run: hang };
        let watch = Stopwatch::start();
        let Err(Stop::Failed(why)) = supervise(&HANG, bench(), false) else { panic!("it passed") };
        assert!(why.contains("no end within 1 s") && why.contains("sleep"), "{why}");
        assert!(watch.seconds() < 20.0);
    }

    #[test]
    fn what_panics_fails() {
        static PANIC: Scenario = Scenario { name: "panic", about: "", limit_s: (9, 9), run: panic };
        assert_eq!(supervise(&PANIC, bench(), false), Err(Stop::Failed("it panicked".into())));
    }

    #[test]
    fn unknown_names_are_told_with_the_known_ones() {
        let error = choose(&["nothing".into()]).err().unwrap();
        assert!(error.contains("kill9"), "{error}");
        assert_eq!(choose(&[]).unwrap().len(), SCENARIOS.len());
    }
}
