//! One directory with a great many names: created, listed, looked up, removed.

use std::fs::{self, File};
use std::path::Path;

use super::super::bench::Bench;
use super::super::manifest::names;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use crate::clock::Stopwatch;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "bigdir",
    about: "1,000,000 names (100,000 in the short form) in a directory: created, listed, removed",
    limit_s: (180, 1800),
    run,
};

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let count = bench.size(100_000, 1_000_000);
    let mut volume = Volume::make(bench, "4G")?;
    volume.mount()?;
    let dir = volume.dir().join("big");
    let text = |error: std::io::Error| format!("{}: {error}", dir.display());
    fs::create_dir(&dir).map_err(text)?;
    let watch = Stopwatch::start();
    for n in 0..count {
        File::create_new(dir.join(name(n))).map_err(|error| format!("{}: {error}", name(n)))?;
    }
    let made = rate(count, watch);
    let mut expected: Vec<Vec<u8>> = (0..count).map(|n| name(n).into_bytes()).collect();
    expected.sort_unstable();
    let watch = Stopwatch::start();
    expect_names(&dir, &expected)?;
    let listed = rate(count, watch);
    volume.remount()?;
    expect_names(&dir, &expected)?;
    find_some(&dir, count)?;

    // Removes half of the names in an order of their own, the other half in the order of the
    // listing.
    let watch = Stopwatch::start();
    for n in (0..count).filter(|n| n % 2 == 0) {
        fs::remove_file(dir.join(name(n))).map_err(|error| format!("{}: {error}", name(n)))?;
    }
    let odd: Vec<Vec<u8>> = expected.into_iter().filter(|name| !is_even(name)).collect();
    expect_names(&dir, &odd)?;
    for entry in fs::read_dir(&dir).map_err(text)? {
        fs::remove_file(entry.map_err(text)?.path()).map_err(text)?;
    }
    let removed = rate(count, watch);
    expect_names(&dir, &[])?;
    fs::remove_dir(&dir).map_err(text)?;
    volume.remount()?;
    expect_names(volume.dir(), &[])?;
    volume.umount_and_check()?;
    Ok(format!("{count} names: made {made:.0}/s, listed {listed:.0}/s, removed {removed:.0}/s"))
}

/// Names whose order is neither that of creation nor that of a hash.
fn name(n: usize) -> String {
    format!("name-{:07}-{n}", n * 7919 % 1_000_003)
}

fn is_even(name: &[u8]) -> bool {
    name.last().is_some_and(|digit| digit % 2 == 0)
}

fn rate(count: usize, watch: Stopwatch) -> f64 {
    count as f64 / watch.seconds()
}

fn expect_names(dir: &Path, expected: &[Vec<u8>]) -> Result<(), String> {
    let listed = names(dir)?;
    if listed == expected {
        return Ok(());
    }
    let differ = listed.iter().zip(expected).position(|(a, b)| a != b);
    let at = differ.unwrap_or(listed.len().min(expected.len()));
    let show = |names: &[Vec<u8>]| {
        names.get(at).map_or("nothing".into(), |n| String::from_utf8_lossy(n).into_owned())
    };
    let (is, should) = (show(&listed), show(expected));
    let (have, want) = (listed.len(), expected.len());
    Err(format!("{have} names listed, {want} expected; the first that differs: {is}, not {should}"))
}

/// Looks up existing names and missing names.
fn find_some(dir: &Path, count: usize) -> Result<(), String> {
    for n in (0..count).step_by(97) {
        let there = dir.join(name(n));
        fs::symlink_metadata(&there).map_err(|error| format!("{}: {error}", there.display()))?;
        let absent = dir.join(format!("{}x", name(n)));
        if fs::symlink_metadata(&absent).is_ok() {
            return Err(format!("{}: was never made", absent.display()));
        }
    }
    Ok(())
}
