//! What each choice is worth: the tallies of its papers with it and without it.
//!
//! Contract: a choice without which some run fails costs only its own figures; the others are
//! reported.

use crate::choices::{self, Choice};
use crate::claim::Claim;
use crate::clc;
use crate::paper::Paper;
use crate::progress::Progress;
use crate::reproduce::{judge, judge_varied, of_papers};
use crate::results::{Results, run_watched};
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
    let mut all = Vec::new();
    for choice in choices::all() {
        let claims = of_papers(claims, choice.papers);
        if claims.is_empty() {
            continue;
        }
        let with = tally(&judge(&claims, results));
        let run = || without(choice, &claims, results, threads, progress);
        all.push(Worth { choice, with, without: choice.has_run().then(run) });
    }
    all
}

/// Judges claims without a choice.
fn without(
    choice: &Choice,
    claims: &[&'static Claim],
    results: &Results,
    threads: usize,
    progress: &Progress,
) -> Result<Without, BenchFailure> {
    let run = &choice.without;
    let tallies = tally(&judge_varied(claims, results, run, threads, progress)?);
    let mut of_table = clc::needs().into_iter().filter(|need| results.phases.contains_key(need));
    let changed = of_table.any(|need| (run.run)(&need) != need);
    let score = |results: &Results| clc::score(clc::cells(results).iter());
    let table = match choice.papers.contains(&Paper::Clc) && changed {
        true => {
            let other = run_watched((clc::needs(), &[]), run, threads, progress, &|_, _| {})?;
            Some([score(results), score(&other)])
        }
        false => None,
    };
    Ok(Without { tallies, table })
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
