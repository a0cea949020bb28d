//! What policies decide from: segments, blocks, time.
//!
//! Time is counted in blocks that users have written (names ending in `_at` are moments, in
//! `_writes` spans): it stands still while nothing is written, and it is the unit in which garbage
//! arises. All amounts of space are in blocks; a log with fragments may count fragments instead, if
//! it does so throughout.

/// The number that stands for no segment.
pub const NO_SEGMENT: u32 = u32::MAX;

/// The current use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SegmentState {
    /// The segment is empty.
    #[default]
    Free,
    /// The segment is being filled.
    Open,
    /// The segment is full and may be cleaned.
    Sealed,
    /// The segment is being cleaned.
    Cleaning,
}

/// What is known of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SegmentInfo {
    /// What is done with the segment now.
    pub state: SegmentState,
    /// The class of the blocks in it, as the placement policy numbers them.
    pub class: u8,
    /// Number of blocks that fit.
    pub size_blocks: u32,
    /// Blocks written to it since it was opened.
    pub written_blocks: u32,
    /// Number of these that have not been overwritten, deleted or moved.
    pub live_blocks: u32,
    /// When it was opened.
    pub opened_at: u64,
    /// When its last block was written.
    pub sealed_at: u64,
    /// When the youngest block in it was written by a user, as far as the log knows: a moved block
    /// counts as old as the youngest block of the segment that it came from.
    pub youngest_at: u64,
    /// How many segments had been opened before this one. It distinguishes two uses of the same
    /// place.
    pub serial: u64,
    /// Sums over live blocks, kept if a policy has [`Needs::heat`].
    pub heat: Heat,
    /// Sum over its blocks of the estimated time of the last update but one, kept if a policy
    /// has [`Needs::updates`].
    pub penultimate_sum: f64,
}

/// How often and when the live blocks of a segment were written by users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heat {
    /// Sum of the numbers of user writes.
    pub writes: u64,
    /// Sum of the moments of the last user writes.
    pub last_at: u64,
}

impl SegmentInfo {
    /// The share of its blocks that is live, 0 to 1: Rosenblum and Ousterhout's u.
    pub fn utilization(&self) -> f64 {
        f64::from(self.live_blocks) / f64::from(self.written_blocks.max(1))
    }

    /// The share of its blocks that is garbage, 0 to 1.
    pub fn garbage_share(&self) -> f64 {
        1.0 - self.utilization()
    }

    /// User writes a live block and unit of age: SFS's hotness of a segment.
    pub fn hotness(&self, now: u64) -> f64 {
        let ages = u64::from(self.live_blocks) * now - self.heat.last_at;
        self.heat.writes as f64 / (ages as f64).max(1.0)
    }

    /// The estimated time of the last update but one of its blocks, on average.
    pub fn penultimate_at(&self) -> f64 {
        self.penultimate_sum / f64::from(self.written_blocks.max(1))
    }
}

/// The state of the log at a moment.
#[derive(Clone, Copy, Debug)]
pub struct LogView<'a> {
    /// User writes so far.
    pub now: u64,
    /// Blocks that hold user data.
    pub live_blocks: u64,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// The segments up to the last one that was ever in use, indexed by number. Those behind it are clean.
    pub segments: &'a [SegmentInfo],
    /// For each class the segment that is open, or [`NO_SEGMENT`].
    pub open: &'a [u32],
}

impl LogView<'_> {
    /// Blocks in the open segment of a class; 0 if the class has none.
    pub fn open_written(&self, class: u8) -> u32 {
        let segment = self.open.get(usize::from(class)).copied().unwrap_or(NO_SEGMENT);
        self.segments.get(segment as usize).map_or(0, |segment| segment.written_blocks)
    }
}

/// The kind of a block's content, where the log knows it; F2FS's policy uses it. A bare volume has
/// data only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockKind {
    /// Contents of a file.
    #[default]
    Data,
    /// Contents of a directory.
    Directory,
    /// An inode, or a block of inodes.
    Inode,
    /// An inode of a directory.
    DirectoryInode,
    /// Pointers: an indirect block.
    Indirect,
}

/// A block that a user writes.
#[derive(Clone, Copy, Debug)]
pub struct UserWrite {
    /// The block number.
    pub block: u32,
    /// The segment that holds its previous copy, or [`NO_SEGMENT`] if there is none.
    pub old_segment: u32,
    /// The kind of its content.
    pub kind: BlockKind,
    /// User writes until it is overwritten or deleted, if the caller knows the future
    /// ([`Needs::future`]); otherwise 0.
    pub lifetime_writes: u64,
}

/// A block that the cleaner moves.
#[derive(Clone, Copy, Debug)]
pub struct CleanerWrite {
    /// The block number.
    pub block: u32,
    /// The segment that is being cleaned.
    pub victim: u32,
    /// The class of that segment.
    pub victim_class: u8,
    /// The kind of its content.
    pub kind: BlockKind,
}

/// A live block of several victims that are cleaned together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovedBlock {
    /// The policy's word of it; without one the time when the youngest block of its segment was written.
    pub word: u64,
    /// The file to which it belongs; 0 on a bare volume, which knows none.
    pub file: u64,
    /// Its number in the file, or on a bare volume that of the block.
    pub number: i64,
}

/// The inputs that a policy needs beyond the ordinary ones, because keeping them costs time or
/// memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// [`SegmentInfo::heat`].
    pub heat: bool,
    /// [`SegmentInfo::penultimate_sum`].
    pub updates: bool,
    /// [`UserWrite::lifetime_writes`]: only a simulation can give it.
    pub future: bool,
    /// Requests, announced before their blocks.
    pub requests: bool,
}

impl Needs {
    /// The needs of both.
    pub fn and(self, other: Needs) -> Needs {
        Needs {
            heat: self.heat || other.heat,
            updates: self.updates || other.updates,
            future: self.future || other.future,
            requests: self.requests || other.requests,
        }
    }
}

/// The setting for which a policy is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Number of blocks of the volume; block numbers are below it.
    pub blocks: u32,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// The share of garbage in the log at which cleaning begins.
    pub garbage_share: f64,
    /// Maximum number of open segments.
    pub open_segments: u8,
    /// The seed of policies that draw random numbers.
    pub seed: u64,
}
