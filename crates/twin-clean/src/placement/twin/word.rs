//! The word of a block: 32 bits.
//!
//! Bits 0 to 15 are the moment of the last user write, in ticks of at most 1/1,024 of the volume,
//! modulo 64 volumes of writes or more; a block that the cleaner finds older than three quarters of
//! that is set to this age. Bits 16 to 23 are the mean interval, as 16 log2(ticks) (0: none yet);
//! bit 24 says that the mean is stable. Bits 25 to 31 with the upper five bits of the mean are the
//! cell: the length of the last interval or the age, whether the write was sequential, whether the
//! cleaner placed the block.

/// Steps per octave of the mean.
const STEPS: f32 = 16.0;
/// Weight of a new interval in a mean that is still moving, and in one that is stable.
const QUICK: f32 = 1.0 / 3.0;
const SETTLED: f32 = 1.0 / 14.0;
/// One in this many intervals makes a mean stable.
const SETTLES: u32 = 4;
/// Number of distances in time that cells distinguish.
pub(super) const DISTANCES: usize = 32;
/// Number of means that cells distinguish: none and short ones, then half octaves.
pub(super) const MEANS: usize = 32;
/// The distance of a block that was never rewritten.
pub(super) const FIRST: usize = DISTANCES - 1;
/// A block that is older is set to this age, in ticks.
const OLDEST_TICKS: u16 = 0xc000;

/// The history of a block, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    tick: u16,
    mean: u8,
    is_settled: bool,
    distance: u8,
    is_sequential: bool,
    is_moved: bool,
}

impl Word {
    pub(super) fn from_bits(bits: u64) -> Word {
        Word {
            tick: bits as u16,
            mean: (bits >> 16) as u8,
            is_settled: bits >> 24 & 1 == 1,
            distance: (bits >> 25) as u8 & 31,
            is_sequential: bits >> 30 & 1 == 1,
            is_moved: bits >> 31 & 1 == 1,
        }
    }

    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.tick)
            | u64::from(self.mean) << 16
            | u64::from(self.is_settled) << 24
            | u64::from(self.distance) << 25
            | u64::from(self.is_sequential) << 30
            | u64::from(self.is_moved) << 31
    }

    /// The number of its cell.
    pub(super) fn cell(self) -> usize {
        let kind = usize::from(self.is_moved) * 2 + usize::from(self.is_sequential);
        (kind * DISTANCES + usize::from(self.distance)) * MEANS + usize::from(self.mean >> 3)
    }
}

/// The clock of the policy: it converts user writes to ticks and updates words.
pub(super) struct Clock {
    /// A tick is 2 to this many user writes.
    tick_bits: u32,
}

/// The whole octave of a number of ticks; numbers below 2 are in the first.
fn octave(ticks: u16) -> u8 {
    ticks.max(1).ilog2() as u8
}

/// The half octave of a number of ticks.
fn half_octave(ticks: u16) -> u8 {
    let ticks = ticks.max(1);
    let whole = ticks.ilog2();
    let is_upper = whole > 0 && ticks >> (whole - 1) & 1 == 1;
    (2 * whole) as u8 + u8::from(is_upper)
}

impl Clock {
    pub(super) fn new(blocks: u32) -> Clock {
        Clock { tick_bits: (blocks / 1024).max(1).ilog2() }
    }

    pub(super) fn tick_writes(&self) -> f64 {
        (1u64 << self.tick_bits) as f64
    }

    fn tick(&self, now: u64) -> u16 {
        (now >> self.tick_bits) as u16
    }

    pub(super) fn first_write(&self, now: u64, is_sequential: bool) -> Word {
        let (tick, distance) = (self.tick(now), FIRST as u8);
        Word { tick, mean: 0, is_settled: false, distance, is_sequential, is_moved: false }
    }

    /// A user has written the block again. `noise` decides the random rounding of the mean.
    pub(super) fn rewritten(
        &self,
        old: Word,
        now: u64,
        is_sequential: bool,
        burst_writes: u64,
        noise: u32,
    ) -> Word {
        let tick = self.tick(now);
        let interval = tick.wrapping_sub(old.tick);
        let noise = (noise ^ now as u32).wrapping_mul(0x9e37_79b1).rotate_left(13);
        let noise = noise.wrapping_mul(0x85eb_ca6b);
        let (mut mean, mut is_settled) = (old.mean, old.is_settled);
        if u64::from(interval) << self.tick_bits >= burst_writes {
            mean = mean_with(mean, is_settled, interval, noise);
            is_settled |= old.mean > 0 && noise.is_multiple_of(SETTLES);
        }
        let distance = octave(interval);
        Word { tick, mean, is_settled, distance, is_sequential, is_moved: false }
    }

    /// The cleaner has moved the block.
    pub(super) fn moved(&self, old: Word, now: u64) -> Word {
        let age = self.tick(now).wrapping_sub(old.tick).min(OLDEST_TICKS);
        let tick = self.tick(now).wrapping_sub(age);
        let distance = half_octave(age).min(FIRST as u8);
        Word { tick, distance, is_moved: true, ..old }
    }
}

/// The mean after a new interval.
fn mean_with(mean: u8, is_settled: bool, interval_ticks: u16, noise: u32) -> u8 {
    let interval = f32::from(interval_ticks.max(1));
    let new = if mean == 0 {
        interval
    } else {
        let old = (f32::from(mean) / STEPS).exp2();
        old + (interval - old) * if is_settled { SETTLED } else { QUICK }
    };
    // Rounded up with the probability of the remainder, so that small changes are not lost.
    let up = (noise >> 8) as f32 / (1 << 24) as f32;
    (new.log2() * STEPS + up).clamp(1.0, 255.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_what_it_is_given_in_32_bits() {
        let word = Word {
            tick: 0xffff,
            mean: 255,
            is_settled: true,
            distance: 31,
            is_sequential: true,
            is_moved: true,
        };
        assert_eq!(word.to_bits(), 0xffff_ffff);
        for bits in [0, 0x1234_5678, 0x89ab_cdef] {
            assert_eq!(Word::from_bits(bits).to_bits(), bits);
        }
    }

    #[test]
    fn the_mean_of_equal_intervals_is_that_interval() {
        let clock = Clock::new(1 << 20);
        let (mut word, mut now) = (clock.first_write(0, false), 0);
        for _ in 0..1000 {
            now += 100 << clock.tick_bits;
            word = clock.rewritten(word, now, false, 0, now as u32);
        }
        let mean = (f32::from(word.mean) / STEPS).exp2();
        assert!((90.0..112.0).contains(&mean), "{mean}");
    }

    #[test]
    fn a_burst_leaves_the_mean_alone() {
        let clock = Clock::new(1 << 20);
        let word = clock.rewritten(clock.first_write(0, false), 1 << 18, false, 0, 1);
        let again = clock.rewritten(word, (1 << 18) + 5, true, 1 << 12, 2);
        assert_eq!((again.mean, again.distance, again.is_sequential), (word.mean, 0, true));
    }

    #[test]
    fn a_block_that_is_never_rewritten_stays_old_however_long_it_lies() {
        let clock = Clock::new(1024);
        let mut word = clock.first_write(0, false);
        for now in (0..1_000_000).step_by(10_000) {
            word = clock.moved(word, now);
        }
        assert_eq!(word.distance, half_octave(OLDEST_TICKS).min(FIRST as u8));
    }
}
