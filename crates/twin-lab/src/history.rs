//! What a log was like in the course of a run: its write cost over time, and how full its segments
//! were at the end.
//!
//! A [`Sampler`] watches a run at equal distances of virtual time, and keeps at most
//! [`MOST_SAMPLES`] samples however long the run is: when there are more, it forgets every other
//! one and samples half as often.

use std::ops::ControlFlow;

use twin_clean::facts::{SegmentFacts, State};
use twin_rt::{MILLIS, Nanos, Time};

use crate::figures::LogFigures;
use crate::watch::{Watcher, World};

/// Samples that are kept at the most, that of the end aside.
pub const MOST_SAMPLES: usize = 400;
/// Bars of [`LogAtEnd::bins`].
pub const BINS: usize = 20;
/// How far samples are apart at first.
const FIRST_INTERVAL: Nanos = MILLIS;

/// The course of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Samples in order: seconds since the beginning, and what had been written by then.
    pub samples: Vec<(f64, LogFigures)>,
    /// The log at the end; none if the layout has no log.
    pub log: Option<LogAtEnd>,
}

/// The segments at the end of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogAtEnd {
    /// Of the segments that are full, how many have so much live: each twentieth, a segment all
    /// of which is live in the last.
    pub bins: [u32; BINS],
    /// Segments that can be filled.
    pub clean: u32,
    /// Segments that are being filled.
    pub open: u32,
}

impl LogAtEnd {
    /// Counts these segments.
    pub(crate) fn of(segments: impl Iterator<Item = SegmentFacts>) -> LogAtEnd {
        let mut log = LogAtEnd::default();
        for facts in segments {
            match facts.state {
                State::Free => log.clean += 1,
                State::Open => log.open += 1,
                State::Sealed | State::Cleaning => {
                    let bin = (facts.utilization() * BINS as f64) as usize;
                    log.bins[bin.min(BINS - 1)] += 1;
                }
            }
        }
        log
    }

    /// Segments that are full.
    pub fn full(&self) -> u32 {
        self.bins.iter().sum()
    }
}

impl History {
    /// Write cost up to each sample: seconds and cost. Nothing before the first byte.
    pub fn cumulative(&self) -> Vec<(f64, f64)> {
        let written = self.samples.iter().filter(|(_, log)| log.log_bytes > log.moved_bytes);
        written.map(|(at_s, log)| (*at_s, log.write_cost)).collect()
    }

    /// Write cost between samples. While only the cleaner writes there is no new data that could
    /// bear the cost: such a time counts to that of the next sample with new data.
    pub fn by_interval(&self) -> Vec<(f64, f64)> {
        let (mut costs, mut before) = (Vec::new(), LogFigures::default());
        for (at_s, log) in &self.samples {
            let since = log.since(&before);
            if since.log_bytes > since.moved_bytes {
                costs.push((*at_s, since.write_cost));
                before = *log;
            }
        }
        costs
    }
}

/// Takes samples of a run.
#[derive(Clone, Debug)]
pub struct Sampler {
    begun: Time,
    interval: Nanos,
    /// Since the beginning, as all times here.
    next: Nanos,
    samples: Vec<(Nanos, LogFigures)>,
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
    /// What was seen; empty before the end of the run.
    pub fn history(&mut self) -> History {
        std::mem::take(&mut self.history)
    }

    /// Time goes on to `until`, in nanoseconds since the beginning; this was `written` before.
    pub(crate) fn pass(&mut self, until: Nanos, written: impl FnOnce() -> LogFigures) {
        if self.next <= until {
            let written = written();
            while self.next <= until {
                self.take(written);
            }
        }
    }

    /// The run is over after so many nanoseconds.
    pub(crate) fn finish(&mut self, end: Nanos, written: LogFigures, log: Option<LogAtEnd>) {
        let samples = std::mem::take(&mut self.samples);
        let all = samples.into_iter().filter(|(at, _)| *at < end).chain([(end, written)]);
        let samples = all.map(|(at, written)| (at as f64 / 1e9, written)).collect();
        self.history = History { samples, log };
    }

    fn take(&mut self, written: LogFigures) {
        self.samples.push((self.next, written));
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
        self.pass(next.since(self.begun), || world.written());
        ControlFlow::Continue(())
    }

    fn end(&mut self, world: &dyn World) {
        let log = world.status().map(|status| LogAtEnd::of(status.facts()));
        self.finish(world.now().since(self.begun), world.written(), log);
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
        fn written(&self) -> LogFigures {
            LogFigures { log_bytes: self.0, ..LogFigures::default() }
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
            assert_eq!(samples.last().unwrap().1.log_bytes, length);
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
        // Nothing happens between 2 and 7.
        assert!(sampler.look(&At(2), Time(7 * MILLIS)).is_continue());
        sampler.end(&At(9));
        let bytes: Vec<u64> =
            sampler.history().samples.iter().map(|(_, log)| log.log_bytes).collect();
        assert_eq!(bytes, [2, 2, 2, 2, 2, 2, 2, 9]);
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
            let figures =
                LogFigures { log_bytes, moved_bytes, cleaner_read_bytes, ..LogFigures::default() };
            figures.since(&LogFigures::default())
        };
        // 100 new; then 50 moved for 100 read; then 50 new.
        let samples =
            vec![(1.0, log(100, 0, 0)), (2.0, log(150, 50, 100)), (3.0, log(200, 50, 100))];
        let history = History { samples, log: None };
        assert_eq!(history.by_interval(), [(1.0, 1.0), (3.0, 4.0)]);
        assert_eq!(history.cumulative(), [(1.0, 1.0), (2.0, 2.5), (3.0, 2.0)]);
    }
}
