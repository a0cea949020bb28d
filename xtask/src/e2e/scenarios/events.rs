//! The log of events: a mount writes the categories that it was asked for to a file, line by line,
//! and simulated runs write theirs to standard error without a change of their figures.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::Duration;

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use crate::clock::{Stopwatch, pause_ms};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "events",
    about: "mount --log and compare --log: the requested events, in order, and unchanged figures",
    limit_s: (120, 300),
    run,
};

const CATEGORIES: &str = "cleaner,flush";
const BLOCK: usize = 4096;
/// Blocks of the file that is overwritten on the mount, a volume of [`SIZE`].
const BLOCKS: usize = 10_000;
const SIZE: &str = "64M";
/// The longest time until the mount has told of every category.
const LIMIT: Duration = Duration::from_secs(60);
/// Simulated runs in which both layouts write back and the log is cleaned.
const RUNS: [&str; 2] = ["lfs:size=80M,cache=4M", "ffs:size=80M,cache=4M"];
const WORKLOAD: &str = "zipf:writes=40000";

fn run(bench: &Bench) -> Outcome {
    let simulated = simulated(bench)?;
    tools::need_fuse()?;
    refused(bench)?;
    let mounted = mounted(bench)?;
    Ok(format!("{mounted} events of a mount, {simulated} of simulated runs"))
}

/// An event as its line tells it.
struct Event<'a> {
    time: f64,
    category: &'a str,
    figures: usize,
}

/// Reads a line: time, category, event, figures.
fn parse(line: &str) -> Result<Event<'_>, String> {
    let bad = || format!("this is no event: {line:?}");
    let mut words = line.split(' ');
    let time = words.next().and_then(|word| word.parse().ok()).ok_or_else(bad)?;
    let category = words.next().ok_or_else(bad)?;
    words.next().filter(|name| !name.contains('=')).ok_or_else(bad)?;
    let figures: Vec<&str> = words.collect();
    match figures.iter().all(|figure| figure.split_once('=').is_some()) {
        true => Ok(Event { time, category, figures: figures.len() }),
        false => Err(bad()),
    }
}

/// Number of events of each category. They must be in order, each with figures, and only of the
/// requested categories.
fn count(text: &str) -> Result<BTreeMap<&str, usize>, String> {
    let (mut counts, mut last) = (BTreeMap::new(), 0.0);
    for line in text.lines() {
        let event = parse(line)?;
        if event.time < last {
            return Err(format!("this event is older than the one before: {line:?}"));
        }
        if !CATEGORIES.split(',').any(|category| category == event.category) {
            return Err(format!("nobody asked for this event: {line:?}"));
        }
        if event.figures == 0 {
            return Err(format!("this event has no figures: {line:?}"));
        }
        last = event.time;
        *counts.entry(event.category).or_default() += 1;
    }
    Ok(counts)
}

/// Overwrites a file on a mount until its log has events of all categories that the layout has;
/// gives their number.
fn mounted(bench: &Bench) -> Result<usize, String> {
    let text = |error: std::io::Error| error.to_string();
    let log = bench.dir.join("events.log");
    let log_word = log.to_str().ok_or("a path is not UTF-8")?;
    // What is there stays.
    let kept = "0.5 flush begins bytes=1\n";
    std::fs::write(&log, kept).map_err(text)?;
    let mut volume = Volume::make(bench, SIZE)?;
    volume.set_options(&["--cache", "4M", "--log", CATEGORIES, "--log-file", log_word]);
    volume.mount()?;
    let told = || std::fs::read_to_string(&log).map_err(text);
    let wanted: Vec<&str> = match bench.layout() {
        "lfs" => CATEGORIES.split(',').collect(),
        _ => vec!["flush"],
    };
    let mut rng = Rng::new(bench.seed);
    let content = rng.bytes(BLOCK);
    let options = OpenOptions::new().create(true).truncate(true).write(true).clone();
    let file = options.open(volume.dir().join("data")).map_err(text)?;
    for block in 0..BLOCKS {
        file.write_all_at(&content, (block * BLOCK) as u64).map_err(text)?;
    }
    let watch = Stopwatch::start();
    loop {
        for _ in 0..2000 {
            let block = rng.below(BLOCKS);
            file.write_all_at(&content, (block * BLOCK) as u64).map_err(text)?;
        }
        file.sync_data().map_err(text)?;
        let now = told()?;
        // The last line may be incomplete.
        let whole = now.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let counts = count(whole.strip_prefix(kept.trim_end()).unwrap_or(whole).trim_start())?;
        if wanted.iter().all(|category| counts.contains_key(category)) {
            break;
        }
        if watch.elapsed() > bench.at_most(LIMIT) {
            let s = watch.seconds();
            return Err(format!("after {s:.0} s the mount has told only of {counts:?}"));
        }
        pause_ms(20);
    }
    drop(file);
    volume.umount_and_check()?;
    let all = told()?;
    let new = all.strip_prefix(kept).ok_or("the mount has overwritten the file of its events")?;
    Ok(count(new)?.values().sum())
}

/// A category that does not exist, and a mount in the background without a file, are refused.
fn refused(bench: &Bench) -> Result<(), String> {
    let volume = Volume::make(bench, SIZE)?;
    let mount = |words: &[&str]| {
        let mut command = Command::new(&bench.program);
        command.arg("mount").args(words).arg(bench.dir.join("disk.img")).arg(volume.dir());
        bench.run(&mut command)
    };
    for (words, says) in
        [(&["--log", "cleaning"][..], "cleaner"), (&["--log", CATEGORIES], "needs --log-file")]
    {
        match mount(words) {
            Err(why) if why.contains(says) => volume.expect_gone()?,
            Err(why) => return Err(format!("mount {words:?} does not say {says:?}: {why}")),
            Ok(_) => return Err(format!("mount {words:?} was accepted")),
        }
    }
    drop(volume);
    std::fs::remove_file(bench.dir.join("disk.img")).map_err(|error| error.to_string())
}

/// Compares two configurations, with and without a log of events; gives the number of events.
fn simulated(bench: &Bench) -> Result<usize, String> {
    let compare = format!("{} compare --json -w {WORKLOAD}", bench.program.display());
    let [one, two] = RUNS;
    let plain = bench.shell(&bench.dir, &format!("{compare} {one} {two}"))?;
    let mut logs = Vec::new();
    for place in ["first.log", "second.log"] {
        let line = format!("{compare} --log {CATEGORIES} {one} {two} 2> {place}");
        if bench.shell(&bench.dir, &line)? != plain {
            return Err("figures differ if events are written".into());
        }
        let text = std::fs::read_to_string(bench.dir.join(place));
        logs.push(text.map_err(|error| error.to_string())?);
    }
    let mut events = 0;
    for (name, cleans) in [(one, true), (two, false)] {
        // The runs share the processor: only the order within one is certain.
        let of_run = |log: &String| -> String {
            let lines = log.lines().filter_map(|line| line.strip_prefix(&format!("{name}: ")));
            lines.flat_map(|line| [line, "\n"]).collect()
        };
        let (first, second) = (of_run(&logs[0]), of_run(&logs[1]));
        if first != second {
            return Err(format!("{name}: the events of two equal runs differ"));
        }
        let counts = count(&first)?;
        if !counts.contains_key("flush") || counts.contains_key("cleaner") != cleans {
            return Err(format!("{name}: its events are {counts:?}"));
        }
        events += counts.values().sum::<usize>();
    }
    match logs[0].lines().count() == events {
        true => Ok(events),
        false => Err(format!("lines without the name of a run: {}", logs[0])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_and_must_be_in_order_and_of_the_categories() {
        let text = "0.5 flush begins bytes=1\n0.5 cleaner victim number=6 live_bytes=4\n";
        assert_eq!(count(text).unwrap(), BTreeMap::from([("flush", 1), ("cleaner", 1)]));
        for bad in [
            "1.0 flush begins bytes=1\n0.5 flush begins bytes=1",
            "1.0 queue read at=1",
            "1.0 flush begins",
            "1.0 flush bytes=1",
            "once flush begins bytes=1",
        ] {
            assert!(count(bad).is_err(), "{bad}");
        }
    }
}
