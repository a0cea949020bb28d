//! Explores the one-writer protocol of a volume in a bucket.
//!
//! ```sh
//! cargo run --release -p twin-proof --example bucket -- bucket 0..100
//! cargo run --release -p twin-proof --example bucket -- one 'seed=7,writers=3'
//! cargo run --release -p twin-proof --features planted-faults --example bucket -- planted 0..2000
//! ```
//!
//! `bucket` runs a thousand random scenarios for each number and shrinks one that fails, `one` repeats a scenario,
//! `planted` looks for each planted fault.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::ExitCode;

use twin_bucket::{PLANTED, PlantedFault};
use twin_proof::bucket::{Ran, Scenario, command, run, shrink};

/// Scenarios for each number.
const EACH: u64 = 1000;

fn range(text: &str) -> Option<Range<u64>> {
    let (from, to) = text.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

fn explore(numbers: Range<u64>) -> Result<String, String> {
    let mut sum = Ran::default();
    let mut courses = BTreeSet::new();
    let count = numbers.end.saturating_sub(numbers.start);
    for seed in numbers {
        let scenario = Scenario::random(seed);
        match run(&scenario, PlantedFault::None) {
            Ok(ran) => {
                courses.insert(ran.course);
                sum.opened += ran.opened;
                sum.acknowledged += ran.acknowledged;
                sum.replaced += ran.replaced;
            }
            Err(what) => {
                let (least, why) = shrink(&scenario, what, PlantedFault::None);
                return Err(format!("{why}\nagain: {}", command(&least)));
            }
        }
    }
    let Ran { opened, acknowledged, replaced, .. } = sum;
    let distinct = courses.len();
    Ok(format!(
        "{count} runs, {distinct} of them distinct: {opened} writers, {replaced} of them replaced at work, \
         {acknowledged} flushes acknowledged"
    ))
}

fn planted(numbers: &Range<u64>) -> Result<String, String> {
    if !cfg!(feature = "planted-faults") {
        return Err("planted needs a build with --features planted-faults".into());
    }
    let mut missed = Vec::new();
    for &planted in PLANTED {
        let found = numbers.clone().find_map(|seed| {
            let scenario = Scenario::random(seed);
            run(&scenario, planted).err().map(|what| (seed, shrink(&scenario, what, planted)))
        });
        match found {
            Some((seed, (least, why))) => {
                println!("{planted:?}: found by {seed}: {why}\n  {least}")
            }
            None => missed.push(planted),
        }
    }
    if missed.is_empty() {
        Ok("all are found".into())
    } else {
        Err(format!("not found: {missed:?}"))
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["bucket", numbers] => range(numbers)
            .ok_or("bucket A..B".to_string())
            .and_then(|numbers| explore(numbers.start * EACH..numbers.end * EACH)),
        ["one", scenario] => scenario
            .parse()
            .and_then(|scenario| run(&scenario, PlantedFault::None))
            .map(|ran| format!("nothing is wrong: {ran:?}")),
        ["planted", numbers] => {
            range(numbers).ok_or("planted A..B".to_string()).and_then(|n| planted(&n))
        }
        _ => Err("bucket bucket A..B | one SCENARIO | planted A..B".into()),
    };
    match done {
        Ok(what) => {
            println!("{what}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            println!("{what}");
            ExitCode::FAILURE
        }
    }
}
