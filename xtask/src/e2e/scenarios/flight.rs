//! A mounted session, recorded both as a flight log and as a trace. The flight log repeats to the
//! same digest, and the trace replays in the simulator.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::writer::Writer;
use super::super::{Outcome, Scenario, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "flight",
    about: "four clients make 4,000 files (100,000 in the full form), recorded and repeated",
    limit_s: (240, 900),
    run,
};

/// The least number of operations for each file in the round below: lookup, create, write, rename,
/// unlink.
const PER_FILE: usize = 5;
/// Number of clients, each in a directory of its own.
const CLIENTS: usize = 4;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let files = bench.size(4_000, 100_000);
    let (flight, trace) = (bench.dir.join("a.flight"), bench.dir.join("a.tw"));
    let mut volume = Volume::make(bench, "4G")?;
    let flight_text = flight.display().to_string();
    // A small cache, so that data written by the session is read again from the device.
    volume.set_options(&["--flight", &flight_text, "--cache", "1M"]);
    volume.mount()?;
    clients(volume.dir(), files, bench.seed)?;
    volume.umount_and_check()?;
    let said = bench.run(Command::new(&bench.program).args(["replay", "--verify"]).arg(&flight))?;
    let operations = first_number_before(&said, "operations").unwrap_or(0);
    let least = files * PER_FILE;
    if operations < least {
        return Err(
            format!("{operations} operations repeated, of more than {least}: {said}").into()
        );
    }

    // A log that was changed or cut must not verify.
    expect_refused(bench, &flight, &|bytes| bytes.truncate(bytes.len() / 2))?;
    expect_refused(bench, &flight, &|bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    })?;

    fs::remove_file(bench.dir.join("disk.img")).map_err(|error| error.to_string())?;
    let mut volume = Volume::make(bench, "4G")?;
    let trace_text = trace.display().to_string();
    volume.set_options(&["--record", &trace_text]);
    volume.mount()?;
    clients(volume.dir(), files, bench.seed)?;
    volume.umount_and_check()?;
    let bytes = fs::metadata(&trace).map_err(|error| error.to_string())?.len();
    let mut command = Command::new(&bench.program);
    command.args(["replay", "--json", "--config", bench.layout()]);
    let said = bench.run(command.arg(&trace))?;
    if !said.contains("\"diverged\": 0,") {
        return Err(format!("the recorded session replays otherwise than it went: {said}").into());
    }
    Ok(format!(
        "{files} files, {operations} operations repeat; a trace of {bytes} bytes replays alike"
    ))
}

/// Lets all clients work at once.
fn clients(dir: &Path, files: usize, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let seeds: Vec<u64> = (0..CLIENTS).map(|_| rng.next()).collect();
    thread::scope(|scope| {
        let running: Vec<_> = seeds
            .iter()
            .enumerate()
            .map(|(n, &seed)| {
                let dir = dir.join(format!("client-{n}"));
                scope.spawn(move || work(&dir, files / CLIENTS, seed))
            })
            .collect();
        let panicked = |_| Err("a client panicked".to_string());
        running.into_iter().try_for_each(|client| client.join().unwrap_or_else(panicked))
    })
}

/// Creates, renames and removes files, and at times makes a change that is fsynced.
fn work(dir: &Path, files: usize, seed: u64) -> Result<(), String> {
    let text = |error: std::io::Error| format!("{}: {error}", dir.display());
    fs::create_dir_all(dir).map_err(text)?;
    let mut rng = Rng::new(seed);
    let mut writer = Writer::new(dir.join("writer"), rng.next(), false).map_err(text)?;
    for n in 0..files {
        let sub = dir.join(format!("dir-{}", n % 20));
        fs::create_dir_all(&sub).map_err(text)?;
        let (file, moved) = (sub.join(format!("new-{n}")), sub.join(format!("file-{n}")));
        let len = rng.below(9000);
        fs::write(&file, rng.bytes(len)).map_err(text)?;
        fs::rename(&file, &moved).map_err(text)?;
        if n % 3 > 0 {
            fs::remove_file(&moved).map_err(text)?;
        }
        if n % 50 == 0 {
            writer.step().map_err(text)?;
        }
    }
    writer.verify()
}

/// Checks that verifying a changed copy fails.
fn expect_refused(
    bench: &Bench,
    flight: &Path,
    change: &dyn Fn(&mut Vec<u8>),
) -> Result<(), String> {
    let mut bytes = fs::read(flight).map_err(|error| format!("{}: {error}", flight.display()))?;
    change(&mut bytes);
    let changed = bench.dir.join("changed.flight");
    fs::write(&changed, bytes).map_err(|error| format!("{}: {error}", changed.display()))?;
    let mut command = Command::new(&bench.program);
    match bench.run(command.args(["replay", "--verify"]).arg(&changed)) {
        Ok(said) => Err(format!("a changed flight log was found to be the same: {said}")),
        Err(_) => Ok(()),
    }
}

/// The number before a word.
fn first_number_before(text: &str, word: &str) -> Option<usize> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|w| w.trim_matches(',') == word)?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_operations_is_read_from_what_the_program_says() {
        let said = "same digest 0123: 117 operations, 9 device requests";
        assert_eq!(first_number_before(said, "operations"), Some(117));
        assert_eq!(first_number_before("operations", "operations"), None);
    }
}
