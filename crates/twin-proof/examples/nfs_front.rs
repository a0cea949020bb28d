//! Explores the front of the NFS server: what stands between sockets and server.
//!
//! ```sh
//! cargo run --release -p twin-proof --example nfs_front -- nfs-front 0..100
//! cargo run --release -p twin-proof --example nfs_front -- one 'seed=7,most=6,pipe=8192: 0:2 connect'
//! cargo run --release -p twin-proof --example nfs_front -- planted 0..2000
//! ```
//!
//! `nfs-front` runs a thousand random scenarios for each number and shrinks one that fails, `one` repeats a
//! scenario, `planted` looks for each planted mistake.

use std::ops::Range;
use std::process::ExitCode;

use twin_proof::nfs::front::{Base, Planted, Ran, Scenario, command, run, shrink};

/// Scenarios for each number.
const EACH: u64 = 1000;

fn range(text: &str) -> Option<Range<u64>> {
    let (from, to) = text.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

fn explore(numbers: Range<u64>, base: &Base) -> Result<(u64, Ran), String> {
    let mut sum = Ran::default();
    let count = numbers.end.saturating_sub(numbers.start);
    for seed in numbers {
        let scenario = Scenario::random(seed);
        match run(&scenario, base) {
            Ok(ran) => sum += ran,
            Err(what) => {
                let (least, why) = shrink(&scenario, what, base);
                return Err(format!("{why}\nagain: {}", command(&least)));
            }
        }
    }
    Ok((count, sum))
}

fn planted(numbers: &Range<u64>, base: &Base) -> Result<(), String> {
    let mut missed = Vec::new();
    for planted in Planted::ALL {
        let found = numbers.clone().find_map(|seed| {
            let scenario = Scenario::random(seed).with(planted);
            run(&scenario, base).err().map(|what| (seed, shrink(&scenario, what, base)))
        });
        match found {
            Some((seed, (least, why))) => {
                println!("{planted:?}: found by {seed}: {why}\nagain: {}", command(&least));
            }
            None => missed.push(planted),
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("not found: {missed:?}")) }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // Panics are reported with what repeats them.
    std::panic::set_hook(Box::new(|_| {}));
    let done = Base::make().and_then(|base| match words[..] {
        ["nfs-front", numbers] => {
            let numbers = range(numbers).ok_or("nfs-front A..B")?;
            explore(numbers.start * EACH..numbers.end * EACH, &base)
                .map(|(runs, sum)| println!("{runs} runs, {sum:?}"))
        }
        ["one", scenario] => {
            run(&scenario.parse()?, &base).map(|ran| println!("nothing is wrong: {ran:?}"))
        }
        ["planted", numbers] => planted(&range(numbers).ok_or("planted A..B")?, &base),
        _ => Err("nfs_front nfs-front A..B | one SCENARIO | planted A..B".into()),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            println!("{what}");
            ExitCode::FAILURE
        }
    }
}
