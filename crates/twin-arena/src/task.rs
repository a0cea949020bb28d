//! Tasks: what is to be decided, on which workloads it is tried, and what counts.
//!
//! Contract: a task is a TOML file; those that are built in are files too (crates/twin-arena/tasks), so that one of
//! one's own begins as a copy. What cannot be meant is refused here, before anything runs: an unknown key, a
//! generator that does not exist, weights that are nothing. Nothing is opened here.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use twin_lab::Config;
use twin_rt::{Nanos, Rng};
use twin_settings::value::{bytes, nanos};
use twin_trace::replay::Pace;

/// The tasks that are built in, with their files.
const BUILT_IN: [(&str, &str); 3] = [
    ("replacement", include_str!("../tasks/replacement.toml")),
    ("flush", include_str!("../tasks/flush.toml")),
    ("victim", include_str!("../tasks/victim.toml")),
];

/// The trace that comes with the program, as a task names it.
pub const SHIPPED: &str = "shipped";

/// Seeds of held-out inputs are above this.
const HELD_OUT: u64 = 1 << 63;

/// What a policy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Which clean block leaves the cache.
    Replacement,
    /// Which dirty data is written, and when.
    Flush,
    /// Which segment of a log is cleaned.
    Victim,
}

impl Kind {
    /// The key of a configuration that names such a policy.
    pub fn key(self) -> &'static str {
        match self {
            Kind::Replacement => "replacement",
            Kind::Flush => "flush",
            Kind::Victim => "victim",
        }
    }
}

/// The weights of what counts; they add up to 1.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Weights {
    /// Seconds for which the device was busy.
    pub device_time: f64,
    /// Bytes moved to and from the device for each byte of new data.
    pub write_cost: f64,
    /// Mean of the dirty bytes that a power failure would take.
    pub at_risk: f64,
}

impl Weights {
    /// Each of them, in the order of [`Values::each`](crate::score::Values::each).
    pub(crate) fn each(&self) -> [f64; 3] {
        [self.device_time, self.write_cost, self.at_risk]
    }
}

/// What a policy may take.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Times the processor time of the default policy in the same run.
    pub cpu: f64,
    /// The same for a policy in Python.
    pub cpu_python: f64,
    /// The processor time of the longest call of a hook.
    pub call_ns: Nanos,
    /// Memory beyond what there was.
    pub memory_bytes: u64,
}

/// What is run: a generated workload or a recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A generator's text with its seed.
    Generated(String, u64),
    /// A recording, by its path below the directory of traces; or [`SHIPPED`].
    Recorded(String),
}

impl Input {
    /// Its name in results.
    pub fn name(&self) -> String {
        match self {
            // A large seed means nothing to people.
            Input::Generated(text, seed) if *seed > HELD_OUT => text.clone(),
            Input::Generated(text, seed) => format!("{text} seed {seed}"),
            Input::Recorded(path) => path.clone(),
        }
    }
}

/// What a stage has to say.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The score from which on the next stage is run.
    pub go_on: f64,
    /// The most seconds of this machine.
    pub seconds: f64,
    /// What a search sees.
    pub public: Vec<Input>,
    /// What it does not.
    pub held_out: Vec<Input>,
}

/// The cheap study.
#[derive(Clone, Debug)]
pub enum Study {
    /// A cache before a disk.
    Cache {
        /// The model of the disk.
        disk: String,
        /// Sizes, as shares of what a trace touches.
        sizes: Vec<f64>,
    },
    /// A bare volume.
    Volume {
        /// The placement policy.
        placement: String,
        /// Blocks of generated volumes.
        blocks: u32,
        /// How often they are written.
        volumes: f64,
    },
    /// Short runs of the file system.
    Runs {
        /// The configuration.
        config: String,
        /// When operations are issued.
        pace: Pace,
    },
}

/// The mount.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Mount {
    /// The configuration, of what a mount can have.
    pub config: String,
    /// The generated workload.
    pub workload: String,
    /// How often each policy has its turn.
    #[serde(default = "five")]
    pub runs: u32,
}

fn five() -> u32 {
    5
}

/// A task.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// What is decided.
    pub kind: Kind,
    /// The policies that others are held against; none: all that qualify.
    pub rivals: Vec<String>,
    /// What counts.
    pub weights: Weights,
    /// What a policy may take.
    pub budget: Budget,
    /// The cheap study.
    pub study: Study,
    /// Its inputs and limits.
    pub first: Stage,
    /// The configuration of the full simulation.
    pub config: String,
    /// When its operations are issued.
    pub pace: Pace,
    /// Its inputs and limits.
    pub second: Stage,
    /// The mount, if there is to be one.
    pub mount: Option<Mount>,
    /// A digest of the file.
    pub digest: String,
}

/// The names of the tasks that are built in.
pub fn built_in() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// The file of a task that is built in.
pub fn built_in_text(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(other, _)| *other == name).map(|(_, text)| *text)
}

impl Task {
    /// The task of a file.
    ///
    /// # Errors
    /// If the file is none, with what is wrong in it.
    pub fn parse(name: &str, text: &str) -> Result<Task, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        file.task(name, text)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    kind: Kind,
    #[serde(default)]
    rivals: Vec<String>,
    score: Weights,
    budget: BudgetFile,
    study: StudyFile,
    simulation: SimulationFile,
    mount: Option<Mount>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct BudgetFile {
    cpu: f64,
    cpu_python: f64,
    call: String,
    memory: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct StudyFile {
    disk: Option<String>,
    sizes: Option<Vec<f64>>,
    placement: Option<String>,
    blocks: Option<u32>,
    volumes: Option<f64>,
    config: Option<String>,
    pace: Option<String>,
    go_on: f64,
    seconds: f64,
    public: Vec<InputFile>,
    #[serde(default)]
    held_out: Vec<InputFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct SimulationFile {
    config: String,
    pace: Option<String>,
    go_on: f64,
    seconds: f64,
    public: Vec<InputFile>,
    #[serde(default)]
    held_out: Vec<InputFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct InputFile {
    workload: Option<String>,
    trace: Option<String>,
}

impl File {
    fn task(self, name: &str, text: &str) -> Result<Task, String> {
        let StudyFile { public, held_out, go_on, seconds, .. } = &self.study;
        let first = Stage {
            go_on: *go_on,
            seconds: *seconds,
            public: inputs(public, public_seed)?,
            held_out: inputs(held_out, held_out_seed)?,
        };
        let second = Stage {
            go_on: self.simulation.go_on,
            seconds: self.simulation.seconds,
            public: inputs(&self.simulation.public, public_seed)?,
            held_out: inputs(&self.simulation.held_out, held_out_seed)?,
        };
        if first.public.is_empty() || second.public.is_empty() {
            return Err("each stage needs a public input".into());
        }
        let within = |part: &str, why: &dyn std::fmt::Display| format!("[{part}] {why}");
        let study = self.study.study(self.kind).map_err(|why| within("study", &why))?;
        Config::parse(&self.simulation.config).map_err(|why| within("simulation", &why))?;
        if let Some(mount) = &self.mount {
            Config::parse(&mount.config).map_err(|why| within("mount", &why))?;
            twin_generate::start(&mount.workload, 1).map_err(|why| within("mount", &why))?;
        }
        Ok(Task {
            name: name.into(),
            kind: self.kind,
            rivals: self.rivals,
            weights: weights(self.score)?,
            budget: self.budget.budget().map_err(|why| within("budget", &why))?,
            study,
            first,
            config: self.simulation.config,
            pace: pace(self.simulation.pace.as_deref())
                .map_err(|why| within("simulation", &why))?,
            second,
            mount: self.mount,
            digest: hex(&Sha256::digest(text.as_bytes())),
        })
    }
}

impl StudyFile {
    fn study(&self, kind: Kind) -> Result<Study, String> {
        let missing = |key: &str| format!("{key} is missing");
        match kind {
            Kind::Replacement => {
                let sizes = self.sizes.clone().ok_or_else(|| missing("sizes"))?;
                if sizes.is_empty() || sizes.iter().any(|share| !(*share > 0.0 && *share <= 1.0)) {
                    return Err("sizes are shares, above 0 and up to 1".into());
                }
                let disk = self.disk.clone().ok_or_else(|| missing("disk"))?;
                twin_sim::model::REGISTRY.get(&disk).map_err(|error| error.to_string())?;
                Ok(Study::Cache { disk, sizes })
            }
            Kind::Victim => {
                let placement = self.placement.clone().ok_or_else(|| missing("placement"))?;
                twin_clean::placement::REGISTRY.get(&placement).map_err(|e| e.to_string())?;
                let blocks = self.blocks.ok_or_else(|| missing("blocks"))?;
                let volumes = self.volumes.ok_or_else(|| missing("volumes"))?;
                if blocks < 100 || !(volumes > 0.0 && volumes < 1e6) {
                    return Err("a volume has 100 blocks at least and is written".into());
                }
                Ok(Study::Volume { placement, blocks, volumes })
            }
            Kind::Flush => {
                let config = self.config.clone().ok_or_else(|| missing("config"))?;
                Config::parse(&config).map_err(|error| error.to_string())?;
                Ok(Study::Runs { config, pace: pace(self.pace.as_deref())? })
            }
        }
    }
}

impl BudgetFile {
    fn budget(&self) -> Result<Budget, String> {
        if !(self.cpu >= 1.0 && self.cpu_python >= 1.0) {
            return Err("cpu and cpu-python are 1 at least".into());
        }
        Ok(Budget {
            cpu: self.cpu,
            cpu_python: self.cpu_python,
            call_ns: nanos(&self.call, twin_rt::SECS).map_err(|error| error.to_string())?,
            memory_bytes: bytes(&self.memory).map_err(|error| error.to_string())?,
        })
    }
}

fn weights(given: Weights) -> Result<Weights, String> {
    let all = given.each();
    let sum: f64 = all.iter().sum();
    if all.iter().any(|weight| weight.is_nan() || *weight < 0.0) || !(sum > 0.0 && sum.is_finite())
    {
        return Err("[score] weights are not negative, and one is more than 0".into());
    }
    let [device_time, write_cost, at_risk] = all.map(|weight| weight / sum);
    Ok(Weights { device_time, write_cost, at_risk })
}

fn pace(name: Option<&str>) -> Result<Pace, String> {
    match name {
        None | Some("asap") => Ok(Pace::Asap),
        Some("recorded") => Ok(Pace::Recorded { speed: 1.0 }),
        Some(other) => Err(format!("pace is asap or recorded, not {other}")),
    }
}

/// The seeds of public inputs.
fn public_seed(number: usize) -> u64 {
    number as u64 + 1
}

/// Those of held-out ones: another family, so that no public seed is one of them.
fn held_out_seed(number: usize) -> u64 {
    Rng::stream(number as u64, "arena: held out").next_u64() | HELD_OUT
}

fn inputs(all: &[InputFile], seed: fn(usize) -> u64) -> Result<Vec<Input>, String> {
    let input = |(number, of): (usize, &InputFile)| match (&of.workload, &of.trace) {
        (Some(text), None) => Ok(Input::Generated(text.clone(), seed(number))),
        (None, Some(path)) => Ok(Input::Recorded(path.clone())),
        _ => Err("an input has either a workload or a trace".to_owned()),
    };
    all.iter().enumerate().map(input).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_that_are_built_in_are_tasks() {
        for name in built_in() {
            let task = Task::parse(name, built_in_text(name).unwrap()).unwrap();
            assert_eq!(task.kind.key(), name);
            assert!((task.weights.each().iter().sum::<f64>() - 1.0).abs() < 1e-9);
            assert!(!task.first.held_out.is_empty() && !task.second.held_out.is_empty());
        }
    }

    #[test]
    fn no_public_seed_is_held_out() {
        for number in 0..1000 {
            assert!(held_out_seed(number) > public_seed(number) + (1 << 62));
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_place() {
        let text = built_in_text("flush").unwrap();
        for (from, to, words) in [
            ("at-risk = 0.3", "at-risc = 0.3", "at-risc"),
            ("at-risk = 0.3", "at-risk = -1", "weights"),
            ("cpu = 4.0", "cpu = 0.5", "[budget]"),
            ("lfs:size=512M", "lfs:sise=512M", "[simulation]"),
            ("pace = \"recorded\"\ngo-on = 0.6", "pace = \"slow\"\ngo-on = 0.6", "[study]"),
        ] {
            assert!(text.contains(from), "{from}");
            let error = Task::parse("mine", &text.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(words), "{from}: {error}");
        }
    }
}
