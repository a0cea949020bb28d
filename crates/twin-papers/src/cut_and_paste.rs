//! The claims of Cut-and-Paste File Systems 1996, section 5, on days of sprite-like users.
//!
//! The traces of Sprite are not to be had: sprite-like stands in for them, so the days differ from
//! the paper's six, and its figures in milliseconds cannot be compared; what is judged are orders and
//! the form of the distribution. The two traces for which the paper found the order reversed are
//! built by hand, as its authors did to find the reason (section 5.2): one whose writes fill the
//! memory of a naive UPS, and one whose parallel writes wait for NVRAM.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use twin_cache::flush::{self, FlushBy, Grain, Survives};
use twin_rt::{SECS, Time};
use twin_trace::Verb;

use super::heuristic::in_parallel;
use super::variation::OtherServer;
use super::{Check, Claim, Expect, Results, STEPS, Told, Variation};
use twin_lab::Workload;
use twin_lab::plan;
use twin_lab::server::{
    Client, Does, Pace, ServerFigures, ServerFile, preset, simulate_server_telling,
};
use twin_report::draw::{Bar, Distribution, Group, Span, bars, distribution, nth};
use twin_report::markup::charts as side_by_side;

/// The claim, with the rows write-saving, latency-cdf and flush-async.
pub(super) const CLAIM: Claim = Claim {
    id: "cut-and-paste",
    source: "CP 5",
    says: "writing later saves time: UPS, then NVRAM by whole files, by blocks, then 30 s, but not \
           under floods of writes (sprite-like stands in for the traces of Sprite)",
    needs: Vec::new,
    judge,
};

/// The server of the paper.
const SERVER: &str = "cut-and-paste";
/// Days: the paper has six traces of a day.
const DAYS: u64 = 6;
const DAY_NS: u64 = 24 * 3600 * SECS;
/// The most days on which the order may be another: the paper's is on all but one.
const EXCEPT: usize = 1;

const STANDS_IN: &str = "sprite-like stands in for the traces: its users write little, most of the \
    disks' time goes into reads, and so the policies differ by some percent only";
const ALIKE: &str = "on sprite-like days almost every dirty block is alone in its file when NVRAM is \
    full, so whole files and blocks are the same";

/// How dirty data is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// For 30 seconds: the server's own policy.
    Seconds,
    Ups,
    NvramFiles,
    NvramBlocks,
}

impl Kept {
    const ALL: [Kept; 4] = [Kept::Ups, Kept::NvramFiles, Kept::NvramBlocks, Kept::Seconds];

    fn name(self) -> &'static str {
        match self {
            Kept::Seconds => "30 s",
            Kept::Ups => "UPS",
            Kept::NvramFiles => "NVRAM, whole files",
            Kept::NvramBlocks => "NVRAM, blocks",
        }
    }

    /// The flush policy that does so; `None` for the server's own.
    fn policy(self) -> Option<&'static str> {
        let wanted = match self {
            Kept::Seconds => return None,
            Kept::Ups => (Survives::Memory, Grain::Files),
            Kept::NvramFiles => (Survives::Nvram, Grain::Files),
            Kept::NvramBlocks => (Survives::Nvram, Grain::Blocks),
        };
        let found = flush::REGISTRY.iter().find(|entry| (entry.survives, entry.grain) == wanted);
        found.map(|entry| entry.name)
    }
}

/// What the server's users do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    /// A day of the preset's users.
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
    kept: Kept,
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
            OtherServer::EndlessNvram => {}
        }
    }
}

/// Whether a variation changes any of the servers that are run.
#[cfg(test)]
pub(super) fn changes(variation: &Variation) -> bool {
    let server = |job: &Job, variation| format!("{:?}", job.server(variation));
    jobs().iter().any(|job| server(job, variation) != server(job, &Variation::NONE))
}

/// The figures of all runs; `None` for one that failed.
#[derive(Clone, Debug, Default)]
pub(super) struct Days(Vec<Option<ServerFigures>>);

/// The number of runs.
pub(super) fn runs() -> usize {
    jobs().len()
}

/// All runs, in the order of [`Days`].
fn jobs() -> Vec<Job> {
    let loads = (1..=DAYS).map(Load::Day).chain([Load::Flood, Load::Parallel]);
    let mut all: Vec<Job> =
        loads.flat_map(|load| Kept::ALL.map(|kept| Job { load, kept, by: None })).collect();
    let needer = |kept| Job { load: Load::Parallel, kept, by: Some(FlushBy::Needer) };
    all.extend([needer(Kept::NvramFiles), needer(Kept::NvramBlocks)]);
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
                    if let Does::Workload(_, seed) = &mut client.does {
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

    /// The figures; `None` if the run fails, or an operation in it. Tells how many of [`STEPS`] of a day are
    /// done.
    fn run(self, variation: &Variation, told: impl Fn(usize) + 'static) -> Option<ServerFigures> {
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
        let told = Box::new(move |now: Time| {
            if is_day {
                told((now.0 / (DAY_NS / STEPS as u64)).min(STEPS as u64 - 1) as usize);
            }
        });
        let figures = simulate_server_telling(&server, &workloads, told).ok()?;
        (figures.whole.failed == 0).then_some(figures)
    }
}

impl Days {
    /// Runs everything with a variation, two runs at a time.
    pub(super) fn run(variation: &Variation, told: &Told) -> Days {
        let jobs: Vec<(usize, Job)> = jobs().into_iter().enumerate().collect();
        let done: Arc<Vec<AtomicUsize>> = Arc::new(jobs.iter().map(|_| 0.into()).collect());
        Days(in_parallel(&jobs, |(number, job)| {
            let (number, done, told) = (*number, Arc::clone(&done), Arc::clone(told));
            let of_job = move |steps: usize| {
                if done[number].swap(steps, Ordering::Relaxed) != steps {
                    let sum = done.iter().map(|one| one.load(Ordering::Relaxed)).sum();
                    told(sum, done.len() * STEPS);
                }
            };
            let figures = job.run(variation, of_job.clone());
            of_job(STEPS);
            figures
        }))
    }

    fn of(&self, load: Load, kept: Kept, by: Option<FlushBy>) -> Option<&ServerFigures> {
        let at = jobs().iter().position(|job| *job == Job { load, kept, by })?;
        self.0.get(at)?.as_ref()
    }

    /// The mean latency of all operations in milliseconds; not a number if the run failed.
    fn mean_ms(&self, load: Load, kept: Kept) -> f64 {
        self.of(load, kept, None).map_or(f64::NAN, |f| f.whole.latency.mean_us / 1e3)
    }

    /// A ratio of mean latencies under a load.
    fn ratio(&self, load: Load, of: Kept, to: Kept) -> f64 {
        self.mean_ms(load, of) / self.mean_ms(load, to)
    }

    /// On how many days this ratio is below 1; not a number if a run failed.
    fn days_below(&self, of: Kept, to: Kept) -> f64 {
        let ratios: Vec<f64> = (1..=DAYS).map(|day| self.ratio(Load::Day(day), of, to)).collect();
        match ratios.iter().any(|ratio| ratio.is_nan()) {
            true => f64::NAN,
            false => ratios.iter().filter(|ratio| **ratio < 1.0).count() as f64,
        }
    }
}

fn judge(results: &Results) -> Vec<Check> {
    let days = &results.days;
    let mut checks = order(days);
    checks.extend(reversed(days));
    checks.extend(form(days));
    checks.extend(needers(days));
    checks
}

/// Write-saving: figure 5 and section 5.1.
fn order(days: &Days) -> Vec<Check> {
    let most = Expect::AtLeast((DAYS as usize - EXCEPT) as f64);
    let pairs = Kept::ALL.windows(2).map(|two| (two[0], two[1]));
    let mut checks: Vec<Check> = pairs
        .map(|(better, worse)| {
            let what = format!(
                "sprite-like: days of {DAYS} on which the mean latency of {} is below that of {}",
                better.name(),
                worse.name()
            );
            let check = Check::order(what, most, days.days_below(better, worse));
            let is_alike = (better, worse) == (Kept::NvramFiles, Kept::NvramBlocks);
            check.because(if is_alike { ALIKE } else { STANDS_IN })
        })
        .collect();
    let written = |kept| {
        let of = days.of(Load::Day(1), kept, None);
        of.map_or(f64::NAN, |f| {
            f.disks.iter().map(|d| d.disk_use.written_bytes).sum::<u64>() as f64
        })
    };
    let what = "sprite-like: bytes that the disks wrote, UPS / 30 s, first day";
    checks.push(Check::order(
        what,
        Expect::AtMost(1.0),
        written(Kept::Ups) / written(Kept::Seconds),
    ));
    let nvram = written(Kept::NvramFiles) / written(Kept::Seconds);
    let what = "sprite-like: the same, NVRAM by whole files / 30 s";
    checks.push(Check::order(what, Expect::AtMost(1.0), nvram));
    checks
}

/// The two traces with another order, by hand: "not much" is a tenth.
fn reversed(days: &Days) -> Vec<Check> {
    let hits = |kept| {
        let of = days.of(Load::Flood, kept, None);
        // The last file system has all the load.
        of.and_then(|f| f.file_systems.last()).map_or(f64::NAN, |fs| fs.cache_hit_share)
    };
    vec![
        Check::order(
            "by hand, after trace 5: mean latency under a flood of writes, UPS / 30 s",
            Expect::AtLeast(0.9),
            days.ratio(Load::Flood, Kept::Ups, Kept::Seconds),
        ),
        Check::order(
            "by hand, after trace 5: share of look-ups that hit, UPS / 30 s",
            Expect::AtMost(1.0),
            hits(Kept::Ups) / hits(Kept::Seconds),
        ),
        Check::order(
            "by hand, after trace 1b: mean latency under parallel writes, NVRAM by whole files / 30 s",
            Expect::AtLeast(0.9),
            days.ratio(Load::Parallel, Kept::NvramFiles, Kept::Seconds),
        ),
    ]
}

/// The distribution of latencies: figures 2 to 4, of the first day.
fn form(days: &Days) -> Vec<Check> {
    let below = |us: f64| {
        let shares = days.of(Load::Day(1), Kept::Seconds, None).map(shares).unwrap_or_default();
        let below = shares.iter().take_while(|(value, _)| *value <= us).last();
        below.map_or(f64::NAN, |(_, share)| *share)
    };
    let what = |what: &str| format!("sprite-like, 30 s: {what}");
    vec![
        Check::order(
            what("operations within 2 ms, which the cache serves"),
            Expect::AtLeast(0.5),
            below(2e3),
        ),
        Check::order(
            what("operations that take 2 to 17 ms, of those above 2 ms"),
            Expect::AtLeast(0.5),
            (below(17e3) - below(2e3)) / (1.0 - below(2e3)),
        )
        .because(
            "each of our users' reads of a whole file takes several requests; the paper measured \
             each read of its traces",
        ),
        Check::order(
            what("operations beyond 17 ms: queues and several tracks"),
            Expect::AtLeast(0.001),
            1.0 - below(17e3),
        ),
    ]
}

/// Section 5.2: who needs room and flushes himself is delayed more than who waits for the flusher.
fn needers(days: &Days) -> Vec<Check> {
    let writes = |kept, by| {
        let of = days.of(Load::Parallel, kept, by);
        let verb =
            of.and_then(|f| f.whole.verbs.iter().find(|verb| verb.verb == Verb::Write.name()));
        verb.map_or(f64::NAN, |verb| verb.latency.mean_us)
    };
    let one = |kept: Kept| {
        let ours = writes(kept, Some(FlushBy::Needer)) / writes(kept, None);
        let what = format!(
            "by hand, after trace 1b: mean latency of writes, {}, needers flush / a flusher does",
            kept.name()
        );
        Check::order(what, Expect::AtLeast(1.0), ours)
    };
    vec![one(Kept::NvramFiles), one(Kept::NvramBlocks)]
}

/// The share of all operations that take no longer, by latency in microseconds.
fn shares(figures: &ServerFigures) -> Vec<(f64, f64)> {
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

/// Figures 2 to 5 with ours: distributions of the first days and of the loads by hand, and all means.
pub(super) fn charts(days: &Days) -> String {
    if days.0.is_empty() {
        return String::new();
    }
    let loads = [
        ("Latencies, sprite-like, day 1", Load::Day(1)),
        ("Latencies by hand, after trace 1b", Load::Parallel),
        ("Latencies by hand, after trace 5", Load::Flood),
    ];
    let mut all: Vec<String> = loads
        .map(|(title, load)| {
            let of = |(number, kept): (usize, Kept)| {
                let shares = days.of(load, kept, None).map(shares).unwrap_or_default();
                Distribution { name: kept.name().into(), colour: nth(number), shares }
            };
            let lines: Vec<Distribution> = Kept::ALL.into_iter().enumerate().map(of).collect();
            let count = days.of(load, Kept::Seconds, None).map_or(0, |f| f.whole.latency.count);
            distribution(title, &lines, count)
        })
        .into();
    let group = |(title, load): (String, Load)| {
        let bar = |(number, kept): (usize, Kept)| {
            Bar::new(kept.name(), nth(number), days.mean_ms(load, kept))
        };
        Group { title, bars: Kept::ALL.into_iter().enumerate().map(bar).collect() }
    };
    let of_days = (1..=DAYS).map(|day| (format!("sprite-like, day {day}"), Load::Day(day)));
    let by_hand = [("after 1b".to_string(), Load::Parallel), ("after 5".to_string(), Load::Flood)];
    let groups: Vec<Group> = of_days.chain(by_hand).map(group).collect();
    all.push(bars("Mean latencies, ms", &groups, Span::Shared));
    format!("<h2>Delayed writes</h2>{ABOUT}{}", side_by_side(&all))
}

const ABOUT: &str = "<p>Figures 2 to 5 of <i>Cut-and-Paste File Systems</i> (Bosch and Mullender, USENIX \
    1996) with ours. The traces of Sprite are not to be had: sprite-like stands in for them, and two \
    loads by hand for the traces with another order.</p>";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_of_another_server_or_load_and_its_policy_exists() {
        let all = jobs();
        assert_eq!(all.len(), 4 * 8 + 2);
        for (at, job) in all.iter().enumerate() {
            assert!(!all[..at].contains(job));
            assert_eq!(job.kept.policy().is_none(), job.kept == Kept::Seconds);
            let server = job.server(&Variation::NONE).unwrap();
            let base = ServerFile::parse(preset(SERVER).unwrap().text).unwrap();
            let flush = |server: &ServerFile| server.file_systems[0].config.settings.flush.clone();
            assert_eq!(flush(&server) == flush(&base), job.kept == Kept::Seconds);
            let hot = &server.file_systems[server.clients.last().unwrap().file_system].name;
            assert!(hot == "hot2" || matches!(job.load, Load::Day(_)), "{hot}");
        }
        assert!([FLOOD, PARALLEL].iter().all(|text| plan(SERVER, text).is_ok()));
    }
}
