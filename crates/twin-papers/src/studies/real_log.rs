//! The study of Heuristic Cleaning 1995 on the real log: the same requests drive the log-structured
//! layout in simulation, beside the bare log of the study ([`crate::nfs_server`]).
//!
//! Contract: as much of each server, of its time and of its files, as makes a file system of a
//! gigabyte, under both write models. Both logs have segments of 1 MB, a cache of 10 MB and greedy
//! victims, and clean after two idle seconds.

use twin_clean::{trigger, victim};
use twin_lab::{Config, Figures, Workload, simulate};
use twin_trace::nfs::{Pauses, SERVERS, Totals};
use twin_trace::replay::Pace;

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

/// A server and a write model, in the order of [`Pairs`].
fn parts() -> Vec<(usize, usize)> {
    (0..SERVERS.len())
        .flat_map(|server| (0..MODELS.len()).map(move |model| (server, model)))
        .collect()
}

/// One of the logs of a pair.
pub(crate) enum Half {
    Bare(Option<Box<Outcome>>),
    Real(Option<Box<Figures>>),
}

/// The number of runs: two for each pair.
pub(crate) fn count() -> usize {
    2 * parts().len()
}

/// Carries one of them out.
pub(crate) fn run(at: usize) -> Half {
    let (server, model) = parts()[at / 2];
    match at.is_multiple_of(2) {
        true => Half::Bare(bare(server, model).map(Box::new)),
        false => Half::Real(real(server, model).map(Box::new)),
    }
}

impl Pairs {
    /// Puts what a run gave into its place.
    pub(crate) fn put(&mut self, at: usize, half: Half) {
        while self.0.len() <= at / 2 {
            let (server, model) = parts()[self.0.len()];
            let name = format!("{}-like, {}", SERVERS[server].name, MODELS[model].1);
            self.0.push(Pair { name, bare: None, real: None });
        }
        match half {
            Half::Bare(bare) => self.0[at / 2].bare = bare.map(|outcome| *outcome),
            Half::Real(real) => self.0[at / 2].real = real.map(|figures| *figures),
        }
    }
}

/// The part of a server that makes a file system of a gigabyte.
fn part(server: usize) -> Totals {
    SERVERS[server].scaled(PERCENT[server] as f64 / 100.0)
}

fn bare(server: usize, model: usize) -> Option<Outcome> {
    let study = Study {
        totals: part(server),
        model: MODELS[model].0,
        cleaning: Cleaning::When(trigger::REGISTRY.default_entry()),
        victim: &victim::REGISTRY[1],
        seed: 1,
        pauses: Pauses::Sessions,
        lost: 0.0,
        stops: false,
    };
    study.run().ok()
}

fn real(server: usize, model: usize) -> Option<Figures> {
    let bytes = part(server).file_system_bytes;
    let size = ((bytes as f64 * VOLUME) as u64).next_multiple_of(1 << 20);
    let (when, victim) = (trigger::REGISTRY.default_entry().name, victim::REGISTRY[1].name);
    let config = format!("{CONFIG},size={size},when={when},victim={victim}");
    let durable = if MODELS[model].0 == WriteModel::Sync { "yes" } else { "no" };
    let (at, part) = (server + 1, PERCENT[server]);
    let requests = format!("file-server:server={at},part={part}%,durable={durable}");
    let workload = Workload::Generated(requests, 1);
    simulate(&Config::parse(&config).ok()?, &workload, Pace::Recorded { speed: 1.0 }).ok()
}
