//! What each choice is worth: the tallies of its papers with it and without it.

use super::choices::{self, Choice};
use super::{Claim, Paper, Results, Tally, clc, tally};
use crate::bench::BenchFailure;

/// The tallies of the papers that depend on a choice, with and without it.
#[derive(Clone, Debug)]
pub struct Worth {
    /// The choice.
    pub choice: &'static Choice,
    /// The tallies with it.
    pub with: Vec<Tally>,
    /// The tallies without it.
    pub without: Vec<Tally>,
    /// The score of the table of 1994 with and without it, if it depends on it.
    pub table: Option<[clc::Score; 2]>,
}

/// Judges the claims without each choice on which they depend. `results`: those of the claims.
///
/// # Errors
/// The first run that fails.
pub fn worths(
    claims: &[&'static Claim],
    results: &Results,
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Worth>, BenchFailure> {
    let mut all = Vec::new();
    let table = || clc::needs().into_iter().filter(|need| results.phases.contains_key(need));
    for choice in choices::all() {
        let claims = super::of_papers(claims, choice.papers);
        if claims.is_empty() {
            continue;
        }
        let with = tally(&super::judge(&claims, results));
        if !choice.has_run() {
            all.push(Worth { choice, with, without: Vec::new(), table: None });
            continue;
        }
        let run = &choice.without;
        let without = tally(&super::judge_varied(&claims, results, run, threads, progress)?);
        let changed = table().any(|need| (run.run)(&need) != need);
        let score = |results: &Results| clc::score(clc::cells(results).iter());
        let table = match choice.papers.contains(&Paper::Clc) && changed {
            true => {
                let needs = clc::needs();
                let other = super::run_watched(needs, &[], run, threads, progress)?;
                Some([score(results), score(&other)])
            }
            false => None,
        };
        all.push(Worth { choice, with, without, table });
    }
    Ok(all)
}

/// All choices with what each is worth, for the terminal.
pub fn text(worths: &[Worth]) -> String {
    let mut out = String::new();
    for Worth { choice, with, without, table } in worths {
        let Choice { name, what, value, reason, source, standing, instead, .. } = choice;
        out += &format!("{name} ({}): {what}: {value}\n", standing.name());
        if !reason.is_empty() {
            out += &format!("  {reason}\n");
        }
        out += &format!("  source: {source}\n");
        out += &match choice.has_run() {
            true => format!("  without it: {instead}\n"),
            false => "  no run shows what it is worth\n".into(),
        };
        for (with, without) in with.iter().zip(without) {
            let paper = with.paper.short();
            let (held, all) = (with.held, with.all);
            out += &format!("    {paper}: {held} of {all} hold, without it {}\n", without.held);
        }
        if let Some([with, without]) = table {
            let part = |s: &clc::Score| {
                let median = s.median * 100.0;
                format!(
                    "{median:.1}% median, {} and {} within 10 and 20%",
                    s.within_10, s.within_20
                )
            };
            out += &format!("    table: {}\n    without it: {}\n", part(with), part(without));
        }
    }
    out
}
