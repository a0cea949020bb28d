//! The claims of Heuristic Cleaning 1995, on requests fitted to the totals of its traces.
//!
//! The traces are not available, so every check says "-like": it measures a server under a stream
//! with the published totals and an assumed structure ([`twin_trace::nfs`]). Where the structure
//! was fitted to the paper, that is for idle times and for the amounts written between cleanings,
//! the check says "fitted": that it holds only shows that such streams exist.

use twin_clean::{trigger, victim};
use twin_trace::nfs::SERVERS;

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
const NO_RUN: &str = "the study failed: its log was too full";

/// The policies of the paper (two idle seconds; victims are not specified, so greedy ones), ours,
/// and none. The registries list our victim policy first, and the paper's trigger policy first.
#[derive(Clone, Copy)]
enum Policies {
    Paper,
    Ours,
    Never,
}

fn run(at: usize, model: WriteModel, policies: Policies) -> Option<Outcome> {
    let (when, victim) = match policies {
        Policies::Paper => (Some(trigger::REGISTRY.first()), &victim::REGISTRY[1]),
        Policies::Ours => (Some(&trigger::REGISTRY[1]), victim::REGISTRY.first()),
        Policies::Never => (None, &victim::REGISTRY[1]),
    };
    let cleaning = when.map_or(Cleaning::Never, Cleaning::When);
    Study { totals: SERVERS[at], model, cleaning, victim, seed: 1 }.run().ok()
}

/// All studies, four for each server: the paper's policies under both write models, ours, and none.
/// `None` for a study that failed.
#[derive(Debug, Default)]
pub(super) struct Studies(Vec<Option<Outcome>>);

/// Number of studies for a server.
const STUDIES: usize = 4;

impl Studies {
    /// Runs all studies, two at a time.
    pub(super) fn run() -> Studies {
        let all: Vec<(usize, usize, Policies)> = (0..SERVERS.len())
            .flat_map(|server| {
                let paper = (0..2).map(move |model| (server, model, Policies::Paper));
                paper.chain([(server, 1, Policies::Ours), (server, 1, Policies::Never)])
            })
            .collect();
        let run = |&(server, model, policies): &(usize, usize, Policies)| {
            run(server, MODELS[model].0, policies)
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
            checks.push(Check::new(name, Expect::AtLeast(1.0), f64::NAN).because(NO_RUN));
            continue;
        };
        for (model, outcome) in [sync, buffered].into_iter().enumerate() {
            checks.extend(of_paper(server, model, outcome));
        }
        let check =
            |what: &str, expect, ours| Check::new(format!("{name}-like, {what}"), expect, ours);
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

/// The paper's checks of a server under a write model.
fn of_paper(server: usize, model: usize, outcome: &Outcome) -> Vec<Check> {
    let name = SERVERS[server].name;
    let check = |what: &str, expect, ours| {
        Check::new(format!("{name}-like, {}: {what}", MODELS[model].1), expect, ours)
    };
    let is_sync = model == 0;
    let predicts = if is_sync { Expect::AtLeast(0.86) } else { Expect::AtLeast(0.95) };
    let background = if name == SERVERS[2].name { 0.967 } else { 1.0 };
    vec![
        check("idle 2 s goes on past 4 s (fitted)", predicts, outcome.predicts()).because(SESSIONS),
        check(
            "share cleaned in the background",
            Expect::AtLeast(background),
            outcome.background_share(),
        ),
        check(
            "written between cleanings below 1 MB (fitted)",
            Expect::AtLeast(0.96),
            below(outcome, 1),
        )
        .because(BURSTS),
        check(
            "written between cleanings below 4 MB (fitted)",
            Expect::AtLeast(0.99),
            below(outcome, 4),
        )
        .because(BURSTS),
        check(
            "most written between cleanings, of the disk",
            Expect::AtMost(if is_sync { 0.053 } else { 0.045 }),
            outcome.accumulated_most(),
        ),
        check("requests that find an empty queue", Expect::AtLeast(0.7), outcome.empty_share()),
        check(
            "cleaner's requests that a user's finds queued",
            Expect::AtMost(INTERFERENCE[server][model]),
            outcome.interference(),
        ),
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
