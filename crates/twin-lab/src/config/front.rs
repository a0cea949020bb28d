//! Front ends of simulated volumes, by name.

use twin_settings::SettingsError;

/// What stands between the clients of a simulated volume and its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// What stood there when the workload was recorded.
    AsRecorded,
    /// Nothing: clients call the core.
    Nothing,
    /// The kernel of a mount, without its caches: each operation is a request.
    Fuse,
    /// The kernel of a mount with its caches.
    Kernel,
}

impl Front {
    const ALL: [(&'static str, Front); 4] = [
        ("as-recorded", Front::AsRecorded),
        ("none", Front::Nothing),
        ("fuse", Front::Fuse),
        ("kernel", Front::Kernel),
    ];

    /// Its name in settings.
    pub(crate) fn name(self) -> &'static str {
        Front::ALL.iter().find(|(_, front)| *front == self).map_or("", |(name, _)| name)
    }

    /// The front end of this name.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn by_name(text: &str) -> Result<Front, SettingsError> {
        let found = Front::ALL.iter().find(|(name, _)| *name == text);
        let names = Front::ALL.iter().map(|(name, _)| *name);
        found
            .map(|(_, front)| *front)
            .ok_or_else(|| SettingsError::unknown("front end", text, names))
    }
}
