//! Flush policies on real mounts: the daemon is killed while a client overwrites blocks, and the bytes
//! lost are held against what `twinfs frontier` says of a recording of the same work.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;

use serde_json::Value;

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario};
use crate::clock::{Stopwatch, pause_ms};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "flush",
    about: "kill -9 under three flush policies: the bytes lost are in the simulated range",
    limit_s: (120, 600),
    run,
};

/// The policies with their age limits in seconds, as `mount --flush` and `frontier` take them.
const POLICIES: [(&str, u32); 3] = [("delayed", 2), ("eager", 1), ("update", 3)];

const BLOCK: usize = 4096;
const BLOCKS: usize = 512;
/// The pause between two writes, in milliseconds.
const PAUSE_MS: u64 = 4;
/// How long the recorded work takes, in seconds.
const RECORDED_S: f64 = 6.0;
/// The least and the most seconds of work before a kill.
const KILL_S: (usize, usize) = (2, 5);
/// What a real kill may lose more than the worst simulated one: a machine that is busy writes later.
const SLACK: f64 = 1.5;

fn run(bench: &Bench) -> Outcome {
    let mut rng = Rng::new(bench.seed);
    let ranges = simulated(bench, &mut rng)?;
    let mut told = Vec::new();
    for ((policy, age_s), worst) in POLICIES.into_iter().zip(ranges) {
        for _ in 0..bench.size(1, 10) {
            let lost = killed(bench, policy, age_s, &mut rng)?;
            let most = worst as f64 * SLACK;
            if lost as f64 > most {
                Err(format!(
                    "{policy} of {age_s} s lost {lost} bytes, {worst} at worst in the simulation"
                ))?;
            }
            told.push(format!("{policy} {}K of at most {}K", lost >> 10, worst >> 10));
        }
    }
    if told.iter().all(|text| text.contains(" 0K of")) {
        Err("no kill lost anything: nothing was delayed".to_owned())?;
    }
    Ok(format!("lost: {}", told.join(", ")))
}

/// Records the work, and simulates power failures of the recording. Returns the most bytes lost for
/// each policy.
fn simulated(bench: &Bench, rng: &mut Rng) -> Result<Vec<u64>, String> {
    let trace = bench.dir.join("work.tw");
    let trace = trace.to_str().ok_or("a path that is no text")?;
    let mut volume = Volume::make(bench, "256M")?;
    volume.set_options(&["--write-through", "--record", trace]);
    volume.mount()?;
    let file = filled(&volume)?;
    work(&file, rng, RECORDED_S).map_err(|error| format!("while it was recorded: {error}"))?;
    drop(file);
    volume.umount_and_check()?;
    let mut worst = Vec::new();
    for (policy, age_s) in POLICIES {
        let age = format!("{age_s}s");
        let mut command = Command::new(&bench.program);
        let options = ["--policies", policy, "--ages", &age, "--instants", "200", "--json"];
        let config = format!("{}:size=256M", bench.layout());
        command.args(["frontier", trace, "--config", &config]).args(options);
        let points = bench.run(&mut command)?;
        let points: Value = serde_json::from_str(&points).map_err(|error| error.to_string())?;
        let lost = points["rows"][0]["lost_worst_bytes"].as_u64();
        worst.push(lost.ok_or_else(|| format!("frontier printed {points}"))?);
    }
    Ok(worst)
}

/// Works on a new volume under a policy until the daemon is killed. Returns the bytes that had been
/// written and are not there after the next mount.
fn killed(bench: &Bench, policy: &str, age_s: u32, rng: &mut Rng) -> Result<u64, String> {
    // The image of the part before.
    std::fs::remove_file(bench.dir.join("disk.img")).map_err(|error| error.to_string())?;
    let mut volume = Volume::make(bench, "256M")?;
    let flush = format!("{policy}:flush-age={age_s}s");
    volume.set_options(&["--write-through", "--flush", &flush]);
    volume.mount()?;
    let file = filled(&volume)?;
    file.sync_all().map_err(|error| error.to_string())?;
    let work_s = (1000 * KILL_S.0 + rng.below(1000 * (KILL_S.1 - KILL_S.0))) as f64 / 1000.0;
    let written = work(&file, rng, work_s).map_err(|error| format!("before the kill: {error}"))?;
    volume.kill9();
    drop(file);
    volume.mount()?;
    let file = File::open(volume.dir().join("blocks")).map_err(|error| error.to_string())?;
    let mut lost = 0;
    for (block, number) in written {
        let mut content = [0; 8];
        file.read_exact_at(&mut content, (block * BLOCK) as u64).map_err(|e| e.to_string())?;
        lost += if u64::from_le_bytes(content) == number { 0 } else { BLOCK as u64 };
    }
    drop(file);
    volume.umount_and_check()?;
    Ok(lost)
}

/// A file of blocks with the number 0.
fn filled(volume: &Volume<'_>) -> Result<File, String> {
    let path = volume.dir().join("blocks");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
    let file = file.map_err(|error| error.to_string())?;
    file.write_all_at(&vec![0; BLOCK * BLOCKS], 0).map_err(|error| error.to_string())?;
    Ok(file)
}

/// Overwrites random blocks with rising numbers for some seconds. Returns the last number of each
/// block that was acknowledged.
fn work(file: &File, rng: &mut Rng, seconds: f64) -> std::io::Result<BTreeMap<usize, u64>> {
    let (watch, mut written, mut number) = (Stopwatch::start(), BTreeMap::new(), 0);
    let mut content = vec![1; BLOCK];
    while watch.seconds() < seconds {
        number += 1;
        let block = rng.below(BLOCKS);
        content[..8].copy_from_slice(&u64::to_le_bytes(number));
        file.write_all_at(&content, (block * BLOCK) as u64)?;
        written.insert(block, number);
        pause_ms(PAUSE_MS);
    }
    Ok(written)
}
