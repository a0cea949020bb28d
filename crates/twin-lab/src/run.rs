//! A run: a system, and what one run of it is given besides.
//!
//! Contract: a [`Config`] is what a user has set, so two equal configurations are the same system. Whatever
//! differs from one run of that system to the next is here, and nowhere else. A run is a plain value that can be
//! kept, copied and repeated: equal runs of equal workloads have equal figures and digests. Those who watch a run
//! (log, steps, observers) do not change it.

use twin_fs::Identity;
use twin_observe::Observing;
use twin_sim::Platter;

use crate::config::Config;
use crate::event_log::EventLog;
use crate::planted::PlantedFault;
use crate::steps::Steps;

/// The identity of simulated volumes, always the same, because equal runs must be equal.
pub const NOBODY: Identity = Identity { uuid: *b"twinfs simulated", root: (0, 0, 0o755) };

/// One run of a configuration.
#[derive(Clone, Debug)]
pub struct Run {
    /// The system.
    pub config: Config,
    /// The number of the run among several that differ in their random numbers: those of the disk model, of
    /// the volume and of its policies.
    pub seed: u64,
    /// The content of the disk at the beginning, which holds a volume of this configuration; without one a new
    /// volume is made.
    pub start: Option<Platter>,
    /// The disk keeps what a power failure would leave.
    pub crashable: bool,
    /// What is observed in runs with a history.
    pub observe: Option<Observing>,
    /// Who is told of events.
    pub log: Option<EventLog>,
    /// Who is told how far the run is.
    pub steps: Option<Steps>,
    /// The planted fault, in builds that can have one.
    #[cfg(feature = "planted-faults")]
    pub planted: PlantedFault,
}

impl Run {
    /// The first run of a configuration on a new volume, which nobody watches.
    pub fn of(config: Config) -> Run {
        Run {
            config,
            seed: 0,
            start: None,
            crashable: false,
            observe: None,
            log: None,
            steps: None,
            #[cfg(feature = "planted-faults")]
            planted: PlantedFault::None,
        }
    }

    /// The seed of the run's clock, from which the volume and its policies draw.
    pub fn clock_seed(&self) -> u64 {
        self.seed.wrapping_add(self.config.chosen_seed).wrapping_add(1)
    }

    /// The planted fault: none in builds without planted faults.
    pub(crate) const fn planted(&self) -> PlantedFault {
        #[cfg(feature = "planted-faults")]
        return self.planted;
        #[cfg(not(feature = "planted-faults"))]
        PlantedFault::None
    }
}

impl From<Config> for Run {
    fn from(config: Config) -> Run {
        Run::of(config)
    }
}

impl From<&Config> for Run {
    fn from(config: &Config) -> Run {
        Run::of(config.clone())
    }
}

impl From<&Run> for Run {
    fn from(run: &Run) -> Run {
        run.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_draws_by_the_number_of_the_run_and_by_the_seed_that_the_user_chose() {
        let config = Config::parse("lfs:seed=5").unwrap();
        let run = Run { seed: 2, ..Run::from(&config) };
        assert_eq!((Run::of(config).clock_seed(), run.clock_seed()), (6, 8));
    }

    #[test]
    fn a_configuration_by_itself_is_its_first_run_on_a_new_volume() {
        let config = Config::parse("ffs").unwrap();
        let run = Run::from(config);
        assert!(run.seed == 0 && run.start.is_none() && !run.crashable);
        assert!(run.observe.is_none() && run.log.is_none() && run.steps.is_none());
    }
}
