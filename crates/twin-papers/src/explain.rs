//! One check explained: both sides, the times behind our figure, and what turns it.
//!
//! Contract: which runs a check depends on is found by judging the claim without each of them, so that nothing
//! has to be declared and nothing can be declared wrongly. A choice turns a check if the check holds with it and
//! not without it, or the other way round; only what the choice changes is run.

use serde_json::{Value, json};
use twin_bench::{BenchFailure, Phase};
use twin_report::table::{Cell, Table, fixed, percent, seconds};
use twin_report::units::figure;
use twin_report::{Part, Report};

use crate::check::{Check, Expect};
use crate::choices::{self, Choice};
use crate::claim::Claim;
use crate::experiments::{self, Experiment};
use crate::need::Need;
use crate::progress::Progress;
use crate::reproduce::{STUDIES, Varied, judge, vary};
use crate::results::Results;

/// A check of a claim, by its place.
#[derive(Clone, Copy)]
pub struct Which {
    /// The claim.
    pub claim: &'static Claim,
    /// The place of the check among those of the claim.
    pub at: usize,
}

/// The claims one of whose checks a text may name: one if it can be said before anything is run, and otherwise
/// those that were given. What the checks of a study are shows only when it has been run.
///
/// # Errors
/// As of [`find`].
pub fn narrowed(claims: Vec<&'static Claim>, text: &str) -> Result<Vec<&'static Claim>, String> {
    let of_claim =
        |claim: &&&'static Claim| text.rsplit_once(':').is_some_and(|(id, _)| id == claim.id);
    let is_study = |claim: &&'static Claim| STUDIES.iter().any(|study| study.id == claim.id);
    if let Some(&claim) = claims.iter().find(of_claim) {
        return Ok(vec![claim]);
    }
    if let Some((id, number)) = text.rsplit_once(':')
        && number.parse::<usize>().is_ok()
    {
        // Refused before minutes of work: no study will have a check of this name either.
        return Err(format!("none of these claims is {id:?}: `twinfs reproduce --list` shows all"));
    }
    let (studies, others): (Vec<_>, Vec<_>) = claims.into_iter().partition(is_study);
    match find(&others, &Results::default(), text) {
        Ok(which) => Ok(vec![which.claim]),
        Err(why) if studies.is_empty() => Err(why),
        Err(_) => Ok(studies),
    }
}

/// The check that a text names: a claim and a number from 1, as `small-create:1`, or words of the check that only
/// one of these claims has.
///
/// # Errors
/// If none or several are meant; the several are named.
pub fn find(claims: &[&'static Claim], results: &Results, text: &str) -> Result<Which, String> {
    let all: Vec<(Which, String)> = claims.iter().flat_map(|claim| named(claim, results)).collect();
    let is_number = |(which, _): &&(Which, String)| name(which) == text;
    if let Some((which, _)) = all.iter().find(is_number) {
        return Ok(*which);
    }
    let has = |(_, what): &&(Which, String)| what.to_lowercase().contains(&text.to_lowercase());
    let found: Vec<&(Which, String)> = all.iter().filter(has).collect();
    let list = |found: &[&(Which, String)]| {
        let line = |(which, what): &&(Which, String)| format!("\n  {}  {what}", name(which));
        found.iter().map(line).collect::<String>()
    };
    match found.as_slice() {
        [(which, _)] => Ok(*which),
        [] => Err(format!(
            "no check of these claims is or contains {text:?}; they are:{}",
            list(&all.iter().collect::<Vec<_>>())
        )),
        several => Err(format!("{text:?} is in several checks; name one:{}", list(several))),
    }
}

/// How a check is named on the command line.
fn name(which: &Which) -> String {
    format!("{}:{}", which.claim.id, which.at + 1)
}

/// The checks of a claim.
fn named(claim: &'static Claim, results: &Results) -> Vec<(Which, String)> {
    let checks = (claim.judge)(results);
    let one = |(at, check): (usize, Check)| (Which { claim, at }, check.what);
    checks.into_iter().enumerate().map(one).collect()
}

/// A run without a choice.
struct Turned {
    choice: &'static Choice,
    tried: Tried,
}

/// Our figure with other runs, and whether the check is judged otherwise by it.
struct Tried {
    ours: Result<f64, String>,
    turns: bool,
}

/// Explains a check. `results`: those of its claim.
pub fn explain(which: Which, results: &Results, threads: usize, progress: &Progress) -> Report {
    let judged = judge(&[which.claim], results);
    let Some(check) = judged[0].checks.get(which.at) else {
        return Report::answer("reproduce", "A check that this claim does not have");
    };
    let runs = runs_behind(which, results, check.ours);
    let choices: Vec<&Choice> = choices::all()
        .filter(|choice| choice.has_run() && choice.papers.contains(&which.claim.paper()))
        .collect();
    let experiments: Vec<&'static Experiment> = experiments::of_claim(which.claim.id).collect();
    let variations = choices.iter().map(|choice| &choice.without);
    let varied = variations.chain(experiments.iter().map(|one| &one.runs)).map(|variation| {
        Varied { claims: vec![which.claim], beside: Vec::new(), variation, counted_only: false }
    });
    let runs_varied = vary(&varied.collect::<Vec<_>>(), results, threads, progress);
    let mut tried = runs_varied.into_iter().map(|ran| tried(which, check, ran));
    let turned: Vec<Turned> = choices
        .iter()
        .zip(tried.by_ref())
        .map(|(choice, tried)| Turned { choice, tried })
        .collect();
    let experiments: Vec<_> = experiments.into_iter().zip(tried).collect();
    report(which, check, &runs, (&turned, &experiments))
}

/// The runs on which the check depends, with the phases that count: without one of them, the figure is another.
fn runs_behind(which: Which, results: &Results, ours: f64) -> Vec<(Need, Vec<Phase>)> {
    let figure = |results: &Results| {
        (which.claim.judge)(results).get(which.at).map_or(f64::NAN, |check| check.ours)
    };
    let mut behind: Vec<(Need, Vec<Phase>)> = Vec::new();
    for need in (which.claim.needs)() {
        let Some(phases) = results.phases.get(&need) else { continue };
        if behind.iter().any(|(known, _)| *known == need) {
            continue;
        }
        let counts = |at: &usize| {
            let mut less = results.clone();
            if let Some(phases) = less.phases.get_mut(&need) {
                phases.remove(*at);
            }
            figure(&less).to_bits() != ours.to_bits()
        };
        let phases: Vec<Phase> =
            (0..phases.len()).filter(counts).map(|at| phases[at].clone()).collect();
        if !phases.is_empty() {
            behind.push((need, phases));
        }
    }
    behind
}

/// What a check is by other results.
fn tried(which: Which, check: &Check, results: Result<Results, BenchFailure>) -> Tried {
    let ours = results.map_err(|error| error.to_string()).map(|results| {
        judge(&[which.claim], &results)[0].checks.get(which.at).map_or(f64::NAN, |c| c.ours)
    });
    let turns = ours.as_ref().is_ok_and(|ours| check.paper.holds(*ours) != check.holds());
    Tried { ours, turns }
}

/// How far our figure is from the nearest one that would be judged otherwise, in words.
fn margin(check: &Check) -> String {
    let edges = match check.paper {
        Expect::Figure(paper) => vec![paper * 0.85, paper * 1.15],
        Expect::Ratio(paper) => vec![paper * 0.80, paper * 1.20],
        Expect::Within(paper, distance) => vec![paper - distance, paper + distance],
        Expect::Between(low, high) => vec![low * 0.85, high * 1.15],
        Expect::AtLeast(edge) | Expect::AtMost(edge) => vec![edge],
    };
    let nearest =
        edges.into_iter().min_by(|a, b| (a - check.ours).abs().total_cmp(&(b - check.ours).abs()));
    let Some(edge) = nearest.filter(|_| check.ours.is_finite()) else {
        return "it was not measured".into();
    };
    let far = match edge == 0.0 {
        true => figure((check.ours - edge).abs()),
        false => format!("{:.1}%", (check.ours / edge - 1.0).abs() * 100.0),
    };
    match check.holds() {
        true => format!("it holds, {far} from the limit {}", figure(edge)),
        false => format!("it does not hold, {far} from the limit {}", figure(edge)),
    }
}

fn report(
    which: Which,
    check: &Check,
    runs: &[(Need, Vec<Phase>)],
    (turned, experiments): (&[Turned], &[(&Experiment, Tried)]),
) -> Report {
    let claim = which.claim;
    let mut report = Report::answer("reproduce", format!("{}: {}", name(&which), check.what));
    let names: Vec<&str> = turned.iter().filter(|t| t.tried.turns).map(|t| t.choice.name).collect();
    let turns = match (names.len(), turned.len()) {
        (_, 0) => "No declared choice has a run of this paper.".to_owned(),
        (0, all) => format!("None of the {all} declared choices with runs turns it."),
        (_, all) => {
            format!("Of {all} declared choices with runs these turn it: {}.", names.join(", "))
        }
    };
    report.set_verdict(
        format!("{}: {}; {}. {turns}", check.what, check.comparison(), margin(check)),
        format!("{}: {}", claim.source, claim.says),
    );
    let counts = if check.kind.counts() { "counted" } else { "not counted" };
    let mut lines = format!("kind: {} ({counts})\n", check.kind.name());
    if let Some(reason) = check.reason {
        lines += &format!("likely reason, where it does not hold: {reason}\n");
    } else if !check.holds() {
        lines += "reason: open\n";
    }
    report.add(Part::Lines(lines));
    match runs.is_empty() {
        true => report.add(Part::Lines(
            "It is judged by a study of its own, which has no runs of benchmarks.\n".into(),
        )),
        false => {
            report.add(Part::heading("Our side, in parts of time"));
            report.add(parts_of_time(runs));
        }
    }
    if !experiments.is_empty() {
        report.add(Part::heading("Experiments"));
        let columns = ["experiment", "what is changed", "ours", "holds", "turns it"];
        let row = |(one, tried): &(&Experiment, Tried)| {
            let of = [Cell::from(one.name), Cell::from(one.about)];
            of.into_iter().chain(of_tried(tried, check)).collect::<Vec<Cell>>()
        };
        report.add(Table::new(columns, 2).with(experiments.iter().map(row)));
    }
    if !turned.is_empty() {
        report.add(Part::heading("Without each choice"));
        let columns = ["choice", "basis", "in its place", "ours", "holds", "turns it"];
        report.add(Table::new(columns, 3).with(turned.iter().map(|t| of_choice(t, check))));
    }
    let rows = turned.iter().map(|t| {
        json!({ "choice": t.choice.name, "basis": t.choice.basis.name(), "ours": t.tried.ours.as_ref().ok(), "turns": t.tried.turns })
    });
    report.add_rows(rows);
    let rows = experiments.iter().map(|(one, tried)| {
        json!({ "experiment": one.name, "ours": tried.ours.as_ref().ok(), "turns": tried.turns })
    });
    report.add_rows(rows);
    report.change_json(|row| {
        if row.is_object() {
            row["check"] = Value::from(name(&which));
        }
    });
    report
}

/// What each run and phase took, and where: processor and disk work at the same time, so their parts may add up to
/// more than the whole, and where both wait to less.
fn parts_of_time(runs: &[(Need, Vec<Phase>)]) -> Table {
    let columns = [
        "run",
        "phase",
        "amount",
        "seconds",
        "processor",
        "disk",
        "disk in writes",
        "log writes",
        "MB written",
        "ms a read",
    ];
    let row = |need: &Need, phase: &Phase| -> Vec<Cell> {
        let run = format!("{} {}", need.config, need.bench);
        let part = |seconds: f64| percent(seconds / phase.seconds);
        vec![
            Cell::from(run),
            Cell::from(phase.phase),
            fixed(phase.amount, 0),
            seconds(phase.seconds),
            Cell::or_dash(phase.cpu_share, percent),
            Cell::or_dash(phase.disk_share, percent),
            Cell::or_dash(phase.write_service_s, part),
            Cell::or_dash(phase.log_writes, |writes| fixed(writes, 0)),
            Cell::or_dash(phase.written_bytes, |bytes| fixed(bytes / 1e6, 1)),
            Cell::or_dash(phase.read_s, |s| fixed(s * 1e3, 2)),
        ]
    };
    let rows = runs.iter().flat_map(|(need, phases)| phases.iter().map(move |p| row(need, p)));
    Table::new(columns, 2).with(rows).giving_way(6)
}

fn of_choice(turned: &Turned, check: &Check) -> Vec<Cell> {
    let Choice { name, basis, instead, .. } = turned.choice;
    let of = [Cell::from(*name), Cell::from(basis.name()), Cell::from(*instead)];
    of.into_iter().chain(of_tried(&turned.tried, check)).collect()
}

/// Our figure, whether it holds, and whether that is otherwise.
fn of_tried(tried: &Tried, check: &Check) -> [Cell; 3] {
    let yes = |is: bool| Cell::from(if is { "yes" } else { "no" });
    let (ours, holds) = match &tried.ours {
        Ok(ours) => (Cell::from(figure(*ours)), yes(check.paper.holds(*ours))),
        Err(_) => (Cell::from("no run"), Cell::from("")),
    };
    [ours, holds, Cell::from(if tried.turns { "TURNS" } else { "" })]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::claims;

    fn all() -> Vec<&'static Claim> {
        claims().iter().collect()
    }

    #[test]
    fn a_check_is_found_by_its_number_or_by_words_that_only_it_has() {
        let find = |claims: &[&'static Claim], text| find(claims, &Results::default(), text);
        let first = find(&all(), "small-create:2").ok().unwrap();
        assert_eq!((first.claim.id, first.at), ("small-create", 1));
        let by_words = find(&all(), "TRANSACTIONS IN A LOG WRITE").ok().unwrap();
        assert_eq!(by_words.claim.id, "tpcb-segment");
        let several = find(&all(), "ffs-m8r0").err().unwrap();
        assert!(several.contains("create-by-size:1"), "{several}");
        let none = find(&all(), "no such thing").err().unwrap();
        assert!(none.contains("small-create:1"), "{none}");
    }

    #[test]
    fn only_what_may_be_meant_is_run() {
        let ids = |text| {
            narrowed(all(), text)
                .map(|claims| claims.iter().map(|claim| claim.id).collect::<Vec<_>>())
        };
        assert_eq!(ids("heuristic-cleaning:3").unwrap(), ["heuristic-cleaning"]);
        assert_eq!(ids("KB of a log write").unwrap(), ["tpcb-segment"]);
        assert_eq!(ids("attic-like, NFS-sync: idle 2 s").unwrap().len(), STUDIES.len());
        let refused = ids("no-such-claim:1").unwrap_err();
        assert!(refused.contains("--list"), "{refused}");
    }

    #[test]
    fn only_the_runs_that_a_check_needs_are_behind_it() {
        let which = find(&all(), &Results::default(), "large-write:3").ok().unwrap();
        let mut results = Results::default();
        for (at, need) in (which.claim.needs)().into_iter().enumerate() {
            let phase = |name| {
                let numbers =
                    [Some(100.0), Some(1.0 + at as f64), None, None, None, None, None, None];
                Phase::of_numbers(name, "MB/s", numbers).unwrap()
            };
            results.phases.insert(need, vec![phase("seq_write"), phase("rand_write")]);
        }
        let ours = (which.claim.judge)(&results)[which.at].ours;
        let behind = runs_behind(which, &results, ours);
        assert_eq!(behind.len(), 1, "only FFS-m1r2's");
        assert!(behind[0].0.config.starts_with("ffs-m1r2") && behind[0].1.len() == 1);
        assert_eq!(behind[0].1[0].phase, "seq_write");
    }

    #[test]
    fn the_margin_is_that_of_the_nearest_limit() {
        let margin = |paper, ours| margin(&Check::paper("c", paper, ours));
        assert!(margin(Expect::Ratio(10.0), 12.6).contains("does not hold, 5.0%"));
        assert!(margin(Expect::AtMost(1.0), 0.5).contains("it holds, 50.0%"));
        assert!(margin(Expect::AtLeast(1.0), f64::NAN).contains("not measured"));
    }
}
