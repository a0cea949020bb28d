//! The results of claims for the terminal and for programs.

use crate::check::{Check, Kind};
use crate::claim::Judged;
use crate::claims::claims;
use crate::results::Results;
use crate::tally::tally;
use twin_report::units::list;

/// The claims and their results, for the terminal: a check's kind and source, our value beside the
/// paper's with its tolerance or bound, and the tally of each paper.
pub fn text(judged: &[Judged]) -> String {
    let mut out = String::new();
    for Judged { claim, checks } in judged {
        out += &format!("{}: {} [{}]\n", claim.id, claim.says, claim.source);
        for check in checks {
            let mark = if check.holds() { "holds" } else { "DOES NOT HOLD" };
            let (kind, comparison) = (check.kind.name(), check.comparison());
            out += &format!("  {}\n", check.what);
            out += &format!("    {kind}, {}: {comparison}: {mark}\n", claim.source);
            if let (false, Some(reason)) = (check.holds(), check.reason) {
                out += &format!("    because {reason}\n");
            }
        }
    }
    out + &tallies(judged)
}

/// The tallies of papers, a line each, and the checks that are not counted.
fn tallies(judged: &[Judged]) -> String {
    let mut out = String::new();
    for tally in tally(judged) {
        out += &format!("{}\n", tally.line());
        let apart = tally.apart_in_words();
        if !apart.is_empty() {
            out += &format!("  not counted: {apart}\n");
        }
    }
    out
}

/// How many statements hold, in one to three sentences.
pub fn verdict(judged: &[Judged]) -> String {
    let tallies = tally(judged);
    let counted: Vec<_> = tallies.iter().filter(|tally| tally.all > 0).collect();
    let (held, all) =
        counted.iter().fold((0, 0), |sum, tally| (sum.0 + tally.held, sum.1 + tally.all));
    let papers = match counted.len() {
        0 => return "Of what ran nothing is an independent statement.".into(),
        1 => format!("of {}", counted[0].paper.title()),
        papers => format!("of {papers} papers"),
    };
    let fail: Vec<String> = judged
        .iter()
        .filter(|one| one.checks.iter().any(|check| check.kind.counts() && !check.holds()))
        .map(|one| one.claim.id.to_owned())
        .collect();
    let rest = match &fail[..] {
        [] => String::new(),
        few @ ([_] | [_, _] | [_, _, _]) => format!(" Some do not in {}.", list(few)),
        many => format!(" Some do not in {} claims.", many.len()),
    };
    format!("{held} of {all} independent statements {papers} hold here.{rest}")
}

/// The results as JSON: the tallies and the checks.
pub fn json(judged: &[Judged]) -> serde_json::Value {
    let tallies = tally(judged);
    let tallies: Vec<_> = tallies
        .iter()
        .map(|tally| {
            serde_json::json!({
                "paper": tally.paper.short(),
                "line": tally.line(),
                "held": tally.held,
                "all": tally.all,
                "free_numbers": tally.paper.free_numbers(),
            })
        })
        .collect();
    serde_json::json!({ "tallies": tallies })
}

/// Every counted check that does not hold, as the table of docs/reproduction.md.
pub fn failures(judged: &[Judged]) -> String {
    let all = judged.iter().flat_map(|Judged { claim, checks }| {
        checks.iter().map(move |check| (claim.source, check.clone()))
    });
    table(all)
}

/// The same of kept answers, those of `--format json`: their figures, with the causes as they are known now.
pub fn failures_of(answers: &[serde_json::Value]) -> String {
    let all = claims().iter().flat_map(|claim| {
        let known = (claim.judge)(&Results::empty());
        let rows = answers.iter().flat_map(|answer| answer["rows"].as_array()).flatten();
        let own: Vec<Check> = rows
            .filter(|row| row["claim"] == claim.id)
            .filter_map(|row| kept(row, &known))
            .collect();
        own.into_iter().map(|check| (claim.source, check))
    });
    table(all)
}

/// A check with the figure and the kind of a kept row.
fn kept(row: &serde_json::Value, known: &[Check]) -> Option<Check> {
    let check = known.iter().find(|check| row["what"] == check.what.as_str())?;
    let kind = Kind::ALL.into_iter().find(|kind| row["kind"] == kind.name())?;
    // What is no number, or infinite, has no figure in JSON.
    let ours = row["ours"].as_f64().unwrap_or(f64::NAN);
    Some(Check { kind, ours, ..check.clone() })
}

fn table(checks: impl Iterator<Item = (&'static str, Check)>) -> String {
    let mut out = String::from(
        "| paper, section | statement | paper's | ours | cause |\n|---|---|---|---|---|\n",
    );
    for (source, check) in checks.filter(|(_, check)| check.kind.counts() && !check.holds()) {
        let tolerance = match check.paper.tolerance() {
            bound if bound.is_empty() => bound,
            tolerance => format!(" ({tolerance})"),
        };
        let (what, ours) = (&check.what, check.ours_in_words());
        let cause = check.reason.unwrap_or("open");
        out += &format!("| {source} | {what} | {}{tolerance} | {ours} | {cause} |\n", check.paper);
    }
    out
}

/// The checks, a row each.
pub fn rows(judged: &[Judged]) -> Vec<serde_json::Value> {
    let checks = judged.iter().flat_map(|Judged { claim, checks }| {
        checks.iter().map(move |check| {
            serde_json::json!({
                "claim": claim.id,
                "paper": claim.paper().short(),
                "source": claim.source,
                "kind": check.kind.name(),
                "counted": check.kind.counts(),
                "what": check.what,
                "expected": check.paper.to_string(),
                "tolerance": check.paper.tolerance(),
                "ours": check.ours,
                "holds": check.holds(),
                "reason": check.reason.filter(|_| !check.holds()),
            })
        })
    });
    checks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Check, Expect};
    use crate::claims::claims;

    #[test]
    fn the_table_of_failures_has_what_counts_and_does_not_hold_with_its_cause() {
        let checks = vec![
            Check::paper("a", Expect::Ratio(10.0), 15.0).because("it rained"),
            Check::order("b", Expect::AtMost(1.0), 1.5),
            Check::order("c", Expect::AtMost(1.0), 0.5),
            Check::own("d", Expect::AtMost(1.0), 1.5),
        ];
        let table = failures(&[Judged { claim: &claims()[0], checks }]);
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(lines.len(), 2, "{table}");
        assert_eq!(lines[0], "| LvC 2, fig. 1 | a | 10 (within 20%) | 15 | it rained |");
        assert!(lines[1].ends_with("| b | at most 1.00 | 1.50 | open |"), "{table}");
    }
}
