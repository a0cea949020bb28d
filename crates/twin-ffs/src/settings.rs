//! Settings of this layout that may differ from mount to mount, and the faults that tests plant.
//!
//! Contract: only builds with the feature `planted-faults` contain planted faults. Nothing in the
//! workspace turns it on by itself; the fault campaign, a build of its own, does.

/// Settings of this layout that may change from mount to mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FfsSettings {
    /// How places for blocks are found, by name.
    pub allocation: String,
    /// Where new directories go, by name.
    pub dir_placement: String,
    /// The write-behind policy, by name.
    pub write_behind: String,
    /// Blocks of a file that is being written are moved together before they are written
    /// (4.4BSD's `doreallocblks`).
    pub reallocate: bool,
    /// fsync sends a file's data and waits for nothing, so the data is not durable. This is one
    /// reading of the table of A Comparison of Logging and Clustering (1994), in which fsync costs
    /// almost nothing.
    pub lazy_fsync: bool,
    /// The planted fault, in builds that can have one.
    #[cfg(feature = "planted-faults")]
    pub planted: PlantedFault,
}

/// Faults that can be planted on purpose: negative controls of the crash tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PlantedFault {
    /// The layout works as it should.
    #[default]
    None,
    /// The device is never flushed.
    SkipFlush,
    /// Freed space is reused at once, whatever the ordering says.
    ReuseAtOnce,
    /// A record of the journal does not wait for the data of its files.
    DataLate,
    /// Replay believes records without looking at the checksums of their blocks.
    SkipChecksum,
    /// Replay writes blocks of the journal over space that was freed and reused.
    SkipRevoked,
    /// Space that is freed while the transaction with its block is being written is not revoked.
    RevokeLate,
    /// A restart leaves the journal's header as it was before the replay.
    HeaderStays,
    /// A commit relies on an earlier flush for data that was sent during that flush.
    FlushEarly,
}

impl PlantedFault {
    /// True if this fault is planted: constantly false in builds without planted faults.
    pub(crate) const fn is(self, fault: PlantedFault) -> bool {
        cfg!(feature = "planted-faults") && self as u8 == fault as u8
    }
}

impl FfsSettings {
    /// The planted fault: none in builds without planted faults.
    pub(crate) const fn planted(&self) -> PlantedFault {
        #[cfg(feature = "planted-faults")]
        return self.planted;
        #[cfg(not(feature = "planted-faults"))]
        PlantedFault::None
    }
}

impl Default for FfsSettings {
    fn default() -> Self {
        FfsSettings {
            allocation: crate::allocation::REGISTRY.default_entry().name.into(),
            dir_placement: crate::dir_placement::REGISTRY.default_entry().name.into(),
            write_behind: crate::write_behind::REGISTRY.default_entry().name.into(),
            reallocate: true,
            lazy_fsync: false,
            #[cfg(feature = "planted-faults")]
            planted: PlantedFault::None,
        }
    }
}
