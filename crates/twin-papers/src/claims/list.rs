//! The claims, as data, and the checks of those of Logging versus Clustering 1995.
//!
//! A statement about a range of sizes is judged at every size in it: by the size that is farthest
//! from the paper's figure, or by the least or the largest. Where the paper describes what a curve comes
//! to, it is judged by the plateau of ours; without one the statement does not hold.

use crate::runs::{
    BANDWIDTH, BSD_LFS_4K, BY_SIZE, SCALE, SIZES_KB, SPRITE_BANDWIDTH, SYSTEMS, all_sizes, each,
    large, rate, small, tpcb,
};

use crate::check::{Check, Expect};
use crate::claim::Claim;
use crate::need::Need;
use crate::results::Results;

use super::{
    aged_speeds, cut_and_paste, file_layout, heuristic, real_log, table, tpcb_cleaner, tpcb_parts,
};

/// All claims, in the order of the report.
pub fn claims() -> &'static [Claim] {
    CLAIMS
}

macro_rules! claim {
    ($id:literal, $source:literal, $says:literal, $needs:expr, $judge:path) => {
        Claim { id: $id, source: $source, says: $says, needs: $needs, judge: $judge }
    };
}

const CLAIMS: &[Claim] = &[
    claim!(
        "small-create",
        "LvC 2, fig. 1",
        "10,000 files of 1 KB: both LFS create about ten times as fast as every FFS",
        || each(&SYSTEMS, small),
        small_create
    ),
    claim!(
        "small-read",
        "LvC 2, fig. 1",
        "reading them back: LFS and FFS comparable, BSD-LFS ahead of Sprite-LFS",
        || each(&SYSTEMS, small),
        small_read
    ),
    claim!(
        "small-delete",
        "LvC 2, fig. 1",
        "both LFS delete about ten times as fast as FFS",
        || each(&SYSTEMS, small),
        small_delete
    ),
    claim!(
        "large-write",
        "LvC 2, fig. 2",
        "100 MB in 8 KB units: both LFS write alike; FFS without clusters gets a third of the disk",
        || each(&SYSTEMS, large),
        large_write
    ),
    claim!(
        "large-read",
        "LvC 2, fig. 2",
        "BSD-LFS reads ahead: faster than Sprite-LFS in order, slower at random",
        || each(&SYSTEMS, large),
        large_read
    ),
    claim!(
        "create-by-size",
        "LvC 3.1, fig. 3",
        "LFS is 10, 4, 2 and 1 times FFS at 1, 2, 32 and 512 KB; from there on 67% of the disk",
        all_sizes,
        create_by_size
    ),
    claim!(
        "read-by-size",
        "LvC 3.2, fig. 4",
        "comparable below 64 KB with a dip at 16 KB; a dip past 64 KB, steeper for FFS; the bus at \
         the end",
        all_sizes,
        read_by_size
    ),
    claim!(
        "overwrite-by-size",
        "LvC 3.3, fig. 5",
        "LFS ahead below the cluster size, FFS-m8r2 by 15% past 256 KB; a drop at 64 KB",
        all_sizes,
        overwrite_by_size
    ),
    claim!(
        "read-tuned",
        "LvC, abstract",
        "FFS tuned for writing writes large files 15% faster than LFS and reads them 25% slower",
        all_sizes,
        read_tuned
    ),
    claim!(
        "delete-by-size",
        "LvC 3.4, fig. 6",
        "LFS deletes ten times as fast up to 64 KB, 3 to 4 times for larger files",
        all_sizes,
        delete_by_size
    ),
    claim!(
        "lfs-bandwidth",
        "LvC 3.5",
        "below the cluster size LFS writes at 43 to 65% of the disk's bandwidth",
        all_sizes,
        lfs_bandwidth
    ),
    claim!(
        "tpcb-no-cleaner",
        "LvC 4, fig. 7",
        "LFS 41 transactions a second, FFS 27: LFS 50% ahead",
        || vec![tpcb("bsd-lfs"), tpcb("ffs-m8r2")],
        tpcb_rates
    ),
    tpcb_cleaner::CLAIM,
    tpcb_cleaner::AT_80,
    claim!(
        "tpcb-segment",
        "LvC 4",
        "115 transactions make a log write of 700 KB",
        || vec![tpcb("bsd-lfs")],
        tpcb_segment
    ),
    tpcb_parts::CLAIM,
    table::TABLE,
    table::HELD_OUT,
    table::STATEMENTS,
    table::ASYNC,
    table::ANDREW,
    table::TPCB,
    heuristic::CLAIM,
    cut_and_paste::CLAIM,
    aged_speeds::CLAIM,
    file_layout::CLAIM,
    real_log::CLAIM,
];

fn share(results: &Results, need: &Need, phase: &str) -> f64 {
    results.phase(need, phase).and_then(|p| p.cpu_share).unwrap_or(f64::NAN)
}

/// Why the ratios of small files to FFS are larger than in the paper.
const SMALL: &str = "by 4.4BSD's source writers go on while the log is being written, so processor and \
    disk overlap and the log takes one and a half times as many files as with the serial writing that the \
    paper's 64% of the processor suggests; with it the ratio is within the paper's tolerance \
    (--without writers)";
const TWO_KB: &str = "the paper contradicts itself: figure 3 has \"4 to 10 times\" below 64 KB, its \
    text a fall from ten to four between 1 and 2 KB, though both sizes need the same writes in both \
    file systems; the table of 1994, of the same machine, has 7.3 at 4 KB and 7.1 at 8 KB";
const MEDIUM: &str = "the paper contradicts itself: figure 3 has \"4 to 10 times\" below 64 KB, its \
    text 2 at 32 KB; the table of 1994, with a gap between clusters, has 3.8";
const HALF_MB: &str = "the papers contradict each other: the paper of 1994 has 1.4 at this size, with a gap between clusters";
/// Why deletes of files without indirect blocks differ more than in the paper.
const DELETES: &str = "only files of 1 KB are beyond the tolerance; with 1.5 ms of the processor for a remove \
    they are at 9.7, but those of 32 KB fall to 6.9 (--without remove)";
const REMOVES: &str = "the price of a remove is not published; with 1.5 ms for the log in place of 0.8 the share \
    is 0.68 and small files are deleted 9.1 times as fast, but files of 32 KB 6.9 times (--without remove)";
const SEEKS: &str = "scaled by average accesses; but the file takes a third of the Wren IV's arm \
    travel and a tenth of the DSP 3105's, which outweighs the read-ahead that the paper blames";
const SPRITE: &str = "the paper says \"an order of magnitude\"; ours is 10.4 before it is scaled, the \
    \"almost ten times\" of Rosenblum and Ousterhout, and the paper's own scaling (2.5 for LFS, 1.7 for \
    FFS) makes 15 of that";
const FFS_CPU: &str = "ours takes 3 ms of the processor for a file: three requests and more, 0.25 ms each \
    by the fitted constant; the paper's FFS takes less than its LFS";
const PARTS: &str = "open: LFS loses a turn between two requests of 64 KB, as in the paper, and FFS moves to another cylinder \
    group for the indirect block";
const LOWEST: &str = "the paper contradicts itself: at 1 KB 43% of the disk would be 1,100 files a second, and 110 \
    for FFS if LFS is ten times as fast (3.1), where two synchronous writes a file at 90 revolutions a second \
    allow 45. From 4 KB on ours is 0.51 and more (parts of time)";
const NO_DIP: &str = "open: a file of 16 KB takes two requests here too. The drive has read the second block before it is \
    asked for, but without that 16 KB are read as fast as 8 KB, so that two requests alone make no dip \
    (experiment no-drive-read-ahead)";
const NO_DROP: &str = "open: the paper says that both lose a turn between two files, each of which takes two requests. FFS \
    has no drop either if it does not read the blocks that it overwrites (--without ffs-overwrite), nor the log \
    with full blocks of inodes (--without own-inodes), nor either without skews (experiment no-skews)";
const CUT: &str = "LFS waits for the indirect block alone, 14 ms; FFS for it and for two synchronous \
    writes, 66 ms in all: the block is in another cylinder group, and the arm moves there and back \
    (parts of time)";
const READ_AHEAD: &str = "the paper of 1994 has a rise past 64 KB too, for LFS; here the drop begins with the \
    indirect block, from 96 to 104 KB (parts of time)";

fn small_create(r: &Results) -> Vec<Check> {
    let rate = |c| r.rate(&small(c), "create");
    let ratio = |what: &str, a: f64, b: f64| {
        Check::paper(format!("create: {what}"), Expect::Ratio(10.0), a / b).because(SMALL)
    };
    vec![
        ratio("BSD-LFS / FFS-m8r2", rate(BSD_LFS_4K), rate("ffs-m8r2")),
        ratio("BSD-LFS / FFS-m1r2", rate(BSD_LFS_4K), rate("ffs-m1r2")),
        ratio(
            "Sprite-LFS / Sun-FFS, scaled as in the paper",
            rate("sprite-lfs") * SCALE.0,
            rate("sun-ffs") * SCALE.2,
        )
        .because(SPRITE),
        Check::fitted(
            "create: processor used by BSD-LFS",
            Expect::Figure(0.64),
            share(r, &small(BSD_LFS_4K), "create"),
        )
        .because(SMALL),
        Check::fitted(
            "create: processor used by FFS-m8r2",
            Expect::Between(0.05, 0.06),
            share(r, &small("ffs-m8r2"), "create"),
        )
        .because(FFS_CPU),
    ]
}

fn small_read(r: &Results) -> Vec<Check> {
    let rate = |c| r.rate(&small(c), "read");
    vec![
        Check::paper(
            "read: BSD-LFS / FFS-m8r2",
            Expect::Ratio(1.0),
            rate(BSD_LFS_4K) / rate("ffs-m8r2"),
        ),
        Check::order(
            "read: BSD-LFS / Sprite-LFS (scaled)",
            Expect::AtLeast(1.0),
            rate(BSD_LFS_4K) / (rate("sprite-lfs") * SCALE.1),
        ),
    ]
}

fn small_delete(r: &Results) -> Vec<Check> {
    let rate = |c| r.rate(&small(c), "delete");
    let ratio = |c| rate(BSD_LFS_4K) / rate(c);
    vec![
        Check::paper("delete: BSD-LFS / FFS-m8r2", Expect::Ratio(10.0), ratio("ffs-m8r2"))
            .because(DELETES),
        Check::paper(
            "delete: BSD-LFS / Sprite-LFS (scaled)",
            Expect::Ratio(2.0),
            rate(BSD_LFS_4K) / (rate("sprite-lfs") * SCALE.0),
        )
        .because("the paper calls its own figure baffling: deleting should cost more, not less"),
        Check::paper(
            "delete: processor used by BSD-LFS",
            Expect::Figure(0.73),
            share(r, &small(BSD_LFS_4K), "delete"),
        )
        .because(REMOVES),
    ]
}

fn large_write(r: &Results) -> Vec<Check> {
    let rate = |c, phase| r.rate(&large(c), phase);
    let scaled = |phase| rate(BSD_LFS_4K, phase) / (rate("sprite-lfs", phase) * SCALE.1);
    vec![
        Check::paper(
            "sequential write: BSD-LFS / Sprite-LFS (scaled)",
            Expect::Ratio(1.0),
            scaled("seq_write"),
        ),
        Check::paper(
            "random write: BSD-LFS / Sprite-LFS (scaled)",
            Expect::Ratio(1.0),
            scaled("rand_write"),
        ),
        Check::paper(
            "sequential write: FFS-m1r2, part of the disk's bandwidth",
            Expect::Figure(0.33),
            rate("ffs-m1r2", "seq_write") / BANDWIDTH,
        ),
        Check::paper(
            "sequential write: Sun-FFS, part of its disk's bandwidth",
            Expect::Figure(0.40),
            rate("sun-ffs", "seq_write") / SPRITE_BANDWIDTH,
        ),
    ]
}

fn large_read(r: &Results) -> Vec<Check> {
    let rate = |c, phase| r.rate(&large(c), phase);
    vec![
        Check::order(
            "sequential read: BSD-LFS / Sprite-LFS (scaled)",
            Expect::AtLeast(1.0),
            rate(BSD_LFS_4K, "seq_read") / (rate("sprite-lfs", "seq_read") * SCALE.1),
        ),
        Check::order(
            "random read with 4 KB blocks: BSD-LFS / Sprite-LFS (scaled)",
            Expect::AtMost(1.0),
            r.rate(&large(BSD_LFS_4K), "rand_read") / (rate("sprite-lfs", "rand_read") * SCALE.2),
        )
        .because(SEEKS),
    ]
}

fn ratio(r: &Results, phase: &str, a: &str, b: &str, kb: u64) -> f64 {
    rate(r, a, kb, phase) / rate(r, b, kb, phase)
}

/// The sizes of section 3 in a range, in KB.
fn sizes(range: impl std::ops::RangeBounds<u64>) -> impl DoubleEndedIterator<Item = u64> {
    SIZES_KB.into_iter().filter(move |kb| range.contains(kb))
}

/// The value that is farthest from the paper's, by its ratio to it; not a number if one is none.
fn farthest(paper: f64, values: impl Iterator<Item = f64>) -> f64 {
    let off = |ours: f64| (ours / paper).ln().abs();
    let worse = |a: f64, b: f64| if b.is_nan() || off(b) > off(a) { b } else { a };
    values.reduce(|a, b| if a.is_nan() { a } else { worse(a, b) }).unwrap_or(f64::NAN)
}

/// The largest value of a plateau by its least, and how many values there are at least.
const LEVEL: f64 = 1.1;
const OF_A_PLATEAU: usize = 3;

/// What a curve comes to: the median of as many of its last values as are level; not a number if these
/// are too few.
fn plateau(values: impl DoubleEndedIterator<Item = f64>) -> f64 {
    let mut level: Vec<f64> = Vec::new();
    for value in values.rev() {
        let all = || level.iter().copied().chain([value]);
        let is_level = most(all()) / least(all()) <= LEVEL;
        if !is_level {
            break;
        }
        level.push(value);
    }
    level.sort_by(f64::total_cmp);
    if level.len() < OF_A_PLATEAU { f64::NAN } else { level[level.len() / 2] }
}

/// The least value; not a number if one is none.
fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.reduce(|a, b| if a.is_nan() || a <= b { a } else { b }).unwrap_or(f64::NAN)
}

/// The largest value; not a number if one is none.
fn most(values: impl Iterator<Item = f64>) -> f64 {
    -least(values.map(|value| -value))
}

fn create_by_size(r: &Results) -> Vec<Check> {
    let of = |kb| ratio(r, "create", "bsd-lfs", "ffs-m8r0", kb);
    let mut checks: Vec<Check> = [(1, 10.0), (2, 4.0), (32, 2.0), (512, 1.0)]
        .into_iter()
        .map(|(kb, paper)| {
            let reason = match kb {
                1 => SMALL,
                2 => TWO_KB,
                32 => MEDIUM,
                _ => HALF_MB,
            };
            let what = format!("create {kb} KB: LFS / FFS-m8r0");
            Check::paper(what, Expect::Ratio(paper), of(kb)).because(reason)
        })
        .collect();
    checks.push(
        Check::paper(
            "create more than 512 KB: LFS / FFS-m8r0, the size farthest from it",
            Expect::Ratio(1.0),
            farthest(1.0, sizes(513..).map(of)),
        )
        .because(HALF_MB),
    );
    for (name, config, paper) in
        [("LFS", "bsd-lfs", 0.67), ("FFS-m8r0", "ffs-m8r0", 0.67), ("FFS-m8r2", "ffs-m8r2", 0.75)]
    {
        let parts = sizes(512..).map(|kb| rate(r, config, kb, "create") / BANDWIDTH);
        let what = format!("create large files: {name}, part of the disk, the plateau");
        let check = Check::paper(what, Expect::Figure(paper), plateau(parts));
        checks.push(check.because(PARTS));
    }
    checks
}

fn read_by_size(r: &Results) -> Vec<Check> {
    let of = |kb| ratio(r, "read", "bsd-lfs", "ffs-m8r0", kb);
    let mut checks = vec![Check::paper(
        "read below 64 KB: LFS / FFS-m8r0, the size farthest from it",
        Expect::Ratio(1.0),
        farthest(1.0, sizes(..64).map(of)),
    )];
    for (name, config) in BY_SIZE {
        let read = |kb| rate(r, config, kb, "read");
        checks.push(
            Check::order(
                format!("read: 16 KB / the slower of 8 and 32 KB, a dip, {name}"),
                Expect::AtMost(1.0),
                read(16) / least([read(8), read(32)].into_iter()),
            )
            .because(NO_DIP),
        );
        checks.push(
            Check::order(
                format!("read: 128 KB / 64 KB, a dip, {name}"),
                Expect::AtMost(1.0),
                read(128) / read(64),
            )
            .because(READ_AHEAD),
        );
    }
    let drop = |c: &str| rate(r, c, 128, "read") / rate(r, c, 64, "read");
    for name in ["FFS-m8r2", "FFS-m8r0"] {
        let config = name.to_lowercase();
        checks.push(Check::order(
            format!("read: 128 KB / 64 KB, {name}'s against LFS's"),
            Expect::AtMost(1.0),
            drop(&config) / drop("bsd-lfs"),
        ));
    }
    for (name, config) in [("LFS", "bsd-lfs"), ("FFS-m8r0", "ffs-m8r0")] {
        let ours = rate(r, config, 32_768, "read");
        checks.push(Check::paper(format!("read 32 MB: {name}, MB/s"), Expect::Figure(2.3), ours));
    }
    checks
}

fn overwrite_by_size(r: &Results) -> Vec<Check> {
    let mut checks = Vec::new();
    for name in ["FFS-m8r0", "FFS-m8r2"] {
        let config = name.to_lowercase();
        let of = |kb| ratio(r, "overwrite", "bsd-lfs", &config, kb);
        checks.push(Check::order(
            format!("overwrite below 64 KB: LFS / {name}, the least"),
            Expect::AtLeast(1.0),
            least(sizes(..64).map(of)),
        ));
    }
    for (name, config) in [("LFS", "bsd-lfs"), ("FFS-m8r0", "ffs-m8r0")] {
        let of = |kb| rate(r, config, kb, "overwrite");
        let what = format!("overwrite: 64 KB / 32 KB, a drop, {name}");
        checks.push(Check::order(what, Expect::AtMost(1.0), of(64) / of(32)).because(NO_DROP));
    }
    let large = |kb| ratio(r, "overwrite", "ffs-m8r2", "bsd-lfs", kb);
    checks.push(
        Check::paper(
            "overwrite large files: FFS-m8r2 / LFS, the plateau",
            Expect::Ratio(1.15),
            plateau(sizes(257..).map(large)),
        )
        .because(PARTS),
    );
    checks
}

fn read_tuned(r: &Results) -> Vec<Check> {
    [("create", 1.15), ("read", 0.75)]
        .into_iter()
        .map(|(phase, paper)| {
            let of = sizes(1024..).map(|kb| ratio(r, phase, "ffs-m8r2", "bsd-lfs", kb));
            let what = format!("{phase} 1 MB and more: FFS-m8r2 / LFS, the size farthest from it");
            Check::paper(what, Expect::Ratio(paper), farthest(paper, of))
        })
        .collect()
}

fn delete_by_size(r: &Results) -> Vec<Check> {
    let of = |kb| ratio(r, "delete", "bsd-lfs", "ffs-m8r0", kb);
    let range = Expect::Between(3.0, 4.0);
    let mut checks = vec![
        Check::paper(
            "delete 64 KB and less: LFS / FFS-m8r0, the size farthest from it",
            Expect::Ratio(10.0),
            farthest(10.0, sizes(..=64).map(of)),
        )
        .because(DELETES),
        Check::paper(
            "delete 1 MB and more: LFS / FFS-m8r0, the least",
            range,
            least(sizes(1024..).map(of)),
        )
        .because(CUT),
        Check::paper(
            "delete 1 MB and more: LFS / FFS-m8r0, the largest",
            range,
            most(sizes(1024..).map(of)),
        )
        .because(CUT),
    ];
    for (name, config) in BY_SIZE {
        let ours = rate(r, config, 104, "delete") / rate(r, config, 96, "delete");
        let what = format!("delete: with an indirect block / without, {name}");
        checks.push(Check::order(what, Expect::AtMost(0.9), ours));
    }
    checks
}

fn lfs_bandwidth(r: &Results) -> Vec<Check> {
    let parts = || sizes(..64).map(|kb| rate(r, "bsd-lfs", kb, "create") / BANDWIDTH);
    vec![
        Check::paper("create below 64 KB: the lowest part", Expect::Figure(0.43), least(parts()))
            .because(LOWEST),
        Check::paper("create below 64 KB: the highest part", Expect::Figure(0.65), most(parts()))
            .because(PARTS),
    ]
}

fn tpcb_rates(r: &Results) -> Vec<Check> {
    let (lfs, ffs) = (r.rate(&tpcb("bsd-lfs"), "tx"), r.rate(&tpcb("ffs-m8r2"), "tx"));
    vec![
        Check::paper("LFS, transactions/s", Expect::Figure(41.0), lfs),
        Check::paper("FFS, transactions/s", Expect::Figure(27.0), ffs),
        Check::forced("LFS / FFS, the quotient of the two", Expect::Ratio(1.5), lfs / ffs),
    ]
}

fn tpcb_segment(r: &Results) -> Vec<Check> {
    let phase = r.phase(&tpcb("bsd-lfs"), "tx");
    let writes = phase.and_then(|p| p.log_writes).unwrap_or(f64::NAN);
    let bytes = phase.and_then(|p| p.written_bytes).unwrap_or(f64::NAN);
    let transactions = phase.map_or(f64::NAN, |p| p.amount);
    vec![
        // The log is set to be written when as many blocks are dirty.
        Check::forced("transactions in a log write", Expect::Figure(115.0), transactions / writes),
        Check::paper("KB of a log write", Expect::Figure(700.0), bytes / writes / 1024.0),
        Check::forced(
            "KB written for a transaction, the quotient of the two",
            Expect::Figure(700.0 / 115.0),
            bytes / transactions / 1024.0,
        ),
    ]
}

/// The runs for all figures of the paper.
pub(crate) fn figure_needs() -> Vec<Need> {
    let mut all = each(&SYSTEMS, small);
    all.extend(each(&SYSTEMS, large));
    all.extend(all_sizes());
    all.extend([tpcb("bsd-lfs"), tpcb("ffs-m8r2")]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_bench as bench;
    use twin_lab::Config;

    #[test]
    fn a_plateau_is_what_a_curve_comes_to() {
        let of = |values: &[f64]| plateau(values.iter().copied());
        assert_eq!(of(&[0.4, 0.5, 0.66, 0.70, 0.67]), 0.67);
        assert!(of(&[0.4, 0.5, 0.6, 0.67]).is_nan(), "it still rises");
        assert!(of(&[]).is_nan() && of(&[f64::NAN; 3]).is_nan());
    }

    #[test]
    fn every_claim_has_a_name_of_its_own_and_runs_that_parse() {
        let mut names: Vec<_> = claims().iter().map(|c| c.id).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), claims().len());
        for need in claims().iter().flat_map(|c| (c.needs)()) {
            Config::parse(&need.config).unwrap();
            assert_eq!(bench::parse(&need.bench).map(|b| b.len()).unwrap_or(0), 1, "{need:?}");
        }
    }
}
