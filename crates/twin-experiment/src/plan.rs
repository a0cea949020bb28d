//! The jobs of an experiment.
//!
//! Contract: the jobs and their numbers follow from the file alone: workload by workload, for each its
//! configurations, for each its seeds. So shards that were cut on different machines fit together.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use twin_lab::{Config, MachineFile, Workload};
use twin_settings::SettingsError;
use twin_trace::replay::Pace;
use twin_verdict::{MEASURES, MeasureEntry, measurable, measure_for};

use crate::experiment::Experiment;
use crate::key::{Content, Key};

/// A workload that is ready to be started.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The workload.
    pub workload: Workload,
    /// What it consists of.
    pub content: Content,
    /// When its operations are issued.
    pub pace: Pace,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its number in the plan, from 0.
    pub number: usize,
    /// Its workload, by its place in the experiment.
    pub workload: usize,
    /// Its configuration, by its place in the experiment.
    pub config: usize,
    /// The seed, from 0.
    pub seed: u64,
    /// The name of its result.
    pub key: Key,
}

/// All runs of an experiment.
#[derive(Debug)]
pub struct Plan {
    /// What the file says.
    pub experiment: Experiment,
    /// What configurations are judged by.
    pub measure: &'static MeasureEntry,
    /// The build of the program that runs it.
    pub build: Content,
    /// The runs.
    pub jobs: Vec<Job>,
    pub(crate) prepared: Vec<Prepared>,
    pub(crate) configs: Vec<Config>,
}

impl Plan {
    /// The plan of an experiment whose workloads are prepared, in their order; on the measured machine if one
    /// is given.
    ///
    /// # Errors
    /// If no configuration has what the measure needs.
    pub fn of(
        mut experiment: Experiment,
        prepared: Vec<Prepared>,
        machine: Option<Arc<MachineFile>>,
        build: Content,
    ) -> Result<Plan, SettingsError> {
        let on_machine = |config: Config| match &machine {
            Some(machine) => config.on_machine(Arc::clone(machine)),
            None => config,
        };
        let configs: Vec<Config> = experiment.systems.drain(..).map(on_machine).collect();
        // With the pauses of one workload, the ends of its runs tell nothing.
        let by_default = || {
            let mut measures = prepared.iter().map(|ready| measure_for(ready.pace));
            measures.find(|measure| measure.name != MEASURES.default_entry().name)
        };
        let measure = experiment.measure.or_else(by_default).unwrap_or(MEASURES.default_entry());
        measurable(measure, &configs).map_err(SettingsError::new)?;
        let mut jobs = Vec::new();
        for (workload, ready) in prepared.iter().enumerate() {
            for (config, system) in configs.iter().enumerate() {
                for seed in 0..experiment.seeds {
                    let Prepared { content, pace, .. } = ready;
                    let key = Key::of(build.as_str(), content, *pace, system, seed);
                    jobs.push(Job { number: jobs.len(), workload, config, seed, key });
                }
            }
        }
        Ok(Plan { experiment, measure, build, jobs, prepared, configs })
    }

    /// The jobs of a part.
    pub fn part(&self, shard: Shard) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(move |job| shard.has(job.number))
    }
}

/// A part of the jobs: every `count`th, so that parts take about equally long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// All jobs.
    pub const ALL: Shard = Shard { index: 1, count: 1 };

    fn has(self, number: usize) -> bool {
        number % self.count == self.index - 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/').and_then(|(index, count)| {
            Some(Shard { index: index.parse().ok()?, count: count.parse().ok()? })
        });
        let sound = numbers.filter(|shard| (1..=shard.count).contains(&shard.index));
        sound.ok_or_else(|| "a part is its number and the number of parts, as 2/8".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        let experiment = Experiment::parse("x", text).unwrap();
        let ready = |text: &str| Prepared {
            workload: Workload::Generated(text.into(), 1),
            content: Content::of_text(text),
            pace: Pace::Asap,
        };
        let prepared = experiment.workloads.iter().map(|point| ready(&point.text)).collect();
        Plan::of(experiment, prepared, None, Content::of_text("test")).unwrap()
    }

    const TWO_BY_TWO: &str = "workloads = ['mail', 'build']\nconfigs = ['lfs', 'ffs']\nseeds = 3";

    #[test]
    fn jobs_are_numbered_by_workload_then_configuration_then_seed() {
        let plan = plan(TWO_BY_TWO);
        assert_eq!(plan.jobs.len(), 12);
        let job = &plan.jobs[7];
        assert_eq!((job.number, job.workload, job.config, job.seed), (7, 1, 0, 1));
        let mut keys: Vec<&Key> = plan.jobs.iter().map(|job| &job.key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 12);
    }

    #[test]
    fn every_job_is_in_one_part() {
        let plan = plan(TWO_BY_TWO);
        let part = |text: &str| plan.part(text.parse().unwrap()).map(|job| job.number);
        let mut all: Vec<usize> = part("1/5").chain(part("2/5")).chain(part("3/5")).collect();
        all.extend(part("4/5").chain(part("5/5")));
        all.sort_unstable();
        assert_eq!(all, (0..12).collect::<Vec<_>>());
        assert_eq!(plan.part(Shard::ALL).count(), 12);
    }

    #[test]
    fn a_part_that_does_not_exist_is_refused() {
        for text in ["0/2", "3/2", "1/0", "1", "a/b", "-1/2"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
