//! Instructions for an operation, counted by valgrind: the same on every machine and under any
//! load, so that a change that makes operations dearer is seen.
//!
//! The difference of two runs of different length counts, so that starting up does not.

use std::process::Command;

use super::super::bench::Bench;
use super::super::{Outcome, Scenario, Stop, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "instructions",
    about: "counts instructions for simulated operations and holds them to their budget",
    limit_s: (300, 300),
    run,
};

/// A benchmark with a number of files or transactions, twice, and the most instructions that each
/// further one may take through the whole stack: file system, cache, layout, simulated device. A
/// tenth above what was measured; when one becomes cheaper by more than that, lower it.
const BUDGETS: &[(&str, &str, [u64; 2], u64)] = &[
    ("a small file made, read, looked at and deleted", "small:warm=1,files=", [100, 300], 175_000),
    ("a name made, renamed, linked, looked up and removed", "meta:names=", [50, 150], 1_021_000),
    (
        "a transaction with an fsync",
        "tpcb:scan=0,accounts=10000,transactions=",
        [200, 1200],
        // A quarter of it is the simulated platter, which packs metadata: mounts do not.
        123_000,
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
