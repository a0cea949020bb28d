//! A mount in idle times: it cleans them with nothing waiting, `stat` counts why and how long, and then the volume
//! is left alone.

use std::fs::{self, File};
use std::process::Command;

use serde_json::Value;

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, text, tools};
use crate::clock::pause_ms;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "idle",
    about: "a mount cleans when it is idle, counts it in all forms of stat, and is then not written",
    limit_s: (240, 300),
    run,
};

const FILES: usize = 480;
const BYTES: usize = 64 << 10;
/// How long is waited for what a busy machine may do late.
const PATIENCE_MS: u64 = 90_000;
/// How long the volume must be left alone at the end.
const SILENT_MS: u64 = 6_000;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let mut volume = Volume::make_of(bench, "lfs", "64M")?;
    volume.set_options(&["--cleaner", "when=idle"]);
    volume.mount()?;
    litter(bench, &volume)?;
    let cleaned = wait_until(bench, &volume, "segments cleaned in idle time", &|cleaner| {
        number(cleaner, "/background/segments") > 0
    })?;
    let silent = left_alone(bench, &volume)?;
    // The idle time has ended when somebody comes.
    let last = volume.dir().join("last");
    fs::write(&last, b"x").and_then(|()| File::open(&last)?.sync_all()).map_err(text)?;
    let cleaner = wait_until(bench, &volume, "an idle time of two seconds", &|cleaner| {
        number(cleaner, "/idle_times/of_two_s") > 0
    })?;
    for reason in ["/demand/segments", "/by_hand/segments", "/waits/count"] {
        if number(&cleaner, reason) > 0 {
            return Err(format!("{reason} on a volume with room: {cleaner}").into());
        }
    }
    all_forms(bench, &volume, &cleaner)?;
    volume.umount_and_check()?;
    let segments = number(&cleaned, "/background/segments");
    Ok(format!("{segments} segments cleaned or more, then {silent}"))
}

/// Fills half of the volume and removes every other file, so that segments are half garbage.
fn litter(bench: &Bench, volume: &Volume<'_>) -> Result<(), String> {
    let content = Rng::new(bench.seed).bytes(BYTES);
    let path = |nth: usize| volume.dir().join(format!("f{nth}"));
    for nth in 0..FILES {
        fs::write(path(nth), &content).map_err(text)?;
    }
    File::open(path(FILES - 1)).and_then(|file| file.sync_all()).map_err(text)?;
    (0..FILES - 1).step_by(2).try_for_each(|nth| fs::remove_file(path(nth))).map_err(text)
}

/// The cleaner's figures as soon as they are as wanted.
fn wait_until(
    bench: &Bench,
    volume: &Volume<'_>,
    what: &str,
    wanted: &dyn Fn(&Value) -> bool,
) -> Result<Value, String> {
    for _ in 0..PATIENCE_MS / 500 {
        let cleaner = figures(bench, volume)?["cleaner"].take();
        if wanted(&cleaner) {
            return Ok(cleaner);
        }
        pause_ms(500);
    }
    Err(format!("no {what}: {}", figures(bench, volume)?["cleaner"]))
}

/// Waits until the cleaner has nothing more to do: nothing is written for some seconds.
fn left_alone(bench: &Bench, volume: &Volume<'_>) -> Result<String, String> {
    let written = || Ok::<u64, String>(number(&figures(bench, volume)?, "/written_bytes"));
    for _ in 0..PATIENCE_MS / SILENT_MS {
        let before = written()?;
        pause_ms(SILENT_MS);
        if written()? == before {
            return Ok("nothing written".into());
        }
    }
    Err("an idle volume is written again and again".into())
}

/// The human form and Prometheus' say what the figures say.
fn all_forms(bench: &Bench, volume: &Volume<'_>, cleaner: &Value) -> Result<(), String> {
    let stat = |words: &[&str]| {
        bench.run(Command::new(&bench.program).arg("stat").args(words).arg(volume.dir()))
    };
    let segments = number(cleaner, "/background/segments");
    let people = stat(&[])?;
    for line in [&format!("{segments} in the background"), "when=idle", "waits for room   0,"] {
        if !people.contains(line) {
            return Err(format!("no {line:?} in {people}"));
        }
    }
    let metrics = stat(&["--prometheus"])?;
    let named = |line: &&str| line.starts_with("twinfs_cleaner_background_segments_total{");
    if !metrics.lines().any(|line| named(&line) && line.ends_with(&format!(" {segments}"))) {
        return Err(format!("no metric of {segments} segments in {metrics}"));
    }
    Ok(())
}

fn figures(bench: &Bench, volume: &Volume<'_>) -> Result<Value, String> {
    let said =
        bench.run(Command::new(&bench.program).args(["stat", "--json"]).arg(volume.dir()))?;
    let mut said: Value = serde_json::from_str(&said).map_err(|error| error.to_string())?;
    Ok(said[0]["figures"].take())
}

fn number(value: &Value, at: &str) -> u64 {
    value.pointer(at).and_then(Value::as_u64).unwrap_or_default()
}
