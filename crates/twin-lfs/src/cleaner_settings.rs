//! The cleaner's settings as text: `victim=twin,placement=sepbit,when=idle`.

use twin_clean::{placement, victim, when};

use crate::lfs::LfsSettings;

/// The keys, with what they set.
pub const CLEANER_KEYS: &[(&str, &str)] = &[
    ("victim", "which segment is cleaned first"),
    ("placement", "which blocks are written together"),
    ("when", "when the cleaner works though nobody waits for it"),
    ("clean-step", "bytes of its requests then, from 4096 to 1048576"),
];

impl LfsSettings {
    /// Sets one of [`CLEANER_KEYS`].
    ///
    /// # Errors
    /// Says what is wrong and what there is.
    pub fn set_cleaner(&mut self, key: &str, value: &str) -> Result<(), String> {
        fn named(kind: &str, name: &str, names: Vec<&str>) -> Result<String, String> {
            match names.contains(&name) {
                true => Ok(name.into()),
                false => Err(format!("no {kind} policy is called {name:?}: {}", names.join(", "))),
            }
        }
        match key {
            "victim" => {
                let names = victim::registry().iter().map(|entry| entry.name).collect();
                self.victim = named("victim", value, names)?;
            }
            "placement" => {
                let mountable = placement::registry().iter().filter(|entry| entry.is_mountable());
                let names = mountable.map(|entry| entry.name).collect();
                self.placement = named("placement", value, names)?;
            }
            "when" => {
                let names = when::registry().iter().map(|entry| entry.name).collect();
                self.when = named("when", value, names)?;
            }
            "clean-step" => {
                let bytes = value.parse().ok().filter(|bytes| (4096..=1 << 20).contains(bytes));
                self.clean_step_bytes =
                    bytes.ok_or(format!("{value:?} is not a number from 4096 to 1048576"))?;
            }
            _ => {
                let names: Vec<_> = CLEANER_KEYS.iter().map(|(name, _)| *name).collect();
                return Err(format!("the cleaner has no {key:?}: {}", names.join(", ")));
            }
        }
        Ok(())
    }

    /// Sets what a list of `key=value` with commas says.
    ///
    /// # Errors
    /// Names the first part that is wrong, and says what there is.
    pub fn set_cleaner_list(&mut self, text: &str) -> Result<(), String> {
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or(format!("{part:?} is not key=value"))?;
            self.set_cleaner(key.trim(), value.trim())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_sets_what_it_names() {
        let mut settings = LfsSettings::default();
        settings.set_cleaner_list("victim=mdc,placement=sepbit,when=idle").unwrap();
        assert_eq!((&*settings.victim, &*settings.placement), ("mdc", "sepbit"));
        assert_eq!(settings.when, "idle");
    }

    #[test]
    fn a_mistake_is_told_with_what_there_is() {
        let mut settings = LfsSettings::default();
        for (text, word) in [
            ("victim=best", "greedy"),
            ("placement=fk", "sepbit"),
            ("speed=1", "placement"),
            ("twin", "key=value"),
            ("clean-step=1", "4096"),
        ] {
            let error = settings.set_cleaner_list(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
