//! The report of `twinfs validate`: errors by workload and configuration, and whether the order is right.

use std::sync::Arc;

use serde_json::{Value, json};
use twin_lab::{MachineFile, Validated, error_of};
use twin_report::table::fixed;
use twin_report::{Part, Table, cells};

use super::loads::Load;
use super::run::{Pair, means};
use crate::runner::median;

/// All that was measured and simulated.
pub struct Report {
    /// The machine on which it was.
    pub machine: Arc<MachineFile>,
    runs: u32,
    loads: Vec<(&'static str, &'static str, bool, Vec<Pair>)>,
    left_out: Vec<(&'static str, String)>,
}

/// Counts over a set of workloads.
#[derive(Default)]
struct Tally {
    /// Ratios of simulated to real time.
    ratios: Vec<f64>,
    /// Pairs of configurations that real runs tell apart, and how many of them are in order.
    ordered: (usize, usize),
    /// Ratios of simulated to recorded means of operations that took a tenth of the time or more.
    means: Vec<f64>,
    /// Ratios of single real runs to the median of the others: what a perfect prediction would be off.
    singly: Vec<f64>,
    /// Simulated times between the shortest and the longest real run.
    inside: usize,
}

impl Tally {
    fn within(ratios: &[f64], error: f64) -> usize {
        ratios.iter().filter(|&&ratio| (ratio - 1.0).abs() <= error).count()
    }

    /// The mean factor, whichever way: 1 is perfect.
    fn factor(&self) -> f64 {
        let logs: f64 = self.ratios.iter().map(|ratio| ratio.ln().abs()).sum();
        (logs / self.ratios.len().max(1) as f64).exp()
    }

    fn lines(&self) -> Vec<String> {
        let n = self.ratios.len();
        let of = |error| Tally::within(&self.ratios, error);
        let (right, told) = self.ordered;
        let m = self.means.len();
        vec![
            format!(
                "total time: {} of {n} pairs within 10%, {} within 25%, {} within 50%; mean factor \
                 {:.2}",
                of(0.1),
                of(0.25),
                of(0.5),
                self.factor()
            ),
            format!(
                "order: {right} of {told} pairs of configurations that real runs tell apart are in \
                 the right order"
            ),
            format!(
                "means of operations that take a tenth of the service time or more: {} of {m} \
                 within 20%",
                Tally::within(&self.means, 0.2)
            ),
            format!(
                "the machine itself: {} of {} single real runs within 10% of the median of the others, \
                 {} within 25%; {} of {n} simulated times lie between the shortest and the longest \
                 real run",
                Tally::within(&self.singly, 0.1),
                self.singly.len(),
                Tally::within(&self.singly, 0.25),
                self.inside
            ),
        ]
    }
}

impl Report {
    pub(super) fn new(
        machine: Arc<MachineFile>,
        runs: u32,
        left_out: Vec<(&'static str, String)>,
    ) -> Report {
        Report { machine, runs, loads: Vec::new(), left_out }
    }

    pub(super) fn add(&mut self, load: &Load, pairs: Vec<Pair>) {
        self.loads.push((load.name, load.about, load.seen, pairs));
    }

    /// The error of simulated times against each other, over all workloads; `None` with too few.
    pub fn validated(&self, date: String) -> Option<Validated> {
        let times = |pair: &Pair| (median(pair.real.clone()), median(pair.simulated.clone()));
        let of_load = |(_, _, _, pairs): &(_, _, _, Vec<Pair>)| pairs.iter().map(times).collect();
        let (error, pairs) = error_of(&self.loads.iter().map(of_load).collect::<Vec<_>>())?;
        // As many digits as such a figure has.
        Some(Validated { date, pairs, error: (error * 1000.0).round() / 1000.0 })
    }

    /// The same in words.
    fn against_each_other(&self) -> Option<String> {
        let Validated { pairs, error, .. } = self.validated(String::new())?;
        Some(format!(
            "Configurations against each other: 19 of 20 of all {pairs} pairs within a factor of \
             {error:.2}, below which `twinfs compare` ranks nothing."
        ))
    }

    fn tally(&self, seen: bool) -> Tally {
        let mut tally = Tally::default();
        for (_, _, _, pairs) in self.loads.iter().filter(|load| load.2 == seen) {
            tally.ratios.extend(pairs.iter().map(Pair::ratio));
            for pair in pairs {
                tally.singly.extend(singly(&pair.real));
                let (least, most) = range(&pair.real);
                tally.inside +=
                    usize::from((least..=most).contains(&median(pair.simulated.clone())));
            }
            for (i, a) in pairs.iter().enumerate() {
                for b in &pairs[i + 1..] {
                    let Some(real) = order(&a.real, &b.real) else { continue };
                    let simulated = median(a.simulated.clone()) < median(b.simulated.clone());
                    tally.ordered.1 += 1;
                    tally.ordered.0 += usize::from(simulated == real);
                }
            }
            if let Some(recorded_on) = pairs.first() {
                tally.means.extend(worthy(recorded_on).map(|(_, real, ours, _)| ours / real));
            }
        }
        tally
    }

    /// A row for each workload and configuration: medians, and the smallest and largest value.
    fn rows(&self) -> Vec<Value> {
        let row = |load: &str, seen: bool, pair: &Pair| {
            let (real, simulated) = (range(&pair.real), range(&pair.simulated));
            json!({
                "workload": load, "held_out": !seen, "config": pair.setup, "runs": self.runs,
                "real_s": median(pair.real.clone()), "real_min_s": real.0, "real_max_s": real.1,
                "simulated_s": median(pair.simulated.clone()), "simulated_min_s": simulated.0,
                "simulated_max_s": simulated.1, "error_share": pair.ratio() - 1.0,
            })
        };
        let mut rows = Vec::new();
        for (name, _, seen, pairs) in &self.loads {
            rows.extend(pairs.iter().map(|pair| row(name, *seen, pair)));
        }
        let left_out = |(name, why): &(&str, String)| json!({ "workload": name, "error": why });
        rows.extend(self.left_out.iter().map(left_out));
        rows
    }

    /// The report: counts over the workloads, and a row for each workload and configuration.
    pub fn report(&self) -> twin_report::Report {
        let mut report = twin_report::Report::answer("validate", "Fidelity");
        report.set_verdict(
            self.verdict(),
            "Measure: simulated over real total times, medians of runs.",
        );
        report.on_page(HEAD);
        report.on_page(self.conditions());
        for (title, seen) in TITLES {
            report.on_terminal(format!("{title}:"));
            report.on_page(Part::heading(title));
            let lines: Vec<String> =
                self.tally(seen).lines().iter().map(|line| format!("- {line}")).collect();
            report.add(lines.join("\n"));
        }
        self.against_each_other().into_iter().for_each(|line| report.add(line));
        report.on_page(Part::heading("All workloads"));
        let about = self.loads.iter().map(|(name, about, ..)| format!("- {name}: {about}"));
        report.add(about.collect::<Vec<_>>().join("\n"));
        report.add(self.times());
        report.add(
            "Means of operations on the configuration that was recorded, in microseconds, where they \
             took a tenth of the service time or more:",
        );
        report.add(self.means());
        for (name, why) in &self.left_out {
            report.add(format!("{name} was left out: {why}."));
        }
        report.add_rows(self.rows());
        report
    }

    /// How many simulated times are near the real ones, and how many orders are right.
    fn verdict(&self) -> String {
        let all = [true, false].map(|seen| self.tally(seen));
        let ratios: Vec<f64> = all.iter().flat_map(|tally| tally.ratios.clone()).collect();
        if ratios.is_empty() {
            return "No workload could be measured, so nothing is known of the simulations.".into();
        }
        let (right, told) = all
            .iter()
            .fold((0, 0), |sum, tally| (sum.0 + tally.ordered.0, sum.1 + tally.ordered.1));
        let near = Tally::within(&ratios, 0.25);
        let factor = Tally { ratios: ratios.clone(), ..Tally::default() }.factor();
        let order = match told {
            0 => "Real runs tell no two configurations apart.".into(),
            told => format!("The order of configurations is right in {right} of {told} pairs."),
        };
        format!(
            "Simulated times are within 25% of real ones in {near} of {} cases, by a factor of {factor:.2} on \
             average. {order}",
            ratios.len()
        )
    }

    /// The machine and the runs.
    fn conditions(&self) -> String {
        // A path says nothing to others.
        let about = self.machine.about.iter().filter(|(key, _)| *key != "directory");
        let mut lines: Vec<String> =
            about.map(|(key, value)| format!("- {key}: {value}")).collect();
        lines.push(format!("- runs of each pair: {} (medians below)", self.runs));
        let noisy = self.machine.warnings.iter();
        lines.extend(noisy.map(|warning| format!("- noisy while it was measured: {warning}")));
        lines.join("\n")
    }

    /// Real and simulated times.
    fn times(&self) -> Table {
        let columns = [
            "workload",
            "config",
            "real, s (least to most)",
            "simulated, s (least to most)",
            "error share",
        ];
        let mut table = Table::new(columns, 2);
        for (name, _, seen, pairs) in &self.loads {
            let mark = if *seen { "" } else { " (held out)" };
            for pair in pairs {
                let error = format!("{:+.1}%", (pair.ratio() - 1.0) * 100.0);
                let (real, simulated) = (spread(&pair.real), spread(&pair.simulated));
                let name = format!("{name}{mark}");
                table.push(cells![name, pair.setup, real, simulated, error]);
            }
        }
        table
    }

    /// Recorded and simulated means of operations.
    fn means(&self) -> Table {
        let mut table = Table::new(
            ["workload", "operation", "number", "recorded mean, us", "simulated mean, us"],
            2,
        );
        for (name, _, _, pairs) in &self.loads {
            for (verb, real, ours, count) in pairs.first().into_iter().flat_map(worthy) {
                table.push(cells![*name, verb, count, fixed(real, 1), fixed(ours, 1)]);
            }
        }
        table
    }
}

const TITLES: [(&str, bool); 2] =
    [("Workloads used while the models were built", true), ("Held out", false)];

const HEAD: &str = "How far simulations are from the machine that they simulate: real \
workloads, recorded on a mount of the log, then run for real on each configuration and simulated from \
the recording with a machine file of the same machine. The command `twinfs validate --markdown \
docs/fidelity.md DIR` makes this page; yours will differ.";

/// Kinds of operations that took a tenth of the recorded service time or more.
fn worthy(pair: &Pair) -> impl Iterator<Item = (&'static str, f64, f64, u64)> {
    let all = means(&pair.figures);
    let total: f64 = all.iter().map(|(_, real, _, count)| real * *count as f64).sum();
    all.into_iter().filter(move |(_, real, _, count)| real * *count as f64 >= total / 10.0)
}

/// Which of two was faster, if all of its runs were faster than all of the other's.
fn order(a: &[f64], b: &[f64]) -> Option<bool> {
    let most = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
    let least = |all: &[f64]| all.iter().copied().fold(f64::MAX, f64::min);
    if most(a) < least(b) {
        Some(true)
    } else if most(b) < least(a) {
        Some(false)
    } else {
        None
    }
}

/// The smallest and the largest value.
fn range(all: &[f64]) -> (f64, f64) {
    let most = all.iter().copied().fold(0.0, f64::max);
    (all.iter().copied().fold(f64::MAX, f64::min), most)
}

fn spread(all: &[f64]) -> String {
    let (least, most) = range(all);
    format!("{:.3} ({least:.3} to {most:.3})", median(all.to_vec()))
}

/// Each time over the median of the others; none of fewer than three.
fn singly(times: &[f64]) -> Vec<f64> {
    if times.len() < 3 {
        return Vec::new();
    }
    let but = |left_out: usize| {
        let others = times.iter().enumerate().filter(|(i, _)| *i != left_out);
        median(others.map(|(_, &time)| time).collect())
    };
    times.iter().enumerate().map(|(i, time)| time / but(i)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_held_against_the_median_of_the_others() {
        assert_eq!(singly(&[2.0, 1.0, 4.0, 1.0]), [2.0, 0.5, 4.0, 0.5]);
        assert!(singly(&[1.0, 2.0]).is_empty());
    }

    #[test]
    fn runs_that_overlap_have_no_order() {
        assert_eq!(order(&[1.0, 2.0], &[3.0, 4.0]), Some(true));
        assert_eq!(order(&[3.0, 4.0], &[1.0, 2.0]), Some(false));
        assert_eq!(order(&[1.0, 3.0], &[2.0, 4.0]), None);
    }

    #[test]
    fn a_tally_counts_errors_either_way() {
        let tally = Tally { ratios: vec![0.91, 1.2, 2.0, 0.5], ..Tally::default() };
        assert_eq!(Tally::within(&tally.ratios, 0.1), 1);
        assert_eq!(Tally::within(&tally.ratios, 0.25), 2);
        assert!((tally.factor() - (0.91f64.recip() * 1.2 * 2.0 * 2.0).powf(0.25)).abs() < 1e-9);
    }
}
