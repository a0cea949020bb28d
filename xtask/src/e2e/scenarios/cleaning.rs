//! The cleaner on a real mount: its write cost, compared with that of a simulation of the same
//! recorded operations; and its effect on a client of a volume that is nearly full.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use crate::clock::{Stopwatch, pause_ms};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "cleaning",
    about: "random overwriting at 85% full (1G), compared with its simulation; full: at 30% and \
            90% of 2G as well",
    limit_s: (300, 1200),
    run,
};

const BLOCK: usize = 4096;
const OURS: &str = "victim=twin,placement=twin,when=idle";
/// The size of the volume for the write cost. Some thirty segments of 1 MiB are clean or wait for a
/// checkpoint; their number varies a little with timing. On a volume of 256 MiB that matters: the
/// cost of the same mount varies by 4% from run to run. On this size it varies by half a percent.
const SIZE: &str = "1G";
/// Number of writes in a batch, once a second: a load that the cleaner of a mount on a shared
/// machine can keep up with. If the cleaner falls behind, more of a segment dies before it is
/// cleaned.
const BATCH: u64 = 256;
const WRITES_A_SECOND: f64 = 8000.0;
/// The largest relative difference between the write costs of the simulation and of the mount.
const COST_WITHIN: f64 = 0.03;
/// The bounds at 90%: the longest wait for the cleaner, and the throughput relative to 30%.
const WAIT_MAX_MS: f64 = 50.0;
const KEEPS: f64 = 0.6;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let (mounted, simulated) = cost(bench)?;
    let differs = (simulated / mounted - 1.0).abs();
    let mut said = format!(
        "write cost {mounted:.3} mounted, {simulated:.3} simulated ({:.1}%)",
        differs * 100.0
    );
    if differs > COST_WITHIN {
        Err(format!("{said}: more than {:.0}% apart", COST_WITHIN * 100.0))?;
    }
    if bench.full {
        let (low, _) = throughput(bench, 0.3)?;
        let (high, wait_ms) = throughput(bench, 0.9)?;
        said += &format!(
            "; at 30% {low:.0} writes/s, at 90% {high:.0} ({:.0}%), longest wait for the cleaner \
             {wait_ms:.1} ms",
            high * 100.0 / low
        );
        if wait_ms > WAIT_MAX_MS || high < KEEPS * low {
            Err(said.clone())?;
        }
    }
    Ok(said)
}

/// A file that takes this share of the space that `df` reports, and its number of blocks.
fn filled(volume: &Volume<'_>, share: f64, with: &[u8]) -> Result<(File, u64), String> {
    let told = |error: std::io::Error| error.to_string();
    let space = rustix::fs::statvfs(volume.dir()).map_err(|error| error.to_string())?;
    let blocks = (space.f_blocks * space.f_frsize) as f64 * share / BLOCK as f64;
    let path = volume.dir().join("data");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(path);
    let file = file.map_err(told)?;
    for block in 0..blocks as u64 {
        file.write_all_at(with, block * BLOCK as u64).map_err(told)?;
    }
    file.sync_all().map_err(told)?;
    Ok((file, blocks as u64))
}

/// Write cost of filling to 85% and overwriting: on a mount, and simulated from its recording.
fn cost(bench: &Bench) -> Result<(f64, f64), String> {
    let (status, trace) = (bench.dir.join("status.json"), bench.dir.join("work.tw"));
    let mut volume = Volume::make(bench, SIZE)?;
    let (status_word, trace_word) = (word(&status)?, word(&trace)?);
    // Writes as they are made, one by one: what the kernel collects comes in bursts.
    let options = ["--cache", "32M", "--write-through", "--cleaner", OURS];
    let files = ["--record", &trace_word, "--status", &status_word];
    volume.set_options(&[&options[..], &files].concat());
    volume.mount()?;
    let mut rng = Rng::new(bench.seed);
    let content = rng.bytes(BLOCK);
    let (file, blocks) = filled(&volume, 0.85, &content)?;
    for _ in 0..2 * blocks / BATCH {
        let watch = Stopwatch::start();
        for _ in 0..BATCH {
            let block = rng.below(blocks as usize) as u64;
            file.write_all_at(&content, block * BLOCK as u64).map_err(|error| error.to_string())?;
        }
        let rest = BATCH as f64 / WRITES_A_SECOND - watch.seconds();
        pause_ms((rest.max(0.0) * 1e3) as u64);
    }
    file.sync_all().map_err(|error| error.to_string())?;
    drop(file);
    volume.umount_and_check()?;
    let mounted = number(&read(&status)?, &["write_cost"])?;
    // At the recorded pace: if writers have to wait for a slow disk, more of a segment dies
    // meanwhile. How much depends on the speed of the disk, so the model gets its times.
    let mut measure = Command::new(&bench.program);
    let said = bench.run(measure.args(["bench", "--device"]).arg(&bench.dir))?;
    let like_here = said.lines().find(|line| line.starts_with("disk="));
    let like_here = like_here.ok_or_else(|| format!("no model of the device: {said}"))?;
    let config = format!("lfs:size={SIZE},cache=32M,{like_here},{OURS}");
    let replay = ["replay", &trace_word, "--pace", "recorded", "--config", &config, "--json"];
    let figures = bench.run(Command::new(&bench.program).args(replay))?;
    let figures: Value = serde_json::from_str(&figures).map_err(|error| error.to_string())?;
    let simulated = number(&figures[0], &["log", "write_cost"])?;
    Ok((mounted, simulated))
}

/// Random overwrites a second on a volume of this utilization, after it has been overwritten once,
/// and the longest time that an operation waited for the cleaner.
fn throughput(bench: &Bench, share: f64) -> Result<(f64, f64), String> {
    let status = bench.dir.join(format!("status-{}.json", (share * 100.0) as u32));
    // The image of the previous part had another size.
    std::fs::remove_file(bench.dir.join("disk.img")).map_err(|error| error.to_string())?;
    let mut volume = Volume::make(bench, "2G")?;
    let status_word = word(&status)?;
    volume.set_options(&["--write-through", "--cleaner", OURS, "--status", &status_word]);
    volume.mount()?;
    let mut rng = Rng::new(bench.seed);
    let content = rng.bytes(BLOCK);
    let (file, blocks) = filled(&volume, share, &content)?;
    let mut overwrite = |count: u64| -> Result<f64, String> {
        let watch = Stopwatch::start();
        for _ in 0..count {
            let block = rng.below(blocks as usize) as u64;
            file.write_all_at(&content, block * BLOCK as u64).map_err(|e| e.to_string())?;
        }
        Ok(count as f64 / watch.seconds())
    };
    let volume_of_blocks = (2 << 30) / BLOCK as u64;
    overwrite(volume_of_blocks)?;
    let rate = overwrite(volume_of_blocks)?;
    drop(file);
    volume.umount_and_check()?;
    let waited = number(&read(&status)?, &["longest_space_wait_ns"])?;
    Ok((rate, waited / 1e6))
}

fn word(path: &Path) -> Result<String, String> {
    path.to_str().map(String::from).ok_or(format!("{}: not UTF-8", path.display()))
}

fn read(path: &Path) -> Result<Value, String> {
    let in_file = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| in_file(&error))?;
    serde_json::from_str(&text).map_err(|error| in_file(&error))
}

fn number(value: &Value, keys: &[&str]) -> Result<f64, String> {
    let found = keys.iter().fold(value, |value, key| &value[*key]);
    found.as_f64().ok_or(format!("no number {}", keys.join(".")))
}
