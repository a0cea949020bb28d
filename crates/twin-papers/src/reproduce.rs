//! The reproduction: the runs of claims, and their judgement.

use twin_bench::BenchFailure;

use crate::check::{Expect, Kind};
use crate::claim::{Claim, Judged};
use crate::claims::{aged_speeds, cut_and_paste, file_layout, heuristic, real_log};
use crate::need::Need;
use crate::pages::page_needs;
use crate::paper::Paper;
use crate::progress::Progress;
use crate::results::{OnEnd, Results};
use crate::running::{Wanted, run_each, run_one};
use crate::studies::{Part, aged_log, days, file_layout as layouts, real_log as pairs, servers};
use crate::variation::Variation;

/// The claims that are judged by studies of their own, beside runs of benchmarks.
pub const STUDIES: [&Claim; 5] = [
    &heuristic::CLAIM,
    &cut_and_paste::CLAIM,
    &aged_speeds::CLAIM,
    &file_layout::CLAIM,
    &real_log::CLAIM,
];

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
    let wanted = Wanted { needs, watched: &watched, parts: parts(claims), variation };
    let mut results = run_one(wanted, threads, progress, on_end)?;
    for (need, phases) in &known.phases {
        results.phases.entry(need.clone()).or_insert_with(|| phases.clone());
    }
    Ok((judge(claims, &results), results))
}

/// The runs of the studies that claims need.
fn parts(claims: &[&'static Claim]) -> Vec<Part> {
    let has = |study: &Claim| claims.iter().any(|claim| claim.id == study.id);
    let mut parts = Vec::new();
    if has(&heuristic::CLAIM) {
        parts.extend((0..servers::count()).map(Part::Server));
    }
    if has(&cut_and_paste::CLAIM) {
        parts.extend((0..days::count()).map(Part::Day));
    }
    if has(&file_layout::CLAIM) {
        parts.extend((0..layouts::count()).map(Part::Layout));
    } else if has(&aged_speeds::CLAIM) {
        parts.extend(aged_log::of_layouts().map(Part::Layout));
    }
    if has(&aged_speeds::CLAIM) {
        parts.extend((0..aged_log::count()).map(Part::AgedLog));
    }
    if has(&real_log::CLAIM) {
        parts.extend((0..pairs::count()).map(Part::RealLog));
    }
    parts
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

/// Claims, runs beside theirs, and the variation with which both are run.
pub(crate) struct Varied {
    pub(crate) claims: Vec<&'static Claim>,
    pub(crate) beside: Vec<Need>,
    pub(crate) variation: &'static Variation,
    /// Runs on which no counted check depends are left as they are without the variation.
    pub(crate) counted_only: bool,
}

/// The results of claims with variations, given those without: only what a variation changes is run, and once for
/// all variations that change it into the same.
pub(crate) fn vary(
    all: &[Varied],
    unchanged: &Results,
    threads: usize,
    progress: &Progress,
) -> Vec<Result<Results, BenchFailure>> {
    let wanted: Vec<Wanted<'_>> = all.iter().map(|varied| varied.wanted(unchanged)).collect();
    let results = run_each(&wanted, unchanged, threads, (progress, &|_, _| {}));
    let whole = |(varied, results): (&Varied, Result<Results, BenchFailure>)| {
        results.map(|results| varied.completed(results, unchanged))
    };
    all.iter().zip(results).map(whole).collect()
}

impl Varied {
    /// What the variation changes.
    fn wanted(&self, unchanged: &Results) -> Wanted<'_> {
        let variation = self.variation;
        let counts = |claim: &&&'static Claim| {
            let checks = (claim.judge)(unchanged);
            !self.counted_only || checks.iter().any(|check| check.kind.counts())
        };
        let claims: Vec<&'static Claim> = self.claims.iter().filter(counts).copied().collect();
        let needs = claims.iter().flat_map(|claim| (claim.needs)());
        let is_new =
            |need: &Need| (variation.run)(need) != *need || !unchanged.phases.contains_key(need);
        let needs = needs.chain(self.beside.iter().cloned()).filter(is_new).collect();
        let is_changed = |part: &Part| match *part {
            Part::Server(at) => {
                variation.changes_servers() && (servers::counts(at) || !self.counted_only)
            }
            Part::Day(at) => {
                days::is_changed(at, variation) && (days::counts(at) || !self.counted_only)
            }
            Part::Layout(_) => variation.ageing.is_some(),
            // No variation concerns them.
            Part::RealLog(_) | Part::AgedLog(_) => false,
        };
        let parts = parts(&claims).into_iter().filter(is_changed).collect();
        Wanted { needs, watched: &[], parts, variation }
    }

    /// These results, and for what was not run again the unchanged ones.
    fn completed(&self, results: Results, unchanged: &Results) -> Results {
        let Results { mut phases, servers, days, layouts, .. } = results;
        for (need, unchanged) in &unchanged.phases {
            phases.entry(need.clone()).or_insert_with(|| unchanged.clone());
        }
        let has = |study: &Claim| self.claims.iter().any(|claim| claim.id == study.id);
        let mut whole = Results::of(phases);
        if has(&heuristic::CLAIM) {
            whole.servers.all = instead(&unchanged.servers.all, servers.all);
        }
        if has(&cut_and_paste::CLAIM) {
            whole.days.0 = instead(&unchanged.days.0, days.0);
        }
        if has(&file_layout::CLAIM) || has(&aged_speeds::CLAIM) {
            whole.layouts.all = instead(&unchanged.layouts.all, layouts.all);
            whole.aged_logs = unchanged.aged_logs.clone();
        }
        if has(&real_log::CLAIM) {
            whole.real_logs = unchanged.real_logs.clone();
        }
        whole
    }
}

/// Those of the changed ones that there are, and the unchanged ones in place of the others.
fn instead<T: Clone>(unchanged: &[Option<T>], changed: Vec<Option<T>>) -> Vec<Option<T>> {
    let mut all = unchanged.to_vec();
    for (at, changed) in changed.into_iter().enumerate().filter(|(_, one)| one.is_some()) {
        if all.len() <= at {
            all.resize_with(at + 1, || None);
        }
        all[at] = changed;
    }
    all
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
