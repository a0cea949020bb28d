//! What the checker knows of snapshots and branches.

use std::collections::BTreeMap;

use crate::format::SnapshotsFile;

/// What is known of the records of a volume that is checked.
#[derive(Default)]
pub(super) struct FoundSnapshots {
    /// The records, as far as they can be read; a repair keeps those that are in it.
    pub(super) content: SnapshotsFile,
    /// For each segment, how many of them need it.
    pub(super) pins: BTreeMap<u32, u16>,
    /// What a repair gives up.
    pub(super) lost: Vec<String>,
}
