//! Twin: the segment that it pays most to clean now, by optimal stopping with measured rates.
//!
//! If blocks die at rate h, whatever their age, the best moment to clean a segment with
//! utilization u (g = 1 - u) is when h u / (g - u ln(1/u)) has fallen to the worth of a block of
//! garbage: before, waiting gains more than the space is worth. So the segment for which this is
//! least comes first. For a nearly full segment it is close to h u / g^2, which is close to
//! Lomet and Luo's minimum declining cost (ICDE 2021); what differs is that h is measured: deaths
//! over exposure of the segments of a class at an age, halved each quarter of a volume of writes,
//! and then what this very segment did against what was expected of it.
//!
//! Nothing is kept for a block: 24 bytes a segment, and a table of 10 KiB. The policy looks at
//! all segments when it is asked, so it costs user writes nothing.

use super::{Candidates, VictimPolicy};
use crate::facts::{SegmentFacts, State, View};

/// Half octaves of ages, in 1/256 of the volume.
const AGES: usize = 40;
/// Classes that are told apart; more share.
const CLASSES: usize = 16;
/// Deaths that the guess for a class (all classes), or an age (its class) counts for.
const GUESS_DEATHS: f64 = 5.0;
/// Deaths that what is expected of a segment counts for against what it does.
const SEGMENT_GUESS_DEATHS: f64 = 50.0;
/// What is kept each quarter of a volume of writes.
const KEEP: f64 = 0.5;
const PERIODS_PER_VOLUME: u64 = 4;

/// Deaths over exposure.
#[derive(Clone, Copy, Default)]
struct Hazard {
    deaths: f64,
    exposure: f64,
}

impl Hazard {
    fn rate(self, guess: f64) -> f64 {
        (self.deaths + GUESS_DEATHS) / (self.exposure + GUESS_DEATHS / guess)
    }

    fn add(&mut self, deaths: f64, exposure: f64) {
        self.deaths += deaths;
        self.exposure += exposure;
    }

    fn fade(&mut self) {
        self.deaths *= KEEP;
        self.exposure *= KEEP;
    }
}

/// A sealed segment as it was when last looked at.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Its serial number plus one; 0 if it was not sealed then.
    serial: u64,
    live_blocks: u32,
    /// Deaths since it was sealed, and how many were expected, faded.
    deaths: f32,
    expected: f32,
}

#[derive(Default)]
pub(super) struct Twin {
    seen: Vec<Seen>,
    seen_at: u64,
    fade_at: u64,
    by_age: Vec<Hazard>,
    by_class: [Hazard; CLASSES],
    all: Hazard,
}

fn class_of(segment: &SegmentFacts) -> usize {
    usize::from(segment.class) % CLASSES
}

/// The class and age of a segment.
fn row(segment: &SegmentFacts, view: &View<'_>) -> usize {
    let unit = (view.live_blocks >> 8).max(1);
    let age = ((view.now - segment.sealed_at) / unit).max(1);
    let whole = age.ilog2() as usize;
    let upper = if whole == 0 { 0 } else { (age >> (whole - 1)) as usize & 1 };
    class_of(segment) * AGES + (2 * whole + upper).min(AGES - 1)
}

impl Twin {
    /// The death rate of blocks in segments of this class and age.
    fn rate(&self, segment: &SegmentFacts, view: &View<'_>) -> f64 {
        let all = (self.all.deaths + 1e-9) / (self.all.exposure + 1e-3);
        self.by_age[row(segment, view)].rate(self.by_class[class_of(segment)].rate(all))
    }

    /// Takes up what has died since the last time.
    fn look(&mut self, view: &View<'_>) {
        self.by_age.resize(CLASSES * AGES, Hazard::default());
        self.seen.resize(view.segments.len(), Seen::default());
        let span = (view.now - self.seen_at) as f64;
        self.seen_at = view.now;
        for (number, segment) in view.segments.iter().enumerate() {
            let mut seen = self.seen[number];
            let serial = segment.serial + 1;
            if segment.state != State::Sealed || seen.serial != serial {
                let is_sealed = segment.state == State::Sealed;
                let (serial, live_blocks) =
                    (if is_sealed { serial } else { 0 }, segment.live_blocks);
                self.seen[number] = Seen { serial, live_blocks, ..Seen::default() };
                continue;
            }
            let deaths = f64::from(seen.live_blocks.saturating_sub(segment.live_blocks));
            let exposure = f64::from(seen.live_blocks + segment.live_blocks) / 2.0 * span;
            seen.deaths += deaths as f32;
            seen.expected += (self.rate(segment, view) * exposure) as f32;
            seen.live_blocks = segment.live_blocks;
            self.seen[number] = seen;
            self.by_age[row(segment, view)].add(deaths, exposure);
            self.by_class[class_of(segment)].add(deaths, exposure);
            self.all.add(deaths, exposure);
        }
        if view.now >= self.fade_at {
            self.fade_at = view.now + view.live_blocks / PERIODS_PER_VOLUME;
            self.by_age.iter_mut().chain(&mut self.by_class).for_each(Hazard::fade);
            self.all.fade();
            for seen in &mut self.seen {
                seen.deaths *= KEEP as f32;
                seen.expected *= KEEP as f32;
            }
        }
    }
}

impl VictimPolicy for Twin {
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        self.look(&candidates.view);
        let mut best: Option<(f64, u32)> = None;
        for (number, segment) in candidates.iter() {
            let seen = self.seen[number as usize];
            let own = (f64::from(seen.deaths) + SEGMENT_GUESS_DEATHS)
                / (f64::from(seen.expected) + SEGMENT_GUESS_DEATHS);
            let rate = self.rate(segment, &candidates.view) * own;
            let worth = worth(rate, segment.utilization());
            if best.is_none_or(|(least, _)| worth < least) {
                best = Some((worth, number));
            }
        }
        best.map(|(_, number)| number)
    }
}

/// What a block of garbage must be worth for cleaning to pay now.
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

    #[test]
    fn rates_are_learnt_from_what_dies() {
        let segment = |serial, live_blocks, class| SegmentFacts {
            state: State::Sealed,
            class,
            serial,
            size_blocks: 100,
            written_blocks: 100,
            live_blocks,
            ..SegmentFacts::default()
        };
        let mut twin = Twin::default();
        // Segments of class 0 lose nine blocks a round, those of class 1 one.
        for round in 0..5u32 {
            let segments = [segment(0, 90 - 9 * round, 0), segment(1, 60 - round, 1)];
            let now = 100 * u64::from(round);
            let (live_blocks, segment_blocks, open) = (1000, 100, &[][..]);
            let view = View { now, live_blocks, segment_blocks, segments: &segments, open };
            twin.look(&view);
        }
        let segments = [segment(0, 54, 0), segment(1, 56, 1)];
        let view = View {
            now: 400,
            live_blocks: 1000,
            segment_blocks: 100,
            segments: &segments,
            open: &[],
        };
        let candidates = Candidates { view, min_garbage_share: 0.15 };
        assert!(twin.rate(&segments[0], &view) > 2.0 * twin.rate(&segments[1], &view));
        assert_eq!(twin.choose(&candidates), Some(1));
    }
}
