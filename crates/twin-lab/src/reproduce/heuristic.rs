//! The claims of Heuristic Cleaning 1995, on requests fitted to the totals of its traces.
//!
//! The traces are not available, so every check says "-like": it measures a server under a stream
//! with the published totals and an assumed structure ([`twin_trace::nfs`]). The amounts written
//! between cleanings were in view when the structure was set, so these checks are of the kind
//! fitted; idle times go on past four seconds because the stream has no shorter pauses between
//! sessions, so these are forced.

use twin_clean::{trigger, victim};
use twin_trace::nfs::SERVERS;

use super::variation::Variation;
use super::{Check, Claim, Expect, Results};
use crate::history::History;
use crate::nfs_server::{Cleaning, Outcome, Study, WriteModel};

/// The claim. Its checks are those of sections 5.1 to 5.3, and the results of our own policies.
pub(super) const CLAIM: Claim = Claim {
    id: "heuristic-cleaning",
    source: "HC 5",
    says: "cleaning after two idle seconds is done in the background (requests fitted to the \
           published totals of Attic, Cellar and Maytag)",
    needs: Vec::new,
    judge,
};

/// Table 3: the cleaner's requests in the queue when a user's request came, by server, sync and
/// async.
const INTERFERENCE: [[f64; 2]; 3] = [[0.069, 0.067], [0.057, 0.072], [0.039, 0.022]];
const MODELS: [(WriteModel, &str); 2] =
    [(WriteModel::Sync, "NFS-sync"), (WriteModel::Async, "NFS-async")];
const SESSIONS: &str =
    "the pauses of the traces are not published: the stream's sessions are fitted";
const BURSTS: &str =
    "which writes came together is not published: the stream's sessions are fitted";
const QUEUES: &str = "one queue stands for the server's four to eight drives, and the cleaner of the \
    study has at most one request in it";
const NO_RUN: &str = "the study failed: its log was too full";

/// The policies of the paper (two idle seconds; victims are not specified, so greedy ones), ours,
/// and none. The registries list our victim policy first, and the paper's trigger policy first.
#[derive(Clone, Copy)]
enum Policies {
    Paper,
    Ours,
    Never,
}

fn run(at: usize, model: WriteModel, policies: Policies, variation: &Variation) -> Option<Outcome> {
    let (when, victim) = match policies {
        Policies::Paper => (Some(trigger::REGISTRY.first()), &victim::REGISTRY[1]),
        Policies::Ours => (Some(&trigger::REGISTRY[1]), victim::REGISTRY.first()),
        Policies::Never => (None, &victim::REGISTRY[1]),
    };
    let when = when.filter(|_| !variation.never_cleans);
    let cleaning = when.map_or(Cleaning::Never, Cleaning::When);
    let pauses = variation.pauses;
    Study { totals: SERVERS[at], model, cleaning, victim, seed: 1, pauses }.run().ok()
}

/// All studies, four for each server: the paper's policies under both write models, ours, and none.
/// `None` for a study that failed.
#[derive(Clone, Debug, Default)]
pub(super) struct Studies(Vec<Option<Outcome>>);

/// Number of studies for a server.
const STUDIES: usize = 4;

impl Studies {
    /// Runs all studies, two at a time.
    pub(super) fn run(variation: &Variation) -> Studies {
        let all: Vec<(usize, usize, Policies)> = (0..SERVERS.len())
            .flat_map(|server| {
                let paper = (0..2).map(move |model| (server, model, Policies::Paper));
                paper.chain([(server, 1, Policies::Ours), (server, 1, Policies::Never)])
            })
            .collect();
        let run = |&(server, model, policies): &(usize, usize, Policies)| {
            run(server, MODELS[model].0, policies, variation)
        };
        Studies(in_parallel(&all, run))
    }

    /// The logs that were cleaned and their histories, by name.
    pub(super) fn histories(&self) -> Vec<(String, &History)> {
        let policies = ["NFS-sync", "NFS-async", "NFS-async, our policies"];
        let mut all = Vec::new();
        for (server, outcomes) in self.0.chunks(STUDIES).enumerate() {
            for (policy, outcome) in policies.iter().zip(outcomes) {
                let name = format!("{}-like, {policy}", SERVERS[server].name);
                all.extend(outcome.as_ref().map(|outcome| (name, &outcome.history)));
            }
        }
        all
    }
}

fn judge(results: &Results) -> Vec<Check> {
    let found = &results.servers.0;
    let mut checks = Vec::new();
    for (server, outcomes) in found.chunks(STUDIES).enumerate() {
        let name = SERVERS[server].name;
        let [Some(sync), Some(buffered), Some(ours), Some(never)] = outcomes else {
            checks.push(Check::paper(name, Expect::AtLeast(1.0), f64::NAN).because(NO_RUN));
            continue;
        };
        for (model, outcome) in [sync, buffered].into_iter().enumerate() {
            checks.extend(of_paper(server, model, outcome));
        }
        let check =
            |what: &str, expect, ours| Check::own(format!("{name}-like, {what}"), expect, ours);
        checks.push(check(
            "ours (adaptive, twin): share cleaned in the background",
            Expect::AtLeast(0.99),
            ours.background_share(),
        ));
        checks.push(check(
            "ours: 99th percentile of waits over that without a cleaner",
            Expect::AtMost(1.10),
            ours.wait(0.99) / never.wait(0.99),
        ));
    }
    checks
}

/// Section 5.1: the share of two-second idle times that reached four, by server, sync and async.
const PREDICTS: [[f64; 2]; 3] = [[0.96, 0.96], [0.98, 0.97], [0.86, 0.98]];
/// Section 5.1: the share of segments cleaned on demand, by server.
const ON_DEMAND: [f64; 3] = [0.0, 0.0, 0.033];

/// The paper's checks of a server under a write model.
fn of_paper(server: usize, model: usize, outcome: &Outcome) -> Vec<Check> {
    let name = |what: &str| format!("{}-like, {}: {what}", SERVERS[server].name, MODELS[model].1);
    let on_demand = match ON_DEMAND[server] {
        0.0 => Expect::AtMost(0.0),
        share => Expect::Figure(share),
    };
    vec![
        Check::forced(
            name("idle 2 s goes on past 4 s"),
            Expect::Figure(PREDICTS[server][model]),
            outcome.predicts(),
        )
        .because(SESSIONS),
        Check::paper(name("share cleaned on demand"), on_demand, 1.0 - outcome.background_share())
            .because(SESSIONS),
        Check::fitted(
            name("written between cleanings below 1 MB"),
            Expect::AtLeast(0.96),
            below(outcome, 1),
        )
        .because(BURSTS),
        Check::fitted(
            name("written between cleanings below 4 MB"),
            Expect::AtLeast(0.99),
            below(outcome, 4),
        )
        .because(BURSTS),
        Check::order(
            name("most written between cleanings, of the disk"),
            Expect::AtMost(if model == 0 { 0.053 } else { 0.045 }),
            outcome.accumulated_most(),
        ),
        Check::order(
            name("requests that find an empty queue"),
            Expect::AtLeast(0.7),
            outcome.empty_share(),
        ),
        Check::paper(
            name("cleaner's requests that a user's finds queued"),
            Expect::Figure(INTERFERENCE[server][model]),
            outcome.interference(),
        )
        .because(QUEUES),
    ]
}

fn below(outcome: &Outcome, megabytes: u64) -> f64 {
    outcome.accumulated_below(megabytes << 20)
}

/// The results of `run`, in order, computed two at a time.
fn in_parallel<T: Sync, R: Send>(all: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| all.iter().skip(1).step_by(2).map(&run).collect::<Vec<R>>());
        let even: Vec<R> = all.iter().step_by(2).map(&run).collect();
        (even, odd.join().unwrap_or_default())
    });
    let mut odd = odd.into_iter();
    even.into_iter().flat_map(|result| std::iter::once(result).chain(odd.next())).collect()
}
