//! Which cells share a class: cells sorted by death rate, cut into contiguous classes of least
//! predicted cost.
//!
//! A class is taken for blocks of one rate, its mean. With a price on garbage the cost of a
//! partition is a sum over classes, so that dynamic programming finds the best cut; the price is
//! the one at which all classes together hold as much garbage as there is. Each class after the
//! first has to earn its open segment.

use super::cells::Rate;
use super::model::Model;

/// Cells of like rate are taken together: so many bins an octave.
const BINS_PER_OCTAVE: f64 = 4.0;
const BINS_MAX: usize = 96;
/// What each further class must save, in moves a user write.
const EARNINGS: f64 = 0.002;
/// Halvings in the search for the price.
const HALVINGS: usize = 40;
/// Rounds of cutting and pricing.
const ROUNDS: usize = 2;

/// Live blocks, and how many of them die a user write.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    live: f64,
    deaths: f64,
}

impl Bin {
    fn rate(self) -> f64 {
        self.deaths / self.live.max(1e-12)
    }

    fn less(self, other: Bin) -> Bin {
        Bin { live: self.live - other.live, deaths: self.deaths - other.deaths }
    }

    fn and(self, other: Bin) -> Bin {
        Bin { live: self.live + other.live, deaths: self.deaths + other.deaths }
    }
}

/// Draws classes.
pub(super) struct Planner {
    model: Model,
    garbage_share: f64,
}

impl Planner {
    pub(super) fn new(garbage_share: f64) -> Planner {
        Planner { model: Model::new(), garbage_share }
    }

    /// Gives each cell its class, the hottest being 0, of at most `most`. Nothing changes if there
    /// are no live blocks.
    pub(super) fn plan(&self, rates: &[Rate], most: usize, class_of: &mut [u8]) {
        let seen = rates.iter().filter(|rate| rate.live > 0.0);
        let highest = seen.map(|rate| rate.rate).fold(0.0, f64::max);
        if highest <= 0.0 {
            return;
        }
        let bin_of = |rate: f64| {
            let below = (highest / rate.max(1e-300)).log2() * BINS_PER_OCTAVE;
            (below.max(0.0) as usize).min(BINS_MAX - 1)
        };
        let mut bins = vec![Bin::default(); BINS_MAX];
        for rate in rates.iter().filter(|rate| rate.live > 0.0) {
            let bin = &mut bins[bin_of(rate.rate)];
            *bin = bin.and(Bin { live: rate.live, deaths: rate.live * rate.rate });
        }
        let class_of_bin = self.classes(&bins, most);
        for (class, rate) in class_of.iter_mut().zip(rates) {
            *class = class_of_bin[bin_of(rate.rate)];
        }
    }

    /// By bin, hottest first: its class.
    fn classes(&self, bins: &[Bin], most: usize) -> Vec<u8> {
        let all = bins.iter().fold(Bin::default(), |sum, &bin| sum.and(bin));
        let garbage = all.live * self.garbage_share / (1.0 - self.garbage_share);
        let mut best = vec![0; bins.len()];
        let (mut price, moves) = self.price(&[all], garbage);
        let mut least = moves / all.deaths;
        for count in 2..=most {
            let mut cut = Vec::new();
            let mut moves = 0.0;
            for _ in 0..ROUNDS {
                cut = self.cut(bins, count, price);
                let mut classes = vec![Bin::default(); count];
                for (&class, &bin) in cut.iter().zip(bins) {
                    classes[usize::from(class)] = classes[usize::from(class)].and(bin);
                }
                (price, moves) = self.price(&classes, garbage);
            }
            let cost = moves / all.deaths + EARNINGS * (count - 1) as f64;
            if cost < least {
                (least, best) = (cost, cut);
            }
        }
        best
    }

    /// The price at which the classes hold this much garbage, and the moves a user write then.
    fn price(&self, classes: &[Bin], garbage: f64) -> (f64, f64) {
        let classes = || classes.iter().filter(|class| class.live > 0.0);
        let (mut low, mut high) = (-60.0f64, 20.0f64);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            let price = middle.exp();
            let held: f64 =
                classes().map(|class| class.live * self.model.at(class.rate() / price).1).sum();
            if held > garbage {
                low = middle;
            } else {
                high = middle;
            }
        }
        let price = low.exp();
        let moves = classes().map(|class| {
            let (cost, held) = self.model.at(class.rate() / price);
            class.live * price * (cost - held)
        });
        (price, moves.sum())
    }

    /// The bins, cut into at most `count` classes of least cost at this price.
    fn cut(&self, bins: &[Bin], count: usize, price: f64) -> Vec<u8> {
        let mut sums = vec![Bin::default()];
        for &bin in bins {
            sums.push(sums[sums.len() - 1].and(bin));
        }
        let end = bins.len();
        let cost = |from: usize, to: usize| {
            let class = sums[to].less(sums[from]);
            if class.live <= 0.0 { 0.0 } else { class.live * self.model.at(class.rate() / price).0 }
        };
        let costs: Vec<Vec<f64>> =
            (0..end).map(|from| (from + 1..=end).map(|to| cost(from, to)).collect()).collect();
        // By classes and end: least cost of what is before, and where the last class begins.
        let mut best = vec![vec![(f64::INFINITY, 0); end + 1]; count + 1];
        best[0][0].0 = 0.0;
        for classes in 1..=count {
            for to in 1..=end {
                for from in 0..to {
                    let cost = best[classes - 1][from].0 + costs[from][to - from - 1];
                    if cost < best[classes][to].0 {
                        best[classes][to] = (cost, from);
                    }
                }
            }
        }
        let mut cut = vec![0; end];
        let mut to = end;
        for class in (0..count).rev() {
            let from = best[class + 1][to].1;
            cut[from..to].fill(class as u8);
            to = from;
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(rates: &[(f64, f64)], most: usize) -> Vec<u8> {
        let rates: Vec<Rate> = rates.iter().map(|&(live, rate)| Rate { live, rate }).collect();
        let mut classes = vec![9; rates.len()];
        Planner::new(0.15).plan(&rates, most, &mut classes);
        classes
    }

    #[test]
    fn what_dies_alike_has_one_class() {
        assert_eq!(classes(&[(1000.0, 0.001), (500.0, 0.00101), (10.0, 0.00102)], 6), [0, 0, 0]);
    }

    #[test]
    fn what_dies_at_different_rates_has_classes_hottest_first() {
        let found = classes(&[(9000.0, 0.00001), (1000.0, 0.001), (3000.0, 0.00011)], 6);
        assert_eq!(found, [2, 0, 1]);
    }

    #[test]
    fn there_are_never_more_classes_than_segments_may_be_open() {
        let rates: Vec<_> = (0..40).map(|at| (100.0, 0.5f64.powi(at / 2))).collect();
        for most in 1..=6 {
            assert!(classes(&rates, most).iter().all(|&class| usize::from(class) < most));
        }
    }

    #[test]
    fn without_live_blocks_classes_stay() {
        assert_eq!(classes(&[(0.0, 0.5)], 6), [9]);
    }
}
