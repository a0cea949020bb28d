//! Twin: classes of equal death rate. What is known of a block is its history; how soon blocks
//! with such a history die is measured, not assumed.

mod classes;
mod cells;
mod model;

use super::Placement;
use crate::facts::{CleanerWrite, NO_SEGMENT, SegmentFacts, Setting, UserWrite, View};
use cells::Cells;
use classes::{Bin, Plan};

/// Parts of the live blocks after which classes are drawn anew.
const EPOCHS_PER_VOLUME: u64 = 4;
/// Intervals of at most this part of a segment say nothing of the mean.
const BURST: u64 = 2;

/// Ours.
pub(super) struct Twin {
    cells: Cells,
    plan: Plan,
    class_of: Vec<u8>,
    open_segments: usize,
    garbage_share: f64,
    epoch_at: u64,
    epoch_from: u64,
    /// By class: when a block was last written to it.
    last_write_at: Vec<u64>,
    redirect: Vec<u8>,
    recent: Vec<u32>,
    pub(super) params: [f64; 8],
}

/// Word: time 32 | mean (bf16) 16 | count 4 | cell 12
fn get(word: u64) -> (u32, f32, u32, usize) {
    let mean = f32::from_bits((((word >> 32) & 0xffff) << 16) as u32);
    (word as u32, mean, ((word >> 48) & 15) as u32, (word >> 52) as usize)
}
fn put(time: u32, mean: f32, count: u32, cell: usize) -> u64 {
    let mean = u64::from((mean.to_bits() + 0x8000) >> 16);
    u64::from(time) | (mean << 32) | (u64::from(count) << 48) | ((cell as u64) << 52)
}

pub(crate) fn env(name: &str, default: f64) -> f64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn env_on(x: f64) -> bool { x > 0.0 }
impl Twin {
    pub(super) fn new(setting: &Setting) -> Twin {
        let open_segments = usize::from(setting.open_segments.clamp(1, 16));
        Twin {
            cells: Cells::new(),
            plan: Plan::new(),
            class_of: vec![0; cells::COUNT],
            open_segments,
            garbage_share: setting.garbage_share,
            epoch_at: u64::from(setting.segment_blocks) * 4,
            epoch_from: 0,
            last_write_at: vec![0; open_segments],
            recent: vec![u32::MAX; 64],
            redirect: (0..open_segments as u8).collect(),
            params: [env("P0", 4.0), env("P1", 0.002), env("P2", 0.25), env("P3", 2.0), env("P4", 0.5), env("P5", 1.0), 0., 0.],
        }
    }

    /// Draws the classes anew if it is time.
    fn advance(&mut self, view: &View<'_>) {
        if view.now < self.epoch_at {
            return;
        }
        let span = view.now - self.epoch_from;
        self.cells.end_epoch(view.now, self.params[4]);
        self.epoch_from = view.now;
        self.epoch_at = view.now + (view.live_blocks / EPOCHS_PER_VOLUME).max(u64::from(view.segment_blocks));
        let _ = span;
        let rates = self.cells.rates(self.params[0]);
        let mut bins: Vec<Bin> = Vec::new();
        let lowest = rates.iter().filter(|r| r.live > 0.0).map(|r| r.rate).fold(f64::INFINITY, f64::min);
        let bin_of = |rate: f64| (((rate / lowest).log2() * 4.0) as usize).min(95);
        let mut all = vec![Bin::default(); 96];
        for r in &rates {
            if r.live > 0.0 {
                let bin = &mut all[bin_of(r.rate)];
                bin.live += r.live;
                bin.deaths += r.live * r.rate;
            }
        }
        let mut bin_index = vec![0usize; 96];
        for (at, bin) in all.iter().enumerate() {
            if bin.live > 0.0 {
                bin_index[at] = bins.len();
                bins.push(*bin);
            }
        }
        if bins.is_empty() {
            return;
        }
        let class_of_bin = self.plan.choose(&bins, self.open_segments, self.garbage_share, self.params[1]);
        // hottest first
        let count = class_of_bin.last().copied().unwrap_or(0);
        for (cell, r) in rates.iter().enumerate() {
            let rate = r.rate.max(lowest);
            let mut at = bin_of(rate);
            while all[at].live == 0.0 && at > 0 {
                at -= 1;
            }
            self.class_of[cell] = count - class_of_bin[bin_index[at]];
        }
        if std::env::var("DEBUG").is_ok() {
            let mut sums = vec![(0.0, 0.0); 8];
            for (b, c) in bins.iter().zip(&class_of_bin) { sums[usize::from(count - c)].0 += b.live; sums[usize::from(count - c)].1 += b.deaths; }
            let tot: f64 = bins.iter().map(|b| b.live).sum();
            eprintln!("{} bins {} live {:.0}: {}", view.now, bins.len(), tot, sums.iter().filter(|s| s.0>0.0).map(|s| format!("{:.3}@{:.2}", s.0/tot, s.1/s.0*tot)).collect::<Vec<_>>().join(" "));
        }
    }

    /// The open segment for a class: its own, or one that would be stranded.
    fn route(&mut self, class: u8, view: &View<'_>) -> u8 {
        let patience = (view.live_blocks as f64 * self.params[2]) as u64;
        let mut to = class;
        if view.now.is_multiple_of(64) {
            // look for idle ones
            for c in 0..self.open_segments as u8 { self.redirect[usize::from(c)] = c; }
            for idle in 0..self.open_segments as u8 {
                let since = view.now - self.last_write_at[usize::from(idle)].min(view.now);
                if view.open_written(idle) > 0 && since > patience {
                    let near = if idle > 0 { idle - 1 } else { idle + 1 };
                    // nearest active class
                    let mut best = near;
                    let mut dist = 99;
                    for c in 0..self.open_segments as u8 {
                        let active = view.now - self.last_write_at[usize::from(c)].min(view.now) <= patience;
                        if c != idle && active && c.abs_diff(idle) < dist { dist = c.abs_diff(idle); best = c; }
                    }
                    if usize::from(best) < self.open_segments { self.redirect[usize::from(best)] = idle; }
                }
            }
        }
        let r = self.redirect[usize::from(class)];
        self.last_write_at[usize::from(class)] = view.now;
        if r != class {
            if view.open_written(r) > 0 { to = r; } else { self.redirect[usize::from(class)] = class; }
        }
        to
    }
}

impl Placement for Twin {
    fn user_write(&mut self, write: &UserWrite, word: &mut u64, view: &View<'_>) -> u8 {
        self.advance(view);
        let now = view.now;
        let unit = (view.live_blocks >> 10).max(1);
        let (time, mut mean, mut count, cell) = get(*word);
        let new_cell;
        let seq = write.block > 0 && self.recent[(write.block - 1) as usize & 63] == write.block - 1;
        self.recent[write.block as usize & 63] = write.block;
        let seq = seq && env_on(self.params[5]);
        if write.old_segment == NO_SEGMENT {
            new_cell = cells::fresh(seq);
            mean = 0.0;
            count = 0;
        } else {
            let interval = u64::from((now as u32).wrapping_sub(time));
            self.cells.leave(cell, now, true);
            if interval * BURST >= u64::from(view.segment_blocks) {
                count = (count + 1).min(15);
                mean += (interval as f32 - mean) / count as f32;
            }
            new_cell = cells::user(interval / unit, if count == 0 { None } else { Some(mean as u64 / unit) }, seq);
        }
        self.cells.enter(new_cell, now);
        *word = put(now as u32, mean, count, new_cell);
        self.route(self.class_of[new_cell], view)
    }

    fn cleaner_write(&mut self, _: &CleanerWrite, word: &mut u64, view: &View<'_>) -> u8 {
        let now = view.now;
        let unit = (view.live_blocks >> 10).max(1);
        let (time, mean, count, cell) = get(*word);
        let age = u64::from((now as u32).wrapping_sub(time));
        self.cells.leave(cell, now, false);
        let new_cell = cells::cleaner(age / unit, if count == 0 { None } else { Some(mean as u64 / unit) }, cells::is_seq(cell));
        self.cells.enter(new_cell, now);
        *word = put(time, mean, count, new_cell);
        self.route(self.class_of[new_cell], view)
    }

    fn trimmed(&mut self, _: u32, _: u32, word: &mut u64, view: &View<'_>) {
        self.cells.leave(get(*word).3, view.now, true);
    }

    fn sealed(&mut self, _: &SegmentFacts, _: &View<'_>) {}
}
