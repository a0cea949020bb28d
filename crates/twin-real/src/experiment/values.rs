//! Values of runs: what places are judged by, and their median, least and most.

use twin_lab::{Figures, Spread};
use twin_trace::Verb;

/// What places are judged by: smaller is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// What clients waited for their operations.
    Waiting,
    /// The time until everything was durable.
    Finish,
    /// What 99 of 100 operations do not exceed.
    P99,
    /// What 99 of 100 fsyncs do not exceed.
    Fsync,
}

impl By {
    /// The measure of this name; that of the whole time for one that only simulations have.
    pub fn named(name: &str) -> By {
        match name {
            "waiting" => By::Waiting,
            "p99" => By::P99,
            "fsync" => By::Fsync,
            _ => By::Finish,
        }
    }

    /// The value of a run, in seconds.
    pub(crate) fn of(self, figures: &Figures) -> f64 {
        match self {
            By::Waiting => waited_s(figures),
            By::Finish => figures.finish_s,
            By::P99 => figures.latency.p99_us / 1e6,
            By::Fsync => fsync_us(figures) / 1e6,
        }
    }

    /// In words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            By::Waiting => "what clients waited for",
            By::Finish => "until everything was durable",
            By::P99 => "what 99 of 100 operations did not exceed",
            By::Fsync => "what 99 of 100 fsyncs did not exceed",
        }
    }
}

/// Seconds that clients waited for their operations. A forget has no answer.
pub(crate) fn waited_s(figures: &Figures) -> f64 {
    let waited = figures.verbs.iter().filter(|verb| verb.verb != Verb::Forget.name());
    waited.map(|verb| verb.latency.count as f64 * verb.latency.mean_us / 1e6).sum()
}

/// 99 of 100 fsyncs take no longer.
pub(crate) fn fsync_us(figures: &Figures) -> f64 {
    let fsync = figures.verbs.iter().find(|verb| verb.verb == Verb::Fsync.name());
    fsync.map_or(0.0, |verb| verb.latency.p99_us)
}

/// A value over several runs.
pub(crate) fn spread(
    measure: &'static str,
    runs: &[Figures],
    of: impl Fn(&Figures) -> f64,
) -> Spread {
    let values: Vec<f64> = runs.iter().map(of).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Spread { measure, median: twin_lab::median(&values), min: least, max: most, values }
}

/// The run that took neither long nor short.
pub(crate) fn middle(runs: &[Figures]) -> Option<&Figures> {
    let mut order: Vec<&Figures> = runs.iter().collect();
    order.sort_by(|a, b| a.finish_s.total_cmp(&b.finish_s));
    order.get(order.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_lab::{Latency, VerbFigures};

    fn run(mean_us: f64, finish_s: f64) -> Figures {
        let latency = Latency { count: 1000, mean_us, p50_us: mean_us, ..Latency::default() };
        let none = Default::default();
        let verbs = vec![VerbFigures { latency, ..VerbFigures::of("fsync", 0, &none, &none) }];
        Figures { finish_s, verbs, ..Figures::default() }
    }

    #[test]
    fn places_are_judged_by_the_measure_of_this_name() {
        let mut figures = run(300.0, 5.0);
        figures.latency.p99_us = 700.0;
        figures.verbs[0].latency.p99_us = 900.0;
        let of = |name: &str| By::named(name).of(&figures);
        assert_eq!((of("finish"), of("written")), (5.0, 5.0));
        assert!((of("waiting") - 0.3).abs() < 1e-12);
        assert_eq!((of("p99"), of("fsync")), (0.0007, 0.0009));
    }

    #[test]
    fn the_run_in_the_middle_took_neither_long_nor_short() {
        let runs = [3.0, 1.0, 2.0].map(|finish_s| run(1.0, finish_s));
        assert_eq!(middle(&runs).map(|run| run.finish_s), Some(2.0));
        assert_eq!(middle(&[]), None);
        let all = spread("finish", &runs, |run| run.finish_s);
        assert_eq!((all.min, all.median, all.max), (1.0, 2.0, 3.0));
    }
}
