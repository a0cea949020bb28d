//! Workloads by hand: the TOML text of a [`Plan`].

use std::collections::BTreeMap;

use serde::Deserialize;
use twin_generate::by_hand::{Group, Kind, Plan};
use twin_generate::{Distribution, Measured};
use twin_settings::SettingsError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    client: BTreeMap<String, GroupText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupText {
    #[serde(default = "one")]
    clients: u64,
    files: u64,
    operations: u64,
    size: String,
    #[serde(default = "a_page")]
    length: String,
    popularity: Option<String>,
    #[serde(default = "at_once")]
    think: String,
    #[serde(default = "alone")]
    burst: String,
    session: Option<SessionText>,
    rate: Option<String>,
    replacement: Option<String>,
    mix: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionText {
    operations: String,
    pause: String,
}

fn one() -> u64 {
    1
}

fn a_page() -> String {
    "constant:value=4K".into()
}

fn at_once() -> String {
    "constant:value=0us".into()
}

fn alone() -> String {
    "constant:value=1".into()
}

/// The most clients, and files and operations of a client.
const MOST_CLIENTS: u64 = 4096;
const MOST_FILES: u64 = 1 << 24;

/// The plan that a TOML text describes.
///
/// # Errors
/// What is wrong, with its place.
pub fn plan(name: &str, text: &str) -> Result<Plan, SettingsError> {
    let text: Text = toml::from_str(text).map_err(|error| SettingsError::new(error.to_string()))?;
    let groups = text.client.iter().map(|(name, group)| {
        self::group(name, group).map_err(|error| error.within(&format!("client.{name}")))
    });
    let groups: Vec<Group> = groups.collect::<Result<_, _>>()?;
    let clients = groups.iter().fold(0u64, |sum, group| sum.saturating_add(group.clients));
    match clients {
        0 => Err(SettingsError::new("there are no clients: add a table [client.NAME]")),
        1..=MOST_CLIENTS => Ok(Plan { name: name.into(), groups }),
        _ => Err(SettingsError::new(format!("{clients} clients: the most are {MOST_CLIENTS}"))),
    }
}

fn group(name: &str, text: &GroupText) -> Result<Group, SettingsError> {
    let law = |what: &str, law: &str, measured| {
        Distribution::parse(law, measured).map_err(|error| error.within(what))
    };
    if text.files > MOST_FILES {
        return Err(SettingsError::new(format!("files: the most are {MOST_FILES}")));
    }
    let popularity = match &text.popularity {
        Some(law) => law.clone(),
        None => format!("uniform:from=0,to={}", text.files.max(1)),
    };
    let session = text.session.as_ref().map(|session| {
        let operations = law("session.operations", &session.operations, Measured::Number)?;
        Ok((operations, law("session.pause", &session.pause, Measured::Time)?))
    });
    let kind = |(name, weight): (&String, &f64)| {
        if !(weight.is_finite() && *weight > 0.0) {
            let what =
                format!("mix: {name} = {weight}: a weight is more than 0; leave it out for none");
            return Err(SettingsError::new(what));
        }
        Ok((Kind::named(name).map_err(|error| error.within("mix"))?, *weight))
    };
    let mix: Vec<(Kind, f64)> = text.mix.iter().map(kind).collect::<Result<_, _>>()?;
    if mix.is_empty() {
        return Err(SettingsError::new("mix: there is nothing to do: give an operation a weight"));
    }
    let plays = mix.iter().any(|(kind, _)| *kind == Kind::Play);
    let rate_bytes_per_s = match (&text.rate, plays) {
        (Some(rate), true) => rate_of(rate).map_err(|error| error.within("rate"))?,
        (None, false) => 0,
        (Some(_), false) => {
            return Err(SettingsError::new("rate: nothing is played: give play a weight in mix"));
        }
        (None, true) => {
            return Err(SettingsError::new("rate is missing: what is played has one, as 1.5Mb"));
        }
    };
    let replacement = text.replacement.as_deref().map(|name| {
        let found = twin_cache::replacement::for_cache(name);
        found.map(|entry| entry.name).map_err(|error| error.within("replacement"))
    });
    Ok(Group {
        name: name.into(),
        clients: text.clients,
        files: text.files,
        operations: text.operations,
        size: law("size", &text.size, Measured::Bytes)?,
        length: law("length", &text.length, Measured::Bytes)?,
        popularity: law("popularity", &popularity, Measured::Number)?,
        think: law("think", &text.think, Measured::Time)?,
        burst: law("burst", &text.burst, Measured::Number)?,
        session: session.transpose()?,
        rate_bytes_per_s,
        replacement: replacement.transpose()?,
        mix,
    })
}

/// A rate a second: in bytes (`200K`), or in decimal bits as media have it (`1.5Mb`).
fn rate_of(text: &str) -> Result<u64, SettingsError> {
    let wrong = || SettingsError::new(format!("{text}: a rate is as 200K (bytes) or 1.5Mb (bits)"));
    let bits = text.strip_suffix('b').and_then(|bits| {
        let factor = if bits.ends_with('M') { 1e6 } else { 1e3 };
        let number: f64 = bits.strip_suffix(['M', 'k'])?.parse().ok()?;
        Some((number * factor / 8.0) as u64)
    });
    let bytes = match bits {
        Some(bytes) => bytes,
        None => twin_settings::value::bytes(text).map_err(|_| wrong())?,
    };
    if bytes == 0 { Err(wrong()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::workload::Workload;
    use crate::{Config, simulate};
    use twin_trace::replay::Pace;

    const TEXT: &str = r#"
        [client.readers]
        clients = 3
        files = 200
        operations = 3000
        size = "lognormal:median=4K,sigma=1.0"
        popularity = "zipf:count=200,exponent=0.9"
        think = "exponential:mean=20ms"
        session = { operations = "uniform:from=50,to=150", pause = "exponential:mean=2s" }
        mix = { read-whole = 70, stat = 30 }

        [client.writers]
        files = 20
        operations = 3000
        size = "constant:value=8K"
        length = "empirical:512=1,4K=3"
        burst = "uniform:from=1,to=20"
        think = "constant:value=5ms"
        mix = { write = 4, write-sync = 1, append = 1, create = 2, delete = 2, read = 1 }
    "#;

    #[test]
    fn a_workload_by_hand_runs_without_failures_and_repeats_itself() {
        let plan = Arc::new(plan("test", TEXT).unwrap());
        let workload = Workload::ByHand(plan, 1);
        let config = Config::parse("lfs:size=256M,cache=4M").unwrap();
        let first = simulate(&config, &workload, Pace::Think { speed: 1.0 }).unwrap();
        assert_eq!((first.failed, first.diverged), (0, 0));
        assert!(first.ops > 12_000 && first.span_s > 100.0, "{} {}", first.ops, first.span_s);
        assert_eq!(first, simulate(&config, &workload, Pace::Think { speed: 1.0 }).unwrap());
        let random = Config::parse("lfs:size=256M,cache=4M,order=random,seed=5").unwrap();
        let random = simulate(&random, &workload, Pace::Asap).unwrap();
        assert_eq!((random.failed, random.ops), (0, first.ops));
    }

    /// A file that is read in a loop, larger than the cache, beside a set of files that fits.
    #[test]
    fn a_file_in_a_loop_is_served_better_by_a_policy_of_its_own() {
        let text = include_str!("../../../examples/loop.toml");
        let workload = Workload::ByHand(Arc::new(plan("loop", text).unwrap()), 1);
        let run = |config: String| {
            let config = format!("{config},size=256M,cache=16M,disk=disk-7200");
            let config = Config::parse(&config).unwrap();
            simulate(&config, &workload, Pace::Think { speed: 1.0 }).unwrap()
        };
        for layout in ["lfs", "ffs"] {
            let volume = run(format!("{layout}:file-types=no"));
            let own = run(format!("{layout}:file-types=yes"));
            assert_eq!((volume.failed, own.failed), (0, 0));
            let hits = [&volume, &own].map(|run| run.cache_hit_share);
            assert!(hits[1] > hits[0] + 0.15, "{layout}: {hits:?}");
            assert!(own.finish_s < 0.95 * volume.finish_s, "{layout}: {}", own.finish_s);
        }
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (from, to, words) in [
            ("read-whole = 70", "reed-whole = 70", "did you mean \"read-whole\"?"),
            ("read-whole = 70", "read-whole = 0", "more than 0"),
            ("lognormal:median=4K,sigma=1.0", "lognormal:median=4K", "client.readers: size"),
            ("clients = 3", "clients = 5000", "the most are 4096"),
            ("files = 200", "file = 200", "unknown field"),
            ("files = 200", "files = 200\nreplacement = \"mrv\"", "did you mean \"mru\"?"),
            ("files = 200", "files = 200\nreplacement = \"belady\"", "in advance"),
        ] {
            let error = plan("test", &TEXT.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(words), "{to}: {error}");
        }
    }
}
