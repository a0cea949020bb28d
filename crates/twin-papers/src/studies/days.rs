//! The server of Cut-and-Paste File Systems 1996 under days of users like Sprite's (sprite-1991) and under loads by hand, with dirty
//! data kept in each of the paper's ways.

use std::sync::Arc;

use twin_cache::flush::{self, FlushBy, Grain, Survives};
use twin_generate::SPRITE_USERS;
use twin_lab::{Workload, plan};
use twin_rt::{SECS, Time};
use twin_server::{Client, Does, Pace, ServerFigures, ServerFile, preset, simulate_server_telling};

use crate::variation::{OtherServer, Variation};
use crate::work::Share;

/// The server of the paper.
const SERVER: &str = "cut-and-paste";
/// The users of the preset, and those of the study: the same with parameters that were fitted to the published
/// tables of the traces ([`crate::loads`]).
const REMEMBERED_USERS: &str = SPRITE_USERS[0];
const USERS: &str = SPRITE_USERS[1];
/// Days: the paper has six traces of a day.
pub(crate) const DAYS: u64 = 6;
const DAY_NS: u64 = 24 * 3600 * SECS;

/// How dirty data is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DirtyData {
    /// For 30 seconds: the server's own policy.
    Seconds,
    Ups,
    NvramFiles,
    NvramBlocks,
}

impl DirtyData {
    pub(crate) const ALL: [DirtyData; 4] =
        [DirtyData::Ups, DirtyData::NvramFiles, DirtyData::NvramBlocks, DirtyData::Seconds];

    pub(crate) fn name(self) -> &'static str {
        match self {
            DirtyData::Seconds => "30 s",
            DirtyData::Ups => "UPS",
            DirtyData::NvramFiles => "NVRAM, whole files",
            DirtyData::NvramBlocks => "NVRAM, blocks",
        }
    }

    /// The flush policy that does so; `None` for the server's own.
    fn policy(self) -> Option<&'static str> {
        let wanted = match self {
            DirtyData::Seconds => return None,
            DirtyData::Ups => (Survives::Memory, Grain::Files),
            DirtyData::NvramFiles => (Survives::Nvram, Grain::Files),
            DirtyData::NvramBlocks => (Survives::Nvram, Grain::Blocks),
        };
        let found = flush::REGISTRY.iter().find(|entry| (entry.survives, entry.grain) == wanted);
        found.map(|entry| entry.name)
    }
}

/// What the server's users do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// A day of users.
    Day(u64),
    /// Large writes that fill the memory, beside reads.
    Flood,
    /// Many large writes at once, on the two hot file systems.
    Parallel,
}

/// Users by hand of a file system, and how many of them write beside how many that read.
const FLOOD: &str = r#"
    [client.writers]
    clients = 4
    files = 8
    operations = 2000
    size = "constant:value=64K"
    length = "constant:value=64K"
    think = "exponential:mean=200ms"
    mix = { append = 1 }
    [client.readers]
    clients = 4
    files = 400
    operations = 8000
    size = "constant:value=64K"
    length = "constant:value=8K"
    think = "exponential:mean=100ms"
    mix = { read = 1, stat = 1 }
"#;
const PARALLEL: &str = r#"
    [client.writers]
    clients = 16
    files = 4
    operations = 60
    size = "constant:value=4M"
    length = "constant:value=1M"
    think = "exponential:mean=32s"
    mix = { write = 1 }
"#;

/// A run of the server.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Job {
    load: Load,
    kept: DirtyData,
    by: Option<FlushBy>,
}

/// Changes the server.
fn vary(server: &mut ServerFile, change: OtherServer) {
    if change == OtherServer::EndlessNvram {
        server.hosts.iter_mut().for_each(|host| host.nvram_bytes = host.cache_bytes);
    }
    for part in &mut server.file_systems {
        let settings = &mut part.config.settings;
        match change {
            OtherServer::UntilDurable => settings.nvram_until_reported = false,
            OtherServer::NoUpdate => settings.flush_age_ns = Some(3600 * SECS),
            OtherServer::EndlessNvram | OtherServer::RememberedUsers => {}
        }
    }
}

/// Whether a variation changes what a run does. What is in no NVRAM does not depend on its size, nor what does not
/// wait for 30 seconds on how long that is.
pub(crate) fn is_changed(at: usize, variation: &Variation) -> bool {
    let Some(job) = jobs().get(at).copied() else { return false };
    let is_nvram = matches!(job.kept, DirtyData::NvramFiles | DirtyData::NvramBlocks);
    match variation.server {
        None => false,
        Some(OtherServer::NoUpdate) => job.kept == DirtyData::Seconds,
        Some(OtherServer::EndlessNvram) => is_nvram,
        Some(OtherServer::UntilDurable) => job.kept != DirtyData::Seconds,
        Some(OtherServer::RememberedUsers) => matches!(job.load, Load::Day(_)),
    }
}

/// Whether counted checks depend on a run: the loads by hand were made to show what the paper found.
pub(crate) fn counts(at: usize) -> bool {
    jobs().get(at).is_some_and(|job| matches!(job.load, Load::Day(_)))
}

/// Whether a variation changes any of the servers that are run.
#[cfg(test)]
pub(crate) fn changes(variation: &Variation) -> bool {
    (0..count()).any(|at| is_changed(at, variation))
}

/// The figures of all runs; `None` for one that failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Days(pub(crate) Vec<Option<ServerFigures>>);

/// The number of runs.
pub(crate) fn count() -> usize {
    jobs().len()
}

/// Carries a run out with a variation; `None` if it fails. Tells which share of a day is done.
pub(crate) fn run(at: usize, variation: &Variation, share: &Share) -> Option<ServerFigures> {
    jobs().get(at)?.run(variation, share)
}

/// All runs, in the order of [`Days`].
fn jobs() -> Vec<Job> {
    let loads = (1..=DAYS).map(Load::Day).chain([Load::Flood, Load::Parallel]);
    let mut all: Vec<Job> =
        loads.flat_map(|load| DirtyData::ALL.map(|kept| Job { load, kept, by: None })).collect();
    let needer = |kept| Job { load: Load::Parallel, kept, by: Some(FlushBy::Needer) };
    all.extend([needer(DirtyData::NvramFiles), needer(DirtyData::NvramBlocks)]);
    all
}

impl Job {
    /// The server under this load, with dirty data kept so, and changed by a variation.
    fn server(self, variation: &Variation) -> Result<ServerFile, twin_settings::SettingsError> {
        let mut server = ServerFile::parse(preset(SERVER)?.text)?;
        for part in &mut server.file_systems {
            let settings = &mut part.config.settings;
            if let Some(policy) = self.kept.policy() {
                settings.flush = policy.into();
            }
            settings.flush_by = self.by;
        }
        match self.load {
            Load::Day(day) => {
                for (number, client) in server.clients.iter_mut().enumerate() {
                    if let Does::Workload(text, seed) = &mut client.does {
                        if variation.server != Some(OtherServer::RememberedUsers) {
                            *text = text.replacen(REMEMBERED_USERS, USERS, 1);
                        }
                        *seed = day * 1000 + number as u64;
                    }
                }
            }
            // The two hot file systems are the last by name.
            Load::Flood | Load::Parallel => {
                let hot = server.file_systems.len() - if self.load == Load::Flood { 1 } else { 2 };
                server.clients = (hot..server.file_systems.len())
                    .map(|file_system| Client {
                        file_system,
                        does: Does::Workload(String::new(), file_system as u64),
                        pace: Pace::Recorded,
                    })
                    .collect();
            }
        }
        if let Some(change) = variation.server {
            vary(&mut server, change);
        }
        Ok(server)
    }

    /// The figures; `None` if the run fails, or an operation in it.
    fn run(self, variation: &Variation, share: &Share) -> Option<ServerFigures> {
        let server = self.server(variation).ok()?;
        let by_hand = match self.load {
            Load::Day(_) => None,
            Load::Flood => Some(FLOOD),
            Load::Parallel => Some(PARALLEL),
        };
        let by_hand = by_hand.map(|text| plan(SERVER, text).map(Arc::new)).transpose().ok()?;
        let workload = |client: &Client| match (&client.does, &by_hand) {
            (Does::Workload(_, seed), Some(plan)) => Workload::ByHand(plan.clone(), *seed),
            (Does::Workload(text, seed), None) => Workload::Generated(text.clone(), *seed),
            (Does::Trace(..), _) => Workload::Generated(String::new(), 0),
        };
        let workloads: Vec<Workload> = server.clients.iter().map(workload).collect();
        let is_day = matches!(self.load, Load::Day(_));
        let share = Arc::clone(share);
        let progress = Box::new(move |now: Time| {
            if is_day {
                share(now.0 as f64 / DAY_NS as f64);
            }
        });
        let figures = simulate_server_telling(&server, &workloads, progress).ok()?;
        (figures.whole.failed == 0).then_some(figures)
    }
}

impl Days {
    /// True if nothing was run.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn of(
        &self,
        load: Load,
        kept: DirtyData,
        by: Option<FlushBy>,
    ) -> Option<&ServerFigures> {
        let at = jobs().iter().position(|job| *job == Job { load, kept, by })?;
        self.0.get(at)?.as_ref()
    }

    /// The mean latency of all operations in milliseconds; not a number if the run failed.
    pub(crate) fn mean_ms(&self, load: Load, kept: DirtyData) -> f64 {
        self.of(load, kept, None).map_or(f64::NAN, |f| f.whole.latency.mean_us / 1e3)
    }

    /// A ratio of mean latencies under a load.
    pub(crate) fn ratio(&self, load: Load, of: DirtyData, to: DirtyData) -> f64 {
        self.mean_ms(load, of) / self.mean_ms(load, to)
    }

    /// On how many days this ratio is below 1; not a number if a run failed.
    pub(crate) fn days_below(&self, of: DirtyData, to: DirtyData) -> f64 {
        let ratios: Vec<f64> = (1..=DAYS).map(|day| self.ratio(Load::Day(day), of, to)).collect();
        match ratios.iter().any(|ratio| ratio.is_nan()) {
            true => f64::NAN,
            false => ratios.iter().filter(|ratio| **ratio < 1.0).count() as f64,
        }
    }
}

/// The share of all operations that take no longer, by latency in microseconds.
pub(crate) fn shares(figures: &ServerFigures) -> Vec<(f64, f64)> {
    let verbs = figures.whole.verbs.iter();
    let mut all: Vec<(f64, u64)> = verbs.flat_map(|verb| verb.distribution.clone()).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let count = figures.whole.latency.count.max(1) as f64;
    let mut sum = 0;
    let share = |(us, more): (f64, u64)| {
        sum += more;
        (us, sum as f64 / count)
    };
    all.into_iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_of_another_server_or_load_and_its_policy_exists() {
        let all = jobs();
        assert_eq!(all.len(), 4 * 8 + 2);
        for (at, job) in all.iter().enumerate() {
            assert!(!all[..at].contains(job));
            assert_eq!(job.kept.policy().is_none(), job.kept == DirtyData::Seconds);
            let server = job.server(&Variation::NONE).unwrap();
            let base = ServerFile::parse(preset(SERVER).unwrap().text).unwrap();
            let flush = |server: &ServerFile| server.file_systems[0].config.settings.flush.clone();
            assert_eq!(flush(&server) == flush(&base), job.kept == DirtyData::Seconds);
            if let (Load::Day(_), Does::Workload(text, _)) = (job.load, &server.clients[0].does) {
                assert!(text.starts_with(USERS), "{text}");
            }
            let hot = &server.file_systems[server.clients.last().unwrap().file_system].name;
            assert!(hot == "hot2" || matches!(job.load, Load::Day(_)), "{hot}");
        }
        assert!([FLOOD, PARALLEL].iter().all(|text| plan(SERVER, text).is_ok()));
    }
}
