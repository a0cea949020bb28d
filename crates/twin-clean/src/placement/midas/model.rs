//! The model of MiDAS: survival of blocks, from sampled update intervals, and the predicted cost of
//! a chain of groups.
//!
//! A block that enters a group of `size` segments at a rate of `r` segments per segment of user
//! writes stays for `size / r`; the survival gives the share of blocks that is alive then and goes
//! on to the next group. The last group is a queue under uniform writes: for P segments with U
//! segments of live blocks, the valid ratio v solves v = exp(-(P/U)(1-v)). The chain is a Markov
//! chain without branches, so its cost is a sum of products.

/// The measured behaviour of the hot group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hot {
    /// Its share of user writes.
    pub(super) traffic: f64,
    /// The share of its blocks that is alive when it is cleaned.
    pub(super) valid: f64,
}

/// The groups between the hot one and the last.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    /// Segments of groups 1, 2, ..., without the last group.
    pub(super) sizes: Vec<f64>,
    /// Predicted valid ratios from group 0 on.
    pub(super) valid: Vec<f64>,
    /// The write amplification that the model predicts.
    pub(super) predicted: f64,
}

impl Default for Groups {
    fn default() -> Self {
        Groups { sizes: Vec::new(), valid: vec![0.0], predicted: f64::INFINITY }
    }
}

/// The share of blocks that is alive at each time after they were written.
pub(super) struct Survival {
    segment_blocks: u64,
    /// Number of sampled blocks by interval, in segments of user writes.
    counts: Vec<u64>,
    longer: u64,
    /// The share that is alive, by age in segments.
    alive: Vec<f64>,
}

/// Intervals of more segments than this count as infinite.
const INTERVALS: usize = 2048;

impl Survival {
    pub(super) fn new(segment_blocks: u64) -> Survival {
        Survival { segment_blocks, counts: vec![0; INTERVALS], longer: 0, alive: vec![1.0] }
    }

    /// A sampled block is written; its previous write was at `last_at` (modulo 2^32).
    pub(super) fn written(&mut self, last_at: Option<u32>, now: u64) {
        let Some(last_at) = last_at else {
            self.longer += 1;
            return;
        };
        let interval = u64::from((now as u32).wrapping_sub(last_at)) / self.segment_blocks;
        match self.counts.get_mut(interval as usize) {
            Some(count) => *count += 1,
            None => self.longer += 1,
        }
    }

    /// Ends the collection of an epoch.
    pub(super) fn finish(&mut self) {
        let total = self.counts.iter().sum::<u64>() + self.longer;
        let mut left = total as f64;
        self.alive.clear();
        for &count in &self.counts {
            self.alive.push(if total == 0 { 1.0 } else { left / total as f64 });
            left -= count as f64;
        }
        self.counts.fill(0);
        self.longer = 0;
    }

    /// The share that is alive at an age in segments, among blocks that are not hot: the hot ones
    /// are assumed to be those that die soonest.
    fn alive(&self, age: f64, hot: Hot) -> f64 {
        let at = (age as usize).min(self.alive.len() - 1);
        let next = self.alive[(at + 1).min(self.alive.len() - 1)];
        let alive = self.alive[at] + (next - self.alive[at]) * age.fract();
        (alive / (1.0 - hot.traffic * (1.0 - hot.valid)).max(1e-6)).min(1.0)
    }

    /// The prediction for groups of these sizes; `None` if they do not fit.
    fn predict(&self, sizes: &[f64], hot: Hot, live: f64, room: f64) -> Option<Groups> {
        let mut rate = 1.0 - hot.traffic * (1.0 - hot.valid);
        let (mut age, mut held, mut cost) = (0.0, 0.0, 1.0 + hot.traffic * hot.valid);
        let mut valid = vec![hot.valid];
        for &size in sizes {
            let leaves_at = age + size / rate.max(1e-9);
            let (before, after) = (self.alive(age, hot), self.alive(leaves_at, hot));
            let ratio = (after / before.max(1e-9)).clamp(1e-6, 1.0);
            held += size * (1.0 + ratio) / 2.0;
            rate *= ratio;
            cost += rate;
            valid.push(ratio);
            age = leaves_at;
        }
        let (room, live) = (room - sizes.iter().sum::<f64>(), live - held);
        if room <= 1.0 || live <= 0.0 || room <= live {
            return None;
        }
        let mut last = 0.5f64;
        for _ in 0..100 {
            last = (-(room / live) * (1.0 - last)).exp();
        }
        valid.push(last);
        let predicted = cost + rate * last / (1.0 - last).max(1e-6);
        Some(Groups { sizes: sizes.to_vec(), valid, predicted })
    }

    /// The groups of least predicted cost: each group in turn gets its best size, then each size is
    /// tried once more, for as long as that reduces the cost.
    pub(super) fn best_groups(
        &self,
        hot: Hot,
        live: f64,
        room: f64,
        most: usize,
    ) -> Option<Groups> {
        let mut best = self.predict(&[], hot, live, room)?;
        let try_size = |best: &mut Groups, at: usize| {
            let mut found = false;
            for size in 1..room.min(INTERVALS as f64) as usize {
                let mut sizes = best.sizes.clone();
                if at == sizes.len() {
                    sizes.push(0.0);
                }
                sizes[at] = size as f64;
                match self.predict(&sizes, hot, live, room) {
                    Some(groups) if groups.predicted < best.predicted - 1e-4 => {
                        (*best, found) = (groups, true);
                    }
                    _ => {}
                }
            }
            found
        };
        while best.sizes.len() + 1 < most {
            let end = best.sizes.len();
            if !try_size(&mut best, end) {
                break;
            }
        }
        for at in 0..best.sizes.len() {
            try_size(&mut best, at);
        }
        Some(best)
    }
}
