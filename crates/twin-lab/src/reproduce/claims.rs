//! The claims, as data: those of the two papers on performance rather than ageing.

use super::clc::{self, System};
use super::runs::{
    BANDWIDTH, BSD_LFS_4K, BY_SIZE, SCALE, SIZES_KB, SPRITE_BANDWIDTH, SYSTEMS, all_sizes, andrew,
    each, large, rate, small, tpcb,
};
use super::{Check, Claim, Expect, Need, Results};

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
        "LFS is 10, 4, 2 and 1 times FFS at 1, 2, 32 and 512 KB",
        all_sizes,
        create_by_size
    ),
    claim!(
        "read-by-size",
        "LvC 3.2, fig. 4",
        "comparable below 64 KB with a dip at 16 KB; a drop past 64 KB; the bus at the end",
        all_sizes,
        read_by_size
    ),
    claim!(
        "overwrite-by-size",
        "LvC 3.3, fig. 5",
        "LFS ahead up to 256 KB, FFS-m8r2 ahead by about 15% past it; both dip at 64 KB",
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
    super::tpcb_cleaner::CLAIM,
    claim!(
        "tpcb-segment",
        "LvC 4",
        "115 transactions make a log write of 700 KB",
        || vec![tpcb("bsd-lfs")],
        tpcb_segment
    ),
    claim!(
        "efs-table",
        "CLC 3",
        "the table of bandwidths by file size: 94 cells",
        clc::needs,
        efs_table
    ),
    claim!(
        "efs-small",
        "CLC 3",
        "LFS 7 times EFS creating small files, up to 50% slower reading medium ones",
        clc::needs,
        efs_small
    ),
    claim!(
        "efs-async",
        "CLC 3",
        "EFS without synchronous writes recovers part of the gap at small files, not all",
        efs_async_needs,
        efs_async
    ),
    claim!(
        "andrew",
        "CLC 3",
        "Andrew: one user, LFS 10% ahead; several users, equal within noise",
        || {
            let configs = ["efs", "bsd-lfs-1994"];
            let both = |users| configs.map(|c| andrew(c, users));
            both(1).into_iter().chain(both(4)).collect()
        },
        andrew_times
    ),
    super::heuristic::CLAIM,
];

fn share(results: &Results, need: &Need, phase: &str) -> f64 {
    results.phase(need, phase).and_then(|p| p.cpu_share).unwrap_or(f64::NAN)
}

/// Why the ratios of small files to FFS are larger than in the paper.
const SMALL: &str = "our FFS waits for its synchronous writes as long as in the table of 1994 \
    (26 files of 4 KB a second), a rotation or more for each of two; the paper of 1995 gives no \
    rates, only ratios";
const TWO_KB: &str = "the paper contradicts itself: figure 3 has \"4 to 10 times\" below 64 KB, its \
    text a fall from ten to four between 1 and 2 KB, though both sizes need the same writes in both \
    file systems; the table of 1994, of the same machine, has 7.3 at 4 KB and 7.1 at 8 KB";
const MEDIUM: &str = "the paper contradicts itself: figure 3 has \"4 to 10 times\" below 64 KB, its \
    text 2 at 32 KB; the table of 1994, with a gap between clusters, has 3.8, and FFS is reproduced as \
    in that table";
const HALF_MB: &str = "the papers differ: with a gap between clusters the table of 1994 has 1.4, and FFS \
    is reproduced as in that table";
/// Why deletes of files without indirect blocks differ more than in the paper.
const DELETES: &str = "our FFS takes 26 to 28 ms for a delete, two synchronous writes that wait as long \
    as those of the table of 1994; our LFS takes 1.4 ms of the processor, and with the paper's 73% \
    of it 2.0 ms would make ten times; the paper gives no rates that show which of the two differs";
const SEEKS: &str = "scaled by average accesses; but the file takes a third of the Wren IV's arm \
    travel and a tenth of the DSP 3105's, which outweighs the read-ahead that the paper blames";
const SPRITE: &str = "the paper says \"an order of magnitude\"; ours is 10.5 before it is scaled, the \
    \"almost ten times\" of Rosenblum and Ousterhout, and the paper's own scaling (2.5 for LFS, 1.7 for \
    FFS) makes 15 of that";
const FFS_CPU: &str = "ours takes 3 ms of the processor for a file, 0.9 ms more than LFS: three \
    requests and more, 0.25 ms each by the fitted constant; the paper's FFS takes less than its LFS";
const NO_OVERLAP: &str = "writers wait for the log, so the processor's time adds to the disk's, as \
    section 4 computes and section 2's 64% of the processor requires; with both overlapped, as in the table \
    of 1994, it is 52 to 61%, and for large files 60%";
const LOG_WRITES: &str = "by section 4 a log write of section 2 has 115 blocks of 4 KB, 460 KB, and writers \
    wait for it, while writers on the Sprite machine need not wait";
const CUT: &str = "LFS waits for the indirect block alone, 14 ms; FFS for it and for two synchronous \
    writes, 66 ms in all: the block is in another cylinder group, and the arm moves there and back";
const READ_AHEAD: &str = "the table of 1994 has a rise there too, from 1.35 to 1.50 MB/s; ours drops \
    where the indirect block begins, from 96 to 104 KB, and at 256 KB";

fn small_create(r: &Results) -> Vec<Check> {
    let rate = |c| r.rate(&small(c), "create");
    let ratio = |what: &str, a: f64, b: f64| {
        Check::new(format!("create: {what}"), Expect::Ratio(10.0), a / b).because(SMALL)
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
        Check::new(
            "create: processor used by BSD-LFS",
            Expect::Figure(0.64),
            share(r, &small(BSD_LFS_4K), "create"),
        ),
        Check::new(
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
        Check::new(
            "read: BSD-LFS / FFS-m8r2",
            Expect::Ratio(1.0),
            rate(BSD_LFS_4K) / rate("ffs-m8r2"),
        ),
        Check::new(
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
        Check::new("delete: BSD-LFS / FFS-m8r2", Expect::Ratio(10.0), ratio("ffs-m8r2"))
            .because(DELETES),
        Check::new(
            "delete: BSD-LFS / Sprite-LFS (scaled)",
            Expect::Ratio(2.0),
            rate(BSD_LFS_4K) / (rate("sprite-lfs") * SCALE.0),
        )
        .because("the paper calls its own figure baffling: deleting should cost more, not less"),
        Check::new(
            "delete: processor used by BSD-LFS",
            Expect::Figure(0.73),
            share(r, &small(BSD_LFS_4K), "delete"),
        )
        .because("a delete by our log waits for nothing but the processor until the last write"),
    ]
}

fn large_write(r: &Results) -> Vec<Check> {
    let rate = |c, phase| r.rate(&large(c), phase);
    let scaled = |phase| rate(BSD_LFS_4K, phase) / (rate("sprite-lfs", phase) * SCALE.1);
    vec![
        Check::new(
            "sequential write: BSD-LFS / Sprite-LFS (scaled)",
            Expect::Ratio(1.0),
            scaled("seq_write"),
        ),
        Check::new(
            "random write: BSD-LFS / Sprite-LFS (scaled)",
            Expect::Ratio(1.0),
            scaled("rand_write"),
        )
        .because(LOG_WRITES),
        Check::new(
            "sequential write: FFS-m1r2, part of the disk's bandwidth",
            Expect::Figure(0.33),
            rate("ffs-m1r2", "seq_write") / BANDWIDTH,
        ),
        Check::new(
            "sequential write: Sun-FFS, part of its disk's bandwidth",
            Expect::Figure(0.40),
            rate("sun-ffs", "seq_write") / SPRITE_BANDWIDTH,
        ),
    ]
}

fn large_read(r: &Results) -> Vec<Check> {
    let rate = |c, phase| r.rate(&large(c), phase);
    vec![
        Check::new(
            "sequential read: BSD-LFS / Sprite-LFS (scaled)",
            Expect::AtLeast(1.0),
            rate(BSD_LFS_4K, "seq_read") / (rate("sprite-lfs", "seq_read") * SCALE.1),
        ),
        Check::new(
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

fn create_by_size(r: &Results) -> Vec<Check> {
    let mut checks: Vec<Check> = [(1, 10.0), (2, 4.0), (32, 2.0), (512, 1.0)]
        .into_iter()
        .map(|(kb, paper)| {
            let ours = ratio(r, "create", "bsd-lfs", "ffs-m8r0", kb);
            let reason = match kb {
                1 => SMALL,
                2 => TWO_KB,
                32 => MEDIUM,
                _ => HALF_MB,
            };
            Check::new(format!("create {kb} KB: LFS / FFS-m8r0"), Expect::Ratio(paper), ours)
                .because(reason)
        })
        .collect();
    for (name, config, paper) in
        [("LFS", "bsd-lfs", 0.67), ("FFS-m8r0", "ffs-m8r0", 0.67), ("FFS-m8r2", "ffs-m8r2", 0.75)]
    {
        let ours = rate(r, config, 4096, "create") / BANDWIDTH;
        let what = format!("create 4 MB: {name}, part of the disk's bandwidth");
        checks.push(Check::new(what, Expect::Figure(paper), ours).because(NO_OVERLAP));
    }
    checks
}

fn read_by_size(r: &Results) -> Vec<Check> {
    let mut checks: Vec<Check> = [4, 8, 32]
        .into_iter()
        .map(|kb| {
            let ours = ratio(r, "read", "bsd-lfs", "ffs-m8r0", kb);
            Check::new(format!("read {kb} KB: LFS / FFS-m8r0"), Expect::Ratio(1.0), ours)
        })
        .collect();
    for (name, config) in BY_SIZE {
        let read = |kb| rate(r, config, kb, "read");
        let growth = (read(16) / read(8)) / (read(8) / read(4));
        checks.push(Check::new(
            format!("read: growth from 8 to 16 KB against that before, {name}"),
            Expect::AtMost(1.0),
            growth,
        ));
        checks.push(
            Check::new(
                format!("read: 128 KB / 64 KB, {name}"),
                Expect::AtMost(1.0),
                read(128) / read(64),
            )
            .because(READ_AHEAD),
        );
    }
    let drop = |c| rate(r, c, 128, "read") / rate(r, c, 64, "read");
    checks.push(Check::new(
        "read: the drop of FFS-m8r2 past 64 KB against LFS's",
        Expect::AtMost(1.0),
        drop("ffs-m8r2") / drop("bsd-lfs"),
    ));
    checks.push(Check::new(
        "read 32 MB: LFS, MB/s",
        Expect::Figure(2.3),
        rate(r, "bsd-lfs", 32_768, "read"),
    ));
    checks
}

fn overwrite_by_size(r: &Results) -> Vec<Check> {
    let mut checks: Vec<Check> = [4, 32, 64]
        .into_iter()
        .map(|kb| {
            let ours = ratio(r, "overwrite", "bsd-lfs", "ffs-m8r0", kb);
            Check::new(format!("overwrite {kb} KB: LFS / FFS-m8r0"), Expect::AtLeast(1.0), ours)
        })
        .collect();
    let large = ratio(r, "overwrite", "ffs-m8r2", "bsd-lfs", 4096);
    checks.push(Check::new("overwrite 4 MB: FFS-m8r2 / LFS", Expect::Ratio(1.15), large));
    checks
}

fn read_tuned(r: &Results) -> Vec<Check> {
    [("create", 1.15), ("read", 0.75)]
        .into_iter()
        .map(|(phase, paper)| {
            let ours = ratio(r, phase, "ffs-m8r2", "bsd-lfs", 4096);
            Check::new(format!("{phase} 4 MB: FFS-m8r2 / LFS"), Expect::Ratio(paper), ours)
        })
        .collect()
}

fn delete_by_size(r: &Results) -> Vec<Check> {
    let mut checks = Vec::new();
    for kb in [1, 16, 64] {
        let ours = ratio(r, "delete", "bsd-lfs", "ffs-m8r0", kb);
        let what = format!("delete {kb} KB: LFS / FFS-m8r0");
        checks.push(Check::new(what, Expect::Ratio(10.0), ours).because(DELETES));
    }
    for kb in [1024, 4096] {
        let ours = ratio(r, "delete", "bsd-lfs", "ffs-m8r0", kb);
        let what = format!("delete {kb} KB: LFS / FFS-m8r0");
        checks.push(Check::new(what, Expect::Between(3.0, 4.0), ours).because(CUT));
    }
    for (name, config) in BY_SIZE {
        let ours = rate(r, config, 104, "delete") / rate(r, config, 96, "delete");
        let what = format!("delete: with an indirect block / without, {name}");
        checks.push(Check::new(what, Expect::AtMost(0.9), ours));
    }
    checks
}

fn lfs_bandwidth(r: &Results) -> Vec<Check> {
    let all = SIZES_KB.iter().filter(|&&kb| (4..64).contains(&kb));
    let parts: Vec<f64> = all.map(|&kb| rate(r, "bsd-lfs", kb, "create") / BANDWIDTH).collect();
    let (low, high) = parts.iter().fold((f64::MAX, 0f64), |(l, h), &p| (l.min(p), h.max(p)));
    vec![
        Check::new("create 4 to 32 KB: the lowest part", Expect::Figure(0.43), low)
            .because(NO_OVERLAP),
        Check::new("create 4 to 32 KB: the highest part", Expect::Figure(0.65), high)
            .because(NO_OVERLAP),
    ]
}

fn tpcb_rates(r: &Results) -> Vec<Check> {
    let (lfs, ffs) = (r.rate(&tpcb("bsd-lfs"), "tx"), r.rate(&tpcb("ffs-m8r2"), "tx"));
    vec![
        Check::new("LFS, transactions/s", Expect::Figure(41.0), lfs),
        Check::new("FFS, transactions/s", Expect::Figure(27.0), ffs),
        Check::new("LFS / FFS", Expect::Ratio(1.5), lfs / ffs),
    ]
}

fn tpcb_segment(r: &Results) -> Vec<Check> {
    let phase = r.phase(&tpcb("bsd-lfs"), "tx");
    let writes = phase.and_then(|p| p.log_writes).unwrap_or(f64::NAN);
    let bytes = phase.and_then(|p| p.written_bytes).unwrap_or(f64::NAN);
    let transactions = phase.map_or(f64::NAN, |p| p.amount);
    vec![
        Check::new("transactions in a log write", Expect::Figure(115.0), transactions / writes)
            .because(
                "a quarter of our cache starts a log write; the paper's cache is not published",
            ),
        Check::new("KB of a log write", Expect::Figure(700.0), bytes / writes / 1024.0).because(
            "a quarter of our cache starts a log write; the paper's cache is not published",
        ),
        Check::new(
            "KB written for a transaction",
            Expect::Figure(700.0 / 115.0),
            bytes / transactions / 1024.0,
        ),
    ]
}

fn efs_table(r: &Results) -> Vec<Check> {
    let cells = clc::cells(r);
    let all = clc::score(cells.iter());
    let of = |system| clc::score(cells.iter().filter(|c| c.system == system));
    let count = |n: usize| n as f64;
    let at = |kb, column: &str, system| {
        let found = cells
            .iter()
            .find(|c| c.file_kb == kb && clc::COLUMNS[c.column].0 == column && c.system == system);
        found.map_or(f64::NAN, |c| c.ours)
    };
    let (e, l) = (System::Efs, System::Lfs);
    let ahead = [16, 32, 64].map(|kb| at(kb, "read", e) / at(kb, "read", l));
    vec![
        Check::new("cells scored", Expect::Between(94.0, 94.0), count(all.cells)),
        Check::new("median error, %", Expect::AtMost(4.0), all.median * 100.0),
        Check::new("cells within 10%", Expect::AtLeast(85.0), count(all.within_10)),
        Check::new("cells within 20%", Expect::AtLeast(count(all.cells)), count(all.within_20)),
        Check::new("median error of EFS's cells, %", Expect::AtMost(8.0), of(e).median * 100.0),
        Check::new("median error of LFS's cells, %", Expect::AtMost(8.0), of(l).median * 100.0),
        Check::new(
            "create 4 KB: LFS / EFS",
            Expect::Ratio(7.0),
            at(4, "write_a", l) / at(4, "write_a", e),
        ),
        Check::new(
            "read 16 to 64 KB: EFS / LFS, the least",
            Expect::AtLeast(1.0),
            ahead.into_iter().fold(f64::MAX, f64::min),
        ),
        Check::new(
            "read: EFS's drop from 64 to 128 KB",
            Expect::AtMost(0.75),
            at(128, "read", e) / at(64, "read", e),
        ),
    ]
}

fn efs_small(r: &Results) -> Vec<Check> {
    let rate = |system, kb, phase| r.rate(&clc::need(clc::config(system, false), kb), phase);
    let ratio = |kb, phase| rate(System::Lfs, kb, phase) / rate(System::Efs, kb, phase);
    let worst = clc::sizes_kb().into_iter().map(|kb| ratio(kb, "read")).fold(f64::MAX, f64::min);
    vec![
        Check::new("create 8 KB: LFS / EFS", Expect::Ratio(7.0), ratio(8, "create")),
        Check::new("read: LFS / EFS where LFS is worst", Expect::Ratio(1.35 / 2.16), worst),
    ]
}

fn efs_async_needs() -> Vec<Need> {
    let run = |kb| clc::need("efs-async".into(), kb);
    clc::needs().into_iter().chain(clc::sizes_kb().into_iter().map(run)).collect()
}

fn efs_async(r: &Results) -> Vec<Check> {
    let create = |config: String, kb| r.rate(&clc::need(config, kb), "create");
    let mut checks = Vec::new();
    for kb in [4, 8, 16, 32] {
        let efs = create(clc::config(System::Efs, false), kb);
        let lfs = create(clc::config(System::Lfs, false), kb);
        let part = (create("efs-async".into(), kb) - efs) / (lfs - efs);
        let what = format!("create {kb} KB: part of the gap that asynchrony closes");
        checks.push(Check::new(format!("{what}, at least some"), Expect::AtLeast(0.05), part));
        checks.push(Check::new(format!("{what}, not all"), Expect::AtMost(0.95), part));
    }
    checks
}

fn andrew_times(r: &Results) -> Vec<Check> {
    let seconds =
        |c: &str, users| r.phase(&andrew(c, users), "total").map_or(f64::NAN, |p| p.seconds);
    let gain = |users| seconds("efs", users) / seconds("bsd-lfs-1994", users);
    vec![
        Check::new("one user: EFS's time / LFS's", Expect::Figure(1.10), gain(1)),
        Check::new("four users: EFS's time / LFS's", Expect::Ratio(1.0), gain(4)),
    ]
}

/// The runs for all figures of the paper.
pub(super) fn figure_needs() -> Vec<Need> {
    let mut all = each(&SYSTEMS, small);
    all.extend(each(&SYSTEMS, large));
    all.extend(all_sizes());
    all.extend([tpcb("bsd-lfs"), tpcb("ffs-m8r2")]);
    all
}
