//! The results of claims for the terminal and for programs.

use super::{Judged, tally};

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

/// The results as JSON: the tallies and the checks.
pub fn json(judged: &[Judged]) -> serde_json::Value {
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
    let checks: Vec<_> = checks.collect();
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
    serde_json::json!({ "tallies": tallies, "checks": checks })
}
