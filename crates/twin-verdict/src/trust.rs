//! How far simulated times are trusted when configurations are compared.
//!
//! Contract: what counts is the error of a ratio. For a workload that ran for real and simulated on
//! two configurations it is the factor between the real and the simulated ratio of their times: an
//! error that both share does not change their order and does not count. [`error_of`] is the factor
//! that 19 of 20 such pairs do not exceed. Times that are closer to each other than that are not
//! ranked. Decision 19 (docs/decisions) says why there is one figure for all pairs.

use twin_lab::{Checked, Config, Validated};

/// The error of docs/fidelity.md: [`error_of`] its table. A test compares the two.
pub const FIDELITY: f64 = 1.30;
/// The share of pairs that the error covers.
const COVERED: f64 = 0.95;
/// The fewest pairs of configurations that an error can be told from: with fewer, the share that it
/// covers would be the largest value.
pub(crate) const FEWEST_PAIRS: usize = 20;

/// The error of ratios over several workloads: for each workload the real and the simulated seconds
/// of each configuration. Gives the error as a factor of at least 1, and the number of pairs; `None`
/// with fewer than `FEWEST_PAIRS`, or if a time is not positive.
pub fn error_of(workloads: &[Vec<(f64, f64)>]) -> Option<(f64, usize)> {
    let mut factors = Vec::new();
    for times in workloads {
        let ratios: Vec<f64> = times.iter().map(|(real, simulated)| simulated / real).collect();
        for (nth, a) in ratios.iter().enumerate() {
            factors.extend(ratios[nth + 1..].iter().map(|b| (a / b).max(b / a)));
        }
    }
    let known = factors.len() >= FEWEST_PAIRS && factors.iter().all(|factor| factor.is_finite());
    factors.sort_by(f64::total_cmp);
    let at = (COVERED * factors.len() as f64).ceil() as usize;
    known.then(|| (factors[at.saturating_sub(1)], factors.len()))
}

/// Where the error comes from that is applied to simulated times.
#[derive(Clone, Debug, PartialEq)]
enum Source {
    /// A validation on the machine that is simulated, at this date.
    Validation(String),
    /// docs/fidelity.md, or the check of this machine at this date if that is further off: the machine was
    /// measured, but not validated.
    OtherMachine,
    /// docs/fidelity.md: disks or processors are models, and no machine stands behind them.
    Models(String),
}

/// The error that is applied to simulated times, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Trust {
    /// Times whose ratio is below this factor are too close to call.
    pub factor: f64,
    source: Source,
    /// What the check after the calibration found, the one that is furthest off.
    checked: Option<Checked>,
}

impl Trust {
    /// What is known of these configurations. If they differ in that, the least that is known holds.
    pub fn of<'a>(configs: impl IntoIterator<Item = &'a Config>) -> Trust {
        let (mut models, mut found): (Vec<&str>, Vec<Option<Validated>>) = Default::default();
        let mut checked: Option<Checked> = None;
        for config in configs {
            match &config.machine {
                Some(machine) if config.is_on_measured_disk() => {
                    found.push(machine.validated.clone());
                    let found = machine.checked.clone();
                    checked = checked.into_iter().chain(found).max_by(further_off);
                }
                _ if !models.contains(&config.disk.name) => models.push(config.disk.name),
                _ => {}
            }
        }
        let validated: Option<Vec<Validated>> = found.into_iter().collect();
        let worst =
            |all: Vec<Validated>| all.into_iter().max_by(|a, b| a.error.total_cmp(&b.error));
        let (factor, source) = match validated {
            _ if !models.is_empty() => (FIDELITY, Source::Models(models.join(", "))),
            Some(all) => match worst(all) {
                Some(Validated { date, error, .. }) => (error.max(1.0), Source::Validation(date)),
                None => (FIDELITY, Source::Models("no disk".into())),
            },
            None => {
                let between = checked.as_ref().map_or(1.0, |checked| checked.between);
                (FIDELITY.max(between), Source::OtherMachine)
            }
        };
        // Models of disks are not what was checked.
        let checked = checked.filter(|_| models.is_empty());
        Trust { factor, source, checked }
    }

    /// Where the error comes from, in a few words.
    pub fn source(&self) -> &'static str {
        match self.source {
            Source::Validation(_) => "validated on this machine",
            Source::OtherMachine => "docs/fidelity.md, of another machine",
            Source::Models(_) => "docs/fidelity.md, models of disks",
        }
    }

    /// What a verdict on total times, or on latencies, holds for, as a sentence or two.
    pub(crate) fn words(&self, on_latencies: bool) -> String {
        let factor = self.factor;
        let mut words = match &self.source {
            Source::Validation(date) => format!(
                "Simulated times are trusted to a factor of {factor:.2} against each other, the \
                 error that a validation of this machine ({date}) found."
            ),
            Source::OtherMachine => format!(
                "Simulated times are trusted to a factor of {factor:.2} against each other, the \
                 error of docs/fidelity.md, which is that of another machine: `twinfs validate \
                 --machine FILE` finds this machine's own."
            ),
            Source::Models(disks) => format!(
                "This holds for models ({disks}), which stand for no machine that was measured. \
                 Nothing is ranked within a factor of {factor:.2}, the error that docs/fidelity.md \
                 found on a machine that was."
            ),
        };
        if let Some(checked) = &self.checked {
            words += &format!(" {}", said(checked));
        }
        if on_latencies {
            words += " The error is that of total times: latencies of single operations are further \
                      off.";
        }
        words
    }
}

/// Which of two checks is further off.
fn further_off(a: &Checked, b: &Checked) -> std::cmp::Ordering {
    let off = |checked: &Checked| checked.worst().max(1.0 / checked.worst());
    off(a).total_cmp(&off(b))
}

/// Beyond this factor a check says that the machine was not the one that was measured.
const DISTURBED: f64 = 1.5;

/// What a check found, as a sentence or two.
fn said(checked: &Checked) -> String {
    let Checked { date, between, .. } = checked;
    let times = checked.times.iter().map(|(layout, time)| format!("{time:.2} ({layout})"));
    let times = twin_report::units::list(&times.collect::<Vec<_>>());
    let mut words = format!(
        "Checked with a short real run ({date}), simulated times were {times} of the real ones, and \
         {between:.2} times off against each other."
    );
    let worst = checked.worst();
    if worst.max(1.0 / worst) > DISTURBED {
        words += " The machine was not as it had been measured: calibrate again when it is quiet.";
    }
    words
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use twin_lab::{
        Device, Distribution, Fuse, MACHINE_FORMAT, MachineFile, Processor, Stalls, Transfers,
    };

    #[test]
    fn an_error_that_all_configurations_share_does_not_count() {
        let shared = vec![(1.0, 2.0), (3.0, 6.0), (0.5, 1.0)];
        let (factor, pairs) = error_of(&vec![shared; 7]).unwrap();
        assert!((factor - 1.0).abs() < 1e-12);
        assert_eq!(pairs, 21);
    }

    #[test]
    fn the_error_covers_nineteen_of_twenty_pairs() {
        // Errors of 1.01 to 1.20, whichever is simulated too long.
        let pair = |n: u32| {
            let error = 1.0 + f64::from(n) / 100.0;
            if n.is_multiple_of(2) {
                vec![(1.0, error), (2.0, 2.0)]
            } else {
                vec![(1.0, 1.0), (2.0, 2.0 * error)]
            }
        };
        let all: Vec<_> = (1..=20).map(pair).collect();
        let (factor, pairs) = error_of(&all).unwrap();
        assert!((factor - 1.19).abs() < 1e-9, "{factor}");
        assert_eq!(pairs, 20);
        assert_eq!(error_of(&all[1..]), None, "too few");
        let broken: Vec<_> = (0..30).map(|_| vec![(0.0, 1.0), (1.0, 1.0)]).collect();
        assert_eq!(error_of(&broken), None);
    }

    /// Rows of the table: `| workload | configuration | real (least to most) | simulated (..) | ..`.
    #[test]
    fn the_constant_is_the_error_of_the_table_in_the_documentation() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fidelity.md");
        let page = std::fs::read_to_string(path).unwrap();
        let mut workloads: Vec<(&str, Vec<(f64, f64)>)> = Vec::new();
        for row in page.lines().filter(|line| line.contains(" to ") && line.starts_with("| ")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let first = |cell: &str| cell.split(' ').next().and_then(|word| word.parse().ok());
            let (Some(real), Some(simulated)) = (first(cells[3]), first(cells[4])) else {
                continue;
            };
            match workloads.last_mut() {
                Some((name, times)) if *name == cells[1] => times.push((real, simulated)),
                _ => workloads.push((cells[1], vec![(real, simulated)])),
            }
        }
        let times: Vec<_> = workloads.into_iter().map(|(_, times)| times).collect();
        let (factor, pairs) = error_of(&times).unwrap();
        assert!(pairs >= 66, "11 workloads or more, 6 pairs of 4 configurations: {pairs}");
        assert!((factor - FIDELITY).abs() < 0.005, "{factor}: FIDELITY is to follow");
    }

    /// A machine that was measured.
    fn measured() -> MachineFile {
        let times = vec![Distribution::of(4096, (1..=40).map(f64::from).collect(), 20)];
        let transfers = Transfers {
            alone: times.clone(),
            rate_4k: [("1".into(), 10_000.0), ("32".into(), 50_000.0)].into(),
            bytes_per_s: 1e9,
            stalls: Stalls::default(),
        };
        MachineFile {
            format: MACHINE_FORMAT,
            about: [("device".into(), "a test".into())].into(),
            warnings: Vec::new(),
            validated: None,
            checked: None,
            fuse: Fuse::default(),
            cold: Vec::new(),
            processor: [("lfs".into(), Processor::default())].into(),
            device: Device {
                max_request: 1 << 20,
                read: transfers.clone(),
                write: transfers,
                flush: times,
                flush_stalls: Stalls::default(),
                write_sparse: Vec::new(),
                after_pause: Vec::new(),
                mounted_us: 0.0,
            },
        }
    }

    fn machine(error: Option<f64>) -> Arc<MachineFile> {
        let validated =
            error.map(|error| Validated { date: "2026-01-02".into(), pairs: 66, error });
        Arc::new(MachineFile { validated, ..measured() })
    }

    #[test]
    fn what_the_check_of_a_machine_found_is_in_every_verdict_with_it() {
        let checked = |lfs: f64, between: f64| Checked {
            date: "2026-01-03".into(),
            runs: 5,
            times: [("lfs".into(), lfs), ("ffs".into(), 0.97)].into(),
            between,
        };
        let with =
            |checked| Arc::new(MachineFile { checked: Some(checked), ..(*machine(None)).clone() });
        let of = |machine| Trust::of([&Config::parse("lfs").unwrap().on_machine(machine)]);
        let near = of(with(checked(1.08, 1.1)));
        assert_eq!(near.factor, FIDELITY, "one short run does not say that all are nearer");
        let words = near.words(false);
        assert!(words.contains("2026-01-03") && words.contains("1.08 (lfs)"), "{words}");
        assert!(!words.contains("calibrate again"), "{words}");
        let far = of(with(checked(2.3, 2.4)));
        assert_eq!(far.factor, 2.4);
        assert!(far.words(false).contains("calibrate again when it is quiet"));
        let model = Config::parse("lfs:disk=hp97560").unwrap().on_machine(with(checked(2.3, 2.4)));
        assert!(!Trust::of([&model]).words(false).contains("Checked"), "a model was not checked");
    }

    #[test]
    fn the_error_is_that_of_the_machine_if_it_was_validated() {
        let config = || Config::parse("lfs").unwrap();
        let own = Trust::of([&config().on_machine(machine(Some(1.08)))]);
        assert_eq!(own.factor, 1.08);
        assert!(own.words(false).contains("2026-01-02"), "{}", own.words(false));
        let other = Trust::of([&config().on_machine(machine(None))]);
        assert_eq!(other.factor, FIDELITY);
        assert!(other.words(false).contains("another machine"));
        let models = Trust::of([&config(), &config().on_machine(machine(Some(1.08)))]);
        assert_eq!(models.factor, FIDELITY, "the least that is known");
        assert!(models.words(false).contains("models (disk-7200)"), "{}", models.words(false));
        let chosen = Config::parse("lfs:disk=hp97560").unwrap().on_machine(machine(Some(1.08)));
        assert_eq!(Trust::of([&chosen]).factor, FIDELITY, "no machine has that disk");
        assert!(other.words(true).contains("further off"));
    }
}
