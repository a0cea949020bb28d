//! The settings of several configurations side by side.

use twin_lab::Config;
use twin_report::table::Cell;
use twin_report::{Part, Table};

/// The resolved settings of configurations.
struct Settings {
    /// A row for each key whose values differ, with a value for each configuration. A layout that lacks
    /// a key has `-`.
    differing: Table,
    /// The settings that all have, as `key=value` with spaces between them.
    common: String,
}

impl Settings {
    fn of(configs: &[&Config]) -> Settings {
        let resolved: Vec<_> = configs.iter().map(|config| config.resolved()).collect();
        let mut keys: Vec<&'static str> = Vec::new();
        for (key, _) in resolved.iter().flatten() {
            if !keys.contains(key) {
                keys.push(key);
            }
        }
        let names = configs.iter().map(|config| config.name.clone());
        let mut differing = Table::new(std::iter::once(String::new()).chain(names), 1);
        let mut common = Vec::new();
        for key in keys {
            let value = |all: &Vec<(&'static str, String)>| {
                let found = all.iter().find(|(name, _)| *name == key);
                found.map_or("-".to_string(), |(_, value)| value.clone())
            };
            let values: Vec<String> = resolved.iter().map(value).collect();
            if values.windows(2).all(|pair| pair[0] == pair[1]) {
                common.push(format!("{key}={}", values[0]));
            } else {
                differing.push(
                    std::iter::once(key.into()).chain(values.into_iter().map(Cell::from)).collect(),
                );
            }
        }
        Settings { differing, common: common.join(" ") }
    }
}

/// The settings that decide most about a comparison.
const DECISIVE: [&str; 3] = ["size", "cache", "disk"];

/// The decisive settings that have the same value in all configurations, and that the name of none sets.
pub(super) fn untouched(configs: &[&Config]) -> String {
    let resolved: Vec<_> = configs.iter().map(|config| config.resolved()).collect();
    let value = |key: &str, at: usize| {
        let found = resolved.get(at)?.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| value.clone())
    };
    let is_set = |key: &str| configs.iter().any(|config| config.name.contains(&format!("{key}=")));
    let common = DECISIVE.into_iter().filter(|key| !is_set(key)).filter_map(|key| {
        let first = value(key, 0)?;
        let all_have = (0..resolved.len()).all(|at| value(key, at).as_ref() == Some(&first));
        all_have.then(|| format!("{key}={first}"))
    });
    common.collect::<Vec<_>>().join(",")
}

/// The defaults of the settings that decide most.
pub fn default_settings() -> String {
    let first = twin_lab::presets().first().map(|preset| Config::parse(preset.name));
    first.and_then(Result::ok).map_or_else(String::new, |config| untouched(&[&config]))
}

/// All settings that configurations resolve to: those that differ in a table, the others told once.
pub fn settings(configs: &[&Config]) -> Vec<Part> {
    let Settings { differing, common } = Settings::of(configs);
    let title = if differing.is_empty() { "Settings:" } else { "The same for all:" };
    let mut parts: Vec<Part> = Vec::new();
    if !differing.is_empty() {
        parts.extend(["Settings that differ:".into(), differing.into()]);
    }
    parts.extend([title.into(), Part::Words(common)]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_report::{Form, Report};

    #[test]
    fn settings_that_differ_are_in_the_table_and_the_others_are_told_once() {
        let parse = |text| Config::parse(text).unwrap();
        let (a, b) = (parse("lfs:cache=8M,size=64M"), parse("ffs:size=64M"));
        let text_of = |configs: &[&Config]| {
            let mut report = Report::new("");
            settings(configs).into_iter().for_each(|part| report.add(part));
            report.write(Form::Terminal(Some(80)))
        };
        let text = text_of(&[&a, &b]);
        let row = |key: &str| {
            let row = text.lines().find(|line| line.starts_with(&format!("│ {key} ")));
            row.map(|row| row.split_whitespace().filter(|word| word.is_ascii()))
        };
        assert_eq!(row("cache").unwrap().collect::<Vec<_>>()[1..], ["8M", "64M"]);
        assert_eq!(row("segment").unwrap().next_back(), Some("-"), "one layout has no segments");
        assert!(row("size").is_none() && text.contains("size=64M"));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text_of(&[&a]).starts_with("Settings:\n  disk=disk-7200 "));
    }
}
