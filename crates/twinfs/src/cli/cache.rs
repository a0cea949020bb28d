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

/// Show the misses of cache policies at each cache size.
///
/// The policies are those of mounts (`mount --replacement`) and simulations, and one that knows the
/// future, which is the optimum if all objects have one size. Misses are printed as a share of all
/// accesses, and with --format csv or json as counts. With --disk, the model of a disk also shows how
/// long it works for them: it reads missed blocks, and writes dirty blocks that leave the cache.
///
/// The trace is a recording of twinfs, a block trace, a reference string or a trace of objects, also
/// compressed with zstd, gzip, bzip2 or xz. Its format is recognized by its content.
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
    /// Cache whole objects with sizes of their own, one for each request; cache sizes then count bytes
    /// of objects. Otherwise blocks are cached.
    #[arg(long)]
    pub(crate) objects: bool,
    /// The policies, such as lru,arc. Default: all.
    #[arg(long, value_delimiter = ',', value_name = "POLICIES", value_parser = policies)]
    pub(crate) policies: Vec<&'static str>,
    /// Sizes of the cache, such as 64M,1G. Default: eleven shares of the blocks that the trace touches.
    #[arg(long, value_delimiter = ',', value_name = "SIZES", conflicts_with = "frames")]
    pub(crate) sizes: Vec<Size>,
    /// Sizes of the cache in blocks, such as 1000,5000.
    #[arg(long, value_delimiter = ',', value_name = "BLOCKS", conflicts_with = "objects",
        value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) frames: Vec<u64>,
    /// Size of a block, a power of two from 512 to 16M. Reference strings, whose blocks have no size, are
    /// taken to have blocks of this size.
    // The old name is in pieces, because it is also the name of a policy.
    #[arg(long = "block-size", alias = concat!("blo", "ck"), default_value = "4K", conflicts_with = "objects", value_parser = block)]
    pub(crate) block: Size,
    /// The disk below the cache, such as hp97560.
    #[arg(long, value_name = "MODEL", value_parser = disks)]
    pub(crate) disk: Option<&'static str>,
    /// With --objects: how policies treat objects of different sizes. Default: libcachesim.
    #[arg(long, value_enum, requires = "objects")]
    pub(crate) rules: Option<ObjectRules>,
    /// The format of the trace, if it is not recognized; --list shows all formats.
    #[arg(long, value_name = "FORMAT", alias = "input-format")]
    pub(crate) trace_format: Option<String>,
    /// Use the part of a damaged or cut trace that is before the damage.
    #[arg(long)]
    pub(crate) partial: bool,
    /// How many runs go on at the same time. Default: one for each core. Results do not depend on it.
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Print how fast the runs were on standard error.
    #[arg(long = "timing", alias = "speed")]
    pub(crate) speed: bool,
    /// List the policies with their papers, the disks and the trace formats.
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
