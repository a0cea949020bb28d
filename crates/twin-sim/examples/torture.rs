//! Runs torture scenarios: what a failed test printed, or many seeds.
//!
//! ```sh
//! cargo run -p twin-sim --example torture -- run seed=7,workload=metadata
//! cargo run -p twin-sim --example torture -- run 1..500
//! ```
//!
//! The first argument is the kind of run; each further one is a scenario (`key=value` pairs) or a
//! range of seeds, for each of which a scenario is drawn, with fields to set behind it
//! (`1..500,ops=2000`).

use std::panic::{AssertUnwindSafe, catch_unwind};

use twin_sim::torture::{self, Depth, Explored, Failure, Scenario};

/// Gives what a run came to in words, and the power failures that it looked at.
type Run = fn(&Scenario) -> Result<(String, Explored), Failure>;

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let kind = args.next().unwrap_or_default();
    let run: Run = match &*kind {
        "show" => |s| Ok((s.to_string(), Explored::default())),
        "run" => |s| {
            let outcome = torture::run(s)?;
            Ok((format!("{} requests", outcome.requests), Explored::default()))
        },
        "crash" => |s| torture::crash(s, &Depth::default()).map(|e| (format!("{e:?}"), e)),
        "birth" => |s| torture::crash_birth(s, &Depth::default()).map(|e| (format!("{e:?}"), e)),
        _ => return Err("the kinds of runs: run, crash, birth, show".into()),
    };
    let (mut failed, mut total) = (0, Explored::default());
    for arg in args {
        for scenario in scenarios(&arg)? {
            let result = catch_unwind(AssertUnwindSafe(|| run(&scenario)));
            match result {
                Ok(Ok((words, explored))) => {
                    if kind == "show" || !arg.contains("..") {
                        println!("{words}");
                    }
                    total += explored;
                }
                Ok(Err(failure)) => {
                    failed += 1;
                    println!("seed {}: {failure}\n", scenario.seed);
                }
                Err(_) => {
                    failed += 1;
                    let command = torture::command(&kind, &scenario);
                    println!("seed {}: a panic; again: {command}\n", scenario.seed);
                }
            }
        }
    }
    if total != Explored::default() {
        println!("{total:?}");
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} runs failed")) }
}

/// One scenario from its text, or one for each seed of a range, with some fields set.
fn scenarios(arg: &str) -> Result<Vec<Scenario>, String> {
    let (range, fields) = arg.split_once(',').unwrap_or((arg, ""));
    let Some((from, to)) = range.split_once("..") else { return Ok(vec![arg.parse()?]) };
    let number = |n: &str| n.parse::<u64>().map_err(|e| format!("{arg:?}: {e}"));
    let mut scenarios: Vec<Scenario> =
        (number(from)?..number(to)?).map(Scenario::of_kind).collect();
    for pair in fields.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or(format!("{pair:?} has no value"))?;
        scenarios.iter_mut().try_for_each(|scenario| scenario.set(key, value))?;
    }
    Ok(scenarios)
}
