//! The file servers of Heuristic Cleaning 1995, under the paper's policies of cleaning, under ours, and without a
//! cleaner.

use twin_clean::{trigger, victim};
use twin_lab::History;
use twin_trace::nfs::SERVERS;

use super::parallel::in_parallel;
use crate::nfs_server::{Cleaning, Outcome, Study, WriteModel};
use crate::variation::Variation;

/// The write models of the paper, with their names.
pub(crate) const MODELS: [(WriteModel, &str); 2] =
    [(WriteModel::Sync, "NFS-sync"), (WriteModel::Async, "NFS-async")];

/// The policies of the paper (two idle seconds; victims are not specified, so greedy ones), ours,
/// and none. The registries list our victim policy first, and the paper's trigger policy first.
#[derive(Clone, Copy)]
enum Policies {
    Paper,
    Ours,
    Never,
    /// The paper's, under a stream of which requests were lost.
    Lossy,
}

/// The share of the loss probe's requests that the paper's tracer lost.
const LOST: f64 = 2.0 / 2200.0;

fn run(at: usize, model: WriteModel, policies: Policies, variation: &Variation) -> Option<Outcome> {
    let (when, victim) = match policies {
        Policies::Paper | Policies::Lossy => {
            (Some(trigger::REGISTRY.default_entry()), &victim::REGISTRY[1])
        }
        Policies::Ours => (Some(&trigger::REGISTRY[1]), victim::REGISTRY.default_entry()),
        Policies::Never => (None, &victim::REGISTRY[1]),
    };
    let when = when.filter(|_| !variation.never_cleans);
    let cleaning = when.map_or(Cleaning::Never, Cleaning::When);
    let pauses = variation.pauses;
    let lost = if matches!(policies, Policies::Lossy) { LOST } else { 0.0 };
    // Our policies decide themselves when there is enough.
    let stops = !variation.cleans_on && matches!(policies, Policies::Paper | Policies::Lossy);
    Study { totals: SERVERS[at], model, cleaning, victim, seed: 1, pauses, lost, stops }.run().ok()
}

/// All studies, four for each server: the paper's policies under both write models, ours, and none.
/// `None` for a study that failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Studies {
    pub(crate) of_servers: Vec<Option<Outcome>>,
    /// Attic's, NFS-async, with lost requests: the probe ran for as long as Attic's trace.
    pub(crate) lossy: Option<Outcome>,
}

/// Number of studies for a server.
pub(crate) const STUDIES: usize = 4;

impl Studies {
    /// Runs all studies, two at a time.
    pub(crate) fn run(variation: &Variation) -> Studies {
        let mut all: Vec<(usize, usize, Policies)> = (0..SERVERS.len())
            .flat_map(|server| {
                let paper = (0..2).map(move |model| (server, model, Policies::Paper));
                paper.chain([(server, 1, Policies::Ours), (server, 1, Policies::Never)])
            })
            .collect();
        all.push((0, 1, Policies::Lossy));
        let run = |&(server, model, policies): &(usize, usize, Policies)| {
            run(server, MODELS[model].0, policies, variation)
        };
        let mut of_servers = in_parallel(&all, run);
        let lossy = of_servers.pop().flatten();
        Studies { of_servers, lossy }
    }

    /// The studies of the paper's policies under a write model, by server.
    pub(crate) fn of_model(&self, model: usize) -> Vec<(&'static str, &Outcome)> {
        let servers = self.of_servers.chunks(STUDIES).enumerate();
        let found = servers.filter_map(|(server, outcomes)| {
            Some((SERVERS[server].name, outcomes.get(model)?.as_ref()?))
        });
        found.collect()
    }

    /// The logs that were cleaned and their histories, by name.
    pub(crate) fn histories(&self) -> Vec<(String, &History)> {
        let policies = ["NFS-sync", "NFS-async", "NFS-async, our policies"];
        let mut all = Vec::new();
        for (server, outcomes) in self.of_servers.chunks(STUDIES).enumerate() {
            for (policy, outcome) in policies.iter().zip(outcomes) {
                let name = format!("{}-like, {policy}", SERVERS[server].name);
                all.extend(outcome.as_ref().map(|outcome| (name, &outcome.history)));
            }
        }
        all
    }
}
