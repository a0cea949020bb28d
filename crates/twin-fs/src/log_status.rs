//! The status of a log at one moment, for layouts with segments and a cleaner.
//!
//! Contract: it consists of figures only; programs show them and know nothing else of the layout.

/// The status of a log. Amounts are bytes and times nanoseconds, unless their names say otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogStatus {
    /// Bytes written to the log since the volume was opened.
    pub log_bytes: u64,
    /// Of `log_bytes`, file contents that users wrote, as in
    /// [`Written::new_data_bytes`](crate::Written::new_data_bytes).
    pub new_data_bytes: u64,
    /// Of `log_bytes`, those that the cleaner moved.
    pub moved_bytes: u64,
    /// Bytes that the cleaner read.
    pub cleaner_read_bytes: u64,
    /// Write cost since the volume was opened ([`write_cost`](crate::write_cost)).
    pub write_cost: Option<f64>,
    /// Number of cleaned segments.
    pub cleaned_segments: u64,
    /// Number of checkpoints.
    pub checkpoints: u64,
    /// Number of operations that waited for the cleaner.
    pub space_waits: u64,
    /// The sum of their waits.
    pub space_wait_ns: u64,
    /// The longest of their waits.
    pub longest_space_wait_ns: u64,
    /// Bytes reserved or live.
    pub used_bytes: u64,
    /// The largest value that `used_bytes` may have.
    pub limit_bytes: u64,
    /// Number of clean segments.
    pub clean_segments: u32,
    /// Number of clean segments below which the cleaner works under any policy.
    pub low_water_segments: u32,
    /// Time since the last user request to the device ended; `None` while one is in flight.
    pub idle_ns: Option<u64>,
    /// The log's clock: the number of fragments that users have written so far.
    pub now: u64,
    /// Number of live fragments.
    pub live: u64,
    /// All segments, in the order in which they lie on the device.
    pub segments: Vec<SegmentStatus>,
}

/// The status of a segment. Amounts are fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentStatus {
    /// What is done with the segment now.
    pub phase: SegmentPhase,
    /// The class of the blocks in it, as the placement policy numbers them.
    pub class: u8,
    /// Fragments that are live.
    pub live: u32,
    /// Fragments that were written to it since it was clean.
    pub written: u32,
    /// When it was filled, on the clock of [`LogStatus::now`].
    pub sealed_at: u64,
}

/// The current use of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentPhase {
    /// It holds no live data and may be filled.
    #[default]
    Clean,
    /// It is being filled.
    Open,
    /// It is full and may be cleaned.
    Sealed,
    /// It is being cleaned.
    Cleaning,
}
