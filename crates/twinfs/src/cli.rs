//! The command line: names, arguments and help.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use twin_lab::layouts::LAYOUTS;
use twin_lab::log_categories;
use twin_rt::{Categories, Category};

use crate::choices::{block_formats, foreign_formats, measures, placements, volume_victims};
use crate::size::Size;

mod age;
mod cache;
mod convert;
mod frontier;
mod gather;
mod manual;
mod measure;
mod mount;
mod observe;
mod serve;

pub(crate) use age::{Age, Forecast, Fork, Layout, Places, Snapshot, Start};
pub(crate) use cache::{Cache, ObjectRules};
pub(crate) use convert::Convert;
pub(crate) use frontier::Frontier;
pub(crate) use gather::Gather;
pub(crate) use manual::{Completions, Man};
pub(crate) use measure::{Calibrate, Pace, SharedSettings, Validate};
pub(crate) use mount::{Mount, MountChoice, Umount};
pub(crate) use observe::{Observe, ObserveMount};
pub(crate) use serve::{Beside, Serve};
pub(crate) use twin_cli::{Format, Output, Reproduce};

/// A file system with a twin: the same code, mounted and simulated.
#[derive(Parser)]
#[command(name = "twinfs", version, about, max_term_width = 100)]
#[command(after_help = "A first round:\n  \
    twinfs mkfs --layout lfs --size 4G disk.img   make a volume in a file\n  \
    mkdir -p mnt && twinfs mount disk.img mnt     use it\n  \
    twinfs umount mnt                             write it out and stop\n  \
    twinfs check disk.img                         see that it is sound\n  \
    twinfs dump disk.img                          look inside\n\n\
    Exit status: 0 if all that was asked for was done and found sound; 1 if something failed, was \
    found damaged, or was not done (what it was is on standard error); 2 if the command line is wrong; \
    130 after SIGINT (Ctrl-C), 143 after SIGTERM, 129 after SIGHUP, which end every command within \
    about a second and remove what it made for itself. docs/exit-codes.md has the details.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    Mkfs(Mkfs),
    Mount(Mount),
    Umount(Umount),
    Serve(Serve),
    Check(Check),
    Clean(Clean),
    Dump(Dump),
    Stat(Stat),
    Record(Record),
    Gather(Gather),
    Convert(Convert),
    Replay(Replay),
    Compare(Compare),
    Frontier(Frontier),
    Volume(Volume),
    Cache(Cache),
    Top(Top),
    Bench(Bench),
    Calibrate(Calibrate),
    Validate(Validate),
    Presets(Presets),
    Reproduce(Reproduce),
    Layout(Layout),
    Snapshot(Snapshot),
    Fork(Fork),
    Forecast(Forecast),
    Age(Box<Age>),
    Completions(Completions),
    Man(Man),
}

/// Which structures a volume has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// 64-bit, nanosecond times, checksums throughout, inline data, indexed directories,
    /// extended attributes.
    Modern,
    /// 4.4BSD's sizes: what the papers measured.
    Classic,
}

impl Profile {
    /// The name in settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Profile::Modern => "modern",
            Profile::Classic => "classic",
        }
    }
}

/// The layouts, with a line each for the help.
fn layouts() -> PossibleValuesParser {
    let all = LAYOUTS.iter().map(|kind| (kind.name(), kind.about()));
    choices(all.collect())
}

/// The policies of one kind in all layouts.
fn policies(title: &str) -> PossibleValuesParser {
    let all = LAYOUTS.iter().flat_map(|kind| kind.policies());
    choices(all.filter(|(kind, _)| *kind == title).flat_map(|(_, names)| names).collect())
}

/// The help of --log, with all categories.
fn log_help() -> String {
    let all = Category::ALL.iter().map(|(_, name, about)| format!("{name} ({about})"));
    let all = all.collect::<Vec<_>>().join(", ");
    format!("Tell of events of these categories, as cleaner,flush, a line each: {all}")
}

fn choices(all: Vec<(&'static str, &'static str)>) -> PossibleValuesParser {
    let value = |(name, about)| PossibleValue::new(name).help(about);
    all.into_iter().map(value).collect::<Vec<PossibleValue>>().into()
}

/// Make a volume in an image file or on a block device.
///
/// The image is made if it does not exist (then --size is needed); it takes space on the host
/// only as it fills up. What is there already must be blank: anything else, a file system, an
/// archive, a partition table or data that twinfs does not know, is named and left alone, unless
/// --force is given. A device that is mounted or in use is never touched.
///
/// Interrupted, it removes an image that it has made; what was overwritten is lost.
#[derive(Args)]
pub(crate) struct Mkfs {
    /// Which layout.
    #[arg(long, value_parser = layouts(), default_value = LAYOUTS[0].name())]
    pub(crate) layout: String,
    /// Which structures, for layouts that have several. Default: modern.
    #[arg(long, value_enum)]
    pub(crate) profile: Option<Profile>,
    /// Bytes of the image, as 512M or 4G. For an image or device that exists: all of it.
    #[arg(long)]
    pub(crate) size: Option<Size>,
    /// Bytes of a block. Default: 8K (ffs), 4K (others).
    #[arg(long)]
    pub(crate) block_size: Option<Size>,
    /// Bytes of a fragment: the unit of space. Default: 512 (modern lfs), 1K (others).
    #[arg(long)]
    pub(crate) frag_size: Option<Size>,
    /// Bytes of a segment of the log. Default: what suits the size of the volume, up to 1M.
    #[arg(long)]
    pub(crate) segment_size: Option<Size>,
    /// Percent of the space that is never given to files. Default: 10 (modern lfs, classic ffs),
    /// 5 (others). A log that is kept emptier is cleaned with less work.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=50))]
    pub(crate) minfree: Option<u32>,
    /// FFS: how metadata is ordered, and so what a crash leaves. Default: journal (modern), sync
    /// (classic).
    #[arg(long, value_parser = policies("Orderings"))]
    pub(crate) ordering: Option<String>,
    /// Bytes of space for each inode, of layouts with tables of inodes. Default: 4K (classic), 8K
    /// (others).
    #[arg(long)]
    pub(crate) bytes_per_inode: Option<Size>,
    /// Overwrite what is there, whatever it is.
    #[arg(long)]
    pub(crate) force: bool,
    /// The image file or block device.
    pub(crate) image: PathBuf,
}

/// Clean the log of a volume that is not mounted.
///
/// Moves what is live out of segments with garbage, so that they can be filled again. A mounted
/// volume cleans itself: see `twinfs mount --cleaner`.
#[derive(Args)]
pub(crate) struct Clean {
    /// Clean segments with at least this share of garbage, 0 to 1.
    #[arg(long, default_value_t = 0.1)]
    pub(crate) garbage: f64,
    /// The most segments to clean. Default: all that are worth it.
    #[arg(long)]
    pub(crate) segments: Option<u64>,
    /// Policies, as victim=greedy,placement=age-sort.
    #[arg(long, value_name = "LIST", default_value = "")]
    pub(crate) cleaner: String,
    /// Memory for blocks.
    #[arg(long, default_value = "256M")]
    pub(crate) cache: Size,
    #[command(flatten)]
    pub(crate) output: Output,
    /// The image file or block device.
    pub(crate) image: PathBuf,
}

/// Simulate a workload on several configurations, side by side.
///
/// A configuration is a file system and the hardware under it, written `preset` or
/// `preset:key=value,...`; --list shows them all. Without configurations, a set that shows the
/// range is compared. The workload is the trace that comes with the program (a small server,
/// recorded on a twinfs mount), a trace of your own, or a generator.
///
/// Exits with 0 only if every configuration did all of the workload. One in which operations failed
/// (for want of room, mostly) has no rank, and one that cannot run is named; the others are shown.
#[derive(Args)]
pub(crate) struct Compare {
    /// Configurations, as `lfs lfs:disk=hp97560,cache=8M`.
    pub(crate) configs: Vec<String>,
    #[command(flatten)]
    pub(crate) shared: SharedSettings,
    #[command(flatten)]
    pub(crate) start: Start,
    /// A trace to replay in place of the one that comes with the program.
    #[arg(long, short)]
    pub(crate) trace: Option<PathBuf>,
    /// The format of the trace, if it is not one of twinfs' own; --list shows them.
    #[arg(long, requires = "trace", value_parser = foreign_formats(), value_name = "FORMAT")]
    pub(crate) trace_format: Option<String>,
    /// A generated workload in place of a trace, as `build:files=300`; --list shows them.
    #[arg(long, short, conflicts_with = "trace")]
    pub(crate) workload: Option<String>,
    /// The seed of a generated workload. Default: 1.
    #[arg(long, requires = "workload", conflicts_with = "trace")]
    pub(crate) seed: Option<u64>,
    /// Run each configuration with this many seeds, one after the other, and show the median run with
    /// the smallest and the largest value. Configurations are then equal too if chance explains their
    /// difference: their ranges overlap, and the test of Mann and Whitney does not tell them apart
    /// at 5% (which it never does with fewer than four seeds).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=twin_lab::MOST_SEEDS))]
    pub(crate) seeds: u64,
    /// When operations are issued. Default: think for a recording of a mount, otherwise asap.
    #[arg(long, value_enum)]
    pub(crate) pace: Option<Pace>,
    /// With --pace recorded or think: how many times faster than recorded. Default: 1.
    #[arg(long)]
    pub(crate) speed: Option<f64>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[arg(long, value_name = "CATEGORIES", value_parser = log_categories, help = log_help())]
    pub(crate) log: Option<Categories>,
    /// Print all figures too, a column for each configuration, and all settings with their defaults.
    #[arg(long)]
    pub(crate) details: bool,
    /// The machine to simulate, as `twinfs calibrate` has measured it: processor, kernel, and the
    /// device of configurations that choose no disk.
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// Replay the workload for real too, in turn, in these directories and on these file systems,
    /// which are made on a loop device (as root): /mnt/disk,ext4,xfs,lfs,ffs. What is measured
    /// stands beside what is simulated.
    #[arg(long, value_name = "PLACES", value_delimiter = ',')]
    pub(crate) on: Vec<String>,
    /// What the configurations are judged by; smaller is better.
    #[arg(long, value_name = "MEASURE", value_parser = measures(),
        default_value = twin_lab::MEASURES.first().name)]
    pub(crate) by: String,
    /// Simulate a whole server in place of configurations: hosts, busses, disks, file systems and
    /// clients, as FILE says (docs/servers.md), or one that comes with the program: cut-and-paste.
    #[arg(long, value_name = "FILE|NAME", conflicts_with_all = ["configs", "trace", "workload", "with",
        "what_if", "seeds", "pace", "speed", "log", "machine", "on", "by"])]
    pub(crate) server: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) observe: Observe,
    /// Print the configurations, keys, components and generated workloads that there are.
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
}

/// Study cleaning on a bare volume: block writes into a log, nothing else.
///
/// Every workload is run with every placement policy (which blocks are written together), every
/// victim policy (which segment is cleaned next) and every seed. The figure is the write
/// amplification: all blocks written over those that users wrote. The setting is SepBIT's (FAST
/// 2022): a log that is cleaned when 15% of it is garbage, one victim a time, six open segments.
/// docs/cleaning.md explains it and shows results; --list shows the policies and their rules.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    twinfs volume --exponent 0,0.4,0.8,1.0 --placement none,dac,sepbit,twin --format table\n  \
    twinfs volume --workload hot-cold --placement sepbit --victim cost-benefit-sqrt,mdc\n  \
    twinfs volume --trace server.csv.zst --placement none,sepbit,twin --format table")]
pub(crate) struct Volume {
    /// Generated workloads, as zipf, mixed or hot-cold:hot-writes=0.8. Default: zipf.
    #[arg(long, short, conflicts_with = "trace", num_args = 1..)]
    pub(crate) workload: Vec<String>,
    /// Exponents of the Zipf workload, as 0,0.5,1.0.
    #[arg(long, value_delimiter = ',', conflicts_with = "trace")]
    pub(crate) exponent: Vec<f64>,
    /// Block traces in place of generated workloads; the volume is what they write.
    #[arg(long, short, value_name = "FILE", num_args = 1..)]
    pub(crate) trace: Vec<PathBuf>,
    /// The format of the traces. Default: the one that each looks like.
    #[arg(long, requires = "trace", value_parser = block_formats(),
        conflicts_with_all = ["workload", "exponent", "volumes"])]
    pub(crate) trace_format: Option<String>,
    /// Placement policies.
    #[arg(long, value_delimiter = ',', value_parser = placements(), hide_possible_values = true,
        default_value = twin_clean::placement::REGISTRY.first().name)]
    pub(crate) placement: Vec<String>,
    /// Victim policies.
    #[arg(long, value_delimiter = ',', value_parser = volume_victims(), hide_possible_values = true,
        default_value = twin_clean::victim::REGISTRY.first().name,
        default_value_if("table", "true", "greedy,cost-benefit-sqrt"))]
    pub(crate) victim: Vec<String>,
    /// Seeds, as 1,2,3.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1",
        default_value_if("table", "true", "1,2,3,4,5")
    )]
    pub(crate) seed: Vec<u64>,
    /// Blocks of a generated volume.
    #[arg(long, default_value_t = 131_072, conflicts_with = "trace")]
    pub(crate) blocks: u32,
    /// How many times the volume is written.
    #[arg(long, default_value_t = 60.0, conflicts_with = "trace",
        value_parser = volumes_of_writes)]
    pub(crate) volumes: f64,
    /// Blocks of a segment. Default: 1% of the volume.
    #[arg(long)]
    pub(crate) segment: Option<u32>,
    /// The percentage of garbage in the log from which on it is cleaned, or several, as 5,15,40.
    #[arg(long, value_delimiter = ',', default_value = "15")]
    pub(crate) garbage: Vec<f64>,
    /// How many segments may be open at a time.
    #[arg(long, default_value_t = 6)]
    pub(crate) open_segments: u8,
    /// How many runs go on at a time. Default: one for each core. Results do not depend on it.
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Print the table in Markdown, for a document, with the geometric mean over the workloads.
    #[arg(long, conflicts_with_all = ["format", "json"])]
    pub(crate) markdown: bool,
    /// Print the speed of the runs on standard error.
    #[arg(long)]
    pub(crate) speed: bool,
    /// The full table: our own pair, and all other placement policies with the victim policies
    /// greedy and cost-benefit-sqrt (or those given), exponents 0 to 1.0 (or those given, or
    /// traces), seeds 1 to 5 (or those given). Over generated workloads it takes hours.
    #[arg(long, conflicts_with = "placement")]
    pub(crate) table: bool,
    /// Compare our own pair with the best of all pairs of other policies that do not know the future,
    /// for each workload and share of garbage, and print the ratios in Markdown.
    #[arg(long, conflicts_with_all = ["placement", "victim", "table", "format", "json", "markdown"])]
    pub(crate) rivals: bool,
    /// Print the policies with their rules and sources, the workloads and the trace formats.
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
}

/// Options for simulations that `top` shows.
const SIMULATED: [&str; 6] = ["slow", "every", "accesses", "by_hand", "pace", "speed"];
/// What is for bare volumes watched by `top`, but for the number of their blocks.
const BARE: [&str; 5] = ["placement", "victim", "volumes", "step", "rate"];

/// Watch a log while it is written and cleaned: of a bare volume, a simulation or a mount.
///
/// Shows a map of the segments: how full each is, its age by colour (red young, blue old), which are
/// being written or cleaned, and a histogram of how full they are. On a terminal it is drawn in place;
/// elsewhere pictures follow each other as text.
///
/// Without --config, --trace or --mount: a bare volume; --rate slows it down until every write is
/// seen.
///
/// A simulated run of a file system is watched with --config or --trace; --slow slows it down,
/// --accesses shows every disk access, --by-hand waits for Enter.
///
/// A mounted log is watched with --mount FILE, where `twinfs mount --status FILE` writes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    twinfs top --workload hot-cold --rate 100000\n  \
    twinfs top --config lfs:size=256M,cache=4M --workload zipf:writes=200000 --slow 0.5\n  \
    twinfs top --trace work.tw --config lfs:disk=hp97560 --accesses --by-hand")]
pub(crate) struct Top {
    /// Watch a mount that was given this file as --status.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "trace", "workload", "seed"],
        conflicts_with_all = SIMULATED, conflicts_with_all = BARE)]
    pub(crate) mount: Option<PathBuf>,
    /// Watch a simulation on this configuration (see `twinfs compare --list`). Default with --trace:
    /// lfs.
    #[arg(long, short, conflicts_with_all = BARE)]
    pub(crate) config: Option<String>,
    /// Watch a simulation of this trace. Default with --config: the one that comes with the program.
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["workload", "seed"],
        conflicts_with_all = BARE)]
    pub(crate) trace: Option<PathBuf>,
    /// A simulation: simulated seconds in a real second, as 0.01. As fast as can be if not given.
    #[arg(long, value_parser = rate_of_time)]
    pub(crate) slow: Option<f64>,
    /// A simulation: simulated seconds between pictures. Default: a tenth of --slow, or 0.1.
    #[arg(long, value_name = "SECONDS", value_parser = rate_of_time)]
    pub(crate) every: Option<f64>,
    /// A simulation: a picture of each disk access, when the disk turns to it.
    #[arg(long, conflicts_with = "every")]
    pub(crate) accesses: bool,
    /// A simulation: show the next picture when Enter is pressed.
    #[arg(long)]
    pub(crate) by_hand: bool,
    /// A simulation: when operations are issued. Default: think for a recording of a mount,
    /// otherwise asap.
    #[arg(long, value_enum)]
    pub(crate) pace: Option<Pace>,
    /// With --pace recorded or think: how many times faster than recorded. Default: 1.
    #[arg(long)]
    pub(crate) speed: Option<f64>,
    /// For a simulation or a mount: end after so many pictures.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// The workload of a bare volume, as zipf, mixed or hot-cold:hot-writes=0.8; with --config one of
    /// files, as `compare` has them.
    #[arg(long, short)]
    pub(crate) workload: Option<String>,
    /// The placement policy.
    #[arg(long, value_parser = placements(), hide_possible_values = true,
        default_value = twin_clean::placement::REGISTRY.first().name)]
    pub(crate) placement: String,
    /// The victim policy.
    #[arg(long, value_parser = volume_victims(), hide_possible_values = true,
        default_value = twin_clean::victim::REGISTRY.first().name)]
    pub(crate) victim: String,
    /// The seed of the workload. Default: 1.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Blocks of the volume. Default: 131072.
    #[arg(long)]
    pub(crate) blocks: Option<u32>,
    /// How many times it is written.
    #[arg(long, default_value_t = 60.0, value_parser = volumes_of_writes)]
    pub(crate) volumes: f64,
    /// Blocks that are written between two pictures.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) step: u64,
    /// Blocks that are written in a second; as many as can be if not given.
    #[arg(long, value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Pictures as text one below the other, on a terminal too.
    #[arg(long)]
    pub(crate) plain: bool,
}

/// List the named configurations: what each sets and where it comes from.
#[derive(Args)]
pub(crate) struct Presets {
    /// Only these.
    pub(crate) names: Vec<String>,
    /// Print all that can be set, and the components that there are.
    #[arg(long, exclusive = true)]
    pub(crate) keys: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.01..=1e9).contains(&rate) => Ok(rate),
        _ => Err("must be a number from 0.01 to a thousand million".into()),
    }
}

fn rate_of_time(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (1e-6..=1e6).contains(&seconds) => Ok(seconds),
        _ => Err("must be a number from 0.000001 to a million".into()),
    }
}

fn volumes_of_writes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(volumes) if volumes > 0.0 && volumes <= 1e6 => Ok(volumes),
        _ => Err("must be a number above 0 and at most a million".into()),
    }
}

/// What excludes `--peers`: clap forgives a missing argument that could not be given besides.
const NOT_PEERS: [&str; 3] = ["sim", "dir", "device"];

/// Run benchmarks on simulated volumes, mounts and any directories, side by side.
///
/// Targets take turns. A directory gets a directory of its own below it, which is removed at the
/// end. Benchmarks are those of the papers on log-structured file systems; --list shows them and
/// what can be set. The table shows medians and how far the farthest run lies from them.
#[derive(Args)]
pub(crate) struct Bench {
    /// Benchmarks, as `small sizes:size=8K sweep:to=1M`.
    pub(crate) benches: Vec<String>,
    /// Simulate on this configuration (see `twinfs presets`); may be given several times.
    #[arg(long, short, value_name = "CONFIG")]
    pub(crate) sim: Vec<String>,
    #[command(flatten)]
    pub(crate) start: Start,
    /// Run in this directory, of whatever file system; may be given several times.
    #[arg(long, short, value_name = "DIR")]
    pub(crate) dir: Vec<PathBuf>,
    /// Run on our layouts and on the file systems that this machine has (ext4, xfs, btrfs, fuse2fs,
    /// ntfs-3g, bindfs over tmpfs), each mounted in its turn on a loop device with direct I/O. Needs
    /// root.
    #[arg(long, conflicts_with_all = ["sim", "dir", "cold", "warm"])]
    pub(crate) peers: bool,
    /// With --peers: only these, as `lfs,ext4`, ours with settings too, as `ffs:alloc=whole-file`. Ratios are those of the first.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "peers", conflicts_with_all = NOT_PEERS)]
    pub(crate) only: Vec<String>,
    /// With --peers: where the device's file is made. Default: /var/tmp.
    #[arg(long, value_name = "DIR", requires = "peers", conflicts_with_all = NOT_PEERS)]
    pub(crate) at: Option<PathBuf>,
    /// With --peers: bytes of the device.
    #[arg(long, default_value = "2G", requires = "peers", conflicts_with_all = NOT_PEERS)]
    pub(crate) size: Size,
    #[arg(long, value_name = "CATEGORIES", value_parser = log_categories, help = log_help())]
    pub(crate) log: Option<Categories>,
    /// Measure the disk under this directory through a file of 64 MiB, with direct I/O, and print
    /// the setting that makes a simulated SSD like it: `twinfs compare lfs:disk=ssd-sata,ssd=...`.
    #[arg(long, value_name = "DIR",
        conflicts_with_all = ["sim", "dir", "peers", "benches", "runs", "cold", "warm"])]
    pub(crate) device: Option<PathBuf>,
    /// Runs of each benchmark on each directory. Default: 1. Simulated runs are all the same.
    #[arg(long, short, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) runs: Option<u16>,
    /// Empty the caches with this shell command, as a remount, in place of the kernel's drop_caches.
    #[arg(long, value_name = "COMMAND", conflicts_with = "warm")]
    pub(crate) cold: Option<String>,
    /// Leave caches as they are.
    #[arg(long)]
    pub(crate) warm: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Print the benchmarks and their settings.
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
}

/// Record what is done in a directory of any file system.
///
/// Mirrors SOURCE at DIR and writes down all that is done at DIR, which happens in SOURCE. Stop
/// it with `twinfs umount DIR`. Names and sizes are kept, contents are not, unless asked.
#[derive(Args)]
pub(crate) struct Record {
    /// The file to write, which must not exist.
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,
    /// Keep contents too.
    #[arg(long)]
    pub(crate) contents: bool,
    /// Stay in the foreground and print what was recorded.
    #[arg(long, short)]
    pub(crate) foreground: bool,
    /// The directory to mirror.
    pub(crate) source: PathBuf,
    /// Where to mirror it: an existing directory.
    pub(crate) dir: PathBuf,
}

/// Replay a recorded trace: in the simulator, or for real on a volume in an image.
#[derive(Args)]
pub(crate) struct Replay {
    /// The trace.
    pub(crate) file: PathBuf,
    /// Simulate on this configuration (see `twinfs compare --list`).
    #[arg(long, short, default_value = "lfs", conflicts_with = "image")]
    pub(crate) config: String,
    /// The file is a flight log (`twinfs mount --flight`): repeat that run in the simulator and
    /// succeed only if its event digest is the same.
    #[arg(long, conflicts_with_all = ["config", "image", "pace", "speed"])]
    pub(crate) verify: bool,
    /// Replay for real on the volume in this image or device. It must not be mounted.
    #[arg(long)]
    pub(crate) image: Option<PathBuf>,
    /// When operations are issued. Default: think for a recording of a mount, otherwise asap.
    #[arg(long, value_enum)]
    pub(crate) pace: Option<Pace>,
    /// With --pace recorded or think: how many times faster than recorded. Default: 1.
    #[arg(long)]
    pub(crate) speed: Option<f64>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Check a volume that is not mounted, and repair it with --repair.
///
/// Without --repair nothing is written, and the exit code is 0 only if the volume is clean. A
/// volume that was not unmounted is checked as the next mount will recover it. A repair that was
/// interrupted can be run again.
#[derive(Args)]
pub(crate) struct Check {
    /// Read all file data too and compare its checksums.
    #[arg(long)]
    pub(crate) data: bool,
    /// Print nothing but findings.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Repair what is wrong: all that can be reached is kept, files without a name go to
    /// lost+found, and what is lost is listed. The volume must not be mounted.
    #[arg(long)]
    pub(crate) repair: bool,
    /// The image file or block device.
    pub(crate) image: PathBuf,
}

/// Show what is on a volume that is not mounted, structure by structure; nothing is written.
///
/// Works on damaged volumes: what cannot be read is told on standard error with its place (in
/// JSON, in `problems`), the rest is shown. Exits with 0 only if all that was asked for could be
/// read. A volume that was not unmounted is shown as the next mount will find it, unless
/// --unrecovered is given. Places are bytes of the image, times are in UTC (in JSON seconds since
/// 1970). docs/ondisk-lfs.md and docs/ondisk-ffs.md describe every structure under the same names.
#[derive(Args)]
#[command(after_help = "Examples, from the outside in:\n  \
    twinfs dump disk.img                          what it is and where it stands\n  \
    twinfs dump disk.img segments                 a log: how full each segment is\n  \
    twinfs dump disk.img summaries 3              what was written to segment 3, what is live\n  \
    twinfs dump disk.img groups 3                 FFS: the maps of cylinder group 3\n  \
    twinfs dump disk.img dir /                    names and their inodes\n  \
    twinfs dump disk.img inode /src/main.c        an inode by its path\n  \
    twinfs dump disk.img file-map 17              where the blocks of inode 17 are\n  \
    twinfs dump --json disk.img inode 17 | jq .inode.size")]
pub(crate) struct Dump {
    #[command(flatten)]
    pub(crate) output: Output,
    /// Of a volume that was not unmounted: show it without what the log has after the newest
    /// checkpoint, or the journal of FFS.
    #[arg(long, alias = "checkpointed")]
    pub(crate) unrecovered: bool,
    /// The image file or block device.
    pub(crate) image: PathBuf,
    /// What to show; a name that does not exist is answered with those that do.
    #[arg(default_value = "overview", long_help = structures_help())]
    pub(crate) what: String,
    /// Which one: a segment's or group's number; an inode's number, or a path as /src/main.c.
    pub(crate) which: Option<String>,
}

/// Show what a volume is and how full, of an image that is not mounted; or, of the directory where
/// one is mounted, how full it is, how much memory the mount uses and what it has done.
///
/// With --watch a line every few seconds says what a mount has done since the line before: as JSON an
/// object a line.
#[derive(Args)]
pub(crate) struct Stat {
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) observe: ObserveMount,
    /// Go on, with a line every so many seconds; of a mount.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86400),
          conflicts_with = "observe")]
    pub(crate) watch: Option<u32>,
    /// With --watch or --observe: end after so many lines or intervals.
    #[arg(long, value_name = "COUNT")]
    pub(crate) times: Option<u64>,
    /// The image file or block device, or the directory.
    pub(crate) image: PathBuf,
}

/// What `twinfs dump` can show, layout by layout.
fn structures_help() -> String {
    let mut text = String::from("What to show.\n");
    let mut list = |title: &str, structures: &[twin_fs::dump::Structure]| {
        text.push_str(&format!("\n{title}:\n"));
        for structure in structures {
            text.push_str(&format!("  {:<12} {}\n", structure.name, structure.about));
        }
    };
    for layout in twin_lab::layouts::LAYOUTS {
        list(&format!("Of {}", layout.noun()), layout.structures());
    }
    list("Of any volume", twin_fs::dump::OF_FILES);
    text
}
