//! The command line: names, arguments and help.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use twin_lab::layouts::LAYOUTS;
use twin_lab::log_categories;
use twin_mount::media::{Compression, KeyFrom};
use twin_rt::{Categories, Category};

use crate::choices::{
    block_formats, choices, foreign_formats, measures, placements, volume_victims,
};
use crate::size::Size;

mod advise;
mod age;
mod arena;
mod cache;
mod convert;
mod crashlab;
mod experiment;
mod frontier;
mod gather;
mod groups;
mod grow;
mod lab;
mod manual;
mod measure;
mod mount;
mod new_policy;
mod observe;
mod quota;
mod scrub;
mod send;
mod serve;
mod states;

pub(crate) use advise::Advise;
pub(crate) use age::{Age, Forecast, Fork, Layout, Places, Snapshot, Start};
pub(crate) use arena::Arena;
pub(crate) use cache::{Cache, ObjectRules};
pub(crate) use convert::Convert;
pub(crate) use crashlab::{Ack, Crashlab};
pub(crate) use experiment::{Diff, Merge, RunExperiment};
pub(crate) use frontier::Frontier;
pub(crate) use gather::Gather;
pub(crate) use grow::Grow;
pub(crate) use lab::Lab;
pub(crate) use manual::{Completions, Man};
pub(crate) use measure::{Calibrate, Pace, SharedSettings, Validate};
pub(crate) use mount::{Mount, MountChoice, Umount};
pub(crate) use new_policy::NewPolicy;
use observe::interval;
pub(crate) use observe::{Observe, ObserveMount};
pub(crate) use quota::Quota;
pub(crate) use scrub::Scrub;
pub(crate) use send::{Receive, Send};
pub(crate) use serve::{Beside, Serve};
pub(crate) use states::{
    BranchState, CreateState, DeleteStates, DiffStates, ListStates, RollBack, StatesCommand,
    SwitchState,
};
pub(crate) use twin_cli::{Format, Output, Reproduce};

/// A file system with a twin: the same code, mounted and simulated.
#[derive(Parser)]
#[command(name = "twinfs", version, about, max_term_width = 100)]
#[command(help_template = groups::template(&Command::augment_subcommands(clap::Command::new("twinfs"))))]
#[command(after_help = "First steps:\n  \
    twinfs compare                                which design suits a server?\n  \
    twinfs mkfs --layout lfs --size 4G disk.img   make a volume in a file\n  \
    mkdir -p mnt && twinfs mount disk.img mnt     use it\n  \
    twinfs umount mnt                             write it out and unmount it\n  \
    twinfs check disk.img                         check that it is sound\n\n\
    Exit status: 0 if the command did what was asked and found no damage; 1 if it\n\
    failed, found damage or left something undone (standard error says what); 2 if\n\
    the command line is wrong; 130 after SIGINT (Ctrl-C), 143 after SIGTERM, 129\n\
    after SIGHUP. These signals end every command within about a second, and it\n\
    removes its temporary files, mounts and devices (docs/exit-codes.md).")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands; [`groups`] arranges them for the help.
#[derive(Subcommand)]
pub(crate) enum Command {
    Mkfs(Mkfs),
    Mount(Mount),
    Umount(Umount),
    Serve(Serve),
    Crashlab(Box<Crashlab>),
    Ack(Ack),
    Check(Check),
    Scrub(Scrub),
    Clean(Clean),
    Grow(Grow),
    Quota(Quota),
    Dump(Dump),
    Stat(Stat),
    Record(Record),
    Gather(Gather),
    Convert(Convert),
    Replay(Replay),
    Compare(Compare),
    Advise(Box<Advise>),
    Arena(Arena),
    Run(RunExperiment),
    Merge(Merge),
    Diff(Diff),
    Frontier(Frontier),
    Volume(Volume),
    Cache(Cache),
    Top(Top),
    Bench(Bench),
    Calibrate(Calibrate),
    Validate(Validate),
    Presets(Presets),
    Reproduce(Reproduce),
    NewPolicy(NewPolicy),
    Lab(Lab),
    Layout(Layout),
    Snapshot(Snapshot),
    Send(Send),
    Receive(Receive),
    Fork(Fork),
    Forecast(Forecast),
    Age(Box<Age>),
    Completions(Completions),
    Man(Man),
}

/// The sizes of the structures on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// 64-bit, nanosecond times, checksums throughout, inline data, indexed directories,
    /// extended attributes.
    Modern,
    /// The sizes of 4.4BSD, which the papers measured.
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
    choices(LAYOUTS.iter().map(|kind| (kind.name(), kind.about())))
}

/// The policies of one kind in all layouts.
fn policies(title: &str) -> PossibleValuesParser {
    let all = LAYOUTS.iter().flat_map(|kind| kind.policies());
    choices(all.filter(|(kind, _)| *kind == title).flat_map(|(_, names)| names))
}

/// The help of --log, with all categories.
fn log_help() -> String {
    let all = Category::ALL.iter().map(|(_, name, about)| format!("{name} ({about})"));
    let all = all.collect::<Vec<_>>().join(", ");
    format!("Print events of these categories, such as cleaner,flush, one line each: {all}")
}

/// Make a volume in an image file or on a block device.
///
/// An image that does not exist is created, which needs --size; it takes space on the host only as
/// it fills up. An existing image or device must be blank: mkfs names any other content (a file
/// system, an archive, a partition table, unknown data) and leaves it alone, unless --force is
/// given. It never touches a device that is mounted or in use.
///
/// If it is interrupted, mkfs removes an image that it has created; overwritten data is lost.
#[derive(Args)]
pub(crate) struct Mkfs {
    /// The layout.
    #[arg(long, value_parser = layouts(), default_value = LAYOUTS[0].name())]
    pub(crate) layout: String,
    /// The sizes of the structures on disk, for layouts that have a choice. Default: modern.
    #[arg(long, value_enum)]
    pub(crate) profile: Option<Profile>,
    /// Size of the image, such as 512M or 4G. Default: all of an existing image or device.
    #[arg(long)]
    pub(crate) size: Option<Size>,
    /// Size of a block: 1K to 64K, a power of two. Large blocks suit large files and waste space in
    /// small ones. Default: 8K (ffs), 4K (others).
    #[arg(long)]
    pub(crate) block_size: Option<Size>,
    /// Size of a fragment, the unit of space: a block has 1 to 8. Default: 512 (modern lfs), 1K
    /// (others).
    #[arg(long)]
    pub(crate) frag_size: Option<Size>,
    /// Size of a segment of the log. Large segments are written with fewer seeks, and cleaning them
    /// needs more free space. Default: chosen by the size of the volume, up to 1M.
    #[arg(long)]
    pub(crate) segment_size: Option<Size>,
    /// Percent of the space that is never given to files, 1 to 50. More of it makes cleaning a log,
    /// and finding adjacent blocks on FFS, cheaper; sensible values are 5 to 20. Default: 10 (modern
    /// lfs, classic ffs), 5 (others).
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=50))]
    pub(crate) minfree: Option<u32>,
    /// FFS: the order in which metadata reaches the device, which decides what a crash leaves. Default:
    /// journal (modern), sync (classic).
    #[arg(long, value_parser = policies("Orderings"))]
    pub(crate) ordering: Option<String>,
    /// FFS: keep checksums of all data and metadata, and compare them whenever something is read. Takes
    /// 0.4% of the space. A log of the modern profile always does.
    #[arg(long)]
    pub(crate) data_checksums: bool,
    /// Bytes of space per inode, for layouts with tables of inodes. Smaller values allow more files and
    /// cost space for the tables. Default: 4K (classic), 8K (others).
    #[arg(long)]
    pub(crate) bytes_per_inode: Option<Size>,
    /// Compress what goes into a bucket: with zstd, or faster and less with lz4.
    #[arg(long, value_parser = compressions())]
    pub(crate) compression: Option<Compression>,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// Overwrite the image or device, whatever it contains.
    #[arg(long)]
    pub(crate) force: bool,
    /// The image file or block device, or s3://BUCKET/NAME.
    pub(crate) image: PathBuf,
}

fn compressions() -> impl TypedValueParser<Value = Compression> {
    let names = PossibleValuesParser::new(Compression::ALL.map(|(name, _)| name));
    names.map(|chosen| {
        let named = Compression::ALL.into_iter().find(|(name, _)| *name == chosen);
        named.map_or(Compression::ALL[0].1, |(_, compression)| compression)
    })
}

/// The key of an encrypted volume in a bucket.
#[derive(Args)]
pub(crate) struct KeyArgs {
    /// The key with which a volume in a bucket is encrypted is in this file: 32 bytes, or 64 hexadecimal digits. Without it the volume
    /// can never be read again. TWINFS_KEY_FILE in the environment says the same to each command.
    #[arg(help_heading = "Device", long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// The same from a command of the shell that prints it, such as one of a password manager, or in
    /// TWINFS_KEY_COMMAND of the environment.
    #[arg(help_heading = "Device", long, value_name = "COMMAND", conflicts_with = "key_file")]
    pub(crate) key_command: Option<String>,
}

impl KeyArgs {
    /// What was given, if anything.
    pub(crate) fn named(&self) -> Option<KeyFrom> {
        let file = self.key_file.clone().map(KeyFrom::File);
        file.or_else(|| self.key_command.clone().map(KeyFrom::Command))
    }
}

/// Clean the log of a volume that is not mounted.
///
/// Copies live blocks out of segments that hold garbage, so that these segments can be filled again.
/// A mounted volume cleans itself: see `twinfs mount --cleaner`.
#[derive(Args)]
pub(crate) struct Clean {
    /// Clean segments with at least this share of garbage, 0 to 1. Lower shares gain less space for
    /// more copying.
    #[arg(long, default_value_t = 0.1)]
    pub(crate) garbage: f64,
    /// Clean at most this many segments. Default: all with enough garbage.
    #[arg(long)]
    pub(crate) segments: Option<u64>,
    /// The policies, such as victim=greedy,placement=age-sort.
    #[arg(long, value_name = "LIST", default_value = "")]
    pub(crate) cleaner: String,
    /// Memory for cached blocks.
    #[arg(long, default_value = "256M")]
    pub(crate) cache: Size,
    #[command(flatten)]
    pub(crate) output: Output,
    /// The image file or block device.
    pub(crate) image: PathBuf,
}

/// Simulate a workload on several configurations, and say which wins.
///
/// A configuration is a file system with the hardware below it, written `preset` or
/// `preset:key=value,...`; --list shows them all. Without configurations, five typical ones are
/// compared. The workload is the trace that comes with the program (a small server, recorded on a
/// twinfs mount), a trace of your own, or a generated one. docs/comparisons.md explains the verdict.
///
/// Exits with 0 only if every configuration completed the workload. A configuration in which
/// operations failed, usually for lack of space, has no rank; one that cannot run is named.
#[derive(Args)]
pub(crate) struct Compare {
    /// Configurations, such as `lfs lfs:disk=hp97560,cache=8M`.
    pub(crate) configs: Vec<String>,
    #[command(flatten)]
    pub(crate) shared: SharedSettings,
    #[command(flatten)]
    pub(crate) start: Start,
    /// Replay this trace instead of the one that comes with the program.
    #[arg(help_heading = "Workload", long, short)]
    pub(crate) trace: Option<PathBuf>,
    /// The format of the trace, if it is not recognized; --list shows all formats.
    #[arg(help_heading = "Workload", long, requires = "trace", value_parser = foreign_formats(), value_name = "FORMAT")]
    pub(crate) trace_format: Option<String>,
    /// Generate this workload instead of replaying a trace, such as `build:files=300` (--list shows all
    /// generators), or run the workload that a TOML file describes (docs/workloads.md).
    #[arg(help_heading = "Workload", long, short, conflicts_with = "trace")]
    pub(crate) workload: Option<String>,
    /// The seed of a generated workload. Default: 1.
    #[arg(help_heading = "Workload", long, requires = "workload", conflicts_with = "trace")]
    pub(crate) seed: Option<u64>,
    /// Run each configuration with this many seeds, and show the median run with the smallest and the
    /// largest value. Configurations are also equal if chance explains their difference: their ranges
    /// overlap, and the Mann-Whitney test does not tell them apart at 5%. That test needs at least
    /// four seeds; five to ten are a good number.
    #[arg(help_heading = "Judgement", long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=twin_verdict::MOST_SEEDS))]
    pub(crate) seeds: u64,
    /// When operations are issued. Default: think for a recording of a mount, otherwise asap.
    #[arg(help_heading = "Workload", long, value_enum)]
    pub(crate) pace: Option<Pace>,
    /// With --pace recorded or think: replay this many times faster than recorded. Default: 1.
    #[arg(help_heading = "Workload", long)]
    pub(crate) speed: Option<f64>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[arg(help_heading = "Results", long, value_name = "CATEGORIES", value_parser = log_categories, help = log_help())]
    pub(crate) log: Option<Categories>,
    /// Also print all figures, one column for each configuration, and all settings with their defaults.
    #[arg(help_heading = "Results", long)]
    pub(crate) details: bool,
    /// Simulate the machine in this file, which `twinfs calibrate` measured: its processor, its kernel,
    /// and its device in configurations that choose no disk.
    #[arg(help_heading = "Real machines", long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// Also measure: replay the workload for real in these directories and on these file systems, in turn:
    /// /mnt/disk,ext4,xfs,lfs,ffs. File systems are made on a loop device, which needs root. The verdict is
    /// on what was measured, and on whether simulation agrees; for that the device, and without --machine
    /// all of the machine, is measured first, in some 20 seconds.
    #[arg(help_heading = "Real machines", long, value_name = "PLACES", value_delimiter = ',')]
    pub(crate) on: Vec<String>,
    /// With --on: how often the workload runs at each place.
    #[arg(help_heading = "Real machines", long, value_name = "COUNT", default_value_t = 5,
        requires = "on", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: u32,
    /// With --on: below which directory the file of the loop device is made, and so which disk is measured.
    /// Default: /var/tmp.
    #[arg(help_heading = "Real machines", long, value_name = "DIR", requires = "on")]
    pub(crate) at: Option<PathBuf>,
    /// The measure by which configurations are ranked; smaller is better. Default: waiting where the
    /// pauses of clients are kept (--pace think and recorded), otherwise finish.
    #[arg(help_heading = "Judgement", long, value_name = "MEASURE", value_parser = measures())]
    pub(crate) by: Option<String>,
    /// Instead of configurations, simulate a whole server of hosts, busses, disks, file systems and
    /// clients that FILE describes (docs/servers.md), or the one that comes with the program:
    /// cut-and-paste.
    #[arg(help_heading = "Workload", long, value_name = "FILE|NAME", conflicts_with_all = ["configs", "trace", "workload", "with",
        "what_if", "seeds", "pace", "speed", "log", "machine", "on", "runs", "at", "by", "aged", "fill", "from",
        "no_kept_volumes"])]
    pub(crate) server: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) observe: Observe,
    /// List all configurations, settings, components and generated workloads.
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
}

/// Study cleaning on a bare volume: a log of blocks, without files.
///
/// Runs every workload with every placement policy (which blocks are written together), every
/// victim policy (which segment is cleaned next) and every seed, and prints the write amplification:
/// all blocks written divided by the blocks that users wrote. By default the setting is that of SepBIT
/// (FAST 2022): the log is cleaned when 15% of it is garbage, one victim at a time, with six open
/// segments. docs/cleaning.md explains it and shows results; --list shows the policies.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    twinfs volume --exponent 0,0.4,0.8,1.0 --placement none,dac,sepbit,twin --format table\n  \
    twinfs volume --workload hot-cold --placement sepbit --victim cost-benefit-sqrt,mdc\n  \
    twinfs volume --trace server.csv.zst --placement none,sepbit,twin --format table")]
pub(crate) struct Volume {
    /// Generated workloads, such as zipf, mixed or hot-cold:hot-writes=0.8. Default: zipf.
    #[arg(long, short, conflicts_with = "trace", num_args = 1..)]
    pub(crate) workload: Vec<String>,
    /// Exponents of the Zipf workload, such as 0,0.5,1.0: 0 writes all blocks alike, 1 is strongly
    /// skewed.
    #[arg(long, value_delimiter = ',', conflicts_with = "trace")]
    pub(crate) exponent: Vec<f64>,
    /// Block traces instead of generated workloads; the volume has the blocks that they write.
    #[arg(long, short, value_name = "FILE", num_args = 1..)]
    pub(crate) trace: Vec<PathBuf>,
    /// The format of the traces, if it is not recognized; --list shows all formats.
    #[arg(long, requires = "trace", value_parser = block_formats(),
        conflicts_with_all = ["workload", "exponent", "volumes"])]
    pub(crate) trace_format: Option<String>,
    /// Placement policies.
    #[arg(long, value_delimiter = ',', value_parser = placements(), hide_possible_values = true,
        default_value = twin_clean::placement::REGISTRY.default_entry().name)]
    pub(crate) placement: Vec<String>,
    /// Victim policies.
    #[arg(long, value_delimiter = ',', value_parser = volume_victims(), hide_possible_values = true,
        default_value = twin_clean::victim::REGISTRY.default_entry().name,
        default_value_if("table", "true", "greedy,cost-benefit-sqrt"))]
    pub(crate) victim: Vec<String>,
    /// Seeds, such as 1,2,3.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1",
        default_value_if("table", "true", "1,2,3,4,5")
    )]
    pub(crate) seed: Vec<u64>,
    /// Number of blocks of a generated volume.
    #[arg(long, default_value_t = 131_072, conflicts_with = "trace")]
    pub(crate) blocks: u32,
    /// How many times the whole volume is written. More takes longer, and less shows the start only.
    #[arg(long, default_value_t = 60.0, conflicts_with = "trace",
        value_parser = volumes_of_writes)]
    pub(crate) volumes: f64,
    /// Number of blocks of a segment. Default: 1% of the volume.
    // The old name is in pieces, because it is also the name of a policy.
    #[arg(long = "segment-blocks", alias = concat!("seg", "ment"), value_name = "BLOCKS")]
    pub(crate) segment: Option<u32>,
    /// Clean the log when this percentage of it is garbage; several, such as 5,15,40, are compared.
    #[arg(long, value_delimiter = ',', default_value = "15")]
    pub(crate) garbage: Vec<f64>,
    /// How many segments may be open at the same time.
    #[arg(long, default_value_t = 6)]
    pub(crate) open_segments: u8,
    /// How many runs go on at the same time. Default: one for each core. Results do not depend on it.
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Print the table in Markdown, for a document, with the geometric mean over the workloads.
    #[arg(long, conflicts_with_all = ["format", "json"])]
    pub(crate) markdown: bool,
    /// Print how fast the runs were on standard error.
    #[arg(long = "timing", alias = "speed")]
    pub(crate) speed: bool,
    /// Make the full table: our own pair of policies, and all other placement policies with the victim
    /// policies greedy and cost-benefit-sqrt, exponents 0 to 1.0 and seeds 1 to 5, unless others are
    /// given. With generated workloads this takes hours.
    #[arg(long, conflicts_with = "placement")]
    pub(crate) table: bool,
    /// For each workload and share of garbage, compare our own pair of policies with the best pair of
    /// other policies that do not know the future, and print the ratios in Markdown.
    #[arg(long, conflicts_with_all = ["placement", "victim", "table", "format", "json", "markdown"])]
    pub(crate) rivals: bool,
    /// List the policies with their rules and sources, the workloads and the trace formats.
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
}

/// Options for simulations that `top` shows.
const SIMULATED: [&str; 6] = ["slow", "every", "accesses", "by_hand", "pace", "speed"];
/// What is for bare volumes watched by `top`, but for the number of their blocks.
const BARE: [&str; 5] = ["placement", "victim", "volumes", "step", "rate"];

/// Watch a log while it is written and cleaned.
///
/// Shows a map of the segments: how full each is, its age by colour (red young, blue old), which are
/// being written or cleaned, and a histogram of how full they are. On a terminal the map is drawn in
/// place; elsewhere one picture follows the other as text.
///
/// Without --config, --trace or --mount the log is a bare volume; --rate slows it down until every
/// write can be seen.
///
/// --config or --trace show a simulated run of a file system; --slow slows it down, --accesses shows
/// every disk access, --by-hand waits for Enter.
///
/// --mount FILE shows a mounted log; FILE is the one to which `twinfs mount --status FILE` writes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    twinfs top --workload hot-cold --rate 100000\n  \
    twinfs top --config lfs:size=256M,cache=4M --workload zipf:writes=200000 --slow 0.5\n  \
    twinfs top --trace work.tw --config lfs:disk=hp97560 --accesses --by-hand")]
pub(crate) struct Top {
    /// Watch the mount that writes this file (`twinfs mount --status`).
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
    /// In a simulation: simulated seconds in a real second, such as 0.01. Default: as fast as possible.
    #[arg(long, value_parser = rate_of_time)]
    pub(crate) slow: Option<f64>,
    /// In a simulation: simulated seconds between pictures. Default: a tenth of --slow, or 0.1.
    #[arg(long, value_name = "SECONDS", value_parser = rate_of_time)]
    pub(crate) every: Option<f64>,
    /// In a simulation: show a picture for each disk access, when it begins.
    #[arg(long, conflicts_with = "every")]
    pub(crate) accesses: bool,
    /// In a simulation: show the next picture when Enter is pressed.
    #[arg(long)]
    pub(crate) by_hand: bool,
    /// In a simulation: when operations are issued. Default: think for a recording of a mount,
    /// otherwise asap.
    #[arg(long, value_enum)]
    pub(crate) pace: Option<Pace>,
    /// With --pace recorded or think: how many times faster than recorded. Default: 1.
    #[arg(long)]
    pub(crate) speed: Option<f64>,
    /// In a simulation or of a mount: end after this many pictures.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// The workload of a bare volume, such as zipf, mixed or hot-cold:hot-writes=0.8; with --config, a
    /// workload of files (`twinfs compare --list`).
    #[arg(long, short)]
    pub(crate) workload: Option<String>,
    /// The placement policy.
    #[arg(long, value_parser = placements(), hide_possible_values = true,
        default_value = twin_clean::placement::REGISTRY.default_entry().name)]
    pub(crate) placement: String,
    /// The victim policy.
    #[arg(long, value_parser = volume_victims(), hide_possible_values = true,
        default_value = twin_clean::victim::REGISTRY.default_entry().name)]
    pub(crate) victim: String,
    /// The seed of the workload. Default: 1.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Number of blocks of the volume. Default: 131072.
    #[arg(long)]
    pub(crate) blocks: Option<u32>,
    /// How many times the whole volume is written.
    #[arg(long, default_value_t = 60.0, value_parser = volumes_of_writes)]
    pub(crate) volumes: f64,
    /// Number of blocks written between two pictures.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) step: u64,
    /// Number of blocks written in a second. Default: as many as possible.
    #[arg(long, value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Print one picture below the other as text, also on a terminal.
    #[arg(long)]
    pub(crate) plain: bool,
}

/// List the named configurations, what they set and why.
#[derive(Args)]
pub(crate) struct Presets {
    /// Show only these.
    pub(crate) names: Vec<String>,
    /// List all settings, and the components that they choose from.
    #[arg(long = "list", alias = "keys", exclusive = true)]
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

/// The arguments that exclude `--peers`. An option that requires `--peers` has to exclude them too: clap
/// does not report a missing argument that conflicts with one that is given.
const NOT_PEERS: [&str; 3] = ["sim", "dir", "device"];

/// Run benchmarks on simulated volumes, mounts and directories.
///
/// The targets take turns. In a directory, the benchmark works in a directory of its own, which is
/// removed at the end. The benchmarks are those of the papers on log-structured file systems; --list
/// shows them with their settings. The table shows medians, and how far the farthest run is from them.
#[derive(Args)]
pub(crate) struct Bench {
    /// Benchmarks, such as `small sizes:size=8K sweep:to=1M`.
    pub(crate) benches: Vec<String>,
    /// Simulate on this configuration (see `twinfs presets`); can be repeated.
    #[arg(long = "config", short = 'c', alias = "sim", short_alias = 's', value_name = "CONFIG")]
    pub(crate) sim: Vec<String>,
    #[command(flatten)]
    pub(crate) start: Start,
    /// Run in this directory, on any file system; can be repeated.
    #[arg(long, short, value_name = "DIR")]
    pub(crate) dir: Vec<PathBuf>,
    /// Run on our layouts and on the file systems of this machine (ext4, xfs, btrfs, fuse2fs, ntfs-3g,
    /// bindfs over tmpfs), each mounted in its turn on a loop device with direct I/O. Needs root.
    #[arg(long, conflicts_with_all = ["sim", "dir", "cold", "warm"])]
    pub(crate) peers: bool,
    /// With --peers: run only on these, such as `lfs,ext4`; ours can have settings
    /// (`ffs:alloc=whole-file`). Ratios refer to the first.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "peers", conflicts_with_all = NOT_PEERS)]
    pub(crate) only: Vec<String>,
    /// With --peers: the directory for the file behind the loop device. Default: /var/tmp.
    #[arg(long, value_name = "DIR", requires = "peers", conflicts_with_all = NOT_PEERS)]
    pub(crate) at: Option<PathBuf>,
    /// With --peers: size of the device.
    #[arg(long, default_value = "2G", requires = "peers", conflicts_with_all = NOT_PEERS)]
    pub(crate) size: Size,
    #[arg(long, value_name = "CATEGORIES", value_parser = log_categories, help = log_help())]
    pub(crate) log: Option<Categories>,
    /// Measure the disk under this directory through a file of 64 MiB, with direct I/O, and print
    /// the setting that makes a simulated SSD like it: `twinfs compare lfs:disk=ssd-sata,ssd=...`.
    #[arg(long, value_name = "DIR",
        conflicts_with_all = ["sim", "dir", "peers", "benches", "runs", "cold", "warm"])]
    pub(crate) device: Option<PathBuf>,
    /// Runs of each benchmark in each directory. Default: 1. Simulated runs are all equal.
    #[arg(long, short, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) runs: Option<u16>,
    /// Empty the caches with this shell command, for example a remount, instead of the kernel's
    /// drop_caches.
    #[arg(long, value_name = "COMMAND", conflicts_with = "warm")]
    pub(crate) cold: Option<String>,
    /// Leave the caches warm.
    #[arg(long)]
    pub(crate) warm: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    /// List the benchmarks and their settings.
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
}

/// Record the operations of programs in a directory.
///
/// Mounts a mirror of the directory SOURCE at DIR: all operations at DIR are performed in SOURCE and
/// recorded. `twinfs umount DIR` ends the recording. It has names and sizes, and with --contents also
/// contents. `twinfs compare -t FILE` simulates it.
#[derive(Args)]
pub(crate) struct Record {
    /// The trace to write, which must not exist.
    #[arg(long = "output", short = 'o', alias = "to", value_name = "FILE")]
    pub(crate) to: PathBuf,
    /// Also record contents.
    #[arg(long)]
    pub(crate) contents: bool,
    /// Stay in the foreground, and print a summary at the end.
    #[arg(long, short)]
    pub(crate) foreground: bool,
    /// The directory to mirror.
    pub(crate) source: PathBuf,
    /// Where to mount the mirror: an existing directory.
    pub(crate) dir: PathBuf,
}

/// Replay a trace in the simulator, or for real on an image.
#[derive(Args)]
pub(crate) struct Replay {
    /// The trace.
    pub(crate) file: PathBuf,
    /// Simulate on this configuration (see `twinfs compare --list`).
    #[arg(long, short, default_value = "lfs", conflicts_with = "image")]
    pub(crate) config: String,
    /// Take the file as a flight log (`twinfs mount --flight`): repeat that run in the simulator, and
    /// succeed only if its event digest is the same.
    #[arg(long, conflicts_with_all = ["config", "image", "pace", "speed"])]
    pub(crate) verify: bool,
    /// Replay for real on the volume in this image or device. It must not be mounted.
    #[arg(long)]
    pub(crate) image: Option<PathBuf>,
    /// When operations are issued. Default: think for a recording of a mount, otherwise asap.
    #[arg(long, value_enum)]
    pub(crate) pace: Option<Pace>,
    /// With --pace recorded or think: replay this many times faster than recorded. Default: 1.
    #[arg(long)]
    pub(crate) speed: Option<f64>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Check, or repair, a volume that is not mounted.
///
/// Without --repair nothing is written, and the exit code is 0 only if the volume is sound. A
/// volume that was not unmounted is checked in the state that the next mount will recover. A repair
/// that was interrupted can be run again.
#[derive(Args)]
pub(crate) struct Check {
    /// Also read all file data and verify its checksums. Takes as long as reading the volume.
    #[arg(long)]
    pub(crate) data: bool,
    /// Print only findings.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Repair the volume: keep everything that can be reached, put files without a name into
    /// lost+found, and list what is lost.
    #[arg(long)]
    pub(crate) repair: bool,
    /// The journal with which the image was mounted (`mount --journal-file`) is lost: give up what only it had, which
    /// may be what was synced last, and repair what the image has.
    #[arg(long, requires = "repair")]
    pub(crate) lost_journal: bool,
    /// The image file or block device.
    pub(crate) image: PathBuf,
}

/// Show the structures of a volume that is not mounted.
///
/// Works on damaged volumes: dump shows all that can be read, and reports the place of everything that
/// cannot be read on standard error (in JSON, in `problems`). Exits with 0 only if everything that was
/// asked for could be read. A volume that was not unmounted is shown in the state that the next mount
/// will recover, unless --unrecovered is given. Places are byte offsets in the image, times are in UTC
/// (in JSON, seconds since 1970). docs/ondisk-lfs.md and docs/ondisk-ffs.md describe every structure
/// under the same name.
#[derive(Args)]
#[command(after_help = "Examples, from the outside in:\n  \
    twinfs dump disk.img                          kind, sizes and state\n  \
    twinfs dump disk.img segments                 a log: how full each segment is\n  \
    twinfs dump disk.img summaries 3              the blocks in segment 3, and which are live\n  \
    twinfs dump disk.img groups 3                 FFS: the maps of cylinder group 3\n  \
    twinfs dump disk.img dir /                    names and their inodes\n  \
    twinfs dump disk.img inode /src/main.c        an inode by its path\n  \
    twinfs dump disk.img file-map 17              where the blocks of inode 17 are\n  \
    twinfs dump --json disk.img inode 17 | jq .inode.size")]
pub(crate) struct Dump {
    #[command(flatten)]
    pub(crate) output: Output,
    /// Show a volume that was not unmounted without recovering it: without the part of the log after
    /// the newest checkpoint, or without the journal of FFS.
    #[arg(long, alias = "checkpointed")]
    pub(crate) unrecovered: bool,
    /// The image file or block device.
    pub(crate) image: PathBuf,
    /// The structure to show; a wrong name is answered with a list of all.
    #[arg(default_value = "overview", long_help = structures_help())]
    pub(crate) what: String,
    /// Which one of several: the number of a segment, group or inode, or a path such as /src/main.c.
    pub(crate) which: Option<String>,
}

/// Show how full a volume is, and what its mount has done.
///
/// Of an image that is not mounted: its kind, sizes and free space. Of the directory where a volume is
/// mounted: free space, the memory of the mount and what the mount has done. --watch prints what the
/// mount has done since the previous line, again and again; as JSON, one object a line.
#[derive(Args)]
pub(crate) struct Stat {
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) observe: ObserveMount,
    /// Of a mount: print a line every SECONDS.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86400),
          conflicts_with = "observe")]
    pub(crate) watch: Option<u32>,
    /// With --watch or --observe: end after this many lines or intervals.
    #[arg(long = "count", alias = "times", value_name = "COUNT")]
    pub(crate) times: Option<u64>,
    /// Of a mount: print its figures in the text format of Prometheus (docs/mounts.md).
    #[arg(long, conflicts_with_all = ["watch", "observe", "format", "html", "parquet"])]
    pub(crate) prometheus: bool,
    /// The image file or block device, or the directory.
    pub(crate) image: PathBuf,
}

/// The help of `twinfs dump` on structures, layout by layout.
fn structures_help() -> String {
    let mut text = String::from("The structure to show.\n");
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
