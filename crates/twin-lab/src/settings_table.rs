//! The settings of several configurations side by side, and short names that tell them apart.

use comfy_table::{Table, presets};

use crate::config::Config;

/// The resolved settings of configurations.
pub(crate) struct Settings {
    /// A row for each key whose values differ: the key, and a value for each configuration. The
    /// first row has the names of the configurations. A layout that lacks a key has `-`.
    pub(crate) differing: Vec<Vec<String>>,
    /// The settings that all have, as `key=value` with spaces between them.
    pub(crate) common: String,
}

impl Settings {
    pub(crate) fn of(configs: &[&Config]) -> Settings {
        let resolved: Vec<_> = configs.iter().map(|config| config.resolved()).collect();
        let mut keys: Vec<&'static str> = Vec::new();
        for (key, _) in resolved.iter().flatten() {
            if !keys.contains(key) {
                keys.push(key);
            }
        }
        let names = configs.iter().map(|config| config.name.clone());
        let mut differing = vec![std::iter::once(String::new()).chain(names).collect()];
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
                differing.push(std::iter::once(key.to_string()).chain(values).collect());
            }
        }
        Settings { differing, common: common.join(" ") }
    }
}

/// All settings that configurations resolve to, for the terminal: those that differ in a table, the
/// others in lines of at most `width` characters.
pub fn settings(configs: &[&Config], width: Option<u16>) -> String {
    let Settings { differing, common } = Settings::of(configs);
    let mut text = String::new();
    if differing.len() > 1 {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        if let Some(width) = width {
            table.set_width(width);
            table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
        }
        table.set_header(&differing[0]);
        table.add_rows(&differing[1..]);
        text += &format!("settings that differ:\n{table}\nthe same for all:");
    } else {
        text += "settings:";
    }
    let room = width.map_or(usize::MAX, usize::from);
    let mut used = usize::MAX;
    for setting in common.split(' ') {
        if used.saturating_add(1 + setting.len()) > room || used == usize::MAX {
            text += &format!("\n  {setting}");
            used = 2 + setting.len();
        } else {
            text += &format!(" {setting}");
            used += 1 + setting.len();
        }
    }
    text
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

    #[test]
    fn settings_that_differ_are_in_the_table_and_the_others_are_told_once() {
        let parse = |text| Config::parse(text).unwrap();
        let (a, b) = (parse("lfs:cache=8M,size=64M"), parse("ffs:size=64M"));
        let found = Settings::of(&[&a, &b]);
        let row = |key: &str| found.differing.iter().find(|row| row[0] == key);
        assert_eq!(row("cache").unwrap()[1..], ["8M", "64M"]);
        assert_eq!(row("segment").unwrap()[2], "-", "one layout has no segments");
        assert!(row("size").is_none() && found.common.contains("size=64M"));
        let keys = found.differing.len() - 1 + found.common.split(' ').count();
        assert!(keys > a.resolved().len(), "{keys}");
        let text = settings(&[&a, &b], Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(settings(&[&a], None).starts_with("settings:\n  disk=disk-7200 "));
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
