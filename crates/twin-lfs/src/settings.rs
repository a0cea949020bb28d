//! Settings of the log-structured layout, and the faults that tests plant.
//!
//! Contract: only builds with the feature `planted-faults` contain planted faults. Nothing in the
//! workspace turns it on by itself; the fault campaign, a build of its own, does.

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
    /// The name of the placement policy: see [`twin_clean::placement`]. If it is empty, blocks that
    /// the cleaner moves go to a stream of their own, if the volume was made with two streams.
    pub placement: String,
    /// The name of the policy that decides when the cleaner works while there are clean segments
    /// enough: see [`twin_clean::trigger`].
    pub trigger: String,
    /// The cleaner runs in the background, and not only when an operation waits for space.
    pub background_cleaning: bool,
    /// Bytes of one request of the cleaner while no operation waits for it. It then has one request
    /// under way at a time.
    pub clean_step_bytes: u32,
    /// The largest number of bytes of log writes under way.
    pub in_flight_bytes: u64,
    /// An operation that makes data dirty first waits until no log write is under way, so that
    /// processor and disk do not overlap: 4.4BSD-LFS as Seltzer et al. 1995 measured and analysed
    /// it (section 4: the time of a log write adds to that of its transactions).
    pub writers_wait: bool,
    /// fsync waits for the log writes under way and starts none, so that files gather until the
    /// flush policy writes them: not durable. One reading of how BSD-LFS of 1994 could fsync more
    /// files in a second than its disk turned (A Comparison of Logging and Clustering, table).
    pub lazy_fsync: bool,
    /// How a log write takes what is dirty.
    pub gathering: Gathering,
    /// The processor copies each block once more, into the request that writes it, as 4.4BSD does
    /// (sys/ufs/lfs/lfs_segment.c, lfs_writeseg), and the cleaner what it reads (lfs_cleanerd/library.c).
    pub copies: bool,
    /// Segments that become clean are discarded: a store of objects then deletes them, an image file gives its
    /// room back, and a flash device need not move them.
    pub discard: bool,
    /// The planted fault, in builds that can have one.
    #[cfg(feature = "planted-faults")]
    pub planted: PlantedFault,
}

/// How a log write takes what is dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Gathering {
    /// The files that became dirty last come first, and so do the last blocks of a file that spans
    /// partial segments, as in 4.4BSD before May 1995 (lfs_segment.c 8.5, lfs_writevnodes and lfs_gather
    /// follow lists to whose heads new vnodes and buffers go).
    pub newest_first: bool,
    /// Each partial segment has a block for the inodes of its own files, as in 4.4BSD (lfs_segment.c,
    /// lfs_initseg and lfs_writeinode); otherwise blocks of inodes are filled.
    pub inodes_with_files: bool,
}

/// Faults that can be planted on purpose: negative controls of the crash tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PlantedFault {
    /// The layout works as it should.
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

impl PlantedFault {
    /// True if this fault is planted: constantly false in builds without planted faults.
    pub(crate) const fn is(self, fault: PlantedFault) -> bool {
        cfg!(feature = "planted-faults") && self as u8 == fault as u8
    }
}

impl LfsSettings {
    /// The planted fault: none in builds without planted faults.
    pub(crate) const fn planted(&self) -> PlantedFault {
        #[cfg(feature = "planted-faults")]
        return self.planted;
        #[cfg(not(feature = "planted-faults"))]
        PlantedFault::None
    }
}

impl Default for LfsSettings {
    fn default() -> Self {
        LfsSettings {
            eager_indirect: false,
            checkpoint_segments: 64,
            checkpoint_age_ns: 30 * twin_rt::SECS,
            victim: twin_clean::victim::OF_FILE_SYSTEMS.into(),
            placement: String::new(),
            trigger: twin_clean::trigger::OF_FILE_SYSTEMS.into(),
            background_cleaning: true,
            clean_step_bytes: 128 << 10,
            in_flight_bytes: 8 << 20,
            writers_wait: false,
            lazy_fsync: false,
            gathering: Gathering::default(),
            copies: false,
            discard: false,
            #[cfg(feature = "planted-faults")]
            planted: PlantedFault::None,
        }
    }
}
