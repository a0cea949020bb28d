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

use twin_sim::torture::{self, Failure, Scenario};

type Run = fn(&Scenario) -> Result<String, Failure>;

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let kind = args.next().unwrap_or_default();
    let run: Run = match &*kind {
        "show" => |s| Ok(format!("{s}")),
        "run" => |s| torture::run(s).map(|o| format!("{} requests", o.requests)),
        _ => return Err("the kinds of runs: run, show".into()),
    };
    let mut failed = 0;
    for arg in args {
        for scenario in scenarios(&arg)? {
            let result = catch_unwind(AssertUnwindSafe(|| run(&scenario)));
            match result {
                Ok(Ok(words)) if kind == "show" || !arg.contains("..") => println!("{words}"),
                Ok(Ok(_)) => {}
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
    if failed == 0 { Ok(()) } else { Err(format!("{failed} runs failed")) }
}

/// One scenario from its text, or one for each seed of a range, with some fields set.
fn scenarios(arg: &str) -> Result<Vec<Scenario>, String> {
    let (range, fields) = arg.split_once(',').unwrap_or((arg, ""));
    let Some((from, to)) = range.split_once("..") else { return Ok(vec![arg.parse()?]) };
    let number = |n: &str| n.parse::<u64>().map_err(|e| format!("{arg:?}: {e}"));
    let mut scenarios: Vec<Scenario> = (number(from)?..number(to)?).map(Scenario::draw).collect();
    for pair in fields.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or(format!("{pair:?} has no value"))?;
        scenarios.iter_mut().try_for_each(|scenario| scenario.set(key, value))?;
    }
    Ok(scenarios)
}
