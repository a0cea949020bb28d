//! The history of a run: operations, dirty data, the cache and the cleaner over time, and how full
//! the volume was at the end.
//!
//! A [`Sampler`] samples a run at equal distances of virtual time. It keeps at most
//! [`MOST_SAMPLES`] samples of a run of any length: when there are more, it drops every other
//! sample and doubles the interval.

use std::ops::ControlFlow;

use twin_fs::SpaceMap;
use twin_rt::{MILLIS, Nanos, Time};

use crate::figures::Moment;
use crate::log_at_end::LogAtEnd;
use crate::watch::{Watcher, World};

/// Maximum number of samples, without that of the end.
pub(crate) const MOST_SAMPLES: usize = 400;
/// The interval of samples at the beginning.
const FIRST_INTERVAL: Nanos = MILLIS;

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
}
