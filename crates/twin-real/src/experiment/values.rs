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
    /// The measure of this name; `None` for one that only simulations have.
    pub fn named(name: &str) -> Option<By> {
        Some(match name {
            "waiting" => By::Waiting,
            "p99" => By::P99,
            "finish" => By::Finish,
            "fsync" => By::Fsync,
            _ => return None,
        })
    }

    /// The value of a run, in seconds.
    pub(crate) fn of(self, figures: &Figures) -> f64 {
        match self {
            By::Waiting => figures.waiting_s,
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
    Spread::of(measure, runs.iter().map(of).collect())
}

/// The run that took neither long nor short.
pub(crate) fn middle(runs: &[Figures]) -> Option<&Figures> {
    let mut order: Vec<&Figures> = runs.iter().collect();
    order.sort_by(|a, b| a.finish_s.total_cmp(&b.finish_s));
    order.get(order.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use twin_lab::{Latency, VerbFigures};

    /// A run of 1,000 fsyncs.
    pub(in crate::experiment) fn run(mean_us: f64, finish_s: f64) -> Figures {
        let latency = Latency { count: 1000, mean_us, p50_us: mean_us, ..Latency::default() };
        let none = Default::default();
        let verbs = vec![VerbFigures { latency, ..VerbFigures::of("fsync", 0, &none, &none) }];
        Figures { finish_s, waiting_s: VerbFigures::waiting_s(&verbs), verbs, ..Figures::default() }
    }

    #[test]
    fn places_are_judged_by_the_measure_of_this_name() {
        let mut figures = run(300.0, 5.0);
        figures.latency.p99_us = 700.0;
        figures.verbs[0].latency.p99_us = 900.0;
        assert_eq!(By::named("written"), None);
        let of = |name: &str| By::named(name).unwrap().of(&figures);
        assert_eq!(of("finish"), 5.0);
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
