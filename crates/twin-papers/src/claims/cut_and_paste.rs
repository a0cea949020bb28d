//! The claims of Cut-and-Paste File Systems 1996, section 5, on days of users like Sprite's.
//!
//! The traces of Sprite are not to be had: sprite-1991 stands in for them, so the days differ from
//! the paper's six, and its figures in milliseconds cannot be compared; what is judged are orders and
//! the form of the distribution. The two traces for which the paper found the order reversed are
//! built by hand, as its authors did to find the reason (section 5.2): one whose writes fill the
//! memory of a naive UPS, and one whose parallel writes wait for NVRAM.

use twin_cache::flush::FlushBy;
use twin_trace::Verb;

use crate::check::{Check, Expect};
use crate::claim::Claim;
use crate::results::Results;
use crate::studies::days::{DAYS, Days, DirtyData, Load, shares};

/// The claim, with the rows write-saving, latency-cdf and flush-async.
pub(crate) const CLAIM: Claim = Claim {
    id: "cut-and-paste",
    source: "CP 5",
    says: "writing later saves time: UPS, then NVRAM by whole files, by blocks, then 30 s, but not \
           under floods of writes (sprite-1991 stands in for the traces of Sprite)",
    needs: Vec::new,
    judge,
};

/// The most days on which the order may be another: the paper's is on all but one.
const EXCEPT: usize = 1;

const STANDS_IN: &str = "open: sprite-1991 stands in for the traces";
const FULL: &str = "open: probably new files of some megabytes fill the 4 MB of NVRAM and wait for the disk, as the paper \
    found on its trace 1b. 64% of the bytes are in files of a megabyte and more, and were 40% in trace 1, a figure that is \
    held out (--loads). With the users as they were remembered it holds (--without users)";

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
    let pairs = DirtyData::ALL.windows(2).map(|two| (two[0], two[1]));
    let mut checks: Vec<Check> = pairs
        .map(|(better, worse)| {
            let what = format!(
                "users like Sprite's: days of {DAYS} on which the mean latency of {} is below that of {}",
                better.name(),
                worse.name()
            );
            let check = Check::order(what, most, days.days_below(better, worse));
            check.because(if worse == DirtyData::Seconds { FULL } else { STANDS_IN })
        })
        .collect();
    let written = |kept| {
        let of = days.of(Load::Day(1), kept, None);
        of.map_or(f64::NAN, |f| {
            f.disks.iter().map(|d| d.disk_use.written_bytes).sum::<u64>() as f64
        })
    };
    let what = "users like Sprite's: bytes that the disks wrote, UPS / 30 s, first day";
    checks.push(Check::order(
        what,
        Expect::AtMost(1.0),
        written(DirtyData::Ups) / written(DirtyData::Seconds),
    ));
    let nvram = written(DirtyData::NvramFiles) / written(DirtyData::Seconds);
    let what = "users like Sprite's: the same, NVRAM by whole files / 30 s";
    checks.push(Check::order(what, Expect::AtMost(1.0), nvram));
    checks
}

/// The two traces with another order, by hand: "not much" is a tenth. The loads were made to show what the paper
/// found, so that they show it says little.
fn reversed(days: &Days) -> Vec<Check> {
    let hits = |kept| {
        let of = days.of(Load::Flood, kept, None);
        // The last file system has all the load.
        of.and_then(|f| f.file_systems.last()).map_or(f64::NAN, |fs| fs.cache_hit_share)
    };
    vec![
        Check::fitted(
            "by hand, after trace 5: mean latency under a flood of writes, UPS / 30 s",
            Expect::AtLeast(0.9),
            days.ratio(Load::Flood, DirtyData::Ups, DirtyData::Seconds),
        ),
        Check::fitted(
            "by hand, after trace 5: share of look-ups that hit, UPS / 30 s",
            Expect::AtMost(1.0),
            hits(DirtyData::Ups) / hits(DirtyData::Seconds),
        ),
        Check::fitted(
            "by hand, after trace 1b: mean latency under parallel writes, NVRAM by whole files / 30 s",
            Expect::AtLeast(0.9),
            days.ratio(Load::Parallel, DirtyData::NvramFiles, DirtyData::Seconds),
        ),
    ]
}

/// The distribution of latencies: figures 2 to 4, of the first day.
fn form(days: &Days) -> Vec<Check> {
    let below = |us: f64| {
        let shares =
            days.of(Load::Day(1), DirtyData::Seconds, None).map(shares).unwrap_or_default();
        let below = shares.iter().take_while(|(value, _)| *value <= us).last();
        below.map_or(f64::NAN, |(_, share)| *share)
    };
    let what = |what: &str| format!("users like Sprite's, 30 s: {what}");
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
            "open: each of our users' reads of a whole file takes several requests; the paper measured \
             each read of its traces",
        ),
        Check::order(
            what("operations beyond 17 ms: queues and several tracks"),
            Expect::AtLeast(0.001),
            1.0 - below(17e3),
        ),
    ]
}

/// Section 5.2: who needs room and flushes himself is delayed more than who waits for the flusher. On the
/// load by hand, which was made with the paper in view.
fn needers(days: &Days) -> Vec<Check> {
    let writes = |kept, by| {
        let of = days.of(Load::Parallel, kept, by);
        let verb =
            of.and_then(|f| f.whole.verbs.iter().find(|verb| verb.verb == Verb::Write.name()));
        verb.map_or(f64::NAN, |verb| verb.latency.mean_us)
    };
    let one = |kept: DirtyData| {
        let ours = writes(kept, Some(FlushBy::Needer)) / writes(kept, None);
        let what = format!(
            "by hand, after trace 1b: mean latency of writes, {}, needers flush / a flusher does",
            kept.name()
        );
        Check::fitted(what, Expect::AtLeast(1.0), ours)
    };
    vec![one(DirtyData::NvramFiles), one(DirtyData::NvramBlocks)]
}
