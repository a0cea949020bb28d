//! The model of the kernel before a mount is held against the kernel: the requests that a mount is asked for
//! while a program makes, reads and removes small files, by kind, beside those of the simulation
//! (`front-end=kernel`) of the same operations.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use crate::clock::Stopwatch;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "kernel",
    about: "the simulated kernel asks a mount for what Linux asks for, kind by kind",
    limit_s: (60, 60),
    run,
};

/// What `small-files` does by itself, but with fewer files.
const FILES: usize = 1000;
const PER_DIR: usize = 100;
const BYTES: usize = 1024;
/// The share of the requests of a kind by which both may differ, and a number that always may: the mount
/// itself is asked for something at its beginning and end.
const TOLERANCE: f64 = 0.02;
const ALWAYS: u64 = 8;

/// The kernel's clock for the times of files, at 250 Hz. A file that is made before a tick and written after
/// it gets its times in a request of its own, so each tick may bring one more on a slow machine.
const TICK: Duration = Duration::from_millis(4);

type Counts = BTreeMap<String, u64>;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let recording = bench.dir.join("asked.tw");
    let to = recording.display().to_string();
    let mut volume = Volume::make_of(bench, "lfs", "256M")?;
    volume.set_options(&["--record", &to]);
    volume.mount()?;
    let dir = volume.dir().to_path_buf();
    let watch = Stopwatch::start();
    work(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let ticks = (watch.elapsed().as_nanos() / TICK.as_nanos()) as u64;
    volume.umount_and_check()?;
    let real = recorded(bench, &recording)?;
    let simulated = simulated(bench)?;
    let kinds: Vec<&String> = real.keys().chain(simulated.keys()).collect();
    let mut wrong = Vec::new();
    for kind in kinds {
        let of = |counts: &Counts| counts.get(kind).copied().unwrap_or(0);
        let (real, simulated) = (of(&real), of(&simulated));
        let late = if kind == "setattr" { ticks } else { 0 };
        let allowed = ALWAYS + (real as f64 * TOLERANCE) as u64 + late;
        if real.abs_diff(simulated) > allowed {
            wrong.push(format!("{kind}: {real} asked for, {simulated} simulated"));
        }
    }
    wrong.dedup();
    if !wrong.is_empty() {
        return Err(wrong.join("; ").into());
    }
    let sum = |counts: &Counts| counts.values().sum::<u64>();
    let times = |counts: &Counts| counts.get("setattr").copied().unwrap_or(0);
    Ok(format!(
        "{} requests of {FILES} small files, {} simulated; of these {} and {} set times",
        sum(&real),
        sum(&simulated),
        times(&real),
        times(&simulated)
    ))
}

/// The operations of `small-files`, by system calls.
fn work(mnt: &Path) -> std::io::Result<()> {
    let path = |i: usize| mnt.join(format!("c0-d{}/f{i}", i / PER_DIR));
    let mut content = vec![0x5a; BYTES];
    for i in 0..FILES {
        if i.is_multiple_of(PER_DIR) {
            fs::create_dir(mnt.join(format!("c0-d{}", i / PER_DIR)))?;
        }
        File::create_new(path(i))?.write_all(&content)?;
    }
    File::open(mnt)?.sync_all()?;
    for i in 0..FILES {
        File::open(path(i))?.read_exact(&mut content)?;
    }
    for i in 0..FILES {
        fs::remove_file(path(i))?;
    }
    File::open(mnt)?.sync_all()
}

/// What a mount was asked for.
fn recorded(bench: &Bench, recording: &Path) -> Result<Counts, String> {
    let mut compare = Command::new(&bench.program);
    compare.args(["compare", "lfs:size=256M", "--json", "-t"]).arg(recording);
    let figures = figures(&bench.run(&mut compare)?)?;
    let verbs = figures["verbs"].as_array().ok_or("no kinds of operations are told")?;
    let count = |verb: &Value| {
        let name = verb["verb"].as_str()?;
        Some((kind(name), verb["latency"]["count"].as_u64()?))
    };
    Ok(added(verbs.iter().filter_map(count)))
}

/// What the mount of the simulation was asked for.
fn simulated(bench: &Bench) -> Result<Counts, String> {
    let workload = format!("small-files:files={FILES},per-dir={PER_DIR},bytes={BYTES}");
    let mut compare = Command::new(&bench.program);
    compare.args(["compare", "lfs:size=256M,front-end=kernel", "--json", "-w", &workload]);
    let figures = figures(&bench.run(&mut compare)?)?;
    let requests = figures["requests"].as_array().ok_or("no requests are told")?;
    let count = |request: &Value| Some((kind(request[0].as_str()?), request[1].as_u64()?));
    Ok(added(requests.iter().filter_map(count)))
}

fn figures(text: &str) -> Result<Value, String> {
    let all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(all["rows"][0].clone())
}

/// The kind under which a request counts: a mount of ours lets the kernel open files, which then makes them
/// by `mknod`, and has no request for a sync of everything.
fn kind(verb: &str) -> String {
    match verb {
        "create" => "mknod",
        "sync" => "fsync",
        verb => verb,
    }
    .to_owned()
}

fn added(counts: impl Iterator<Item = (String, u64)>) -> Counts {
    let mut all = Counts::new();
    counts.for_each(|(kind, count)| *all.entry(kind).or_default() += count);
    all
}
