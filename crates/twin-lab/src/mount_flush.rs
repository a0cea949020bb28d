//! The flush policy of a mount: `mount --flush POLICY`, or `POLICY:key=value,...`.

use twin_cache::flush::{REGISTRY, Survives};
use twin_fs::Settings;
use twin_settings::{Named, SettingsError, grammar};

use crate::config::Config;
use crate::layouts::LAYOUTS;

/// The keys that can stand behind a policy; they are those of configurations.
const KEYS: [&str; 2] = ["flush-age", "flush-by"];

/// A flush policy that a mount can have, with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountFlush(Settings);

impl MountFlush {
    /// Parses `POLICY` or `POLICY:key=value,...`.
    ///
    /// # Errors
    /// If there is no such policy or key, or if the policy counts on memory that survives a power failure,
    /// which that of a process does not.
    pub fn parse(text: &str) -> Result<MountFlush, SettingsError> {
        let named = Named::parse(text)?;
        let entry = REGISTRY.reach(named.name)?;
        if entry.survives != Survives::Nothing {
            let name = entry.name;
            let what = format!(
                "{name} counts on memory that survives a power failure, and that of a mount does \
                 not: it is for simulations"
            );
            return Err(SettingsError::new(what));
        }
        for setting in grammar::settings(named.settings)? {
            if !KEYS.contains(&setting.key) {
                return Err(SettingsError::unknown("setting", setting.key, KEYS));
            }
        }
        let joint = if named.settings.is_empty() { "" } else { "," };
        let layout = LAYOUTS[0].name();
        let text = format!("{layout}:flush={}{joint}{}", entry.name, named.settings);
        Ok(MountFlush(Config::parse(&text)?.settings))
    }

    /// The settings with this policy, which alone decides when data becomes durable that no client has asked
    /// for: the mount's limit of two seconds no longer holds.
    pub fn apply(&self, settings: Settings) -> Settings {
        let MountFlush(chosen) = self;
        Settings {
            flush: chosen.flush.clone(),
            flush_age_ns: chosen.flush_age_ns,
            flush_by: chosen.flush_by,
            ..settings.flushed_by_policy()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_replaces_the_limit_of_two_seconds() {
        let settings = Settings::default().mounted();
        assert!(settings.durable_within_ns.is_some());
        let with = MountFlush::parse("delayed:flush-age=10s,flush-by=needer").unwrap();
        let with = with.apply(settings);
        assert_eq!((with.flush.as_str(), with.flush_age_ns), ("delayed", Some(10 * twin_rt::SECS)));
        assert!(with.durable_within_ns.is_none() && with.flush_by.is_some() && with.drop_behind);
    }

    #[test]
    fn what_a_mount_cannot_have_is_refused() {
        for (text, word) in [
            ("delayd", "did you mean \"delayed\"?"),
            ("delayed:cache=4M", "flush-age"),
            ("ups", "for simulations"),
            ("nvram-file", "for simulations"),
            ("delayed:flush-age=soon", "soon"),
        ] {
            let error = MountFlush::parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
