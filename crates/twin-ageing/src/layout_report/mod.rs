//! The layout of a volume for people and for scripts.
//!
//! Contract: rows have plain numbers with their units in their names; a share is 0 to 1, and what
//! does not exist (the score of files of one block) is null.

mod for_real;
mod history;
mod report;

pub use for_real::{OldForReal, SimulatedOld, old_for_real, shortest};
pub use history::{Day, HistoryReport};

use serde::Serialize;
use twin_age::{FileScore, Layout, VolumeMap};

use twin_report::table::{Cell, fixed};

/// The layout of a volume.
#[derive(Clone, Debug, Serialize)]
pub struct LayoutReport {
    /// What it was made from.
    pub source: String,
    /// The layout, or the host's file system.
    pub system: String,
    /// The layout score of all files.
    pub layout_score: Option<f64>,
    /// The same with fragments at the ends of files counted as well placed.
    pub layout_score_without_fragments: Option<f64>,
    /// The share of blocks that follow the block read before, if everything is read in order.
    pub dynamic_score: Option<f64>,
    /// Blocks that have a predecessor, and so count.
    pub counted_blocks: u64,
    /// Regular files.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Directories.
    pub directories: u64,
    /// The size of a block in bytes.
    pub block_bytes: u32,
    /// The share of space that is in use, where it is known.
    #[serde(rename = "used_share")]
    pub used: Option<f64>,
    /// The free space, where it is known.
    pub free: Option<FreeRow>,
    /// By size.
    pub classes: Vec<ClassRow>,
    /// Each file, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub file_scores: Vec<FileRow>,
    /// Each directory, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directory_scores: Vec<FileRow>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// Free space.
#[derive(Clone, Debug, Serialize)]
pub struct FreeRow {
    /// Free bytes.
    pub bytes: u64,
    /// The word for the areas whose tenths are counted; empty if there are none.
    pub region: String,
    /// The share of free bytes in each tenth of the areas.
    pub tenths: Vec<f64>,
    /// The share in the last fifth of the areas.
    pub last_fifth: Option<f64>,
    /// Free bytes that belong to no whole free block.
    pub fragment_bytes: u64,
    /// The number of runs.
    pub runs: u64,
    /// The longest run in bytes.
    pub longest_run_bytes: u64,
    /// Runs by length: from so many blocks on, below twice as many.
    pub run_classes: Vec<RunRow>,
}

/// Runs of free space of one length.
#[derive(Clone, Debug, Serialize)]
pub struct RunRow {
    /// The fewest blocks; 0 for less than a block.
    pub blocks: u64,
    /// The number of runs.
    pub runs: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The files of one size.
#[derive(Clone, Debug, Serialize)]
pub struct ClassRow {
    /// The fewest blocks of a file in it.
    pub fewest_blocks: u64,
    /// The most.
    pub most_blocks: u64,
    /// The number of files.
    pub files: u64,
    /// Their blocks.
    pub blocks: u64,
    /// Their score.
    pub layout_score: Option<f64>,
    /// The same without fragments.
    pub layout_score_without_fragments: Option<f64>,
}

/// One file or directory.
#[derive(Clone, Debug, Serialize)]
pub struct FileRow {
    /// The inode number.
    pub ino: u64,
    /// The path, where names are known.
    pub path: Option<String>,
    /// Bytes.
    #[serde(rename = "size_bytes")]
    pub size: u64,
    /// Blocks.
    pub blocks: u64,
    /// Runs of blocks.
    pub runs: u64,
    /// The score.
    pub layout_score: Option<f64>,
}

impl From<FileScore> for FileRow {
    fn from(file: FileScore) -> FileRow {
        FileRow {
            ino: file.ino,
            path: file.path.map(|path| String::from_utf8_lossy(&path).into_owned()),
            size: file.size,
            blocks: file.blocks,
            runs: file.runs,
            layout_score: file.score.value(),
        }
    }
}

impl LayoutReport {
    /// The report on a volume.
    pub fn of(source: &str, map: &VolumeMap, layout: &Layout) -> LayoutReport {
        let class = |class: &twin_age::Class| ClassRow {
            fewest_blocks: class.size.fewest(),
            most_blocks: class.size.most(),
            files: class.files,
            blocks: class.blocks,
            layout_score: class.score.value(),
            layout_score_without_fragments: class.score.without_fragments(),
        };
        LayoutReport {
            source: source.into(),
            system: map.system.clone(),
            layout_score: layout.score.value(),
            layout_score_without_fragments: layout.score.without_fragments(),
            dynamic_score: layout.dynamic.value(),
            counted_blocks: layout.score.counted,
            files: layout.files,
            file_bytes: layout.file_bytes,
            directories: layout.directories,
            block_bytes: map.block_size,
            used: layout.free.as_ref().map(|free| free.used),
            free: layout.free.as_ref().map(|free| free_row(map, free)),
            classes: layout.classes.iter().map(class).collect(),
            file_scores: Vec::new(),
            directory_scores: Vec::new(),
            problems: map.problems.clone(),
        }
    }

    /// The classes as rows, with the whole as the last one.
    pub fn rows(&self) -> Vec<ClassRow> {
        let all = ClassRow {
            fewest_blocks: self.classes.first().map_or(0, |class| class.fewest_blocks),
            most_blocks: self.classes.last().map_or(0, |class| class.most_blocks),
            files: self.classes.iter().map(|class| class.files).sum(),
            blocks: self.classes.iter().map(|class| class.blocks).sum(),
            layout_score: self.layout_score,
            layout_score_without_fragments: self.layout_score_without_fragments,
        };
        self.classes.iter().cloned().chain([all]).collect()
    }
}

fn free_row(map: &VolumeMap, free: &twin_age::FreeSpace) -> FreeRow {
    let all = free.bytes.max(1) as f64;
    let run = |class: &twin_age::RunClass| RunRow {
        blocks: class.blocks,
        runs: class.runs,
        bytes: class.bytes,
    };
    FreeRow {
        bytes: free.bytes,
        region: map.region.clone(),
        tenths: free.tenths.iter().map(|&bytes| bytes as f64 / all).collect(),
        last_fifth: free.in_last_fifth(),
        fragment_bytes: free.fragment_bytes,
        runs: free.runs,
        longest_run_bytes: free.longest,
        run_classes: free.classes.iter().map(run).collect(),
    }
}

/// A score with three digits.
fn score(score: Option<f64>) -> Cell {
    Cell::or_dash(score, |score| fixed(score, 3))
}
