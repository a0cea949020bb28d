//! The study of Heuristic Cleaning 1995 on the real log: the same requests drive the log-structured
//! layout in simulation, beside the bare log of the study ([`crate::nfs_server`]).
//!
//! Contract: as much of each server, of its time and of its files, as makes a file system of a
//! gigabyte, under both write models. Both logs have segments of 1 MB, a cache of 10 MB and greedy
//! victims, and clean after two idle seconds. The checks hold the real log against the bare one; no
//! paper has these figures, so all of them are of the kind own.
//!
//! [docs/reproduction.md](../../../../docs/reproduction.md) says where the two differ, and why.

use twin_clean::{trigger, victim};
use twin_trace::nfs::{Pauses, SERVERS};
use twin_trace::replay::Pace;

use super::heuristic::{MODELS, in_parallel};
use super::{Check, Claim, Expect, Results};
use crate::nfs_server::{Cleaning, Outcome, Study, WriteModel};
use twin_lab::Figures;
use twin_lab::{Config, Workload, simulate};

/// The claim.
pub(super) const CLAIM: Claim = Claim {
    id: "real-log",
    source: "HC 5",
    says: "the same on the real log: the requests of the three servers drive the log-structured \
           layout in simulation, beside the bare log of the study",
    needs: Vec::new,
    judge,
};

/// The share of each server's time and files that makes a file system of a gigabyte, in percent.
const PERCENT: [u64; 3] = [25, 100, 12];
/// The size of the real log's volume, as a multiple of the bare log's: checkpoints and the segments
/// that it keeps for the cleaner come on top of the files. With 1.03 the files of Cellar do not fit.
const VOLUME: f64 = 1.05;
/// What both write models share: a drive of the time with more than a gigabyte, and the study's cache
/// and segments.
const CONFIG: &str = "lfs:disk=hp-c2249a,cache=10M,segment=1M,frag=512,minfree=1%";

/// A server under a write model on both logs; `None` for a run that failed.
#[derive(Clone, Debug)]
struct Pair {
    name: String,
    bare: Option<Outcome>,
    real: Option<Figures>,
}

/// All servers under both write models.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs(Vec<Pair>);

impl Pairs {
    /// Runs all, two at a time.
    pub(super) fn run() -> Pairs {
        let all: Vec<(usize, usize)> = (0..SERVERS.len())
            .flat_map(|server| (0..MODELS.len()).map(move |model| (server, model)))
            .collect();
        Pairs(in_parallel(&all, |&(server, model)| pair(server, model)))
    }
}

fn pair(server: usize, model: usize) -> Pair {
    let (write, model) = MODELS[model];
    let totals = SERVERS[server].scaled(PERCENT[server] as f64 / 100.0);
    let study = Study {
        totals,
        model: write,
        cleaning: Cleaning::When(trigger::REGISTRY.first()),
        victim: &victim::REGISTRY[1],
        seed: 1,
        pauses: Pauses::Sessions,
        lost: 0.0,
    };
    let size = ((totals.file_system_bytes as f64 * VOLUME) as u64).next_multiple_of(1 << 20);
    let (when, victim) = (trigger::REGISTRY.first().name, victim::REGISTRY[1].name);
    let config = Config::parse(&format!("{CONFIG},size={size},when={when},victim={victim}"));
    let durable = if write == WriteModel::Sync { "yes" } else { "no" };
    let (at, part) = (server + 1, PERCENT[server]);
    let requests = format!("file-server:server={at},part={part}%,durable={durable}");
    let workload = Workload::Generated(requests, 1);
    let run = |config| simulate(&config, &workload, Pace::Recorded { speed: 1.0 }).ok();
    Pair {
        name: format!("{}-like, {model}", SERVERS[server].name),
        bare: study.run().ok(),
        real: config.ok().and_then(run),
    }
}

fn judge(results: &Results) -> Vec<Check> {
    results.real_logs.0.iter().flat_map(of_pair).collect()
}

fn of_pair(Pair { name, bare, real }: &Pair) -> Vec<Check> {
    let name = |what: &str| format!("{name}, real log: {what}");
    let (Some(bare), Some(real)) = (bare, real) else {
        return vec![Check::own(name("it runs"), Expect::AtLeast(1.0), f64::NAN)];
    };
    let log = &real.log;
    let of_users = (log.log_bytes - log.moved_bytes) as f64;
    let moved = log.moved_bytes as f64 / of_users;
    let bare_moved = bare.moved_bytes as f64 / bare.user_bytes as f64;
    vec![
        Check::own(
            name("changes that wait for a clean segment, of all"),
            Expect::AtMost(0.0),
            log.space_waits as f64 / real.ops as f64,
        ),
        Check::own(
            name("bytes of the log but those moved / the bare log's"),
            Expect::Ratio(1.0),
            of_users / bare.user_bytes as f64,
        )
        .because(METADATA),
        Check::own(
            name("bytes moved for each of these / the bare log's"),
            Expect::Ratio(1.0),
            moved / bare_moved,
        )
        .because(ENDS),
    ]
}

const METADATA: &str = "the real log also writes the maps of inodes and segments, indirect blocks and \
    checkpoints; the bare one a whole directory of 8 KB for each change of a name";
const ENDS: &str = "in an idle time the bare log cleans until no segment has 5% of garbage; the real one \
    rests, once it gains nothing, until a quarter of a segment has been written";
