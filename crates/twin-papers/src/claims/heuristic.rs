//! The claims of Heuristic Cleaning 1995, on requests fitted to the totals of its traces.
//!
//! The traces are not available, so every check says "-like": it measures a server under a stream
//! with the published totals and a structure ([`twin_trace::nfs`]) that is fitted to some of the
//! results: to the idle times of NFS-async and of Maytag's NFS-sync, to the amounts written between
//! cleanings, to the largest of them, to the volumes read from disk, and to the fact that nothing is
//! cleaned on demand on Attic and Cellar. The checks of these are of the kind fitted; idle times of
//! the other servers under NFS-sync, what was read from memory and written, the queues, and what
//! Maytag cleans on demand are held out.

use twin_trace::nfs::SERVERS;

use crate::check::{Check, Expect};
use crate::claim::Claim;
use crate::nfs_server::Outcome;
use crate::results::Results;
use crate::studies::servers::{MODELS, Studies};

/// The claim. Its checks are those of sections 5.1 to 5.3, and the results of our own policies.
pub(crate) const CLAIM: Claim = Claim {
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
const SESSIONS: &str = "the pauses of the traces are not published: the stream's are fitted to other results, and other pauses \
    change it (--without sessions)";
const BURSTS: &str =
    "open: which writes came together is not published, and the lengths of sessions are fitted";
const QUEUES: &str = "open: counted as the text says, in blocks that the cleaner has still to write when a user's write comes. \
    That depends on which pauses come before writes, which is not published (--without sessions), and on when the \
    cleaner stops (--without stop)";
const VOLUMES: &str = "open: the paper does not say how much a lookup or the reading of attributes counts; here a \
    directory is a block of 8 KB and an inode 512 bytes";
const MOVED: &str = "open: the stream's garbage is spread over more segments than the traces' was, so each clean \
    segment costs several victims; the paper's estimate is one victim for each segment written; with a \
    cleaner that goes on while a segment has 5% of garbage it is twice as much (--without stop)";
const FLUSHES: &str = "open: NFS-async writes whole segments, and a request that meets one waits up to 0.75 s: few \
    wait, but long";
const DISK_IDLE: &str = "open: under NFS-async our disk is idle now and then within a long session, which ends what \
    accumulated; what the paper counts as an idle time then is not said";
const NO_RUN: &str = "the study failed: its log was too full";

fn judge(results: &Results) -> Vec<Check> {
    let mut checks = Vec::new();
    for (server, outcomes) in results.servers.of_servers().enumerate() {
        let name = SERVERS[server].name;
        let [Some(sync), Some(buffered), Some(ours), Some(never)] = outcomes else {
            checks.push(Check::paper(name, Expect::AtLeast(1.0), f64::NAN).because(NO_RUN));
            continue;
        };
        for (model, outcome) in [sync, buffered].into_iter().enumerate() {
            checks.extend(of_model(server, model, outcome));
        }
        checks.extend(volumes(server, sync));
        checks.extend(both_models(name, sync, buffered));
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
        checks.push(check(
            "creates whose file the look-ahead finds",
            Expect::Within(0.99, 0.01),
            never.found_ahead.unwrap_or(f64::NAN),
        ));
    }
    checks.extend(across(&results.servers));
    checks
}

/// Section 5.1: the share of two-second idle times that reached four, by server, sync and async.
const PREDICTS: [[f64; 2]; 3] = [[0.96, 0.96], [0.98, 0.97], [0.86, 0.98]];
/// Section 5.1: the share of segments cleaned on demand on Maytag.
const ON_DEMAND: f64 = 0.033;
/// Section 5.2: the most that was written between cleanings, of Maytag's disk, sync and async.
const MOST: [f64; 2] = [0.053, 0.045];

/// A server to which a result was fitted.
const MAYTAG: usize = 2;

/// The paper's checks of a server under a write model.
fn of_model(server: usize, model: usize, outcome: &Outcome) -> Vec<Check> {
    let name = |what: &str| format!("{}-like, {}: {what}", SERVERS[server].name, MODELS[model].1);
    let kind = |fitted| if fitted { Check::fitted } else { Check::paper };
    let on_demand = match server {
        MAYTAG => Expect::Figure(ON_DEMAND),
        _ => Expect::AtMost(0.0),
    };
    let check = kind(server == MAYTAG || model == 1);
    let mut checks = vec![
        check(
            name("idle 2 s goes on past 4 s"),
            Expect::Within(PREDICTS[server][model], 0.03),
            outcome.predicts(),
        )
        .because(SESSIONS),
        kind(server != MAYTAG)(
            name("share cleaned on demand"),
            on_demand,
            1.0 - outcome.background_share(),
        )
        .because(SESSIONS),
    ];
    for (megabytes, share) in [(1, 0.96), (4, 0.99)] {
        let what = name(&format!("written between cleanings below {megabytes} MB"));
        let below = Expect::AtLeast(share);
        checks.push(Check::fitted(what, below, below_mb(outcome, megabytes)).because(BURSTS));
    }
    let most = outcome.accumulated_most();
    let what = name("most written between cleanings, of the disk");
    checks.push(match (server, model) {
        (MAYTAG, 0) => Check::fitted(what, Expect::Figure(MOST[0]), most).because(BURSTS),
        (MAYTAG, _) => Check::paper(what, Expect::Figure(MOST[1]), most).because(DISK_IDLE),
        // The generator ends a session that has written as much as Maytag's largest, so this follows.
        _ => Check::forced(what, Expect::AtMost(MOST[model]), most).because(BURSTS),
    });
    checks.push(Check::order(
        name("requests that find an empty queue"),
        Expect::AtLeast(0.7),
        outcome.empty_share(),
    ));
    checks.push(Check::order(
        name("idle times with cleaning in which a segment is done before a request comes"),
        Expect::AtLeast(0.9),
        outcome.useful(),
    ));
    let meets = Expect::Figure(INTERFERENCE[server][model]);
    let what = name("blocks of the cleaner that a user's write finds queued");
    checks.push(Check::paper(what, meets, outcome.interference()).because(QUEUES));
    checks
}

/// Table 2: what was read and written.
fn volumes(server: usize, outcome: &Outcome) -> [Check; 3] {
    let [memory, disk, written] = SERVERS[server].volumes_gb.map(Expect::Figure);
    let name = |what: &str| format!("{}-like: {what}, GB", SERVERS[server].name);
    let gb = |bytes: u64| bytes as f64 / 1e9;
    [
        Check::paper(name("reads from the cache"), memory, gb(outcome.cached_bytes))
            .because(VOLUMES),
        Check::fitted(name("reads from disk"), disk, gb(outcome.read_bytes)).because(VOLUMES),
        Check::paper(name("user writes"), written, gb(outcome.user_bytes)).because(VOLUMES),
    ]
}

/// What sections 5.1 and 5.3 say of the two models of a server.
fn both_models(name: &str, sync: &Outcome, buffered: &Outcome) -> [Check; 4] {
    let name = |what: &str| format!("{name}-like: {what}");
    let long = |outcome: &Outcome| outcome.idle_longer(60.0) as f64;
    let delayed = |outcome: &Outcome| 1.0 - outcome.empty_share();
    let short = buffered.idle_short as f64;
    [
        Check::order(
            name("NFS-async: idle times below a second, of all"),
            Expect::AtLeast(0.5),
            short / (short + buffered.idle_s.len() as f64),
        ),
        Check::order(
            name("idle times of a minute and more, NFS-sync / NFS-async"),
            Expect::AtMost(1.0),
            long(sync) / long(buffered),
        )
        .because(SESSIONS),
        Check::order(
            name("share of requests that are delayed, NFS-sync / NFS-async"),
            Expect::AtLeast(1.0),
            delayed(sync) / delayed(buffered),
        ),
        Check::order(
            name("delays, how often NFS-sync's is the longer one / NFS-async's"),
            Expect::AtLeast(1.0),
            sync.delayed_longer_than(buffered) / buffered.delayed_longer_than(sync),
        )
        .because(FLUSHES),
    ]
}

/// What the paper says of the servers beside each other, and of the tracing.
fn across(studies: &Studies) -> Vec<Check> {
    let mut checks = Vec::new();
    for (model, (_, name)) in MODELS.iter().enumerate() {
        let of: Vec<f64> =
            studies.of_model(model).iter().map(|(_, outcome)| outcome.interference()).collect();
        let ours = match of.as_slice() {
            [attic, cellar, maytag] => maytag / attic.min(*cellar),
            _ => f64::NAN,
        };
        let what = format!("{name}: Maytag's interference / the least of the others'");
        checks.push(Check::order(what, Expect::AtMost(1.0), ours).because(QUEUES));
    }
    let of = studies.of_model(1);
    let maytag = of.iter().find(|(name, _)| *name == SERVERS[MAYTAG].name);
    let per_day = 86_400.0 / SERVERS[MAYTAG].seconds as f64;
    let busy = maytag.map_or(f64::NAN, |(_, o)| o.cleaner_busy_ns as f64 / 1e9 * per_day);
    let what = "maytag-like, NFS-async: seconds that the disk works for the cleaner in a day";
    checks.push(Check::order(what, Expect::AtMost(2750.0), busy).because(MOVED));
    let attic = of.first().map_or(f64::NAN, |(_, outcome)| outcome.predicts());
    let lossy = studies.lossy().map_or(f64::NAN, Outcome::predicts);
    let what = "attic-like, NFS-async: change of that share of idle times if requests are lost as the \
        probe's were";
    checks.push(Check::order(what, Expect::AtMost(0.005), (lossy - attic).abs()));
    checks
}

fn below_mb(outcome: &Outcome, megabytes: u64) -> f64 {
    outcome.accumulated_below(megabytes << 20)
}
