//! The file servers of Heuristic Cleaning 1995, under the paper's policies of cleaning, under ours, and without a
//! cleaner.

use twin_clean::{trigger, victim};
use twin_lab::History;
use twin_trace::nfs::{SERVERS, Stream, look_ahead};

use crate::nfs_server::{Cleaning, Outcome, Study, WriteModel};
use crate::variation::Variation;
use crate::work::Share;

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

fn study((at, model, policies): Part, variation: &Variation, share: &Share) -> Option<Outcome> {
    let (model, _) = MODELS[model];
    let (when, victim) = match policies {
        Policies::Paper | Policies::Lossy => {
            (Some(trigger::REGISTRY.default_entry()), &victim::REGISTRY[1])
        }
        Policies::Ours => (Some(&trigger::REGISTRY[1]), victim::REGISTRY.default_entry()),
        Policies::Never => (None, &victim::REGISTRY[1]),
    };
    let when = match variation.cleans_on_demand {
        true => when.and(trigger::REGISTRY.get("on-demand").ok()),
        false => when,
    };
    let cleaning = when.map_or(Cleaning::Never, Cleaning::When);
    let pauses = variation.pauses;
    let lost = if matches!(policies, Policies::Lossy) { LOST } else { 0.0 };
    // Our policies decide themselves when there is enough.
    let stops = !variation.cleans_on && matches!(policies, Policies::Paper | Policies::Lossy);
    let study =
        Study { totals: SERVERS[at], model, cleaning, victim, seed: 1, pauses, lost, stops };
    let mut outcome = study.run_sharing(&**share).ok()?;
    if matches!(policies, Policies::Never) {
        outcome.found_ahead = Some(look_ahead(Stream::new(&SERVERS[at], 1)).share());
    }
    Some(outcome)
}

/// All studies, four for each server: the paper's policies under both write models, ours, and none; and one with
/// lost requests.
/// `None` for a study that failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Studies {
    pub(crate) all: Vec<Option<Outcome>>,
}

/// Number of studies for a server.
pub(crate) const STUDIES: usize = 4;

/// A server, a write model and the policies of its cleaner.
type Part = (usize, usize, Policies);

/// All parts of the studies, in the order of [`Studies::of`].
fn parts() -> Vec<Part> {
    let of = |server| {
        let paper = (0..2).map(move |model| (server, model, Policies::Paper));
        paper.chain([(server, 1, Policies::Ours), (server, 1, Policies::Never)])
    };
    (0..SERVERS.len()).flat_map(of).chain([(0, 1, Policies::Lossy)]).collect()
}

/// The number of parts.
pub(crate) fn count() -> usize {
    parts().len()
}

/// Whether counted checks depend on a part: what our own policies do, and what they are held against, is not in
/// the paper.
pub(crate) fn counts(at: usize) -> bool {
    parts()
        .get(at)
        .is_some_and(|(.., policies)| matches!(policies, Policies::Paper | Policies::Lossy))
}

/// Runs a part; `None` if it fails.
pub(crate) fn run(at: usize, variation: &Variation, share: &Share) -> Option<Outcome> {
    parts().get(at).and_then(|&part| study(part, variation, share))
}

impl Studies {
    /// Those of each server.
    pub(crate) fn of_servers(&self) -> impl Iterator<Item = &[Option<Outcome>]> {
        self.all.chunks_exact(STUDIES)
    }

    /// Attic's, NFS-async, with lost requests: the probe ran for as long as Attic's trace.
    pub(crate) fn lossy(&self) -> Option<&Outcome> {
        self.all.get(SERVERS.len() * STUDIES)?.as_ref()
    }

    /// The studies of the paper's policies under a write model, by server.
    pub(crate) fn of_model(&self, model: usize) -> Vec<(&'static str, &Outcome)> {
        let servers = self.of_servers().enumerate();
        let found = servers.filter_map(|(server, outcomes)| {
            Some((SERVERS[server].name, outcomes.get(model)?.as_ref()?))
        });
        found.collect()
    }

    /// The logs that were cleaned and their histories, by name.
    pub(crate) fn histories(&self) -> Vec<(String, &History)> {
        let policies = ["NFS-sync", "NFS-async", "NFS-async, our policies"];
        let mut all = Vec::new();
        for (server, outcomes) in self.of_servers().enumerate() {
            for (policy, outcome) in policies.iter().zip(outcomes) {
                let name = format!("{}-like, {policy}", SERVERS[server].name);
                all.extend(outcome.as_ref().map(|outcome| (name, &outcome.history)));
            }
        }
        all
    }
}
