//! What a search may set: the table of settings and their values.
//!
//! Contract: policies are those of the registries, so that a new one is here by its line in its registry. A knob that
//! a layout has not is left out for that layout. What no mount can have is left out too (`twin_lab::Commands`).

use twin_cache::flush::{self, Survives};
use twin_cache::replacement;
use twin_fs::KeyHelp;
use twin_lab::{FLUSH, MOUNT_FLUSH};

/// A setting that varies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knob {
    /// The key.
    pub(crate) key: &'static str,
    values: Values,
}

/// The values of a knob.
#[derive(Clone, Copy, Debug)]
enum Values {
    These(&'static [&'static str]),
    /// The policies that the layout has for this key.
    OfLayout,
    Replacement,
    /// The flush policies that a mount can have, with ages.
    Flush,
}

/// The key of the ages of flush policies.
pub(crate) const FLUSH_AGE: &str = "flush-age";
/// The ages that are tried.
const AGES: [&str; 3] = ["1s", "10s", "30s"];
/// The key of the cache.
pub(crate) const CACHE: &str = "cache";

/// All knobs.
pub(crate) const KNOBS: &[Knob] = &[
    Knob { key: CACHE, values: Values::These(&["16M", "64M", "256M"]) },
    Knob { key: "replacement", values: Values::Replacement },
    Knob { key: FLUSH, values: Values::Flush },
    Knob { key: "segment", values: Values::These(&["256K", "512K", "1M", "4M"]) },
    Knob { key: "block", values: Values::These(&["4K", "8K", "16K"]) },
    Knob { key: "victim", values: Values::OfLayout },
    Knob { key: "placement", values: Values::OfLayout },
    Knob { key: "when", values: Values::OfLayout },
    Knob { key: "ordering", values: Values::OfLayout },
    Knob { key: "alloc", values: Values::OfLayout },
];

impl Knob {
    /// Its values for a layout with these keys; nothing if it has none.
    pub(crate) fn values(&self, of_layout: &[KeyHelp]) -> Vec<String> {
        let named = |names: &mut dyn Iterator<Item = &'static str>| {
            names.map(String::from).collect::<Vec<_>>()
        };
        match self.values {
            Values::These(values) => named(&mut values.iter().copied()),
            Values::OfLayout => {
                let help = of_layout.iter().find(|help| help.name == self.key);
                help.map_or(Vec::new(), |help| help.form.split('|').map(String::from).collect())
            }
            Values::Replacement => {
                let online = replacement::REGISTRY.iter().filter(|entry| !entry.needs_future());
                named(&mut online.map(|entry| entry.name))
            }
            Values::Flush => {
                let possible =
                    flush::REGISTRY.iter().filter(|entry| entry.survives == Survives::Nothing);
                named(&mut possible.map(|entry| entry.name))
            }
        }
    }
}

/// The settings that choose a value of a key: of a flush policy one for each age.
pub(crate) fn settings(key: &str, value: &str, ages: Option<&[String]>) -> Vec<String> {
    if key != FLUSH {
        return vec![format!("{key}={value}")];
    }
    let alone = format!("{FLUSH}={value},{MOUNT_FLUSH}=yes");
    let has_age = flush::REGISTRY.get(value).is_ok_and(|entry| entry.age_ns > 0);
    if !has_age {
        return vec![alone];
    }
    let usual = AGES.map(String::from);
    let ages = ages.unwrap_or(&usual);
    ages.iter().map(|age| format!("{FLUSH}={value},{FLUSH_AGE}={age},{MOUNT_FLUSH}=yes")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_lab::layouts::LAYOUTS;

    #[test]
    fn every_policy_of_a_registry_is_a_value() {
        let of = |key: &str, layout: usize| {
            let knob = KNOBS.iter().find(|knob| knob.key == key).unwrap();
            knob.values(&LAYOUTS[layout].config().keys())
        };
        let online = replacement::REGISTRY.iter().filter(|entry| !entry.needs_future());
        assert_eq!(of("replacement", 0).len(), online.count());
        for (title, names) in LAYOUTS[0].policies() {
            let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            let keys = ["victim", "placement", "when"];
            assert!(keys.iter().any(|key| of(key, 0) == all), "{title}: {all:?}");
        }
        assert!(of("segment", 0).len() > 2 && of("victim", 1).is_empty());
    }

    #[test]
    fn a_flush_policy_with_an_age_has_all_ages() {
        let ages = ["2s".to_string()];
        assert_eq!(
            settings("flush", "delayed", Some(&ages)),
            ["flush=delayed,flush-age=2s,mount-flush=yes"]
        );
        assert_eq!(settings("flush", "delayed", None).len(), AGES.len());
        assert_eq!(settings("cache", "4M", None), ["cache=4M"]);
    }
}
