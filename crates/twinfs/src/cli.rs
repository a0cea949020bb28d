//! The command line: names, arguments, and the help that teaches them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::size::Size;

/// A file system with a twin: the same code, mounted and simulated.
#[derive(Parser)]
#[command(name = "twinfs", version, about, max_term_width = 100)]
#[command(after_help = "A first round:\n  \
    twinfs mkfs --layout lfs --size 4G disk.img   make a volume in a file\n  \
    mkdir -p mnt && twinfs mount disk.img mnt     use it\n  \
    twinfs umount mnt                             write it out and stop\n  \
    twinfs check disk.img                         see that it is sound")]
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
    Check(Check),
    Stat(Stat),
    Record(Record),
    Replay(Replay),
    Compare(Compare),
    Bench(Bench),
    Presets(Presets),
    Reproduce(Reproduce),
    Completions(Completions),
    Man(Man),
}

/// Which layout a volume has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// Log-structured: everything is written to the end of a log.
    Lfs,
    /// The clustered fast file system: blocks and fragments in cylinder groups, written in place.
    Ffs,
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

/// Make a volume in an image file or on a block device.
///
/// The image is made if it does not exist (then --size is needed); it takes space on the host
/// only as it fills up. A volume that is there already is only overwritten with --force.
#[derive(Args)]
pub(crate) struct Mkfs {
    /// Which layout.
    #[arg(long, value_enum, default_value = "lfs")]
    pub(crate) layout: Layout,
    /// Which structures.
    #[arg(long, value_enum, default_value = "modern")]
    pub(crate) profile: Profile,
    /// Bytes of the image, as 512M or 4G. For an image or device that exists: all of it.
    #[arg(long)]
    pub(crate) size: Option<Size>,
    /// Bytes of a block. Default: 4K (lfs), 8K (ffs).
    #[arg(long)]
    pub(crate) block_size: Option<Size>,
    /// Bytes of a fragment: the unit of space. Default: 512 (modern lfs), 1K (others).
    #[arg(long)]
    pub(crate) frag_size: Option<Size>,
    /// Bytes of a segment of the log. Default: what suits the size of the volume, up to 1M.
    #[arg(long)]
    pub(crate) segment_size: Option<Size>,
    /// FFS: how metadata is ordered, and so what a crash leaves. Default: journal (modern), sync
    /// (classic).
    #[arg(long, value_parser = orderings())]
    pub(crate) ordering: Option<String>,
    /// FFS: bytes of space for each inode. Default: 8K (modern), 4K (classic).
    #[arg(long)]
    pub(crate) bytes_per_inode: Option<Size>,
    /// Overwrite what is there.
    #[arg(long)]
    pub(crate) force: bool,
    /// The image file or block device.
    pub(crate) image: PathBuf,
}

/// Mount a volume. Returns once it is mounted; a process in the background serves it.
///
/// Stop it with `twinfs umount DIR` (or umount, or SIGTERM to that process): everything is on disk
/// when the process has gone. After a crash the next mount recovers what had been fsynced.
#[derive(Args)]
pub(crate) struct Mount {
    /// Stay in the foreground and print what happens.
    #[arg(long, short)]
    pub(crate) foreground: bool,
    /// Allow no change.
    #[arg(long, short)]
    pub(crate) read_only: bool,
    /// Memory for blocks.
    #[arg(long, default_value = "256M")]
    pub(crate) cache: Size,
    /// Pass every write on at once: a full volume then says so in the write itself. Otherwise the
    /// kernel collects writes, and fsync or close says it. Recording implies it, so that writes
    /// are written down as they were made.
    #[arg(long)]
    pub(crate) write_through: bool,
    /// Let other users in (an ordinary user needs user_allow_other in /etc/fuse.conf). Root's
    /// mounts always do.
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Microseconds to look for the next request before sleeping.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 200)]
    pub(crate) spin: u32,
    /// Use ordinary I/O through the host's page cache, not direct I/O.
    #[arg(long)]
    pub(crate) buffered: bool,
    /// Do not use io_uring.
    #[arg(long)]
    pub(crate) no_io_uring: bool,
    /// Which segment the cleaner takes first.
    #[arg(long, default_value = twin_lfs::cleaner::registry()[0].name, value_parser = victims())]
    pub(crate) victim: String,
    /// Write down every operation in this file, to be replayed later. Names and sizes are kept,
    /// contents are not.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// With --record: keep contents too.
    #[arg(long, requires = "record")]
    pub(crate) contents: bool,
    /// Log everything that enters the core in this file, so that `twinfs replay --verify` can
    /// repeat the run.
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    pub(crate) flight: Option<PathBuf>,
    /// The image file or block device.
    pub(crate) image: PathBuf,
    /// Where to mount it: an existing directory.
    pub(crate) dir: PathBuf,
}

/// The metadata orderings, from their registry.
fn orderings() -> clap::builder::PossibleValuesParser {
    let values = twin_ffs::ordering::registry().iter();
    clap::builder::PossibleValuesParser::new(
        values.map(|e| clap::builder::PossibleValue::new(e.name).help(e.about)),
    )
}

/// The victim policies, from their registry.
fn victims() -> clap::builder::PossibleValuesParser {
    let values = twin_lfs::cleaner::registry().iter();
    clap::builder::PossibleValuesParser::new(
        values.map(|e| clap::builder::PossibleValue::new(e.name).help(e.about)),
    )
}

/// Unmount a directory. Returns once everything is on disk and the background process has gone.
#[derive(Args)]
pub(crate) struct Umount {
    /// Where it is mounted.
    pub(crate) dir: PathBuf,
}

/// Simulate a workload on several configurations, side by side.
///
/// A configuration is a file system and the hardware under it, written `preset` or
/// `preset:key=value,...`; --list shows them all. Without configurations, a set that shows the
/// range is compared. The workload is the trace that comes with the program (a software build,
/// recorded on a twinfs mount), a trace of your own, or a generator.
#[derive(Args)]
pub(crate) struct Compare {
    /// Configurations, as `lfs lfs:disk=hp97560,cache=8M`.
    pub(crate) configs: Vec<String>,
    /// A trace to replay in place of the one that comes with the program.
    #[arg(long, short)]
    pub(crate) trace: Option<PathBuf>,
    /// A generated workload in place of a trace, as `build:files=300`.
    #[arg(long, short, conflicts_with = "trace")]
    pub(crate) workload: Option<String>,
    /// The seed of a generated workload.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// When operations are issued.
    #[arg(long, value_enum, default_value = "asap")]
    pub(crate) pace: Pace,
    /// With --pace recorded or think: how many times faster than recorded.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) speed: f64,
    /// Print JSON: an array with one object a configuration.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the configurations, keys and components that there are.
    #[arg(long)]
    pub(crate) list: bool,
}

/// List the named configurations: what each sets and where it comes from.
#[derive(Args)]
pub(crate) struct Presets {
    /// Only these.
    pub(crate) names: Vec<String>,
    /// Print all that can be set, and the components that there are.
    #[arg(long)]
    pub(crate) keys: bool,
}

/// Repeat the papers' measurements on models of the papers' hardware.
///
/// Prints for each claim what the paper says, what comes out here, and whether it holds. Without
/// names, all claims; --list shows them. Takes some minutes.
#[derive(Args)]
pub(crate) struct Reproduce {
    /// Claims, as `efs-table small-create`.
    pub(crate) claims: Vec<String>,
    /// How results are printed; csv is for efs-table.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: ReproduceFormat,
    /// Write a page with all figures and tables, which needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Results of `twinfs bench --json` on real directories to show on that page.
    #[arg(long, value_name = "FILE", requires = "html")]
    pub(crate) measured: Option<PathBuf>,
    /// Say what 5% of each fitted constant does to efs-table.
    #[arg(long)]
    pub(crate) sensitivity: bool,
    /// Fit the constants to half of efs-table's cells and score them on the other half.
    #[arg(long)]
    pub(crate) cross_validate: bool,
    /// List the claims.
    #[arg(long)]
    pub(crate) list: bool,
}

/// How the results of a reproduction are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReproduceFormat {
    /// For people.
    Text,
    /// The columns of the paper's table.
    Csv,
}

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
    /// Run in this directory, of whatever file system; may be given several times.
    #[arg(long, short, value_name = "DIR")]
    pub(crate) dir: Vec<PathBuf>,
    /// Runs of each benchmark on each directory.
    #[arg(long, short, default_value_t = 1)]
    pub(crate) runs: usize,
    /// Empty the caches with this shell command, as a remount, in place of the kernel's drop_caches.
    #[arg(long, value_name = "COMMAND", conflicts_with = "warm")]
    pub(crate) cold: Option<String>,
    /// Leave caches as they are.
    #[arg(long)]
    pub(crate) warm: bool,
    /// Print JSON: an array with one object a phase.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the benchmarks and their settings.
    #[arg(long)]
    pub(crate) list: bool,
}

/// When operations are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pace {
    /// As soon as the operations before them have ended.
    Asap,
    /// At the times at which they were recorded.
    Recorded,
    /// With the pauses between them that were recorded.
    Think,
}

impl Pace {
    /// With its speed.
    pub(crate) fn at(self, speed: f64) -> Result<twin_trace::replay::Pace, String> {
        if !(speed.is_finite() && speed > 0.0) {
            return Err(format!("--speed {speed}: must be more than 0"));
        }
        Ok(match self {
            Pace::Asap => twin_trace::replay::Pace::Asap,
            Pace::Recorded => twin_trace::replay::Pace::Recorded { speed },
            Pace::Think => twin_trace::replay::Pace::Think { speed },
        })
    }
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
    #[arg(long, conflicts_with_all = ["config", "image"])]
    pub(crate) verify: bool,
    /// Replay for real on the volume in this image or device. It must not be mounted.
    #[arg(long)]
    pub(crate) image: Option<PathBuf>,
    /// When operations are issued.
    #[arg(long, value_enum, default_value = "asap")]
    pub(crate) pace: Pace,
    /// With --pace recorded or think: how many times faster than recorded.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) speed: f64,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a completion script for a shell.
///
/// For bash: `twinfs completions bash > ~/.local/share/bash-completion/completions/twinfs`.
#[derive(Args)]
pub(crate) struct Completions {
    /// Which shell.
    pub(crate) shell: clap_complete::Shell,
}

/// Write the manual pages, one a command.
#[derive(Args)]
pub(crate) struct Man {
    /// The directory to write them to, as ~/.local/share/man/man1; it is made if need be.
    pub(crate) dir: PathBuf,
}

/// Check a volume that is not mounted: nothing is written.
///
/// Exits with 0 only if the volume is clean. A volume that was not unmounted is checked as the
/// next mount will recover it.
#[derive(Args)]
pub(crate) struct Check {
    /// Read all file data too and compare its checksums.
    #[arg(long)]
    pub(crate) data: bool,
    /// Print nothing but findings.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Repair what is wrong (FFS). Nothing may have it mounted.
    #[arg(long)]
    pub(crate) repair: bool,
    /// The image file or block device.
    pub(crate) image: PathBuf,
}

/// Show what a volume is and how full: of an image that is not mounted.
#[derive(Args)]
pub(crate) struct Stat {
    /// The image file or block device.
    pub(crate) image: PathBuf,
}
