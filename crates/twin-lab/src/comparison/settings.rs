//! The settings of several configurations side by side, and short names that tell them apart.

use twin_report::table::Cell;
use twin_report::{Part, Table};

use crate::config::Config;

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

/// Short names of configurations, without the settings that all have. Where these are not unique,
/// the full names.
pub fn labels(names: &[&str]) -> Vec<String> {
    let full = || names.iter().map(|name| name.to_string()).collect();
    // Settings in parentheses are those of a part.
    if names.len() < 2 || names.iter().any(|name| name.contains('(')) {
        return full();
    }
    let parts: Vec<Vec<&str>> =
        names.iter().map(|name| name.split([':', ',']).collect::<Vec<_>>()).collect();
    let is_common = |part: &str| parts.iter().all(|all| all.contains(&part));
    let short = |all: &Vec<&str>| {
        let (first, settings) = (all[0], &all[1..]);
        let own: Vec<&str> = settings.iter().copied().filter(|part| !is_common(part)).collect();
        match own.is_empty() {
            true => first.to_string(),
            false if parts.iter().all(|all| all[0] == first) => own.join(","),
            false => format!("{first}:{}", own.join(",")),
        }
    };
    let labels: Vec<String> = parts.iter().map(short).collect();
    let unique = labels.iter().enumerate().all(|(i, label)| !labels[..i].contains(label));
    if unique { labels } else { full() }
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

    #[test]
    fn short_names_have_what_tells_them_apart() {
        let greedy = "lfs:size=128M,cache=4M,victim=greedy";
        let twin = "lfs:size=128M,cache=4M,victim=twin,placement=twin";
        assert_eq!(labels(&[greedy, twin]), ["victim=greedy", "victim=twin,placement=twin"]);
        assert_eq!(labels(&["lfs:size=1G", "ffs:size=1G"]), ["lfs", "ffs"]);
        assert_eq!(labels(&["lfs", "lfs:cache=8M", "ffs"]), ["lfs", "lfs:cache=8M", "ffs"]);
        assert_eq!(labels(&[greedy]), [greedy]);
        assert_eq!(labels(&["lfs:cache=8M", "lfs:cache=8M"]), ["lfs:cache=8M"; 2]);
    }
}
