//! The table of A Comparison of Logging and Clustering (1994), section 3, cell by cell.
//!
//! Each run moves 32 MB in files of one size with blocks of 8 KB: sequential reads, and writes of
//! three kinds: (a) creating, (b) overwriting, (c) overwriting with fsync for each file. The values
//! are MB/s.
//!
//! Two cells look like misprints and are not scored: EFS's (c) at 64 KB (0.37 between 0.66 and
//! 0.60), and LFS's (a) at 8 MB (1.65, while the text says that LFS is slower there).
//!
//! LFS's (c) at 4 and 8 KB commits more files in a second than the disk has revolutions, which is
//! impossible if fsync waits for the medium. 4.4BSD's does, and so does ours; [`lazy`] is the run in
//! which it does not wait.

use super::{Need, Results};
use twin_bench::sweep_sizes;

/// The two file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The clustered FFS.
    Efs,
    /// BSD-LFS.
    Lfs,
}

/// The four columns: name in the CSV file, phase of the benchmark.
pub const COLUMNS: [(&str, &str); 4] = [
    ("read", "read"),
    ("write_a", "create"),
    ("write_b", "overwrite"),
    ("write_c", "overwrite_fsync"),
];

/// Sizes in KB, then for each column EFS and LFS.
pub const TABLE: [(u64, [f64; 8]); 12] = [
    (4, [0.72, 0.62, 0.10, 0.73, 0.21, 0.33, 0.20, 0.30]),
    (8, [1.11, 1.21, 0.20, 1.42, 0.33, 1.01, 0.33, 0.92]),
    (16, [1.68, 1.24, 0.30, 1.43, 0.50, 1.22, 0.49, 1.08]),
    (32, [1.87, 1.32, 0.38, 1.43, 0.69, 1.32, 0.66, 1.15]),
    (64, [2.16, 1.35, 0.90, 1.46, 0.82, 1.37, 0.37, 1.20]),
    (128, [1.03, 1.50, 0.69, 1.40, 0.62, 1.04, 0.60, 0.93]),
    (256, [1.37, 1.89, 0.85, 1.46, 0.86, 1.22, 0.82, 1.14]),
    (512, [1.53, 1.90, 1.03, 1.48, 1.10, 1.30, 1.05, 1.23]),
    (1024, [1.74, 1.99, 1.26, 1.50, 1.36, 1.34, 1.33, 1.30]),
    (2048, [1.91, 2.05, 1.45, 1.48, 1.52, 1.39, 1.44, 1.33]),
    (4096, [2.01, 2.11, 1.48, 1.49, 1.55, 1.45, 1.49, 1.42]),
    (8192, [2.04, 2.16, 1.51, 1.65, 1.51, 1.48, 1.50, 1.47]),
];

/// A cell of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Size of a file in KB.
    pub file_kb: u64,
    /// Index into [`COLUMNS`].
    pub column: usize,
    /// The file system.
    pub system: System,
    /// The paper's value.
    pub paper: f64,
    /// Our value; not a number if it was not run.
    pub ours: f64,
}

impl Cell {
    /// Whether it looks like a misprint and is not scored.
    pub fn is_suspect(&self) -> bool {
        let place = (self.file_kb, COLUMNS[self.column].0, self.system);
        matches!(place, (64, "write_c", System::Efs) | (8192, "write_a", System::Lfs))
    }

    /// The relative error of our value.
    pub fn error(&self) -> f64 {
        (self.ours / self.paper - 1.0).abs()
    }
}

/// The configuration of a system.
pub fn config(system: System) -> String {
    match system {
        System::Efs => "efs".into(),
        System::Lfs => "bsd-lfs-1994".into(),
    }
}

/// The same with an fsync that does not wait for the medium.
pub fn lazy_config(system: System) -> String {
    format!("{}:lazy-fsync=yes", config(system))
}

/// The run for a file size.
pub fn need(config: String, file_kb: u64) -> Need {
    Need::new(config, format!("sizes:size={file_kb}K,total=32M,unit=4M"))
}

/// All sizes of the table, in KB.
pub fn sizes_kb() -> Vec<u64> {
    sweep_sizes(4, 8192)
}

/// The runs of the table.
pub fn needs() -> Vec<Need> {
    let both = [System::Efs, System::Lfs];
    let all = both.into_iter().flat_map(|s| sizes_kb().into_iter().map(move |kb| (s, kb)));
    all.map(|(s, kb)| need(config(s), kb)).collect()
}

/// The runs in which fsync does not wait for the medium.
pub fn lazy() -> Vec<Need> {
    let both = [System::Efs, System::Lfs];
    let all = both.into_iter().flat_map(|s| sizes_kb().into_iter().map(move |kb| (s, kb)));
    all.map(|(s, kb)| need(lazy_config(s), kb)).collect()
}

/// All cells with our values.
pub fn cells(results: &Results) -> Vec<Cell> {
    cells_of(results, |need| need)
}

/// All cells with the values of other runs instead of the table's own.
pub fn cells_of(results: &Results, run: impl Fn(Need) -> Need) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (file_kb, row) in TABLE {
        for (i, paper) in row.into_iter().enumerate() {
            let system = if i % 2 == 0 { System::Efs } else { System::Lfs };
            let (column, need) = (i / 2, run(need(config(system), file_kb)));
            let ours = results.rate(&need, COLUMNS[column].1);
            cells.push(Cell { file_kb, column, system, paper, ours });
        }
    }
    cells
}

/// The agreement of cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Number of scored cells.
    pub cells: usize,
    /// The median relative error.
    pub median: f64,
    /// Number of cells within 10%.
    pub within_10: usize,
    /// Number of cells within 20%.
    pub within_20: usize,
}

/// The score of cells, without suspect ones.
pub fn score<'a>(cells: impl Iterator<Item = &'a Cell>) -> Score {
    let errors: Vec<f64> = cells.filter(|c| !c.is_suspect()).map(Cell::error).collect();
    let within = |part: f64| errors.iter().filter(|&&e| e <= part).count();
    Score {
        cells: errors.len(),
        median: twin_lab::median(&errors),
        within_10: within(0.10),
        within_20: within(0.20),
    }
}

/// The table as CSV, in the columns of the target file.
pub fn csv(results: &Results) -> String {
    let mut out = String::from("file_kb");
    for (name, _) in COLUMNS {
        out += &format!(",{name}_efs,{name}_lfs");
    }
    out.push('\n');
    for row in cells(results).chunks(8) {
        out += &row[0].file_kb.to_string();
        row.iter().for_each(|c| out += &format!(",{:.2}", c.ours));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninety_four_cells_count() {
        let cells = cells(&Results::default());
        assert_eq!(cells.len(), 96);
        assert_eq!(score(cells.iter()).cells, 94);
    }

    #[test]
    fn the_score_counts_errors_of_both_signs() {
        let cell = |ours| Cell { file_kb: 4, column: 0, system: System::Efs, paper: 1.0, ours };
        let cells = [cell(1.05), cell(0.85), cell(1.5)];
        let score = score(cells.iter());
        assert_eq!((score.within_10, score.within_20), (1, 2));
        assert!((score.median - 0.15).abs() < 1e-9);
    }
}
