//! The named configurations: their settings and their sources.
//!
//! A preset is a list of settings in the form that a user would write, so that `twinfs presets` can
//! show all of them. A preset that builds on another begins with the settings of that one.

/// A named configuration.
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// The source of its figures.
    pub source: &'static str,
    /// The preset on which it builds, if any.
    pub base: Option<&'static str>,
    /// Its settings: key and value.
    pub sets: &'static [(&'static str, &'static str)],
    /// Whether it is compared by default.
    pub compared: bool,
}

const LVC: &str = "Logging versus Clustering 1995";
const CLC: &str = "A Comparison of Logging and Clustering 1994";
const CSRG: &str =
    "the sources of 4.4BSD at this date; docs/reproduction.md has file, version and date";

/// All presets: those of today first, then those of the papers.
pub fn presets() -> &'static [Preset] {
    PRESETS
}

/// The settings of the BSD machine that nobody has published: they are fitted to the table of 1994. Why
/// each has its value is declared where the papers are reproduced (`twinfs reproduce --choices`).
pub const FITTED_TO_1994: [(&str, &str); 5] = [
    ("bus-rate", "3900000"),
    ("command-us", "1200"),
    ("skews", "6/21"),
    ("request-us", "250"),
    ("copy-us", "200"),
];

/// The machine on which Seltzer et al. measured BSD. `twinfs reproduce --choices` lists what 4.4BSD's
/// source settles, with file and function: a twentieth of the 40 MB (paper of 1994) is buffers, and the
/// disk's queue is sorted in one direction.
const BSD_MACHINE: &[(&str, &str)] = &[
    ("disk", "dsp3105"),
    ("bus", "sparcstation-2"),
    ("cpu", "sparcstation-2"),
    ("queue", "c-look"),
    ("cache", "2M"),
    ("size", "full"),
    ("inodes", "346"),
    FITTED_TO_1994[0],
    FITTED_TO_1994[1],
    FITTED_TO_1994[2],
    FITTED_TO_1994[3],
    FITTED_TO_1994[4],
];

/// The log of 4.4BSD as it was from 1993 until "update from margo" of 8 May 1995: whole blocks, the newest
/// file first, partial segments with their own inodes, and one more copy of each block.
const LOG_OF_1993: &[(&str, &str)] = &[
    ("profile", "classic"),
    ("block", "8K"),
    ("frag", "8K"),
    ("flush", "half-buffers"),
    ("clean-step", "1M"),
    ("eager-indirect", "yes"),
    ("checkpoint-segments", "10"),
    ("reading", "two-first"),
    ("overwrite", "partial"),
    ("newest-first", "yes"),
    ("inodes-with-files", "yes"),
    ("log-copies", "yes"),
];

const PRESETS: &[Preset] = &[
    Preset {
        name: "lfs",
        about: "LFS, modern profile: log writes as segments fill",
        source: "this project's default, on a present-day hard disk with 64 MiB of cache",
        base: None,
        sets: &[],
        compared: true,
    },
    Preset {
        name: "lfs-delayed",
        about: "the same, writing back after 30 seconds as UNIX did",
        source: "Cut-and-Paste File Systems 1996, section 5.1: the 30-second delay",
        base: None,
        sets: &[("flush", "delayed")],
        compared: true,
    },
    Preset {
        name: "lfs-classic",
        about: "LFS with 4.4BSD's structures, indirect blocks with every log write, 30-second delay",
        source: "4.4BSD's on-disk structures on a present-day hard disk",
        base: None,
        sets: &[("profile", "classic"), ("flush", "delayed"), ("eager-indirect", "yes")],
        compared: true,
    },
    Preset {
        name: "lfs-ssd",
        about: "LFS, modern profile, on a SATA SSD",
        source: "this project's default on a present-day SSD",
        base: None,
        sets: &[("disk", "ssd-sata")],
        compared: false,
    },
    Preset {
        name: "bsd-machine",
        about: "the BSD machine of the papers, with an LFS: the base of the presets below",
        source: LVC,
        base: None,
        sets: BSD_MACHINE,
        compared: false,
    },
    Preset {
        name: "4.4bsd-1993-10-lfs",
        about: "4.4BSD's LFS of 14 October 1993, without fragments",
        source: CSRG,
        base: Some("bsd-machine"),
        sets: LOG_OF_1993,
        compared: false,
    },
    Preset {
        name: "4.4bsd-1994-01-lfs",
        about: "4.4BSD's LFS of 14 January 1994, with the overhauled read-ahead",
        source: CSRG,
        base: Some("4.4bsd-1993-10-lfs"),
        sets: &[("reading", "growing")],
        compared: false,
    },
    Preset {
        name: "lite2-lfs",
        about: "4.4BSD-Lite2's LFS of June 1995: fragments, and files in the order in which they were written",
        source: CSRG,
        base: Some("4.4bsd-1994-01-lfs"),
        sets: &[("frag", "1K"), ("newest-first", "no")],
        compared: false,
    },
    Preset {
        name: "bsd-lfs",
        about: "4.4BSD-LFS on the BSD machine: 8 KB blocks in 1 KB fragments, 1 MB segments",
        source: LVC,
        base: Some("lite2-lfs"),
        // Section 4: the log is written when 115 blocks are dirty.
        sets: &[("flush", "buffers")],
        compared: false,
    },
    Preset {
        name: "bsd-lfs-1994",
        about: "BSD-LFS before it had fragments, on the kernel of 1993",
        source: CLC,
        base: Some("4.4bsd-1993-10-lfs"),
        sets: &[],
        compared: false,
    },
    Preset {
        name: "sprite-lfs",
        about: "Sprite LFS on the Sprite machine: 4 KB blocks, 1 MB segments, no read-ahead",
        source: "Rosenblum and Ousterhout 1992, as Logging versus Clustering 1995 quotes it",
        base: Some("bsd-lfs"),
        sets: &[
            ("disk", "wren-iv"),
            ("bus", "sun-4-260"),
            ("bus-rate", "own"),
            ("skews", "own"),
            ("cpu", "sun-4-260"),
            ("copy-us", "own"),
            ("flush", "delayed"),
            ("cache", "4M"),
            ("inodes", "1000"),
            ("block", "4K"),
            ("frag", "4K"),
            ("reading", "one-by-one"),
            ("inodes-with-files", "no"),
            ("log-copies", "no"),
        ],
        compared: false,
    },
    Preset {
        name: "ffs",
        about: "FFS, modern profile with a journal, in clusters of 1 MB",
        source: "this project's default, on a present-day hard disk with 64 MiB of cache",
        base: None,
        sets: &[("layout", "ffs")],
        compared: true,
    },
    Preset {
        name: "ffs-sync",
        about: "the same with synchronous metadata in place of a journal",
        source: "the order of writes of 4.4BSD's FFS, on the preset ffs",
        base: Some("ffs"),
        sets: &[("ordering", "sync")],
        compared: true,
    },
    Preset {
        name: "bsd-ffs",
        about: "4.4BSD's FFS on the BSD machine: 8 KB blocks, synchronous metadata; base of those below",
        source: LVC,
        base: Some("bsd-machine"),
        sets: &[
            ("layout", "ffs"),
            ("profile", "classic"),
            ("ordering", "sync"),
            ("block", "8K"),
            ("frag", "1K"),
            // 16 cylinders, newfs's default.
            ("group", "6512K"),
            ("geometry", "5400/57/14"),
            ("flush", "delayed"),
            ("write-behind", "cluster"),
            ("reallocate", "no"),
            ("reading", "growing"),
            ("overwrite", "direct"),
        ],
        compared: false,
    },
    Preset {
        name: "4.4bsd-1993-10",
        about: "4.4BSD's FFS of 14 October 1993 as newfs made it: maxcontig 8, rotdelay 4 ms",
        source: CSRG,
        base: Some("bsd-ffs"),
        sets: &[("maxcontig", "8"), ("rotdelay", "4"), ("reading", "two-first")],
        compared: false,
    },
    Preset {
        name: "4.4bsd-1994-01",
        about: "4.4BSD's FFS of 14 January 1994, with the overhauled read-ahead",
        source: CSRG,
        base: Some("4.4bsd-1993-10"),
        sets: &[("reading", "growing")],
        compared: false,
    },
    Preset {
        name: "lite2",
        about: "4.4BSD-Lite2's FFS of June 1995: clusters are reallocated, maxcontig 7",
        source: CSRG,
        base: Some("4.4bsd-1994-01"),
        sets: &[("maxcontig", "7"), ("reallocate", "yes")],
        compared: false,
    },
    Preset {
        name: "ffs-m1r2",
        about: "FFS without clustering: maxcontig 1, rotdelay 2 blocks",
        source: LVC,
        base: Some("bsd-ffs"),
        sets: &[("maxcontig", "1"), ("rotdelay", "4")],
        compared: false,
    },
    Preset {
        name: "ffs-m8r2",
        about: "FFS tuned for writing: maxcontig 8, rotdelay 2 blocks",
        source: LVC,
        base: Some("bsd-ffs"),
        sets: &[("maxcontig", "8"), ("rotdelay", "4")],
        compared: false,
    },
    Preset {
        name: "ffs-m8r0",
        about: "FFS tuned for reading: maxcontig 8, rotdelay 0",
        source: LVC,
        base: Some("bsd-ffs"),
        sets: &[("maxcontig", "8"), ("rotdelay", "0")],
        compared: false,
    },
    Preset {
        name: "sun-ffs",
        about: "Sun's FFS on the Sprite machine: no clustering, rotdelay 1 block",
        source: LVC,
        base: Some("bsd-ffs"),
        sets: &[
            ("disk", "wren-iv"),
            ("bus", "sun-4-260"),
            ("bus-rate", "own"),
            ("skews", "own"),
            ("cpu", "sun-4-260"),
            ("copy-us", "own"),
            ("cache", "4M"),
            ("inodes", "1000"),
            ("geometry", "3600/45/9"),
            ("group", "3240K"),
            ("maxcontig", "1"),
            ("rotdelay", "4"),
            ("write-behind", "block"),
        ],
        compared: false,
    },
    Preset {
        name: "efs",
        about: "EFS: FFS with a gap of 8 KB between clusters of 64 KB, on the kernel of 1993",
        source: CLC,
        base: Some("4.4bsd-1993-10"),
        sets: &[("rotdelay", "3")],
        compared: false,
    },
    Preset {
        name: "efs-async",
        about: "the same without synchronous writes of metadata: scenario d",
        source: CLC,
        base: Some("efs"),
        sets: &[("ordering", "async")],
        compared: false,
    },
    Preset {
        name: "sunos-ffs",
        about: "SunOS's FFS on the ageing study's machine: maxcontig 7, rotdelay 0",
        source: "File Layout and File System Performance, TR-35-94",
        base: Some("bsd-ffs"),
        sets: &[
            ("disk", "m2694exa"),
            ("skews", "own"),
            ("cpu", "sparcstation-1"),
            ("copy-us", "own"),
            ("cache", "3276K"),
            ("geometry", "5400/89/15"),
            ("group", "8M"),
            ("maxcontig", "7"),
            ("rotdelay", "0"),
        ],
        compared: false,
    },
];
