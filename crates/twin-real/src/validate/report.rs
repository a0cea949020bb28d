//! The report of `twinfs validate`: errors by workload and configuration, and whether the order is right.

use std::sync::Arc;

use serde_json::{Value, json};
use twin_lab::{MachineFile, Validated};
use twin_report::table::fixed;
use twin_report::{Form, Part, Table, cells};
use twin_trace::Verb;
use twin_verdict::{FIDELITY, error_of};

use super::loads::Load;
use super::picture::{Row, draw};
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

/// What the page begins with.
struct Answer {
    pairs: usize,
    /// Pairs within 20% and within 35%.
    within: [usize; 2],
    median: f64,
    /// The error that is largest, and where.
    worst: (f64, String),
    /// Pairs of configurations that real runs tell apart: simulated in the right order, too close to call, and in
    /// the wrong order.
    orders: [usize; 3],
    /// Means of fsync within 25%, and of writes within 50%, and how many there are.
    means: [(usize, usize); 2],
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

    /// What the page begins with; `None` without workloads.
    fn answer(&self) -> Option<Answer> {
        let named = self.loads.iter().flat_map(|(name, _, _, pairs)| {
            pairs.iter().map(move |pair| (format!("{name} on {}", pair.setup), pair))
        });
        let errors: Vec<(f64, String)> =
            named.map(|(name, pair)| (pair.ratio() - 1.0, name)).collect();
        let off = |error: f64| error.abs();
        let worst = errors.iter().max_by(|a, b| off(a.0).total_cmp(&off(b.0)))?.clone();
        let within = [0.2, 0.35].map(|most| errors.iter().filter(|e| off(e.0) <= most).count());
        let factor = self.validated(String::new()).map_or(FIDELITY, |found| found.error);
        let mut orders = [0; 3];
        let mut means = [(0, 0); 2];
        for (_, _, _, pairs) in &self.loads {
            for (i, a) in pairs.iter().enumerate() {
                for b in &pairs[i + 1..] {
                    let Some(real) = order(&a.real, &b.real) else { continue };
                    let (a, b) = (median(a.simulated.clone()), median(b.simulated.clone()));
                    let at = match a.max(b) / a.min(b) < factor {
                        true => 1,
                        false => 2 * usize::from((a < b) != real),
                    };
                    orders[at] += 1;
                }
            }
            for (verb, real, ours, _) in pairs.first().into_iter().flat_map(worthy) {
                let (at, most) = match verb {
                    verb if verb == Verb::Fsync.name() => (0, 0.25),
                    verb if verb == Verb::Write.name() => (1, 0.5),
                    _ => continue,
                };
                means[at].0 += usize::from((ours / real - 1.0).abs() <= most);
                means[at].1 += 1;
            }
        }
        let median = median(errors.iter().map(|e| off(e.0)).collect());
        Some(Answer { pairs: errors.len(), within, median, worst, orders, means })
    }

    /// The same in three sentences.
    pub fn sentences(&self) -> String {
        let Some(Answer { pairs, within, median, worst, orders, means }) = self.answer() else {
            return "No workload could run.".into();
        };
        let [near, far] = within;
        let (error, place) = worst;
        let [right, close, wrong] = orders;
        let [(fsyncs, all_fsyncs), (writes, all_writes)] = means;
        format!(
            "Simulated times of {pairs} pairs of a workload and a configuration were within 20% of the real ones \
             in {near} and within 35% in {far}: off by {:.0}% at the median and {:+.0}% at worst ({place}). Of \
             {} pairs of configurations that real runs tell apart, {right} were simulated in the right order, \
             {close} were too close to call and {wrong} in the wrong order. Single operations are further off: \
             the mean of fsync was within 25% in {fsyncs} of {all_fsyncs} workloads, and that of writes within \
             50% in {writes} of {all_writes}.",
            median * 100.0,
            error * 100.0,
            right + close + wrong,
        )
    }

    /// The picture: real and simulated times of all pairs.
    pub fn picture(&self) -> String {
        let mut rows = Vec::new();
        for (name, _, _, pairs) in &self.loads {
            for pair in pairs {
                let ((least, most), middle) = (range(&pair.real), median(pair.real.clone()));
                rows.push(Row {
                    name: format!("{name}, {}", pair.setup),
                    least: least / middle,
                    most: most / middle,
                    simulated: pair.ratio(),
                });
            }
        }
        draw(&rows)
    }

    /// The report in Markdown, with the picture of this name behind the first sentences.
    pub fn markdown(&self, picture: &str) -> String {
        let text = self.report().write(Form::Markdown);
        let shown = "Simulated over real time of each workload and configuration";
        text.replacen(HEAD, &format!("![{shown}]({picture})\n\n{HEAD}"), 1)
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
            self.sentences(),
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
        report.on_page(Part::heading("What is missing"));
        report.on_page(MISSING);
        if let Some(noise) = self.noise() {
            report.on_page(Part::heading("Noise while it was measured"));
            report.on_page(noise);
        }
        report.add_rows(self.rows());
        report
    }

    /// The machine and the runs.
    fn conditions(&self) -> String {
        // A path says nothing to others.
        let about = self.machine.about.iter().filter(|(key, _)| *key != "directory");
        let mut lines: Vec<String> =
            about.map(|(key, value)| format!("- {key}: {value}")).collect();
        lines.push(format!("- runs of each pair: {} (medians below)", self.runs));
        lines.join("\n")
    }

    /// Figures of the machine whose rounds differ much.
    fn noise(&self) -> Option<String> {
        let lines: Vec<String> =
            self.machine.warnings.iter().map(|warning| format!("- {warning}")).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
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

const MISSING: &str = "Parts of the machine that were found missing and are now measured by `twinfs calibrate`, \
each as a constant of its own: requests that find the device or the daemon after a pause (a daemon that had no \
request for 5 ms makes a file some 30 us later than a busy one, whose code and data are still in the processor's \
caches), memory that the kernel clears for blocks filled in part (some 6 us), stalls of the device with their \
true share, and, for replays with `compare --on`, the time of the kernel and of the replay itself. Not modelled: \
writes whose memory is new to the daemon in pieces of a mebibyte, so that one long fsync after many writes is \
simulated at a tenth to a half of its time; the kernel's writing of files that stay open; clients that take the \
processor from the daemon on a machine with few processors. A machine that others use has no single speed: two \
processors that share a core are each half as fast while both work, and single real runs are then as far from each \
other as the tables say.";

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
