//! `cargo xtask test`: what a change must pass, and one line with the result of each step.
//!
//! Contract: the tests and the lints come from one build with one profile (`quick`) and one set of features;
//! clippy is the compiler of it, so that a lint is an error of the build ([`linted`]). The end-to-end scenarios
//! run what users get, the program of `cargo build --release`. The campaigns run at their full length by night
//! ([`crate::nightly`]), and so is the documentation of the code built.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::Pid;

pub(crate) use crate::cargo::cargo;
use crate::clock::Stopwatch;
use crate::totals::Totals;
use crate::{e2e, processes, tidy, tree};

/// Time limit for the tests of all crates, compiling included. They normally take a tenth of it.
const LIMIT: Duration = Duration::from_secs(60 * 60);
/// The same by night.
const NIGHT_LIMIT: Duration = Duration::from_secs(4 * 60 * 60);

/// The profile of everything that is compiled by day.
const PROFILE: &str = "quick";

/// The variable that makes campaigns go through all of their seeds.
const NIGHT: &str = "TWINFS_NIGHT";

/// The fault campaign: a build of its own, since no other may have faults in it.
const PLANTED: [&str; 9] = [
    "test",
    "--release",
    "--locked",
    "--package",
    "twin-proof",
    "--features",
    "planted-faults",
    "--test=all",
    "planted::",
];

/// Scenarios on the clustered layout: title, metadata ordering, scenarios. Scenarios that
/// depend on the ordering run with each ordering; the others run once.
const CLUSTERED: [(&str, &str, &[&str]); 3] = [
    ("FFS", "journal", &["git", "sqlite", "flight", "user", "kill9", "rewrite"]),
    ("FFS, sync", "sync", &["sqlite", "kill9", "rewrite"]),
    ("FFS, async", "async", &["sqlite", "rewrite"]),
];

/// Scenarios for every other layout that is registered.
const ANY_LAYOUT: &[&str] = &["git", "sqlite", "flight", "user"];

/// Scenarios that run with every layout and ordering by night, besides.
const BY_NIGHT: &[&str] = &["fsx", "pjdfstest", "build"];

fn of_layout(options: &e2e::Options, title: &str, words: &[&str], names: &[&str]) -> e2e::Part {
    let [names, mkfs] = [names, words].map(|all| all.iter().map(|&s| s.into()).collect());
    e2e::Part { title: title.into(), options: e2e::Options { names, mkfs, ..options.clone() } }
}

/// The layouts besides the two that have steps of their own. A layout's name is that of its crate
/// without the prefix `twin-`.
fn other_layouts(root: &Path) -> Result<Vec<String>, String> {
    let layouts = tidy::layouts(&tree::Project::read(root)?);
    let names = layouts.iter().map(|krate| krate.strip_prefix("twin-").unwrap_or(krate));
    Ok(names.filter(|name| !matches!(*name, "lfs" | "ffs")).map(String::from).collect())
}

/// The result of one step.
struct Done {
    name: &'static str,
    totals: Totals,
    seconds: f64,
}

/// Runs everything, prints a summary, and returns the totals.
pub(crate) fn run(root: &Path, options: &e2e::Options) -> Totals {
    let mut done = vec![
        step("tidy", || tree::Project::read(root).map(|project| tidy::run(&project))),
        step("format", || passes(cargo(root, &["fmt", "--all", "--check"]))),
        step("unit and integration tests", || {
            let test = ["test", "--profile", PROFILE, "--workspace", "--locked", "--no-fail-fast"];
            counted(&mut linted(cargo(root, &test)), LIMIT, |line| println!("{line}"))
        }),
    ];
    let program = options.program.clone().map_or_else(|| e2e::build(root), Ok);
    let parts = program.and_then(|program| {
        parts(root, &e2e::Options { program: Some(program), ..options.clone() })
    });
    done.push(step("end to end", || e2e::run_parts(root, parts.as_ref()?)));
    println!("\n==== summary");
    let mut all = Totals::default();
    for Done { name, totals, seconds } in &done {
        println!("{name:<28} {totals}, {seconds:.0} s");
        all += *totals;
    }
    all
}

/// The scenarios, on the requested layout and, unless another volume was requested, on the other
/// layouts.
fn parts(root: &Path, options: &e2e::Options) -> Result<Vec<e2e::Part>, String> {
    let mut parts = vec![e2e::Part { title: String::new(), options: options.clone() }];
    if options.mkfs.is_empty() {
        let night = if options.full { BY_NIGHT } else { &[] };
        for (title, ordering, names) in CLUSTERED {
            let words = ["--layout", "ffs", "--ordering", ordering];
            parts.push(of_layout(options, title, &words, &[names, night].concat()));
        }
        for layout in other_layouts(root)? {
            let words = ["--layout", layout.as_str()];
            parts.push(of_layout(options, &layout, &words, &[ANY_LAYOUT, night].concat()));
        }
    }
    Ok(parts)
}

/// The end-to-end scenarios by night: those that were named, or all, on all layouts.
pub(crate) fn long_scenarios(root: &Path, options: &e2e::Options) -> Result<Totals, String> {
    if !options.names.is_empty() {
        return e2e::run(root, options);
    }
    let program = options.program.clone().map_or_else(|| e2e::build(root), Ok)?;
    let options = e2e::Options { program: Some(program), ..options.clone() };
    e2e::run_parts(root, &parts(root, &options)?)
}

/// Builds the documentation of the code, in which no link is broken. By night, because reading all crates once
/// more takes minutes.
pub(crate) fn docs(root: &Path) -> Result<Totals, String> {
    let mut command =
        cargo(root, &["doc", "--workspace", "--no-deps", "--keep-going", "--locked", "--quiet"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    passes(command)
}

/// The tests of all crates at their full length, on what users get, and those that are only for the night.
pub(crate) fn long_tests(root: &Path) -> Result<Totals, String> {
    // By day what the tests link is linted, which leaves benchmarks out.
    let lints = ["clippy", "--release", "--workspace", "--all-targets", "--locked", "--quiet"];
    let mut totals = passes(cargo(root, &[&lints[..], &["--", "-D", "warnings"]].concat()))?;
    let test = ["test", "--release", "--workspace", "--locked", "--no-fail-fast"];
    for words in [&[][..], &["--lib", "--bins", "--tests", "--", "--ignored", "by_night::"]] {
        let mut command = cargo(root, &[&test[..], words].concat());
        command.env(NIGHT, "1");
        totals += counted(&mut command, NIGHT_LIMIT, |line| println!("{line}"))?;
    }
    Ok(totals)
}

/// The fault campaign: each planted fault is found.
pub(crate) fn planted(root: &Path) -> Result<Totals, String> {
    counted(&mut cargo(root, &PLANTED), NIGHT_LIMIT, |line| println!("{line}"))
}

/// A command of cargo whose compiler is clippy, for the crates of the workspace: each is compiled and linted
/// in one go, where `cargo clippy` would read all of them a second time. What it warns of is an error.
fn linted(mut command: Command) -> Command {
    // The form in which `cargo clippy` hands its arguments on.
    let warnings = ["-D", "warnings"].map(|word| format!("{word}__CLIPPY_HACKERY__"));
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CLIPPY_ARGS", warnings.concat());
    command
}

/// Announces a step and runs it.
fn step(name: &'static str, work: impl FnOnce() -> Result<Totals, String>) -> Done {
    println!("\n==== {name}");
    let watch = Stopwatch::start();
    let totals = work().unwrap_or_else(|error| {
        println!("{name}: {error}");
        Totals::one(false)
    });
    Done { name, totals, seconds: watch.seconds() }
}

/// Compares the golden tables with what the simulator gives; with `accept`, writes them anew.
pub(crate) fn golden(root: &Path, accept: bool) -> Result<Totals, String> {
    let crates = ["-p", "twin-lab", "-p", "twin-verdict", "-p", "twin-papers"];
    // One of the tables is too long for every change, so its test is ignored by day.
    let words = ["golden", "--", "--include-ignored"];
    let mut command =
        cargo(root, &[&["test", "--release", "--locked"][..], &crates, &words].concat());
    if accept {
        command.env("TWINFS_BLESS", "1");
    }
    counted(&mut command, LIMIT, |line| println!("{line}"))
}

/// Runs a command; the test passes if its exit status is success.
pub(crate) fn passes(mut command: Command) -> Result<Totals, String> {
    let status = command.status().map_err(|error| format!("cargo: {error}"))?;
    Ok(Totals::one(status.success()))
}

/// Runs a command that runs Rust's test harness any number of times, tells the lines of its output,
/// and counts the results in them. When its time has passed it is killed, with all processes that it
/// started.
fn counted(
    command: &mut Command,
    limit: Duration,
    mut say: impl FnMut(&str),
) -> Result<Totals, String> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cargo: {error}"))?;
    let cargo = Pid::from_child(&child);
    let (ended, wait) = mpsc::channel::<()>();
    let watch = thread::Builder::new().name("limit".into()).spawn(move || {
        let late = wait.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
        if late {
            processes::kill_family(cargo);
        }
        late
    });
    let watch = watch.map_err(|error| format!("no thread: {error}"))?;
    let mut totals = Totals::default();
    let output = child.stdout.take().ok_or("cargo has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| format!("cargo's output: {error}"))?;
        say(&line);
        if let Some(counted) = Totals::of_harness(&line) {
            totals += counted;
        }
    }
    let status = child.wait().map_err(|error| format!("cargo: {error}"))?;
    drop(ended);
    let late = watch.join().unwrap_or(false);
    if late {
        let s = limit.as_secs();
        say(&format!("ended after {s} s: the test named last, or the next, did not end"));
    }
    // A test that does not build, or that ends its process, prints no count.
    if late || (!status.success() && totals.failed == 0) {
        totals.failed += 1;
    }
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    const LINE: &str = "echo 'test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured'";

    #[test]
    fn counts_of_several_harnesses_are_added() {
        let totals = counted(&mut shell(&format!("{LINE}; {LINE}")), LIMIT, |_| ()).unwrap();
        assert_eq!(totals, Totals { passed: 4, failed: 0, skipped: 2 });
    }

    #[test]
    fn a_failure_without_a_count_is_one() {
        let totals = counted(&mut shell(&format!("{LINE}; exit 101")), LIMIT, |_| ()).unwrap();
        assert_eq!((totals.passed, totals.failed), (2, 1));
        assert_eq!(passes(shell("exit 1")).unwrap().failed, 1);
        assert_eq!(passes(shell("exit 0")).unwrap().passed, 1);
    }

    #[test]
    fn what_does_not_end_is_ended_and_fails() {
        let mut said = String::new();
        let mut sleeper = shell(&format!("{LINE}; sleep 100"));
        let totals = counted(&mut sleeper, Duration::from_secs(4), |line| said = line.into());
        let totals = totals.unwrap();
        assert_eq!((totals.passed, totals.failed), (2, 1));
        assert!(said.contains("did not end"), "{said}");
    }
}
