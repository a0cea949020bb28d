//! Which cells share a class: cells sorted by death rate, cut into contiguous classes of least
//! predicted cost.
//!
//! A class is modelled as blocks of one rate, the mean. With a price on garbage the cost of a
//! partition is a sum over classes, so dynamic programming finds the best cut; the price is the one
//! at which all classes together hold as much garbage as there is. Each class after the first must
//! save enough to justify its open segment.
//!
//! The model assumes that deaths are independent. They are not: blocks that are written together
//! are often overwritten together, and cleaner writes between them separate them. Therefore blocks
//! that users wrote and blocks that were moved get classes of their own.

use super::cells::Rate;
use super::model::Model;

/// Cells of like rate are treated as one: the number of bins in an octave.
const BINS_PER_OCTAVE: f64 = 4.0;
const BINS_MAX: usize = 96;
/// The least saving of each further class, in moves per user write.
const EARNINGS: f64 = 0.002;
/// Number of halvings in the search for the price.
const HALVINGS: usize = 40;
/// Number of rounds of cutting and pricing.
const ROUNDS: usize = 2;

/// Number of live blocks, and how many of them die per user write.
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

/// Plans the classes, with a table of costs.
pub(super) struct Planner {
    model: Model,
    garbage_share: f64,
}

impl Planner {
    pub(super) fn new(garbage_share: f64) -> Planner {
        Planner { model: Model::new(), garbage_share }
    }

    /// Gives each cell its class, at most `most` of them; cells from `moved_from` on are those of
    /// blocks that the cleaner placed. Classes are numbered hottest first, those of users' blocks
    /// before those of moved blocks. Nothing changes if there are no live blocks.
    pub(super) fn plan(&self, rates: &[Rate], moved_from: usize, most: usize, class_of: &mut [u8]) {
        let seen = rates.iter().filter(|rate| rate.live > 0.0);
        let highest = seen.map(|rate| rate.rate).fold(0.0, f64::max);
        if highest <= 0.0 {
            return;
        }
        let bin_of = |rate: f64| {
            let below = (highest / rate.max(1e-300)).log2() * BINS_PER_OCTAVE;
            (below.max(0.0) as usize).min(BINS_MAX - 1)
        };
        let binned = |rates: &[Rate]| {
            let mut bins = vec![Bin::default(); BINS_MAX];
            for rate in rates.iter().filter(|rate| rate.live > 0.0) {
                let bin = &mut bins[bin_of(rate.rate)];
                *bin = bin.and(Bin { live: rate.live, deaths: rate.live * rate.rate });
            }
            bins
        };
        let (written, moved) = rates.split_at(moved_from);
        let (written_bins, moved_bins) = (binned(written), binned(moved));
        let plan = if most < 2 {
            let both = written_bins.iter().zip(&moved_bins);
            let all: Vec<Bin> = both.map(|(a, b)| a.and(*b)).collect();
            self.classes(&[&all], most)
        } else {
            self.classes(&[&written_bins, &moved_bins], most)
        };
        let (of_written, of_moved) = (&plan.class_of[0], &plan.class_of[plan.class_of.len() - 1]);
        let (to_written, to_moved) = class_of.split_at_mut(moved_from);
        for (class, rate) in to_written.iter_mut().zip(written) {
            *class = of_written[bin_of(rate.rate)];
        }
        for (class, rate) in to_moved.iter_mut().zip(moved) {
            *class = of_moved[bin_of(rate.rate)];
        }
    }

    /// The best classes for kinds of blocks that share no class, each kind given as bins, hottest
    /// first. A kind has at least one class, so the number of classes is that of kinds or more, up
    /// to `most`.
    fn classes(&self, kinds: &[&[Bin]], most: usize) -> Plan {
        let bins = kinds.iter().flat_map(|bins| bins.iter());
        let all = bins.fold(Bin::default(), |sum, &bin| sum.and(bin));
        let garbage = all.live * self.garbage_share / (1.0 - self.garbage_share);
        let (mut price, _) = self.price(&[all], garbage);
        let mut best = Plan { class_of: Vec::new(), cost: f64::INFINITY };
        for count in kinds.len()..=most.max(kinds.len()) {
            let mut class_of = Vec::new();
            let mut moves = 0.0;
            for _ in 0..ROUNDS {
                class_of = self.divide(kinds, count, price);
                let mut classes = vec![Bin::default(); count];
                for (class_of, bins) in class_of.iter().zip(kinds) {
                    for (&class, &bin) in class_of.iter().zip(bins.iter()) {
                        classes[usize::from(class)] = classes[usize::from(class)].and(bin);
                    }
                }
                (price, moves) = self.price(&classes, garbage);
            }
            let cost = moves / all.deaths + EARNINGS * (count - 1) as f64;
            if cost < best.cost {
                best = Plan { class_of, cost };
            }
        }
        best
    }

    /// The `count` classes of least cost at this price, divided among the kinds: class by kind and
    /// bin.
    fn divide(&self, kinds: &[&[Bin]], count: usize, price: f64) -> Vec<Vec<u8>> {
        let cuts: Vec<Cuts> = kinds.iter().map(|bins| self.cut(bins, count, price)).collect();
        let [first, second] = cuts.as_slice() else { return vec![cuts[0].classes(count, 0)] };
        let cost = |of_first: usize| first.cost(of_first) + second.cost(count - of_first);
        let of_first = (1..count).min_by(|&a, &b| cost(a).total_cmp(&cost(b))).unwrap_or(1);
        vec![first.classes(of_first, 0), second.classes(count - of_first, of_first)]
    }

    /// The price at which the classes hold this much garbage, and the moves per user write at that
    /// price.
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

    /// The best cuts of the bins into 1 to `most` classes at this price.
    fn cut(&self, bins: &[Bin], most: usize, price: f64) -> Cuts {
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
        let mut best = vec![vec![(f64::INFINITY, 0); end + 1]; most + 1];
        best[0][0].0 = 0.0;
        for classes in 1..=most {
            for to in 1..=end {
                for from in 0..to {
                    let cost = best[classes - 1][from].0 + costs[from][to - from - 1];
                    if cost < best[classes][to].0 {
                        best[classes][to] = (cost, from);
                    }
                }
            }
        }
        Cuts { best }
    }
}

/// Classes by kind of block and bin, and their cost in moves per user write.
struct Plan {
    class_of: Vec<Vec<u8>>,
    cost: f64,
}

/// By number of classes and end: the least cost of the bins before the end, and where the last
/// class begins.
struct Cuts {
    best: Vec<Vec<(f64, usize)>>,
}

impl Cuts {
    fn cost(&self, count: usize) -> f64 {
        self.best[count].last().map_or(f64::INFINITY, |end| end.0)
    }

    /// The class of each bin, `first` being the hottest.
    fn classes(&self, count: usize, first: usize) -> Vec<u8> {
        let end = self.best[count].len() - 1;
        let mut cut = vec![0; end];
        let mut to = end;
        for class in (0..count).rev() {
            let from = self.best[class + 1][to].1;
            cut[from..to].fill((first + class) as u8);
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
        Planner::new(0.15).plan(&rates, rates.len(), most, &mut classes);
        classes
    }

    #[test]
    fn what_is_moved_has_classes_of_its_own_even_before_there_is_any() {
        let rate = |live| Rate { live, rate: 0.001 };
        let mut none_yet = [9; 2];
        Planner::new(0.15).plan(&[rate(500.0), rate(0.0)], 1, 6, &mut none_yet);
        assert_eq!(none_yet, [0, 1]);
        let mut classes = [9; 3];
        Planner::new(0.15).plan(&[rate(500.0), rate(500.0), rate(900.0)], 2, 6, &mut classes);
        assert_eq!(classes, [0, 0, 1]);
        Planner::new(0.15).plan(&[rate(500.0), rate(500.0), rate(900.0)], 2, 1, &mut classes);
        assert_eq!(classes, [0, 0, 0]);
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
