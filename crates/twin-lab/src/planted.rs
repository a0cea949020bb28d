//! Faults of accounting that tests plant to see that their checks find them.
//!
//! Contract: only builds with the feature `planted-faults` contain these faults. Nothing in the
//! workspace turns it on by itself; the fault campaign, a build of its own, does. A planted fault
//! changes figures, never the run.

/// A fault in the figures of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PlantedFault {
    /// None.
    #[default]
    None,
    /// One in the accounts of the disk.
    Disk(twin_sim::PlantedFault),
    /// The clock stops before the final sync.
    SyncLeftOut,
    /// The disk's accounts begin with the making of the volume.
    MkfsCounted,
    /// The clock starts before the volume is populated.
    PopulatingTimed,
    /// Processor time of populating counts.
    PopulatingProcessor,
    /// What the layout wrote while the volume was populated counts.
    PopulatingWritten,
    /// Look-ups in the cache while the volume was populated count.
    PopulatingHits,
    /// Wear by making and populating the volume counts.
    PopulatingWear,
    /// Failed operations count as done.
    FailuresHidden,
    /// Operations that could not be issued count in the throughput.
    SkippedCounted,
    /// The latency of fsyncs is reported as that of writes, and the other way round.
    WrongKind,
    /// The 99th percentile is the 90th.
    P99IsP90,
    /// The write cost is divided by all data that the layout wrote.
    WriteCostOfAllData,
    /// Bytes that the cleaner read are reported as bytes that clients read.
    CleanerReadsAreUsers,
    /// Requests do not take the time that they spend in the kernel.
    FuseLeftOut,
    /// Write amplification counts the bytes of the layout's data, not those written to the disk.
    AmplificationOfData,
}

impl PlantedFault {
    /// True if this fault is planted: constantly false in builds without planted faults.
    pub(crate) fn is(self, fault: PlantedFault) -> bool {
        cfg!(feature = "planted-faults") && self == fault
    }

    /// The fault of the disk, if it is one.
    pub(crate) fn of_disk(self) -> twin_sim::PlantedFault {
        match self {
            PlantedFault::Disk(fault) => fault,
            _ => twin_sim::PlantedFault::None,
        }
    }
}
