//! Twin: the segment whose cleaning gains most now, by optimal stopping with measured death rates.
//!
//! If blocks die at rate h, independent of their age, the best moment to clean a segment with
//! utilization u (g = 1 - u) is when h u / (g - u ln(1/u)) has fallen to the worth of a block of
//! garbage: before that moment, waiting gains more than the space is worth. Therefore the segment
//! with the least value comes first. For a nearly full segment the value is close to h u / g^2,
//! which is close to Lomet and Luo's minimum declining cost (ICDE 2021). The difference is that h
//! is measured: deaths over exposure of the segments of a class at an age, halved each quarter of a
//! volume of writes, times the ratio of observed to expected deaths in this segment.
//!
//! Deaths come in bursts, too: a segment that has just lost blocks is likely to lose more soon, and a
//! quiet one is likely to stay quiet for a while, whatever their ages. Each segment therefore has an
//! activity, the ratio of observed to expected deaths in about the last segment of writes, and the
//! policy measures by which factor the deaths until the next look differ at each activity (a
//! self-exciting process, as in Hawkes, Biometrika 1971, with a measured response). Where deaths do
//! not come in bursts all factors are 1.
//!
//! While little has been measured, h is drawn towards a guess, about half a death in the time that
//! the segment has lived, the rate that scale-free lifetimes would have; a little less steep, because
//! before the first cleaning old segments are those of the first writes, not those that die slowly.
//! How much is little depends on the writes. If blocks die one by one, a few deaths tell a rate; if whole files are overwritten at
//! once, a hundred deaths are one event. The policy measures this as the dispersion, the squared
//! differences of observed and expected deaths over the expected deaths, which is 1 if they are
//! independent (McCullagh and Nelder, Generalized Linear Models, on over-dispersion), and a guess
//! weighs as much more. What a guess gets wrong counts as dispersion, too, until the rates are
//! learnt. Segments that were sealed long before the first look bring the deaths that they had until
//! then.
//!
//! The policy keeps nothing for a block, 32 bytes for a segment, and a table of 10 KiB. It looks at
//! all segments when it is called, so it costs user writes nothing.

use super::{Candidates, VictimPolicy};
use crate::inputs::{LogView, SegmentInfo, SegmentState};

/// Number of ages: half octaves, in 1/256 of the volume.
const AGES: usize = 40;
/// Number of classes that are distinguished; further classes share one.
const CLASSES: usize = 16;
/// The weight, in independent deaths, of the guess for an age.
const GUESS_DEATHS: f64 = 15.0;
/// Deaths expected in the time that a block has lived, under scale-free lifetimes.
const SCALE_FREE: f64 = 0.5;
/// The power of the age in the guess; the rest is that of the volume.
const AGE_POWER: f64 = 0.75;
/// The lower bounds of activities after the first: ratios of observed to expected deaths.
const ACTIVITIES: [f32; 5] = [0.03, 0.25, 1.0, 4.0, 16.0];
/// The weight, in deaths, of the expectation for the recent past of a segment.
const RECENT_GUESS_DEATHS: f32 = 1.0;
/// The weight, in independent deaths, of the guess that an activity changes nothing.
const ACTIVITY_GUESS_DEATHS: f64 = 5.0;
/// The weight, in deaths, of the expectation for a segment against its observed deaths.
const SEGMENT_GUESS_DEATHS: f64 = 150.0;
/// The factor by which counts decay each quarter of a volume of writes.
const KEEP: f64 = 0.5;
const PERIODS_PER_VOLUME: u64 = 4;
/// Parts of a volume of writes in which the ages of segments are counted.
const AGE_UNITS_PER_VOLUME: u64 = 256;

/// Deaths of blocks, and the time for which they were exposed to it.
#[derive(Clone, Copy, Default)]
struct Hazard {
    deaths: f64,
    exposure: f64,
}

impl Hazard {
    fn rate(self, guess: f64, guess_deaths: f64) -> f64 {
        (self.deaths + guess_deaths) / (self.exposure + guess_deaths / guess)
    }

    fn add(&mut self, deaths: f64, exposure: f64) {
        self.deaths += deaths;
        self.exposure += exposure;
    }

    fn decay(&mut self) {
        self.deaths *= KEEP;
        self.exposure *= KEEP;
    }
}

/// A sealed segment at the time of the last look.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Its serial number plus one; 0 if it was not sealed then.
    serial: u64,
    live_blocks: u32,
    /// Deaths since it was sealed, observed and expected, faded.
    deaths: f32,
    expected: f32,
    /// The same in the recent past: faded within about a segment of writes.
    recent_deaths: f32,
    recent_expected: f32,
}

impl Seen {
    /// Observed over expected deaths since it was sealed.
    fn own(&self) -> f64 {
        (f64::from(self.deaths) + SEGMENT_GUESS_DEATHS)
            / (f64::from(self.expected) + SEGMENT_GUESS_DEATHS)
    }

    /// How much more or less than expected died in the recent past: a row of the table.
    fn activity(&self) -> usize {
        let ratio = (self.recent_deaths + RECENT_GUESS_DEATHS)
            / (self.recent_expected + RECENT_GUESS_DEATHS);
        ACTIVITIES.partition_point(|&bound| bound <= ratio)
    }
}

#[derive(Default)]
pub(super) struct Twin {
    seen: Vec<Seen>,
    seen_at: u64,
    fade_at: u64,
    by_age: Vec<Hazard>,
    /// Observed and expected deaths of segments of each activity, faded.
    by_activity: [Hazard; ACTIVITIES.len() + 1],
    /// Squared differences of observed and expected deaths, and expected deaths, faded.
    squares: f64,
    expected: f64,
}

fn class_of(segment: &SegmentInfo) -> usize {
    usize::from(segment.class) % CLASSES
}

/// When the blocks of a segment were written, on average.
fn filled_at(segment: &SegmentInfo) -> u64 {
    segment.opened_at.midpoint(segment.sealed_at)
}

/// The row of the table for the class and age of a segment.
fn row(segment: &SegmentInfo, view: &LogView<'_>) -> usize {
    let unit = (view.live_blocks / AGE_UNITS_PER_VOLUME).max(1);
    let age = ((view.now - segment.sealed_at) / unit).max(1);
    let whole = age.ilog2() as usize;
    let upper = if whole == 0 { 0 } else { (age >> (whole - 1)) as usize & 1 };
    class_of(segment) * AGES + (2 * whole + upper).min(AGES - 1)
}

impl Twin {
    /// The death rate of blocks in segments of this class and age.
    fn rate(&self, segment: &SegmentInfo, view: &LogView<'_>) -> f64 {
        let age = view.now.saturating_sub(filled_at(segment));
        let volume = view.live_blocks.max(1) as f64;
        let guess = SCALE_FREE / (age.max(1) as f64 / volume).powf(AGE_POWER) / volume;
        self.by_age[row(segment, view)].rate(guess, GUESS_DEATHS * self.dispersion(view))
    }

    /// The death rate of blocks in this segment, which was looked at.
    fn rate_of(&self, seen: &Seen, segment: &SegmentInfo, view: &LogView<'_>) -> f64 {
        let guess_deaths = ACTIVITY_GUESS_DEATHS * self.dispersion(view);
        let factor = self.by_activity[seen.activity()].rate(1.0, guess_deaths);
        self.rate(segment, view) * seen.own() * factor
    }

    /// How many deaths count as one event: 1 if they are independent, at most a segment's blocks.
    fn dispersion(&self, view: &LogView<'_>) -> f64 {
        let found = (self.squares + 1.0) / (self.expected + 1.0);
        found.clamp(1.0, f64::from(view.segment_blocks.max(1)))
    }

    /// A segment that was not sealed at the last call. If that was long ago, the deaths since it was
    /// opened are taken in.
    fn first_look(&mut self, segment: &SegmentInfo, view: &LogView<'_>) -> Seen {
        let (serial, live_blocks) = (segment.serial + 1, segment.live_blocks);
        let new = Seen { serial, live_blocks, ..Seen::default() };
        if view.now - segment.sealed_at < view.live_blocks / AGE_UNITS_PER_VOLUME {
            return new;
        }
        let written = segment.written_blocks;
        let deaths = f64::from(written.saturating_sub(live_blocks));
        let span = view.now.saturating_sub(filled_at(segment)) as f64;
        let exposure = (f64::from(written) + f64::from(live_blocks)) / 2.0 * span;
        self.by_age[row(segment, view)].add(deaths, exposure);
        let expected = self.rate(segment, view) * exposure;
        Seen { deaths: deaths as f32, expected: expected as f32, ..new }
    }

    /// Takes in the deaths since the last call.
    fn update(&mut self, view: &LogView<'_>) {
        self.by_age.resize(CLASSES * AGES, Hazard::default());
        self.seen.resize(view.segments.len(), Seen::default());
        let span = (view.now - self.seen_at) as f64;
        let recent = (-span / f64::from(view.segment_blocks.max(1))).exp() as f32;
        self.seen_at = view.now;
        for (number, segment) in view.segments.iter().enumerate() {
            let mut seen = self.seen[number];
            if segment.state != SegmentState::Sealed {
                self.seen[number] = Seen::default();
                continue;
            }
            if seen.serial != segment.serial + 1 {
                self.seen[number] = self.first_look(segment, view);
                continue;
            }
            let deaths = f64::from(seen.live_blocks.saturating_sub(segment.live_blocks));
            let exposure = f64::from(seen.live_blocks + segment.live_blocks) / 2.0 * span;
            let expected = self.rate(segment, view) * exposure;
            let expected_here = expected * seen.own();
            self.by_activity[seen.activity()].add(deaths, expected_here);
            seen.recent_deaths = seen.recent_deaths * recent + deaths as f32;
            seen.recent_expected = seen.recent_expected * recent + expected_here as f32;
            self.squares += (deaths - expected).powi(2);
            self.expected += expected;
            seen.deaths += deaths as f32;
            seen.expected += expected as f32;
            seen.live_blocks = segment.live_blocks;
            self.seen[number] = seen;
            self.by_age[row(segment, view)].add(deaths, exposure);
        }
        if view.now >= self.fade_at {
            self.fade_at = view.now + view.live_blocks / PERIODS_PER_VOLUME;
            self.by_age.iter_mut().chain(&mut self.by_activity).for_each(Hazard::decay);
            self.squares *= KEEP;
            self.expected *= KEEP;
            for seen in &mut self.seen {
                seen.deaths *= KEEP as f32;
                seen.expected *= KEEP as f32;
            }
        }
    }
}

impl VictimPolicy for Twin {
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        self.update(&candidates.view);
        let mut best: Option<(f64, u32)> = None;
        for (number, segment) in candidates.iter() {
            let seen = &self.seen[number as usize];
            let rate = self.rate_of(seen, segment, &candidates.view);
            let worth = worth(rate, segment.utilization());
            if best.is_none_or(|(least, _)| worth < least) {
                best = Some((worth, number));
            }
        }
        best.map(|(_, number)| number)
    }
}

/// The least worth of a block of garbage at which cleaning now gains.
fn worth(rate: f64, u: f64) -> f64 {
    if u <= 0.0 {
        return 0.0;
    }
    let g = 1.0 - u;
    rate * u / (g + u * u.ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_equal_rates_the_emptier_segment_comes_first() {
        assert!(worth(1.0, 0.3) < worth(1.0, 0.5) && worth(1.0, 0.0) < worth(1.0, 0.3));
    }

    #[test]
    fn a_segment_that_dies_slowly_comes_before_an_emptier_one_that_dies_fast() {
        assert!(worth(0.1, 0.8) < worth(10.0, 0.6));
    }

    fn segment(serial: u64, live_blocks: u32, class: u8) -> SegmentInfo {
        SegmentInfo {
            state: SegmentState::Sealed,
            class,
            serial,
            size_blocks: 100,
            written_blocks: 100,
            live_blocks,
            ..SegmentInfo::default()
        }
    }

    fn view(now: u64, segments: &[SegmentInfo]) -> LogView<'_> {
        LogView { now, live_blocks: 1000, segment_blocks: 100, segments, open: &[] }
    }

    #[test]
    fn rates_are_learnt_from_what_dies() {
        let mut twin = Twin::default();
        let large = |serial, live_blocks, class| SegmentInfo {
            written_blocks: 10_000,
            ..segment(serial, live_blocks, class)
        };
        // The segment of class 0 loses six hundred blocks a round, that of class 1 fifty.
        for round in 0..=10u32 {
            let segments = [large(0, 10_000 - 600 * round, 0), large(1, 4500 - 50 * round, 1)];
            twin.update(&view(1000 + 100 * u64::from(round), &segments));
        }
        let segments = [large(0, 4000, 0), large(1, 4000, 1)];
        let view = view(2000, &segments);
        let candidates = Candidates { view, min_garbage_share: 0.15 };
        let rate = |at: usize| twin.rate(&segments[at], &view);
        assert!(rate(0) > 1.5 * rate(1), "{}, {}", rate(0), rate(1));
        assert_eq!(twin.choose(&candidates), Some(1));
    }

    #[test]
    fn the_first_look_already_tells_old_segments_from_young_ones() {
        let old = segment(0, 70, 0);
        let young = SegmentInfo { opened_at: 1900, sealed_at: 1950, ..segment(1, 70, 0) };
        let segments = [young, old];
        let candidates = Candidates { view: view(2000, &segments), min_garbage_share: 0.15 };
        assert_eq!(Twin::default().choose(&candidates), Some(1));
    }

    #[test]
    fn a_segment_that_is_just_dying_is_left_alone_where_deaths_come_in_bursts() {
        let mut twin = Twin::default();
        // Twenty segments of equal age lose half of their blocks one after the other, each within
        // ten looks.
        let after = |round: u32| -> Vec<SegmentInfo> {
            let live = |at: u32| 1000 - 50 * round.saturating_sub(10 * at).min(10);
            let of =
                |at: u32| SegmentInfo { written_blocks: 1000, ..segment(at.into(), live(at), 0) };
            (0..20).map(of).collect()
        };
        for round in 0..75 {
            twin.update(&view(10_000 + 50 * u64::from(round), &after(round)));
        }
        // The eighth is at half of its burst, the others have had theirs or are still full.
        let segments = after(75);
        let view = view(10_000 + 50 * 75, &segments);
        twin.update(&view);
        let rate = |at: usize| twin.rate_of(&twin.seen[at], &segments[at], &view);
        assert!(rate(7) > 3.0 * rate(3), "{}, {}", rate(7), rate(3));
    }

    #[test]
    fn deaths_that_come_together_count_as_few() {
        let after = |deaths: fn(u32) -> u32| {
            let mut twin = Twin::default();
            let mut live = 1000;
            for round in 0..10 {
                live -= deaths(round);
                let one = SegmentInfo { written_blocks: 1000, ..segment(0, live, 0) };
                twin.update(&view(1000 + 100 * u64::from(round), &[one]));
            }
            twin.dispersion(&view(2000, &[]))
        };
        let (apart, together) = (after(|_| 40), after(|round| if round == 7 { 400 } else { 0 }));
        assert!(together > 2.0 * apart, "{together}, {apart}");
    }
}
