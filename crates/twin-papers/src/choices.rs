//! All that was chosen with the answer in view, and all that 4.4BSD's source settles.
//!
//! Contract: whatever a reproduction sets that its paper does not publish is declared here: the
//! numbers that were fitted ([`Basis::Fitted`]), the readings that nothing settles
//! ([`Basis::Chosen`]), and the behaviours that the source of 4.4BSD settles
//! ([`Basis::Settled`], with file and function, as in the history of the Computer Systems
//! Research Group). Every declaration that runs can show has the run without it:
//! `twinfs reproduce --without NAME` judges the paper so, and `--choices` prints the scores with
//! and without each. No score is written here.
//!
//! Five constants are fitted to the table of 1994 alone ([`crate::clc`]); the claims of 1995 are
//! judged with the same values. The search is in [`crate::fit`], which also fits them to half of
//! the table (`--cross-validate`); [`sensitivity`] measures the effect of 5% of each.

use twin_trace::nfs::Pauses;

use crate::clc;
use crate::need::Need;
use crate::paper::Paper;
use crate::progress::Progress;
use crate::running::run_all;
use crate::variation::{Layout, OtherAgeing, OtherServer, Variation, bsd, on, on_bsd, with};
use twin_bench::BenchFailure;
use twin_lab::FITTED_TO_1994;

/// What a declaration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A number that was set with some published result in view.
    Fitted,
    /// A reading or an assumption that no source settles.
    Chosen,
    /// The source of 4.4BSD settles it, or another publication.
    Settled,
}

impl Basis {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Fitted => "fitted",
            Basis::Chosen => "chosen",
            Basis::Settled => "settled",
        }
    }
}

/// A declaration.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// The value in use.
    pub value: &'static str,
    /// Why this value.
    pub reason: &'static str,
    /// What is published about it, or the file and function that settle it.
    pub source: &'static str,
    /// What the declaration is.
    pub basis: Basis,
    /// The papers whose results depend on it.
    pub papers: &'static [Paper],
    /// The number of numbers that it sets.
    pub numbers: usize,
    /// What takes its place without it; empty if no run shows that.
    pub instead: &'static str,
    /// The runs without it.
    pub without: Variation,
}

impl Choice {
    /// Whether there are runs without it.
    pub fn has_run(&self) -> bool {
        !self.instead.is_empty()
    }
}

/// A constant that is fitted to the table of 1994.
#[derive(Clone, Copy, Debug)]
pub struct Fitted {
    /// The configuration's key.
    pub key: &'static str,
    /// The fitted value.
    pub value: &'static str,
    /// The value times a factor.
    pub times: fn(f64) -> String,
}

fn times(value: f64, factor: f64) -> String {
    format!("{:.0}", value * factor)
}

const BUS_RATE: f64 = 3_900_000.0;
const COMMAND_US: f64 = 1200.0;
const REQUEST_US: f64 = 250.0;
const COPY_US: f64 = 200.0;

/// The constants that are fitted to the table of 1994, in the order of the search.
pub const FITTED: [Fitted; 5] = [
    fitted(0, |f| times(BUS_RATE, f)),
    fitted(1, |f| times(COMMAND_US, f)),
    fitted(2, |f| if f > 1.0 { "7/25".into() } else { "5/18".into() }),
    fitted(3, |f| times(REQUEST_US, f)),
    fitted(4, |f| times(COPY_US, f)),
];

/// A constant as the presets of the BSD machine set it.
const fn fitted(index: usize, times: fn(f64) -> String) -> Fitted {
    let (key, value) = FITTED_TO_1994[index];
    Fitted { key, value, times }
}

const BOTH: &[Paper] = &[Paper::Clc, Paper::Lvc];
const LVC: &[Paper] = &[Paper::Lvc];
const CLC: &[Paper] = &[Paper::Clc];
const HC: &[Paper] = &[Paper::Hc];
const CP: &[Paper] = &[Paper::Cp];
const FL: &[Paper] = &[Paper::Fl];

/// The fields of a declaration of one number, or of none, that has the usual form.
macro_rules! choice {
    ($basis:ident, $numbers:literal, $papers:ident, $name:literal, $what:literal, $value:expr,
     $reason:literal, $source:literal, instead $instead:literal, $without:expr) => {
        Choice {
            name: $name,
            what: $what,
            value: $value,
            reason: $reason,
            source: $source,
            basis: Basis::$basis,
            papers: $papers,
            numbers: $numbers,
            instead: $instead,
            without: $without,
        }
    };
}

const NUMBERS: &[Choice] = &[
    choice!(
        Fitted, 1, BOTH,
        "bus-rate",
        "bytes a second that the bus moves from the drive's buffer",
        FITTED[0].value,
        "64 KB are read in 28.9 ms in the table of 1994; at the published rate the bus alone takes \
         27.2, which leaves no time for commands and copies. 2.3 MB/s is what the medium sustains.",
        "LvC, table 1: at most 2.3 MB/s",
        instead "the published 2.3 MB/s",
        Variation::of_runs(|need| on_bsd(need, "bus-rate=own"))
    ),
    choice!(
        Fitted, 1, BOTH,
        "command-us",
        "microseconds for a command before the drive decodes it",
        FITTED[1].value,
        "driver, adapter and selection. With the drive's own 2 ms a write misses the gap of 8 KB \
         (3.1 ms) that EFS leaves for it, as the table's large writes do.",
        "nothing is published",
        instead "none",
        Variation::of_runs(|need| on_bsd(need, "command-us=0"))
    ),
    choice!(
        Fitted, 1, BOTH,
        "skews",
        "track and cylinder skew in sectors",
        FITTED[2].value,
        "files of 8 MB are read at 2.16 MB/s; with the RZ26's skews the medium gives 2.19 before \
         anything is lost. The ratio of the two is kept, so it is one number.",
        "nothing is published for the DSP 3105; the DEC RZ26, its sister, has 7 and 25",
        instead "the RZ26's 7/25",
        Variation::of_runs(|need| on_bsd(need, "skews=own"))
    ),
    choice!(
        Fitted, 1, BOTH,
        "request-us",
        "microseconds of the processor for a request",
        FITTED[3].value,
        "preparing a request and taking its interrupt; the drive waits meanwhile where nothing \
         overlaps.",
        "nothing is published",
        instead "500, the value assumed before the fit",
        Variation::of_runs(|need| on_bsd(need, "request-us=own"))
    ),
    choice!(
        Fitted, 1, BOTH,
        "copy-us",
        "microseconds of the processor for copying 4 KB between client and cache",
        FITTED[4].value,
        "the published copy takes 14.4 ms of the 28.9 in which the table of 1994 reads 64 KB from \
         a bus that needs most of the others: the two papers contradict each other.",
        "LvC 4: two copies take 1.8 ms, 0.9 ms each",
        instead "the published 900",
        Variation::of_runs(|need| on_bsd(need, "copy-us=900"))
    ),
    choice!(
        Fitted, 1, BOTH,
        "processor-scale",
        "the processor's time for operations: 2 ms to create a small file",
        "2 ms",
        "set so that BSD-LFS uses about 64% of the processor creating files, and FFS 5 to 6%; \
         these two figures are therefore not counted.",
        "nothing is published beyond these shares",
        instead "operations take no time; copies and requests take what they do",
        Variation::of_runs(|need| on_bsd(need, "cpu=free"))
    ),
    choice!(
        Fitted, 7, HC,
        "sessions",
        "the sessions of the requests: three mean pauses, the regularity of Maytag's, the exponent of \
         their lengths, the most that one writes, the changes that come alone",
        "60, 66 and 9 s; 12; 0.8; 4.2% of the file system; 0.5%",
        "set to the idle times of NFS-async and of Maytag's NFS-sync, to the amounts written between \
         cleanings and to the largest of them, sections 5.1 and 5.2; these figures are therefore not \
         counted.",
        "HC, table 2 has totals only",
        instead "pauses without memory, no changes in them",
        Variation { pauses: Pauses::Memoryless, ..Variation::NONE }
    ),
];

const READINGS: &[Choice] = &[
    choice!(
        Chosen, 0, CP,
        "nvram-reported",
        "when data leaves NVRAM",
        "when the disk has reported its write",
        "The disks report writes from their buffers. That these are emptied first is not said, and \
         the order of NVRAM and 30 s depends on it.",
        "CP 4: disks with immediate reporting",
        instead "when the disk has emptied its buffer",
        Variation::of_server(OtherServer::UntilDurable)
    ),
    choice!(
        Fitted, 7, CP,
        "users",
        "the parameters of the users that stand in for the traces: sprite-1991",
        "1200 accesses an hour in bursts of 42; 5% of those to own files to new ones; large files: 0.94%, and \
         17.5% of the new ones that live; these live 172 s in the median, with a spread of 1.5",
        "searched with published figures of the traces in view (--fit sprite-1991), and with no result of the paper: \
         rates, opens, sizes of runs, bytes written, lifetimes of files and bytes. Those of 1992 are held out \
         (--loads). Before, the users had as many numbers, set to figures from memory and not declared.",
        "Baker 1991, tables 1 to 3, sections 4.2 and 4.3",
        instead "the users as they were: sprite-like",
        Variation::of_server(OtherServer::RememberedUsers)
    ),
    choice!(
        Fitted, 2, CP,
        "loads-by-hand",
        "the two loads that stand in for the traces with another order",
        "512 MB of new data in parts of 64 KB beside reads; 32 writers of 1 MB at a time",
        "Only what kind of load it was is published: many large writes beside reads and looks at \
         attributes, and many large parallel writes. Ours are made to show what the paper found.",
        "CP 5.1, 5.2",
        instead "",
        Variation::NONE
    ),
    choice!(
        Chosen, 0, FL,
        "headers",
        "articles of news have headers",
        "586 bytes and a body with a median of 1610, so that an article has 3000 on average",
        "They had none, a median of 1700 bytes, and 29% were below 1 KB, which no article with a header of such a \
         length is likely to be. The spread of the bodies is assumed as before. Taken for the sources, before the \
         results with it were known.",
        "R. Adams, Usenet message content, net.news, 30 May 1985: 2,380,588 bytes of headers in 4063 articles; \
         Usenet flow analysis for June 1995, news.lists: 527.8 MB in 175,927 articles",
        instead "no header, a median of 1700 bytes",
        Variation::of_ageing(OtherAgeing::NoHeaders)
    ),
    choice!(
        Fitted, 2, HC,
        "locality",
        "which files requests go to, and the least garbage of a victim",
        "20% of the data reads and 98% of the others to one of 500 files used lately; 5%",
        "set to the volumes read from disk, and to the fact that Attic and Cellar never clean on \
         demand; these figures are therefore not counted.",
        "HC, table 2; 5.1",
        instead "",
        Variation::NONE
    ),
    choice!(
        Chosen, 0, HC,
        "stop",
        "when the cleaner stops",
        "when half of the segments that could be clean are",
        "that is 4.4BSD's. The paper does not say when its cleaner stops; its estimate of the time is for \
         as many clean segments as users write. A cleaner that goes on while a segment has 5% of garbage \
         works several times as long.",
        "libexec/lfs_cleanerd/clean.h 8.1 (4 June 1993), BUSY_LIM; HC 5.2: no more than 2750 s a day",
        instead "when no segment has 5% of garbage",
        Variation { cleans_on: true, ..Variation::NONE }
    ),
    choice!(
        Chosen, 0, HC,
        "interference",
        "what interference counts",
        "the blocks that the cleaner has still to write when a user's write is queued",
        "the text says writes, and that Maytag's is the least because of the smaller average size of cleaner \
         writes; the table's caption says requests.",
        "HC 5.1, table 3",
        instead "",
        Variation::NONE
    ),
    choice!(
        Chosen, 0, HC,
        "directories",
        "a directory is a block of 8 KB, whatever is read or changed in it",
        "8 KB",
        "4 KB would make the volume read from the cache half of the published one.",
        "HC 3: at most eight kilobytes of data in a request",
        instead "",
        Variation::NONE
    ),
    choice!(
        Chosen, 0, LVC,
        "tpcb-window",
        "the transactions of TPC-B with the cleaner that are counted",
        "30,000 to 40,000 after as many to 60,000, in which the log is written once",
        "the paper gives no numbers. The share of the rate that is left depends on them.",
        "nothing is published",
        instead "a tenth of both",
        Variation::of_runs(|need| Need::new(
            need.config.clone(),
            match need.bench.starts_with("tpcb:warm=") {
                true => need.bench.replace("0000,", "000,"),
                false => need.bench.clone(),
            },
        ))
    ),
    choice!(
        Chosen, 0, LVC,
        "df",
        "utilization of the log under TPC-B is what df shows, of 90% of the space",
        "90% is 81% of the log",
        "4.4BSD keeps 10% free and df counts without it; the paper does not say which it means. \
         Chosen when the result with 90% of the log was known.",
        "LvC 4: 48% and 90%",
        instead "utilization of the whole log",
        Variation::of_runs(whole_log)
    ),
    choice!(
        Chosen, 0, LVC,
        "remove",
        "the processor's time to remove a name",
        "0.8 ms, which goes with processor-scale",
        "with 1.5 ms for the log the share of the processor and the ratio for 10,000 files are both within the \
         paper's tolerance; with 2.1 ms the share is exactly the paper's, and the ratio 7.6. Neither was \
         taken: files of 2 to 32 KB would be deleted 7 times as fast, and it would be one free number more.",
        "LvC 2: 73% of the processor",
        instead "1.5 ms for the log",
        Variation::of_runs(|need| on(Layout::Lfs, need, "remove-us=1500"))
    ),
    choice!(
        Chosen, 0, CLC,
        "compile",
        "the processor time of the Andrew benchmark",
        "2 s for each of 17 source files, 4 s for linking",
        "assumed for a SparcStation II, on which the benchmark took minutes. Nearly all of the time is this, so it \
         decides both ratios of elapsed times.",
        "CLC 3 gives ratios and no seconds",
        instead "half of it",
        Variation::of_runs(|need| match need.bench.starts_with("andrew") {
            true => Need::new(need.config.clone(), format!("{},compile=1s", need.bench)),
            false => need.clone(),
        })
    ),
    choice!(
        Chosen, 0, CLC,
        "lfs-fragments",
        "BSD-LFS of 1994 has no fragments",
        "blocks of 8 KB",
        "the paper says so; declared because the preset of 1995 has them.",
        "CLC 3: LFS does not yet support fragments",
        instead "fragments of 1 KB",
        Variation::of_runs(|need| on_1994(need, "frag=1K"))
    ),
];

/// The run with this setting if it is one of BSD-LFS of 1994.
fn on_1994(need: &Need, settings: &str) -> Need {
    if need.config.starts_with("bsd-lfs-1994") { with(need, settings) } else { need.clone() }
}

/// TPC-B with the cleaner on logs of which the accounts take 48% and 90%. FFS stays: what it keeps
/// free is not under discussion.
fn whole_log(need: &Need) -> Need {
    let sizes = [
        ("size=558M", "size=502M"),
        ("size=412M", "size=371M"),
        ("size=335M", "size=301M"),
        ("size=298M", "size=268M"),
    ];
    let is = |(df, _): &&(&str, &str)| need.config.contains(df);
    let found = sizes.iter().find(is);
    found.map_or_else(|| need.clone(), |(_, log)| on(Layout::Lfs, need, log))
}

const SETTLED: &[Choice] = &[
    choice!(
        Settled, 0, BOTH,
        "cache",
        "memory for buffers",
        "2 MB, a twentieth of 40 MB",
        "it was 4 MB, and for two benchmarks of 1995 another size, one of them the size that makes \
         a log write of 700 KB. One machine has one cache.",
        "sys/sparc/sparc/machdep.c, cpu_startup: bufpages is a twentieth of the memory; CLC 3: 40 \
         MB",
        instead "4 MB",
        Variation::of_runs(|need| on_bsd(need, "cache=4M"))
    ),
    choice!(
        Settled, 0, LVC,
        "log-write",
        "when the log of 1995 is written",
        "more than a quarter of the buffers less ten are dirty: flush=buffers",
        "the paper says that this happens when 115 blocks are dirty, and a quarter of 512 buffers less ten \
         is 118. The source has a half from December 1992 on, 246, so the transactions in a log write are \
         not counted.",
        "LvC 4; sys/ufs/lfs/lfs_bio.c 7.15 (21 August 1992) to 7.18; sys/sparc/sparc/machdep.c 8.1 to 8.8, \
         cpu_startup",
        instead "a half less ten, as in the source",
        Variation::of_runs(|need| match need.config.split(':').next() {
            Some("bsd-lfs") => with(need, "flush=half-buffers"),
            _ => need.clone(),
        })
    ),
    choice!(
        Settled, 0, CLC,
        "log-write-1994",
        "when the log of 1994 is written",
        "more than a half of the buffers less ten are dirty: flush=half-buffers",
        "it was a quarter, as before December 1992. There are 512 buffers, one for each 4 KB of 2 MB; \
         indirect blocks become dirty with the write.",
        "sys/ufs/lfs/lfs_bio.c 7.19 (10 December 1992) to 8.10 (10 June 1995), lfs_check and \
         WRITE_THRESHHOLD; lfs_segment.c, lfs_updatemeta",
        instead "a quarter less ten",
        Variation::of_runs(|need| on_1994(need, "flush=buffers"))
    ),
    choice!(
        Settled, 0, CLC,
        "newest-first",
        "the log of 1994 begins with the newest file, and with the end of a file that spans partial segments",
        "newest-first=yes",
        "it was the order in which files became dirty, which came in May 1995 and which the paper of \
         1995 counts among its changes: it improves reading in the order of creation.",
        "sys/ufs/lfs/lfs_segment.c 8.1 (11 June 1993) to 8.7, lfs_writevnodes and lfs_gather go from the \
         heads of lists; sys/kern/vfs_subr.c, insmntque and bufinsvn insert there; 8.8 is of 8 May 1995; \
         LvC 2",
        instead "in the order in which files became dirty",
        Variation::of_runs(|need| on_1994(need, "newest-first=no"))
    ),
    choice!(
        Settled, 0, BOTH,
        "own-inodes",
        "each partial segment has the inodes of its own files",
        "inodes-with-files=yes",
        "blocks of inodes were filled. A partial segment ends where a summary of 512 bytes is full, \
         after some twenty small files, and is a request of its own.",
        "sys/ufs/lfs/lfs_segment.c 8.5 (4 January 1994) and 8.10 (10 June 1995), lfs_initseg (ibp is \
         NULL), lfs_writeinode, lfs_writefile and lfs_gatherblock (sum_bytes_left)",
        instead "full blocks of inodes",
        Variation::of_runs(|need| on(Layout::Lfs, need, "inodes-with-files=no"))
    ),
    choice!(
        Settled, 0, BOTH,
        "log-copies",
        "each block is copied once more into the request that writes it, and what the cleaner reads to it",
        "log-copies=yes",
        "nothing was copied.",
        "sys/ufs/lfs/lfs_segment.c 8.5 and 8.10, lfs_writeseg (bcopy, copyin); libexec/lfs_cleanerd/library.c \
         8.1 (4 June 1993), mmap_segment reads unless -m is given",
        instead "no copies",
        Variation::of_runs(|need| on(Layout::Lfs, need, "log-copies=no"))
    ),
    choice!(
        Settled, 0, LVC,
        "clean-step",
        "the cleaner reads a segment whole",
        "clean-step=1M",
        "it was read and moved in steps of 128 KB.",
        "libexec/lfs_cleanerd/library.c, mmap_segment: one read of a segment; \
         cleanerd.c, clean_segment: one lfs_markv for all of its blocks",
        instead "128 KB at a time",
        Variation::of_runs(|need| on(Layout::Lfs, need, "clean-step=128K"))
    ),
    choice!(
        Settled, 0, BOTH,
        "queue",
        "order of the disk's requests",
        "in one direction",
        "it was the elevator that turns.",
        "sys/ufs/ufs/ufs_disksubr.c, disksort: a one way scan",
        instead "the elevator that turns",
        Variation::of_runs(|need| on_bsd(need, "queue=look"))
    ),
    choice!(
        Settled, 0, BOTH,
        "inodes",
        "inodes in memory",
        "346",
        "it was 1000.",
        "sys/conf/param.c, NVNODE, with the 8 users of sys/sparc/conf/GENERIC.sparc",
        instead "1000",
        Variation::of_runs(|need| on_bsd(need, "inodes=1000"))
    ),
    choice!(
        Settled, 0, LVC,
        "writers",
        "writers do not wait for the log to be written",
        "writers-wait=no",
        "the presets of 1995 made them wait, which the paper's shares of the processor suggested.",
        "sys/ufs/lfs/lfs_subr.c, lfs_segunlock: it sleeps for the writes of SEGM_SYNC alone; \
         lfs_bio.c, lfs_flush calls lfs_segwrite without it",
        instead "writers-wait=yes",
        Variation::of_runs(|need| on(Layout::Lfs, need, "writers-wait=yes"))
    ),
    choice!(
        Settled, 0, CLC,
        "fsync",
        "fsync waits for the medium",
        "lazy-fsync=no",
        "the table's column (c) has more files of 4 and 8 KB durable in a second than the disk has \
         revolutions, which an fsync that waits cannot give. The presets of 1994 had one that does \
         not wait; the source waits in both file systems.",
        "sys/ufs/lfs/lfs_vnops.c, lfs_fsync: LFS_SYNC; lfs_inode.c, lfs_update: lfs_vflush; \
         sys/ufs/ffs/ffs_vnops.c, ffs_fsync: it sleeps until v_numoutput is 0",
        instead "lazy-fsync=yes",
        Variation::of_runs(|need| on_bsd(need, "lazy-fsync=yes"))
    ),
    choice!(
        Settled, 0, CLC,
        "reading-1994",
        "both file systems of 1994 read as 4.4BSD did before 12 January 1994",
        "reading=two-first",
        "it was the version of 12 January, a massive overhaul by its own words. The paper's abstract is \
         of 31 January, its figures are older, and the paper of 1995 says that read-ahead was largely \
         rewritten. EFS comes nearer to the table by it and BSD-LFS goes away from it.",
        "sys/kern/vfs_cluster.c 8.1 (10 June 1993) to 8.4 (4 January 1994), cluster_read; 8.5 is of 12 \
         January; LvC 2",
        instead "reading=growing",
        Variation::of_runs(|need| match need.config.starts_with("efs") {
            true => with(need, "reading=growing"),
            false => on_1994(need, "reading=growing"),
        })
    ),
    choice!(
        Settled, 0, CLC,
        "lfs-reading",
        "BSD-LFS of 1994 reads as the other file systems do",
        "reading=two-first",
        "it read direct blocks one by one, for which the table was the only evidence. Both file \
         systems call the same function.",
        "sys/ufs/ufs/ufs_readwrite.c 8.4 (4 January 1994), READ calls cluster_read",
        instead "reading=direct-singly",
        Variation::of_runs(|need| on_1994(need, "reading=direct-singly"))
    ),
    choice!(
        Settled, 0, CLC,
        "efs-reading",
        "EFS reads as the other file systems do",
        "reading=two-first",
        "it read whole clusters, as McVoy and Kleiman describe theirs.",
        "sys/ufs/ufs/ufs_readwrite.c 8.4 (4 January 1994), READ calls cluster_read",
        instead "reading=clusters",
        Variation::of_runs(|need| match need.config.starts_with("efs") {
            true => with(need, "reading=clusters"),
            false => need.clone(),
        })
    ),
    choice!(
        Settled, 0, LVC,
        "read-ahead",
        "the window of read-ahead doubles, and the first block is read alone",
        "reading=growing",
        "the first block of a file never counts as read in order.",
        "sys/kern/vfs_cluster.c, cluster_read and ISSEQREAD; LvC 2: largely rewritten",
        instead "reading=clusters",
        Variation::of_runs(|need| match bsd(&need.config) {
            Some(_) if !need.config.starts_with("efs") => with(need, "reading=clusters"),
            _ => need.clone(),
        })
    ),
    choice!(
        Settled, 0, BOTH,
        "lfs-overwrite",
        "the log reads a block unless the write covers it",
        "overwrite=partial",
        "only the size of the write counts.",
        "sys/ufs/lfs/lfs_balloc.c, lfs_balloc",
        instead "only what must be kept is read",
        Variation::of_runs(|need| on(Layout::Lfs, need, "overwrite=needed"))
    ),
    choice!(
        Settled, 0, BOTH,
        "ffs-overwrite",
        "FFS reads each direct block that it overwrites",
        "overwrite=direct",
        "an existing direct block is always fetched with bread.",
        "sys/ufs/ffs/ffs_balloc.c, ffs_balloc",
        instead "only what must be kept is read",
        Variation::of_runs(|need| on(Layout::Ffs, need, "overwrite=needed"))
    ),
    choice!(
        Settled, 0, BOTH,
        "indirect",
        "every log write takes the indirect blocks along",
        "eager-indirect=yes",
        "as LvC 4 says too.",
        "sys/ufs/lfs/lfs_segment.c, lfs_writefile gathers them with the data",
        instead "they wait for a checkpoint",
        Variation::of_runs(|need| on(Layout::Lfs, need, "eager-indirect=no"))
    ),
    choice!(
        Settled, 0, BOTH,
        "checkpoints",
        "segments between checkpoints",
        "10",
        "",
        "sys/ufs/lfs/lfs_segment.c, MAX_ACTIVE",
        instead "64",
        Variation::of_runs(|need| on(Layout::Lfs, need, "checkpoint-segments=64"))
    ),
    choice!(
        Settled, 0, BOTH,
        "buffer",
        "division of the drive's buffer of 256 KB",
        "9 segments of a track",
        "the RZ26 divides its own so. It was two halves filled to their ends, which nothing is \
         published for.",
        "DiskSim's parameters of the DEC RZ26",
        instead "the whole RZ26: ten segments, 5360 rpm",
        Variation::of_runs(|need| on_bsd(need, "disk=dec-rz26"))
    ),
];

/// All declarations: the fitted numbers, the readings, and what is settled.
pub fn all() -> impl Iterator<Item = &'static Choice> {
    NUMBERS.iter().chain(READINGS).chain(SETTLED)
}

/// The effect of each constant on the table: the scores with 5% less and with 5% more (skews: one
/// sector of a track).
///
/// # Errors
/// The first run that fails.
pub fn sensitivity(
    threads: usize,
    progress: &Progress,
) -> Result<Vec<(&'static Fitted, [clc::Score; 2])>, BenchFailure> {
    let variant = |need: &Need, f: &Fitted, factor: f64| {
        with(need, &format!("{}={}", f.key, (f.times)(factor)))
    };
    let mut needs = Vec::new();
    for f in &FITTED {
        for factor in [0.95, 1.05] {
            needs.extend(clc::needs().iter().map(|n| variant(n, f, factor)));
        }
    }
    let results = run_all(needs, threads, progress)?;
    let score = |f: &Fitted, factor: f64| {
        let cells = clc::cells_of(&results, |need| variant(&need, f, factor));
        clc::score(cells.iter())
    };
    Ok(FITTED.iter().map(|f| (f, [score(f, 0.95), score(f, 1.05)])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::claims;

    #[test]
    fn the_texts_of_the_constants_are_their_values() {
        for f in FITTED.iter().filter(|f| f.key != "skews") {
            assert_eq!((f.times)(1.0), f.value, "{}", f.key);
        }
    }

    #[test]
    fn every_declaration_has_a_name_of_its_own_and_changes_a_run_of_its_papers() {
        let mut names: Vec<_> = all().map(|c| c.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
        for choice in all().filter(|choice| choice.has_run()) {
            for paper in choice.papers {
                let of_paper = claims().iter().filter(|c| c.paper() == *paper);
                let needs: Vec<Need> = of_paper.flat_map(|c| (c.needs)()).collect();
                let changed = needs.iter().map(|n| (n, (choice.without.run)(n)));
                let changed: Vec<Need> =
                    changed.filter(|(n, without)| *n != without).map(|(_, w)| w).collect();
                let of_servers = choice.without.changes_servers()
                    || crate::studies::days::changes(&choice.without)
                    || choice.without.ageing.is_some();
                assert!(of_servers || !changed.is_empty(), "{} {paper:?}", choice.name);
                for need in changed {
                    twin_lab::Config::parse(&need.config).unwrap();
                }
            }
        }
    }
}
