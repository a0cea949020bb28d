//! Faults of the protocol that tests plant to see that their exploration finds them.
//!
//! Contract: only builds with the feature `planted-faults` contain these faults; in others planting one changes
//! nothing.

/// A fault of a writer, or of a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PlantedFault {
    /// The protocol is followed.
    #[default]
    None,
    /// A new writer does not seal the sequence of the one before it.
    NoSeal,
    /// Packs are written whatever is there.
    PacksOverwrite,
    /// The head is written whatever is there.
    HeadOverwrites,
    /// A flush does not wait for the packs before its own.
    FlushOvertakes,
    /// A conflict counts as success: it could have been an own request whose answer was lost.
    ConflictIsSuccess,
    /// What no head refers to any more is deleted before the new head is written.
    DeleteBeforeHead,
    /// A head knows packs that are still on their way.
    HeadOvertakes,
    /// A new writer goes on in the epoch of the one before it.
    SameEpoch,
    /// The packs after the map are read until one is missing, seals or not.
    SealsIgnored,
    /// The packs after the map are not read.
    NoReplay,
    /// A request without an answer counts as done.
    SilenceIsSuccess,
    /// A follower takes a missing pack for the end without looking at the head: no fault of a writer, so not one of [`PLANTED`].
    FollowerTrustsEnd,
}

/// All faults of writers.
pub const PLANTED: &[PlantedFault] = &[
    PlantedFault::NoSeal,
    PlantedFault::PacksOverwrite,
    PlantedFault::HeadOverwrites,
    PlantedFault::FlushOvertakes,
    PlantedFault::ConflictIsSuccess,
    PlantedFault::DeleteBeforeHead,
    PlantedFault::HeadOvertakes,
    PlantedFault::SameEpoch,
    PlantedFault::SealsIgnored,
    PlantedFault::NoReplay,
    PlantedFault::SilenceIsSuccess,
];

impl PlantedFault {
    /// True if this fault is planted: constantly false in builds without planted faults.
    pub(crate) const fn is(self, fault: PlantedFault) -> bool {
        cfg!(feature = "planted-faults") && self as u8 == fault as u8
    }
}
