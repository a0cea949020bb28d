//! The published figures of the traces of Sprite, by which a workload can be measured.
//!
//! All are from the text and the tables of Baker, Hartman, Kupfer, Shirriff and Ousterhout ("Measurements of a
//! Distributed File System", SOSP 1991), and of Baker, Asami, Deprit, Ousterhout and Seltzer ("Non-Volatile
//! Memory for Fast, Reliable File Systems", ASPLOS 1992), which read the same eight traces of a day; the project's
//! own copies of both are in public (the repository OSPreservProject/sprite, papers/sprite-measurements.ps and
//! nvram.ps). The range of a figure is that of the traces, where the papers have it; else it is 15% around the value.
//!
//! Which figures a search may use is said here, once: those of 1991 on which parameters of the generator depend.
//! The others are held out, and all of 1992, because the effect of an NVRAM is what studies of servers ask for.

use twin_trace::AccessStats;

use crate::Published;

/// The place of a figure in the paper of 1991.
macro_rules! of_1991 {
    ($place:literal) => {
        concat!("Baker 1991, ", $place)
    };
}

macro_rules! of_1992 {
    ($place:literal) => {
        concat!("Baker 1992, ", $place)
    };
}

const fn percent(
    what: &'static str,
    value: f64,
    range: (f64, f64),
    place: &'static str,
    of: fn(&AccessStats) -> f64,
) -> Published {
    Published { what, unit: "%", value, range, place, confirmed: true, given: true, of }
}

const fn held_out(published: Published) -> Published {
    Published { given: false, ..published }
}

/// A figure without a range.
const fn about(
    what: &'static str,
    (value, unit): (f64, &'static str),
    place: &'static str,
    of: fn(&AccessStats) -> f64,
) -> Published {
    let range = (value * 0.85, value * 1.15);
    Published { what, unit, value, range, place, confirmed: true, given: true, of }
}

fn of(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

/// The published figures. The opens in an hour are those of all traces (table 1: 1,357,540 in 191.8 hours) over the
/// mean number of active users (table 2: 9.1), and the range has the traces one by one with the same number.
pub(crate) const FIGURES: &[Published] = &[
    percent("accesses that read only", 88.0, (82.0, 94.0), of_1991!("table 3"), |s| {
        s.share(s.read_only)
    }),
    percent("accesses that write only", 11.0, (6.0, 17.0), of_1991!("table 3"), |s| {
        s.share(s.write_only)
    }),
    percent("read-only accesses to whole files", 78.0, (64.0, 91.0), of_1991!("table 3"), |s| {
        of(s.read_whole, s.read_only)
    }),
    percent("write-only accesses to whole files", 67.0, (50.0, 79.0), of_1991!("table 3"), |s| {
        of(s.written_whole, s.write_only)
    }),
    percent("bytes of write-only accesses", 19.0, (7.0, 36.0), of_1991!("table 3"), |s| {
        s.share_of_bytes(s.write_only_bytes)
    }),
    about("files open for less than 0.25 s", (75.0, "%"), of_1991!("4.2, figure 3"), |s| {
        s.share(s.open_briefly)
    }),
    about("sequential runs below 10 KB", (80.0, "%"), of_1991!("4.2, figure 1"), |s| {
        of(s.short_runs, s.runs)
    }),
    Published {
        what: "opens of an active user",
        unit: "/h",
        value: 778.0,
        range: (531.0, 1260.0),
        place: of_1991!("tables 1 and 2"),
        confirmed: true,
        given: true,
        of: AccessStats::accesses_per_active_hour,
    },
    about("throughput of an active user, by 10 minutes", (8.0, "KB/s"), of_1991!("table 2"), |s| {
        s.bytes_per_active_s() / 1e3
    }),
    about(
        "throughput of an active user, by 10 seconds",
        (47.0, "KB/s"),
        of_1991!("table 2"),
        |s| s.bytes_per_burst_s() / 1e3,
    ),
    percent(
        "deleted files that lived less than 30 s",
        72.5,
        (65.0, 80.0),
        of_1991!("4.3, figure 4"),
        |s| of(s.deaths_soon, s.deaths),
    ),
    percent("new bytes that die within 30 s", 15.5, (4.0, 27.0), of_1991!("4.3"), |s| {
        s.share_of_written(s.dead_soon_bytes)
    }),
    about(
        "dead bytes that lived less than 6 min",
        (73.0, "%"),
        of_1991!("figure 4, trace 1"),
        |s| of(s.dead_in_minutes_bytes, s.dead_bytes),
    ),
    held_out(about(
        "deleted files that lived less than 9 s",
        (70.0, "%"),
        of_1991!("figure 4, trace 6"),
        |s| of(s.deaths_very_soon, s.deaths),
    )),
    held_out(percent(
        "deletions of files, of opens",
        13.0,
        (7.6, 19.7),
        of_1991!("table 1"),
        |s| of(s.deaths, s.accesses),
    )),
    held_out(about(
        "accesses to files below 1 KB",
        (42.0, "%"),
        of_1991!("figure 2, trace 1"),
        |s| s.share(s.tiny),
    )),
    held_out(about(
        "bytes of files of 1 MB and more",
        (40.0, "%"),
        of_1991!("figure 2, trace 1"),
        |s| s.share_of_bytes(s.large_bytes),
    )),
    held_out(percent(
        "bytes in runs of more than 1 MB",
        32.5,
        (10.0, 100.0),
        of_1991!("4.2: at least 10"),
        |s| s.share_of_bytes(s.long_run_bytes),
    )),
    held_out(percent(
        "bytes of read-only accesses",
        80.0,
        (63.0, 93.0),
        of_1991!("table 3"),
        |s| s.share_of_bytes(s.read_only_bytes),
    )),
    held_out(percent(
        "read-only bytes in whole files",
        89.0,
        (46.0, 96.0),
        of_1991!("table 3"),
        |s| of(s.read_whole_bytes, s.read_only_bytes),
    )),
    held_out(percent(
        "write-only bytes in whole files",
        69.0,
        (56.0, 76.0),
        of_1991!("table 3"),
        |s| of(s.written_whole_bytes, s.write_only_bytes),
    )),
    held_out(percent(
        "written bytes that die within 30 s",
        42.5,
        (35.0, 50.0),
        of_1992!("2.3, without traces 3 and 4"),
        |s| s.share_of_written(s.dead_soon_bytes),
    )),
    held_out(about(
        "written bytes that die within 3 hours",
        (60.0, "%"),
        of_1992!("2.3: a few hours"),
        |s| s.share_of_written(s.dead_in_hours_bytes),
    )),
    held_out(about(
        "written bytes that die within the day",
        (65.6, "%"),
        of_1992!("table 2, without traces 3 and 4"),
        |s| s.share_of_written(s.dead_bytes),
    )),
];
