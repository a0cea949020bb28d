//! What each choice is worth: the tallies of its papers with it and without it.
//!
//! Contract: a choice without which some run fails costs only its own figures; the others are
//! reported.

use crate::choices::{self, Choice};
use crate::claim::Claim;
use crate::clc;
use crate::need::Need;
use crate::paper::Paper;
use crate::progress::Progress;
use crate::reproduce::{Varied, judge, of_papers, vary};
use crate::results::Results;
use crate::tally::{Tally, tally};
use twin_bench::BenchFailure;

/// The tallies of the papers that depend on a choice, with and without it.
#[derive(Clone, Debug)]
pub struct Worth {
    /// The choice.
    pub choice: &'static Choice,
    /// The tallies with it.
    pub with: Vec<Tally>,
    /// What the runs without it give; `None` if there are no such runs.
    pub without: Option<Result<Without, BenchFailure>>,
}

/// The results without a choice.
#[derive(Clone, Debug)]
pub struct Without {
    /// The tallies, of the same papers.
    pub tallies: Vec<Tally>,
    /// The score of the table of 1994 with and without the choice, if it depends on it.
    pub table: Option<[clc::Score; 2]>,
}

/// Judges the claims without each choice on which they depend. `results`: those of the claims.
pub fn worths(
    claims: &[&'static Claim],
    results: &Results,
    threads: usize,
    progress: &Progress,
) -> Vec<Worth> {
    let of = |choice: &'static Choice| (choice, of_papers(claims, choice.papers));
    let concerned: Vec<_> =
        choices::all().map(of).filter(|(_, claims)| !claims.is_empty()).collect();
    let run = || concerned.iter().filter(|(choice, _)| choice.has_run());
    let varied = |(choice, claims): &(&'static Choice, Vec<&'static Claim>)| Varied {
        claims: claims.clone(),
        beside: if changes_table(choice, results) { clc::needs() } else { Vec::new() },
        variation: &choice.without,
        counted_only: false,
    };
    let varied: Vec<Varied> = run().map(varied).collect();
    let mut runs = vary(&varied, results, threads, progress).into_iter();
    let worth = |(choice, claims): &(&'static Choice, Vec<&'static Claim>)| Worth {
        choice,
        with: tally(&judge(claims, results)),
        without: match choice.has_run() {
            true => runs.next().map(|ran| ran.map(|ran| without(choice, claims, (results, &ran)))),
            false => None,
        },
    };
    concerned.iter().map(worth).collect()
}

/// Whether cells of the table of 1994, as far as it was run, depend on a choice.
fn changes_table(choice: &Choice, results: &Results) -> bool {
    let mut of_table = clc::needs().into_iter().filter(|need| results.phases.contains_key(need));
    let is_changed = |need: Need| (choice.without.run)(&need) != need;
    choice.papers.contains(&Paper::Clc) && of_table.any(is_changed)
}

/// Judges claims without a choice, whose results follow those with it.
fn without(
    choice: &Choice,
    claims: &[&'static Claim],
    (with, without): (&Results, &Results),
) -> Without {
    let score = |results: &Results| clc::score(clc::cells(results).iter());
    let table = changes_table(choice, with).then(|| [score(with), score(without)]);
    Without { tallies: tally(&judge(claims, without)), table }
}

/// All choices with what each is worth, for the terminal.
pub fn text(worths: &[Worth]) -> String {
    let mut out = String::new();
    for Worth { choice, with, without } in worths {
        let Choice { name, what, value, reason, source, basis, instead, .. } = choice;
        out += &format!("{name} ({}): {what}: {value}\n", basis.name());
        if !reason.is_empty() {
            out += &format!("  {reason}\n");
        }
        out += &format!("  source: {source}\n");
        out += &match without {
            Some(Ok(without)) => format!("  without it: {instead}\n{}", of_runs(with, without)),
            Some(Err(error)) => format!("  without it: {instead}\n    not known: {error}\n"),
            None => "  no run shows what it is worth\n".into(),
        };
    }
    out
}

/// The tallies, and the scores of the table, with a choice and without it.
fn of_runs(with: &[Tally], without: &Without) -> String {
    let mut out = String::new();
    for (with, without) in with.iter().zip(&without.tallies) {
        let paper = with.paper.short();
        let (held, all) = (with.held, with.all);
        out += &format!("    {paper}: {held} of {all} hold, without it {}\n", without.held);
    }
    if let Some([with, without]) = &without.table {
        let part = |s: &clc::Score| {
            let median = s.median * 100.0;
            format!("{median:.1}% median, {} and {} within 10 and 20%", s.within_10, s.within_20)
        };
        out += &format!("    table: {}\n    without it: {}\n", part(with), part(without));
    }
    out
}
