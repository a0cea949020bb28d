//! What an experiment says: which file system is the fastest as measured, and whether simulation agrees.
//!
//! Contract: file systems are told apart where their runs differ by more than chance ([`differ`]) and by more than
//! [`NOISE`]; others are too close to call. One whose operations failed is not judged. Simulation agrees if it has
//! every two of ours in the measured order or too close to call, and the times of each near the measured ones;
//! otherwise the likely reason is told, from the figures: what varied, what the check of the calibration said, and
//! the kind of operation in which most of the difference is.

use twin_lab::{Figures, Spread};
use twin_report::units::{duration, list};
use twin_verdict::{NOISE, Trust, differ};

use super::values::{middle, spread};
use super::{Experiment, Measured};

/// Simulated times within this factor of the measured ones agree with them.
const NEAR: f64 = 1.25;
/// Runs whose longest takes this many times the shortest say that the machine changed.
const VARIED: f64 = 1.5;

impl Experiment {
    /// The measured values of a place.
    pub(super) fn values(&self, of: &Measured) -> Spread {
        spread("measured", &of.runs, |figures| self.by.of(figures))
    }

    /// Those that can be judged, the fastest first.
    fn sound(&self) -> Vec<(&Measured, Spread)> {
        let whole = |one: &&Measured| one.runs.iter().all(|run| run.failed == 0);
        let sound = self.measured.iter().filter(whole);
        let mut sound: Vec<_> = sound.map(|one| (one, self.values(one))).collect();
        sound.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
        sound
    }

    /// The verdict on what was measured, and on simulation: a sentence or more a line.
    pub fn words(&self) -> String {
        let mut lines = vec![self.fastest()];
        lines.extend(self.agreement());
        lines.join("\n")
    }

    /// Which is the fastest.
    fn fastest(&self) -> String {
        let sound = self.sound();
        let runs = match self.runs {
            1 => "one run each, which says nothing of chance".to_owned(),
            runs => format!("medians of {runs} runs in turn"),
        };
        let worded = |(one, values): &(&Measured, Spread)| {
            format!("{} {}", one.name, duration(values.median * 1e6))
        };
        let intro = format!("Measured on this machine ({runs}, {}):", self.by.words());
        let [first, rest @ ..] = &sound[..] else {
            return format!("{intro} nothing that can be judged.");
        };
        let Some(second) = rest.first() else { return format!("{intro} {}.", worded(first)) };
        let all = list(&sound.iter().map(worded).collect::<Vec<_>>());
        let close = |a: &Spread, b: &Spread| is_close(a, b);
        if sound.windows(2).all(|pair| close(&pair[0].1, &pair[1].1))
            && sound.last().is_some_and(|last| close(&first.1, &last.1))
        {
            return format!("{intro} too close to call: {all}.");
        }
        let mut words = match close(&first.1, &second.1) {
            true => format!("{intro} {all}."),
            false => format!("{intro} {} was the fastest: {all}.", first.0.name),
        };
        let pairs = sound.windows(2).filter(|pair| close(&pair[0].1, &pair[1].1));
        let pairs: Vec<String> =
            pairs.map(|pair| format!("{} and {}", pair[0].0.name, pair[1].0.name)).collect();
        if !pairs.is_empty() {
            words += &format!(" Too close to call: {}.", list(&pairs));
        }
        words
    }

    /// Whether simulation agrees; `None` if nothing was simulated.
    fn agreement(&self) -> Option<String> {
        let sound = self.sound();
        let ours: Vec<Ours<'_>> = sound.iter().filter_map(|one| self.ours(one)).collect();
        let furthest = ours.iter().max_by(|a, b| a.off().total_cmp(&b.off()))?;
        let times = ours.iter().map(|one| format!("{:.2} ({})", one.ratio(), one.of.name));
        let times = list(&times.collect::<Vec<_>>());
        let wrong = wrong_order(&ours, self.trust_factor());
        let near = furthest.off() <= NEAR;
        let same = match ours.len() {
            1 => "",
            _ => " has the measured order, or calls it too close, and",
        };
        Some(match (wrong, near) {
            (None, true) => format!(
                "Simulation agrees: it{same} takes {times} times as long as measured."
            ),
            (None, false) => format!(
                "Simulation agrees on the order, but not on times, which are {times} of the measured \
                 ones. {}",
                self.reason(furthest)
            )
            .replace("agrees on the order, but not on times,", match ours.len() {
                1 => "does not agree on times,",
                _ => "agrees on the order, but not on times,",
            }),
            (Some((first, second)), _) => format!(
                "Simulation does not agree: it has {} before {}, by {:.0}%, and takes {times} times as \
                 long as measured. {}",
                second.of.name,
                first.of.name,
                (first.simulated.median / second.simulated.median - 1.0) * 100.0,
                self.reason(furthest)
            ),
        })
    }

    fn ours<'a>(&self, (of, measured): &(&'a Measured, Spread)) -> Option<Ours<'a>> {
        if of.simulated.is_empty() {
            return None;
        }
        let simulated = spread("simulated", &of.simulated, |figures| self.by.of(figures));
        Some(Ours { of, measured: measured.clone(), simulated })
    }

    /// The factor below which simulated times are too close to call.
    fn trust_factor(&self) -> f64 {
        let config = twin_lab::Config::parse("lfs").ok();
        let config =
            config.zip(self.machine.clone()).map(|(config, machine)| config.on_machine(machine));
        Trust::of(config.as_ref()).factor
    }

    /// The likely reason why simulated times are not the measured ones.
    fn reason(&self, of: &Ours<'_>) -> String {
        let mut reasons = Vec::new();
        let Spread { min, max, .. } = of.measured;
        if max > min * VARIED {
            let (min, max) = (duration(min * 1e6), duration(max * 1e6));
            reasons.push(format!(
                "the machine was not the same all the time: single runs of {} took {min} to {max}",
                of.of.name
            ));
        }
        let checked = self.machine.as_ref().and_then(|machine| machine.checked.as_ref());
        let worst = checked.map_or(1.0, twin_lab::Checked::worst);
        if worst.max(1.0 / worst) > NEAR {
            reasons.push(format!(
                "its calibration was off, too: a short real run took {:.2} of its simulated time",
                1.0 / worst
            ));
        }
        reasons.extend(kind_of_most(of));
        match reasons.is_empty() {
            true => "The figures do not tell why.".into(),
            false => format!("Likely because {}.", reasons.join("; and ")),
        }
    }
}

/// One of ours, measured and simulated.
struct Ours<'a> {
    of: &'a Measured,
    measured: Spread,
    simulated: Spread,
}

impl Ours<'_> {
    /// Simulated over measured time.
    fn ratio(&self) -> f64 {
        self.simulated.median / self.measured.median
    }

    /// The same as a factor of at least 1.
    fn off(&self) -> f64 {
        self.ratio().max(1.0 / self.ratio())
    }
}

/// True if values do not tell which of two is faster.
fn is_close(a: &Spread, b: &Spread) -> bool {
    let ratio = (a.median / b.median).max(b.median / a.median);
    ratio < 1.0 + NOISE || !differ(&a.values, &b.values)
}

/// Two that runs tell apart, the faster first, which simulation has in the other order by more than its error.
fn wrong_order<'a, 'b>(ours: &'a [Ours<'b>], factor: f64) -> Option<(&'a Ours<'b>, &'a Ours<'b>)> {
    let pairs =
        ours.iter().enumerate().flat_map(|(nth, a)| ours[nth + 1..].iter().map(move |b| (a, b)));
    let mut wrong = pairs.filter(|(a, b)| {
        !is_close(&a.measured, &b.measured) && a.simulated.median > b.simulated.median * factor
    });
    wrong.next()
}

/// The kind of operation in which most of the difference is.
fn kind_of_most(of: &Ours<'_>) -> Option<String> {
    let (real, simulated) = (middle(&of.of.runs)?, middle(&of.of.simulated)?);
    let mean = |figures: &Figures, verb: &str| {
        let found = figures.verbs.iter().find(|of| of.verb == verb);
        found.map_or((0.0, 0), |of| (of.latency.mean_us, of.latency.count))
    };
    let differences = real.verbs.iter().map(|of| {
        let (ours, count) = mean(simulated, of.verb);
        let total = of.latency.mean_us * of.latency.count as f64 - ours * count as f64;
        (of.verb, of.latency.mean_us, ours, total)
    });
    let shorter = of.ratio() < 1.0;
    let sign = if shorter { 1.0 } else { -1.0 };
    let (verb, real, ours, most) =
        differences.max_by(|a, b| (a.3 * sign).total_cmp(&(b.3 * sign)))?;
    (most * sign > 0.0).then(|| {
        format!(
            "most of it is {verb}, whose mean is {} measured and {} simulated",
            duration(real),
            duration(ours)
        )
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::values::By;
    use super::*;

    pub(in crate::experiment) fn place(name: &str, real: &[f64], simulated: &[f64]) -> Measured {
        let figures = |finish_s: &f64| Figures {
            config: name.into(),
            finish_s: *finish_s,
            ..Figures::default()
        };
        Measured {
            name: name.into(),
            runs: real.iter().map(figures).collect(),
            most_common: String::new(),
            simulated: simulated.iter().map(figures).collect(),
            not_simulated: None,
        }
    }

    pub(in crate::experiment) fn experiment(measured: Vec<Measured>) -> Experiment {
        Experiment {
            measured,
            absent: Vec::new(),
            machine: None,
            runs: 5,
            by: By::Finish,
            clients: 1,
            own_s: None,
        }
    }

    const LFS: [f64; 5] = [3.0, 3.1, 3.2, 3.3, 3.4];
    const FFS: [f64; 5] = [4.0, 4.1, 4.2, 4.3, 4.4];

    #[test]
    fn the_fastest_of_all_that_were_measured_wins_and_not_the_best_of_ours() {
        let ext4 = place("ext4", &[1.6, 1.7, 1.8, 1.9, 1.65], &[]);
        let words =
            experiment(vec![place("lfs", &LFS, &[]), ext4, place("ffs", &FFS, &[])]).words();
        assert!(
            words.contains("ext4 was the fastest: ext4 1.70 s, lfs 3.20 s and ffs 4.20 s."),
            "{words}"
        );
        assert!(words.contains("medians of 5 runs in turn"), "{words}");
        assert_eq!(words.lines().count(), 1, "nothing of simulation");
    }

    #[test]
    fn runs_that_overlap_are_too_close_to_call() {
        let other = place("xfs", &[2.9, 3.5, 3.1, 3.2, 3.3], &[]);
        let words = experiment(vec![place("lfs", &LFS, &[]), other.clone()]).words();
        assert!(words.contains("too close to call: "), "{words}");
        let words =
            experiment(vec![place("lfs", &LFS, &[]), other, place("ffs", &FFS, &[])]).words();
        assert!(!words.contains("fastest") && words.contains("Too close to call: "), "{words}");
    }

    #[test]
    fn simulation_agrees_with_the_order_and_near_times() {
        let ours = vec![place("lfs", &LFS, &[3.0; 5]), place("ffs", &FFS, &[4.4; 5])];
        let words = experiment(ours).words();
        assert!(words.contains("Simulation agrees: it has the measured order"), "{words}");
        assert!(words.contains("0.94 (lfs) and 1.05 (ffs) times as long"), "{words}");
    }

    #[test]
    fn an_order_the_other_way_round_is_said_with_its_figures() {
        let ours = vec![place("lfs", &LFS, &[6.6; 5]), place("ffs", &FFS, &[4.4; 5])];
        let words = experiment(ours).words();
        assert!(words.contains("does not agree: it has ffs before lfs, by 50%"), "{words}");
        let close = vec![place("lfs", &LFS, &[4.5; 5]), place("ffs", &FFS, &[4.4; 5])];
        let words = experiment(close).words();
        assert!(
            words.contains("agrees on the order, but not on times"),
            "too close is no wrong order: {words}"
        );
    }

    #[test]
    fn the_likely_reason_is_in_the_figures() {
        use twin_lab::{Latency, VerbFigures};
        let kind = |verb: &'static str, mean_us: f64| VerbFigures {
            latency: Latency { count: 1000, mean_us, ..Latency::default() },
            ..VerbFigures::of(verb, 0, &Default::default(), &Default::default())
        };
        let mut lfs = place("lfs", &[2.0, 2.1, 5.9, 2.2, 2.3], &[1.0; 5]);
        lfs.runs
            .iter_mut()
            .for_each(|run| run.verbs = vec![kind("write", 10.0), kind("fsync", 900.0)]);
        lfs.simulated
            .iter_mut()
            .for_each(|run| run.verbs = vec![kind("write", 9.0), kind("fsync", 300.0)]);
        let words = experiment(vec![lfs]).words();
        assert!(words.contains("does not agree on times"), "{words}");
        assert!(words.contains("single runs of lfs took 2.00 s to 5.90 s"), "{words}");
        assert!(
            words.contains(
                "most of it is fsync, whose mean is 900 us measured and 300 us simulated"
            ),
            "{words}"
        );
    }

    #[test]
    fn what_failed_is_not_judged() {
        let mut short = place("ext4", &[0.1; 5], &[]);
        short.runs[2].failed = 7;
        let words = experiment(vec![short, place("lfs", &LFS, &[])]).words();
        assert!(!words.contains("ext4"), "{words}");
    }
}
