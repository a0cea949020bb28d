//! What would change the order of two configurations: both run again with one setting of the machine or the
//! volume changed, one setting at a time.
//!
//! Contract: the settings that are tried are those that are most often wrong or open when a system is chosen:
//! the size of the cache (a quarter, four times), the block size, and the kind of disk. Each is tried by a
//! simulation; nothing is extrapolated. What cannot run with a setting is told, not left out.

use twin_settings::Choice;
use twin_sim::model;

use crate::compare::{SeedRuns, compare};
use crate::config::Config;
use crate::figures::Figures;
use crate::layouts::LAYOUTS;
use crate::trust::Trust;
use crate::verdict::{Order, order};
use twin_report::units::list;

/// The factor by which the cache is made smaller and larger.
const CACHE_FACTOR: u64 = 4;
/// The smallest cache that is tried.
const LEAST_CACHE: u64 = 1 << 20;
/// Sizes of blocks that are tried.
const BLOCKS: [&str; 2] = ["4K", "16K"];

/// Disks that are tried: the default one, and one that has no arm to move.
fn disks() -> [Choice<model::Known>; 2] {
    let flash = Choice::of(&model::REGISTRY, |disk| disk.kind == model::Kind::Flash);
    [Config::base(LAYOUTS[0]).disk, flash]
}

/// The settings that are tried on two configurations, as `key=value`.
pub fn what_if_changes(pair: [&Config; 2]) -> Vec<String> {
    let caches = pair.map(|config| config.settings.cache_bytes);
    let mut changes = Vec::new();
    if caches[0] == caches[1] {
        changes.extend(cache_changes(caches[0]));
    }
    let mut all: Vec<(&str, String)> = Vec::new();
    all.extend(BLOCKS.map(|block| ("block", block.to_string())));
    let is_mechanical = |disk: &Choice<model::Known>| disk.kind == model::Kind::Mechanical;
    // Another disk of the same kind seldom changes an order.
    let is_other = |disk: &Choice<model::Known>| {
        pair.iter().all(|config| is_mechanical(disk) != is_mechanical(&config.disk))
    };
    let others = disks().into_iter().filter(is_other);
    all.extend(others.map(|disk| ("disk", disk.name.to_string())));
    let has = |config: &Config, key: &str, value: &str| {
        config.resolved().iter().any(|(name, text)| *name == key && text == value)
    };
    all.retain(|(key, value)| !pair.iter().all(|config| has(config, key, value)));
    changes.extend(all.into_iter().map(|(key, value)| format!("{key}={value}")));
    changes
}

/// Other sizes of a cache that are tried, as `key=value`: a quarter, unless it is the least, and four times.
pub fn cache_changes(bytes: u64) -> Vec<String> {
    let sizes = [(bytes / CACHE_FACTOR).max(LEAST_CACHE), bytes * CACHE_FACTOR];
    let others = sizes.into_iter().filter(|size| *size != bytes);
    others.map(|size| format!("cache={}", readable(size))).collect()
}

/// A number of bytes with its unit.
fn readable(bytes: u64) -> String {
    match bytes {
        bytes if bytes % (1 << 20) == 0 => format!("{}M", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => format!("{}K", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

/// Tries all changes on two configurations, the first of which is at least as good, and says in words which of
/// them would change their order. `changed` makes a configuration with a setting changed, or says why there is
/// none. `before` is the order without a change.
pub fn what_if(
    pair: [&Config; 2],
    (before, trust): (&[Figures; 2], &Trust),
    changed: &dyn Fn(&Config, &str) -> Result<Config, String>,
    runs: SeedRuns<'_>,
    threads: usize,
) -> String {
    let was = order([&before[0], &before[1]], runs.measure, trust);
    let (mut other, mut same, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    let tried = what_if_changes(pair);
    let configs: Vec<_> =
        tried.iter().flat_map(|setting| pair.map(|config| changed(config, setting))).collect();
    let able: Vec<Config> =
        configs.iter().filter_map(|config| config.as_ref().ok().cloned()).collect();
    let mut results = compare(&able, runs.workload, runs.pace, threads, &|_, _| {}).into_iter();
    let mut figures = configs.into_iter().map(|config| {
        let config = config?;
        match results.next() {
            Some(Ok(run)) => Ok((config, run)),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("it was not run".to_string()),
        }
    });
    for setting in &tried {
        let (first, second) = (figures.next(), figures.next());
        match (first, second) {
            (Some(Ok((a, first))), Some(Ok((b, second)))) => {
                let is = order([&first, &second], runs.measure, &Trust::of([&a, &b]));
                let words = format!("{setting} ({})", words(is, pair));
                if is == was { same.push(setting.clone()) } else { other.push(words) }
            }
            (Some(Err(why)), _) | (_, Some(Err(why))) => failed.push(format!("{setting} ({why})")),
            _ => {}
        }
    }
    let names = pair.map(|config| config.name.as_str()).join(" and ");
    let mut said = match other.is_empty() {
        true => format!("Nothing that was tried changes the order of {names}: {}.", list(&same)),
        false => format!("What would change the order of {names}: {}.", list(&other)),
    };
    if !other.is_empty() && !same.is_empty() {
        said += &format!(" What would not: {}.", list(&same));
    }
    if !failed.is_empty() {
        said += &format!(" Could not be tried: {}.", list(&failed));
    }
    said
}

fn words(order: Order, pair: [&Config; 2]) -> String {
    match order {
        Order::First => format!("{} wins", pair[0].name),
        Order::Second => format!("{} wins", pair[1].name),
        Order::Equal => "they are equal".into(),
        Order::Close => "too close to call".into(),
        Order::None => "one of them fails".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::MEASURES;
    use crate::workload::Workload;
    use twin_trace::replay::Pace;

    fn config(text: &str) -> Config {
        Config::parse(text).unwrap()
    }

    #[test]
    fn what_two_configurations_share_is_changed_and_what_they_have_is_not_tried() {
        let (a, b) = (config("lfs:cache=16M,block=4K"), config("ffs:cache=16M,block=16K"));
        let all = ["cache=4M", "cache=64M", "block=4K", "block=16K", "disk=ssd-tlc"];
        assert_eq!(what_if_changes([&a, &b]), all);
        let (a, b) = (config("lfs:cache=1M,disk=ssd-tlc"), config("lfs:cache=8M,disk=ssd-tlc"));
        assert_eq!(what_if_changes([&a, &b]), ["block=16K", "disk=disk-7200"]);
    }

    /// What is said of a pair of which the first is on a faster disk, with these changed configurations.
    fn said(changed: &dyn Fn(&Config, &str) -> Result<Config, String>) -> String {
        let workload = Workload::Generated("small-files:files=50".into(), 1);
        let runs =
            SeedRuns { workload: &workload, pace: Pace::Asap, seeds: 1, measure: MEASURES.first() };
        let pair = [&config(FAST), &config(SLOW)];
        let figures = pair.map(|config| crate::simulate(config, &workload, Pace::Asap).unwrap());
        what_if(pair, (&figures, &Trust::of(pair)), changed, runs, 2)
    }

    const FAST: &str = "lfs:cache=16M,disk=ssd-nvme";
    const SLOW: &str = "lfs:cache=16M";

    #[test]
    fn the_setting_under_which_the_other_wins_is_told_apart_from_those_that_change_nothing() {
        let swap = |at: &Config, setting: &str| {
            let other = if at.name == FAST { SLOW } else { FAST };
            let text = if setting == "cache=64M" { other } else { &at.name };
            Ok(Config { name: at.name.clone(), ..config(text) })
        };
        let changes =
            format!("What would change the order of {FAST} and {SLOW}: cache=64M ({SLOW} wins).");
        let rest = "What would not: cache=4M and block=16K.";
        assert_eq!(said(&swap), format!("{changes} {rest}"));
    }

    #[test]
    fn what_cannot_be_tried_is_told_with_its_reason() {
        let words = said(&|_, _| Err("no such thing".to_string()));
        assert!(words.contains("Could not be tried: cache=4M (no such thing)"), "{words}");
    }
}
