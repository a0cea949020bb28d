//! The reproduction: the runs of claims, and their judgement.

use twin_bench::BenchFailure;

use crate::check::{Expect, Kind};
use crate::claim::{Claim, Judged};
use crate::claims::{cut_and_paste, file_layout, heuristic, real_log};
use crate::need::Need;
use crate::pages::page_needs;
use crate::paper::Paper;
use crate::progress::{Progress, STEPS, part_of};
use crate::results::{OnEnd, Results, run_watched};
use crate::studies::days::{self, Days};
use crate::studies::file_layout::Study;
use crate::studies::real_log::Pairs;
use crate::studies::servers::Studies;
use crate::variation::Variation;

/// The claims that are judged by studies of their own, beside runs of benchmarks.
pub const STUDIES: [&Claim; 4] =
    [&heuristic::CLAIM, &cut_and_paste::CLAIM, &file_layout::CLAIM, &real_log::CLAIM];

/// The number of runs of claims, and of studies.
pub fn count(claims: &[&'static Claim], for_page: bool) -> usize {
    let mut needs = needs(claims, for_page).0;
    needs.sort();
    needs.dedup();
    let is_study = |claim: &&&Claim| STUDIES.iter().any(|study| study.id == claim.id);
    needs.len() + claims.iter().filter(is_study).count()
}

/// The runs of claims, and those of them whose history a page shows.
fn needs(claims: &[&'static Claim], for_page: bool) -> (Vec<Need>, Vec<(Need, &'static str)>) {
    let (extra, watched) = match for_page {
        true => page_needs(claims),
        false => (Vec::new(), Vec::new()),
    };
    (claims.iter().flat_map(|c| (c.needs)()).chain(extra).collect(), watched)
}

/// Judges the claims all of whose runs are among these; those of [`STUDIES`] are not.
pub fn judge_some(claims: &[&'static Claim], results: &Results) -> Vec<Judged> {
    let has = |need: &Need| results.phases.contains_key(need);
    let is_whole = |claim: &&&'static Claim| {
        let is_study = STUDIES.iter().any(|study| study.id == claim.id);
        !is_study && (claim.needs)().iter().all(has)
    };
    judge(&claims.iter().filter(is_whole).copied().collect::<Vec<_>>(), results)
}

/// Runs and judges claims on the models with a variation; with `for_page` also the runs that
/// [`html()`](crate::html) shows in addition. Runs that are known are not run again, unless a page shows
/// their history; of each other `on_end` hears when it has ended.
///
/// # Errors
/// The first run that fails.
pub fn reproduce(
    claims: &[&'static Claim],
    (for_page, known): (bool, &Results),
    variation: &Variation,
    threads: usize,
    (progress, on_end): (&Progress, OnEnd<'_>),
) -> Result<(Vec<Judged>, Results), BenchFailure> {
    let (mut needs, watched) = needs(claims, for_page);
    let is_shown = |need: &Need| watched.iter().any(|(own, _)| own == need);
    needs.retain(|need| is_shown(need) || !known.phases.contains_key(need));
    let of_days = claims.iter().any(|claim| claim.id == cut_and_paste::CLAIM.id);
    let days = if of_days { STEPS * days::runs() } else { 0 };
    let before = STEPS * needs.len();
    let of_runs = part_of(progress, (0, before, before + days));
    let mut results = run_watched((needs, &watched), variation, threads, &of_runs, on_end)?;
    for (need, phases) in &known.phases {
        results.phases.entry(need.clone()).or_insert_with(|| phases.clone());
    }
    if claims.iter().any(|claim| claim.id == heuristic::CLAIM.id) {
        results.servers = Studies::run(variation);
    }
    if of_days {
        let of_days = part_of(progress, (before, days, before + days));
        results.days = Days::run(variation, &of_days);
    }
    if claims.iter().any(|claim| claim.id == file_layout::CLAIM.id) {
        results.layouts = Study::run(variation);
    }
    if claims.iter().any(|claim| claim.id == real_log::CLAIM.id) {
        results.real_logs = Pairs::run();
    }
    Ok((judge(claims, &results), results))
}

/// Judges claims by results.
pub(crate) fn judge(claims: &[&'static Claim], results: &Results) -> Vec<Judged> {
    let judged = |&claim: &&'static Claim| Judged { claim, checks: (claim.judge)(results) };
    let mut all: Vec<Judged> = claims.iter().map(judged).collect();
    count_once(&mut all);
    all
}

/// What equals a counted check of the same paper in every bit, and is held against the same, is no further
/// evidence: two configurations that do the same are one. Whole numbers, such as counts of days and shares of
/// none or all, may be equal by chance and stay.
fn count_once(judged: &mut [Judged]) {
    let mut counted: Vec<(Paper, u64, Expect)> = Vec::new();
    for Judged { claim, checks } in judged {
        for check in checks.iter_mut().filter(|check| check.kind.counts()) {
            if !check.ours.is_finite() || check.ours.fract() == 0.0 {
                continue;
            }
            let one = (claim.paper(), check.ours.to_bits(), check.paper);
            match counted.contains(&one) {
                true => check.kind = Kind::Forced,
                false => counted.push(one),
            }
        }
    }
}

/// Judges claims on the models with a variation, given their results without it: only what the
/// variation changes is run.
pub(crate) fn judge_varied(
    claims: &[&'static Claim],
    unchanged: &Results,
    variation: &Variation,
    threads: usize,
    progress: &Progress,
) -> Result<Vec<Judged>, BenchFailure> {
    let needs = claims.iter().flat_map(|c| (c.needs)());
    let changed = needs.filter(|need| (variation.run)(need) != *need).collect();
    let mut results = run_watched((changed, &[]), variation, threads, progress, &|_, _| {})?;
    for (need, phases) in &unchanged.phases {
        results.phases.entry(need.clone()).or_insert_with(|| phases.clone());
    }
    let of_servers = claims.iter().any(|claim| claim.id == heuristic::CLAIM.id);
    results.servers = match of_servers && variation.changes_servers() {
        true => Studies::run(variation),
        false => unchanged.servers.clone(),
    };
    let of_days = claims.iter().any(|claim| claim.id == cut_and_paste::CLAIM.id);
    results.days = match of_days && variation.server.is_some() {
        true => Days::run(variation, progress),
        false => unchanged.days.clone(),
    };
    let of_layouts = claims.iter().any(|claim| claim.id == file_layout::CLAIM.id);
    results.layouts = match of_layouts && variation.ageing.is_some() {
        true => Study::run(variation),
        false => unchanged.layouts.clone(),
    };
    // No variation concerns them.
    results.real_logs = unchanged.real_logs.clone();
    Ok(judge(claims, &results))
}

/// The claims of some papers among these.
pub(crate) fn of_papers(claims: &[&'static Claim], papers: &[Paper]) -> Vec<&'static Claim> {
    claims.iter().copied().filter(|claim| papers.contains(&claim.paper())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;
    use crate::claims::claims;

    #[test]
    fn the_same_figure_counts_once_in_a_paper() {
        let claim = claims().iter().find(|claim| claim.id == "small-create").unwrap();
        let check = |ours, most| Check::order("c", Expect::AtMost(most), ours);
        let checks = [(0.3, 1.0), (0.3, 1.0), (0.3, 2.0), (5.0, 6.0), (5.0, 6.0), (0.31, 1.0)];
        let checks = checks.map(|(ours, most)| check(ours, most)).to_vec();
        let mut judged = [Judged { claim, checks }];
        count_once(&mut judged);
        let counts: Vec<bool> = judged[0].checks.iter().map(|check| check.kind.counts()).collect();
        assert_eq!(counts, [true, false, true, true, true, true]);
    }
}
