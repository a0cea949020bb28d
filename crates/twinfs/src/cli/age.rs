//! The arguments of the commands about the age of volumes: `layout`, `snapshot` and `age`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use twin_ageing::copy;
use twin_lab::layouts::LAYOUTS;

use super::{Output, Pace, layouts};
use crate::choices::foreign_formats;
use crate::size::Size;

/// Show how well files lie on the device: layout scores, by size and as a whole, and where free
/// space is.
///
/// The score is the share of blocks that follow their predecessor (Smith and Seltzer, 1994). Works
/// on images of any layout, on snapshots, and on directories of any file system that tells where
/// files are (ext4, xfs, btrfs, f2fs and others); free space of a real one is shown if it tells
/// that too, which needs root. Nothing is written.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    twinfs layout disk.img                        a volume of ours\n  \
    twinfs layout /home --html home.html          a directory on any file system, as a page\n  \
    twinfs layout disk.img --files --format csv   a line for each file\n  \
    twinfs layout --history snapshots/            scores over time")]
pub(crate) struct Layout {
    #[command(flatten)]
    pub(crate) output: Output,
    /// Show each file: in CSV and JSON too.
    #[arg(long, conflicts_with_all = ["dirs", "history"])]
    pub(crate) files: bool,
    /// Show each directory: the score of the files directly in it.
    #[arg(long, conflicts_with = "history")]
    pub(crate) dirs: bool,
    /// Show the scores of all snapshots in this directory over time, by size, and whether they
    /// change with age.
    #[arg(long, value_name = "DIR", conflicts_with = "what")]
    pub(crate) history: Option<PathBuf>,
    /// An image or block device, a snapshot, or a directory.
    #[arg(required_unless_present = "history")]
    pub(crate) what: Option<PathBuf>,
}

/// Write down where all files and all free space of a file system are, for later.
///
/// Keeps sizes, ages, places of blocks and the free map; no contents, and names only with --names.
/// The source is an image that is not mounted, or a directory on any file system. `twinfs layout`
/// reads the result; many of one file system in a directory are a history. docs/ageing.md has a
/// systemd timer and a cron line for daily snapshots.
#[derive(Args)]
pub(crate) struct Snapshot {
    /// The file to write, which must not exist.
    #[arg(long = "output", short = 'o', value_name = "FILE")]
    pub(crate) to: PathBuf,
    /// Keep the names of files too.
    #[arg(long)]
    pub(crate) names: bool,
    /// An image or block device, or a directory; of a mount of twinfs, the state of one instant.
    pub(crate) what: PathBuf,
}

/// Fork a mounted volume: its state at one instant, without the contents of files.
///
/// Programs that use the volume wait for no longer than for one sync of what is dirty. The result is
/// an image that mounts and checks clean, takes room on the host for metadata alone, and is what
/// simulations begin with: `compare --from`. Contents of files are zeros, except those of small files
/// that lie in the inode. Only the mount's user and root may do it.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    twinfs fork /mnt -o twin.img\n  \
    twinfs compare --from twin.img -t recorded.tw lfs lfs:victim=greedy")]
pub(crate) struct Fork {
    /// The image to make, which must not exist.
    #[arg(long = "output", short = 'o', value_name = "IMAGE")]
    pub(crate) to: PathBuf,
    /// The most memory of the mount in which it keeps what is overwritten meanwhile.
    #[arg(long, default_value = "256M", value_name = "BYTES")]
    pub(crate) keep: Size,
    /// Where the volume is mounted.
    pub(crate) dir: PathBuf,
}

/// Say what the next hours do to a volume, if they are in kind as the recorded ones.
///
/// Takes the recording of a mount (mount --record; while it goes on, too) and the volume as it is now,
/// makes the next period of the same kind of them, and simulates it: how full the volume gets, what is
/// written, and latencies. Then it tries other settings of the mount, one at a time. What has been made and is there is
/// made beside; what was removed has a successor; what grew grows on (docs/ageing.md). The mount goes on
/// meanwhile, as with `twinfs fork`. Nothing is written.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    twinfs mount --record day.tw disk.img /mnt      and some hours later:\n  \
    twinfs forecast /mnt --last 4h --on ssd-tlc\n  \
    twinfs forecast twin.img -t day.tw lfs:disk=disk-7200,cache=64M --try victim=greedy")]
pub(crate) struct Forecast {
    /// Where the volume is mounted; or its image, unmounted, or a fork, as the recording left it.
    pub(crate) what: PathBuf,
    /// The configuration, with the volume's layout (see `twinfs compare --list`). Default: that layout, with a
    /// mount's cache.
    pub(crate) config: Option<String>,
    /// The recording. Default: that of the mount.
    #[arg(long, short)]
    pub(crate) trace: Option<PathBuf>,
    /// Repeat only what was recorded last, as 4h or 30m; seconds without a unit.
    #[arg(long, value_name = "TIME")]
    pub(crate) last: Option<String>,
    /// The disk, as ssd-tlc, if no configuration is given.
    #[arg(long, value_name = "DISK", conflicts_with = "config")]
    pub(crate) on: Option<String>,
    /// The measured machine (`twinfs calibrate`).
    #[arg(long, value_name = "FILE", conflicts_with = "on")]
    pub(crate) machine: Option<PathBuf>,
    /// Try this setting, as victim=greedy; may be given several times. Default: a smaller and a larger cache,
    /// and two others of each kind of policy that a mount can choose.
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

/// What ages a volume in place of a profile.
const HISTORIES: [&str; 3] = ["trace", "git", "snapshots"];

/// Make a volume that has been in use for years.
///
/// Files are created and deleted in simulation until the volume has the sizes, ages and depths of a
/// profile (those of Geriatrix; --list shows them), or a recorded history is repeated. User data is
/// zeros, so the image takes room on the host for metadata alone. The image mounts and checks clean.
/// The same settings and seed make the same image.
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
    /// Which layout.
    #[arg(long, value_parser = layouts(), default_value = LAYOUTS[0].name())]
    pub(crate) layout: String,
    /// The profile. Default: agrawal, unless a history is given.
    #[arg(long, conflicts_with_all = HISTORIES)]
    pub(crate) profile: Option<String>,
    /// Bytes of the volume. Default, of a copy: those of the original.
    #[arg(long, required_unless_present_any = ["list", "copy"])]
    pub(crate) size: Option<Size>,
    /// How full it gets, in percent of what files may fill. Default: 80%.
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
    /// Settings of the layout, as profile=classic,block=8K (see `twinfs compare --list`).
    #[arg(long, value_name = "SETTINGS", default_value = "")]
    pub(crate) with: String,
    /// Memory for blocks while it grows old.
    #[arg(long, default_value = "256M")]
    pub(crate) cache: Size,
    /// Repeat this history in place of a profile: a trace of twinfs or, with --trace-format, another
    /// one, as the history of a source tree.
    #[arg(long, short)]
    pub(crate) trace: Option<PathBuf>,
    /// The format of the trace, if it is not one of twinfs' own.
    #[arg(long, requires = "trace", value_parser = foreign_formats(), value_name = "FORMAT")]
    pub(crate) trace_format: Option<String>,
    /// Repeat the history of the git repository in this directory: each commit along first parents is a
    /// pull, which makes, makes anew and removes the files that differ. Needs the program git.
    #[arg(long, value_name = "DIR", conflicts_with = "trace")]
    pub(crate) git: Option<PathBuf>,
    /// Only the last commits, after a checkout of the files before them.
    #[arg(long, requires = "git", value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pulls: Option<u32>,
    /// Repeat what happened between the snapshots of a file system in this directory, two at least: the files
    /// that came, went or changed from one to the next.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["trace", "git"])]
    pub(crate) snapshots: Option<PathBuf>,
    /// In place of ageing, copy the places on this volume, an image, a snapshot or a directory, to one of
    /// FFS made in the same way (--size and --with).
    #[arg(long, value_name = "SNAPSHOT", conflicts_with_all = ["profile", "full", "years", "turnover", "operations", "trace", "git", "snapshots"])]
    pub(crate) copy: Option<PathBuf>,
    /// What a copy has: all files where they were; or the free space alone, with what was used taken by
    /// files that fill it, which any file system's snapshot can give.
    #[arg(long, value_enum, default_value_t = Places::Files, requires = "copy")]
    pub(crate) places: Places,
    /// The image to write, which must not exist; if its name ends with .snap, a snapshot.
    #[arg(long = "output", short = 'o', value_name = "FILE", required_unless_present_any = ["operations", "on", "list"])]
    pub(crate) to: Option<PathBuf>,
    /// Write the operations to this file, which must not exist, as a trace for any file system.
    /// Without -o nothing is simulated.
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    pub(crate) operations: Option<PathBuf>,
    /// Let these file systems grow old for real, one after the other on a loop device of this size (as root):
    /// ext4,xfs,lfs,ffs, ours with settings too, as ffs:alloc=whole-file. Shows how their files lie, ours beside the simulation, and how long it takes to read
    /// all of them, old and copied to a new one. Pauses become syncs.
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

/// The volumes on which simulations begin, in place of new ones.
#[derive(Args)]
pub(crate) struct Start {
    /// Begin on volumes that are old, as agrawal or meyer:years=2,full=80%,turnover=5,seed=1; a new
    /// volume is run beside each (except by `frontier`). `twinfs age --list` shows the profiles.
    #[arg(long, value_name = "PROFILE")]
    pub(crate) aged: Option<String>,
    /// Begin on volumes that are so full of files that nothing was ever deleted, as 80%.
    #[arg(long, value_name = "PERCENT", conflicts_with = "aged")]
    pub(crate) fill: Option<String>,
    /// Begin on the volume in this image, unmounted, which is not changed: configurations need its
    /// layout, and have its size. Or on a volume with the files of this snapshot, whose places are
    /// the layout's choice.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["aged", "fill"])]
    pub(crate) from: Option<PathBuf>,
    /// With --from SNAPSHOT: put the files where they were, or take the free space alone (FFS).
    #[arg(long, value_enum, requires = "from")]
    pub(crate) places: Option<Places>,
    /// Make volumes of --aged and --fill anew. Otherwise those of earlier runs are used again, and these
    /// are kept for later ones, in $XDG_CACHE_HOME/twinfs or ~/.cache/twinfs (2 GiB at most).
    #[arg(long)]
    pub(crate) no_kept_volumes: bool,
}

impl Start {
    /// True if one of them is given.
    pub(crate) fn is_given(&self) -> bool {
        self.aged.is_some() || self.fill.is_some() || self.from.is_some()
    }
}
