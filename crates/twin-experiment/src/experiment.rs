//! The file of an experiment.
//!
//! Contract: what the file does not say has the default of `compare`. A name that does not exist, a setting that
//! means nothing and a list without a value are errors before anything runs. Variations are in the order of the
//! file for lists, and in alphabetical order of their settings for grids, the last setting varying fastest.

use serde::Deserialize;
use twin_lab::Config;
use twin_settings::SettingsError;
use twin_verdict::{MEASURES, MeasureEntry};

/// The most jobs of one experiment: a slip in a grid must not fill the memory.
const MOST_JOBS: usize = 10_000_000;

/// What the file says.
#[derive(Debug)]
pub struct Experiment {
    /// The title of its page.
    pub title: String,
    /// What configurations are judged by; by default what suits the pace of the workloads.
    pub measure: Option<&'static MeasureEntry>,
    /// When operations are issued: `asap`, `recorded` or `think`; by default as the workload needs.
    pub pace: Option<String>,
    /// Runs of each configuration, which differ in their random numbers.
    pub seeds: u64,
    /// The workloads: generators' texts, or files named from the directory of the experiment.
    pub workloads: Vec<Point>,
    /// The configurations.
    pub configs: Vec<Point>,
    /// What these mean, with the settings that all share.
    pub(crate) systems: Vec<Config>,
}

/// A workload or a configuration, with what varies in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The text that the simulator is given.
    pub text: String,
    /// The settings that the variation chose.
    pub varied: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: Option<String>,
    by: Option<String>,
    pace: Option<String>,
    seeds: Option<u64>,
    with: Option<String>,
    #[serde(default)]
    workloads: Vec<String>,
    #[serde(default)]
    workload: Vec<Variations>,
    #[serde(default)]
    configs: Vec<String>,
    #[serde(default)]
    config: Vec<Variations>,
}

/// Variations of one text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variations {
    base: String,
    #[serde(default)]
    grid: toml::Table,
    #[serde(default)]
    list: Vec<toml::Table>,
}

/// Settings with their values.
type Settings = Vec<(String, String)>;

impl Experiment {
    /// Reads the text of a file. `name` is its title if it has none of its own.
    ///
    /// # Errors
    /// Says what is wrong, and where.
    pub fn parse(name: &str, text: &str) -> Result<Experiment, SettingsError> {
        let file: File =
            toml::from_str(text).map_err(|e| SettingsError::new(e.to_string().trim_end()))?;
        let workloads = points(&file.workloads, &file.workload, "workload")?;
        let configs = points(&file.configs, &file.config, "config")?;
        let shared = file.with.unwrap_or_default();
        let systems = configs.iter().map(|config| Config::parse_with(&shared, &config.text));
        let systems = systems.collect::<Result<Vec<_>, _>>()?;
        let seeds = file.seeds.unwrap_or(1);
        let jobs = (workloads.len() as u128) * (configs.len() as u128) * u128::from(seeds);
        if seeds == 0 || jobs > MOST_JOBS as u128 {
            let what = format!("{jobs} runs: there must be between 1 and {MOST_JOBS}");
            return Err(SettingsError::new(what));
        }
        let measure = match &file.by {
            Some(name) => Some(MEASURES.get(name)?),
            None => None,
        };
        if let Some(pace) = &file.pace
            && !["asap", "recorded", "think"].contains(&pace.as_str())
        {
            return Err(SettingsError::unknown("pace", pace, ["asap", "recorded", "think"]));
        }
        let title = file.title.unwrap_or_else(|| name.into());
        Ok(Experiment { title, measure, pace: file.pace, seeds, workloads, configs, systems })
    }
}

/// All points of a kind: those that are texts, then the variations.
fn points(
    texts: &[String],
    variations: &[Variations],
    what: &str,
) -> Result<Vec<Point>, SettingsError> {
    let plain = texts.iter().map(|text| Point { text: text.clone(), varied: Vec::new() });
    let mut points: Vec<Point> = plain.collect();
    for one in variations {
        for varied in one.all().map_err(|error| error.within(&one.base))? {
            points.push(Point { text: joined(&one.base, &varied), varied });
        }
    }
    if points.is_empty() {
        let missing = format!(
            "there is no {what}: name some in `{what}s = [\"...\"]`, or vary one in [[{what}]]"
        );
        return Err(SettingsError::new(missing));
    }
    let twice = |at: usize| points[..at].iter().any(|point| point.text == points[at].text);
    match (0..points.len()).find(|&at| twice(at)) {
        Some(at) => {
            let text = &points[at].text;
            Err(SettingsError::new(format!("the {what} {text} is there twice: leave one out")))
        }
        None => Ok(points),
    }
}

impl Variations {
    fn all(&self) -> Result<Vec<Settings>, SettingsError> {
        let mut all: Vec<Settings> = match self.list.is_empty() {
            true => vec![Vec::new()],
            false => self.list.iter().map(settings).collect::<Result<_, _>>()?,
        };
        for (key, values) in &self.grid {
            let values = match values {
                toml::Value::Array(values) => values.as_slice(),
                one => std::slice::from_ref(one),
            };
            if values.is_empty() {
                return Err(SettingsError::new(format!(
                    "{key} has no value: name some, or leave it out"
                )));
            }
            if all.len().saturating_mul(values.len()) > MOST_JOBS {
                return Err(SettingsError::new(format!("more than {MOST_JOBS} variations")));
            }
            let values: Vec<String> =
                values.iter().map(|value| text_of(key, value)).collect::<Result<_, _>>()?;
            let with = |settings: &Settings, value: &String| {
                settings.iter().cloned().chain([(key.clone(), value.clone())]).collect()
            };
            all = all
                .iter()
                .flat_map(|settings| values.iter().map(|value| with(settings, value)))
                .collect();
        }
        Ok(all)
    }
}

/// One combination of a list.
fn settings(table: &toml::Table) -> Result<Settings, SettingsError> {
    table.iter().map(|(key, value)| Ok((key.clone(), text_of(key, value)?))).collect()
}

/// A value as it stands in the text of a configuration.
fn text_of(key: &str, value: &toml::Value) -> Result<String, SettingsError> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        toml::Value::Boolean(true) => Ok("yes".into()),
        toml::Value::Boolean(false) => Ok("no".into()),
        other => {
            let what =
                format!("{key} is of type {}: values are texts or numbers", other.type_str());
            Err(SettingsError::new(what))
        }
    }
}

/// A text with more settings. Those of `nfs(lfs:...):...` are settings of the volume.
fn joined(base: &str, varied: &Settings) -> String {
    if varied.is_empty() {
        return base.into();
    }
    let varied: Vec<String> = varied.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let (volume, rest) = match base.rfind(')') {
        Some(end) => base.split_at(end),
        None => (base, ""),
    };
    let has_settings = volume.rsplit('(').next().is_some_and(|volume| volume.contains(':'));
    let joint = if has_settings { ',' } else { ':' };
    format!("{volume}{joint}{}{rest}", varied.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Experiment, String> {
        Experiment::parse("x", text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_grid_has_every_combination_and_a_list_its_own() {
        let all = parse(
            "workloads = ['mail:messages=10']\n[[config]]\nbase = 'lfs:size=64M'\n\
             list = [{ victim = 'greedy' }, { victim = 'cost-benefit', cpus = 2 }]\n\
             grid = { cache = ['4M', '8M'] }\n",
        )
        .unwrap();
        let texts: Vec<&str> = all.configs.iter().map(|config| config.text.as_str()).collect();
        let expected = [
            "lfs:size=64M,victim=greedy,cache=4M",
            "lfs:size=64M,victim=greedy,cache=8M",
            "lfs:size=64M,cpus=2,victim=cost-benefit,cache=4M",
            "lfs:size=64M,cpus=2,victim=cost-benefit,cache=8M",
        ];
        assert_eq!(texts, expected);
        assert_eq!(all.configs[0].varied[1], ("cache".into(), "4M".into()));
    }

    #[test]
    fn settings_of_a_volume_behind_a_network_are_put_into_its_parentheses() {
        let varied = vec![("cache".to_string(), "4M".to_string())];
        assert_eq!(joined("lfs", &varied), "lfs:cache=4M");
        assert_eq!(joined("nfs(lfs):rtt=1ms", &varied), "nfs(lfs:cache=4M):rtt=1ms");
        assert_eq!(joined("nfs(lfs:size=1G)", &varied), "nfs(lfs:size=1G,cache=4M)");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let wrong = |text: &str, words: &str| {
            let said = parse(text).unwrap_err();
            assert!(said.contains(words), "{text}: {said}");
        };
        wrong("configs = ['lfs']", "there is no workload");
        wrong("workloads = ['mail']", "there is no config");
        wrong("workloads = ['mail']\nconfigs = ['lsf']", "lfs");
        wrong("workloads = ['mail']\nconfigs = ['lfs', 'lfs']", "twice");
        wrong("workloads = ['mail']\nconfigs = ['lfs']\nseeds = 0", "0 runs");
        wrong("workloads = ['mail']\nconfigs = ['lfs']\nby = 'speed'", "measure");
        wrong("workloads = ['mail']\nconfigs = ['lfs']\npace = 'fast'", "pace");
        wrong("workloads = ['mail']\nconfigs = ['lfs']\nseed = 1", "seed");
        let empty = "workloads = ['mail']\n[[config]]\nbase = 'lfs'\ngrid = { cache = [] }";
        wrong(empty, "cache has no value");
        let nested = "workloads = ['mail']\n[[config]]\nbase = 'lfs'\ngrid = { cache = [[1]] }";
        wrong(nested, "cache is of type array");
    }

    #[test]
    fn a_grid_too_large_for_memory_is_refused() {
        let many: Vec<String> = (0..4000).map(|n| format!("'{n}'")).collect();
        let text = format!(
            "workloads = ['mail']\n[[config]]\nbase = 'lfs'\ngrid = {{ a = [{0}], b = [{0}] }}",
            many.join(",")
        );
        assert!(parse(&text).unwrap_err().contains("more than 10000000 variations"));
    }
}
