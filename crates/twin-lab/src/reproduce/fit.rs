//! Fitting the constants to some cells of the table of 1994, and scoring them on the others.
//!
//! Contract: the search starts from the published values (or none), changes one constant at a time
//! by shrinking steps, and keeps a change that reduces the sum of the squared errors of the chosen
//! cells. It is deterministic: the same cells give the same constants.

use super::clc::{self, Cell, Score, System};
use super::fitted::FITTED;
use super::{Need, run_all};
use crate::bench::BenchFailure;

/// The start, the first step and the smallest step of each search, in the order of [`FITTED`]. The
/// third is the track skew in sectors; the cylinder skew keeps the RZ26's ratio to it.
const SEARCH: [(f64, f64, f64); 4] = [
    (2_400_000.0, 600_000.0, 150_000.0),
    (0.0, 600.0, 150.0),
    (7.0, 1.0, 1.0),
    (500.0, 250.0, 125.0),
];

/// A half of the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Every second size, from the smallest on.
    EvenSizes,
    /// The other sizes.
    OddSizes,
    /// EFS's cells.
    Efs,
    /// LFS's cells.
    Lfs,
}

impl Half {
    fn has(self, file_kb: u64, system: System) -> bool {
        let even = (file_kb / 4).trailing_zeros().is_multiple_of(2);
        match self {
            Half::EvenSizes => even,
            Half::OddSizes => !even,
            Half::Efs => system == System::Efs,
            Half::Lfs => system == System::Lfs,
        }
    }

    /// The half with the other cells.
    pub fn other(self) -> Half {
        match self {
            Half::EvenSizes => Half::OddSizes,
            Half::OddSizes => Half::EvenSizes,
            Half::Efs => Half::Lfs,
            Half::Lfs => Half::Efs,
        }
    }
}

fn settings(values: &[f64; 4]) -> String {
    let text = |i: usize| match FITTED[i].key {
        "skews" => format!("{}/{}", values[i], (values[i] * 25.0 / 7.0).round()),
        _ => format!("{:.0}", values[i]),
    };
    (0..4).map(|i| format!("{}={}", FITTED[i].key, text(i))).collect::<Vec<_>>().join(",")
}

fn with(need: &Need, settings: &str) -> Need {
    Need::new(format!("{}:{settings}", need.config), need.bench.clone())
}

fn run_half(half: Half, values: &[f64; 4], threads: usize) -> Result<Vec<Cell>, BenchFailure> {
    let settings = settings(values);
    let mut needs = Vec::new();
    for system in [System::Efs, System::Lfs] {
        for kb in clc::sizes_kb().into_iter().filter(|&kb| half.has(kb, system)) {
            needs.push(with(&clc::need(clc::config(system, false), kb), &settings));
        }
    }
    let results = run_all(needs, threads, &|_, _| {})?;
    let mut cells = clc::cells_of(&results, |need| with(&need, &settings));
    cells.retain(|c| half.has(c.file_kb, c.system));
    Ok(cells)
}

fn badness(cells: &[Cell]) -> f64 {
    cells.iter().filter(|c| !c.is_suspect()).map(|c| c.error().powi(2)).sum()
}

/// Fits on one half and scores on the other. Returns the settings and the score.
///
/// # Errors
/// The first run that fails.
pub fn cross(
    half: Half,
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<(String, Score), BenchFailure> {
    let mut values = SEARCH.map(|s| s.0);
    let mut steps = SEARCH.map(|s| s.1);
    let mut best = badness(&run_half(half, &values, threads)?);
    let mut tried = 0;
    loop {
        let mut better = false;
        for i in 0..4 {
            for direction in [1.0, -1.0] {
                let mut next = values;
                next[i] = (values[i] + direction * steps[i]).max(0.0);
                if next[i] == values[i] || (i == 0 && next[i] <= 0.0) {
                    continue;
                }
                let found = badness(&run_half(half, &next, threads)?);
                tried += 1;
                progress(tried, tried + 20);
                if found < best * 0.999 {
                    (best, values, better) = (found, next, true);
                    break;
                }
            }
        }
        if better {
            continue;
        }
        if (0..4).all(|i| steps[i] <= SEARCH[i].2) {
            break;
        }
        for (step, search) in steps.iter_mut().zip(SEARCH) {
            *step = (*step / 2.0).max(search.2);
        }
    }
    let other = run_half(half.other(), &values, threads)?;
    Ok((settings(&values), clc::score(other.iter())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_and_its_other_have_every_cell_once() {
        for half in [Half::EvenSizes, Half::Efs] {
            for kb in clc::sizes_kb() {
                for system in [System::Efs, System::Lfs] {
                    assert_ne!(half.has(kb, system), half.other().has(kb, system));
                }
            }
        }
    }

    #[test]
    fn settings_are_those_of_a_configuration() {
        let text = format!("efs:{}", settings(&[3e6, 1000.0, 6.0, 300.0]));
        let config = crate::Config::parse(&text).unwrap();
        assert_eq!((config.skews, config.command_ns), (Some((6, 21)), 1_000_000));
    }
}
