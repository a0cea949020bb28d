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

/// The words of an error of files, for scenarios that stop with them.
fn text(error: std::io::Error) -> String {
    error.to_string()
}

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
    /// Make volumes in this bucket instead of image files, `s3://BUCKET`.
    pub(crate) bucket: Option<String>,
    /// Keep images and logs.
    pub(crate) keep: bool,
    pub(crate) seed: u64,
    /// A program to test instead of the one that is built.
    pub(crate) program: Option<PathBuf>,
    /// Arguments of `mkfs`; empty for the log-structured layout.
    pub(crate) mkfs: Vec<String>,
}

/// Parses options and names of scenarios; with `full` for the full sizes.
pub(crate) fn parse(words: &[String], full: bool) -> Result<Options, String> {
    let mut options = Options { seed: 1, full, ..Options::default() };
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word {
            "--keep" => options.keep = true,
            "--loop" => options.on_loop = true,
            "--bucket" => options.bucket = Some(value()?.trim_end_matches('/').into()),
            "--seed" => {
                let text = value()?;
                let seed = text.parse();
                options.seed = seed.map_err(|_| format!("--seed {text}: must be a number"))?;
            }
            "--program" => {
                let path = std::path::absolute(value()?);
                options.program = Some(path.map_err(|error| format!("--program: {error}"))?);
            }
            "--mkfs" => {
                options.mkfs = value()?.split_whitespace().map(String::from).collect();
            }
            name if !name.starts_with('-') => options.names.push(name.into()),
            other => return Err(format!("{other}: is not understood")),
        }
    }
    Ok(options)
}

/// Number of concurrent scenarios: most wait for a device half of the time.
const AT_A_TIME: usize = 2;

/// The names of the scenarios that run alone: they hold a mount's figures against a simulation of the
/// machine as it is.
const ALONE: [&str; 2] = ["aged", "cleaning"];

/// The scenarios of the night, and why they are not for every change: whether they pass depends on how
/// fast the machine is meanwhile, or they are long.
const NIGHT: [(&str, &str); 23] = [
    ("aged", "holds times against simulated ones, alone on the machine"),
    ("cleaning", "holds times against simulated ones, alone on the machine"),
    ("forecast", "holds what was foretold of a time against that time"),
    ("kernel", "holds what the kernel does in its time against a model of it"),
    ("observers", "observes for two seconds work that has to end in them"),
    ("streams", "holds deadlines"),
    ("sync", "holds two seconds, and kills often"),
    ("flush", "holds the most that a policy may lose in a time"),
    ("memory", "fills the memory as fast as the machine can"),
    ("hostile", "fills the host's disk beside a load, and holds the time of unmounting"),
    ("instructions", "counts the instructions of what users get; slow under valgrind"),
    ("signatures", "installs a dozen packages"),
    ("nfs-peers", "compares speeds"),
    ("fuse-nfs", "long"),
    ("pjdfstest", "builds a program first, and is long"),
    ("fsx", "builds a program first, and is long"),
    ("build", "long"),
    ("package", "makes a Debian first"),
    ("bill", "needs a program of its own and a server of objects"),
    ("bucket", "needs a program of its own and a server of objects"),
    ("bucket-coded", "needs a program of its own and a server of objects"),
    ("bucket-follow", "needs a program of its own and a server of objects"),
    ("bucket-local", "needs a program of its own and a server of objects"),
];

/// What holds for a quiet machine holds so many times by day, where others may use the machine too.
const PATIENCE: u32 = 10;

/// Time limit for a scenario to end after it was stopped.
const GRACE: Duration = Duration::from_secs(30);

/// Scenarios with the options that they run with.
pub(crate) struct Part {
    /// What is said of it beside the names of its scenarios, for example `FFS, sync`; may be empty.
    pub(crate) title: String,
    pub(crate) options: Options,
}

/// One run of a scenario.
struct Job<'a> {
    scenario: &'static Scenario,
    part: &'a Part,
    /// The name of its folder, its own within the run.
    folder: String,
}

/// Runs the chosen scenarios.
///
/// # Errors
/// If a name is unknown, or the program cannot be built.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Totals, String> {
    run_parts(root, &[Part { title: String::new(), options: options.clone() }])
}

/// Runs the scenarios of all parts, two at a time and none beside itself; at the end, one at a time, those whose
/// figures a busy machine spoils.
///
/// # Errors
/// As for [`run`].
pub(crate) fn run_parts(root: &Path, parts: &[Part]) -> Result<Totals, String> {
    let (alone, together) =
        jobs(parts)?.into_iter().partition(|job| ALONE.contains(&job.scenario.name));
    let mut totals = perform(root, together, AT_A_TIME)?;
    totals += perform(root, alone, 1)?;
    Ok(totals)
}

fn jobs(parts: &[Part]) -> Result<Vec<Job<'_>>, String> {
    let mut jobs = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        for scenario in choose(&part.options)? {
            jobs.push(Job { scenario, part, folder: format!("{}-{number}", scenario.name) });
        }
    }
    Ok(jobs)
}

/// Runs jobs, `at_a_time` at once. They agree about the program and about what is kept.
fn perform(root: &Path, jobs: Vec<Job<'_>>, at_a_time: usize) -> Result<Totals, String> {
    let Some(options) = jobs.first().map(|job| &job.part.options) else {
        return Ok(Totals::default());
    };
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build(root)?,
    };
    let janitor = Janitor::start(options.keep)?;
    let program = tools::place_program(&program, janitor.dir())?;
    let (seed, dir, hash) = (options.seed, janitor.dir().display(), tools::sha256(&program)?);
    println!("e2e: seed {seed}, in {dir}, a program with SHA-256 {hash}");
    let results = Mutex::new(Totals::default());
    let turns = Arc::default();
    let queue = Mutex::new(Queue { waiting: longest_first(jobs), running: Vec::new() });
    let work = || {
        while let Some(job) = queue.lock().ok().and_then(|mut queue| queue.take()) {
            let totals = one(&job, &janitor, &program, root, &turns);
            if let (Ok(mut results), Ok(mut queue)) = (results.lock(), queue.lock()) {
                *results += totals;
                queue.running.retain(|name| *name != job.scenario.name);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..at_a_time {
            scope.spawn(work);
        }
        work();
    });
    results.into_inner().map_err(|_| "a scenario's thread panicked".into())
}

/// The jobs that are to be done. A scenario does not run beside itself, on whatever layout: some use a
/// name that is one on the whole machine.
struct Queue<'a> {
    waiting: VecDeque<Job<'a>>,
    running: Vec<&'static str>,
}

impl<'a> Queue<'a> {
    /// The next job; `None` if there is none that may begin now. What is left then are jobs of scenarios
    /// that run now, and who runs them takes these too.
    fn take(&mut self) -> Option<Job<'a>> {
        let free = |job: &Job<'_>| !self.running.contains(&job.scenario.name);
        let job = self.waiting.iter().position(free).and_then(|at| self.waiting.remove(at))?;
        self.running.push(job.scenario.name);
        Some(job)
    }
}

/// The longest scenarios first, so that no long one runs alone at the end.
fn longest_first(mut jobs: Vec<Job<'_>>) -> VecDeque<Job<'_>> {
    jobs.sort_by_key(|job| Reverse(job.scenario.limit_s));
    jobs.into()
}

/// Runs a scenario, prints its result, and cleans up after it.
fn one(
    job: &Job<'_>,
    janitor: &Janitor,
    program: &Path,
    root: &Path,
    turns: &Arc<turns::Turns>,
) -> Totals {
    let Job { scenario, part, folder } = job;
    let name = match part.title.as_str() {
        "" => scenario.name.to_string(),
        title => format!("{} ({title})", scenario.name),
    };
    let options = &part.options;
    let dir = janitor.dir().join(folder);
    let watch = Stopwatch::start();
    let outcome = match std::fs::create_dir_all(&dir) {
        Ok(()) => {
            let mut bench = Bench::new(dir, program.into(), root, options);
            bench.turns = Arc::clone(turns);
            supervise(scenario, bench, options.full)
        }
        Err(error) => Err(Stop::Failed(format!("{}: {error}", dir.display()))),
    };
    janitor.clean(folder);
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

/// The scenarios that were named, or all; by day all that are not for the night.
fn choose(Options { names, full, .. }: &Options) -> Result<Vec<&'static Scenario>, String> {
    if names.is_empty() {
        let for_night = |name| NIGHT.iter().any(|(night, _)| *night == name);
        return Ok(SCENARIOS.iter().filter(|one| *full || !for_night(one.name)).collect());
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
    let limit_s = if full { scenario.limit_s.1 } else { scenario.limit_s.0 * u64::from(PATIENCE) };
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

/// Builds the program with the command of the README, so that what is tested is what users get: the same
/// command builds the same bytes, whose hash the run prints.
///
/// # Errors
/// If it does not build.
pub(crate) fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--release", "--locked"]).current_dir(root);
    let status = command.status().map_err(|error| format!("cargo: {error}"))?;
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
    fn what_runs_alone_or_by_night_exists() {
        let exists = |name| SCENARIOS.iter().any(|scenario| scenario.name == name);
        assert!(ALONE.into_iter().chain(NIGHT.map(|(name, _)| name)).all(exists));
        let reasons = NIGHT.iter().map(|(_, reason)| reason);
        assert!(
            reasons.clone().count() < SCENARIOS.len() && reasons.clone().all(|r| !r.is_empty())
        );
    }

    #[test]
    fn by_day_the_scenarios_of_the_night_run_only_if_they_are_named() {
        let names = |options: &Options| -> Vec<&str> {
            choose(options).unwrap().iter().map(|scenario| scenario.name).collect()
        };
        assert!(!names(&Options::default()).contains(&"cleaning"));
        assert_eq!(names(&Options { full: true, ..Options::default() }).len(), SCENARIOS.len());
        let named = Options { names: vec!["cleaning".into()], ..Options::default() };
        assert_eq!(names(&named), ["cleaning"]);
    }

    #[test]
    fn a_scenario_does_not_run_beside_itself() {
        let options = |name: &str| Options { names: vec![name.into()], ..Options::default() };
        let part = |name| Part { title: String::new(), options: options(name) };
        let parts = [part("git"), part("git"), part("sqlite")];
        let mut queue = Queue { waiting: jobs(&parts).unwrap().into(), running: Vec::new() };
        let mut next = || queue.take().map(|job| job.folder);
        assert_eq!(next().as_deref(), Some("git-0"));
        assert_eq!(next().as_deref(), Some("sqlite-2"));
        assert_eq!(next(), None);
        queue.running.clear();
        assert_eq!(queue.take().unwrap().folder, "git-1");
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
        let Err(Stop::Failed(why)) = supervise(&HANG, bench(), true) else { panic!("it passed") };
        assert!(why.contains("no end within 1 s") && why.contains("sleep"), "{why}");
        assert!(watch.seconds() < 100.0);
    }

    #[test]
    fn what_panics_fails() {
        static PANIC: Scenario = Scenario { name: "panic", about: "", limit_s: (9, 9), run: panic };
        assert_eq!(supervise(&PANIC, bench(), false), Err(Stop::Failed("it panicked".into())));
    }

    #[test]
    fn unknown_names_are_told_with_the_known_ones() {
        let options = Options { names: vec!["nothing".into()], ..Options::default() };
        let error = choose(&options).err().unwrap();
        assert!(error.contains("kill9"), "{error}");
    }
}
