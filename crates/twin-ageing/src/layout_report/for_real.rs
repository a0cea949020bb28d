//! File systems that were made old for real, side by side.
//!
//! Contract: rows as those of [`LayoutReport`](super::LayoutReport): plain numbers, units in the names, null
//! for what does not exist.

use serde::Serialize;
use twin_age::{Layout, VolumeMap};

use twin_report::table::{Cell, fixed, seconds};
use twin_report::{Report, Table, cells};

/// A file system that went through a history, beside a new one with a copy of its files.
#[derive(Clone, Debug, Serialize)]
pub struct OldForReal {
    /// The file system.
    pub system: String,
    /// Requests of the history.
    pub requests: u64,
    /// Those that failed, and those of the copy.
    pub failed: u64,
    /// How most of these failed, in words; empty if none did.
    pub most_common_failure: String,
    /// Regular files at the end.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// The layout score of the old one.
    pub layout_score: Option<f64>,
    /// The layout score of the copy.
    pub copy_layout_score: Option<f64>,
    /// The dynamic score of the old one: blocks that follow the block before, for a reader of everything.
    pub dynamic_score: Option<f64>,
    /// The dynamic score of the copy.
    pub copy_dynamic_score: Option<f64>,
    /// Seconds to read all files of the old one with cold caches, directory by directory, of each run.
    pub read_s: Vec<f64>,
    /// The same of the copy.
    pub copy_read_s: Vec<f64>,
    /// The shortest of the old one over that of the copy: what else goes on on a machine only makes a read longer.
    pub slow_down: Option<f64>,
    /// Of our layouts: the same history in simulation.
    pub simulated: Option<SimulatedOld>,
}

/// What a simulation says of the same history.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SimulatedOld {
    /// Its layout score.
    pub layout_score: Option<f64>,
    /// True if all scores, by size and as a whole, and the free space are the same.
    pub is_same_layout: bool,
    /// True if every block of every file lies at the same place.
    pub is_same_map: bool,
}

impl SimulatedOld {
    /// A simulated volume beside the real one.
    pub fn of(simulated: &VolumeMap, real: &VolumeMap) -> SimulatedOld {
        let layout = Layout::of(simulated);
        let places = |map: &VolumeMap| -> Vec<_> {
            map.files.iter().map(|file| (file.ino, file.size, file.runs.clone())).collect()
        };
        SimulatedOld {
            layout_score: layout.score.value(),
            is_same_layout: layout == Layout::of(real),
            is_same_map: places(simulated) == places(real) && simulated.free == real.free,
        }
    }
}

/// The shortest of these times; `None` without times.
pub fn shortest(times_s: &[f64]) -> Option<f64> {
    times_s.iter().copied().min_by(f64::total_cmp)
}

/// The report on file systems that were made old for real.
pub fn old_for_real(rows: &[OldForReal]) -> Report {
    let columns = [
        "system",
        "layout score",
        "copy layout score",
        "simulated layout score",
        "dynamic score",
        "copy dynamic score",
        "read",
        "copy read",
        "slow down",
        "failed",
    ];
    let score = |value: Option<f64>| Cell::or_dash(value, |value| fixed(value, 4));
    let time = |times: &[f64]| Cell::or_dash(shortest(times), seconds);
    let row = |row: &OldForReal| {
        let simulated = Cell::or_dash(row.simulated, |found| {
            let verdict = match (found.is_same_map, found.is_same_layout) {
                (true, _) => "same places",
                (false, true) => "same scores",
                (false, false) => "differs",
            };
            format!("{}, {verdict}", score(found.layout_score).text).into()
        });
        cells![
            &row.system,
            score(row.layout_score),
            score(row.copy_layout_score),
            simulated,
            score(row.dynamic_score),
            score(row.copy_dynamic_score),
            time(&row.read_s),
            time(&row.copy_read_s),
            Cell::or_dash(row.slow_down, |ratio| fixed(ratio, 2)),
            row.failed,
        ]
    };
    let mut report = Report::answer("age", "File systems made old");
    report.set_verdict(
        verdict(rows),
        "Measure: the time to read all files, of the old one over that of a copy.",
    );
    report.add(Table::new(columns, 1).with(rows.iter().map(row)));
    report.add_rows(rows);
    report
}

/// Which file system is slowed down least.
fn verdict(rows: &[OldForReal]) -> String {
    let mut all: Vec<(f64, &str)> =
        rows.iter().filter_map(|row| Some((row.slow_down?, row.system.as_str()))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    match &all[..] {
        [] => "No file system was read both old and as a copy.".into(),
        [(factor, system)] => {
            format!(
                "The old {system} takes {factor:.2} times as long to read as a copy of its files."
            )
        }
        [(least, first), .., (most, last)] => format!(
            "Of {} file systems {first} suffers least from its age: reading it all takes {least:.2} times as \
             long as reading a copy. {last} suffers most: {most:.2} times.",
            all.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use twin_age::map::{FileKind, FileMap, Run};

    use super::*;

    fn map(places: &[u64]) -> VolumeMap {
        let runs = (0..).zip(places).map(|(lbn, &block)| Run {
            lbn,
            blocks: 1,
            at: block * 4096,
            bytes: 4096,
        });
        let size = places.len() as u64 * 4096;
        let runs = runs.collect();
        let file = FileMap { ino: 3, kind: FileKind::File, size, mtime_s: 0, runs };
        VolumeMap { block_size: 4096, files: vec![file], ..VolumeMap::default() }
    }

    #[test]
    fn places_are_told_from_scores() {
        let found = SimulatedOld::of(&map(&[7, 8, 20]), &map(&[7, 8, 20]));
        assert!(found.is_same_layout && found.is_same_map);
        let found = SimulatedOld::of(&map(&[7, 8, 20]), &map(&[9, 10, 20]));
        assert!(found.is_same_layout && !found.is_same_map);
        let found = SimulatedOld::of(&map(&[7, 8, 20]), &map(&[7, 9, 20]));
        assert!(!found.is_same_layout && !found.is_same_map);
        assert_eq!(found.layout_score, Some(0.5));
    }

    #[test]
    fn the_shortest_time_counts() {
        assert_eq!(shortest(&[3.0, 1.0, 2.0]), Some(1.0));
        assert_eq!(shortest(&[]), None);
    }
}
