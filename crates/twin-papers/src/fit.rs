//! Fitting the constants to some cells of the table of 1994, and scoring them on the others.
//!
//! Contract: `crate::search` looks for the constants with the smallest sum of the errors of the chosen cells, from
//! some starts, the published values (or none) among them. The same cells give the same constants.

use crate::choices::FITTED;
use crate::clc::{self, Cell, Score, System};
use crate::progress::{Progress, silent};
use crate::running::run_all;
use crate::search::{Dimension, search};
use crate::variation::with;
use twin_bench::BenchFailure;

/// The searched numbers in the order of [`FITTED`]. The first start is the published value, or none where
/// nothing is published. The third is the track skew in sectors; the cylinder skew keeps the RZ26's ratio to it.
const SEARCH: [Dimension; 5] = [
    from(&[2_400_000.0, 3_200_000.0, 4_000_000.0], 400_000.0, 100_000.0, 100_000.0),
    from(&[0.0, 1000.0], 400.0, 100.0, 0.0),
    from(&[7.0], 1.0, 1.0, 1.0),
    from(&[500.0], 250.0, 62.5, 0.0),
    from(&[900.0, 500.0, 200.0], 100.0, 50.0, 0.0),
];

const fn from(starts: &'static [f64], step: f64, least_step: f64, least: f64) -> Dimension {
    Dimension { starts, step, least_step, least }
}

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
    /// All cells.
    All,
}

impl Half {
    /// The four halves of which one is fitted and the other scored.
    pub const FOUR: [Half; 4] = [Half::EvenSizes, Half::OddSizes, Half::Efs, Half::Lfs];

    /// Whether it has the cells of a size and a system.
    pub fn has(self, file_kb: u64, system: System) -> bool {
        let even = (file_kb / 4).trailing_zeros().is_multiple_of(2);
        match self {
            Half::EvenSizes => even,
            Half::OddSizes => !even,
            Half::Efs => system == System::Efs,
            Half::Lfs => system == System::Lfs,
            Half::All => true,
        }
    }

    /// The half with the other cells.
    pub fn other(self) -> Half {
        match self {
            Half::EvenSizes => Half::OddSizes,
            Half::OddSizes => Half::EvenSizes,
            Half::Efs => Half::Lfs,
            Half::Lfs => Half::Efs,
            Half::All => Half::All,
        }
    }
}

/// The constants that [`fit`] finds for each half, as settings. `twinfs reproduce --cross-validate`
/// fits them again and says if it finds others.
const HELD_OUT: [(Half, &str); 4] = [
    (Half::EvenSizes, "bus-rate=3600000,command-us=200,skews=6/21,request-us=375,copy-us=200"),
    (Half::OddSizes, "bus-rate=3200000,command-us=300,skews=8/29,request-us=500,copy-us=200"),
    (Half::Efs, "bus-rate=4100000,command-us=0,skews=12/43,request-us=562,copy-us=550"),
    (Half::Lfs, "bus-rate=3500000,command-us=0,skews=5/18,request-us=375,copy-us=250"),
];

/// The constants that were fitted to a half, as settings; those of the presets for
/// [`Half::All`].
pub fn held_out(half: Half) -> &'static str {
    let found = HELD_OUT.iter().find(|(of, _)| *of == half);
    found.map_or("", |(_, settings)| settings)
}

/// The declared constants of a half; those of the presets for [`Half::All`].
pub fn declared(half: Half) -> String {
    let presets = || FITTED.iter().map(|f| format!("{}={}", f.key, f.value)).collect::<Vec<_>>();
    match half {
        Half::All => presets().join(","),
        _ => held_out(half).to_string(),
    }
}

fn settings(values: &[f64]) -> String {
    let text = |i: usize| match FITTED[i].key {
        "skews" => format!("{}/{}", values[i], (values[i] * 25.0 / 7.0).round()),
        _ => format!("{:.0}", values[i]),
    };
    (0..5).map(|i| format!("{}={}", FITTED[i].key, text(i))).collect::<Vec<_>>().join(",")
}

fn run_half(half: Half, settings: &str, threads: usize) -> Result<Vec<Cell>, BenchFailure> {
    let mut needs = Vec::new();
    for system in [System::Efs, System::Lfs] {
        for kb in clc::sizes_kb().into_iter().filter(|&kb| half.has(kb, system)) {
            needs.push(with(&clc::need(clc::config(system), kb), settings));
        }
    }
    let results = run_all(needs, threads, &silent())?;
    let mut cells = clc::cells_of(&results, |need| with(&need, settings));
    cells.retain(|c| half.has(c.file_kb, c.system));
    Ok(cells)
}

/// The score of settings on the cells of a half.
///
/// # Errors
/// The first run that fails.
pub fn score(half: Half, settings: &str, threads: usize) -> Result<Score, BenchFailure> {
    run_half(half, settings, threads).map(|cells| clc::score(cells.iter()))
}

/// The sum of the errors. One of more than 20% counts as 20%: cells that no constant can reach must
/// not decide about the others.
fn badness(cells: &[Cell]) -> f64 {
    cells.iter().filter(|c| !c.is_suspect()).map(|c| c.error().min(0.2)).sum()
}

/// Fits the constants to the cells of a half, and returns them as settings.
///
/// # Errors
/// The first run that fails.
pub fn fit(half: Half, threads: usize, progress: &Progress) -> Result<String, BenchFailure> {
    let mut of = |values: &[f64]| Ok(badness(&run_half(half, &settings(values), threads)?));
    let (values, _) = search(&SEARCH, &mut of, &|tried| progress(tried, tried + 40))?;
    Ok(settings(&values))
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
        let text = format!("efs:{}", settings(&[3e6, 1000.0, 6.0, 300.0, 900.0]));
        let config = twin_lab::Config::parse(&text).unwrap();
        assert_eq!((config.skews, config.command_ns), (Some((6, 21)), 1_000_000));
    }
}
