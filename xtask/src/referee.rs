//! `cargo xtask nightly referee`: plants wrong models behind the reproductions of the papers, and fails
//! unless each is found.
//!
//! Contract: `twinfs reproduce --wrong` runs the claims with the right model and then with each
//! wrong one. For each wrong model and each paper that it concerns, at least one counted check that
//! holds with the right model must not hold with the wrong one. The tallies of the right model must
//! be those of the golden table, which docs/status.md repeats; TWINFS_BLESS=1 rewrites that table.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::totals::Totals;

/// The tallies of the papers, a line each.
const GOLDEN: &str = "crates/twin-papers/golden/tally.txt";

pub(crate) fn run(root: &Path) -> Result<Totals, String> {
    println!("running the claims, then each wrong model: some minutes");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--release", "--locked", "-p", "twin-papers", "--"])
        .args(["--wrong", "--format", "json"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("twinfs reproduce: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let results: Value = serde_json::from_str(&text)
        .map_err(|error| format!("twinfs reproduce, {}: {error}", output.status))?;
    let lines = tallies(&results)?;
    let path = root.join(GOLDEN);
    if std::env::var_os("TWINFS_BLESS").is_some() {
        std::fs::write(&path, &lines).map_err(|error| format!("{GOLDEN}: {error}"))?;
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    print!("{lines}");
    let same = golden == lines;
    if !same {
        println!("THESE ARE NOT the tallies of {GOLDEN}; TWINFS_BLESS=1 accepts them");
    }
    let mut totals = Totals::one(same);
    totals += found(&results)?;
    Ok(totals)
}

/// The lines of the tallies.
fn tallies(results: &Value) -> Result<String, String> {
    let all = results["details"]["tallies"].as_array().filter(|all| !all.is_empty());
    let all = all.ok_or("twinfs reproduce gives no tallies")?;
    let line = |tally: &Value| tally["line"].as_str().map(|line| format!("{line}\n"));
    all.iter().map(line).collect::<Option<String>>().ok_or("a tally has no line".into())
}

/// Prints which checks find each wrong model, and counts a test for each paper that it concerns.
fn found(results: &Value) -> Result<Totals, String> {
    let mut totals = Totals::default();
    let wrong = results["details"]["wrong"].as_array().filter(|all| !all.is_empty());
    for model in wrong.ok_or("twinfs reproduce plants no wrong model")? {
        let text = |value: &Value| value.as_str().unwrap_or("?").to_string();
        println!("\n{}: {}", text(&model["name"]), text(&model["about"]));
        let papers = model["papers"].as_array().filter(|papers| !papers.is_empty());
        for paper in papers.ok_or("a wrong model concerns no paper")? {
            let turned = paper["turned"].as_array().map_or(&[][..], Vec::as_slice);
            let name = text(&paper["paper"]);
            match turned {
                [] => println!("  {name}: NO CHECK FINDS IT"),
                _ => println!("  {name}: {} checks find it", turned.len()),
            }
            for check in turned {
                println!("    {}: {}", text(&check[0]), text(&check[1]));
            }
            totals += Totals::one(!turned.is_empty());
        }
    }
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paper_without_a_check_that_turns_is_a_failure() {
        let papers = serde_json::json!([
            { "paper": "LvC", "turned": [["a", "ours 2 where 1 is the upper bound"]] },
            { "paper": "CLC", "turned": [] },
        ]);
        let wrong = serde_json::json!([{ "name": "w", "papers": papers }]);
        let results = serde_json::json!({ "details": { "wrong": wrong } });
        let totals = found(&results).unwrap();
        assert_eq!((totals.passed, totals.failed), (1, 1));
        assert!(found(&serde_json::json!({ "details": { "wrong": [] } })).is_err());
        assert!(found(&serde_json::json!({ "details": { "wrong": [{ "papers": [] }] } })).is_err());
    }

    #[test]
    fn tallies_are_lines() {
        let lines = serde_json::json!([{ "line": "a" }, { "line": "b" }]);
        let results = serde_json::json!({ "details": { "tallies": lines } });
        assert_eq!(tallies(&results).unwrap(), "a\nb\n");
        assert!(tallies(&serde_json::json!({ "details": { "tallies": [] } })).is_err());
    }
}
