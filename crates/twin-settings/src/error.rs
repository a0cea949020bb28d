//! The errors in the texts of settings. A message names the place and tells what would be right.

use std::fmt;

/// The largest distance between two names, in changed letters, at which one is suggested for the
/// other.
const NEAR: usize = 2;

/// An error in a text, as one sentence for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError(String);

impl SettingsError {
    /// An error with this sentence.
    pub fn new(what: impl Into<String>) -> SettingsError {
        SettingsError(what.into())
    }

    /// The error that no `what` is called `name`. It suggests the nearest of the `known` names and
    /// lists all of them.
    pub fn unknown<'a>(
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> SettingsError {
        let known: Vec<&str> = known.into_iter().collect();
        let near = nearest(name, &known).map(|near| format!(" did you mean {near:?}?"));
        let near = near.unwrap_or_default();
        let known = known.join(", ");
        let name = shortened(name);
        SettingsError(format!("there is no {what} called {name:?};{near} choose one of: {known}"))
    }

    /// Returns the same error with a place in front of its message.
    #[must_use]
    pub fn within(self, place: &str) -> SettingsError {
        SettingsError(format!("{}: {}", shortened(place), self.0))
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingsError {}

/// The most bytes of a text that a message repeats.
const SHOWN: usize = 200;

/// The beginning of a text, for a message: a text of a megabyte says nothing.
pub(crate) fn shortened(text: &str) -> String {
    match text.len() > SHOWN {
        true => format!("{}...", &text[..text.floor_char_boundary(SHOWN)]),
        false => text.into(),
    }
}

/// The known name that the user most likely meant by `name`; `None` if no name is near enough.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let lower = name.to_ascii_lowercase().replace('_', "-");
    let distance = |known: &str| strsim::osa_distance(&lower, &known.replace('_', "-"));
    let (least, near) = known.iter().map(|known| (distance(known), *known)).min()?;
    // A name of two or three letters cannot be recognized any more if two letters are changed.
    (least <= NEAR.min(lower.len() / 2)).then_some(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        let known = ["hp97560", "ssd-nvme", "disk-7200"];
        assert_eq!(nearest("hp97650", &known), Some("hp97560"));
        assert_eq!(nearest("SSD_nvme", &known), Some("ssd-nvme"));
        assert_eq!(nearest("floppy", &known), None);
        assert_eq!(nearest("", &known), None);
        assert_eq!(nearest("lfs", &[]), None);
    }

    #[test]
    fn short_names_are_not_taken_for_each_other() {
        assert_eq!(nearest("zfs", &["lfs", "ffs"]), Some("ffs"));
        assert_eq!(nearest("xyz", &["lfs", "ffs"]), None);
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_exist() {
        let error = SettingsError::unknown("disk", "flopy", ["floppy", "drum"]).to_string();
        assert_eq!(
            error,
            "there is no disk called \"flopy\"; did you mean \"floppy\"? choose one of: floppy, drum"
        );
    }
}
