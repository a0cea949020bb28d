//! What would change the order of two configurations: both run again with one setting of the machine or the
//! volume changed, one setting at a time.
//!
//! Contract: the settings that are tried are those that are most often wrong or open when a system is chosen:
//! the size of the cache (a quarter, four times), the block size, and the kind of disk. Each is tried by a
//! simulation with as many seeds as the configurations had; nothing is extrapolated. An order has changed if
//! another configuration is ahead, or if one is where none was. What cannot run with a setting is told, not
//! left out.

use twin_lab::layouts::LAYOUTS;
use twin_lab::{Config, Figures, Run};
use twin_report::units::list;
use twin_settings::Choice;
use twin_sim::model;

use crate::seeds::{SeedRuns, compare_seeds};
use crate::trust::Trust;
use crate::verdict::{Order, order, text_of};

/// The factor by which the cache is made smaller and larger.
const CACHE_FACTOR: u64 = 4;
/// The smallest cache that is tried.
const LEAST_CACHE: u64 = 1 << 20;
/// Sizes of blocks that are tried.
const BLOCKS: [&str; 2] = ["4K", "16K"];

/// Disks that are tried: the default one, and one that has no arm to move.
fn disks() -> impl Iterator<Item = Choice<model::Known>> {
    let default = Config::parse(LAYOUTS[0].name()).ok().map(|config| config.disk);
    let flash = Choice::of(&model::REGISTRY, |disk| disk.kind == model::Kind::Flash);
    default.into_iter().chain([flash])
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
    let others = disks().filter(is_other);
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

/// Two configurations, the first of which is at least as good, as their runs have shown.
#[derive(Clone, Copy)]
pub struct Before<'a> {
    /// The configurations.
    pub pair: [&'a Config; 2],
    /// Their short names.
    pub names: [&'a str; 2],
    /// Their figures.
    pub figures: [&'a Figures; 2],
    /// How far their times are trusted.
    pub trust: &'a Trust,
}

/// What became of the order with a setting.
enum Found {
    /// The order is another one, or there is one where there was none.
    Other(String),
    /// There was an order, and now they cannot be told apart.
    Lost(String),
    /// The same.
    Same(String),
    /// It could not be tried.
    Failed(String),
}

/// Tries all changes on two configurations, and says in words which of them change their order, or that nothing
/// does. `changed` makes a run with a setting changed, or says why there is none.
pub fn what_if(
    before: Before<'_>,
    changed: &dyn Fn(&Config, &str) -> Result<Run, String>,
    runs: SeedRuns<'_>,
    threads: usize,
) -> String {
    let was = order(before.figures, runs.measure, before.trust);
    let tried = what_if_changes(before.pair);
    let made: Vec<_> = tried
        .iter()
        .flat_map(|setting| before.pair.map(|config| changed(config, setting)))
        .collect();
    let able: Vec<Run> = made.iter().filter_map(|run| run.as_ref().ok().cloned()).collect();
    let mut results = compare_seeds(&able, runs, threads, &|_, _| {}).into_iter();
    let mut figures = made.into_iter().map(|run| {
        let config = run?.config;
        match results.next() {
            Some(Ok(seeded)) => Ok((config, seeded.figures)),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("it was not run".to_string()),
        }
    });
    let mut found = Vec::new();
    for setting in &tried {
        found.push(match (figures.next(), figures.next()) {
            (Some(Ok((a, first))), Some(Ok((b, second)))) => {
                let is = order([&first, &second], runs.measure, &Trust::of([&a, &b]));
                let texts = [&first, &second].map(|of| text_of(runs.measure, of));
                judged(setting, (was, is), before.names, texts.map(Option::unwrap_or_default))
            }
            (Some(Err(why)), _) | (_, Some(Err(why))) => {
                Found::Failed(format!("{setting} ({why})"))
            }
            _ => continue,
        });
    }
    said(&found, winner(was).is_some(), &before.names.join(" and "))
}

/// The number of the one that is ahead; `None` if they cannot be told apart.
fn winner(order: Order) -> Option<usize> {
    match order {
        Order::First => Some(0),
        Order::Second => Some(1),
        Order::Equal | Order::Close | Order::None => None,
    }
}

fn judged(setting: &str, (was, is): (Order, Order), names: [&str; 2], texts: [String; 2]) -> Found {
    let [first, second] = &texts;
    let tie = |words: &str| format!("with {setting} {words} ({first} and {second})");
    match (winner(was), winner(is)) {
        _ if is == Order::None => Found::Failed(format!("{setting} (operations failed)")),
        (before, now) if before == now => Found::Same(setting.to_owned()),
        (_, Some(now)) => Found::Other(format!(
            "with {setting} {} wins ({}, with {} {})",
            names[now],
            texts[now],
            names[1 - now],
            texts[1 - now]
        )),
        (Some(_), None) if is == Order::Close => Found::Lost(tie("they are too close to call")),
        _ => Found::Lost(tie("they are equal")),
    }
}

/// All that was found, in sentences.
fn said(found: &[Found], had_order: bool, names: &str) -> String {
    let pick = |of: fn(&Found) -> Option<&String>| -> Vec<String> {
        found.iter().filter_map(of).cloned().collect()
    };
    let other = pick(|found| if let Found::Other(words) = found { Some(words) } else { None });
    let lost = pick(|found| if let Found::Lost(words) = found { Some(words) } else { None });
    let same = pick(|found| if let Found::Same(words) = found { Some(words) } else { None });
    let failed = pick(|found| if let Found::Failed(words) = found { Some(words) } else { None });
    let (does, change) = match had_order {
        true => ("changes the order of", "the order changes of"),
        false => ("tells apart", "what tells apart"),
    };
    let mut said = match other.is_empty() {
        true => format!("What if: nothing that was tried {does} {names}."),
        false => format!("What if: {change} {names}: {}.", list(&other)),
    };
    if !lost.is_empty() {
        said += &format!(" The order is lost: {}.", list(&lost));
    }
    if !same.is_empty() {
        said += &format!(" No change with {}.", list(&same));
    }
    if !failed.is_empty() {
        said += &format!(" Could not be tried: {}.", list(&failed));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::MEASURES;
    use twin_lab::Workload;
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
    fn said_of(changed: &dyn Fn(&Config, &str) -> Result<Run, String>) -> String {
        let workload = Workload::Generated("small-files:files=50".into(), 1);
        let measure = MEASURES.default_entry();
        let runs = SeedRuns { workload: &workload, pace: Pace::Asap, seeds: 1, measure };
        let pair = [&config(FAST), &config(SLOW)];
        let figures = pair.map(|config| twin_lab::simulate(config, &workload, Pace::Asap).unwrap());
        let [first, second] = &figures;
        let names = ["fast", "slow"];
        let before = Before { pair, names, figures: [first, second], trust: &Trust::of(pair) };
        what_if(before, changed, runs, 2)
    }

    const FAST: &str = "lfs:cache=16M,disk=ssd-nvme";
    const SLOW: &str = "lfs:cache=16M";

    fn as_named(at: &Config, text: &str) -> Result<Run, String> {
        Ok(Config { name: at.name.clone(), ..config(text) }.into())
    }

    #[test]
    fn the_setting_under_which_the_other_wins_is_told_apart_from_those_that_change_nothing() {
        let swap = |at: &Config, setting: &str| {
            let other = if at.name == FAST { SLOW } else { FAST };
            as_named(at, if setting == "cache=64M" { other } else { &at.name })
        };
        let said = said_of(&swap);
        let changes = "What if: the order changes of fast and slow: with cache=64M slow wins (";
        assert!(said.starts_with(changes), "{said}");
        assert!(said.contains(", with fast "), "the figures are given: {said}");
        assert!(said.ends_with(" No change with cache=4M and block=16K."), "{said}");
    }

    #[test]
    fn an_order_that_is_lost_is_no_other_order() {
        let said = said_of(&|at, setting| {
            as_named(at, if setting == "cache=64M" { FAST } else { &at.name })
        });
        let nothing = "What if: nothing that was tried changes the order of fast and slow. ";
        assert!(said.starts_with(nothing), "{said}");
        assert!(said.contains("The order is lost: with cache=64M they are equal ("), "{said}");
    }

    #[test]
    fn what_cannot_be_tried_is_told_with_its_reason() {
        let words = said_of(&|_, _| Err("no such thing".to_string()));
        assert!(words.contains("Could not be tried: cache=4M (no such thing)"), "{words}");
    }
}
