//! One history on file systems for real and in simulation: FFS has every block of every file where the
//! simulation has it, the log has its score, and nothing fails on either, or on a file system of the host.

use std::process::Command;

use super::super::bench::Bench;
use super::super::{Outcome, Scenario, Stop, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "aged",
    about: "file systems grow old for real with the same operations as in simulation, and lie alike",
    limit_s: (180, 1800),
    run,
};

/// How far the score of the log may lie from the simulated one: its cleaner works beside the history, so
/// that it takes other segments each time.
const LOG_APART: f64 = 0.002;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    if !rustix::process::geteuid().is_root() {
        return Err(Stop::Skipped("only root may make loop devices".into()));
    }
    tools::need(bench, &[("mkfs.ext4", "e2fsprogs"), ("losetup", "mount")])?;
    let mut systems = "lfs,ffs,ext4".to_string();
    if bench.full {
        tools::need(bench, &[("mkfs.xfs", "xfsprogs")])?;
        systems += ",xfs";
    }
    let size = format!("{}M", bench.size(64, 2048));
    let mut age = Command::new(&bench.program);
    age.args(["age", "--profile", "meyer", "--size", &size, "--full", "60%", "--turnover", "1"]);
    age.args(["--seed", "3", "--format", "csv", "--on", &systems]);
    let said = bench.run(&mut age)?;
    let mut lines = said.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap_or_default();
    let mut told = Vec::new();
    for row in lines {
        let cell = |name: &str| -> Result<&str, String> {
            let at = names.iter().position(|own| *own == name);
            at.and_then(|at| row.get(at).copied()).ok_or_else(|| format!("no {name} in {said}"))
        };
        let (system, failed) = (cell("system")?, cell("failed")?);
        if failed != "0" {
            return Err(format!("{system}: {failed} operations failed").into());
        }
        let (real, simulated) = (cell("layout_score")?, cell("simulated_layout_score")?);
        // A larger volume has sessions that are longer than data waits in a mount.
        let must_be_same = system == "ffs" && !bench.full;
        if must_be_same && cell("simulated_is_same_map")? != "true" {
            return Err(format!(
                "{system}: blocks lie elsewhere than in simulation; scores {real} and {simulated}"
            )
            .into());
        }
        if !simulated.is_empty() && (number(real)? - number(simulated)?).abs() > LOG_APART {
            return Err(format!("{system}: score {real}, in simulation {simulated}").into());
        }
        let slow_down = number(cell("slow_down")?)?;
        told.push(match simulated {
            "" => format!("{system} {:.4}, {slow_down:.2}x", number(real)?),
            _ => format!("{system} {real} (simulated {simulated}), {slow_down:.2}x"),
        });
    }
    if told.len() != systems.split(',').count() {
        return Err(format!("not all of {systems} are in {said}").into());
    }
    told.push(one_that_cannot(bench)?);
    Ok(told.join("; "))
}

/// A file system that cannot be made (xfs on so small a device) does not end the others: they are told,
/// then why it is missing.
fn one_that_cannot(bench: &Bench) -> Result<String, String> {
    if !tools::in_path("mkfs.xfs") {
        return Ok("not tried with one that cannot take part: there is no mkfs.xfs".into());
    }
    let age = "age --profile meyer --size 16M --full 20% --turnover 0.1 --seed 3 --format csv";
    let program = bench.program.display();
    // The exit status must be that of a failure.
    bench.shell(&bench.dir, &format!("! {program} {age} --on xfs,ext4 >rows 2>why"))?;
    let read = |name| {
        std::fs::read_to_string(bench.dir.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let (rows, why) = (read("rows")?, read("why")?);
    let systems: Vec<_> = rows.lines().skip(1).filter_map(|row| row.split(',').next()).collect();
    if systems != ["ext4"] || !why.contains("xfs could not take part: ") {
        return Err(format!("with xfs on 16 MB: the rows are of {systems:?}, and it says {why}"));
    }
    Ok("without xfs, which refuses 16 MB, ext4 is told".into())
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}
