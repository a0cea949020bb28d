//! Cells: classes of history, and the measured death rate of blocks with such a history.
//!
//! The death rate of a cell is deaths over exposure (live blocks times user writes), both halved
//! each epoch. While a cell has seen few deaths, its rate is drawn towards the product of the rates
//! of its row (all means) and its column (all distances), each relative to all blocks. The rate of
//! a row that has seen few deaths is drawn towards half a death in the time that has just passed
//! without one, the rate that scale-free lifetimes would have.

use super::word::{DISTANCES, FIRST, MEANS};

/// Number of cells: kinds (moved or not, sequential or not), distances, means.
pub(super) const CELLS: usize = 4 * DISTANCES * MEANS;
/// Cells from this number on are those of blocks that the cleaner placed.
pub(super) const MOVED_FROM: usize = CELLS / 2;
/// The factor by which deaths and exposure decay each epoch.
const KEEP: f64 = 0.5;
/// The weight, in deaths, of the first guess for a row or column, and for a cell.
const GUESS_DEATHS: f64 = 2.0;
const CELL_GUESS_DEATHS: f64 = 8.0;
/// Deaths expected in the time that has passed, under scale-free lifetimes.
const SCALE_FREE: f64 = 0.5;

#[derive(Clone, Copy, Default)]
struct Cell {
    live: i64,
    /// Exposure since the epoch began, less live blocks times now.
    exits_less_entries: i64,
    deaths_now: u64,
    deaths: f64,
    exposure: f64,
}

/// The estimate for a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// Live blocks in it, on average over the epochs.
    pub(super) live: f64,
    /// Deaths a block and user write.
    pub(super) rate: f64,
}

/// Deaths over exposure, drawn towards a guess.
#[derive(Clone, Copy, Default)]
struct Sum {
    deaths: f64,
    exposure: f64,
}

impl Sum {
    fn add(&mut self, cell: &Cell) {
        self.deaths += cell.deaths;
        self.exposure += cell.exposure;
    }

    fn rate(self, guess: f64, guess_deaths: f64) -> f64 {
        (self.deaths + guess_deaths) / (self.exposure + guess_deaths / guess)
    }
}

pub(super) struct Cells {
    cells: Vec<Cell>,
    epoch_from: u64,
    /// Number of user writes that the exposures represent.
    weight: f64,
}

impl Cells {
    pub(super) fn new() -> Cells {
        Cells { cells: vec![Cell::default(); CELLS], epoch_from: 0, weight: 0.0 }
    }

    /// A block enters a cell.
    pub(super) fn enter(&mut self, cell: usize, now: u64) {
        let cell = &mut self.cells[cell];
        cell.live += 1;
        cell.exits_less_entries -= now as i64;
    }

    /// A block leaves a cell, by death or because it is moved.
    pub(super) fn leave(&mut self, cell: usize, now: u64, is_dead: bool) {
        let cell = &mut self.cells[cell];
        cell.live -= 1;
        cell.exits_less_entries += now as i64;
        cell.deaths_now += u64::from(is_dead);
    }

    /// Takes in the events since the last epoch.
    pub(super) fn end_epoch(&mut self, now: u64) {
        self.weight = self.weight * KEEP + (now - self.epoch_from) as f64;
        self.epoch_from = now;
        for cell in &mut self.cells {
            let exposure = cell.exits_less_entries + cell.live * now as i64;
            cell.exits_less_entries = -cell.live * now as i64;
            cell.deaths = cell.deaths * KEEP + cell.deaths_now as f64;
            cell.exposure = cell.exposure * KEEP + exposure as f64;
            cell.deaths_now = 0;
        }
    }

    /// The death rates of all cells.
    pub(super) fn rates(&self, tick_writes: f64) -> Vec<Rate> {
        let mut all = Sum::default();
        let mut rows = vec![Sum::default(); CELLS / MEANS];
        let mut columns = vec![Sum::default(); CELLS / DISTANCES];
        for (at, cell) in self.cells.iter().enumerate() {
            all.add(cell);
            rows[row(at)].add(cell);
            columns[column(at)].add(cell);
        }
        let mean = (all.deaths + 1e-9) / (all.exposure + 1e-3);
        let rows: Vec<f64> = rows
            .into_iter()
            .enumerate()
            .map(|(row, sum)| sum.rate(scale_free(row, tick_writes).unwrap_or(mean), GUESS_DEATHS))
            .collect();
        let rate = |(at, cell): (usize, &Cell)| {
            let column = columns[column(at)].rate(mean, GUESS_DEATHS);
            let guess = rows[row(at)] * column / mean;
            let sum = Sum { deaths: cell.deaths, exposure: cell.exposure };
            Rate {
                live: cell.exposure / self.weight.max(1.0),
                rate: sum.rate(guess, CELL_GUESS_DEATHS),
            }
        };
        self.cells.iter().enumerate().map(rate).collect()
    }
}

/// The row of a cell: kind and distance.
fn row(cell: usize) -> usize {
    cell / MEANS
}

/// The column of a cell: kind and mean.
fn column(cell: usize) -> usize {
    cell / (MEANS * DISTANCES) * MEANS + cell % MEANS
}

/// The rate of a row under scale-free lifetimes; `None` if its distance carries no information.
fn scale_free(row: usize, tick_writes: f64) -> Option<f64> {
    let (is_moved, distance) = (row / DISTANCES >= 2, row % DISTANCES);
    let octaves = if is_moved { distance as f64 / 2.0 } else { distance as f64 + 0.5 };
    let says = is_moved || distance != FIRST;
    says.then(|| SCALE_FREE / (octaves.exp2() * tick_writes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_deaths_over_exposure() {
        let mut cells = Cells::new();
        // Ten blocks that live for 100 writes each, ten times.
        for round in 0..10u64 {
            for _ in 0..10 {
                cells.enter(40, round * 100);
            }
            for _ in 0..10 {
                cells.leave(40, round * 100 + 100, true);
            }
        }
        cells.end_epoch(1000);
        let rate = cells.rates(1.0)[40];
        assert!((rate.rate - 0.01).abs() < 0.003, "{rate:?}");
        assert!((rate.live - 10.0).abs() < 1e-9, "{rate:?}");
    }

    #[test]
    fn a_move_is_no_death() {
        let mut cells = Cells::new();
        cells.enter(7, 0);
        cells.leave(7, 50, false);
        cells.end_epoch(50);
        assert_eq!(cells.cells[7].deaths, 0.0);
        assert_eq!(cells.cells[7].exposure, 50.0);
    }

    #[test]
    fn cells_that_saw_nothing_are_ranked_by_the_time_that_has_passed() {
        let rates = Cells::new().rates(1.0);
        let moved = |distance: usize| rates[(2 * DISTANCES + distance) * MEANS].rate;
        assert!((1..DISTANCES).all(|distance| moved(distance) < moved(distance - 1)));
    }
}
