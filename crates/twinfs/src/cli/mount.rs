//! The arguments of `twinfs mount` and `twinfs umount`.

use std::path::PathBuf;

use clap::Args;
use twin_host::{IdlePoll, QueueChoice};
use twin_lab::log_categories;
use twin_rt::{Categories, Nanos, Order};
use twin_settings::Choice;

use super::{Beside, KeyArgs, ObserveMount, interval, log_help};
use crate::choices::{
    disk_queue, disk_queue_help, replacement, replacement_help, task_order, task_order_default,
    task_order_help,
};
use crate::size::Size;

/// Mount a volume.
///
/// Returns when the volume is mounted; a process in the background serves it. To unmount it, use
/// `twinfs umount DIR`, or umount, or send SIGTERM to that process: when the process has ended, all data
/// is on the device. After a crash, the next mount recovers everything that was fsynced.
///
/// The kernel does not pass sync(2) and syncfs(2) on to a FUSE server: it hands over the writes that it
/// has collected, and returns. They are on the device within two seconds, so wait for two seconds after
/// `sync`. Only fsync, fdatasync and `twinfs umount` return when the data is on the device.
#[derive(Args)]
pub(crate) struct Mount {
    /// Stay in the foreground, and print messages.
    #[arg(long, short)]
    pub(crate) foreground: bool,
    /// Mount read-only.
    #[arg(long, short)]
    pub(crate) read_only: bool,
    /// Options of mount(8): suid or nosuid, dev or nodev, exec or noexec, ro or rw. Mounts of ordinary
    /// users are nosuid,nodev. So are root's, unless only root can have written the image: its file (or
    /// its device, and what that lies on) belongs to root, and nobody else may write to it. `-o suid,dev`
    /// trusts any image.
    #[arg(short = 'o', long = "options", value_name = "LIST", value_delimiter = ',')]
    pub(crate) options: Vec<MountChoice>,
    /// Memory for cached blocks. `twinfs cache` shows which size suits a workload.
    #[arg(long, default_value = "256M")]
    pub(crate) cache: Size,
    #[arg(help_heading = "Policies", long, value_name = "POLICY", value_parser = replacement, help = replacement_help(),
        default_value = twin_cache::replacement::REGISTRY.default_entry().name)]
    pub(crate) replacement: &'static str,
    /// Memory that the whole daemon may use, instead of --cache. The cache may use the memory that
    /// remains after its own bookkeeping, buffers of requests and the program itself. `twinfs stat DIR`
    /// shows the parts.
    #[arg(long, value_name = "SIZE", conflicts_with = "cache")]
    pub(crate) memory: Option<Size>,
    /// Have the kernel pass every write on at once, so that errors appear in the write itself; small
    /// writes become slower. Otherwise the kernel collects writes until the file is closed or fsynced, or
    /// for some seconds. When space gets short the kernel has to ask before each write, so that a full
    /// volume is reported in the write; only for a single write of several MiB and for mapped memory is
    /// it reported by close, fsync and msync (before Linux 5.16: for every write). With --record, the
    /// recording then has the writes as programs made them.
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) write_through: bool,
    /// Mount this snapshot or branch (`twinfs snapshot list IMAGE`) instead of the volume's head, read-only.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cleaner", "alloc", "flush", "status", "flight", "write_through", "at"])]
    pub(crate) snapshot: Option<String>,
    /// Let other users access the mount, as they always may on root's mounts. An ordinary user needs
    /// user_allow_other in /etc/fuse.conf.
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Follow a volume in a bucket that another machine has mounted: after each interval (5s, say) the bucket is asked whether there is a
    /// newer state, and its names, attributes and data take the place of what was there. Needs `-o ro`, and never
    /// changes the bucket. A file that is open stays as it was; once the writer has deleted something of it, reads
    /// fail (ESTALE), and the file is to be opened anew.
    #[arg(help_heading = "Device", long, value_name = "INTERVAL", value_parser = interval,
        conflicts_with_all = ["snapshot", "take_over", "journal_file", "record", "flight", "status", "observe", "at"])]
    pub(crate) follow: Option<Nanos>,
    /// Take over a volume in a bucket that its last writer did not close and that may still have it mounted elsewhere.
    /// What that one writes from then on is lost, and it is told so at its next sync.
    #[arg(help_heading = "Device", long, conflicts_with = "read_only")]
    pub(crate) take_over: bool,
    /// Keep what is read from a bucket, and what was just written to it, in this file or on this block device, which has
    /// zeros or was a cache before. A mount begins with it empty, and it may be lost at any time.
    #[arg(help_heading = "Device", long, value_name = "FILE")]
    pub(crate) local_cache: Option<PathBuf>,
    /// The size of the local cache, if its file does not exist yet.
    #[arg(
        help_heading = "Device",
        long,
        value_name = "SIZE",
        default_value = "10G",
        requires = "local_cache"
    )]
    pub(crate) local_cache_size: Size,
    /// Acknowledge syncs when they are durable in this file or on this block device, which should be faster than the image or bucket
    /// behind it, and bring them there in the background. Until then the newest content is here alone: an image
    /// can be mounted with the same journal only, until it was unmounted, and what a bucket does not have yet the next mount here brings. A
    /// file is made if there is none. While a bucket cannot be reached the mount goes on until the journal is full.
    #[arg(help_heading = "Device", long, value_name = "FILE", conflicts_with = "read_only")]
    pub(crate) journal_file: Option<PathBuf>,
    /// The size of the journal, if its file does not exist yet.
    #[arg(
        help_heading = "Device",
        long,
        value_name = "SIZE",
        default_value = "1G",
        requires = "journal_file"
    )]
    pub(crate) journal_size: Size,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// How long to poll for the next request before sleeping. Higher values shorten latencies and use more
    /// processor time; 0 to 1000 are sensible.
    #[arg(help_heading = "Device", long, value_name = "MICROSECONDS", default_value_t = 200)]
    pub(crate) spin: u32,
    /// Keep idle processors awake while clients are busy, so that waking one does not take longer than a request:
    /// the kernel lets them poll, and the machine draws power as if they worked, until a millisecond after
    /// the last request (needs /dev/cpu_dma_latency, which is root's). `auto`: on virtual machines of at most 8
    /// processors, where waking one is slow.
    #[arg(help_heading = "Device", long, value_name = "WHEN", default_value = "auto", value_parser = IdlePoll::parse)]
    pub(crate) idle_poll: IdlePoll,
    /// Access the image through the host's page cache instead of by direct I/O. Data is then cached twice.
    #[arg(help_heading = "Device", long)]
    pub(crate) buffered: bool,
    /// Use plain reads and writes instead of io_uring, one request at a time.
    #[arg(help_heading = "Device", long)]
    pub(crate) no_io_uring: bool,
    /// Treat files as the extended attributes user.twinfs.type, .rate and .replacement say
    /// (docs/media.md).
    #[arg(help_heading = "Policies", long)]
    pub(crate) file_types: bool,
    #[arg(help_heading = "Policies", long, value_name = "NAME", default_value = task_order_default(), value_parser = task_order,
          help = task_order_help())]
    pub(crate) order: Choice<Order>,
    #[arg(help_heading = "Policies", long, value_name = "NAME", default_value = "auto", value_parser = disk_queue,
          help = disk_queue_help())]
    pub(crate) queue: QueueChoice,
    /// The policies of cleaning a log, such as victim=twin,placement=twin,when=idle: which segment is
    /// cleaned first, which blocks are written together, and when the cleaner works although no operation
    /// waits for it (it always works when clean segments run short). `twinfs compare --list` shows them.
    #[arg(
        help_heading = "Policies",
        long,
        value_name = "LIST",
        default_value = "",
        conflicts_with = "read_only"
    )]
    pub(crate) cleaner: String,
    /// The policy by which FFS allocates blocks, such as whole-file (see `twinfs compare --list`).
    #[arg(help_heading = "Policies", long, value_name = "POLICY", conflicts_with = "read_only")]
    pub(crate) alloc: Option<String>,
    /// The policy that writes changes back before anybody asks for it, such as update or
    /// delayed:flush-age=10s,flush-by=needer. It replaces the limit of two seconds: a crash may lose
    /// all data that the policy has not written yet (`twinfs frontier` shows how much). Longer ages save
    /// writes and lose more; fsync and unmounting write as always. `twinfs compare --list` shows all.
    #[arg(help_heading = "Policies", long, value_name = "POLICY", conflicts_with_all = ["read_only", "flight"])]
    pub(crate) flush: Option<String>,
    /// Write the state of the log into this file as JSON, twice a second and at the end, for
    /// `twinfs top --mount FILE`. For logs only.
    #[arg(help_heading = "Recording and watching", long, value_name = "FILE")]
    pub(crate) status: Option<PathBuf>,
    /// Record every operation in this file, which must not exist, for replays: names and sizes, no
    /// contents.
    #[arg(help_heading = "Recording and watching", long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// With --record: also record contents.
    #[arg(
        help_heading = "Recording and watching",
        long,
        requires = "record",
        conflicts_with = "flight"
    )]
    pub(crate) contents: bool,
    /// Log everything that enters the core in this file, which must not exist, so that
    /// `twinfs replay --verify` can repeat the run.
    #[arg(help_heading = "Recording and watching", long, value_name = "FILE", conflicts_with_all = ["record", "observe"])]
    pub(crate) flight: Option<PathBuf>,
    #[arg(help_heading = "Recording and watching", long, value_name = "CATEGORIES", value_parser = log_categories, help = log_help())]
    pub(crate) log: Option<Categories>,
    /// With --log: append the lines to this file. A mount in the background needs one.
    #[arg(help_heading = "Recording and watching", long, value_name = "FILE", requires = "log")]
    pub(crate) log_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) observe: ObserveMount,
    /// With --observe: write the figures to this file, which must not exist, as comma-separated values.
    #[arg(
        help_heading = "Recording and watching",
        long = "observe-file",
        alias = "observed",
        value_name = "FILE",
        requires = "observe"
    )]
    pub(crate) observed: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) nfs: Beside,
    /// The image file or block device.
    pub(crate) image: PathBuf,
    /// Where to mount it: an existing directory.
    pub(crate) dir: PathBuf,
}

/// An option of mount(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MountChoice {
    Suid,
    Nosuid,
    Dev,
    Nodev,
    Exec,
    Noexec,
    Ro,
    Rw,
}

impl MountChoice {
    /// Whether set-id bits count, if this option decides it.
    pub(crate) fn is_suid(self) -> Option<bool> {
        self.says(MountChoice::Suid, MountChoice::Nosuid)
    }

    /// Whether device nodes work, if this option decides it.
    pub(crate) fn is_dev(self) -> Option<bool> {
        self.says(MountChoice::Dev, MountChoice::Nodev)
    }

    /// Whether programs may be run, if this option decides it.
    pub(crate) fn is_exec(self) -> Option<bool> {
        self.says(MountChoice::Exec, MountChoice::Noexec)
    }

    /// Whether the mount is read-only, if this option decides it.
    pub(crate) fn is_read_only(self) -> Option<bool> {
        self.says(MountChoice::Ro, MountChoice::Rw)
    }

    fn says(self, yes: MountChoice, no: MountChoice) -> Option<bool> {
        (self == yes || self == no).then_some(self == yes)
    }
}

/// Unmount a volume; all data is on the device afterwards.
///
/// Returns when the process in the background has ended. A volume that could not be written, because
/// its disk failed or the host is full, is unmounted too, with an error that reports the loss.
#[derive(Args)]
pub(crate) struct Umount {
    /// Where it is mounted.
    pub(crate) dir: PathBuf,
    /// Report what is being waited for, and return, if the mount has not ended after this many seconds;
    /// unmounting goes on in the background. 0 waits without limit.
    #[arg(long = "timeout", alias = "limit", default_value_t = 60, value_name = "SECONDS")]
    pub(crate) limit: u64,
    /// Print what is being waited for; used by the part in the background.
    #[arg(long, hide = true)]
    pub(crate) tell: bool,
}
