//! Explores the write contract of the NFS server over real layouts.
//!
//! ```sh
//! cargo run --release -p twin-proof --example nfs_contract -- nfs-disks 1..5
//! cargo run --release -p twin-proof --example nfs_contract -- count random 0..100000
//! cargo run --release -p twin-proof --example nfs_contract -- count pairs 0..100000
//! ```
//!
//! `nfs-disks` runs a thousand random scenarios for each number, `count` random scenarios (`failing`: on failing disks) or pairs of faults by
//! number, and counts the distinct ones by the fingerprint of what happened (`Ran::digest`); `one` repeats a
//! run that failed.

use std::ops::Range;
use std::process::ExitCode;
use twin_rt::FixedSet;

use twin_proof::nfs::{Bug, Ran, Scenario, VOLUMES, Volume, faults, run};
use twin_sim::network::Proto;

/// Runs between two lines of progress.
const PROGRESS: u64 = 5000;
/// Random runs for each number of `nfs-disks`.
const EACH: u64 = 1000;

/// The scenario of a number, and the volume on which it runs.
fn scenario(
    kind: &str,
    number: u64,
    space: &[(usize, Proto, Vec<faults::Strike>)],
) -> Option<(usize, Scenario)> {
    if kind == "random" {
        return Some(((number % VOLUMES.len() as u64) as usize, Scenario::random(number)));
    }
    if kind == "failing" {
        return Some(((number % VOLUMES.len() as u64) as usize, Scenario::failing(number)));
    }
    let (volume, proto, all) = &space[(number % space.len() as u64) as usize];
    let nth = number / space.len() as u64;
    let count = all.len() as u64;
    if nth >= count * count {
        return None;
    }
    // Spread over the space, so that a part of it is a sample. The stride is prime to the count.
    let nth = (u128::from(nth) * 1_000_003 % u128::from(count * count)) as u64;
    Some((*volume, Scenario::ordered(*proto, faults::pairs(all, nth))))
}

/// All faults of the fixed course on each volume, over each protocol.
fn space(volumes: &[Volume]) -> Result<Vec<(usize, Proto, Vec<faults::Strike>)>, String> {
    let mut space = Vec::new();
    for (nth, volume) in volumes.iter().enumerate() {
        for (_, proto) in Proto::ALL {
            let ran = run(&Scenario::ordered(proto, Vec::new()), volume)?;
            space.push((nth, proto, faults::all(proto, ran.calls, 2 * ran.calls)));
        }
    }
    Ok(space)
}

struct Sum {
    runs: u64,
    digests: FixedSet<u64>,
    all: Ran,
}

fn explore(kind: &str, numbers: Range<u64>, bug: Option<Bug>) -> Result<Sum, String> {
    let volumes = VOLUMES.iter().map(|text| Volume::make(text));
    let volumes: Vec<Volume> = volumes.collect::<Result<_, _>>()?;
    let space = if kind == "pairs" { space(&volumes)? } else { Vec::new() };
    let mut sum = Sum { runs: 0, digests: FixedSet::default(), all: Ran::default() };
    for number in numbers {
        let Some((volume, scenario)) = scenario(kind, number, &space) else { break };
        let scenario = bug.map_or(scenario.clone(), |bug| scenario.with_bug(bug));
        let ran = run(&scenario, &volumes[volume]).map_err(|what| {
            format!(
                "{}: {what}\n{scenario:?}\nagain: nfs_contract one {kind} {number}",
                VOLUMES[volume]
            )
        })?;
        sum.runs += 1;
        // The same calls on another volume are another run.
        sum.digests.insert(ran.digest.wrapping_add(volume as u64));
        sum.all += ran;
        if sum.runs.is_multiple_of(PROGRESS) {
            eprintln!("{} runs, {} distinct", sum.runs, sum.digests.len());
        }
    }
    Ok(sum)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let range = |text: &str| -> Option<Range<u64>> {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    };
    let wanted = match words[..] {
        ["nfs-disks", numbers] => {
            range(numbers).map(|r| ("random", r.start * EACH..r.end * EACH, None))
        }
        ["count", kind @ ("random" | "failing" | "pairs"), numbers] => {
            range(numbers).map(|r| (kind, r, None))
        }
        ["one", kind @ ("random" | "failing" | "pairs"), number] => {
            number.parse().ok().map(|n: u64| (kind, n..n + 1, None))
        }
        ["bugs", numbers] => return bugs(range(numbers)),
        _ => None,
    };
    let Some((kind, numbers, bug)) = wanted else {
        eprintln!(
            "nfs_contract nfs-disks A..B | count random|failing|pairs A..B | one random|failing|pairs N | bugs A..B"
        );
        return ExitCode::from(2);
    };
    match explore(kind, numbers, bug) {
        Ok(Sum { runs, digests, all }) => {
            println!("{runs} runs, {} distinct; {all:?}", digests.len());
            ExitCode::SUCCESS
        }
        Err(what) => {
            println!("{what}");
            ExitCode::FAILURE
        }
    }
}

/// Looks for each planted bug.
fn bugs(numbers: Option<Range<u64>>) -> ExitCode {
    let Some(numbers) = numbers else { return ExitCode::from(2) };
    let mut missed = 0;
    for bug in Bug::ALL {
        let found = numbers.clone().find(|&n| explore("random", n..n + 1, Some(bug)).is_err());
        println!("{bug:?}: {}", found.map_or("not found".into(), |n| format!("found by {n}")));
        missed += u64::from(found.is_none());
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
