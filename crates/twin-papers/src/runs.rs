//! The runs behind the claims and figures of Logging versus Clustering 1995, by name.

use super::{Need, Results};

/// BSD-LFS in section 2: "as in Rosenblum's tests, we use a 4 KB file system".
pub(super) const BSD_LFS_4K: &str = "bsd-lfs:block=4K";

/// The two LFS and three FFS of section 2, by preset.
pub(super) const SYSTEMS: [(&str, &str); 5] = [
    ("Sprite-LFS", "sprite-lfs"),
    ("BSD-LFS", BSD_LFS_4K),
    ("Sun-FFS", "sun-ffs"),
    ("BSD-FFS-m1r2", "ffs-m1r2"),
    ("BSD-FFS-m8r2", "ffs-m8r2"),
];

/// The three systems of section 3.
pub(super) const BY_SIZE: [(&str, &str); 3] =
    [("LFS", "bsd-lfs"), ("FFS-m8r2", "ffs-m8r2"), ("FFS-m8r0", "ffs-m8r0")];

/// Sizes of section 3 in KB; 96 KB is where the first indirect block begins.
pub(super) const SIZES_KB: [u64; 18] =
    [1, 2, 4, 8, 16, 32, 64, 96, 104, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768];

/// The disk's bandwidth of table 2, in MiB/s: 57 sectors of 512 bytes at 5400 rpm.
pub(super) const BANDWIDTH: f64 = 2.5;
/// The Sprite machine's bandwidth: table 2 has 1.4 against 2.5.
pub(super) const SPRITE_BANDWIDTH: f64 = 1.4;
/// Scale factors of table 2: processor, bandwidth, accesses.
pub(super) const SCALE: (f64, f64, f64) = (2.5, 1.8, 1.7);

pub(super) fn small(config: &str) -> Need {
    Need::new(config, "small:files=10000,size=1K")
}

pub(super) fn large(config: &str) -> Need {
    Need::new(config, "large:mb=100,random=100")
}

/// The four phases of section 3, create, read, write and delete, follow each other without emptying
/// the caches, as the paper describes them. Overwrites with fsync are not among them: they would
/// leave the log with a block of inodes for each file.
pub(super) fn sized(config: &str, kb: u64) -> Need {
    Need::new(config, format!("sizes:size={kb}K,total=32M,least=10,unit=4M,warm=yes,synced=no"))
}

/// The database of section 4: a million records in a file of 237 MB with pages of 4 KB, 4 MB of
/// which the database caches. Its log is on another disk.
pub(super) fn tpcb(layout: &str) -> Need {
    let bench = "tpcb:transactions=3000,accounts=1048576,page=17,cached=1000,log=no,scan=no";
    Need::new(format!("{layout}:block=4K"), bench)
}

pub(super) fn andrew(config: &str, users: u64) -> Need {
    Need::new(config, format!("andrew:users={users}"))
}

/// Runs of a list of configurations.
pub(super) fn each(systems: &[(&str, &str)], run: fn(&str) -> Need) -> Vec<Need> {
    systems.iter().map(|(_, config)| run(config)).collect()
}

/// Runs for all sizes.
pub(super) fn all_sizes() -> Vec<Need> {
    let all = BY_SIZE.iter().flat_map(|(_, c)| SIZES_KB.iter().map(|&kb| sized(c, kb)));
    all.collect()
}

/// The rate for a size.
pub(super) fn rate(results: &Results, config: &str, kb: u64, phase: &str) -> f64 {
    results.rate(&sized(config, kb), phase)
}

/// Configurations of today, for the last part of the report.
pub(super) const TODAY: [(&str, &str, &str); 4] = [
    ("LFS, 7200 rpm disk", "lfs", "disk"),
    ("FFS, 7200 rpm disk", "ffs", "disk"),
    ("LFS, SATA SSD", "lfs:disk=ssd-sata", "ssd"),
    ("FFS, SATA SSD", "ffs:disk=ssd-sata", "ssd"),
];

/// Sizes of today's sweep in KB.
pub(super) const TODAY_KB: [u64; 9] = [1, 4, 8, 16, 64, 256, 1024, 4096, 32768];

pub(super) fn today(config: &str, kb: u64) -> Need {
    Need::new(config, format!("sizes:size={kb}K,total=32M,unit=4M"))
}

/// TPC-B of today: a database of 24 MB behind the database's own cache.
pub(super) fn today_tpcb(config: &str) -> Need {
    Need::new(config, "tpcb:transactions=3000,accounts=100000,cached=1000,log=no,scan=no")
}

/// Runs for the part on today's devices.
pub(super) fn present() -> Vec<Need> {
    let sizes = TODAY.iter().flat_map(|(_, c, _)| TODAY_KB.iter().map(|&kb| today(c, kb)));
    sizes.chain(TODAY.iter().map(|(_, c, _)| today_tpcb(c))).collect()
}
