//! Which death rates share a class: contiguous classes of least predicted cost.

use super::model::Model;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bin {
    pub(super) live: f64,
    pub(super) deaths: f64,
}

pub(super) struct Plan {
    model: Model,
}

impl Plan {
    pub(super) fn new() -> Plan {
        Plan { model: Model::new() }
    }

    /// By bin (coldest first): its class (coldest 0).
    pub(super) fn choose(&self, bins: &[Bin], most: usize, garbage_share: f64, earn: f64) -> Vec<u8> {
        let live: f64 = bins.iter().map(|b| b.live).sum();
        let deaths: f64 = bins.iter().map(|b| b.deaths).sum();
        let garbage = live * garbage_share / (1.0 - garbage_share);
        let one = vec![0; bins.len()];
        let (mut price, w1) = self.price(bins, &one, garbage);
        let (mut best, mut best_cost) = (one, w1 / deaths);
        for m in 2..=most {
            let mut classes = Vec::new();
            let mut w = 0.0;
            for _ in 0..2 {
                classes = self.split(bins, m, price);
                let (p, writes) = self.price(bins, &classes, garbage);
                price = p;
                w = writes;
            }
            let count = usize::from(*classes.last().unwrap());
            if count + 1 < m { break; }
            let cost = w / deaths + earn * (m - 1) as f64;
            if cost < best_cost {
                best_cost = cost;
                best = classes;
            }
        }
        best
    }

    fn sums(bins: &[Bin], classes: &[u8]) -> Vec<Bin> {
        let mut sums = vec![Bin::default(); usize::from(*classes.last().unwrap()) + 1];
        for (b, &c) in bins.iter().zip(classes) {
            sums[usize::from(c)].live += b.live;
            sums[usize::from(c)].deaths += b.deaths;
        }
        sums
    }

    /// The price of garbage at which the classes fill what there is, and cleaner writes per time.
    fn price(&self, bins: &[Bin], classes: &[u8], garbage: f64) -> (f64, f64) {
        let sums = Self::sums(bins, classes);
        let (mut low, mut high) = (-60.0f64, 60.0f64);
        for _ in 0..50 {
            let mid = (low + high) / 2.0;
            let used: f64 = sums.iter().map(|s| s.live * self.model.at(s.deaths / s.live / mid.exp()).1).sum();
            if used > garbage { low = mid } else { high = mid }
        }
        let price = low.exp();
        let writes = sums.iter().map(|s| {
            let (cost, q) = self.model.at(s.deaths / s.live / price);
            s.live * price * (cost - q)
        }).sum();
        (price, writes)
    }

    fn split(&self, bins: &[Bin], m: usize, price: f64) -> Vec<u8> {
        let n = bins.len();
        let mut acc = vec![Bin::default(); n + 1];
        for (i, b) in bins.iter().enumerate() {
            acc[i + 1] = Bin { live: acc[i].live + b.live, deaths: acc[i].deaths + b.deaths };
        }
        let cost = |i: usize, j: usize| {
            let live = acc[j].live - acc[i].live;
            let deaths = acc[j].deaths - acc[i].deaths;
            live * self.model.at(deaths / live / price).0
        };
        let mut table: Vec<Vec<f64>> = (0..n).map(|i| (0..=n).map(|j| if j > i { cost(i, j) } else { 0.0 }).collect()).collect();
        let mut best = vec![vec![(f64::INFINITY, 0usize); n + 1]; m + 1];
        best[0][0].0 = 0.0;
        for k in 1..=m {
            for j in 1..=n {
                for i in 0..j {
                    let c = best[k - 1][i].0 + table[i][j];
                    if c < best[k][j].0 { best[k][j] = (c, i); }
                }
            }
        }
        table.clear();
        let k_best = (1..=m).min_by(|&a, &b| best[a][n].0.total_cmp(&best[b][n].0)).unwrap();
        let mut classes = vec![0u8; n];
        let (mut j, mut k) = (n, k_best);
        while k > 0 {
            let i = best[k][j].1;
            classes[i..j].iter_mut().for_each(|c| *c = (k - 1) as u8);
            j = i;
            k -= 1;
        }
        classes
    }
}
