//! The arguments of the commands about the age of volumes: `layout`, `snapshot`, `fork`, `forecast`
//! and `age`, and those with which simulations begin on old volumes ([`Start`]).

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use twin_ageing::copy;
use twin_lab::layouts::LAYOUTS;

use super::states::StatesCommand;
use super::{Output, Pace, layouts};
use crate::choices::foreign_formats;
use crate::size::Size;

/// Show how fragmented files and free space are.
///
/// The layout score is the share of blocks that lie directly behind their predecessor (Smith and
/// Seltzer, 1994); it is shown by size of file and as a whole. Works on images of any layout, on
/// snapshots, and on directories of any file system that reports where files are (ext4, xfs, btrfs,
/// f2fs and others). The free space of such a file system is shown with --free. Nothing is written.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    twinfs layout disk.img                        a volume of ours\n  \
    twinfs layout /home --html home.html          a directory on any file system, as a page\n  \
    twinfs layout disk.img --files --format csv   a line for each file\n  \
    twinfs layout --snapshots daily/              scores over time")]
pub(crate) struct Layout {
    #[command(flatten)]
    pub(crate) output: Output,
    /// Show each file, also in CSV and JSON.
    #[arg(long, conflicts_with_all = ["dirs", "history"])]
    pub(crate) files: bool,
    /// Show each directory with the score of the files directly in it.
    #[arg(long, conflicts_with = "history")]
    pub(crate) dirs: bool,
    /// Of a directory, also read the free space of its whole device, which may take long: as root, from file
    /// systems that report it. Images and snapshots have it anyway.
    #[arg(long, conflicts_with = "history")]
    pub(crate) free: bool,
    /// Show the scores of all snapshots in this directory over time and by size, and whether they
    /// change with age.
    #[arg(long = "snapshots", alias = "history", value_name = "DIR", conflicts_with = "what")]
    pub(crate) history: Option<PathBuf>,
    /// An image or block device, a snapshot, or a directory.
    #[arg(required_unless_present = "history")]
    pub(crate) what: Option<PathBuf>,
}

/// Keep states of a volume; or write down where all files are.
///
/// With one of the commands below: a log keeps states of the volume, which take no copy and no time. A snapshot stays
/// as it was, a branch can go on when it has become the head. What a state needs is not cleaned as long as it exists
/// (docs/snapshots.md).
///
/// With --output: a file with the sizes, ages and places of all files and the free space, no contents, and names
/// only with --names. The source is an image that is not mounted, or a directory on any file system.
/// `twinfs layout` shows such a file, and with --snapshots many of one file system over time.
/// docs/ageing.md has a systemd timer and a cron line for daily ones.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  \
    twinfs snapshot create /mnt before            the present state of a mounted volume\n  \
    twinfs snapshot diff /mnt before main         what has changed since\n  \
    twinfs mount --snapshot before disk.img old   read it\n  \
    twinfs snapshot rollback disk.img before      the volume is as it was\n  \
    twinfs snapshot /home -o home.snap            where the files of a directory are")]
pub(crate) struct Snapshot {
    #[command(subcommand)]
    pub(crate) states: Option<StatesCommand>,
    /// The file to write, which must not exist.
    #[arg(long = "output", short = 'o', value_name = "FILE", required = true)]
    pub(crate) to: Option<PathBuf>,
    /// Also keep the names of files.
    #[arg(long)]
    pub(crate) names: bool,
    /// An image, a block device, or a directory. Of a mount of twinfs the file shows one instant.
    #[arg(required = true)]
    pub(crate) what: Option<PathBuf>,
}

/// Copy the state of a mounted volume, without contents.
///
/// The fork is an image with the state of one instant: it mounts, checks clean, and takes space on the
/// host for metadata alone. Simulations begin on it (`compare --from`). Contents of files are zeros,
/// except those of small files that lie in the inode. Programs that use the volume wait at most for
/// one sync of the dirty data. Only the mount's user and root may fork it.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    twinfs fork /mnt -o twin.img\n  \
    twinfs compare --from twin.img -t recorded.tw lfs lfs:victim=greedy")]
pub(crate) struct Fork {
    /// The image to write, which must not exist.
    #[arg(long = "output", short = 'o', value_name = "IMAGE")]
    pub(crate) to: PathBuf,
    /// The most memory of the mount in which it keeps blocks that programs overwrite meanwhile. If it
    /// is exceeded, the fork fails and the mount goes on; a busy log of several GB needs more.
    #[arg(long = "memory", alias = "keep", default_value = "256M", value_name = "BYTES")]
    pub(crate) keep: Size,
    /// Where the volume is mounted.
    pub(crate) dir: PathBuf,
}

/// Predict the next hours of a volume from a recording.
///
/// Takes the recording of a mount (`mount --record`, which may still go on) and the volume as it is
/// now, and simulates a next period of the same kind: how full the volume gets, how much is written,
/// and the latencies. New files get new names, and files that grew go on growing (docs/ageing.md). Then
/// it tries other settings of the mount, one at a time. The mount goes on meanwhile, and nothing is
/// written to the volume.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    twinfs mount --record day.tw disk.img /mnt      and some hours later:\n  \
    twinfs forecast /mnt --last 4h --disk ssd-tlc\n  \
    twinfs forecast twin.img -t day.tw lfs:disk=disk-7200,cache=64M --try victim=greedy")]
pub(crate) struct Forecast {
    /// Where the volume is mounted; or, as it was at the end of the recording, its unmounted image or a
    /// fork.
    pub(crate) what: PathBuf,
    /// The configuration, which needs the volume's layout (see `twinfs compare --list`). Default: that
    /// layout, with the cache of the mount.
    pub(crate) config: Option<String>,
    /// The recording. Default: that of the mount.
    #[arg(long, short)]
    pub(crate) trace: Option<PathBuf>,
    /// Repeat only the end of the recording, such as 4h or 30m; seconds without a unit.
    #[arg(long, value_name = "TIME")]
    pub(crate) last: Option<String>,
    /// The disk, such as ssd-tlc, if no configuration is given.
    #[arg(long = "disk", alias = "on", value_name = "DISK", conflicts_with = "config")]
    pub(crate) on: Option<String>,
    /// Simulate the machine in this file, which `twinfs calibrate` measured.
    #[arg(long, value_name = "FILE", conflicts_with = "on")]
    pub(crate) machine: Option<PathBuf>,
    /// Try this setting, such as victim=greedy; can be repeated. Default: a smaller and a larger cache,
    /// and two other policies of each kind that a mount can choose.
    #[arg(long = "try", value_name = "KEY=VALUE")]
    pub(crate) tries: Vec<String>,
    /// Try no other settings.
    #[arg(long, conflicts_with = "tries")]
    pub(crate) no_tries: bool,
    /// When operations are issued. Default: think for a recording of a mount, otherwise asap.
    #[arg(long, value_enum)]
    pub(crate) pace: Option<Pace>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// The options that age a volume by a history instead of a profile.
const HISTORIES: [&str; 3] = ["trace", "git", "snapshots"];

/// Make a volume that looks as if used for years.
///
/// Creates and deletes files in simulation until the volume has the sizes, ages and depths of files of
/// a profile (those of Geriatrix; --list shows them), or repeats a recorded history. User data is zeros,
/// so the image takes space on the host for metadata alone. It mounts and checks clean. The same
/// settings and seed make the same image.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    twinfs age --layout ffs --profile agrawal --size 20G --full 80% --seed 1 -o old.img\n  \
    twinfs age --profile meyer --size 1G -o old.snap               its snapshot alone\n  \
    twinfs age --profile dabre --size 1G --operations dabre.tw     for any directory:\n  \
    twinfs compare -t dabre.tw --on /mnt/ext4,/mnt/xfs\n  \
    twinfs age --git ~/linux --size 8G -o linux.img                1,000 pulls and more\n  \
    twinfs age --git ~/linux --pulls 1000 --size 8G --on ext4,xfs,lfs,ffs   for real, side by side\n  \
    twinfs age --copy old.snap --layout ffs -o copy.img            its files where they were")]
pub(crate) struct Age {
    /// The layout.
    #[arg(long, value_parser = layouts(), default_value = LAYOUTS[0].name())]
    pub(crate) layout: String,
    /// The profile. Default: agrawal, unless a history is given.
    #[arg(long, conflicts_with_all = HISTORIES)]
    pub(crate) profile: Option<String>,
    /// Size of the volume. Default for a copy: the size of the original.
    #[arg(long, required_unless_present_any = ["list", "copy"])]
    pub(crate) size: Option<Size>,
    /// How full the volume gets, in percent of the space for files. Default: 80%.
    #[arg(long, value_name = "PERCENT", conflicts_with_all = HISTORIES)]
    pub(crate) full: Option<String>,
    /// The age of the oldest file in years. Default: 1.
    #[arg(long, value_name = "YEARS", conflicts_with_all = HISTORIES)]
    pub(crate) years: Option<f64>,
    /// How many times the volume is written in a year. Default: 5.
    #[arg(long, value_name = "TIMES", conflicts_with_all = HISTORIES)]
    pub(crate) turnover: Option<f64>,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Settings of the layout, such as profile=classic,block=8K (see `twinfs compare --list`).
    #[arg(long, value_name = "SETTINGS", default_value = "")]
    pub(crate) with: String,
    /// Memory for cached blocks while the volume ages.
    #[arg(long, default_value = "256M")]
    pub(crate) cache: Size,
    /// Repeat this trace instead of a profile, for example the history of a source tree.
    #[arg(long, short)]
    pub(crate) trace: Option<PathBuf>,
    /// The format of the trace, if it is not recognized.
    #[arg(long, requires = "trace", value_parser = foreign_formats(), value_name = "FORMAT")]
    pub(crate) trace_format: Option<String>,
    /// Repeat the history of the git repository in this directory: each commit along first parents is a
    /// pull that creates, replaces and removes the files that differ. Needs the program git.
    #[arg(long, value_name = "DIR", conflicts_with = "trace")]
    pub(crate) git: Option<PathBuf>,
    /// Repeat only this many of the last commits, after a checkout of the files before them.
    #[arg(long, requires = "git", value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pulls: Option<u32>,
    /// Repeat what happened between the snapshots of one file system in this directory, at least two:
    /// create, remove and change the files that differ from one to the next.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["trace", "git"])]
    pub(crate) snapshots: Option<PathBuf>,
    /// Instead of ageing, make an FFS volume whose files lie where they lie on this volume, an image, a
    /// snapshot or a directory, made in the same way (--size and --with).
    #[arg(long, value_name = "SNAPSHOT", conflicts_with_all = ["profile", "full", "years", "turnover", "operations", "trace", "git", "snapshots"])]
    pub(crate) copy: Option<PathBuf>,
    /// What a copy has: all files, where they were; or the same free space, with files that fill the
    /// used space, which works with a snapshot of any file system.
    #[arg(long, value_enum, default_value_t = Places::Files, requires = "copy")]
    pub(crate) places: Places,
    /// The image to write, which must not exist. If its name ends with .snap, a snapshot is written.
    #[arg(long = "output", short = 'o', value_name = "FILE", required_unless_present_any = ["operations", "on", "list"])]
    pub(crate) to: Option<PathBuf>,
    /// Write the operations to this file, which must not exist, as a trace for any file system.
    /// Without -o nothing is simulated.
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    pub(crate) operations: Option<PathBuf>,
    /// Age these file systems for real, one after the other on a loop device of this size (as root):
    /// ext4,xfs,lfs,ffs; ours can have settings (ffs:alloc=whole-file). Shows layout scores, ours beside
    /// the simulation, and how long it takes to read all files, old and copied to a new file system.
    /// Pauses become syncs.
    #[arg(long, value_delimiter = ',', value_name = "SYSTEMS", conflicts_with_all = ["to", "with", "copy"])]
    pub(crate) on: Vec<String>,
    /// List the profiles.
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// What a copy of a snapshot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Places {
    /// All files, where they were.
    Files,
    /// The free space.
    Free,
}

impl Places {
    pub(crate) fn of_copy(self) -> copy::Places {
        match self {
            Places::Files => copy::Places::Files,
            Places::Free => copy::Places::Free,
        }
    }
}

/// The volumes on which simulations begin, instead of new ones.
#[derive(Args)]
pub(crate) struct Start {
    /// Begin on aged volumes, such as agrawal or meyer:years=2,full=80%,turnover=5,seed=1. A new volume
    /// is run beside each, except by `frontier`. `twinfs age --list` shows the profiles.
    #[arg(help_heading = "Old volumes", long, value_name = "PROFILE")]
    pub(crate) aged: Option<String>,
    /// Begin on volumes that are this full of files, such as 80%, from which nothing was ever deleted.
    #[arg(help_heading = "Old volumes", long, value_name = "PERCENT", conflicts_with = "aged")]
    pub(crate) fill: Option<String>,
    /// Begin on a copy of the volume in this unmounted image; configurations need its layout and get its
    /// size. Or begin on a volume with the files of this snapshot, where the layout chooses the places.
    #[arg(help_heading = "Old volumes", long, value_name = "FILE", conflicts_with_all = ["aged", "fill"])]
    pub(crate) from: Option<PathBuf>,
    /// With --from SNAPSHOT, on FFS: put the files where they were, or copy only the free space.
    #[arg(help_heading = "Old volumes", long, value_enum, requires = "from")]
    pub(crate) places: Option<Places>,
    /// Make the volumes of --aged and --fill again, and keep none. Otherwise volumes of earlier runs are
    /// reused, and new ones kept, in $XDG_CACHE_HOME/twinfs or ~/.cache/twinfs (at most 2 GiB).
    #[arg(help_heading = "Old volumes", long)]
    pub(crate) no_kept_volumes: bool,
}

impl Start {
    /// True if one of them is given.
    pub(crate) fn is_given(&self) -> bool {
        self.aged.is_some() || self.fill.is_some() || self.from.is_some()
    }
}
