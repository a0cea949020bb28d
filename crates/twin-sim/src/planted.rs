//! Faults of accounting that tests plant to see that their checks find them.
//!
//! Contract: only builds with the feature `planted-faults` contain these faults; in others planting
//! one changes nothing. Nothing in the workspace turns the feature on by itself; the fault campaign,
//! a build of its own, does.

/// A fault in the accounts of a simulated disk. What the disk does stays right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PlantedFault {
    /// All accounts are right.
    #[default]
    None,
    /// Waiting behind other requests counts as the controller's work.
    WaitingIsService,
    /// The parts of a request's time are added twice.
    PartsTwice,
    /// A request that is served in parts is counted as a whole too.
    WholeAndParts,
    /// Reads of the cleaner are left out.
    CleanerReadsLeftOut,
    /// The disk counts as busy only from the start of a request's service.
    BusyWithoutWaiting,
}

impl PlantedFault {
    /// True if this fault is planted: constantly false in builds without planted faults.
    pub(crate) const fn is(self, fault: PlantedFault) -> bool {
        cfg!(feature = "planted-faults") && self as u8 == fault as u8
    }
}
