//! What policies are told: segments, blocks, time.
//!
//! Time is counted in blocks that users have written (`_at` for a moment, `_writes` for a span):
//! it stands still while nothing is written, and it is the unit in which garbage arises. All
//! amounts of space are in blocks; a log with fragments may count those instead, as long as it
//! does so throughout.

/// No segment.
pub const NO_SEGMENT: u32 = u32::MAX;

/// What a segment is used for at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum State {
    /// Nothing in it.
    #[default]
    Free,
    /// Being filled.
    Open,
    /// Full: may be cleaned.
    Sealed,
    /// Being cleaned.
    Cleaning,
}

/// A segment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SegmentFacts {
    /// What it is used for.
    pub state: State,
    /// The class of the blocks in it, as the placement policy numbers them.
    pub class: u8,
    /// Blocks that fit.
    pub size_blocks: u32,
    /// Blocks written to it since it was opened.
    pub written_blocks: u32,
    /// Of those, blocks that have not been overwritten, deleted or moved.
    pub live_blocks: u32,
    /// When it was opened.
    pub opened_at: u64,
    /// When its last block was written.
    pub sealed_at: u64,
    /// When the youngest block in it was written by a user, to the knowledge of the log: a block
    /// that was moved counts as old as the youngest of the segment that it came from.
    pub youngest_at: u64,
    /// How many segments had been opened before: tells two uses of the same place apart.
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

impl SegmentFacts {
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

/// The log at a moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// User writes so far.
    pub now: u64,
    /// Blocks that hold user data.
    pub live_blocks: u64,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// All segments by number.
    pub segments: &'a [SegmentFacts],
    /// By class: the segment that is open, or [`NO_SEGMENT`].
    pub open: &'a [u32],
}

impl View<'_> {
    /// Blocks in the open segment of a class; 0 if none is open.
    pub fn open_written(&self, class: u8) -> u32 {
        let segment = self.open.get(usize::from(class)).copied().unwrap_or(NO_SEGMENT);
        self.segments.get(segment as usize).map_or(0, |segment| segment.written_blocks)
    }
}

/// What a block holds, where the log knows: what F2FS goes by. A bare volume knows data only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockKind {
    /// Contents of a file.
    #[default]
    Data,
    /// Contents of a directory.
    Directory,
    /// An inode, or a block of them.
    Inode,
    /// An inode of a directory.
    DirectoryInode,
    /// Pointers.
    Indirect,
}

/// A block that a user writes.
#[derive(Clone, Copy, Debug)]
pub struct UserWrite {
    /// Its number.
    pub block: u32,
    /// The segment in which its last copy lies, or [`NO_SEGMENT`] if it had none.
    pub old_segment: u32,
    /// What it holds.
    pub kind: BlockKind,
    /// User writes until it is overwritten or deleted, if somebody who knows the future says so
    /// ([`Needs::future`]); otherwise 0.
    pub lifetime_writes: u64,
}

/// A block that the cleaner moves.
#[derive(Clone, Copy, Debug)]
pub struct CleanerWrite {
    /// Its number.
    pub block: u32,
    /// The segment that is being cleaned.
    pub victim: u32,
    /// The class of that segment.
    pub victim_class: u8,
    /// What it holds.
    pub kind: BlockKind,
}

/// What a policy needs to be told beyond the ordinary, as it costs to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// [`SegmentFacts::heat`].
    pub heat: bool,
    /// [`SegmentFacts::penultimate_sum`].
    pub updates: bool,
    /// [`UserWrite::lifetime_writes`]: only a simulation can give it.
    pub future: bool,
    /// Requests, before their blocks.
    pub requests: bool,
}

impl Needs {
    /// What either needs.
    pub fn and(self, other: Needs) -> Needs {
        Needs {
            heat: self.heat || other.heat,
            updates: self.updates || other.updates,
            future: self.future || other.future,
            requests: self.requests || other.requests,
        }
    }
}

/// What a policy is made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Numbers of blocks are below this.
    pub blocks: u32,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// The share of garbage in the log from which on it is cleaned.
    pub garbage_share: f64,
    /// Open segments that a policy may use at most.
    pub open_segments: u8,
    /// For policies that draw.
    pub seed: u64,
}
