//! Models that are wrong on purpose: negative controls of the checks.
//!
//! Contract: for each wrong model and each paper that it concerns, at least one counted check that
//! holds with the right model does not hold with the wrong one. `cargo xtask nightly referee` runs them all
//! and fails otherwise.

use twin_trace::nfs::Pauses;

use crate::check::Check;
use crate::claim::Claim;
use crate::need::Need;
use crate::paper::Paper;
use crate::progress::Progress;
use crate::reproduce::{Varied, judge, of_papers, vary};
use crate::results::Results;
use crate::variation::{Layout, OtherAgeing, OtherServer, Variation, bsd, on, on_bsd, with};
use twin_bench::BenchFailure;

/// A model with a mistake planted.
#[derive(Clone, Copy, Debug)]
pub struct Wrong {
    /// Its name on the command line.
    pub name: &'static str,
    /// The mistake.
    pub about: &'static str,
    /// The papers of each of which a counted check must turn.
    pub papers: &'static [Paper],
    /// The mistaken runs.
    pub runs: Variation,
}

const BOTH: &[Paper] = &[Paper::Clc, Paper::Lvc];
const LVC: &[Paper] = &[Paper::Lvc];

/// A wrong model of the machine.
const fn wrong(
    name: &'static str,
    about: &'static str,
    papers: &'static [Paper],
    run: fn(&Need) -> Need,
) -> Wrong {
    Wrong { name, about, papers, runs: Variation::of_runs(run) }
}

/// All wrong models. Few statements of 1994 hold with a log in the order of 1993, and those are of no use
/// against half the disk's speed, the slow processor, reading ahead and blind overwriting.
pub const WRONG: &[Wrong] = &[
    wrong("double-cache", "a cache of double size", LVC, |need| on_bsd(need, "cache=4M")),
    wrong(
        "half-disk",
        "a disk of half the speed: the Wren IV, with half the bandwidth and twice the seek time",
        LVC,
        wren_iv,
    ),
    wrong("half-bus", "a bus of half the speed", BOTH, |need| on_bsd(need, "bus-rate=1205862")),
    wrong("slow-processor", "the Sprite machine's processor", LVC, |need| {
        on_bsd(need, "cpu=sun-4-260,copy-us=own,request-us=own")
    }),
    wrong("ordered-late", "FFS writes its metadata when it likes", BOTH, |need| {
        on(Layout::Ffs, need, "ordering=async")
    }),
    wrong("no-clusters", "FFS writes and reads block by block", BOTH, |need| {
        on(Layout::Ffs, need, "maxcontig=1")
    }),
    // The paper of 1994 says that gaps help some files and hurt others, and gives no figure by which a
    // check that holds could tell.
    wrong("no-gap", "FFS leaves no gaps between clusters", LVC, |need| {
        on(Layout::Ffs, need, "rotdelay=0")
    }),
    // With the order of the log of 1993 the statement of 1994 that found it does not hold.
    wrong("blind-overwrite", "FFS overwrites blocks without reading them", LVC, |need| {
        on(Layout::Ffs, need, "overwrite=needed")
    }),
    wrong("reversed", "the log writes the newest file first, as before May 1995", LVC, |need| {
        on(Layout::Lfs, need, "newest-first=yes")
    }),
    wrong("no-read-ahead", "nothing is read ahead", LVC, |need| on_bsd(need, "reading=one-by-one")),
    wrong("swapped", "the log is no log: FFS runs in its place", BOTH, ffs_for_lfs),
    wrong(
        "idle-cleaner",
        "a cleaner that never works: every log is as large as it needs",
        LVC,
        endless,
    ),
    // Without any cleaning the paper's figures are shares of nothing, so a cleaner that never works says nothing of it.
    Wrong {
        name: "demand-cleaner",
        about: "the cleaner of the file servers works only when no segment is clean",
        papers: &[Paper::Hc],
        runs: Variation { cleans_on_demand: true, ..Variation::NONE },
    },
    Wrong {
        name: "equal-pauses",
        about: "all pauses between requests to the file servers are equal",
        papers: &[Paper::Hc],
        runs: Variation { pauses: Pauses::Equal, ..Variation::NONE },
    },
    Wrong {
        name: "endless-nvram",
        about: "NVRAM as large as the server's memory",
        papers: &[Paper::Cp],
        runs: Variation::of_server(OtherServer::EndlessNvram),
    },
    Wrong {
        name: "no-update",
        about: "data that is not in NVRAM waits for an hour, not for 30 seconds",
        papers: &[Paper::Cp],
        runs: Variation::of_server(OtherServer::NoUpdate),
    },
    Wrong {
        name: "nothing-deleted",
        about: "file systems that fill up, and on which nothing is deleted or changes",
        papers: &[Paper::Fl],
        runs: Variation::of_ageing(OtherAgeing::DeletesNothing),
    },
];

/// The clustered file system's run in place of the log's.
fn ffs_for_lfs(need: &Need) -> Need {
    match bsd(&need.config) {
        Some(Layout::Lfs) if need.config.starts_with("bsd-lfs-1994") => {
            Need::new("efs", need.bench.clone())
        }
        Some(Layout::Lfs) if need.config.contains("block=4K") => {
            Need::new("ffs-m8r0:block=4K", need.bench.clone())
        }
        Some(Layout::Lfs) => Need::new("ffs-m8r0", need.bench.clone()),
        _ => need.clone(),
    }
}

/// A volume on which nothing has to be cleaned during the run.
fn endless(need: &Need) -> Need {
    if need.config.contains("size=") { with(need, "size=full") } else { need.clone() }
}

/// The Wren IV in place of the disk, unless the run needs more than its 0.3 GB.
fn wren_iv(need: &Need) -> Need {
    let large = need.config.contains("size=")
        || need.bench.starts_with("tpcb:")
        || need.bench.contains("size=32768K");
    if large { need.clone() } else { on_bsd(need, "disk=wren-iv,skews=own") }
}

/// The checks that find a wrong model.
#[derive(Clone, Debug)]
pub struct Found {
    /// The wrong model.
    pub wrong: &'static Wrong,
    /// For each paper that it concerns: the counted checks that hold with the right model and not
    /// with this one.
    pub turned: Vec<(Paper, Vec<Check>)>,
}

impl Found {
    /// The papers none of whose counted checks finds it.
    pub fn missed(&self) -> impl Iterator<Item = Paper> {
        self.turned.iter().filter(|(_, checks)| checks.is_empty()).map(|(paper, _)| *paper)
    }
}

/// Plants each wrong model whose papers are among those of the claims, and finds the counted checks
/// that turn. `right`: the results of the claims with the right model.
///
/// # Errors
/// The first run that fails.
pub fn plant(
    claims: &[&'static Claim],
    right: &Results,
    threads: usize,
    progress: &Progress,
) -> Result<Vec<Found>, BenchFailure> {
    let concerned = |wrong: &&'static Wrong| !of_papers(claims, wrong.papers).is_empty();
    let planted: Vec<&'static Wrong> = WRONG.iter().filter(concerned).collect();
    let varied = |wrong: &&'static Wrong| Varied {
        claims: of_papers(claims, wrong.papers),
        beside: Vec::new(),
        variation: &wrong.runs,
        counted_only: true,
    };
    let varied: Vec<Varied> = planted.iter().map(varied).collect();
    let mistaken = vary(&varied, right, threads, progress);
    let mut all = Vec::new();
    for ((wrong, varied), mistaken) in planted.into_iter().zip(&varied).zip(mistaken) {
        let judged = judge(&varied.claims, right);
        let mistaken = judge(&varied.claims, &mistaken?);
        let of = |paper: Paper| {
            let pairs = judged.iter().zip(&mistaken).filter(|(j, _)| j.claim.paper() == paper);
            let checks = pairs.flat_map(|(right, wrong)| right.checks.iter().zip(&wrong.checks));
            let turned = checks.filter(|(right, wrong)| {
                let same = wrong.what == right.what;
                // What was not measured says nothing of the model.
                let differs = wrong.ours.is_finite() && !wrong.holds();
                right.kind.counts() && right.holds() && same && differs
            });
            turned.map(|(_, wrong)| wrong.clone()).collect::<Vec<Check>>()
        };
        let has = |paper: &Paper| claims.iter().any(|claim| claim.paper() == *paper);
        let papers = wrong.papers.iter().copied().filter(has);
        let turned: Vec<_> = papers.map(|paper| (paper, of(paper))).collect();
        if !turned.is_empty() {
            all.push(Found { wrong, turned });
        }
    }
    Ok(all)
}

/// The checks that find each wrong model, for the terminal.
pub fn text(found: &[Found]) -> String {
    let mut out = String::new();
    for Found { wrong, turned } in found {
        out += &format!("{}: {}\n", wrong.name, wrong.about);
        for (paper, checks) in turned {
            let mark = if checks.is_empty() { "NO CHECK FINDS IT" } else { "found by" };
            out += &format!("  {}: {mark} {}\n", paper.short(), count(checks.len()));
            for check in checks {
                out += &format!("    {}: {}\n", check.what, check.comparison());
            }
        }
    }
    out
}

fn count(checks: usize) -> String {
    match checks {
        0 => String::new(),
        1 => "1 check".into(),
        n => format!("{n} checks"),
    }
}

/// The same for programs.
pub fn json(found: &[Found]) -> serde_json::Value {
    let one = |Found { wrong, turned }: &Found| {
        let papers = turned.iter().map(|(paper, checks)| {
            let names: Vec<_> = checks
                .iter()
                .map(|check| serde_json::json!([check.what, check.comparison()]))
                .collect();
            serde_json::json!({ "paper": paper.short(), "turned": names })
        });
        let papers: Vec<_> = papers.collect();
        serde_json::json!({ "name": wrong.name, "about": wrong.about, "papers": papers })
    };
    found.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::claims;

    #[test]
    fn every_mistake_changes_runs_of_its_papers_into_runs_that_parse() {
        for wrong in WRONG {
            let needs = claims()
                .iter()
                .filter(|c| wrong.papers.contains(&c.paper()))
                .flat_map(|c| (c.needs)());
            let mistaken: Vec<Need> =
                needs.filter(|n| (wrong.runs.run)(n) != *n).map(|n| (wrong.runs.run)(&n)).collect();
            let of_servers =
                wrong.runs.changes_servers() || crate::studies::days::changes(&wrong.runs);
            let of_ageing = wrong.runs.ageing.is_some();
            assert!(of_servers || of_ageing || !mistaken.is_empty(), "{}", wrong.name);
            for need in mistaken {
                twin_lab::Config::parse(&need.config).unwrap();
            }
        }
    }
}
