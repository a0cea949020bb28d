//! Fitting the constants to some cells of the table of 1994, and scoring them on the others.
//!
//! Contract: the search takes the best of some starts, the published values (or none) among them,
//! changes one constant at a time by shrinking steps, and keeps a change that reduces the sum of the errors of the chosen cells. It is deterministic: the same cells give the same constants.

use crate::choices::FITTED;
use crate::clc::{self, Cell, Score, System};
use crate::progress::{Progress, silent};
use crate::running::run_all;
use crate::variation::with;
use twin_bench::BenchFailure;

/// The starts, the first step and the smallest step of each search, in the order of [`FITTED`]. The
/// first start is the published value, or none where nothing is published. The third is the track
/// skew in sectors; the cylinder skew keeps the RZ26's ratio to it.
const SEARCH: [(&[f64], f64, f64); 5] = [
    (&[2_400_000.0, 3_200_000.0, 4_000_000.0], 400_000.0, 100_000.0),
    (&[0.0, 1000.0], 400.0, 100.0),
    (&[7.0], 1.0, 1.0),
    (&[500.0], 250.0, 62.5),
    (&[900.0, 500.0, 200.0], 100.0, 50.0),
];

/// All combinations of the starts.
fn starts() -> Vec<[f64; 5]> {
    let mut all = vec![[0.0; 5]];
    for (i, (starts, ..)) in SEARCH.iter().enumerate() {
        let with = |values: &[f64; 5]| {
            let values = *values;
            starts.iter().map(move |start| {
                let mut next = values;
                next[i] = *start;
                next
            })
        };
        all = all.iter().flat_map(with).collect();
    }
    all
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

fn settings(values: &[f64; 5]) -> String {
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
    let (mut tried, mut best, mut values) = (0, f64::INFINITY, [0.0; 5]);
    for start in starts() {
        let found = badness(&run_half(half, &settings(&start), threads)?);
        tried += 1;
        progress(tried, tried + 40);
        if found < best {
            (best, values) = (found, start);
        }
    }
    let mut steps = SEARCH.map(|s| s.1);
    loop {
        let mut better = false;
        for i in 0..5 {
            for direction in [1.0, -1.0] {
                let mut next = values;
                next[i] = (values[i] + direction * steps[i]).max(0.0);
                if next[i] == values[i] || ((i == 0 || i == 2) && next[i] <= 0.0) {
                    continue;
                }
                let found = badness(&run_half(half, &settings(&next), threads)?);
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
        if (0..5).all(|i| steps[i] <= SEARCH[i].2) {
            break;
        }
        for (step, search) in steps.iter_mut().zip(SEARCH) {
            *step = (*step / 2.0).max(search.2);
        }
    }
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
