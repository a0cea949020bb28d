//! The arguments of `twinfs cache`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Output;
use crate::choices::{disks, policies};
use crate::size::Size;

/// The rules for objects of different sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectRules {
    /// As libCacheSim counts, where it differs from the papers.
    Libcachesim,
    /// As the papers say, with bytes in place of numbers of blocks.
    Paper,
}

/// Compare cache policies on a trace: the misses of each over the size of the cache.
///
/// The policies are those of mounts (`mount --replacement`) and simulations, and one that knows the
/// future, the optimum unless objects differ in size. Prints misses as a share of all accesses, or with --format csv and json as counts.
/// With --disk, a model of a disk also says how long it works for them: it reads what is missed and
/// writes what is dirty when it leaves the cache.
///
/// The trace may be a recording of twinfs, a block trace, a reference string or a trace of objects, also
/// compressed with zstd, gzip, bzip2 or xz; its format is recognized by its content.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    twinfs cache traces/server.tw                             all policies, sizes up to all it touches\n  \
    twinfs cache server.csv.zst --policies lru,arc --sizes 64M,1G --html curves.html\n  \
    twinfs cache OLTP.lis --frames 1000,5000                  a reference string\n  \
    twinfs cache objects.oracleGeneral.zst --objects          objects with sizes of their own\n  \
    twinfs cache traces/server.tw --disk hp97560              in time of a disk too\n\
    docs/caching.md explains how to choose a policy and a size.")]
pub(crate) struct Cache {
    /// The trace.
    #[arg(required_unless_present = "list")]
    pub(crate) trace: Option<PathBuf>,
    /// Take each request for a whole object with its own size: sizes of the cache then count bytes of
    /// objects. Otherwise blocks are cached.
    #[arg(long)]
    pub(crate) objects: bool,
    /// Policies, as lru,arc. Default: all.
    #[arg(long, value_delimiter = ',', value_name = "POLICIES", value_parser = policies)]
    pub(crate) policies: Vec<&'static str>,
    /// Sizes of the cache, as 64M,1G. Default: eleven shares of what the trace touches.
    #[arg(long, value_delimiter = ',', value_name = "SIZES", conflicts_with = "frames")]
    pub(crate) sizes: Vec<Size>,
    /// The same in blocks, as 1000,5000.
    #[arg(long, value_delimiter = ',', value_name = "BLOCKS", conflicts_with = "objects",
        value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) frames: Vec<u64>,
    /// Bytes of a block. The blocks of reference strings have no size and are taken to have this one.
    #[arg(long, default_value = "4K", conflicts_with = "objects", value_parser = block)]
    pub(crate) block: Size,
    /// The disk below the cache, by the name of its model.
    #[arg(long, value_name = "MODEL", value_parser = disks)]
    pub(crate) disk: Option<&'static str>,
    /// With --objects: how policies treat objects of different sizes. Default: libcachesim.
    #[arg(long, value_enum, requires = "objects")]
    pub(crate) rules: Option<ObjectRules>,
    /// The format of the trace, if it is not recognized; --list shows them.
    #[arg(long, value_name = "FORMAT", alias = "input-format")]
    pub(crate) trace_format: Option<String>,
    /// Of a trace that is damaged, use what comes before the damage.
    #[arg(long)]
    pub(crate) partial: bool,
    /// How many runs go on at a time. Default: one for each core. Results do not depend on it.
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Print the speed of the runs on standard error.
    #[arg(long)]
    pub(crate) speed: bool,
    /// Print the policies with their papers, the disks and the trace formats.
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
}

fn block(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    match size.0 {
        512..=16_777_216 if size.0.is_power_of_two() => Ok(size),
        _ => Err("a block has a power of two between 512 and 16M bytes".into()),
    }
}
