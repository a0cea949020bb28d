//! The study of Heuristic Cleaning 1995 on the real log: the same requests drive the log-structured
//! layout in simulation, beside the bare log of the study ([`crate::nfs_server`]).
//!
//! Contract: as much of each server, of its time and of its files, as makes a file system of a
//! gigabyte, under both write models. Both logs have segments of 1 MB, a cache of 10 MB and greedy
//! victims, and clean after two idle seconds.

use twin_clean::{trigger, victim};
use twin_lab::{Config, Figures, Workload, simulate};
use twin_trace::nfs::{Pauses, SERVERS};
use twin_trace::replay::Pace;

use super::parallel::in_parallel;
use super::servers::MODELS;
use crate::nfs_server::{Cleaning, Outcome, Study, WriteModel};

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
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) bare: Option<Outcome>,
    pub(crate) real: Option<Figures>,
}

/// All servers under both write models.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs(pub(crate) Vec<Pair>);

impl Pairs {
    /// Runs all, two at a time.
    pub(crate) fn run() -> Pairs {
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
        cleaning: Cleaning::When(trigger::REGISTRY.default_entry()),
        victim: &victim::REGISTRY[1],
        seed: 1,
        pauses: Pauses::Sessions,
        lost: 0.0,
        stops: false,
    };
    let size = ((totals.file_system_bytes as f64 * VOLUME) as u64).next_multiple_of(1 << 20);
    let (when, victim) = (trigger::REGISTRY.default_entry().name, victim::REGISTRY[1].name);
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
