//! Instructions per operation, counted by valgrind: the same on every machine and under any load,
//! so that changes which make operations more expensive are noticed.
//!
//! The difference between two runs of different length is counted, so that startup does not matter.

use std::process::Command;

use super::super::bench::Bench;
use super::super::{Outcome, Scenario, Stop, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "instructions",
    about: "counts instructions of simulated operations and compares them with their budget",
    limit_s: (300, 300),
    run,
};

/// A benchmark with a number of files or transactions, twice, and the limit of instructions for
/// each further one through the whole stack: file system, cache, layout, simulated device. Each
/// limit is a tenth above the measured value; lower it when the value falls by more than that.
const BUDGETS: &[(&str, &str, [u64; 2], u64)] = &[
    (
        "a small file made, read, looked up and deleted",
        "small:warm=yes,files=",
        [100, 300],
        156_000,
    ),
    ("a name made, renamed, linked, looked up and removed", "meta:names=", [50, 150], 537_000),
    (
        "a transaction with an fsync",
        "tpcb:scan=no,accounts=10000,transactions=",
        [200, 1200],
        // A quarter of it is the simulated platter, which packs metadata; a mount does not do that.
        117_000,
    ),
];

fn run(bench: &Bench) -> Outcome {
    tools::need(bench, &[("valgrind", "valgrind")])?;
    let mut told = Vec::new();
    for (what, text, [few, many], budget) in BUDGETS {
        let (a, b) = (count(bench, text, *few)?, count(bench, text, *many)?);
        let each = b.saturating_sub(a) / (many - few);
        if each > *budget || each < budget / 10 * 8 {
            Err(format!("{what}: {each} instructions, the budget is {budget}"))?;
        }
        told.push(format!("{what}: {each}"));
    }
    Ok(told.join("; "))
}

/// Instructions of a whole run.
fn count(bench: &Bench, text: &str, number: u64) -> Result<u64, Stop> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(&bench.program);
    command.args(["bench", "--sim", "lfs", "--json"]).arg(format!("{text}{number}"));
    let output = command.output().map_err(|error| format!("valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let counted = said.lines().find_map(|line| line.split_once("Collected : "));
    match counted.and_then(|(_, number)| number.trim().parse().ok()) {
        Some(number) if output.status.success() => Ok(number),
        _ => Err(format!("valgrind: {}: {}", output.status, said.trim()))?,
    }
}
