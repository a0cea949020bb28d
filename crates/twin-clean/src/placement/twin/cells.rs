//! Cells: kinds of history, and how soon blocks with such a history die.

/// Half octaves of means and ages.
const HALVES: usize = 32;
const OCTAVES: usize = 17;
/// Cell of a block that was never rewritten.
const FRESH_MOVED: usize = 1;
const USER: usize = FRESH_MOVED + HALVES;
const MOVED: usize = USER + OCTAVES * HALVES;
const HALF: usize = MOVED + HALVES * HALVES;
pub(super) const COUNT: usize = 2 * HALF;
pub(super) fn fresh(seq: bool) -> usize { usize::from(seq) * HALF }
pub(super) fn is_seq(cell: usize) -> bool { cell >= HALF }

fn octave(x: u64) -> usize {
    (x.max(1).ilog2() as usize).min(OCTAVES - 1)
}

fn half_octave(x: u64) -> usize {
    let x = x.max(1);
    let whole = x.ilog2() as usize;
    let half = if whole == 0 { 0 } else { (x >> (whole - 1)) as usize & 1 };
    (2 * whole + half).min(HALVES - 1)
}

pub(super) fn user(interval: u64, mean: Option<u64>, seq: bool) -> usize {
    let mean = mean.map_or(0, half_octave);
    fresh(seq) + USER + octave(interval) * HALVES + mean
}

pub(super) fn cleaner(age: u64, mean: Option<u64>, seq: bool) -> usize {
    fresh(seq) + match mean {
        None => FRESH_MOVED + half_octave(age),
        Some(mean) => MOVED + half_octave(age) * HALVES + half_octave(mean),
    }
}

#[derive(Clone, Copy, Default)]
struct Cell {
    live: i64,
    /// exits minus entries
    time_sum: i64,
    deaths_now: u64,
    deaths: f64,
    exposure: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) live: f64,
    pub(super) rate: f64,
}

pub(super) struct Cells {
    cells: Vec<Cell>,
    from: u64,
    weight: f64,
}

impl Cells {
    pub(super) fn new() -> Cells {
        Cells { cells: vec![Cell::default(); COUNT], from: 0, weight: 0.0 }
    }

    pub(super) fn enter(&mut self, cell: usize, now: u64) {
        let cell = &mut self.cells[cell];
        cell.live += 1;
        cell.time_sum -= now as i64;
    }

    pub(super) fn leave(&mut self, cell: usize, now: u64, dead: bool) {
        let cell = &mut self.cells[cell];
        cell.live -= 1;
        cell.time_sum += now as i64;
        cell.deaths_now += u64::from(dead);
    }

    pub(super) fn end_epoch(&mut self, now: u64, keep: f64) {
        let span = (now - self.from) as f64;
        self.weight = self.weight * keep + span;
        self.from = now;
        for cell in &mut self.cells {
            let exposure = cell.time_sum + cell.live * now as i64;
            cell.time_sum = -cell.live * now as i64;
            cell.deaths = cell.deaths * keep + cell.deaths_now as f64;
            cell.exposure = cell.exposure * keep + exposure as f64;
            cell.deaths_now = 0;
        }
    }

    pub(super) fn rates(&self, pseudo: f64) -> Vec<Rate> {
        let (mut deaths, mut exposure) = (0.0, 0.0);
        for cell in &self.cells {
            deaths += cell.deaths;
            exposure += cell.exposure;
        }
        let global = (deaths + 1e-9) / (exposure + 1e-3);
        self.cells.iter().map(|cell| {
            let rate = (cell.deaths + pseudo) / (cell.exposure + pseudo / global);
            Rate { live: cell.exposure / self.weight.max(1.0), rate }
        }).collect()
    }
}
