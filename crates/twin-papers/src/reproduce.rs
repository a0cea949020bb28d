//! The reproduction: the runs of claims, and their judgement.

use twin_bench::BenchFailure;

use crate::claim::{Claim, Judged};
use crate::claims::{cut_and_paste, file_layout, heuristic, real_log};
use crate::need::Need;
use crate::pages::page_needs;
use crate::paper::Paper;
use crate::progress::{Progress, STEPS, part_of};
use crate::results::{Results, run_watched};
use crate::studies::days::{self, Days};
use crate::studies::file_layout::Study;
use crate::studies::real_log::Pairs;
use crate::studies::servers::Studies;
use crate::variation::Variation;

/// Runs and judges claims on the models with a variation; with `for_page` also the runs that
/// [`html()`](crate::html) shows in addition.
///
/// # Errors
/// The first run that fails.
pub fn reproduce(
    claims: &[&'static Claim],
    for_page: bool,
    variation: &Variation,
    threads: usize,
    progress: &Progress,
) -> Result<(Vec<Judged>, Results), BenchFailure> {
    let (extra, watched) = match for_page {
        true => page_needs(claims),
        false => (Vec::new(), Vec::new()),
    };
    let needs: Vec<Need> = claims.iter().flat_map(|c| (c.needs)()).chain(extra).collect();
    let of_days = claims.iter().any(|claim| claim.id == cut_and_paste::CLAIM.id);
    let days = if of_days { STEPS * days::runs() } else { 0 };
    let before = STEPS * needs.len();
    let of_runs = part_of(progress, (0, before, before + days));
    let mut results = run_watched(needs, &watched, variation, threads, &of_runs)?;
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
    claims.iter().map(|&claim| Judged { claim, checks: (claim.judge)(results) }).collect()
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
    let mut results = run_watched(changed, &[], variation, threads, progress)?;
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
