//! The history of a run: operations, dirty data, the cache and the cleaner over time, and how full
//! the volume was at the end.
//!
//! A [`Sampler`] samples a run at equal distances of virtual time. It keeps at most
//! [`MOST_SAMPLES`] samples of a run of any length: when there are more, it drops every other
//! sample and doubles the interval.

use std::ops::ControlFlow;

use twin_fs::SpaceMap;
use twin_rt::{MILLIS, Nanos, Time};

use crate::figures::{LogFigures, Moment};
use crate::log_at_end::LogAtEnd;
use crate::watch::{Watcher, World};

/// Maximum number of samples, without that of the end.
pub(crate) const MOST_SAMPLES: usize = 400;
/// The interval of samples at the beginning.
const FIRST_INTERVAL: Nanos = MILLIS;

/// The most points of a curve of rates: over shorter intervals they are noise.
const MOST_RATES: usize = 80;

/// The history of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Samples in order: seconds since the beginning, and what was done up to then.
    pub samples: Vec<(f64, Moment)>,
    /// The log at the end; `None` if the layout has no log.
    pub log: Option<LogAtEnd>,
    /// How full the regions of the volume were at the end; empty if there is no volume.
    pub space: SpaceMap,
}

impl History {
    /// Write cost up to each sample, as seconds and cost. Begins with the first new data.
    pub(crate) fn cumulative(&self) -> Vec<(f64, f64)> {
        let costs =
            self.samples.iter().filter_map(|(at_s, moment)| Some((*at_s, moment.log.write_cost?)));
        costs.collect()
    }

    /// Write cost between samples. While only metadata is written or moved, there is no new data to which
    /// the cost could be attributed: such an interval is added to the next one with new data.
    pub(crate) fn by_interval(&self) -> Vec<(f64, f64)> {
        let (mut costs, mut before) = (Vec::new(), LogFigures::default());
        for (at_s, Moment { log, .. }) in &self.samples {
            let since = log.since(&before);
            if let Some(cost) = since.write_cost {
                costs.push((*at_s, cost));
                before = *log;
            }
        }
        costs
    }

    /// Operations a second, over intervals of equal length.
    pub fn throughput(&self) -> Vec<(f64, f64)> {
        let rate = |(from_s, from): (f64, Moment), (to_s, to): (f64, Moment)| {
            let ops = to.operations.saturating_sub(from.operations);
            (to_s > from_s).then(|| ops as f64 / (to_s - from_s))
        };
        self.rates(rate)
    }

    /// The share of look-ups that the cache served, in percent, over intervals of equal length.
    /// Intervals without look-ups are left out.
    pub fn hits(&self) -> Vec<(f64, f64)> {
        let share = |(_, from): (f64, Moment), (_, to): (f64, Moment)| {
            let lookups = to.lookups.saturating_sub(from.lookups);
            let hits = to.hits.saturating_sub(from.hits);
            (lookups > 0).then(|| hits as f64 * 100.0 / lookups as f64)
        };
        self.rates(share)
    }

    /// A figure of each sample.
    pub fn course(&self, of: impl Fn(&Moment) -> f64) -> Vec<(f64, f64)> {
        self.samples.iter().map(|(at_s, moment)| (*at_s, of(moment))).collect()
    }

    /// The largest value of a figure in each of a few intervals of equal length.
    pub(crate) fn peaks(&self, of: impl Fn(&Moment) -> f64) -> Vec<(f64, f64)> {
        let peak = |samples: &[(f64, Moment)]| {
            let highest = samples.iter().map(|(_, moment)| of(moment)).fold(f64::MIN, f64::max);
            samples.last().map(|(at_s, _)| (*at_s, highest))
        };
        self.samples.chunks(self.step()).filter_map(peak).collect()
    }

    /// The number of samples of an interval of a rate.
    fn step(&self) -> usize {
        self.samples.len().div_ceil(MOST_RATES).max(1)
    }

    /// A figure of each interval, at its middle.
    fn rates(&self, of: impl Fn((f64, Moment), (f64, Moment)) -> Option<f64>) -> Vec<(f64, f64)> {
        let mut before = (0.0, Moment::default());
        let mut rates = Vec::new();
        for sample in self.samples.chunks(self.step()).filter_map(|samples| samples.last()) {
            if let Some(rate) = of(before, *sample) {
                rates.push(((before.0 + sample.0) / 2.0, rate));
            }
            before = *sample;
        }
        rates
    }
}

/// Takes samples of a run.
#[derive(Clone, Debug)]
pub struct Sampler {
    begun: Time,
    interval: Nanos,
    /// Since the beginning, like all times here.
    next: Nanos,
    samples: Vec<(Nanos, Moment)>,
    history: History,
}

impl Default for Sampler {
    fn default() -> Self {
        let (interval, next) = (FIRST_INTERVAL, FIRST_INTERVAL);
        let (begun, samples, history) = (Time(0), Vec::new(), History::default());
        Sampler { begun, interval, next, samples, history }
    }
}

impl Sampler {
    /// The history; empty before the end of the run.
    pub fn history(&mut self) -> History {
        std::mem::take(&mut self.history)
    }

    /// Time advances to `until`, in nanoseconds since the beginning; `moment` holds up to then.
    pub fn pass(&mut self, until: Nanos, moment: impl FnOnce() -> Moment) {
        if self.next <= until {
            let moment = moment();
            while self.next <= until {
                self.take(moment);
            }
        }
    }

    /// The run has ended after `end` nanoseconds.
    pub fn finish(&mut self, end: Nanos, moment: Moment, log: Option<LogAtEnd>, space: SpaceMap) {
        let samples = std::mem::take(&mut self.samples);
        let all = samples.into_iter().filter(|(at, _)| *at < end).chain([(end, moment)]);
        let samples = all.map(|(at, moment)| (at as f64 / 1e9, moment)).collect();
        self.history = History { samples, log, space };
    }

    fn take(&mut self, moment: Moment) {
        self.samples.push((self.next, moment));
        if self.samples.len() == MOST_SAMPLES {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.interval *= 2;
        }
        self.next += self.interval;
    }
}

impl Watcher for Sampler {
    fn begin(&mut self, world: &dyn World) {
        self.begun = world.now();
    }

    fn look(&mut self, world: &dyn World, next: Time) -> ControlFlow<()> {
        self.pass(next.since(self.begun), || world.moment());
        ControlFlow::Continue(())
    }

    fn end(&mut self, world: &dyn World) {
        let log = world.log_at_end();
        let end = world.now().since(self.begun);
        self.finish(end, world.moment(), log, world.space_map());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    struct At(u64);

    impl World for At {
        fn now(&self) -> Time {
            Time(self.0 * MILLIS)
        }
        fn moment(&self) -> Moment {
            Moment { operations: self.0, lookups: 4, hits: 1, ..Moment::default() }
        }
        fn space_map(&self) -> SpaceMap {
            SpaceMap::default()
        }
        fn status(&self) -> Option<Status> {
            let segments = vec![('s', 0, 0, 100, 0), ('s', 0, 100, 100, 0), ('s', 0, 99, 100, 0)];
            let more = vec![('*', 0, 50, 100, 0), ('o', 1, 5, 5, 0), ('_', 0, 0, 0, 0)];
            Some(Status { segments: [segments, more].concat(), ..Status::default() })
        }
        fn segment_at(&self, _: u64) -> Option<(u32, u64)> {
            None
        }
    }

    #[test]
    fn a_run_of_any_length_has_few_samples_at_equal_distances_and_its_end() {
        for length in [3, 399, 400, 12_345, 100_000] {
            let mut sampler = Sampler::default();
            sampler.begin(&At(0));
            for ms in 0..length {
                assert!(sampler.look(&At(ms), Time((ms + 1) * MILLIS)).is_continue());
                assert!(sampler.samples.len() < MOST_SAMPLES);
            }
            sampler.end(&At(length));
            let samples = sampler.history().samples;
            let times: Vec<f64> = samples.iter().map(|(at_s, _)| at_s * 1e3).collect();
            let step = times[0];
            for (i, pair) in times.windows(2).enumerate() {
                let is_last = i + 2 == times.len();
                assert!((pair[1] - pair[0] - step).abs() < 1e-6 || is_last, "{length}: {pair:?}");
            }
            assert_eq!(samples.last().unwrap().1.operations, length);
            assert!(
                length < 400 || times.len() > MOST_SAMPLES / 2 - 2,
                "{length}: {}",
                times.len()
            );
        }
    }

    #[test]
    fn a_sample_shows_what_was_there_at_its_time() {
        let mut sampler = Sampler::default();
        sampler.begin(&At(0));
        // No event between 2 and 7.
        assert!(sampler.look(&At(2), Time(7 * MILLIS)).is_continue());
        sampler.end(&At(9));
        let samples = sampler.history().samples;
        let operations: Vec<u64> = samples.iter().map(|(_, moment)| moment.operations).collect();
        assert_eq!(operations, [2, 2, 2, 2, 2, 2, 2, 9]);
    }

    #[test]
    fn segments_are_counted_by_what_is_live_in_them() {
        let mut sampler = Sampler::default();
        sampler.end(&At(1));
        let log = sampler.history().log.unwrap();
        assert_eq!((log.full(), log.clean, log.open), (4, 1, 1));
        assert_eq!((log.bins[0], log.bins[10], log.bins[19]), (1, 1, 2));
    }

    #[test]
    fn the_cost_of_cleaning_alone_is_borne_by_the_next_data() {
        let log = |log_bytes, moved_bytes, cleaner_read_bytes| {
            let new_data_bytes = log_bytes - moved_bytes;
            let figures =
                LogFigures { log_bytes, new_data_bytes, cleaner_read_bytes, ..Default::default() };
            Moment { log: figures.since(&LogFigures::default()), ..Moment::default() }
        };
        // 100 new; then 50 moved, with 100 read; then 50 new.
        let samples =
            vec![(1.0, log(100, 0, 0)), (2.0, log(150, 50, 100)), (3.0, log(200, 50, 100))];
        let history = History { samples, ..History::default() };
        assert_eq!(history.by_interval(), [(1.0, 1.0), (3.0, 4.0)]);
        assert_eq!(history.cumulative(), [(1.0, 1.0), (2.0, 2.5), (3.0, 2.0)]);
    }

    #[test]
    fn rates_are_of_intervals_and_an_interval_without_lookups_has_no_share() {
        let at =
            |operations, lookups, hits| Moment { operations, lookups, hits, ..Moment::default() };
        let samples = vec![(1.0, at(10, 4, 1)), (3.0, at(10, 4, 1)), (4.0, at(40, 8, 5))];
        let history = History { samples, ..History::default() };
        assert_eq!(history.throughput(), [(0.5, 10.0), (2.0, 0.0), (3.5, 30.0)]);
        assert_eq!(history.hits(), [(0.5, 25.0), (3.5, 100.0)]);
        let long = (1..=400u32).map(|n| (f64::from(n), at(n.into(), 0, 0))).collect();
        let long = History { samples: long, ..History::default() };
        let rates = long.throughput();
        assert_eq!(rates.len(), MOST_RATES);
        assert!(rates.iter().all(|rate| rate.1 == 1.0), "{rates:?}");
        let odd = |moment: &Moment| if moment.operations % 5 == 3 { 7.0 } else { 0.0 };
        let peaks = long.peaks(odd);
        assert_eq!((peaks.len(), peaks[0]), (MOST_RATES, (5.0, 7.0)));
    }
}
