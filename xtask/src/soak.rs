//! `cargo xtask nightly soak`: seeded campaigns that run as long as requested, two processes at a time.
//!
//! Contract: every seed is a run of its own in the example `campaign` of twin-proof (or `traces` of
//! twin-lab), which prints one line for it. A run that fails, panics or does not end is reported
//! with the command that repeats it, and the campaign continues.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::e2e::tools;
use crate::processes;
use crate::totals::Totals;

/// The campaigns: name, package and example that run them, and a description.
pub(crate) const KINDS: &[(&str, &str, &str, &str)] = &[
    ("crash", "twin-proof", "campaign", "power failures at every write of random runs"),
    ("full", "twin-proof", "campaign", "volumes filled until there is no room, again and again"),
    ("faults", "twin-proof", "campaign", "failing disks under clients at work"),
    (
        "ending",
        "twin-proof",
        "campaign",
        "full logs and failing disks: every wait ends, unmounts too",
    ),
    ("ffs-ending", "twin-proof", "campaign", "the same for clustered volumes"),
    ("images", "twin-proof", "campaign", "damaged images, opened, walked and used"),
    ("ffs", "twin-proof", "campaign", "power failures of clustered volumes"),
    ("ffs-reuse", "twin-proof", "campaign", "clustered volumes short of space, failing in turn"),
    ("lfs-reuse", "twin-proof", "campaign", "the same on the log"),
    ("grow", "twin-proof", "campaign", "power failures while a log grows below its clients"),
    ("snapshots", "twin-proof", "campaign", "snapshots of logs beside clients, and power failures"),
    ("ffs-images", "twin-proof", "campaign", "damaged clustered volumes, used and repaired"),
    ("lfs-repair", "twin-proof", "campaign", "damaged logs, repaired, and power failures in it"),
    (
        "ffs-repair",
        "twin-proof",
        "campaign",
        "damaged FFS volumes, repaired, and power failures in it",
    ),
    ("nfs", "twin-nfs", "contract", "the write contract of the NFS server, 1,000 runs a seed"),
    (
        "nfs-disks",
        "twin-proof",
        "nfs_contract",
        "the same contract over real layouts and disks, with modelled clients, 1,000 runs a seed",
    ),
    (
        "nfs-front",
        "twin-proof",
        "nfs_front",
        "clients that pause, vanish and never read before the NFS server's front, 1,000 runs a seed",
    ),
    ("bucket", "twin-proof", "bucket", "writers of one volume in a bucket, 1,000 runs a seed"),
    ("traces", "twin-proof", "traces", "damaged traces and flight logs, replayed"),
];

/// Time limit for one seed.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// The first seed of campaigns without `--seeds`, beyond the seeds of the tests.
const FIRST: u64 = 1_000_000;
/// Number of concurrent processes.
const WORKERS: u64 = 2;

/// Minutes of a campaign without a limit: of one that was named, and of each when all are run.
const MINUTES: (u64, u64) = (10, 2);

/// The options of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    kind: String,
    seeds: Option<Range<u64>>,
    minutes: Option<u64>,
}

/// Runs the campaign that is named first, or all of them, with the options behind it.
pub(crate) fn night(root: &Path, words: &[String]) -> Result<Totals, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Some(kind) = words.first().filter(|word| !word.starts_with('-')) {
        return run(root, &parse(kind, &words[1..], MINUTES.0)?);
    }
    let all = KINDS.iter().map(|(kind, ..)| parse(kind, &words, MINUTES.1));
    let all: Vec<Options> = all.collect::<Result<_, _>>()?;
    let mut totals = Totals::default();
    for options in &all {
        totals += run(root, options)?;
    }
    Ok(totals)
}

/// Parses a campaign and the words behind it; without seeds and minutes it takes `minutes`.
fn parse(kind: &str, words: &[&str], minutes: u64) -> Result<Options, String> {
    if !KINDS.iter().any(|(name, ..)| *name == kind) {
        let names: Vec<&str> = KINDS.iter().map(|(name, ..)| *name).collect();
        return Err(format!("soak {kind}: must be one of {}", names.join(", ")));
    }
    let mut options = Options { kind: kind.into(), seeds: None, minutes: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        let number = |text: &str| {
            text.parse::<u64>().map_err(|_| format!("{word} {value}: must be made of numbers"))
        };
        match *word {
            "--seeds" => {
                let (from, to) = value.split_once("..").ok_or("--seeds A..B")?;
                options.seeds = Some(number(from)?..number(to)?);
            }
            "--minutes" => options.minutes = Some(number(value)?),
            other => return Err(format!("{other}: is not understood")),
        }
    }
    if options.seeds.is_none() {
        options.minutes.get_or_insert(minutes);
    }
    Ok(options)
}

/// Runs a campaign and counts its seeds.
fn run(root: &Path, options: &Options) -> Result<Totals, String> {
    let program = build(root, &options.kind)?;
    let minutes = options.minutes;
    let seeds = options.seeds.clone().unwrap_or(FIRST..u64::MAX);
    let watch = Stopwatch::start();
    let over = || minutes.is_some_and(|m| watch.seconds() >= m as f64 * 60.0);
    let mut totals = Totals::default();
    let mut failed: VecDeque<String> = VecDeque::new();
    let mut left = seeds.clone();
    let (done, results) = mpsc::channel();
    let mut under_way = 0;
    loop {
        while under_way < WORKERS && !over() {
            let Some(seed) = left.next() else { break };
            start(&program, &options.kind, seed, done.clone())?;
            under_way += 1;
        }
        if under_way == 0 {
            break;
        }
        let Ok((seed, ended)) = results.recv() else { break };
        under_way -= 1;
        totals += Totals::one(ended.is_ok());
        if let Err(what) = ended {
            println!("\n{what}");
            failed.push_back(seed_again(&options.kind, seed));
        }
        let all = if seeds.end == u64::MAX { String::new() } else { format!(" of {seeds:?}") };
        print!(
            "\rsoak {}: seed {seed}{all}, {} runs, {} failed, {:.0} s   ",
            options.kind,
            totals.passed + totals.failed,
            totals.failed,
            watch.seconds()
        );
        let _ = std::io::stdout().flush();
    }
    println!();
    for again in failed {
        println!("again: {again}");
    }
    Ok(totals)
}

fn seed_again(kind: &str, seed: u64) -> String {
    format!("cargo xtask nightly soak {kind} --seeds {seed}..{}", seed + 1)
}

/// Builds the program once and returns its path.
fn build(root: &Path, kind: &str) -> Result<PathBuf, String> {
    let found = KINDS.iter().find(|(name, ..)| *name == kind);
    let (_, package, example, _) = found.ok_or("no such campaign")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = ["build", "--release", "--locked", "--quiet", "-p", package, "--example", example];
    let status = Command::new(cargo).args(words).current_dir(root).status();
    match status {
        Ok(status) if status.success() => {
            Ok(tools::target_dir(root).join("release/examples").join(example))
        }
        Ok(_) => Err(format!("the example {example} of {package} does not build")),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

type Ended = (u64, Result<(), String>);

/// Starts one seed; its result is sent through `done`.
fn start(program: &Path, kind: &str, seed: u64, done: mpsc::Sender<Ended>) -> Result<(), String> {
    let mut command = Command::new(program);
    command.arg(kind).arg(format!("{seed}..{}", seed + 1));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
    let work = move || {
        let _ = done.send((seed, wait(child)));
    };
    thread::Builder::new().spawn(work).map_err(|error| format!("no thread: {error}"))?;
    Ok(())
}

/// Waits for a run. If it fails, its output is its result.
#[allow(clippy::disallowed_methods)] // A development tool may start threads: one reads, one watches the clock.
fn wait(mut child: Child) -> Result<(), String> {
    let pid = rustix::process::Pid::from_child(&child);
    let (ended, waits) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        let late = waits.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout);
        if late {
            processes::kill_family(pid);
        }
        late
    });
    let errors = child.stderr.take().map(|pipe| thread::spawn(move || lines(pipe)));
    let mut said = child.stdout.take().map(lines).unwrap_or_default();
    said.extend(errors.and_then(|thread| thread.join().ok()).unwrap_or_default());
    let status = child.wait();
    drop(ended);
    if watch.join().unwrap_or(false) {
        said.push(format!("ended after {} s: it does not end", LIMIT.as_secs()));
    }
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err(said.join("\n")),
    }
}

fn lines(pipe: impl std::io::Read) -> Vec<String> {
    BufReader::new(pipe).lines().map_while(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn campaigns_and_their_bounds_are_understood() {
        let expected = Options { kind: "crash".into(), seeds: Some(5..9), minutes: Some(3) };
        assert_eq!(parse("crash", &["--seeds", "5..9", "--minutes", "3"], 7), Ok(expected));
        assert_eq!(parse("crash", &[], 7).map(|options| options.minutes), Ok(Some(7)));
        for (kind, words, what) in [
            ("sleep", &[][..], "sleep"),
            ("full", &["--seeds", "5"][..], "A..B"),
            ("full", &["--minutes"][..], "--minutes"),
            ("full", &["--hours", "1"][..], "--hours"),
        ] {
            assert!(parse(kind, words, 7).unwrap_err().contains(what), "{words:?}");
        }
    }

    #[test]
    fn a_run_that_fails_says_what_it_said() {
        let shell = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]).stdout(Stdio::piped()).stderr(Stdio::piped());
            wait(command.spawn().unwrap())
        };
        assert_eq!(shell("echo fine"), Ok(()));
        assert_eq!(shell("echo one; echo two >&2; exit 3"), Err("one\ntwo".into()));
    }
}
