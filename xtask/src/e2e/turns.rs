//! Locks shared by the concurrent scenarios of a run.

use std::sync::Mutex;

/// Locks that keep two concurrent scenarios from fetching the same requirement.
#[derive(Default)]
pub(crate) struct Turns {
    /// Held while packages are installed.
    pub(super) packages: Mutex<()>,
    /// Held while the C project is unpacked.
    pub(super) sources: Mutex<()>,
}
