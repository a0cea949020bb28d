//! Layout scores (Smith and Seltzer 1994, section 4.2).
//!
//! Contract: the score of a file is the share of its blocks that begin where the file's previous
//! block ends. The first block has no predecessor and is not counted, so a file of one block has no
//! score. Scores of many files are shares of all their counted blocks. Indirect blocks are not
//! blocks of the file, but one that lies between two blocks parts them.

use crate::map::{FileMap, Run};

/// Counted blocks, and those of them that follow their predecessor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Blocks that have a predecessor.
    pub counted: u64,
    /// Of these, the ones that begin where it ends.
    pub following: u64,
    /// Of the others, fragments at the end of a file: the paper's figure 4 counts these as well
    /// placed to show what they do.
    pub stray_fragments: u64,
}

impl Score {
    /// The score of one file with blocks of this size in bytes.
    pub fn of(file: &FileMap, block_size: u32) -> Score {
        let mut score = Score::default();
        let mut before: Option<&Run> = None;
        let mut last_is_stray = false;
        for run in file.data() {
            let follows = before.is_some_and(|before| before.end() == run.at);
            score.counted += run.blocks - u64::from(before.is_none());
            score.following += run.blocks - 1 + u64::from(follows);
            last_is_stray = before.is_some() && !follows && run.blocks == 1;
            before = Some(run);
        }
        let is_fragment = |run: &Run| run.bytes < run.blocks * u64::from(block_size);
        if last_is_stray && before.is_some_and(is_fragment) {
            score.stray_fragments = 1;
        }
        score
    }

    /// The score of both together.
    pub fn and(self, other: Score) -> Score {
        Score {
            counted: self.counted + other.counted,
            following: self.following + other.following,
            stray_fragments: self.stray_fragments + other.stray_fragments,
        }
    }

    /// The share of counted blocks that follow their predecessor, 0 to 1; `None` without any.
    pub fn value(self) -> Option<f64> {
        (self.counted > 0).then(|| self.following as f64 / self.counted as f64)
    }

    /// The same, with fragments at the ends of files counted as following.
    pub fn without_fragments(self) -> Option<f64> {
        let following = self.following + self.stray_fragments;
        (self.counted > 0).then(|| following as f64 / self.counted as f64)
    }
}

/// Files whose number of blocks, rounded up to a power of two, is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeClass(u32);

impl SizeClass {
    /// The class of files with `blocks` blocks.
    pub fn of(blocks: u64) -> SizeClass {
        SizeClass(blocks.max(1).next_power_of_two().trailing_zeros())
    }

    /// The most blocks of a file in it.
    pub fn most(self) -> u64 {
        1 << self.0
    }

    /// The smallest number of blocks of a file in this class.
    pub fn fewest(self) -> u64 {
        self.most() / 2 + 1
    }
}

/// The files of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// The size class of the files.
    pub size: SizeClass,
    /// The number of files.
    pub files: u64,
    /// Number of blocks of these files.
    pub blocks: u64,
    /// The layout score of these files together.
    pub score: Score,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::FileKind;

    const BLOCK: u64 = 8192;

    /// A file with these runs: first block, place in blocks, blocks.
    fn file(runs: &[(i64, u64, u64)]) -> FileMap {
        let run = |&(lbn, at, blocks)| Run { lbn, blocks, at: at * BLOCK, bytes: blocks * BLOCK };
        let runs = runs.iter().map(run).collect();
        FileMap { ino: 3, kind: FileKind::File, size: 0, mtime_s: 0, runs }
    }

    fn score(file: &FileMap) -> (u64, u64) {
        let score = Score::of(file, BLOCK as u32);
        (score.following, score.counted)
    }

    #[test]
    fn the_papers_example_scores_one_half() {
        let file = file(&[(0, 100, 2), (2, 200, 1)]);
        assert_eq!(Score::of(&file, BLOCK as u32).value(), Some(0.5));
    }

    #[test]
    fn a_file_of_one_block_or_none_has_no_score() {
        for file in [file(&[]), file(&[(0, 7, 1)])] {
            assert_eq!(Score::of(&file, BLOCK as u32).value(), None);
        }
    }

    #[test]
    fn the_papers_file_of_forty_blocks_loses_a_block_at_each_gap() {
        // Section 2: maxcontig 8 and rotdelay 1 on an empty disk. Clusters of 8 and 4 blocks, then
        // another group, where the indirect block comes first: 8, 8, 8, 4 with a gap of a block.
        let file = file(&[
            (0, 0, 8),
            (8, 9, 4),
            (-12, 1000, 1),
            (12, 1001, 8),
            (20, 1010, 8),
            (28, 1019, 8),
            (36, 1028, 4),
        ]);
        assert_eq!(score(&file), (34, 39), "five gaps");
    }

    #[test]
    fn a_block_before_its_predecessor_and_a_gap_do_not_follow() {
        assert_eq!(score(&file(&[(0, 9, 1), (1, 8, 1)])), (0, 1));
        assert_eq!(score(&file(&[(0, 9, 1), (1, 11, 1)])), (0, 1));
        assert_eq!(score(&file(&[(0, 9, 1), (1, 10, 1)])), (1, 1), "adjacent runs are as one");
    }

    #[test]
    fn an_indirect_block_between_two_blocks_parts_them() {
        assert_eq!(score(&file(&[(0, 1, 12), (-12, 13, 1), (12, 14, 1)])), (11, 12));
        assert_eq!(score(&file(&[(0, 1, 12), (-12, 99, 1), (12, 13, 1)])), (12, 12));
    }

    #[test]
    fn a_fragment_elsewhere_counts_as_following_only_where_fragments_are_left_out() {
        let mut file = file(&[(0, 1, 2), (2, 50, 1)]);
        file.runs[1].bytes = 1024;
        let score = Score::of(&file, BLOCK as u32);
        assert_eq!((score.value(), score.without_fragments()), (Some(0.5), Some(1.0)));
        file.runs[1].bytes = BLOCK;
        let score = Score::of(&file, BLOCK as u32);
        assert_eq!(score.without_fragments(), Some(0.5), "a whole block is no fragment");
        // A fragment behind its block follows it.
        file.runs[1] = Run { lbn: 2, blocks: 1, at: 3 * BLOCK, bytes: 1024 };
        assert_eq!(Score::of(&file, BLOCK as u32).value(), Some(1.0));
    }

    #[test]
    fn classes_end_at_powers_of_two() {
        let most = |blocks| (SizeClass::of(blocks).fewest(), SizeClass::of(blocks).most());
        assert_eq!([1, 2, 3, 4, 5, 33, 64].map(|n| most(n).1), [1, 2, 4, 4, 8, 64, 64]);
        assert_eq!([2, 3, 64].map(most), [(2, 2), (3, 4), (33, 64)]);
    }
}
