//! The long exploration of the write contract: `contract nfs A..B` runs a thousand seeds for each
//! number (`cargo xtask nightly soak nfs` does it), `contract one SEED` a single one.

#[path = "../tests/contract/client.rs"]
mod client;
#[path = "../tests/contract/run.rs"]
#[allow(dead_code)] // Bugs are planted by the tests.
mod run;
#[path = "../tests/contract/volume.rs"]
mod volume;

use std::process::ExitCode;

/// Runs for each number.
const EACH: u64 = 1000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &str| text.parse::<u64>().ok();
    let seeds = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["nfs", range] => range
            .split_once("..")
            .and_then(|(from, to)| Some(number(from)? * EACH..number(to)? * EACH)),
        ["one", seed] => number(seed).map(|seed| seed..seed + 1),
        _ => None,
    };
    let Some(seeds) = seeds else {
        eprintln!("contract nfs A..B, or contract one SEED");
        return ExitCode::from(2);
    };
    let (mut runs, mut calls) = (0u64, 0);
    for seed in seeds {
        match run::run(seed, None) {
            Ok(ran) => (runs, calls) = (runs + 1, calls + ran.calls),
            Err(what) => {
                println!("{what}\nagain: contract one {seed}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{runs} runs, {calls} calls");
    ExitCode::SUCCESS
}
