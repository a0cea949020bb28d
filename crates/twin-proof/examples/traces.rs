//! Damages traces and flight logs by seed and uses them: `traces traces 1..100`, where each seed
//! stands for a hundred of both. `cargo xtask nightly soak traces` calls it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use twin_proof::{DamagedFile as Damaged, damaged_flight, damaged_trace};

fn main() -> Result<(), String> {
    let range = std::env::args().nth(2).ok_or("traces traces A..B")?;
    let (from, to) = range.split_once("..").ok_or("A..B")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    let mut failed = 0;
    let mut damaged = Damaged::default();
    for seed in number(from)?..number(to)? {
        for nth in seed * 100..seed * 100 + 100 {
            for use_one in [damaged_trace, damaged_flight] {
                let ended = catch_unwind(AssertUnwindSafe(|| use_one(nth, &mut damaged)));
                if !matches!(ended, Ok(Ok(()))) {
                    failed += 1;
                    println!("seed {seed} FAILED at number {nth}");
                }
            }
        }
        println!("seed {seed}: {} inputs so far, {} used", damaged.inputs, damaged.used);
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} failed")) }
}
