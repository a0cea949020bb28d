//! The results of runs.

use std::collections::BTreeMap;

use twin_bench::Phase;
use twin_lab::History;

use crate::need::Need;
use crate::nfs_server::Outcome;
use crate::studies::aged_log::OldLogs;
use crate::studies::days::Days;
use crate::studies::file_layout::Study;
use crate::studies::real_log::Pairs;
use crate::studies::servers::{self, Studies};

/// The results of runs.
#[derive(Clone, Debug, Default)]
pub struct Results {
    pub(crate) phases: BTreeMap<Need, Vec<Phase>>,
    pub(crate) histories: BTreeMap<Need, History>,
    /// The studies of file servers, if a claim needs them.
    pub(crate) servers: Studies,
    /// The days of the server of 1996, if a claim needs them.
    pub(crate) days: Days,
    /// The aged file systems, if a claim needs them.
    pub(crate) layouts: Study,
    /// The same loads on logs that grow old, if a claim needs them.
    pub(crate) aged_logs: OldLogs,
    /// The same requests on the real log, if a claim needs them.
    pub(crate) real_logs: Pairs,
}

/// Hears of a run that has ended, from any thread.
pub type OnEnd<'a> = &'a (dyn Fn(&Need, &[Phase]) + Sync);

impl Results {
    /// Results of these runs alone.
    pub fn of(phases: BTreeMap<Need, Vec<Phase>>) -> Results {
        Results { phases, ..Results::default() }
    }

    /// Results in which nothing was measured, for the names and the reasons of checks.
    pub(crate) fn empty() -> Results {
        let mut results = Results::default();
        results.servers.all = vec![Some(Outcome::default()); servers::count()];
        results
    }

    /// A phase of a run.
    pub fn phase(&self, need: &Need, phase: &str) -> Option<&Phase> {
        self.phases.get(need)?.iter().find(|p| p.phase == phase)
    }

    /// The history of a run's phase, if it was [watched](Watched).
    pub fn history(&self, need: &Need) -> Option<&History> {
        self.histories.get(need)
    }

    /// The rate of a phase; not a number if it was not run.
    pub fn rate(&self, need: &Need, phase: &str) -> f64 {
        self.phase(need, phase).map_or(f64::NAN, Phase::rate)
    }
}

/// The runs whose history is recorded, each with the phase.
pub type Watched = [(Need, &'static str)];
