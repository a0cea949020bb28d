//! A channel: values of one kind, by interval and over the whole run.

use serde::{Deserialize, Serialize};
use twin_rt::{Nanos, Time};
use twin_trace::Histogram;

/// The unit of values as they are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds, which are reported in microseconds.
    Nanos,
    Bytes,
    Requests,
    Cylinders,
    Percent,
    /// How many times something.
    Times,
}

impl Unit {
    /// Its name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Nanos => "us",
            Unit::Bytes => "bytes",
            Unit::Requests => "requests",
            Unit::Cylinders => "cylinders",
            Unit::Percent => "%",
            Unit::Times => "times",
        }
    }

    /// A collected value as it is reported.
    fn reported(self, value: f64) -> f64 {
        match self {
            Unit::Nanos => value / 1e3,
            Unit::Percent => value * 100.0,
            Unit::Bytes | Unit::Requests | Unit::Cylinders | Unit::Times => value,
        }
    }
}

/// The figures of an interval, or of the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Over {
    /// Its beginning in seconds since the run began, or the observation of a mount.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// Number of values.
    pub count: u64,
    /// Their mean, or the ratio if the channel is one; `None` without values.
    pub mean: Option<f64>,
    /// The median; `None` of ratios, and without values, like the others.
    pub p50: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The largest value.
    pub max: Option<f64>,
}

/// What an observer has seen of one part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Observed {
    /// The observer.
    pub observer: &'static str,
    /// What its values are.
    pub what: &'static str,
    /// Of which part, as a disk or a kind of operation.
    pub part: String,
    /// The unit of all values.
    pub unit: &'static str,
    /// Over the whole run.
    pub whole: Over,
    /// By interval.
    pub every: Vec<Over>,
    /// The values of the whole run: pairs of a largest value and the number of values that are not
    /// larger than it but larger than the pair before; empty of ratios.
    pub histogram: Vec<(f64, u64)>,
}

enum Values {
    /// Single values: of this interval, and of those before.
    Single { now: Histogram, before: Histogram },
    /// Two sums since the run began, now and when the interval began.
    Ratio { now: (u64, u64), before: (u64, u64) },
}

/// See the module.
pub(crate) struct Channel {
    what: &'static str,
    part: String,
    unit: Unit,
    values: Values,
    every: Vec<Over>,
}

impl Channel {
    /// A channel of single values.
    pub(crate) fn values(what: &'static str, part: impl Into<String>, unit: Unit) -> Channel {
        let values = Values::Single { now: Histogram::new(), before: Histogram::new() };
        Channel { what, part: part.into(), unit, values, every: Vec::new() }
    }

    /// A channel of the ratio of two growing sums.
    pub(crate) fn ratio(what: &'static str, part: impl Into<String>, unit: Unit) -> Channel {
        let values = Values::Ratio { now: (0, 0), before: (0, 0) };
        Channel { what, part: part.into(), unit, values, every: Vec::new() }
    }

    /// Adds a single value.
    pub(crate) fn add(&mut self, value: u64) {
        if let Values::Single { now, .. } = &mut self.values {
            now.add(value);
        }
    }

    /// Sets the two sums to what they are now.
    pub(crate) fn set(&mut self, numerator: u64, denominator: u64) {
        if let Values::Ratio { now, .. } = &mut self.values {
            *now = (numerator, denominator);
        }
    }

    /// An interval ends. Its figures are kept if `keep` says so; they count for the whole anyway.
    pub(crate) fn close(&mut self, (from, to): (Nanos, Nanos), keep: bool) {
        let over = match &mut self.values {
            Values::Single { now, before } => {
                let over = of_values(self.unit, now, (from, to));
                before.merge(now);
                *now = Histogram::new();
                over
            }
            Values::Ratio { now, before } => {
                let sums = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
                *before = *now;
                of_ratio(self.unit, sums, (from, to))
            }
        };
        if keep {
            self.every.push(over);
        }
    }

    /// Takes the figures of its intervals in which there was something.
    pub(crate) fn take_intervals(&mut self) -> impl Iterator<Item = Over> + use<> {
        std::mem::take(&mut self.every).into_iter().filter(|over| over.mean.is_some())
    }

    /// What its values are, of which part, and their unit.
    pub(crate) fn names(&self) -> (&'static str, String, &'static str) {
        (self.what, self.part.clone(), self.unit.name())
    }

    /// What it has seen, `end` nanoseconds after the run began. All intervals are closed.
    pub(crate) fn observed(self, observer: &'static str, end: Nanos) -> Observed {
        let Channel { what, part, unit, values, every } = self;
        let (whole, histogram) = match values {
            Values::Single { before, .. } => {
                let value = |(value, count): (u64, u64)| (unit.reported(value as f64), count);
                let all = before.buckets().into_iter().map(value).collect();
                (of_values(unit, &before, (0, end)), all)
            }
            Values::Ratio { now, .. } => (of_ratio(unit, now, (0, end)), Vec::new()),
        };
        Observed { observer, what, part, unit: unit.name(), whole, every, histogram }
    }

    /// True if nothing was ever seen.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.values {
            Values::Single { now, before } => now.count() + before.count() == 0,
            Values::Ratio { now, .. } => now.1 == 0,
        }
    }
}

fn seconds(ns: Nanos) -> f64 {
    ns as f64 / 1e9
}

fn of_values(unit: Unit, values: &Histogram, (from, to): (Nanos, Nanos)) -> Over {
    let some = |value: f64| (values.count() > 0).then(|| unit.reported(value));
    let at = |q| some(values.quantile(q) as f64);
    Over {
        from_s: seconds(from),
        to_s: seconds(to),
        count: values.count(),
        mean: some(values.mean()),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        max: some(values.max() as f64),
    }
}

fn of_ratio(unit: Unit, (numerator, denominator): (u64, u64), (from, to): (Nanos, Nanos)) -> Over {
    let mean = (denominator > 0).then(|| unit.reported(numerator as f64 / denominator as f64));
    let (from_s, to_s) = (seconds(from), seconds(to));
    Over { from_s, to_s, count: denominator, mean, ..Over::default() }
}

/// Time since a beginning, zero before it.
pub(crate) fn since(at: Time, begun: Time) -> Nanos {
    at.0.saturating_sub(begun.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_their_own_values_and_the_whole_has_all() {
        let mut channel = Channel::values("wait", "a", Unit::Nanos);
        channel.add(1000);
        channel.add(3000);
        channel.close((0, 10), true);
        channel.close((10, 20), true);
        channel.add(8000);
        channel.close((20, 30), false);
        let seen = channel.observed("x", 30);
        assert_eq!((seen.whole.count, seen.whole.mean, seen.whole.max), (3, Some(4.0), Some(8.0)));
        let means: Vec<Option<f64>> = seen.every.iter().map(|over| over.mean).collect();
        assert_eq!(means, [Some(2.0), None]);
        assert_eq!(seen.histogram.iter().map(|(_, count)| count).sum::<u64>(), 3);
    }

    #[test]
    fn a_ratio_is_of_what_was_added_in_the_interval() {
        let mut channel = Channel::ratio("hits", "a", Unit::Percent);
        channel.set(1, 2);
        channel.close((0, 10), true);
        channel.set(4, 6);
        channel.close((10, 20), true);
        channel.close((20, 30), true);
        let seen = channel.observed("x", 30);
        let means: Vec<Option<f64>> = seen.every.iter().map(|over| over.mean).collect();
        assert_eq!(means, [Some(50.0), Some(75.0), None]);
        assert_eq!(seen.whole.mean.map(f64::round), Some(67.0));
        assert!(seen.histogram.is_empty() && seen.whole.p50.is_none());
    }
}
