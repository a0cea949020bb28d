//! Settings of the log-structured layout, and the faults that tests build in.

/// Settings of this layout that may change from mount to mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LfsSettings {
    /// Every log write takes all dirty indirect blocks along, as in 4.4BSD; otherwise they wait
    /// for a checkpoint, and roll-forward works them out.
    pub eager_indirect: bool,
    /// Segments written between checkpoints.
    pub checkpoint_segments: u32,
    /// The longest time between checkpoints while there are changes.
    pub checkpoint_age_ns: u64,
    /// The victim policy, by name: see [`twin_clean::victim`].
    pub victim: String,
    /// The placement policy, by name: see [`twin_clean::placement`]. Empty: what the cleaner moves
    /// is apart if the volume was made with two streams.
    pub placement: String,
    /// When the cleaner works beside the times when clean segments get few, by name: see
    /// [`twin_clean::when`].
    pub when: String,
    /// The cleaner runs on its own, not only when somebody waits for space.
    pub background_cleaning: bool,
    /// Bytes that the cleaner reads or writes with one request while nobody waits for it; it has
    /// one request under way.
    pub clean_step_bytes: u32,
    /// Bytes of log writes under way at the most.
    pub in_flight_bytes: u64,
    /// Whoever makes data dirty waits first until no log write is under way, so that processor and
    /// disk do not overlap: 4.4BSD-LFS as Seltzer et al. 1995 measured and analysed it (section 4:
    /// the time of a log write adds to that of its transactions).
    pub writers_wait: bool,
    /// fsync waits for the log writes under way and starts none, so that files gather until the
    /// flush policy writes them: not durable. One reading of how BSD-LFS of 1994 could fsync more
    /// files in a second than its disk turned (A Comparison of Logging and Clustering, table).
    pub lazy_fsync: bool,
    /// A fault built in on purpose, to show that tests find it.
    pub sabotage: Sabotage,
}

/// Faults that can be built in on purpose: negative controls of the crash tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// fsync does not flush the device.
    SkipFlush,
    /// Roll-forward believes summaries without looking at the checksums of their blocks.
    SkipChecksum,
    /// A summary is written, and counts as the write, before its blocks.
    SummaryFirst,
    /// A segment is filled again before the checkpoint that does not need it is durable.
    ReuseEarly,
}

impl Default for LfsSettings {
    fn default() -> Self {
        LfsSettings {
            eager_indirect: false,
            checkpoint_segments: 64,
            checkpoint_age_ns: 30 * twin_rt::SECS,
            victim: twin_clean::victim::OF_FILE_SYSTEMS.into(),
            placement: String::new(),
            when: twin_clean::when::OF_FILE_SYSTEMS.into(),
            background_cleaning: true,
            clean_step_bytes: 128 << 10,
            in_flight_bytes: 8 << 20,
            writers_wait: false,
            lazy_fsync: false,
            sabotage: Sabotage::None,
        }
    }
}
